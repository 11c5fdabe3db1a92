/* The parts of a stage's text that its loops share. In: a stage. Out: text. See stage_parts.h. */
#include "emit/c/stage_parts.h"

#include "base/dtype.h"
#include "emit/c/lane_even_odd.h"
#include "emit/c/lane_loop.h"
#include "emit/c/lane_sums.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_fallback.h"
#include "emit/c/stage_line.h"
#include "emit/c/stage_prefetch.h"
#include "emit/reduce.h"
#include "plan/row_bounds.h"

/* ---- the parts of a task ---- */

const char *hr_stage_scalar(hr_stage_printer *s, const hr_expr *value) {
    hr_printer *p = s->p;
    hr_expr_prepare(p, value, HR_AT_TASK);
    return hr_expr_text(p, value);
}

static bool is_row_total(const hr_stage_printer *s, const hr_step *step) {
    return hr_step_is_row_total(s->plan, s->stage, step);
}

static void add_to_total(hr_stage_printer *s, const hr_step *step, const char *text) {
    hr_printer *p = s->p;
    const char *total = hr_format(p, "total_%d", (int)(step - s->stage->steps));
    hr_print(p, "%s = %s;", total,
             hr_reduce_combine(p, step->reduce, hr_stage_reduced_type(s, step), total, text));
}

void hr_stage_row_steps(hr_stage_printer *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->pass != pass) continue;
        if (step->kind == HR_STEP_ROW)
            hr_emit_step_value(s->p, step, hr_stage_scalar(s, step->value), step->value->type);
        if (step->estimated && !hr_stage_goes_by(s, HR_LOOP_PIPELINE)) hr_stage_estimate(s);
        if (is_row_total(s, step)) add_to_total(s, step, hr_stage_scalar(s, step->value));
    }
}

/* What a task computes once is stored at its end, when nothing reads what stood there before. */
void hr_stage_row_stores(hr_stage_printer *s) {
    hr_printer *p = s->p;
    bool vector = p->vector;
    p->vector = false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!step->stored || (step->kind != HR_STEP_ROW && step->kind != HR_STEP_REDUCE_ROW)) continue;
        const hr_statement *statement = hr_stage_statement(s, step);
        hr_dtype dtype = hr_stage_target(s, step)->dtype;
        const char *value =
            hr_emit_stored(p, hr_emit_value(p, statement->tensor), hr_compute_type(dtype), dtype);
        if (!hr_stage_line_put(s, step, value))
            hr_print(p, "%s%s[%s] = %s;", hr_emit_if_wanted(p, statement->tensor),
                     hr_emit_tensor(p, statement->tensor),
                     hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                     value);
    }
    p->vector = vector;
}

/* ---- lane passes ---- */

static int lane_steps(hr_stage_printer *s, int pass, hr_lane_step *out) {
    int count = 0;
    for (int i = 0; i < s->stage->step_count && count < HR_STEPS_MAX; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->pass != pass || !hr_cpu_step_is_of_lanes(s->plan, s->stage, step)) continue;
        const hr_statement *statement = hr_stage_statement(s, step);
        hr_lane_step *lane = &out[count++];
        *lane =
            (hr_lane_step){.value = step->value, .reduce = step->reduce, .type = step->value->type, .id = i};
        lane->tensor = statement->tensor;
        lane->subscripts = step->subscripts;
        lane->use = step->kind == HR_STEP_ELEMENT         ? HR_LANE_STORE
                    : step->kind == HR_STEP_REDUCE_COLUMN ? HR_LANE_COLUMN
                                                          : HR_LANE_REDUCE;
        lane->collected = hr_stage_goes_by(s, HR_LOOP_JAM) && hr_stage_collects(s->plan, s->stage, step);
        lane->stream = lane->use == HR_LANE_STORE &&
                       hr_cpu_walk_streams(hr_cpu_walk_of(s->stage), hr_stage_target(s, step));
    }
    return count + hr_stage_variance_squares(s, pass, out + count, HR_STEPS_MAX - count);
}

/* Of bf16, two vectors that are a line cost less than two in order: of as many lanes as a line has. */
static bool goes_in_pairs(hr_stage_printer *s, const hr_lane_pass *lanes) {
    hr_lane_pass pair = *lanes;
    pair.ways = 2;
    return !hr_limits_are_short(&s->plan->limits) && hr_lane_is_even_odd(s->p, &pair, NULL);
}

/* A pass walks the lanes `first` to `last` of its row. */
static bool takes_part(hr_cpu_loop loop) {
    return loop == HR_LOOP_LANES || loop == HR_LOOP_FLAT || loop == HR_LOOP_PIPELINE ||
           loop == HR_LOOP_TRANSPOSED || loop == HR_LOOP_SHARES || loop == HR_LOOP_JOINED;
}

/* Of the rows between two products, where a mask leaves out keys before the first that counts. */
static bool starts_late(const hr_stage_printer *s) {
    const hr_stage *head = &s->plan->stages[hr_schedule_run(s->plan, s->number).first];
    return head->mask_begin || (head->contract && head->contract->mask);
}

