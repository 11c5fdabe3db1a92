/* Whether a stage takes its tasks in the order of the rows that they add to, or of those that they gather.
 * In: a stage. Out: `ordered`, `gathered`.
 *
 * In the order of the tasks a row that several of them use comes from memory each time (and goes back where
 * they add to it), and which one is next is known too late to ask for it. Putting the tasks in order costs
 * about 15 ns each, which pays where rows are long and the tensor is larger than the caches.
 */
#include "base/dtype.h"
#include "base/memory.h"
#include "ir/graph.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>
#include <string.h>

enum { ADDED_BYTES = 1024, GATHERED_BYTES = 2048 }; /* of a row */

/* A check, or the index, is among what the node is made of; nodes that were visited are not asked again. */
static bool hinders(const hr_function *function, const hr_expr *node, int index, bool *visited) {
    if (visited[node->id]) return false;
    visited[node->id] = true;
    if (node->op == HR_OP_ELEMENT && hr_element_is_checked(function, node)) return true;
    if (node->op == HR_OP_INDEX && node->index == index) return true;
    for (int i = 0; i < node->arg_count; i++)
        if (hinders(function, node->args[i], index, visited)) return true;
    return false;
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
static bool adds_rows(const hr_function *function, const hr_stage *stage, bool *visited) {
    if (!stage->step_count || stage->steps[0].kind != HR_STEP_SCATTER) return false;
    const hr_statement *statement = &function->statements[stage->steps[0].statement];
    int rank = statement->subscript_count;
    if (statement->store != HR_STORE_ADD || hr_statement_condition(statement)) return false;
    if (stage->task_count != 1 || stage->row_count != 1 || rank < 2) return false;
    const hr_expr *last = statement->subscripts[rank - 1];
    if (last->op != HR_OP_INDEX || last->index != stage->row[0]) return false;
    for (int a = 0; a < rank - 1; a++)
        if (hinders(function, statement->subscripts[a], stage->row[0], visited)) return false;
    return !hinders(function, stage->steps[0].value, -1, visited);
}

static hr_status order_added(hr_plan *plan, const hr_function *function, const int64_t *extents,
                             hr_stage *stage, bool *visited) {
    int64_t row, all;
    if (!adds_rows(function, stage, visited)) return HR_OK;
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
    bool *visited, *inner; /* by expr id, of values and of the gathered element's subscript */
    bool *marked;          /* by index */
    hr_expr *row;          /* the one element whose row depends on data */
    bool other;            /* some other is checked, or walks a row of the task's own */
} gathering;

/* table[token[t], c], where nothing but that token needs a check. */
static bool is_gathered(gathering *g, const hr_expr *node) {
    const hr_function *function = g->graph->function;
    const hr_tensor *tensor = &function->tensors[node->tensor];
    int lane = g->stage->row[0];
    return tensor->rank == 2 && !hr_element_is_guarded(function, node) && node->args[1]->op == HR_OP_INDEX &&
           node->args[1]->index == lane && hr_subscript_is_safe(function, node->args[1], tensor->shape[1]) &&
           !hinders(function, node->args[0], lane, g->inner);
}

static bool walks_own_row(const gathering *g, const hr_expr *node) {
    memset(g->marked, 0, (size_t)g->graph->function->index_count * sizeof *g->marked);
    hr_expr_mark_indices(node, g->marked);
    return g->marked[g->stage->row[0]] && g->marked[g->stage->task[0]];
}

static void look_for_rows(gathering *g, hr_expr *node) {
    if (g->visited[node->id]) return;
    g->visited[node->id] = true;
    if (node->op == HR_OP_ELEMENT) {
        bool checked = hr_element_is_checked(g->graph->function, node);
        if (checked && !g->row && is_gathered(g, node))
            g->row = node;
        else if (checked || walks_own_row(g, node))
            g->other = true;
    }
    for (int i = 0; i < node->arg_count; i++)
        look_for_rows(g, node->args[i]);
}

/* Tasks of one index that each read a whole row of one tensor and, of the others, what is the same for all
 * lanes or for all tasks: theirs would no longer be read as they lie. */
static hr_expr *gathers_rows(gathering *g) {
    const hr_stage *stage = g->stage;
    if (stage->task_count != 1 || stage->row_count != 1 || stage->pass_count != 1 ||
        !hr_stage_is_vector(stage))
        return NULL;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind != HR_STEP_ELEMENT || hr_expr_draws(step->value)) return NULL;
        look_for_rows(g, step->value);
    }
    return g->other ? NULL : g->row;
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
    size_t ids = (size_t)function->expr_count + 1;
    bool *visited = hr_memory_zeros(ids * 2 + (size_t)function->index_count, sizeof *visited);
    if (!visited) return hr_fail(HR_OUT_OF_MEMORY, "no memory to plan kernel %.60s", plan->source->name);
    gathering g = {graph, stage, visited, visited + ids, visited + 2 * ids, NULL, false};
    hr_status status = hr_stage_has(stage, HR_STEP_SCATTER)
                           ? order_added(plan, function, extents, stage, visited)
                           : order_gathered(plan, extents, stage, &g);
    free(visited);
    return status;
}
