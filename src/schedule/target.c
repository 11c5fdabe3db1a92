/* Plans for a target. In: a function and a device's limits. Out: a plan with schedules. */
#include "schedule/target.h"
#include "base/memory.h"

#include "plan/passes.h"
#include "schedule/schedule_passes.h"

const hr_kind hr_kind_list[HR_SCHEDULE_KINDS] = {
#define KIND(name, target, scope, word, what, when) {target, scope, word, what, when},
#include "schedule/kinds.def"
#undef KIND
};

const hr_target *hr_target_of(const hr_device_limits *limits) {
    return limits->compute ? &hr_target_cuda : &hr_target_cpu;
}

static void schedules_begin(hr_plan *plan, const hr_choice *choice) {
    hr_schedule *schedules = hr_arena_alloc(plan->arena, ((size_t)plan->stage_count + 1) * sizeof *schedules);
    for (int i = 0; i < plan->stage_count; i++) {
        schedules[i] = (hr_schedule){.knobs = hr_choice_knobs(choice, i)};
        plan->stages[i].schedule = &schedules[i];
    }
}

/* Sums whose rows choose what counts are products for attention alone. */
static bool leaves_out(const hr_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        if (stage->contract && stage->contract->leaves_out &&
            stage->schedule->kind != HR_SCHEDULE_CUDA_ATTENTION)
            return true;
    }
    return false;
}

typedef struct planning {
    const hr_function *function;
    const int64_t *extents;
    const hr_layout *layouts;
    const hr_device_limits *limits;
    const hr_schedule_options *options;
} planning;

static hr_status plan_with(const planning *p, const hr_facts *facts, hr_plan **out) {
    const long before = hr_memory_wants();
    const hr_target *target = hr_target_of(p->limits);
    const bool unfused = p->options->unfused || p->options->general;
    hr_plan *plan;
    HR_TRY(hr_plan_create(p->function, p->extents, p->layouts, p->limits, facts, unfused, &plan));
    plan->general = p->options->general;
    schedules_begin(plan, &p->options->choice);
    hr_status status = hr_choice_check(&p->options->choice, plan->stage_count);
    if (status == HR_OK) status = target->schedule(p->extents, unfused, plan);
    if (status == HR_OK) status = hr_schedule_obeys(plan, &p->options->choice);
    if (status == HR_OK) status = hr_schedule_check(plan);
    if (status == HR_OK) status = hr_pass_check(plan);
    const hr_status memory = hr_memory_status(before, "planning a kernel");
    if (memory != HR_OK) status = memory; /* what else is said may follow from it */
    if (status != HR_OK) {
        hr_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return HR_OK;
}

hr_status hr_schedule_create(const hr_function *function, const int64_t *extents, const hr_layout *layouts,
                             const hr_device_limits *limits, const hr_schedule_options *options,
                             hr_plan **out) {
    const hr_schedule_options none = {0};
    const planning p = {function, extents, layouts, limits, options ? options : &none};
    hr_facts facts = hr_target_of(limits)->facts(limits);
    if (p.options->general)
        facts.set &= ~(unsigned)(HR_FACT_GROUPED_PRODUCTS | HR_FACT_STACKED_PRODUCTS | HR_FACT_PARTIAL_SUMS);
    if (p.options->general) facts.set |= HR_FACT_ANY_EXTENTS;
    if (p.options->general || p.options->unfused) facts.set &= ~(unsigned)HR_FACT_ROWS_CHOOSE;
    HR_TRY(plan_with(&p, &facts, out));
    if (leaves_out(*out)) {
        hr_plan_destroy(*out);
        facts.set &= ~(unsigned)HR_FACT_ROWS_CHOOSE;
        HR_TRY(plan_with(&p, &facts, out));
    }
    hr_schedule_summarise(*out);
    return HR_OK;
}

hr_status hr_schedule_obeys(const hr_plan *plan, const hr_choice *choice) {
    for (int i = 0; i < choice->count; i++) {
        const hr_setting *setting = &choice->settings[i];
        const hr_kind *kind = &hr_kind_list[plan->stages[setting->stage].schedule->kind];
        if (!(hr_knob_list[setting->knob].schedules & kind->scope))
            return hr_fail(HR_BAD_INPUT, "tunable \"%s\" is set for stage %d, whose schedule (%s) has none",
                           hr_knob_list[setting->knob].label, setting->stage + 1, kind->word);
    }
    return HR_OK;
}

int hr_schedule_candidates(const hr_plan *plan, hr_choice *out, int max) {
    const hr_target *target = hr_target_of(&plan->limits);
    int count = 0;
    bool more = true;
    if (max > 0) out[count++] = (hr_choice){0};
    for (int turn = 1; more && count < max; turn++) {
        more = false;
        for (int i = 0; i < plan->stage_count && count < max; i++) {
            hr_knobs list[HR_STAGE_CANDIDATES];
            if (target->candidates(plan, &plan->stages[i], list, HR_STAGE_CANDIDATES) <= turn) continue;
            out[count++] = hr_choice_of(i, &list[turn]);
            more = true;
        }
    }
    return count;
}
