/* Passes that are mostly skipped, or done again. In: a stage. Out: text. See stage_fallback.h. */
#include "emit/c/stage_fallback.h"

#include "emit/c/lane_loop.h"
#include "emit/c/lane_sums.h"
#include "emit/c/scratch_c.h"

int hr_stage_variance_squares(hr_stage_printer *s, int pass, hr_lane_step *out, int max) {
    int count = 0;
    for (int i = 0; i < s->stage->step_count && count < max; i++) {
        const hr_variance_sums *sums = s->stage->steps[i].variance;
        if (!sums || s->stage->steps[sums->sum].pass != pass) continue;
        out[count++] = (hr_lane_step){.use = HR_LANE_REDUCE,
                                      .value = sums->square,
                                      .reduce = HR_OP_REDUCE_SUM,
                                      .type = sums->square->type,
                                      .id = HR_SQUARES + i};
    }
    return count;
}

const char *hr_stage_variance_stash(hr_stage_printer *s, const hr_lane_step *lane, const char *result) {
    const char *name = hr_format(s->p, "squares_%d", lane->id - HR_SQUARES);
    hr_print(s->p, "const float %s = %s;", name, result);
    return name;
}

void hr_stage_variance_settle(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *settled = NULL;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!step->variance) continue;
        const hr_step *sum = &s->stage->steps[step->variance->sum];
        const char *total = hr_emit_value(p, hr_stage_statement(s, sum)->tensor);
        hr_expr_prepare(p, step->value,
                        HR_AT_TASK); /* also for the pass itself, whose block ends before others use it */
        hr_print(p, "float about_%d;", i);
        settled = hr_format(p, "%s%sf32_squares_about(%s, squares_%d, %s, (double)(%s), &about_%d)",
                            settled ? settled : "", settled ? " & " : "", total, i,
                            hr_expr_text(p, step->variance->about), hr_stage_row_size(p, s->stage), i);
    }
    hr_print(p, "const bool settled = %s;", settled);
}

void hr_stage_variance_pass(hr_stage_printer *s, const hr_lane_pass *lanes) {
    hr_printer *p = s->p;
    hr_stage_variance_settle(s);
    hr_print(p, "if (!settled) {");
    p->indent++;
    hr_lane_loop(p, lanes);
    for (int i = 0; i < lanes->step_count; i++)
        hr_print(p, "about_%d = %s;", lanes->steps[i].id, hr_lane_result(p, lanes, &lanes->steps[i]));
    p->indent--;
    hr_print(p, "}");
    for (int i = 0; i < lanes->step_count; i++) {
        const hr_step *step = &s->stage->steps[lanes->steps[i].id];
        hr_emit_step_value(p, step, hr_format(p, "about_%d", lanes->steps[i].id), step->value->type);
    }
}

/* ---- a maximum that is estimated ---- */

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
        const char *total = hr_emit_value(p, hr_stage_statement(s, step)->tensor);
        sums = hr_format(p, "%s%s!f32_is_settled(%s)", sums, *sums ? " || " : "", total);
    }
    return hr_stage_goes_by(s, HR_LOOP_PIPELINE) ? sums : hr_format(p, "!exact && (%s)", sums);
}
