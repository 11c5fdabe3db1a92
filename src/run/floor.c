/* The least time this device needs for a kernel's work, by its measured roof.
 *
 * In: work (bytes, operations) and a roof. Out: seconds, and which limit they come from.
 *
 * Memory. The roof knows the rate of four mixes of traffic: read only, triad (one write in three), copy (one
 * in two), write only. Work with another share of writes can be done as a stretch of one measured mix
 * followed by a stretch of another, so the least time a byte is the lower hull of the measured times a byte
 * over the share of writes: never faster than what was measured, nor slower than what a mix of measured
 * streams does. On a GPU the hardware interleaves the reads and writes of all threads: no stretch of one
 * alone can be had, so only the two nearest mixes count.
 *
 * Arithmetic. Vector operations and special functions run on the same ports, so their times add up; where
 * the latter have units of their own (a GPU), the longer of the two counts. The rate of vector operations
 * counts a multiply-add as two. Products run on the unit that is fastest for their
 * operands, beside the rest.
 */
#include "run/kernel.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/cuda/choose_backward.h"
#include "schedule/schedule.h"

#include "base/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

hr_status hr_kernel_roof(hr_kernel *kernel, hr_progress_fn progress, void *progress_context) {
    if (kernel->roof_known) return HR_OK;
    HR_TRY(hr_device_roof(kernel->device, false, progress, progress_context, &kernel->roof));
    kernel->roof_known = true;
    return HR_OK;
}

/* ---- memory ---- */

static double memory_seconds(double read, double written, const hr_roof *roof) {
    const struct {
        double share, rate;
    } mixes[] = {{0, roof->read}, {1.0 / 3, roof->triad}, {0.5, roof->copy}, {1, roof->write}};
    enum { MIXES = sizeof mixes / sizeof *mixes };
    double bytes = read + written, share = bytes > 0 ? written / bytes : 0, best = INFINITY;
    for (int i = 0; i < MIXES; i++)
        for (int j = i; j < MIXES; j++) {
            if (!(mixes[i].rate > 0 && mixes[j].rate > 0)) continue;
            if (share < mixes[i].share || share > mixes[j].share) continue;
            if (roof->traffic_mixed && j > i + 1) continue; /* neighbours alone */
            double width = mixes[j].share - mixes[i].share;
            double along = width > 0 ? (share - mixes[i].share) / width : 0;
            best = fmin(best, (1 - along) / mixes[i].rate + along / mixes[j].rate);
        }
    if (!isfinite(best) && roof->copy > 0) best = 1 / roof->copy; /* an end of the scale was not measured */
    return isfinite(best) ? bytes * best : 0;
}

/* ---- products ---- */

static double at_rate(double operations, double rate) {
    return operations > 0 && rate > 0 ? operations / rate : 0;
}

static double product_rate(hr_dtype dtype, const hr_roof *roof) {
    double rate = dtype == HR_BF16                           ? roof->tensor_bf16
                  : dtype == HR_F16                          ? roof->tensor_f16
                  : dtype == HR_I8                           ? roof->tensor_i8
                  : dtype == HR_F8E4M3 || dtype == HR_F8E5M2 ? roof->tensor_f8
                  : dtype == HR_F64                          ? roof->vector_f64
                                                             : 0;
    return rate > 0 ? rate : roof->tensor_f32 > 0 ? roof->tensor_f32 : roof->vector_f32;
}

/* Products of f32 on Hopper are six of bf16 parts (schedule/cuda/gemm_operands.c), where that is faster than
 * what was measured for f32. */
static hr_roof roof_of_target(const hr_device_limits *limits, const hr_roof *roof) {
    enum { PRODUCTS_OF_PARTS = 6 };
    hr_roof out = *roof;
    if (limits->compute >= 90)
        out.tensor_f32 =
            fmax(fmax(roof->tensor_f32, roof->vector_f32), roof->tensor_bf16 / PRODUCTS_OF_PARTS);
    return out;
}

