/* Stages that go through the same strips of columns one right after the other. In: scheduled stages. Out:
 * `joins`, `strip`.
 *
 * What softmax or a norm over an axis that is not the last needs are sums of columns, and sums of what those
 * give, and a map: stages that each read the same array. Where a strip of its columns, all tasks of it, stays
 * in a cache, all of them go through that strip before the next one, and the array comes from memory once.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "schedule/cpu/passes_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRIP_LEAST = 512, /* columns: pieces of rows too short for memory to be fast cost more than is gained */
    STRIP_MOST = 8192,
    STRIP_PART = 3,
    LANES_LEAST = 32,
    LINE = 64 /* elements: strips are whole cache lines of all types */
};

typedef struct run {
    const hr_function *function;
    hr_plan *plan;
    const int64_t *extents;
    int first, count; /* stages that go together */
    bool *read;       /* by tensor: by some stage of the run */
} run;

static const hr_statement *statement_of(const run *r, const hr_step *step) {
    return &r->function->statements[step->statement];
}

/* ---- which stages ---- */

/* The step of the run that gives the tensor its values. */
static const hr_step *maker_of(const run *r, int tensor) {
    for (int k = r->first; k < r->first + r->count; k++)
        for (int i = 0; i < r->plan->stages[k].step_count; i++)
            if (statement_of(r, &r->plan->stages[k].steps[i])->tensor == tensor)
                return &r->plan->stages[k].steps[i];
    return NULL;
}

/* Stops at what is checked or drawn, and where of what the run makes more than the strip in hand is read. */
static hr_visit read_node(void *context, const hr_expr *node) {
    run *r = context;
    if (node->op == HR_OP_RANDOM) return HR_VISIT_STOP;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_step *maker = maker_of(r, node->tensor);
    if (hr_element_is_checked(r->function, node)) return HR_VISIT_STOP;
    r->read[node->tensor] = true;
    for (int a = 0; maker && a < r->function->tensors[node->tensor].rank; a++) {
        const hr_expr *made = statement_of(r, maker)->subscripts[a];
        if (made->op != HR_OP_INDEX || node->args[a]->op != HR_OP_INDEX ||
            made->index != node->args[a]->index)
            return HR_VISIT_STOP;
    }
    return HR_VISIT_ON;
}

static bool all_read_well(run *r, const hr_stage *stage) {
    hr_walk walk = {.enter = read_node, .context = r};
    bool well = true;
    for (int i = 0; i < stage->step_count && well; i++)
        well = !hr_walk_through(&walk, stage->steps[i].value);
    hr_walk_end(&walk); /* what is read twice is read as well */
    return well;
}

/* A map over the same lanes and, among its tasks, the same rows of columns. */
static bool is_map_along(const hr_stage *head, const hr_stage *stage) {
    if (stage->shape != HR_SHAPE_MAP || !hr_stage_is_vector(stage) || stage->row_count != 1 ||
        stage->pass_count != 1)
        return false;
    if (hr_stage_lane(stage) != hr_stage_lane(head) || hr_cpu_walk_of(stage)->gathered ||
        !hr_stage_has_only(stage, HR_STEP_ELEMENT))
        return false;
    for (int i = 0; i < head->row_count - 1; i++)
        if (!hr_indices_have(stage->task, stage->task_count, head->row[i])) return false;
    return true;
}

static bool has_same_columns(const hr_stage *head, const hr_stage *stage) {
    if (stage->row_count != head->row_count) return false;
    return !memcmp(stage->row, head->row, (size_t)head->row_count * sizeof *head->row);
}

/* No memory that one stage writes is another's, but for what the run makes and reads. */
static bool is_memory_apart(const run *r) {
    const hr_plan *plan = r->plan;
    for (int k = r->first; k < r->first + r->count; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++) {
            const hr_step *step = &plan->stages[k].steps[i];
            int tensor = statement_of(r, step)->tensor;
            bool stored = step->stored || step->kind == HR_STEP_REDUCE_COLUMN;
            for (int t = 0; stored && t < r->function->tensor_count; t++) {
                bool used = r->read[t] || maker_of(r, t);
                if (used && t != tensor && plan->storage[t] == plan->storage[tensor]) return false;
            }
            if (r->function->tensors[tensor].role == HR_ROLE_INOUT) return false;
        }
    return true;
}

static hr_status find_run(run *r, int first) {
    hr_plan *plan = r->plan;
    const hr_stage *head = &plan->stages[first];
    bool ends = false;
    r->first = first;
    r->count = 0;
    memset(r->read, 0, (size_t)r->function->tensor_count * sizeof *r->read);
    for (int k = first; k < plan->stage_count && !ends; k++) {
        const hr_stage *stage = &plan->stages[k];
        bool sums;
        if (hr_stage_knobs(stage)->chunk || hr_stage_knobs(stage)->join) break;
        HR_TRY(hr_columns_stand_alone(plan, stage, &sums));
        bool map = !sums && k > first && is_map_along(head, stage);
        ends = map && stage->task_count >= head->row_count;
        if (!map && (!sums || !has_same_columns(head, stage))) break;
        if (!all_read_well(r, stage)) break;
        r->count++;
        if (is_memory_apart(r)) continue;
        r->count--;
        break;
    }
    return HR_OK;
}

/* ---- how wide a strip is ---- */

