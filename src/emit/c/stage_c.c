/* One stage as static C functions. In: a stage. Out: text. See stage_c.h. */
#include "emit/c/stage_c.h"

#include "emit/c/function_c.h"
#include "emit/c/lane_loop.h"
#include "emit/c/lane_pass.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_columns.h"
#include "emit/c/stage_dots.h"
#include "emit/c/stage_end.h"
#include "emit/c/stage_fallback.h"
#include "emit/c/stage_jam.h"
#include "emit/c/stage_line.h"
#include "emit/c/stage_order.h"
#include "emit/c/stage_parts.h"
#include "emit/c/stage_pipeline.h"
#include "emit/c/stage_pipeline_loop.h"
#include "emit/c/stage_scan.h"
#include "emit/c/stage_scatter.h"
#include "emit/c/stage_transpose.h"
#include "emit/reduce.h"
#include "schedule/schedule.h"

#include <inttypes.h>
#include <string.h>

/* Lanes of a stage without tasks are walked in blocks, after each of which f32 sums go into an f64 total. */
enum { SPLIT_BLOCK = 1 << 16 };

static bool uses_area(const hr_plan *plan, const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (hr_stage_collects(plan, stage, &stage->steps[i])) return true;
    return hr_stash_of(stage)->count || hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) ||
           hr_stage_has(stage, HR_STEP_REDUCE_ALL);
}

/* ---- elements one by one ---- */

/* A stage over no row: each task is one element. */
static void print_single_elements(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *values[HR_STEPS_MAX];
    int count = s->stage->step_count < HR_STEPS_MAX ? s->stage->step_count : HR_STEPS_MAX;
    for (int i = 0; i < count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind != HR_STEP_ELEMENT || !step->stored) continue;
        values[i] = hr_format(p, "e%d", i);
        hr_print(p, "const %s e%d = %s;", hr_c_compute(step->value->type), i,
                 hr_stage_scalar(s, step->value));
    }
    for (int i = 0; i < count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind != HR_STEP_ELEMENT || !step->stored) continue;
        const hr_statement *statement = hr_stage_statement(s, step);
        hr_print(p, "%s[%s] = %s;", hr_emit_tensor(p, statement->tensor),
                 hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
                 hr_emit_stored(p, values[i], step->value->type, hr_stage_target(s, step)->dtype));
    }
}

/* ---- a scatter into a result begins with zeros ---- */

static bool starts_at_zero(const hr_stage_printer *s) {
    if (!hr_stage_has(s->stage, HR_STEP_SCATTER)) return false;
    int tensor = hr_stage_statement(s, &s->stage->steps[0])->tensor;
    return s->plan->storage[tensor] == tensor && s->function->tensors[tensor].role != HR_ROLE_INOUT;
}

static void print_clear(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int tensor = hr_stage_statement(s, &s->stage->steps[0])->tensor;
    hr_print(p, "const int64_t size = %s;", hr_emit_elements(p, tensor));
    hr_print(p, "for (int64_t k = size * thread / threads; k < size * (thread + 1) / threads; k++) {");
    p->indent++;
    hr_emit_clear_element(p, tensor, "k");
    p->indent--;
    hr_print(p, "}");
}

/* ---- the stage ---- */

static void print_areas(hr_stage_printer *s) {
    hr_printer *p = s->p;
    if (!uses_area(s->plan, s->stage)) return;
    const char *area = hr_stage_goes_in_pieces(s->plan, s->stage)
                           ? "work"
                           : hr_format(p, "work + thread * (%s)", hr_stage_thread_text(p, s->stage));
    if (!hr_stage_goes_by(s, HR_LOOP_BLOCK)) hr_print(p, "char *const area = %s;", area);
    for (int k = 0; k < hr_stash_of(s->stage)->count; k++) {
        if (hr_stage_goes_by(s, HR_LOOP_PIPELINE) && !hr_stash_of(s->stage)->once[k]) continue;
        s->stash_name[k] = hr_format(p, "stash_%d", k);
        hr_print(p, "float *const stash_%d = (float *)(area + %s);", k,
                 hr_stage_area_offset(p, s->stage, -1, k));
    }
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind == HR_STEP_REDUCE_COLUMN) {
            const char *c_type = hr_c_compute(step->value->type);
            hr_print(p, "%s *const column_%d = (%s *)(area + %s);", c_type, i, c_type,
                     hr_stage_area_offset(p, s->stage, i, -1));
            hr_stage_column_totals(s, i, "area");
            if (!hr_cpu_walk_of(s->stage)->strip) hr_stage_column_start(s, i, hr_stage_row_size(p, s->stage));
        }
        if (step->kind == HR_STEP_REDUCE_ALL)
            hr_print(p, "%s total_%d = %s;", hr_reduce_type(step->reduce, hr_stage_reduced_type(s, step)), i,
                     hr_reduce_identity(step->reduce, hr_stage_reduced_type(s, step)));
    }
}