static double product_seconds(const hr_work *work, const hr_roof *roof) {
    double seconds = 0;
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
        seconds += at_rate(work->products[dtype], product_rate((hr_dtype)dtype, roof));
    return seconds;
}

/* ---- all of it ---- */

static bool computes_in_f64(const hr_function *function) {
    for (int s = 0; s < function->statement_count; s++)
        if (function->statements[s].value->type == HR_F64) return true;
    return false;
}

static void floor_raise(hr_floor *floor, double seconds, const char *bound) {
    if (seconds <= floor->seconds) return;
    floor->seconds = seconds;
    floor->bound = bound;
}

/* Of all special functions together; `largest`: of the kind that takes most, `kind`. */
static double special_seconds(const hr_work *work, const hr_roof *roof, hr_special *kind, double *largest) {
    double all = 0;
    *kind = HR_SPECIAL_NONE;
    *largest = 0;
    for (int s = HR_SPECIAL_NONE + 1; s < HR_SPECIAL_COUNT; s++) {
        double seconds = at_rate(work->special[s], roof->special[s]);
        all += seconds;
        if (!(seconds > *largest)) continue;
        *largest = seconds;
        *kind = (hr_special)s;
    }
    return all;
}

static void floor_by(const hr_work *work, const hr_roof *roof, double vector_rate, hr_floor *out) {
    hr_special kind;
    double largest, special = special_seconds(work, roof, &kind, &largest);
    double vector = at_rate(work->vector_flops, vector_rate);
    const char *arithmetic_bound = largest > vector ? hr_special_name(kind) : "vector";
    *out = (hr_floor){.bound = "launch",
                      .seconds = roof->launch,
                      .bytes = work->bytes_read + work->bytes_written,
                      .tensor_flops = work->tensor_flops,
                      .vector_flops = work->vector_flops};
    for (int s = HR_SPECIAL_NONE + 1; s < HR_SPECIAL_COUNT; s++)
        out->special_ops += work->special[s];
    double tensor = product_seconds(work, roof);
    double arithmetic = roof->special_beside ? fmax(vector, special) : vector + special;
    out->memory = memory_seconds(work->bytes_read, work->bytes_written, roof);
    out->others = fmax(roof->launch, fmax(tensor, arithmetic));
    floor_raise(out, out->memory, "memory");
    floor_raise(out, tensor, "tensor");
    floor_raise(out, arithmetic, arithmetic_bound);
}

void hr_floor_of(const hr_function *function, const hr_work *work, const hr_roof *roof, hr_floor *out) {
    floor_by(work, roof, computes_in_f64(function) ? roof->vector_f64 : roof->vector_f32, out);
}

hr_special hr_work_special(const hr_work *work, const hr_roof *roof) {
    hr_special kind;
    double largest, all = special_seconds(work, roof, &kind, &largest);
    all += at_rate(work->vector_flops, roof->vector_f32);
    return largest >= 0.5 * all ? kind : HR_SPECIAL_NONE;
}

/* What 16-bit values, or operands of a gradient, are multiplied by in a region of a GPU. */
static hr_dtype region_dtype(const hr_stage *stage) {
    switch (stage->schedule->kind) {
    case HR_SCHEDULE_CUDA_ATTENTION:
        return stage->schedule->attention->dtype;
    case HR_SCHEDULE_CUDA_BACKWARD:
        return stage->schedule->backward->dtype;
    default:
        return HR_F32;
    }
}

/* ---- a stage at a time: what its steps touch, each tensor once ---- */

typedef struct stage_count {
    const hr_plan *plan;
    const int64_t *extents;
    const hr_stage *stage;
    hr_work work;
    bool *tensors; /* read by this stage, or those before it whose strips of columns it goes through */
    bool *seen;    /* expressions of this step */
} stage_count;

static double size_of(const stage_count *count, int tensor) {
    const hr_function *normal = count->plan->normal;
    return hr_extent_bytes(normal, &normal->tensors[tensor], count->extents);
}

