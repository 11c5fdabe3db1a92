/* The loop over rows whose passes run side by side, and where their steps begin and end. In: a stage whose
 * functions over a row are printed. Out: text. See stage_pipeline_loop.h. */
#include "emit/c/stage_pipeline_loop.h"

#include "emit/c/function_c.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_columns.h"
#include "emit/c/stage_fallback.h"
#include "emit/c/stage_line.h"

/* ---- where a step begins and ends ---- */

static const char *area_passed(const hr_stage_printer *s) {
    return hr_pipeline_has_columns(s->stage) ? ", area" : "";
}

static const char *area_declared(const hr_stage_printer *s) {
    return hr_pipeline_has_columns(s->stage) ? ", char *area" : "";
}

/* What a row begins a pass with. The fallback pass comes before it where the row needs that. */
static void print_enters(hr_stage_printer *s, int position) {
    hr_printer *p = s->p;
    int pass = hr_stage_pass_at(s->stage, position), number = s->number, fallback = s->stage->fallback_pass;
    if (!fallback || pass != fallback + 1) {
        hr_print(p, "if (live[%d]) stage_%d_enter_%d(a, live[%d]);", position, number, pass, position);
        return;
    }
    hr_print(p, "if (live[%d]) {", position);
    hr_print(p, "    stage_%d_enter_%d(a, live[%d]);", number, fallback, position);
    hr_print(p, "    if (!live[%d]->settled) stage_%d_pass_%d(a, live[%d]%s, 0, %s);", position, number,
             fallback, position, area_passed(s), hr_emit_index_size(p, p->lane));
    hr_print(p, "    stage_%d_enter_%d(a, live[%d]);", number, pass, position);
    hr_print(p, "}");
}

/* What is one a row, as far as the passes before this one have brought it. */
static void print_all_enters(hr_stage_printer *s) {
    hr_printer *p = s->p;
    if (hr_stage_estimates(s->stage)) {
        hr_print(p, "if (live[0]) stage_%d_estimate(a, live[0], false);", s->number);
        hr_print(p, "if (live[1]) stage_%d_settle(a, live[1]%s);", s->number, area_passed(s));
    }
    for (int position = 0; position < hr_stage_main_passes(s->stage); position++)
        print_enters(s, position);
}

/* What the rows of a step begin with. Returns how many of their lanes the passes can do side by side. */
static void print_start(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int passes = hr_stage_main_passes(s->stage), last = s->stage->pass_count - 1, number = s->number;
    const char *size = hr_emit_index_size(p, p->lane);
    hr_text body, *out = hr_print_aside(p, &body);
    print_all_enters(s);
    hr_print(p, "*shift = 0;");
    hr_print(p, "for (int place = 0; place < %d; place++)", passes);
    hr_print(p, "    if (!live[place]) return 0;");
    hr_print(p, "const int64_t lanes = %d * HR_LANES, ahead = stage_%d_shift(a, live[%d]);", s->together,
             number, passes - 1);
    hr_print(p, "const int64_t done = ahead < %s ? (%s - ahead) / lanes * lanes : 0;", size, size);
    hr_print(p, "if (done) *shift = ahead;");
    hr_print(p, "if (*shift) stage_%d_pass_%d(a, live[%d]%s, 0, 0%s);", number, last, passes - 1,
             area_passed(s), hr_stage_lines_passed(s));
    hr_print(p, "return done;");
    hr_print_back(p, out);
    hr_emit_function(p, "static int64_t", hr_format(p, "stage_%d_start", number),
                     hr_format(p, "const arguments *a, stage_%d_row **live%s, int64_t *shift%s", number,
                               area_declared(s), hr_stage_lines_parameter(s)),
                     &body);
}

/* The rest of a row in the pass at a position. */
static void print_rest(hr_stage_printer *s, int position) {
    bool last = position == hr_stage_main_passes(s->stage) - 1;
    const char *size = hr_emit_index_size(s->p, s->p->lane);
    hr_print(s->p, "if (live[%d] && done%s < %s) stage_%d_pass_%d(a, live[%d]%s, done, %s%s);", position,
             last ? " + shift" : "", size, s->number, hr_stage_pass_at(s->stage, position), position,
             area_passed(s), size, last ? hr_stage_lines_passed(s) : "");
}

/* What is left of the rows of a step. */
static void print_finish(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int passes = hr_stage_main_passes(s->stage), number = s->number;
    hr_text body, *out = hr_print_aside(p, &body);
    for (int position = passes - 1; position >= 0; position--)
        print_rest(s, position);
    hr_print(p, "if (live[%d]) stage_%d_leave(a, live[%d]%s);", passes - 1, number, passes - 1,
             hr_stage_lines_passed(s));
    hr_print_back(p, out);
    hr_emit_function(p, "static void", hr_format(p, "stage_%d_finish", number),
                     hr_format(p, "const arguments *a, stage_%d_row **live%s, int64_t done, int64_t shift%s",
                               number, area_declared(s), hr_stage_lines_parameter(s)),
                     &body);
}

void hr_stage_pipeline_ends(hr_stage_printer *s) {
    print_start(s);
    print_finish(s);
}

/* ---- the loop over rows ---- */

/* The states of rows that live at once, and so many that rows stashed in as many slots do not meet. */
static int live_rows(const hr_stage *stage) {
    int rows = hr_stage_main_passes(stage) * hr_cpu_walk_of(stage)->jam;
    for (int i = 0; i < hr_stash_of(stage)->count; i++) {
        int slots = hr_stage_stash_slots(stage, i);
        if (rows % slots) return (rows / slots + 1) * slots;
    }
    return rows;
}