static void print_totals(hr_stage_printer *s) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].kind == HR_STEP_REDUCE_ALL)
            hr_print(s->p, "*(%s *)(area + %s) = total_%d;",
                     hr_reduce_type(s->stage->steps[i].reduce, hr_stage_reduced_type(s, &s->stage->steps[i])),
                     hr_stage_area_offset(s->p, s->stage, i, -1), i);
}

/* Rows that are the same for every task are stashed before the first. */
static void print_stash_once(hr_stage_printer *s) {
    hr_lane_step steps[HR_STASH_MAX];
    hr_lane_pass lanes = {.steps = steps, .first = "0", .ways = 1, .stash = hr_stash_of(s->stage)->value};
    for (int k = 0; k < hr_stash_of(s->stage)->count; k++)
        if (hr_stash_of(s->stage)->once[k])
            steps[lanes.step_count++] =
                (hr_lane_step){.use = HR_LANE_KEEP, .value = hr_stash_of(s->stage)->value[k], .id = 1000 + k};
    if (!lanes.step_count) return;
    for (int k = 0; k < hr_stash_of(s->stage)->count; k++)
        if (hr_stash_of(s->stage)->once[k]) s->stash_done[k] = false;
    lanes.last = hr_emit_index_size(s->p, s->p->lane);
    lanes.stash_count = hr_stash_of(s->stage)->count;
    lanes.stash_name = s->stash_name;
    lanes.stash_done = s->stash_done;
    hr_lane_loop(s->p, &lanes);
}

static const char *task_index(const hr_stage_printer *s, int i) {
    return hr_emit_index(s->p, s->stage->task[i]);
}

/* Several indices, counted on from task to task: dividing the task's number takes as long as some lines of a
 * short row. The innermost may have come to its end, and so, if it has, the others. */
static void print_counted_tasks(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int last = s->stage->task_count - 1;
    for (int i = 0; i <= last; i++)
        hr_print(p, "int64_t %s = 0;", task_index(s, i));
    hr_print(p, "const int64_t first_task = tasks * thread / threads;");
    hr_print(p, "if (first_task) {");
    p->indent++;
    hr_print(p, "int64_t rest = first_task;");
    hr_emit_indices(p, "", s->stage->task, s->stage->task_count);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "for (int64_t task = first_task; task < tasks * (thread + 1) / threads; task++, %s++) {",
             task_index(s, last));
    for (int i = last; i > 0; i--)
        hr_print(p, "    if (%s == %s) %s = 0, %s++;", task_index(s, i),
                 hr_emit_index_size(p, s->stage->task[i]), task_index(s, i), task_index(s, i - 1));
}

/* One run of tasks a thread, or `chunk` tasks at a time, round robin. */
static void print_task_header(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int chunk = hr_cpu_walk_of(s->stage)->chunk;
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    if (hr_stage_counts_tasks(s)) {
        print_counted_tasks(s);
        return;
    }
    if (!chunk) {
        hr_print(
            p,
            "for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; task++) {");
        return;
    }
    hr_print(p, "for (int64_t chunk = thread * %d; chunk < tasks; chunk += threads * %d) {", chunk, chunk);
    hr_print(p, "const int64_t chunk_end = chunk + %d < tasks ? chunk + %d : tasks;", chunk, chunk);
    hr_print(p, "for (int64_t task = chunk; task < chunk_end; task++) {");
}

/* The passes over the lanes `first` to `last`. */
static void print_lanes(hr_stage_printer *s) {
    for (int pass = 0; pass < s->stage->pass_count; pass++)
        hr_stage_pass(s, pass);
}