static double range_of(const stage_count *count, const int *indices, int index_count) {
    double range = 1;
    for (int i = 0; i < index_count; i++) {
        int64_t extent = 0;
        const hr_index *index = &count->plan->normal->indices[indices[i]];
        if (hr_extent_value(count->plan->normal, index->extent, count->extents, &extent) == HR_OK)
            range *= (double)extent;
    }
    return range;
}

static bool in_memory(const stage_count *count, int tensor) {
    return count->plan->normal->tensors[tensor].role != HR_ROLE_LOCAL ||
           (count->plan->materialised[tensor] && !hr_plan_is_in_hand(count->plan, tensor));
}

static void expr_count(stage_count *count, const hr_expr *expr, double times) {
    if (count->seen[expr->id]) return;
    count->seen[expr->id] = true;
    if (hr_op_is_reduction(expr->op)) times *= range_of(count, expr->bound, expr->bound_count);
    const hr_op_info *info = hr_op_info_of(expr->op);
    count->work.vector_flops += times * info->vector;
    count->work.special[info->special] += info->special ? times : 0;
    if (expr->op == HR_OP_ELEMENT && in_memory(count, expr->tensor) && !count->tensors[expr->tensor]) {
        const hr_role role = count->plan->normal->tensors[expr->tensor].role;
        count->tensors[expr->tensor] = true;
        if (role == HR_ROLE_INOUT || !hr_stage_makes(count->plan, count->stage, expr->tensor))
            count->work.bytes_read += size_of(count, expr->tensor);
    }
    for (int a = 0; a < expr->arg_count; a++)
        expr_count(count, expr->args[a], times);
}

static void step_count(stage_count *count, const hr_step *step) {
    const hr_statement *statement = &count->plan->normal->statements[step->statement];
    const hr_contract *contract = count->stage->contract;
    memset(count->seen, 0, (size_t)count->plan->normal->expr_count);
    if (!contract ||
        !hr_contract_makes(contract, statement->tensor)) /* a product is counted by its operands */
        expr_count(count, statement->value, range_of(count, statement->domain, statement->domain_count));
    if (in_memory(count, statement->tensor)) count->work.bytes_written += size_of(count, statement->tensor);
}

static int tensor_of(const stage_count *count, int step) {
    return count->plan->normal->statements[count->stage->steps[step].statement].tensor;
}

/* Each name once: an axis that is written out has a step for each of its elements. */
static bool is_named(const stage_count *count, int step) {
    for (int s = 0; s < step; s++)
        if (tensor_of(count, s) == tensor_of(count, step)) return true;
    return false;
}

static const char *names_materialised(const stage_count *count, hr_arena *names) {
    const char *list = "";
    for (int s = 0; s < count->stage->step_count; s++) {
        int tensor = tensor_of(count, s);
        const hr_tensor *local = &count->plan->normal->tensors[tensor];
        if (local->role != HR_ROLE_LOCAL || !in_memory(count, tensor) || is_named(count, s)) continue;
        if (hr_arena_room(names) < 4096) break;
        list = hr_arena_format(names, "%s%s%.64s", list, *list ? ", " : "", local->name);
    }
    return list;
}

