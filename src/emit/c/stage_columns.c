/* Sums of columns. In: a stage. Out: text. See stage_columns.h. */
#include "emit/c/stage_columns.h"

#include "base/dtype.h"
#include "emit/c/function_c.h"
#include "emit/c/lane_loop.h"
#include "emit/c/lane_pass.h"
#include "emit/c/lane_step.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_prefetch.h"
#include "emit/reduce.h"

#include <inttypes.h>
#include <string.h>

void hr_stage_column_start(hr_stage_printer *s, int step, const char *columns) {
    const char *identity =
        hr_reduce_identity(s->stage->steps[step].reduce, s->stage->steps[step].value->type);
    hr_print(s->p, "for (int64_t j = 0; j < %s; j++)", columns);
    hr_print(s->p, "    column_%d[j] = %s;", step, identity);
}

/* ---- chains ---- */

static bool has_totals(const hr_stage_printer *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_step_has_column_totals(s->plan, &s->stage->steps[i])) return true;
    return false;
}

void hr_stage_column_totals(hr_stage_printer *s, int step, const char *area) {
    if (hr_step_has_column_totals(s->plan, &s->stage->steps[step]))
        hr_print(s->p, "double *const total_of_%d = (double *)(%s + %s);", step, area,
                 hr_stage_totals_offset(s->p, s->stage, step));
}

void hr_stage_chains_begin(hr_stage_printer *s) {
    if (has_totals(s)) hr_print(s->p, "int64_t chained = 0, folds = 0;");
}

void hr_stage_chains_go_on(hr_stage_printer *s, const char *tasks, const char *columns) {
    hr_printer *p = s->p;
    if (!has_totals(s)) return;
    if (!columns) columns = hr_stage_row_size(p, s->stage);
    hr_print(p, "chained += %s;", tasks);
    hr_print(p, "if (chained >= %lld) {", (long long)s->stage->schedule->chain);
    p->indent++;
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_step_has_column_totals(s->plan, &s->stage->steps[i]))
            hr_print(p, "f32_fold(column_%d, total_of_%d, %s, folds);", i, i, columns);
    hr_print(p, "chained = 0, folds++;");
    p->indent--;
    hr_print(p, "}");
}

void hr_stage_chains_end(hr_stage_printer *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_step_has_column_totals(s->plan, &s->stage->steps[i]))
            hr_print(s->p, "*(int64_t *)(area + %s) = folds;", hr_stage_folds_offset(s->p, s->stage, i));
}

/* ---- groups of tasks ---- */

enum { COLUMN_WAYS = 4 };

/* Where the sum of the lanes at i stands: the first is that of the pass's first lanes. */
static const char *sum_place(const hr_lane_pass *pass) {
    return strcmp(pass->first, "0") == 0 ? "i" : "i - first";
}

static void print_group_sums(hr_printer *p, const hr_lane_pass *pass, int ways, const char *count) {
    for (int i = 0; i < pass->step_count; i++) {
        int id = pass->steps[i].id;
        const char *values = "";
        for (int w = 0; w < ways; w++)
            values = hr_format(p, "%s%svf_load_%sf32(column_%d + %s + %d * HR_LANES%s)", values,
                               w ? ", " : "", *count ? "part_" : "", id, sum_place(pass), w, count);
        hr_print(p, "vf s%d[%d] = {%s};", id, ways, values);
    }
}

static void print_group_stores(hr_printer *p, const hr_lane_pass *pass, int ways, const char *count) {
    for (int i = 0; i < pass->step_count; i++)
        for (int w = 0; w < ways; w++)
            hr_print(p, "vf_store_%sf32(column_%d + %s + %d * HR_LANES, s%d[%d]%s);", *count ? "part_" : "",
                     pass->steps[i].id, sum_place(pass), w, pass->steps[i].id, w, count);
}

static void print_group_adds(hr_printer *p, const hr_lane_pass *pass) {
    const char *values[64];
    hr_printer_forget(p, HR_AT_LANE);
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_count_uses(p, pass->steps[i].value);
    for (int i = 0; i < pass->step_count; i++)
        values[i] = hr_expr_lanes(p, pass->steps[i].value);
    for (int i = 0; i < pass->step_count; i++) {
        const char *sum = hr_format(p, "s%d[%s]", pass->steps[i].id, p->way);
        hr_print(p, "%s = %s;", sum,
                 hr_reduce_combine_lanes(p, pass->steps[i].reduce, HR_F32, sum, values[i]));
    }
}