static void print_shares(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *size = hr_emit_lane_count(p); /* in whole cache lines */
    hr_print(p, "const int64_t lines = (%s + 63) / 64, share_end = lines * (thread + 1) / threads * 64;",
             size);
    hr_print(p, "const int64_t end = share_end < %s ? share_end : %s;", size, size);
    hr_print(p, "for (int64_t first = lines * thread / threads * 64; first < end; first += %d) {",
             SPLIT_BLOCK);
    p->indent++;
    hr_print(p, "const int64_t last = first + %d < end ? first + %d : end;", SPLIT_BLOCK, SPLIT_BLOCK);
    print_lanes(s);
    p->indent--;
    hr_print(p, "}");
}

static void print_pieces(hr_stage_printer *s) {
    hr_text body, *out = hr_print_aside(s->p, &body);
    print_lanes(s);
    hr_print_back(s->p, out);
    hr_list_c_loop(s->p, &body);
}

/* All indices are one axis: the lane's, and every other is 0. */
static void flatten(hr_stage_printer *s) {
    const hr_stage *stage = s->stage;
    int indices[HR_AXES_MAX], count = 0;
    for (int i = 0; i < stage->task_count; i++)
        indices[count++] = stage->task[i];
    for (int i = 0; i < stage->row_count; i++)
        indices[count++] = stage->row[i];
    s->p->flat = hr_format(s->p, "(%s)", hr_emit_points(s->p, indices, count));
    s->p->outer_count = 0;
}

static void print_flat_indices(hr_stage_printer *s) {
    const hr_stage *stage = s->stage;
    for (int i = 0; i < stage->task_count + stage->row_count - 1; i++) {
        int index = i < stage->task_count ? stage->task[i] : stage->row[i - stage->task_count];
        hr_print(s->p, "const int64_t %s = 0;", hr_emit_index(s->p, index));
        hr_print(s->p, "(void)%s;", hr_emit_index(s->p, index));
    }
}

/* What is one for the whole stage every thread computes; the first one stores it. */
static void print_split(hr_stage_printer *s) {
    hr_printer *p = s->p;
    if (p->flat) print_flat_indices(s);
    hr_stage_row_steps(s, 0);
    if (hr_plan_has_lists(s->plan))
        print_pieces(s);
    else
        print_shares(s);
    if (!hr_stage_has(s->stage, HR_STEP_ROW)) return;
    hr_print(p, "if (thread == 0) {");
    p->indent++;
    hr_stage_row_stores(s);
    p->indent--;
    hr_print(p, "}");
}

static void print_passes(hr_stage_printer *s) {
    bool estimates = hr_stage_estimates(s->stage);
    hr_stage_task_indices(s);
    if (s->stage->dots) {
        hr_stage_dots(s);
        return;
    }
    if (estimates) {
        hr_print(s->p, "for (bool exact = false;; exact = true) {");
        s->p->indent++;
    }
    for (int pass = 0; pass < s->stage->pass_count; pass++) {
        hr_stage_row_steps(s, pass);
        hr_stage_pass(s, pass);
        if (estimates && pass == 0) hr_print(s->p, "if (%s) continue;", hr_stage_unsettled(s));
    }
    if (!s->stage->row_count) print_single_elements(s);
    hr_stage_row_stores(s);
    if (!estimates) return;
    hr_print(s->p, "break;");
    s->p->indent--;
    hr_print(s->p, "}");
}

/* Every thread goes through all tasks, with its share of each one's cache lines. */
static void print_few(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const char *size = hr_emit_lane_count(p);
    hr_print(p, "const int64_t lines = (%s + 63) / 64, first = lines * thread / threads * 64;", size);
    hr_print(p, "const int64_t share = lines * (thread + 1) / threads * 64, last = share < %s ? share : %s;",
             size, size);
    hr_print(p, "for (int64_t task = 0; task < %s && first < last; task++) {", hr_stage_task_total(s));
    p->indent++;
    print_passes(s);
    p->indent--;
    hr_print(p, "}");
}

