/* Softmax and logsumexp without a pass for their largest element. In: a stage with values. Out: its passes.
 *
 * exp(x - c) / sum(exp(x - c)) is the same for every c that keeps the sum inside f32's range; the largest
 * element is only the safe choice. On a CPU the largest of a row's first lanes is nearly always as good: the
 * exponentials are added up with it, and where the sum then is out of range, NaN or 0, the pass is done again
 * with the largest of all. A row is read once less.
 */
#include "ir/graph.h"
#include "ir/visit.h"
#include "schedule/cpu/passes_cpu.h"

#include <stdlib.h>

static int tensor_of(const hr_graph *graph, const hr_step *step) {
    return graph->function->statements[step->statement].tensor;
}

/* The first two passes can become one, and be done twice: nothing else is reduced in the first, and both hold
 * reductions of rows and what is one a task, so that doing them again changes nothing that they read. */
static bool can_join(const hr_stage *stage, const hr_step *peak) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        bool reduces = step->kind == HR_STEP_REDUCE_ROW,
             inside = step->kind == HR_STEP_ELEMENT && !step->stored;
        if (step->pass == 0 && reduces && step != peak) return false;
        if (step->pass <= 1 && !reduces && !inside && step->kind != HR_STEP_ROW) return false;
    }
    return true;
}

static hr_step *find_reduction(const hr_graph *graph, hr_stage *stage, int tensor, hr_op reduce, int pass) {
    for (int i = 0; i < stage->step_count; i++) {
        hr_step *step = &stage->steps[i];
        bool same = step->kind == HR_STEP_REDUCE_ROW && step->reduce == reduce && step->pass == pass;
        bool plain = !step->stored && graph->function->statements[step->statement].value->type == HR_F32;
        if (same && plain && tensor_of(graph, step) == tensor) return step;
    }
    return NULL;
}

typedef struct values_of {
    const hr_graph *graph;
    const hr_stage *stage;
} values_of;

static hr_visit is_task_value(const hr_expr *expr, const void *context) {
    const values_of *of = context;
    for (int i = 0; i < of->stage->step_count && expr->op == HR_OP_ELEMENT; i++)
        if (of->stage->steps[i].kind == HR_STEP_ROW &&
            tensor_of(of->graph, &of->stage->steps[i]) == expr->tensor)
            return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

/* The estimate can be made a row ahead, before what is one a task is computed. */
static bool stands_alone(const hr_graph *graph, const hr_stage *stage, const hr_expr *value) {
    return !hr_expr_find(value, is_task_value, &(values_of){graph, stage});
}

/* All the sums over `peak`; false where one of them is elsewhere. */
static bool mark_sums(const hr_graph *graph, hr_stage *stage, int peak) {
    for (const hr_peak *p = graph->peaks; p; p = p->next) {
        hr_step *total = p->peak == peak ? find_reduction(graph, stage, p->total, HR_OP_REDUCE_SUM, 1) : NULL;
        if (p->peak == peak && !total) return false;
        if (total) total->settles = true;
    }
    return true;
}

bool hr_estimate_peak(const hr_plan *plan, hr_stage *stage) {
    const hr_graph *graph = plan->graph;
    if (!hr_stage_is_vector(stage) || stage->contract || stage->row_count != 1 || !stage->task_count)
        return false;
    hr_step *peak = NULL;
    for (const hr_peak *p = graph->peaks; p && !peak; p = p->next)
        peak = find_reduction(graph, stage, p->peak, HR_OP_REDUCE_MAX, 0);
    if (!peak || !can_join(stage, peak) || hr_expr_draws(peak->value)) return false;
    if (!stands_alone(graph, stage, peak->value)) return false;
    if (!mark_sums(graph, stage, tensor_of(graph, peak))) {
        for (int i = 0; i < stage->step_count; i++)
            stage->steps[i].settles = false;
        return false;
    }
    peak->estimated = true;
    stage->pass_count--;
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].pass > 0) stage->steps[i].pass--;
    return true;
}
