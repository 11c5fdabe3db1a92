/* The short axis beside the lane of a map, written out: rope's two halves, a quaternion's four parts. In: a
 * stage. Out: the same with more steps and an axis less.
 *
 * Under a loop over such an axis, what its elements share is read and widened for each of them anew, and a
 * loop over few lanes begins and ends more often. Written out, each element is a step of its own, equal
 * expressions are one node, and whatever the axis decides (a sign, the other half) is a number.
 */
#include "base/dtype.h"
#include "plan/fold.h"
#include "plan/passes.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 16, LINE = 64, NOT_WRITTEN = 1 };

/* ---- values ---- */

typedef struct writing {
    hr_graph *graph;
    int index; /* that `number` stands for */
    hr_expr *number;
    hr_expr **memo; /* by expr id */
    int memo_count;
} writing;

/* An element whose places are all on their axes needs no condition. */
static hr_expr *drop_guard(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    if (node->op != HR_OP_ELEMENT || !hr_element_is_guarded(graph->function, node)) return NULL;
    const hr_tensor *tensor = &graph->function->tensors[node->tensor];
    for (int a = 0; a < tensor->rank; a++)
        if (!hr_subscript_is_safe(graph->function, args[a], tensor->shape[a])) return NULL;
    return hr_graph_element(graph, node->tensor, tensor->rank, args);
}

static hr_expr *written(writing *w, hr_expr *node) {
    if (node->op == HR_OP_INDEX) return node->index == w->index ? w->number : node;
    if (!node->arg_count) return node;
    if (node->id < w->memo_count && w->memo[node->id]) return w->memo[node->id];
    hr_expr *args[HR_AXES_MAX + 2];
    for (int i = 0; i < node->arg_count; i++)
        args[i] = written(w, node->args[i]);
    hr_expr *result = drop_guard(w->graph, node, args);
    if (!result) result = hr_fold(w->graph, node, args);
    if (node->id < w->memo_count) w->memo[node->id] = result;
    return result;
}

hr_expr *hr_expr_at(hr_graph *graph, hr_expr *expr, int index, int64_t value) {
    writing w = {.graph = graph,
                 .index = index,
                 .number = hr_graph_whole(graph, value),
                 .memo_count = graph->function->expr_count};
    w.memo = calloc((size_t)w.memo_count + 1, sizeof *w.memo);
    hr_expr *result = w.memo ? written(&w, expr) : graph->spare;
    if (!w.memo) graph->full = true;
    free(w.memo);
    return result;
}

/* ---- whether it pays ---- */

static int count_elements(const hr_expr *node, bool *visited) {
    if (visited[node->id]) return 0;
    visited[node->id] = true;
    int count = node->op == HR_OP_ELEMENT;
    for (int i = 0; i < node->arg_count; i++)
        count += count_elements(node->args[i], visited);
    return count;
}

/* How many elements the steps read, each counted once; more than there can be where memory is out. */
static int elements_of(const hr_graph *graph, const hr_step *steps, int count) {
    bool *visited = calloc((size_t)graph->function->expr_count + 1, 1);
    int elements = 0;
    for (int i = 0; i < count && visited; i++)
        if (steps[i].stored) elements += count_elements(steps[i].value, visited);
    free(visited);
    return visited ? elements : graph->function->expr_count + 1;
}

/* A map in vectors whose results keep each row of lanes in whole lines. */
static bool is_candidate(const hr_graph *graph, const hr_stage *stage, int64_t lanes) {
    if (!stage->vector || stage->row_count < 2 || stage->pass_count != 1 || stage->contract) return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        const hr_statement *statement = &graph->function->statements[step->statement];
        int64_t size = (int64_t)hr_dtype_size(graph->function->tensors[statement->tensor].dtype);
        if (step->kind != HR_STEP_ELEMENT || hr_expr_draws(step->value)) return false;
        if (step->stored && lanes % LINE * size % LINE) return false;
    }
    return true;
}

/* ---- the stage ---- */

static hr_expr **written_subscripts(writing *w, const hr_statement *statement) {
    int count = statement->subscript_count;
    hr_expr **subscripts = hr_arena_alloc(w->graph->arena, (size_t)(count + 1) * sizeof *subscripts);
    for (int a = 0; a < count; a++)
        subscripts[a] = written(w, statement->subscripts[a]);
    return subscripts;
}

/* Appends the steps as they are where the index is `value`. */
static int write_steps(hr_graph *graph, const hr_stage *stage, int index, int value, hr_step *out) {
    writing w = {.graph = graph,
                 .index = index,
                 .number = hr_graph_whole(graph, value),
                 .memo_count = graph->function->expr_count};
    int count = 0;
    w.memo = calloc((size_t)w.memo_count + 1, sizeof *w.memo);
    for (int i = 0; i < stage->step_count && w.memo; i++) {
        if (!stage->steps[i].stored) continue; /* part of other values */
        hr_step *step = &out[count++];
        *step = stage->steps[i];
        step->value = written(&w, step->value);
        step->subscripts = written_subscripts(&w, &graph->function->statements[step->statement]);
    }
    if (!w.memo) graph->full = true;
    free(w.memo);
    return count;
}

hr_status hr_pass_write_out(hr_graph *graph, const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    int64_t lanes;
    if (plan->limits.compute || plan->tunables.unroll == NOT_WRITTEN || stage->row_count < 2) return HR_OK;
    int index = stage->row[stage->row_count - 2], lane = stage->row[stage->row_count - 1];
    const hr_expr *size = graph->function->indices[index].extent;
    HR_TRY(hr_extent_value(graph->function, graph->function->indices[lane].extent, extents, &lanes));
    if (size->op != HR_OP_NUMBER || size->whole < 2 || size->whole > HR_WRITTEN_MOST ||
        !is_candidate(graph, stage, lanes) || stage->step_count * size->whole > STEPS_MOST)
        return HR_OK;
    int values = (int)size->whole, count = 0;
    hr_step *steps = hr_arena_alloc(graph->arena, (size_t)(stage->step_count * values + 1) * sizeof *steps);
    for (int value = 0; value < values; value++)
        count += write_steps(graph, stage, index, value, steps + count);
    HR_TRY(hr_graph_status(graph));
    if (elements_of(graph, steps, count) >= values * elements_of(graph, stage->steps, stage->step_count))
        return HR_OK;
    int *row = hr_arena_alloc(graph->arena, (size_t)stage->row_count * sizeof *row);
    memcpy(row, stage->row, (size_t)stage->row_count * sizeof *row);
    row[stage->row_count - 2] = lane;
    stage->row = row;
    stage->row_count--;
    stage->steps = steps;
    stage->step_count = count;
    stage->written = graph->function->indices[index].name;
    return HR_OK;
}