/* All tasks of the group, up to `last` or a whole one, on the lanes from i on. */
static void print_group_tasks(hr_stage_printer *s, const hr_lane_pass *pass, const char *last, int ways) {
    hr_printer *p = s->p;
    if (last) {
        hr_print(p, "for (int64_t task = group; task < %s; task++) {", last);
    } else {
        hr_text_format(p->out, "#pragma GCC unroll %d\n", HR_COLUMN_GROUP);
        hr_print(p, "for (int t = 0; t < %d; t++) {", HR_COLUMN_GROUP);
        hr_print(p, "    const int64_t task = group + t;");
    }
    p->indent++;
    hr_printer_forget(p, HR_AT_TASK);
    hr_stage_task_indices(s);
    for (int i = 0; i < pass->step_count; i++)
        hr_expr_prepare(p, pass->steps[i].value, HR_AT_TASK);
    for (int i = 0; i < pass->step_count && p->outer_count; i++)
        hr_expr_prepare(p, pass->steps[i].value, HR_AT_OUTER);
    hr_lane_prefetches(p, pass, ways);
    if (ways > 1) {
        hr_print(p, "const int64_t lane = i;");
        hr_text_format(p->out, "#pragma GCC unroll %d\n", ways);
        hr_print(p, "for (int way = 0; way < %d; way++) {", ways);
        hr_print(p, "    const int64_t i = lane + way * HR_LANES;");
        p->indent++;
        p->way = "way";
    }
    print_group_adds(p, pass);
    if (ways > 1) {
        p->way = "0";
        p->indent--;
        hr_print(p, "}");
    }
    p->indent--;
    hr_print(p, "}");
}

/* Sums over a group of tasks, one for each lane: the loop over the lanes is outside, that over the tasks
 * inside, so that the sums stay in registers for as many tasks as the group has. None of the steps needs a
 * value that the tasks compute. */
static void print_column_loop(hr_stage_printer *s, const hr_lane_pass *pass, const char *last) {
    hr_printer *p = s->p;
    hr_print(p, "int64_t i = %s;", pass->first);
    hr_print(p, "for (; i + %d * HR_LANES <= %s; i += %d * HR_LANES) {", COLUMN_WAYS, pass->last,
             COLUMN_WAYS);
    p->indent++;
    p->way = "0";
    print_group_sums(p, pass, COLUMN_WAYS, "");
    print_group_tasks(s, pass, last, COLUMN_WAYS);
    print_group_stores(p, pass, COLUMN_WAYS, "");
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "for (; i < %s; i += HR_LANES) {", pass->last);
    p->indent++;
    hr_print(p, "const int lanes = %s - i < HR_LANES ? (int)(%s - i) : HR_LANES;", pass->last, pass->last);
    p->body = HR_BODY_PART;
    print_group_sums(p, pass, 1, ", lanes");
    print_group_tasks(s, pass, last, 1);
    print_group_stores(p, pass, 1, ", lanes");
    p->body = HR_BODY_VECTOR;
    p->indent--;
    hr_print(p, "}");
    hr_printer_forget(p, HR_AT_TASK);
}

void hr_stage_columns(hr_stage_printer *s, const char *last) {
    hr_lane_step steps[HR_STEPS_MAX];
    const bool strip = hr_cpu_walk_of(s->stage)->strip;
    hr_lane_pass lanes = {.steps = steps,
                          .first = strip ? "first" : "0",
                          .last = strip ? "last" : hr_emit_index_size(s->p, s->p->lane)};
    for (int i = 0; i < s->stage->step_count && lanes.step_count < HR_STEPS_MAX; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_COLUMN)
            steps[lanes.step_count++] = (hr_lane_step){
                .use = HR_LANE_COLUMN, .value = step->value, .reduce = step->reduce, .type = HR_F32, .id = i};
    }
    hr_stage_prefetch(s, s->stage->pass_count, &lanes);
    hr_stage_prefetch_place(s, s->stage->pass_count, &lanes);
    print_column_loop(s, &lanes, last);
}

/* Where no column is chosen there are no groups. The first of them, as C. */
static const char *print_chosen(hr_stage_printer *s, const char *first) {
    hr_printer *p = s->p;
    const hr_expr *chosen = hr_stage_columns_chosen(s->plan, s->stage);
    const bool strip = hr_cpu_walk_of(s->stage)->strip;
    if (!chosen) return first;
    hr_print(p, "bool any = false;");
    hr_print(p, "for (int64_t i = %s; i < %s; i++) {", strip ? "first" : "0",
             strip ? "last" : hr_emit_index_size(p, p->lane));
    p->indent++;
    p->vector = false;
    hr_printer_forget(p, HR_AT_TASK);
    hr_expr_prepare(p, chosen, HR_AT_TASK);
    hr_expr_prepare(p, chosen, HR_AT_OUTER);
    hr_expr_count_uses(p, chosen);
    hr_print(p, "any = any || %s;", hr_expr_text(p, chosen));
    hr_printer_forget(p, HR_AT_TASK);
    p->vector = true;
    p->indent--;
    hr_print(p, "}");
    return hr_format(p, "any ? %s : end", first);
}