/* Groups of tasks: the passes of each, then the column sums of all. */
static void print_groups(hr_stage_printer *s) {
    hr_printer *p = s->p;
    hr_print(p, "const int64_t tasks = %s, end = tasks * (thread + 1) / threads;", hr_stage_task_total(s));
    hr_stage_chains_begin(s);
    hr_print(p, "for (int64_t group = tasks * thread / threads; group < end; group += %d) {",
             HR_COLUMN_GROUP);
    p->indent++;
    hr_print(p, "const int64_t group_end = group + %d < end ? group + %d : end;", HR_COLUMN_GROUP,
             HR_COLUMN_GROUP);
    hr_print(p, "for (int64_t task = group; task < group_end; task++) {");
    p->indent++;
    print_passes(s);
    p->indent--;
    hr_print(p, "}");
    hr_stage_columns(s, "group_end");
    hr_stage_chains_go_on(s, "group_end - group", NULL);
    p->indent--;
    hr_print(p, "}");
    hr_stage_chains_end(s);
}

static void print_tasks(hr_stage_printer *s) {
    hr_printer *p = s->p;
    hr_stage_lines_begin(s, hr_format(p, "%s * thread / threads", hr_stage_task_total(s)));
    hr_stage_chains_begin(s);
    print_task_header(s);
    p->indent++;
    print_passes(s);
    hr_stage_chains_go_on(s, "1", NULL);
    p->indent--;
    hr_print(p, "}");
    if (hr_cpu_walk_of(s->stage)->chunk) hr_print(p, "}");
    hr_stage_chains_end(s);
    hr_stage_lines_end(s);
}

static void print_transposed(hr_stage_printer *s) {
    hr_stage_transpose_loop(s, print_passes);
}

static void print_gathered(hr_stage_printer *s) {
    hr_order_loop(s, print_passes);
}

/* Those of stages that stand alone; a scatter has its own areas. */
static void (*const loops[])(hr_stage_printer *) = {
    [HR_LOOP_TASKS] = print_tasks,
    [HR_LOOP_LANES] = print_split,
    [HR_LOOP_FLAT] = print_split,
    [HR_LOOP_SHARES] = print_few,
    [HR_LOOP_JAM] = hr_stage_jam_loop,
    [HR_LOOP_PIPELINE] = hr_stage_pipeline_loop,
    [HR_LOOP_TRANSPOSED] = print_transposed,
    [HR_LOOP_GATHERED] = print_gathered,
    [HR_LOOP_GROUPS] = print_groups,
    [HR_LOOP_COLUMNS] = hr_stage_column_share,
    [HR_LOOP_STRIPS] = hr_stage_column_strips,
};

static bool has_streams(const hr_stage_printer *s) {
    if (s->lines) return true;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (hr_stage_goes_by(s, HR_LOOP_JAM) && hr_stage_collects(s->plan, s->stage, step)) return true;
        if (step->kind == HR_STEP_ELEMENT && step->stored &&
            hr_cpu_walk_streams(hr_cpu_walk_of(s->stage), hr_stage_target(s, step)))
            return true;
    }
    return false;
}

static void print_work(hr_stage_printer *s) {
    if (hr_stage_goes_by(s, HR_LOOP_SCATTER)) {
        hr_stage_scatter(s);
        return;
    }
    print_areas(s);
    print_stash_once(s);
    loops[hr_cpu_walk_of(s->stage)->loop](s);
    print_totals(s);
    if (has_streams(s)) hr_print(s->p, "stream_end();");
}

static void print_end(hr_stage_printer *s) {
    hr_emit_stage_end(s->p, s->stage);
}

static void print_function(hr_stage_printer *s, const char *suffix, const char *parameters,
                           void (*print)(hr_stage_printer *)) {
    hr_printer *p = s->p;
    hr_text body, *out = hr_print_aside(p, &body);
    print(s);
    hr_print_back(p, out);
    hr_emit_function(p, "static void", hr_format(p, "stage_%d%s", s->number, suffix), parameters, &body);
}

static void begin_stage(hr_stage_printer *s, hr_printer *p, int number) {
    const hr_stage *stage = &p->plan->stages[number];
    *s = (hr_stage_printer){
        .p = p, .stage = stage, .plan = p->plan, .function = p->function, .number = number};
    hr_printer_stage(p, stage);
    memset(p->even_odd_ways, 0, sizeof p->even_odd_ways);
}