hr_lane_pass hr_stage_lane_pass(hr_stage_printer *s, int pass, hr_lane_step *steps) {
    hr_printer *p = s->p;
    hr_lane_pass lanes = {
        .steps = steps, .stash = hr_stash_of(s->stage)->value, .stash_count = hr_stash_of(s->stage)->count};
    lanes.step_count = lane_steps(s, pass, steps);
    const bool part = takes_part(hr_cpu_walk_of(s->stage)->loop), block = hr_stage_goes_by(s, HR_LOOP_BLOCK);
    const bool late = block && starts_late(s);
    lanes.first = part ? "first" : late ? "from" : "0";
    lanes.last = part ? "last" : block ? "limit" : NULL;
    if (hr_stage_goes_by(s, HR_LOOP_PIPELINE)) {
        lanes.state = "row->";
        lanes.shifts = pass == s->stage->pass_count - 1;
        lanes.group = hr_cpu_walk_of(s->stage)->jam;
    }
    lanes.stash_name = s->stash_name;
    lanes.stash_done = s->stash_done;
    hr_random_list randoms;
    hr_lane_randoms(p, &lanes, &randoms);
    lanes.tile = randoms.count ? hr_cpu_walk_of(s->stage)->random_strip : 0;
    lanes.ways = hr_cpu_walk_of(s->stage)->unroll[pass];
    if (lanes.ways == HR_UNROLL_PAIR) lanes.ways = goes_in_pairs(s, &lanes) ? 2 : 1;
    lanes.unit = lanes.ways;
    lanes.chain = s->stage->schedule->chain;
    if (hr_cpu_walk_of(s->stage)->segments.run && !part && !late && !hr_stage_goes_by(s, HR_LOOP_JAM))
        lanes.segments = &hr_cpu_walk_of(s->stage)->segments;
    hr_stage_prefetch(s, pass, &lanes);
    hr_stage_lines_join(s, pass, &lanes);
    return lanes;
}

/* Where data say where rows begin and end: the lanes between, from a whole number of lines on. */
static void print_bounds(hr_stage_printer *s, hr_lane_pass *lanes) {
    hr_printer *p = s->p;
    const hr_cpu_loop loop = hr_cpu_walk_of(s->stage)->loop;
    hr_row_bounds bounds;
    if ((loop != HR_LOOP_TASKS && loop != HR_LOOP_SHARES && loop != HR_LOOP_GATHERED) || !lanes->step_count ||
        lanes->state || !hr_stage_row_bounds(s->plan, s->stage, &bounds))
        return;
    hr_print(p, "int64_t row_first = %s, row_last = %s;", bounds.begin_count ? "INT64_MAX" : lanes->first,
             bounds.end_count ? "0" : hr_lane_last(p, lanes));
    for (int k = 0; k < bounds.begin_count; k++) {
        const char *begin = hr_stage_scalar(s, bounds.begin[k]);
        hr_print(p, "if (%s < row_first) row_first = %s;", begin, begin);
    }
    for (int k = 0; k < bounds.end_count; k++) {
        const char *end = hr_stage_scalar(s, bounds.end[k]);
        hr_print(p, "if (%s > row_last) row_last = %s;", end, end);
    }
    if (bounds.begin_count)
        hr_print(p, "row_first = row_first > %s ? row_first / 64 * 64 : %s;", lanes->first, lanes->first);
    if (bounds.end_count)
        hr_print(p, "if (row_last > %s) row_last = %s;", hr_lane_last(p, lanes), hr_lane_last(p, lanes));
    hr_print(p, "if (row_first > row_last) row_first = row_last;");
    lanes->first = "row_first";
    lanes->last = "row_last";
    lanes->segments = NULL;
}

void hr_stage_pass(hr_stage_printer *s, int pass) {
    hr_printer *p = s->p;
    hr_lane_step steps[HR_STEPS_MAX];
    hr_lane_pass lanes = hr_stage_lane_pass(s, pass, steps);
    hr_stage_prefetch_place(s, pass, &lanes);
    print_bounds(s, &lanes);
    hr_stage_next_rows(s, pass, &lanes);
    if (pass && pass == s->stage->fallback_pass) {
        hr_stage_variance_pass(s, &lanes);
        return;
    }
    if (lanes.step_count) hr_lane_loop(p, &lanes);
    for (int i = 0; i < lanes.step_count; i++) {
        if (steps[i].use != HR_LANE_REDUCE) continue;
        const char *result = hr_lane_result(p, &lanes, &steps[i]);
        if (steps[i].id >= HR_SQUARES) {
            hr_stage_variance_stash(s, &steps[i], result);
            continue;
        }
        const hr_step *step = &s->stage->steps[steps[i].id];
        if (step->kind == HR_STEP_REDUCE_ALL)
            add_to_total(s, step, result);
        else
            hr_emit_step_value(s->p, step, result, hr_stage_reduced_type(s, step));
    }
}

bool hr_stage_counts_tasks(const hr_stage_printer *s) {
    return hr_stage_goes_by(s, HR_LOOP_TASKS) && s->stage->task_count > 1 && !hr_cpu_walk_of(s->stage)->chunk;
}

void hr_stage_task_indices(hr_stage_printer *s) {
    if (s->stage->task_count == 1) {
        hr_print(s->p, "const int64_t %s = task;", hr_emit_index(s->p, s->stage->task[0]));
        return;
    }
    if (s->stage->task_count && !hr_stage_counts_tasks(s)) {
        hr_print(s->p, "int64_t rest = task;");
        hr_emit_indices(s->p, "const int64_t ", s->stage->task, s->stage->task_count);
    }
    for (int i = 0; i < s->stage->task_count; i++)
        hr_print(s->p, "(void)%s;", hr_emit_index(s->p, s->stage->task[i]));
}

const char *hr_stage_task_total(hr_stage_printer *s) {
    return hr_emit_points(s->p, s->stage->task, s->stage->task_count);
}