/* The tasks from `first` to `end`: whole groups of them, then the last few. */
static void print_groups(hr_stage_printer *s, const char *first, const char *columns) {
    hr_printer *p = s->p;
    hr_stage_chains_begin(s);
    hr_print(p, "int64_t group = %s;", print_chosen(s, first));
    hr_print(p, "for (; group + %d <= end; group += %d) {", HR_COLUMN_GROUP, HR_COLUMN_GROUP);
    p->indent++;
    hr_stage_columns(s, NULL);
    hr_stage_chains_go_on(s, hr_format(p, "%d", HR_COLUMN_GROUP), columns);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "if (group < end) {");
    p->indent++;
    hr_stage_columns(s, "end");
    p->indent--;
    hr_print(p, "}");
}

void hr_stage_column_share(hr_stage_printer *s) {
    hr_print(s->p, "const int64_t tasks = %s, end = tasks * (thread + 1) / threads;", hr_stage_task_total(s));
    print_groups(s, "tasks * thread / threads", NULL);
    hr_stage_chains_end(s);
}

/* ---- strips ---- */

static const char *column_sum(hr_stage_printer *s, int step) {
    const char *sum = hr_format(s->p, "column_%d[i - first]", step);
    if (!hr_step_has_column_totals(s->plan, &s->stage->steps[step])) return sum;
    return hr_format(s->p, "(folds ? (float)(total_of_%d[i - first] + %s) : %s)", step, sum, sum);
}

static void print_stores(hr_stage_printer *s) {
    hr_printer *p = s->p;
    hr_print(p, "for (int64_t i = first; i < last; i++) {");
    p->indent++;
    p->vector = false;
    for (int k = 0; k < s->stage->step_count; k++) {
        const hr_step *step = &s->stage->steps[k];
        if (step->kind != HR_STEP_REDUCE_COLUMN) continue;
        const hr_statement *statement = &s->function->statements[step->statement];
        hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
                 hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                 hr_emit_stored(p, column_sum(s, k), statement->value->type,
                                s->function->tensors[statement->tensor].dtype));
    }
    p->vector = true;
    p->indent--;
    hr_print(p, "}");
}

static void print_strip(hr_stage_printer *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_COLUMN) hr_stage_column_start(s, i, "last - first");
    print_groups(s, "0", "last - first");
    print_stores(s);
}

/* Strips of the columns that are part `part` of `parts`. */
static void print_part(hr_stage_printer *s, const char *part, const char *parts,
                       void (*print)(hr_stage_printer *)) {
    hr_printer *p = s->p;
    const char *size = hr_emit_index_size(p, p->lane);
    hr_print(p, "const int64_t share = lines * (%s + 1) / %s * 64, columns = share < %s ? share : %s;", part,
             parts, size, size);
    hr_print(p, "for (int64_t first = lines * %s / %s * 64; first < columns; first += %" PRId64 ") {", part,
             parts, hr_cpu_walk_of(s->stage)->strip);
    p->indent++;
    hr_print(p, "const int64_t last = columns - first < %" PRId64 " ? columns : first + %" PRId64 ";",
             hr_cpu_walk_of(s->stage)->strip, hr_cpu_walk_of(s->stage)->strip);
    print(s);
    p->indent--;
    hr_print(p, "}");
}

/* Threads share the columns, in whole cache lines, strip by strip. Under loops they share rows of columns, in
 * parts where those are fewer than the threads. */
static void print_strips(hr_stage_printer *s, void (*print)(hr_stage_printer *)) {
    hr_printer *p = s->p;
    hr_print(p, "const int64_t lines = (%s + 63) / 64;", hr_emit_index_size(p, p->lane));
    if (!p->outer_count) {
        print_part(s, "thread", "threads", print);
        return;
    }
    hr_print(p,
             "const int64_t rows = %s, parts = rows < threads ? (threads + rows - 1) / (rows + !rows) : 1;",
             hr_emit_points(p, p->outer, p->outer_count));
    hr_print(
        p,
        "for (int64_t unit = rows * parts * thread / threads; unit < rows * parts * (thread + 1) / threads; "
        "unit++) {");
    p->indent++;
    hr_print(p, "const int64_t part = unit %% parts;");
    hr_print(p, "int64_t rest = unit / parts;");
    hr_emit_indices(p, "const int64_t ", p->outer, p->outer_count);
    print_part(s, "part", "parts", print);
    p->indent--;
    hr_print(p, "}");
}

void hr_stage_column_strips(hr_stage_printer *s) {
    hr_print(s->p, "const int64_t end = %s;", hr_stage_task_total(s));
    print_strips(s, print_strip);
}

/* ---- stages that go together ---- */

