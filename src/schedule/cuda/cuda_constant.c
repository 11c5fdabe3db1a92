/* Which extents are numbers in the emitted source. In: a plan. Out: a yes for each. The others are arguments,
 * so that one object serves any of them. */
#include "schedule/cuda/cuda_choice.h"

#include "ir/visit.h"

static bool is_plain(const hr_expr *e, int extent) {
    return e->op == HR_OP_EXTENT && e->extent == extent;
}

/* A tensor's first axis may have any extent, if it is that and nothing else. */
static bool shapes_fix(const hr_function *function, int extent) {
    for (int t = 0; t < function->tensor_count; t++)
        for (int a = 0; a < function->tensors[t].rank; a++)
            if (hr_expr_has_extent(function->tensors[t].shape[a], extent) &&
                (a > 0 || !is_plain(function->tensors[t].shape[a], extent)))
                return true;
    return false;
}

/* So may a stage's outermost index, where blocks share it out. */
static bool stage_fixes(const hr_plan *plan, const hr_stage *stage, int extent) {
    const hr_function *function = plan->normal;
    const hr_contract *contract = stage->contract;
    bool rows = stage->task_count > 0;
    bool map = !hr_stage_has(stage, HR_STEP_REDUCE_ROW) && !hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) &&
               (!hr_stage_has(stage, HR_STEP_ROW) || hr_stage_can_split(plan, stage));
    for (int k = 0; k < stage->task_count + stage->row_count; k++) {
        int index = k < stage->task_count ? stage->task[k] : stage->row[k - stage->task_count];
        const hr_expr *size = function->indices[index].extent;
        if (!hr_expr_has_extent(size, extent)) continue;
        if (k > 0 || !(rows || map) || !is_plain(size, extent)) return true;
    }
    for (int k = 0; contract && k < contract->k_count; k++)
        if (hr_expr_has_extent(function->indices[contract->k[k]].extent, extent)) return true;
    return false;
}

bool hr_cuda_is_constant(const hr_plan *plan, int extent) {
    if (plan->general) return false;
    if (shapes_fix(plan->normal, extent)) return true;
    for (int i = 0; i < plan->stage_count; i++)
        if (stage_fixes(plan, &plan->stages[i], extent)) return true;
    return false;
}
