/* Plans for a target. In: a function and a device's limits. Out: a plan with schedules. */
#include "schedule/target.h"

#include "plan/passes.h"
#include "schedule/passes.h"

const hr_target *hr_target_of(const hr_device_limits *limits) {
    return limits->compute ? &hr_target_cuda : &hr_target_cpu;
}

hr_status hr_schedule_create(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                             const hr_device_limits *limits, const hr_plan_options *options, hr_plan **out) {
    const hr_target *target = hr_target_of(limits);
    const hr_facts facts = target->facts(limits);
    hr_plan *plan;
    HR_TRY(hr_plan_create(function, extents, layouts, limits, &facts, options, &plan));
    hr_status status = target->schedule(extents, options && options->unfused, plan);
    if (status == HR_OK) status = hr_pass_check(plan);
    if (status != HR_OK) {
        hr_plan_destroy(plan);
        return status;
    }
    hr_schedule_summarise(plan);
    *out = plan;
    return HR_OK;
}

int hr_schedule_candidates(const hr_plan *plan, hr_tunables *out, int max) {
    return hr_target_of(&plan->limits)->candidates(plan, out, max);
}
