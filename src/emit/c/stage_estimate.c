/* A maximum that is estimated from the beginning of a row. In: a stage. Out: text. See stage_estimate.h. */
#include "emit/c/stage_estimate.h"

#include "emit/c/lane_loop.h"
#include "emit/c/lane_sums.h"

enum { ESTIMATE_LANES = 64 };

void hr_stage_estimate(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int number = 0;
    while (!s->stage->steps[number].estimated)
        number++;
    const hr_step *step = &s->stage->steps[number];
    const char *size = hr_emit_index_size(p, p->lane);
    hr_print(p, "const int64_t seen = exact || %s < %d ? %s : %d;", size, ESTIMATE_LANES, size,
             ESTIMATE_LANES);
    hr_lane_step largest = {.use = HR_LANE_REDUCE, .value = step->value, .reduce = step->reduce};
    largest.type = step->value->type;
    largest.id = number;
    hr_lane_pass lanes = {.step_count = 1, .steps = &largest, .first = "0", .last = "seen"};
    lanes.ways = lanes.unit =
        hr_cpu_walk_of(s->stage)->accumulators ? hr_cpu_walk_of(s->stage)->accumulators : 4;
    hr_lane_loop(p, &lanes);
    const char *result = hr_lane_result(p, &lanes, &largest);
    hr_emit_step_value(p, step, hr_format(p, "f32_estimate(%s, exact)", result), HR_F32);
}

const char *hr_stage_unsettled(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *sums = "";
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!step->settles) continue;
        const char *total = p->value[s->function->statements[step->statement].tensor];
        sums = hr_format(p, "%s%s!f32_is_settled(%s)", sums, *sums ? " || " : "", total);
    }
    return s->pipelined ? sums : hr_format(p, "!exact && (%s)", sums);
}
