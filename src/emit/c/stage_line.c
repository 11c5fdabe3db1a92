/* Results that leave in whole lines although each is less. In: a stage. Out: text. See stage_line.h. */
#include "emit/c/stage_line.h"

#include "base/dtype.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_c.h"
#include "ir/graph.h"
#include "schedule/schedule.h"

enum {
    LINE_BYTES = 64,
    END_BYTES = 1024 /* two lines, and the most vectors of a step, which an end of a row is less than */
};

static bool is_one_a_task(const hr_stage_printer *s, const hr_step *step) {
    return step->stored && (step->kind == HR_STEP_ROW || step->kind == HR_STEP_REDUCE_ROW) &&
           hr_stage_stores_in_order(s->plan, s->stage, step, 0);
}

/* Rows that leave in the order of the tasks, each from its beginning to its end, aligned to whole lines: what
 * the last pass streams first, since other results are as aligned as it is. */
static const hr_step *find_meeting(const hr_stage_printer *s) {
    const hr_stage *stage = s->stage;
    if (hr_limits_are_short(&s->plan->limits) || hr_cpu_walk_of(stage)->written_out ||
        hr_cpu_walk_of(stage)->segments.run || hr_stage_goes_by(s, HR_LOOP_JAM) || stage->row_count != 1 ||
        !stage->task_count ||
        (hr_stage_goes_by(s, HR_LOOP_PIPELINE) &&
         (hr_cpu_walk_of(stage)->jam > 1 || hr_cpu_walk_of(stage)->pipeline.direction == HR_REVERSED)))
        return NULL;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        if (hr_expr_draws(step->value)) return NULL; /* a row goes by tiles */
        if (step->pass == stage->pass_count - 1 && step->kind == HR_STEP_ELEMENT && step->stored &&
            hr_cpu_walk_streams(hr_cpu_walk_of(stage), hr_stage_target(s, step)))
            return hr_stage_stores_in_order(s->plan, stage, step, 1) ? step : NULL;
    }
    return NULL;
}

void hr_stage_find_lines(hr_stage_printer *s) {
    if (!hr_cpu_walk_of(s->stage)->whole_lines) return;
    s->meeting = find_meeting(s);
    for (int i = 0; i < s->stage->step_count && i < HR_STEPS_MAX; i++)
        if (&s->stage->steps[i] == s->meeting || is_one_a_task(s, &s->stage->steps[i]))
            s->line[i] = (signed char)++s->lines; /* at most HR_STEPS_MAX */
}

void hr_stage_lines_begin(hr_stage_printer *s, const char *begin) {
    hr_printer *p = s->p;
    const char *all = "";
    for (int i = 0; s->lines && i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!s->line[i]) continue;
        const hr_tensor *target = hr_stage_target(s, step);
        hr_print(p, "_Alignas(%d) %s line_%d[%d];", LINE_BYTES, hr_c_storage(target->dtype), i,
                 (step == s->meeting ? END_BYTES : 2 * LINE_BYTES) / (int)hr_dtype_size(target->dtype));
        const char *row = step == s->meeting ? hr_format(p, " * (%s)", hr_stage_row_size(p, s->stage)) : "";
        all = hr_format(p, "%s%scollector_of((char *)line_%d, %s + %s%s)", all, *all ? ", " : "", i,
                        hr_emit_tensor(p, s->function->statements[step->statement].tensor), begin, row);
    }
    if (s->lines) hr_print(p, "collector lines[] = {%s};", all);
}

bool hr_stage_line_put(hr_stage_printer *s, const hr_step *step, const char *value) {
    hr_dtype dtype = hr_stage_target(s, step)->dtype;
    int line = s->line[step - s->stage->steps];
    if (!line) return false;
    const char *wanted = hr_emit_if_wanted(s->p, s->function->statements[step->statement].tensor);
    if (*wanted) hr_print(s->p, "%s{", wanted);
    s->p->indent += *wanted != 0;
    hr_print(s->p, "*(%s *)collector_place(&lines[%d]) = %s;", hr_c_storage(dtype), line - 1, value);
    hr_print(s->p, "collector_leave(&lines[%d], %d);", line - 1, (int)hr_dtype_size(dtype));
    s->p->indent -= *wanted != 0;
    if (*wanted) hr_print(s->p, "}");
    return true;
}

void hr_stage_lines_join(hr_stage_printer *s, int pass, hr_lane_pass *lanes) {
    if (!s->meeting || pass != s->stage->pass_count - 1) return;
    int meeting = (int)(s->meeting - s->stage->steps);
    for (int i = 0; i < lanes->step_count; i++)
        if (lanes->steps[i].use == HR_LANE_STORE && lanes->steps[i].id == meeting)
            lanes->meeting = &lanes->steps[i];
    lanes->meeting_at = hr_format(s->p, "&lines[%d]", s->line[meeting] - 1);
}

void hr_stage_lines_end(hr_stage_printer *s) {
    for (int i = 0; i < s->lines; i++)
        hr_print(s->p, "collector_end(&lines[%d]);", i);
}

const char *hr_stage_lines_parameter(const hr_stage_printer *s) {
    return s->lines ? ", collector *lines" : "";
}

const char *hr_stage_lines_passed(const hr_stage_printer *s) {
    return s->lines ? ", lines" : "";
}