static void print_words(const hr_stage_printer *s) {
    hr_print(s->p, "/* %s", s->stage->name);
    hr_print(s->p, s->p->flat ? " * %s; as one axis */" : " * %s */", s->stage->why);
}

static void print_run(hr_stage_printer *s) {
    hr_stage_printer head;
    begin_stage(&head, s->p, hr_schedule_run(s->plan, s->number).first);
    hr_stage_run_loop(&head);
    if (has_streams(s)) hr_print(s->p, "stream_end();");
}

/* The last stage of a run has the loop over its strips. */
static hr_status emit_joined(hr_stage_printer *s, hr_stage_functions *out) {
    *out = (hr_stage_functions){0};
    print_words(s);
    hr_stage_strip_function(s);
    if (s->number == hr_schedule_run(s->plan, s->number).last)
        print_function(s, "", HR_STAGE_PARAMETERS, print_run);
    return hr_text_status(s->p->out);
}

/* Rows between two products: those of a block. */
static hr_status emit_rows(hr_stage_printer *s, hr_stage_functions *out) {
    hr_printer *p = s->p;
    *out = (hr_stage_functions){0};
    print_words(s);
    hr_text body, *lines = hr_print_aside(p, &body);
    print_areas(s);
    print_stash_once(s);
    hr_print(p, "for (int64_t task = begin; task < end; task++) {");
    p->indent++;
    print_passes(s);
    p->indent--;
    hr_print(p, "}");
    hr_print_back(p, lines);
    hr_emit_function(
        p, "static void", hr_format(p, "stage_%d_rows", s->number),
        "const arguments *a, int64_t begin, int64_t end, int64_t from, int64_t limit, char *area", &body);
    return hr_text_status(p->out);
}

/* The functions besides its own, and how it is called. */
static hr_stage_functions functions_of(hr_stage_printer *s) {
    const hr_stage *stage = s->stage;
    const bool columns = hr_stage_has(stage, HR_STEP_REDUCE_COLUMN) && !hr_cpu_walk_of(stage)->strip;
    const bool pieces = hr_stage_goes_in_pieces(s->plan, stage);
    return (hr_stage_functions){.pieces = pieces,
                                .sums = pieces && hr_stage_has_sums(stage),
                                .begin = starts_at_zero(s),
                                .end = columns || hr_stage_has(stage, HR_STEP_REDUCE_ALL)};
}

/* Every index has a name: there are no lanes. */
static hr_status emit_ordered(hr_stage_printer *s, hr_stage_functions *out) {
    s->p->lane = -1;
    s->p->outer_count = 0;
    *out = (hr_stage_functions){.begin = hr_stage_has_parts(s->stage)};
    print_words(s);
    if (out->begin) print_function(s, "_begin", HR_STAGE_PARAMETERS, hr_stage_scan_parts);
    hr_printer_forget(s->p, HR_AT_TASK);
    print_function(s, "", HR_STAGE_PARAMETERS, hr_stage_ordered);
    return hr_text_status(s->p->out);
}

hr_status hr_emit_stage_c(hr_printer *p, int number, hr_stage_functions *out) {
    hr_stage_printer s;
    begin_stage(&s, p, number);
    if (hr_stage_goes_by(&s, HR_LOOP_ORDERED)) return emit_ordered(&s, out);
    if (hr_stage_goes_by(&s, HR_LOOP_BLOCK)) return emit_rows(&s, out);
    if (hr_stage_goes_by(&s, HR_LOOP_JOINED)) return emit_joined(&s, out);
    if (hr_stage_goes_by(&s, HR_LOOP_FLAT)) flatten(&s);
    hr_stage_find_lines(&s);
    *out = functions_of(&s);
    print_words(&s);
    if (out->begin) print_function(&s, "_begin", HR_STAGE_PARAMETERS, print_clear);
    if (hr_stage_goes_by(&s, HR_LOOP_PIPELINE)) hr_stage_pipeline_functions(&s);
    print_function(&s, "", HR_STAGE_PARAMETERS, print_work);
    hr_printer_stage(p, s.stage);
    p->lane = -1; /* the end names every index */
    if (out->end) print_function(&s, "_end", HR_STAGE_END, print_end);
    return hr_text_status(p->out);
}