/* Bytes for each column: of what is read for all tasks, in the stage that has most of them. */
static hr_status column_bytes(const run *r, double *out) {
    double bytes = 0, tasks = 1;
    for (int k = r->first; k < r->first + r->count; k++) {
        const hr_stage *stage = &r->plan->stages[k];
        double points;
        if (!hr_stage_has(stage, HR_STEP_REDUCE_COLUMN)) continue;
        HR_TRY(hr_function_points(r->function, stage->task, stage->task_count, r->extents, &points));
        if (points > tasks) tasks = points;
    }
    for (int t = 0; t < r->function->tensor_count; t++)
        if (r->read[t] && !maker_of(r, t) && r->function->tensors[t].rank > 1)
            bytes += (double)hr_dtype_size(r->function->tensors[t].dtype);
    *out = bytes * tasks;
    return HR_OK;
}

/* A part of a core's second-level cache: the next strip is prefetched meanwhile, and results pass by. Where
 * that is no more than short pieces of rows, those, as long as the core's share of the third one holds them.
 * 0 = it does not pay. */
static hr_status choose_strip(const run *r, const hr_stage *head, int64_t *out) {
    const hr_device_limits *limits = &r->plan->limits;
    double bytes, rows, lanes, threads = (double)hr_limits_threads(limits);
    *out = 0;
    HR_TRY(column_bytes(r, &bytes));
    HR_TRY(hr_function_points(r->function, head->row, head->row_count - 1, r->extents, &rows));
    HR_TRY(hr_function_points(r->function, head->row + head->row_count - 1, 1, r->extents, &lanes));
    double most = (double)hr_limits_l2(limits) / STRIP_PART / bytes,
           far = (double)limits->l3_bytes / threads / 2 / bytes;
    double strip = lanes <= most ? lanes : most < STRIP_LEAST ? STRIP_LEAST : fmin(most, STRIP_MOST);
    if (!(bytes > 0) || lanes < LANES_LEAST || (strip > most && strip > far)) return HR_OK;
    if (rows * ceil(lanes / strip) < threads) return HR_OK;
    *out = ((int64_t)strip + LINE - 1) / LINE * LINE;
    return HR_OK;
}

/* ---- what only the run reads ---- */

static void mark_read_elsewhere(run *r, bool *read) {
    for (int k = 0; k < r->plan->stage_count; k++) {
        const hr_stage *stage = &r->plan->stages[k];
        if (k >= r->first && k < r->first + r->count) continue;
        for (int i = 0; i < stage->step_count; i++) {
            const hr_statement *statement = statement_of(r, &stage->steps[i]);
            hr_expr_mark_read(stage->steps[i].value, read);
            for (int a = 0; a < statement->subscript_count; a++)
                hr_expr_mark_read(statement->subscripts[a], read);
        }
        for (int side = 0; stage->contract && side < 2; side++)
            hr_expr_mark_read(side ? stage->contract->right : stage->contract->left, read);
    }
}

/* Its lanes lie side by side. */
static bool lies_along(const run *r, const hr_stage *head, const hr_step *step) {
    const hr_statement *s = statement_of(r, step);
    const hr_expr *last = s->subscript_count ? s->subscripts[s->subscript_count - 1] : NULL;
    return last && s->subscript_count == head->row_count && last->op == HR_OP_INDEX &&
           last->index == hr_stage_lane(head);
}

/* Of the run's own locals a strip is enough. */
static hr_status keep_in_strips(run *r) {
    hr_plan *plan = r->plan;
    const hr_stage *head = &plan->stages[r->first];
    bool *read = hr_memory_zeros((size_t)r->function->tensor_count + 1, sizeof *read);
    if (!read) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    mark_read_elsewhere(r, read);
    for (int k = r->first; k < r->first + r->count; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++) {
            const hr_step *step = &plan->stages[k].steps[i];
            int t = statement_of(r, step)->tensor;
            const hr_tensor *tensor = &r->function->tensors[t];
            plan->in_strips[t] = tensor->role == HR_ROLE_LOCAL && hr_plan_is_scratch(plan, t) && !read[t] &&
                                 hr_dtype_size(tensor->dtype) <= 4 && lies_along(r, head, step);
        }
    free(read);
    return HR_OK;
}

static hr_status join(run *r) {
    hr_stage *head = &r->plan->stages[r->first];
    int64_t strip;
    HR_TRY(choose_strip(r, head, &strip));
    if (!strip) return HR_OK;
    for (int k = r->first; k < r->first + r->count; k++) {
        hr_stage *stage = &r->plan->stages[k];
        stage->schedule->joins = k > r->first;
        hr_cpu_walk_of(stage)->partition = HR_PARTITION_COLUMNS;
        hr_cpu_walk_of(stage)->strip = strip;
        hr_cpu_walk_of(stage)->sums =
            hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) ? HR_SUMS_IN_REGISTERS : HR_SUMS_IN_CACHE;
        if (stage->schedule->joins)
            stage->why =
                hr_arena_format(r->plan->arena, "%s; each strip right after stage %d's", stage->why, k);
    }
    return keep_in_strips(r);
}

hr_status hr_pass_join_strips(const int64_t *extents, hr_plan *plan) {
    run r = {.function = plan->normal, .plan = plan, .extents = extents};
    if (!plan->stage_count) return HR_OK;
    r.read = hr_memory_zeros((size_t)r.function->tensor_count + 1, sizeof *r.read);
    hr_status status = HR_OK;
    size_t tensors = (size_t)r.function->tensor_count + 1;
    plan->in_strips = hr_arena_alloc(plan->arena, tensors * sizeof *plan->in_strips);
    memset(plan->in_strips, 0, tensors * sizeof *plan->in_strips);
    if (!r.read) status = hr_fail(HR_OUT_OF_MEMORY, "out of memory while planning");
    for (int k = 0; k < plan->stage_count && status == HR_OK;) {
        status = find_run(&r, k);
        if (status == HR_OK && r.count > 1) status = join(&r);
        k += r.count > 1 ? r.count : 1;
    }
    free(r.read);
    return status;
}