static void print_rows(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int rows = live_rows(s->stage);
    hr_print(p, "stage_%d_row rows[%d];", s->number, rows);
    for (int i = 0; i < hr_stash_of(s->stage)->count; i++) {
        int slots = hr_stage_stash_slots(s->stage, i);
        const char *place = hr_format(p, "(float *)(area + %s)", hr_stage_area_offset(p, s->stage, -1, i));
        if (slots > 1)
            place = hr_format(p, "%s + r %% %d * (((%s) * 4 + %d) / 64 * 16)", place, slots,
                              hr_stage_row_size(p, s->stage), HR_AREA_PADDING);
        hr_print(p, "for (int r = 0; r < %d; r++) rows[r].stash_%d = %s;", rows, i,
                 hr_stash_of(s->stage)->once[i] ? s->stash_name[i] : place);
    }
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    hr_print(p, "const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;");
    hr_stage_lines_begin(s, "begin");
}

static void print_live(hr_stage_printer *s) {
    hr_printer *p = s->p;
    hr_print(p, "for (int place = 0; place < %d; place++)", hr_stage_main_passes(s->stage));
    hr_print(
        p,
        "    live[place] = step - place >= begin && step - place < end ? &rows[(step - place) %% %d] : NULL;",
        live_rows(s->stage));
    hr_print(p, "if (live[0]) live[0]->task = step;");
}

/* The rows of a step, one at each position. */
static void print_step(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int number = s->number;
    const char *area = area_passed(s);
    hr_print(p, "stage_%d_row *live[%d];", number, hr_stage_main_passes(s->stage));
    hr_print(p, "int64_t shift;");
    print_live(s);
    hr_print(p, "const int64_t done = stage_%d_start(a, live%s, &shift%s);", number, area,
             hr_stage_lines_passed(s));
    hr_print(p, "if (done) stage_%d_together(a, live%s, shift, 0, done);", number, area);
    hr_print(p, "stage_%d_finish(a, live%s, done, shift%s);", number, area, hr_stage_lines_passed(s));
}

/* Two rows whose passes begin and end at the same columns. */
static void print_pair(hr_stage_printer *s) {
    hr_print(s->p, "if (done[0] && done[0] == done[1] && shift[0] == shift[1]) {");
    hr_print(s->p, "    stage_%d_pair(a, live, area, shift[0], 0, done[0]);", s->number);
    hr_print(s->p, "} else {");
    hr_print(s->p, "    for (int r = 0; r < 2; r++)");
    hr_print(s->p, "        if (done[r]) stage_%d_together(a, live[r], area, shift[r], 0, done[r]);",
             s->number);
    hr_print(s->p, "}");
}

/* Rows of a group, block of columns by block. */
static void print_blocks(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int group = hr_cpu_walk_of(s->stage)->jam;
    hr_print(p, "int64_t most = 0;");
    hr_print(p, "for (int r = 0; r < %d; r++)", group);
    hr_print(p, "    most = done[r] > most ? done[r] : most;");
    hr_print(p, "const int64_t block = %d * HR_LANES;", s->block);
    hr_print(p, "for (int64_t first = 0; first < most; first += block)");
    hr_print(p, "    for (int r = 0; r < %d; r++) {", group);
    hr_print(p, "        const int64_t last = first + block < done[r] ? first + block : done[r];");
    hr_print(p, "        if (first < last) stage_%d_together(a, live[r], shift[r], first, last);", s->number);
    hr_print(p, "    }");
}

/* The same for a group of rows. */
static void print_group_step(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int passes = hr_stage_main_passes(s->stage), number = s->number, group = hr_cpu_walk_of(s->stage)->jam;
    const char *area = area_passed(s);
    hr_print(p, "stage_%d_row *live[%d][%d];", number, group, passes);
    hr_print(p, "int64_t done[%d], shift[%d];", group, group);
    hr_print(p, "for (int r = 0; r < %d; r++) {", group);
    hr_print(p, "    for (int place = 0; place < %d; place++) {", passes);
    hr_print(p, "        const int64_t task = step + r - place * %d;", group);
    hr_print(p, "        live[r][place] = task >= begin && task < end ? &rows[task %% %d] : NULL;",
             live_rows(s->stage));
    hr_print(p, "    }");
    hr_print(p, "    if (live[r][0]) live[r][0]->task = step + r;");
    hr_print(p, "    done[r] = stage_%d_start(a, live[r]%s, &shift[r]%s);", number, area,
             hr_stage_lines_passed(s));
    hr_print(p, "}");
    if (hr_pipeline_is_jammed(s->stage))
        print_pair(s);
    else
        print_blocks(s);
    hr_print(p, "for (int r = 0; r < %d; r++)", group);
    hr_print(p, "    stage_%d_finish(a, live[r]%s, done[r], shift[r]%s);", number, area,
             hr_stage_lines_passed(s));
}

void hr_stage_pipeline_loop(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int group = hr_cpu_walk_of(s->stage)->jam;
    print_rows(s);
    hr_stage_chains_begin(s);
    hr_print(p, "for (int64_t step = begin; begin < end && step < end + %d; step%s) {",
             (hr_stage_main_passes(s->stage) - 1) * group, group > 1 ? hr_format(p, " += %d", group) : "++");
    p->indent++;
    if (group > 1)
        print_group_step(s);
    else
        print_step(s);
    hr_stage_chains_go_on(s, hr_format(p, "%d", group > 1 ? group : 1), NULL);
    p->indent--;
    hr_print(p, "}");
    hr_stage_chains_end(s);
    hr_stage_lines_end(s);
}