static const hr_stage *head_of(const hr_stage_printer *s) {
    return &s->plan->stages[hr_schedule_run(s->plan, s->number).first];
}

/* Areas of the run's stages stand one after the other in each thread's own: where that of a stage does, and
 * with one past the last, how long all are. */
static const char *run_area(hr_printer *p, int begin, int number) {
    const char *place = "0";
    for (int k = begin; k < number; k++)
        place = hr_format(p, "%s + %s", place, hr_stage_thread_text(p, &p->plan->stages[k]));
    return place;
}

/* Locals of which the strip in hand is there. */
static void print_strips_of_locals(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_run run = hr_schedule_run(s->plan, s->number);
    for (int k = run.first; k <= run.last; k++) {
        const hr_stage *stage = &s->plan->stages[k];
        for (int i = 0; i < stage->step_count; i++) {
            const hr_statement *made = &s->function->statements[stage->steps[i].statement];
            const hr_tensor *tensor = &s->function->tensors[made->tensor];
            const char *name = hr_emit_tensor_name(p, made->tensor);
            if (!hr_plan_is_in_strips(s->plan, made->tensor) || !hr_is_used(p, name)) continue;
            const char *row =
                tensor->rank > 1 ? hr_emit_offset(p, made->tensor, made->subscripts, tensor->rank - 1) : "0";
            hr_print(p, "%s *const %s = strip_origin(area + %s + %s, (%s + first) * %d);",
                     hr_c_storage(tensor->dtype), name, run_area(p, run.first, k),
                     hr_stage_strip_offset(p, stage, i), row, (int)hr_dtype_size(tensor->dtype));
        }
    }
}

static void print_sums(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *place = run_area(p, hr_schedule_run(s->plan, s->number).first, s->number);
    for (int i = 0; i < s->stage->step_count; i++) {
        if (s->stage->steps[i].kind != HR_STEP_REDUCE_COLUMN) continue;
        const char *type = hr_c_compute(s->stage->steps[i].value->type);
        hr_print(p, "%s *const column_%d = (%s *)(area + %s + %s);", type, i, type, place,
                 hr_stage_area_offset(p, s->stage, i, -1));
        hr_stage_column_totals(s, i, hr_format(p, "area + %s", place));
    }
    hr_print(p, "const int64_t end = %s;", hr_stage_task_total(s));
    print_strip(s);
}

/* Whether the index is one of the rows of columns that the run's loops walk. */
static bool is_outer(const hr_stage_printer *s, int index) {
    const hr_stage *head = head_of(s);
    for (int i = 0; i < head->row_count - 1; i++)
        if (head->row[i] == index) return true;
    return false;
}

static void print_map(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int loops = 0;
    for (int i = 0; i < s->stage->task_count; i++) {
        const char *index = hr_emit_index(p, s->stage->task[i]);
        if (is_outer(s, s->stage->task[i])) continue;
        hr_print(p, "for (int64_t %s = 0; %s < %s; %s++) {", index, index,
                 hr_emit_index_size(p, s->stage->task[i]), index);
        p->indent++;
        loops++;
    }
    hr_stage_pass(s, 0);
    for (; loops; loops--) {
        p->indent--;
        hr_print(p, "}");
    }
}

void hr_stage_strip_function(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_stage *head = head_of(s);
    const char *parameters = "const arguments *a, char *area, int64_t first, int64_t last";
    hr_text body, whole, *out = hr_print_aside(p, &body);
    if (hr_stage_has(s->stage, HR_STEP_REDUCE_COLUMN))
        print_sums(s);
    else
        print_map(s);
    hr_print_back(p, out);
    out = hr_print_aside(p, &whole);
    for (int i = 0; i < head->row_count - 1; i++) {
        const char *index = hr_emit_index(p, head->row[i]);
        parameters = hr_format(p, "%s, int64_t %s", parameters, index);
        hr_print(p, "(void)%s;", index);
    }
    print_strips_of_locals(s);
    hr_print_body(p, &body);
    hr_print_back(p, out);
    hr_emit_function(p, "static void", hr_format(p, "stage_%d_strip", s->number), parameters, &whole);
}

static void print_calls(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *outer = "";
    for (int i = 0; i < p->outer_count; i++)
        outer = hr_format(p, "%s, %s", outer, hr_emit_index(p, p->outer[i]));
    for (int k = s->number; k <= hr_schedule_run(s->plan, s->number).last; k++)
        hr_print(p, "stage_%d_strip(a, area, first, last%s);", k, outer);
}

void hr_stage_run_loop(hr_stage_printer *s) {
    hr_print(s->p, "char *const area = work + thread * (%s);",
             run_area(s->p, s->number, hr_schedule_run(s->plan, s->number).last + 1));
    print_strips(s, print_calls);
}
