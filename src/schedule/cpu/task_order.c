/* Whether a stage takes its tasks in the order of the rows that they add to, or of those that they gather.
 * In: a stage. Out: `ordered`, `gathered`.
 *
 * In the order of the tasks a row that several of them use comes from memory each time (and goes back where
 * they add to it), and which one is next is known too late to prefetch it. Putting the tasks in order costs
 * about 15 ns each, which pays where rows are long and the tensor is larger than the caches.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/visit.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>
#include <string.h>

enum { ADDED_BYTES = 1024, GATHERED_BYTES = 2048 }; /* of a row */

/* A check, or the index, is among what an expression is made of. */
typedef struct hindrance {
    const hr_function *function;
    int index; /* -1 = none hinders */
} hindrance;

static hr_visit is_hindrance(const hr_expr *node, const void *context) {
    const hindrance *h = context;
    return hr_visit_until((node->op == HR_OP_ELEMENT && hr_element_is_checked(h->function, node)) ||
                          (node->op == HR_OP_INDEX && node->index == h->index));
}

static bool hinders(const hr_function *function, const hr_expr *node, int index) {
    return hr_expr_find(node, is_hindrance, &(hindrance){function, index});
}

/* Bytes of a row, the last axis, and of all rows. */
static hr_status sizes_of(const hr_function *function, int number, const int64_t *extents, int64_t *row,
                          int64_t *all) {
    const hr_tensor *tensor = &function->tensors[number];
    *row = *all = (int64_t)hr_dtype_size(tensor->dtype);
    for (int a = tensor->rank - 1; a >= 0; a--) {
        int64_t size;
        HR_TRY(hr_extent_value(function, tensor->shape[a], extents, &size));
        if (__builtin_mul_overflow(*all, size, all)) return hr_fail(HR_BAD_INPUT, "extents are too large");
        if (a == tensor->rank - 1) *row = *all;
    }
    return HR_OK;
}

/* ---- rows that are added to ---- */

/* Tasks of one index that each add to a whole row. Nothing but where the row is may need a check: faults are
 * told in the order of the tasks. */
static bool adds_rows(const hr_function *function, const hr_stage *stage) {
    if (!stage->step_count || stage->steps[0].kind != HR_STEP_SCATTER) return false;
    const hr_statement *statement = &function->statements[stage->steps[0].statement];
    int rank = statement->subscript_count;
    if (statement->store != HR_STORE_ADD || hr_statement_condition(statement)) return false;
    if (stage->task_count != 1 || stage->row_count != 1 || rank < 2) return false;
    const hr_expr *last = statement->subscripts[rank - 1];
    if (last->op != HR_OP_INDEX || last->index != stage->row[0]) return false;
    for (int a = 0; a < rank - 1; a++)
        if (hinders(function, statement->subscripts[a], stage->row[0])) return false;
    return !hinders(function, stage->steps[0].value, -1);
}

static hr_status order_added(hr_plan *plan, const hr_function *function, const int64_t *extents,
                             hr_stage *stage) {
    int64_t row, all;
    if (!adds_rows(function, stage)) return HR_OK;
    int tensor = function->statements[stage->steps[0].statement].tensor;
    HR_TRY(sizes_of(function, tensor, extents, &row, &all));
    const bool pays = row >= ADDED_BYTES && all > hr_limits_l2(&plan->limits);
    if (pays || hr_stage_knobs(stage)->order == HR_ORDER_BY_ROW)
        hr_cpu_walk_of(stage)->order = HR_ORDER_ADDED;
    return HR_OK;
}

/* ---- rows that are gathered ---- */

typedef struct gathering {
    const hr_graph *graph;
    const hr_stage *stage;
    bool *marked; /* by index */
    hr_expr *row; /* the one element whose row depends on data */
    bool other;   /* some other is checked, or walks a row of the task's own */
} gathering;

