/* How much of their rows reductions read where data bound them. In: a plan and arrays. Out: less work.
 *
 * Bounds are evaluated for every task, as the emitted code does. Bytes of an input go by the part of its rows
 * that is read, where all that reads it is such a stage; operations where that stage is all there is. What
 * cannot be told counts whole. */
#include "run/data_bounds.h"

#include "base/dtype.h"
#include "base/memory.h"
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/row_bounds.h"
#include "run/mirror.h"

#include <stdlib.h>

enum { TASKS_MOST = 1 << 20 };

typedef struct counting {
    const hr_kernel *kernel;
    const hr_plan *plan;
    const int64_t *extents;
    hr_mirror *mirrors;
    int64_t *value; /* of each index */
    bool known;     /* all could be told so far */
} counting;

static int64_t value_of(counting *c, const hr_expr *expr);

/* Of an input that is bound, at subscripts inside its axes. */
static int64_t element_of(counting *c, const hr_expr *element) {
    const int t = element->tensor;
    const hr_tensor *tensor = &c->plan->normal->tensors[t];
    int64_t offset = 0;
    if (t >= c->plan->source->parameter_count || tensor->role != HR_ROLE_INPUT ||
        tensor->rank != c->plan->source->tensors[t].rank || hr_dtype_is_float(tensor->dtype)) {
        c->known = false;
        return 0;
    }
    const hr_binding *binding = &c->kernel->bindings[t];
    if (tensor->rank == 0) return (int64_t)binding->scalar;
    for (int a = 0; a < tensor->rank && c->known; a++) {
        const int64_t at = value_of(c, element->args[a]);
        c->known = c->known && binding->bound && at >= 0 && at < binding->shape[a];
        if (c->known) offset += at * binding->strides[a];
    }
    if (!c->known || !c->mirrors[t].data) {
        c->known = false;
        return 0;
    }
    hr_mirror_need(&c->mirrors[t], offset, 1, 1);
    return hr_dtype_load_whole(tensor->dtype, c->mirrors[t].data, (size_t)offset);
}

/* Of two numbers that data say: it may leave 64 bits. */
static int64_t of_two(counting *c, hr_op op, int64_t a, int64_t b) {
    int64_t out = 0;
    switch (op) {
    case HR_OP_ADD:
        c->known = c->known && !__builtin_add_overflow(a, b, &out);
        return out;
    case HR_OP_SUB:
        c->known = c->known && !__builtin_sub_overflow(a, b, &out);
        return out;
    case HR_OP_MUL:
        c->known = c->known && !__builtin_mul_overflow(a, b, &out);
        return out;
    case HR_OP_MIN:
        return a < b ? a : b;
    default:
        return a > b ? a : b;
    }
}

static int64_t value_of(counting *c, const hr_expr *expr) {
    int64_t a, b;
    if (!c->known) return 0;
    switch (expr->op) {
    case HR_OP_NUMBER:
        return expr->whole;
    case HR_OP_EXTENT:
        return c->extents[expr->extent];
    case HR_OP_INDEX:
        return c->value[expr->index];
    case HR_OP_ELEMENT:
        return element_of(c, expr);
    case HR_OP_CONVERT:
        c->known = expr->dtype == HR_I64 || expr->dtype == HR_I32;
        return value_of(c, expr->args[0]);
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
    case HR_OP_MIN:
    case HR_OP_MAX:
        a = value_of(c, expr->args[0]);
        b = value_of(c, expr->args[1]);
        return of_two(c, expr->op, a, b);
    default:
        c->known = false;
        return 0;
    }
}

/* What the task in hand reads of its row. */
static int64_t count_of(counting *c, const hr_row_bounds *bounds, int64_t size) {
    int64_t first = bounds->begin_count ? size : 0, last = bounds->end_count ? 0 : size;
    for (int k = 0; k < bounds->begin_count; k++) {
        const int64_t begin = value_of(c, bounds->begin[k]);
        if (begin < first) first = begin;
    }
    for (int k = 0; k < bounds->end_count; k++) {
        const int64_t end = value_of(c, bounds->end[k]);
        if (end > last) last = end;
    }
    if (first < 0) first = 0;
    if (last > size) last = size;
    return last > first ? last - first : 0;
}