/* `unmasked`: the part of the stage's points that counts. */
static void stage_describe(stage_count *count, const hr_roof *roof, double vector_rate, double unmasked,
                           hr_stage_info *out, hr_arena *names) {
    hr_floor floor;
    const hr_contract *contract = count->stage->contract;
    count->work = (hr_work){0};
    if (!count->stage->schedule->joins) memset(count->tensors, 0, (size_t)count->plan->normal->tensor_count);
    for (int s = 0; s < count->stage->step_count; s++)
        step_count(count, &count->stage->steps[s]);
    if (contract) {
        memset(count->seen, 0, (size_t)count->plan->normal->expr_count);
        double deep = range_of(count, contract->batch, contract->batch_count) *
                      range_of(count, contract->k, contract->k_count);
        double m = range_of(count, contract->m, contract->m_count),
               n = range_of(count, contract->n, contract->n_count);
        expr_count(count, contract->left, deep * m);
        expr_count(count, contract->right, deep * n);
        for (int i = 0; i < contract->stacked_count; i++)
            expr_count(count, contract->stacked[i].right, deep * n);
        count->work.tensor_flops = 2 * deep * m * n * unmasked * (1 + contract->stacked_count);
        hr_dtype dtype = hr_product_dtype(count->plan->normal, contract->left, contract->right);
        if (dtype == HR_F32) dtype = region_dtype(count->stage);
        count->work.products[dtype] = count->work.tensor_flops;
    }
    count->work.vector_flops *= unmasked;
    for (int s = 0; s < HR_SPECIAL_COUNT; s++)
        count->work.special[s] *= unmasked;
    floor_by(&count->work, roof, vector_rate, &floor);
    *out = (hr_stage_info){.shape = hr_shape_name(count->stage->shape),
                           .name = count->stage->name,
                           .why = count->stage->why,
                           .materialised = names_materialised(count, names),
                           .bytes = floor.bytes,
                           .flops = floor.tensor_flops + floor.vector_flops,
                           .floor_seconds = floor.seconds};
}

hr_status hr_stages_describe(const hr_plan *plan, const int64_t *extents, const hr_roof *measured,
                             hr_stage_info *out, hr_arena *names) {
    const hr_roof roof_here = roof_of_target(&plan->limits, measured), *roof = &roof_here;
    size_t tensors = (size_t)plan->normal->tensor_count + 1, exprs = (size_t)plan->normal->expr_count + 1;
    stage_count count = {.plan = plan, .extents = extents, .tensors = calloc(tensors + exprs, sizeof(bool))};
    if (!count.tensors) return hr_fail(HR_OUT_OF_MEMORY, "no memory to describe a plan");
    count.seen = count.tensors + tensors;
    double vector_rate = computes_in_f64(plan->source) ? roof->vector_f64 : roof->vector_f32;
    hr_status status = HR_OK;
    for (int s = 0; s < plan->stage_count && status == HR_OK; s++) {
        double unmasked;
        count.stage = &plan->stages[s];
        status = hr_plan_unmasked(plan, s, extents, &unmasked);
        if (status == HR_OK) stage_describe(&count, roof, vector_rate, unmasked, &out[s], names);
    }
    free(count.tensors);
    if (status == HR_OK && plan->stage_count == 1) { /* then the text's own count is exact */
        hr_work work;
        hr_floor floor;
        HR_TRY(hr_work_count(plan->source, extents, &work));
        hr_floor_of(plan->source, &work, roof, &floor);
        out[0].bytes = floor.bytes;
        out[0].flops = floor.tensor_flops + floor.vector_flops;
        out[0].floor_seconds = floor.seconds;
    }
    return status;
}

/* The weights of attention, which the text computes in f32, are rounded to the type of the values as they
 * become an operand, and so is what its gradients make of them: these products run at that type's rate. */
static hr_work work_of_regions(const hr_plan *plan, const hr_work *work) {
    hr_work out = *work;
    for (int s = 0; s < plan->stage_count; s++) {
        const hr_dtype dtype = region_dtype(&plan->stages[s]);
        if (dtype == HR_F32) continue;
        out.products[dtype] += out.products[HR_F32];
        out.products[HR_F32] = 0;
    }
    return out;
}

void hr_floor_of_state(const hr_kernel *kernel, const hr_prepared *state, const hr_work *given,
                       hr_floor *out) {
    const hr_work settled = work_of_regions(state->plan, given), *work = &settled;
    hr_roof roof = kernel->roof;
    if (!kernel->device->limits.compute && state->launch_threads == 1) roof.launch = 0;
    roof = roof_of_target(&kernel->device->limits, &roof);
    hr_floor_of(kernel->function, work, &roof, out);
}
