/* The short axis beside the lane of a map, written out: rope's two halves, a quaternion's four parts. In: a
 * stage. Out: the same with more steps and an axis less.
 *
 * Under a loop over such an axis, what its elements share is read and widened for each of them anew, and a
 * loop over few lanes begins and ends more often. Written out, each element is a step of its own, equal
 * expressions are one node, and whatever the axis decides (a sign, the other half) is a number.
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "plan/passes.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = 16, LINE = 64 };

/* ---- whether it pays ---- */

static hr_visit count_element(void *count, const hr_expr *node) {
    *(int *)count += node->op == HR_OP_ELEMENT;
    return HR_VISIT_ON;
}

/* How many elements the steps read, each counted once; more than there can be where memory is out. */
static int elements_of(const hr_graph *graph, const hr_step *steps, int count) {
    int elements = 0;
    hr_walk walk = {.enter = count_element, .context = &elements};
    for (int i = 0; i < count; i++)
        if (steps[i].stored) hr_walk_through(&walk, steps[i].value);
    return hr_walk_end(&walk) == HR_OK ? elements : graph->function->expr_count + 1;
}

/* A map in vectors whose results keep each row of lanes in whole lines. */
static bool is_candidate(const hr_graph *graph, const hr_stage *stage, int64_t lanes) {
    if (!hr_stage_is_vector(stage) || stage->row_count < 2 || stage->pass_count != 1 || stage->contract)
        return false;
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

static hr_expr **written_subscripts(hr_substitution *w, const hr_statement *statement) {
    int count = statement->subscript_count;
    hr_expr **subscripts =
        hr_arena_alloc(w->rewriting.graph->arena, (size_t)(count + 1) * sizeof *subscripts);
    for (int a = 0; a < count; a++)
        subscripts[a] = hr_substituted(w, statement->subscripts[a]);
    return subscripts;
}

/* Appends the steps as they are where the index is `value`. */
static int write_steps(hr_graph *graph, const hr_stage *stage, int index, int value, hr_step *out) {
    hr_substitution w;
    hr_substitution_begin(graph, index, value, &w);
    int count = 0;
    for (int i = 0; i < stage->step_count; i++) {
        if (!stage->steps[i].stored) continue; /* part of other values */
        hr_step *step = &out[count++];
        *step = stage->steps[i];
        step->value = hr_substituted(&w, step->value);
        step->subscripts = written_subscripts(&w, &graph->function->statements[step->statement]);
    }
    hr_substitution_end(&w);
    return count;
}

hr_status hr_pass_write_out(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_graph *graph = plan->graph;
    int64_t lanes;
    if (hr_stage_knobs(stage)->short_axis || stage->row_count < 2) return HR_OK;
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
    hr_cpu_walk_of(stage)->written_out = graph->function->indices[index].name;
    return HR_OK;
}