/* The part of all rows of the stage that is read; 1 where that is not known. */
static double share_of(counting *c, const hr_stage *stage, const hr_row_bounds *bounds) {
    int64_t tasks = 1, size, extent, read = 0;
    if (hr_plan_points(c->plan, stage->task, stage->task_count, c->extents, &tasks) != HR_OK ||
        hr_plan_points(c->plan, stage->row, 1, c->extents, &size) != HR_OK || tasks > TASKS_MOST ||
        tasks < 1 || size < 1)
        return 1;
    c->known = true;
    for (int64_t task = 0; task < tasks && c->known; task++) {
        int64_t rest = task;
        for (int i = stage->task_count - 1; i >= 0; i--) {
            if (hr_plan_points(c->plan, &stage->task[i], 1, c->extents, &extent) != HR_OK || extent < 1)
                return 1;
            c->value[stage->task[i]] = rest % extent;
            rest /= extent;
        }
        read += count_of(c, bounds, size);
    }
    return c->known ? (double)read / ((double)tasks * (double)size) : 1;
}

/* Each element of it that is read lies along the rows. */
typedef struct along {
    int tensor, lane;
} along;

static hr_visit strays(const hr_expr *node, const void *context) {
    const along *of = context;
    return hr_visit_until(node->op == HR_OP_ELEMENT && node->tensor == of->tensor &&
                          !hr_expr_has_index(node, of->lane));
}

/* Nothing but the stage reads the input, and only in its rows. */
static bool is_read_in_rows(const hr_plan *plan, const hr_stage *stage, int tensor) {
    bool any = false;
    const along of = {tensor, hr_stage_lane(stage)};
    for (int k = 0; k < plan->stage_count; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++) {
            const hr_expr *value = plan->normal->statements[plan->stages[k].steps[i].statement].value;
            if (!hr_expr_reads(value, tensor)) continue;
            if (&plan->stages[k] != stage || hr_expr_find(value, strays, &of)) return false;
            any = true;
        }
    return any;
}

static void leave_out(const counting *c, const hr_stage *stage, double share, hr_work *work) {
    const hr_plan *plan = c->plan;
    for (int t = 0; t < plan->source->parameter_count; t++)
        if (plan->source->tensors[t].rank > 1 && is_read_in_rows(plan, stage, t))
            work->bytes_read -=
                (1 - share) * hr_extent_bytes(plan->source, &plan->source->tensors[t], c->extents);
    if (work->bytes_read < 0) work->bytes_read = 0;
    if (plan->stage_count > 1) return;
    work->vector_flops *= share;
    for (int s = 0; s < HR_SPECIAL_COUNT; s++)
        work->special[s] *= share;
}

hr_status hr_bounded_work(const hr_kernel *kernel, const hr_prepared *state, hr_work *out) {
    counting c = {.kernel = kernel, .plan = state->plan, .extents = state->extents};
    hr_status status = HR_OK;
    HR_TRY(hr_plan_work(state->plan, state->extents, out));
    for (int k = 0; k < state->plan->stage_count; k++) {
        const hr_stage *stage = &state->plan->stages[k];
        hr_row_bounds bounds;
        if (!hr_stage_read_bounds(state->plan, stage, &bounds)) continue;
        if (!c.mirrors) HR_TRY(hr_mirrors_create(kernel, &c.mirrors));
        if (!c.value)
            c.value = hr_memory_zeros((size_t)state->plan->normal->index_count + 1, sizeof *c.value);
        if (!c.value) {
            status = hr_fail(HR_OUT_OF_MEMORY, "no memory for what bounds from data leave");
            break;
        }
        leave_out(&c, stage, share_of(&c, stage, &bounds), out);
    }
    if (c.mirrors) hr_mirrors_destroy(kernel, c.mirrors);
    free(c.value);
    return status;
}
