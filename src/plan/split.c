/* Whether a stage over one index can be shared out element by element. In: a stage. Out: yes or no. */
#include "plan/plan.h"

static bool changes_argument(const hr_plan *plan, const hr_step *step) {
    int memory = plan->storage[plan->normal->statements[step->statement].tensor];
    return plan->normal->tensors[memory].role == HR_ROLE_INOUT;
}

bool hr_stage_can_split(const hr_plan *plan, const hr_stage *stage) {
    if (stage->task_count || stage->row_count != 1 || stage->pass_count != 1) return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_ROW || step->kind == HR_STEP_SCATTER) return false;
        if (step->kind == HR_STEP_ROW && changes_argument(plan, step)) return false;
    }
    return true;
}
