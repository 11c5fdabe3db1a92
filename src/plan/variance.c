/* A walk over the row that most rows skip. In: a scheduled stage. Out: its fallback_pass.
 *
 * The sum of (f - mean)^2 needs the mean, so the text walks the row once for each. With n the row's
 * length and any u,
 *
 *     sum (f - u)^2 = sum f^2 - 2 u sum f + n u^2,
 *
 * whose sums one walk makes; so do those of f - g, with u - g in place of u (first_guess.c). Where most of it
 * cancels, rounding would be all that is left: such rows, and
 * those with a NaN or an infinity, take the walk that the text asks for.
 */
#include "base/memory.h"
#include "plan/means.h"
#include "plan/passes.h"

#include <stdlib.h>

static bool is_one_a_row(const hr_graph *graph, const hr_stage *stage, const hr_expr *node) {
    bool *seen = hr_memory_zeros((size_t)graph->function->index_count + 1, 1), found = false;
    if (!seen) return false; /* only a shorter way is lost */
    hr_expr_mark_indices(node, seen);
    for (int i = 0; i < stage->row_count; i++)
        found = found || seen[stage->row[i]];
    free(seen);
    return !found;
}

/* f - g, with g one a row, where that is f and g is not NULL. */
static bool is_about(const hr_graph *graph, const hr_stage *stage, const hr_expr *value,
                     const hr_expr *summed, hr_expr **guess) {
    *guess = NULL;
    if (value == summed) return true;
    if (value->op != HR_OP_SUB || value->args[0] != summed) return false;
    *guess = value->args[1];
    return is_one_a_row(graph, stage, *guess);
}

/* The step that sums just this, or this less a guess, in an earlier pass and is not rounded, -1 = none. */
static int find_sum(const hr_graph *graph, const hr_stage *stage, const hr_expr *summed, int pass,
                    hr_expr **guess) {
    const hr_function *function = graph->function;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        bool whole = function->tensors[function->statements[step->statement].tensor].dtype == HR_F32;
        if (step->kind == HR_STEP_REDUCE_ROW && step->reduce == HR_OP_REDUCE_SUM && whole &&
            step->pass < pass && is_about(graph, stage, step->value, summed, guess))
            return i;
    }
    return -1;
}

/* As `square` is one. */
static hr_expr *squared(hr_graph *graph, const hr_expr *square, hr_expr *of) {
    hr_expr *args[] = {of, square->op == HR_OP_MUL ? of : square->args[1]};
    return hr_graph_with_args(graph, square, args);
}

static const hr_variance_sums *variance_of(hr_graph *graph, const hr_stage *stage, const hr_step *step) {
    if (step->kind != HR_STEP_REDUCE_ROW || step->reduce != HR_OP_REDUCE_SUM || step->value->type != HR_F32)
        return NULL;
    const hr_expr *difference = hr_squared_difference(step->value);
    if (!difference) return NULL;
    for (int side = 0; side < 2; side++) {
        hr_expr *summed = difference->args[side], *about = difference->args[1 - side], *guess;
        int sum = find_sum(graph, stage, summed, step->pass, &guess);
        if (sum < 0 || !is_one_a_row(graph, stage, about)) continue;
        hr_expr *centred = step->value;
        if (guess) {
            summed = stage->steps[sum].value;
            about = hr_graph_binary(graph, HR_OP_SUB, HR_F32, about, guess);
            centred = squared(graph, step->value, hr_graph_binary(graph, HR_OP_SUB, HR_F32, summed, about));
        }
        hr_variance_sums *sums = hr_arena_alloc(graph->arena, sizeof *sums);
        *sums = (hr_variance_sums){sum, squared(graph, step->value, summed), about, centred};
        return sums;
    }
    return NULL;
}

static bool walks_row(const hr_step *step) {
    return step->kind != HR_STEP_ROW && (step->kind != HR_STEP_ELEMENT || step->stored);
}

void hr_pass_variance(hr_graph *graph, hr_stage *stage) {
    for (int pass = 1; pass < stage->pass_count && !stage->fallback_pass; pass++) {
        bool fallback = true, any = false;
        for (int i = 0; i < stage->step_count; i++) {
            hr_step *step = &stage->steps[i];
            if (step->pass != pass || !walks_row(step)) continue;
            step->variance = variance_of(graph, stage, step);
            fallback = fallback && step->variance;
            any = true;
        }
        if (fallback && any) stage->fallback_pass = pass;
    }
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].pass != stage->fallback_pass) stage->steps[i].variance = NULL;
}
