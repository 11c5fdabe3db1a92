/* What is asked of a schedule. In: a scheduled stage. Out: answers. Declared in schedule.h. */
#include "schedule/schedule.h"

bool hr_stash_has_rows(const hr_stage *stage) {
    const hr_stash *stash = hr_stash_of(stage);
    for (int i = 0; i < stash->count; i++)
        if (!stash->once[i]) return true;
    return false;
}

bool hr_stage_is_bound_by_operations(const hr_plan *plan, const hr_stage *stage) {
    return hr_limits_are_short(&plan->limits) && hr_stage_is_narrow(plan, stage);
}

hr_run hr_schedule_run(const hr_plan *plan, int stage) {
    hr_run run = {stage, stage};
    while (plan->stages[run.first].schedule->joins)
        run.first--;
    while (run.last + 1 < plan->stage_count && plan->stages[run.last + 1].schedule->joins)
        run.last++;
    return run;
}

bool hr_schedule_attends(const hr_plan *plan, int stage) {
    const hr_run run = hr_schedule_run(plan, stage);
    return run.first != run.last && plan->stages[run.first].contract;
}

bool hr_scatter_may_be_totalled(const hr_plan *plan, const hr_stage *stage) {
    if (!hr_stage_has(stage, HR_STEP_SCATTER) || hr_cpu_walk_of(stage)->order != HR_ORDER_LYING) return false;
    const hr_statement *statement = &plan->normal->statements[stage->steps[0].statement];
    return statement->store == HR_STORE_ADD && plan->normal->tensors[statement->tensor].dtype == HR_F32 &&
           statement->subscript_count > 0 && hr_plan_layout(plan, statement->tensor) == HR_LAYOUT_DENSE;
}

bool hr_scatter_is_totalled(const hr_plan *plan, const hr_stage *stage, int64_t places, int64_t points) {
    return hr_scatter_may_be_totalled(plan, stage) &&
           (places <= HR_SCATTER_NEAR || places <= points / 2 / (int64_t)sizeof(double));
}