/* table[token[t], c], where nothing but that token needs a check. */
static bool is_gathered(gathering *g, const hr_expr *node) {
    const hr_function *function = g->graph->function;
    const hr_tensor *tensor = &function->tensors[node->tensor];
    int lane = g->stage->row[0];
    return tensor->rank == 2 && !hr_element_is_guarded(function, node) && node->args[1]->op == HR_OP_INDEX &&
           node->args[1]->index == lane && hr_subscript_is_safe(function, node->args[1], tensor->shape[1]) &&
           !hinders(function, node->args[0], lane);
}

static bool walks_own_row(const gathering *g, const hr_expr *node) {
    memset(g->marked, 0, (size_t)g->graph->function->index_count * sizeof *g->marked);
    hr_expr_mark_indices(node, g->marked);
    return g->marked[g->stage->row[0]] && g->marked[g->stage->task[0]];
}

static hr_visit look_for_rows(void *context, const hr_expr *node) {
    gathering *g = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    bool checked = hr_element_is_checked(g->graph->function, node);
    if (checked && !g->row && is_gathered(g, node))
        g->row = (hr_expr *)node;
    else if (checked || walks_own_row(g, node))
        g->other = true;
    return HR_VISIT_ON;
}

/* Tasks of one index that each read a whole row of one tensor and, of the others, what is the same for all
 * lanes or for all tasks: theirs would no longer be read as they lie. */
static hr_expr *gathers_rows(gathering *g) {
    const hr_stage *stage = g->stage;
    if (stage->task_count != 1 || stage->row_count != 1 || stage->pass_count != 1 ||
        !hr_stage_is_vector(stage))
        return NULL;
    hr_walk walk = {.enter = look_for_rows, .context = g};
    bool can = true;
    for (int i = 0; i < stage->step_count && can; i++) {
        const hr_step *step = &stage->steps[i];
        can = step->kind == HR_STEP_ELEMENT && !hr_expr_draws(step->value);
        if (can) hr_walk_through(&walk, step->value);
    }
    const bool once = hr_walk_end(&walk) == HR_OK; /* met twice, the row would be another */
    return can && once && !g->other ? g->row : NULL;
}

static hr_status order_gathered(hr_plan *plan, const int64_t *extents, hr_stage *stage, gathering *g) {
    const hr_function *function = g->graph->function;
    int64_t row, all, tasks, l2 = hr_limits_l2(&plan->limits), l3 = plan->limits.l3_bytes;
    hr_expr *gathered = hr_plan_has_lists(plan) ? NULL : gathers_rows(g);
    if (!gathered) return HR_OK;
    HR_TRY(sizes_of(function, gathered->tensor, extents, &row, &all));
    HR_TRY(hr_extent_value(function, function->indices[stage->task[0]].extent, extents, &tasks));
    int64_t cache = l3 > l2 ? l3 : l2;
    bool pays = row >= GATHERED_BYTES && all > cache && tasks > cache / row;
    if (pays || hr_stage_knobs(stage)->order == HR_ORDER_BY_ROW) {
        hr_cpu_walk_of(stage)->order = HR_ORDER_GATHERED;
        hr_cpu_walk_of(stage)->gathered = gathered;
    }
    return HR_OK;
}

hr_status hr_pass_task_order(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    const hr_graph *graph = plan->graph;
    const hr_function *function = graph->function;
    if (hr_stage_knobs(stage)->order == HR_ORDER_AS_THEY_COME || stage->contract) return HR_OK;
    if (hr_stage_has(stage, HR_STEP_SCATTER)) return order_added(plan, function, extents, stage);
    gathering g = {.graph = graph, .stage = stage};
    g.marked = hr_memory_zeros((size_t)function->index_count + 1, sizeof *g.marked);
    if (!g.marked) return hr_fail(HR_OUT_OF_MEMORY, "no memory to plan kernel %.60s", plan->source->name);
    hr_status status = order_gathered(plan, extents, stage, &g);
    free(g.marked);
    return status;
}
