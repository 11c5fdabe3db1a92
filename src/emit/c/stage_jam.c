/* Row stages of short rows. In: a stage. Out: text. See stage_jam.h.
 *
 * For each pass a loop over the rows of a block. What later passes need of a row stands in arrays between
 * them, NAME_of[r].
 */
#include "emit/c/stage_jam.h"

#include "base/dtype.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_columns.h"
#include "emit/c/stage_fallback.h"
#include "emit/c/stage_line.h"

#include <string.h>

/* A value of the task. */
typedef struct made {
    const char *name, *type;
    int tensor, phase; /* in which it is computed */
    bool needed;       /* by a later one */
} made;

/* What is done with a row before the next one: the estimate of a maximum, where there is one,
 * and each of the stage's passes. */
typedef struct jam_printer {
    hr_stage_printer *s;
    hr_text *phases;
    bool **reads; /* by phase, by tensor id: values that it reads */
    int phase_count;
    bool estimates;
    made values[HR_STEPS_MAX];
    int value_count;
} jam_printer;

/* ---- the phases ---- */

/* Values of the task that had no name before this phase. */
static void find_made(jam_printer *a, int phase) {
    hr_stage_printer *s = a->s;
    for (int i = 0; i < s->stage->step_count && a->value_count < HR_STEPS_MAX; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->kind != HR_STEP_ROW && step->kind != HR_STEP_REDUCE_ROW) continue;
        const int tensor = hr_stage_statement(s, step)->tensor;
        bool known = !s->p->value[tensor];
        for (int v = 0; v < a->value_count && !known; v++)
            known = a->values[v].tensor == tensor;
        if (!known)
            a->values[a->value_count++] =
                (made){s->p->value[tensor], hr_c_compute(hr_compute_type(hr_stage_target(s, step)->dtype)),
                       tensor, phase, false};
    }
}

/* What is computed between two passes comes right after the first of them: other rows' lanes follow. Not
 * where that may be repeated, since totals may be among it. */
static void print_main_pass(jam_printer *a, int position) {
    hr_stage_printer *s = a->s;
    const hr_stage *stage = s->stage;
    bool last = position == hr_stage_main_passes(stage) - 1;
    int next = last ? stage->pass_count : hr_stage_pass_at(stage, position + 1);
    int first = hr_stage_pass_at(stage, position);
    bool repeated = a->estimates && position == 0;
    if (a->estimates ? position == 1 : position == 0) hr_stage_row_steps(s, first);
    for (int pass = first; pass < next; pass++) {
        hr_stage_pass(s, pass);
        if (pass + 1 < stage->pass_count && !repeated) hr_stage_row_steps(s, pass + 1);
    }
    if (repeated) hr_print(s->p, "if (%s) exact_of[r] = again = true;", hr_stage_unsettled(s));
    if (last) hr_stage_row_stores(s);
}

static void print_phase(jam_printer *a, int phase) {
    hr_stage_printer *s = a->s;
    const size_t tensors = (size_t)s->function->tensor_count;
    hr_printer_forget(s->p, HR_AT_TASK);
    memset(s->p->value_read, 0, tensors * sizeof *s->p->value_read);
    hr_text *out = hr_print_aside(s->p, &a->phases[phase]);
    s->p->indent += 1 + (a->estimates && phase < 2);
    hr_stage_task_indices(s);
    if (a->estimates && phase == 0)
        hr_stage_row_steps(s, 0);
    else
        print_main_pass(a, phase - a->estimates);
    s->p->indent -= 1 + (a->estimates && phase < 2);
    hr_print_back(s->p, out);
    a->reads[phase] = hr_arena_alloc(s->p->arena, (tensors + 1) * sizeof *a->reads[phase]);
    memcpy(a->reads[phase], s->p->value_read, tensors * sizeof *a->reads[phase]);
    find_made(a, phase);
}

static void find_needed(jam_printer *a) {
    for (int v = 0; v < a->value_count; v++)
        for (int phase = a->values[v].phase + 1; phase < a->phase_count; phase++)
            a->values[v].needed = a->values[v].needed || a->reads[phase][a->values[v].tensor];
}

/* ---- the loop ---- */

static void print_collectors(hr_stage_printer *s) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_stage_collects(s->plan, s->stage, step)) continue;
        hr_print(p, "collector collected_%d = collector_of(area + %s, %s + begin * %s);", i,
                 hr_stage_area_offset(p, s->stage, i, -1),
                 hr_emit_tensor(p, s->function->statements[step->statement].tensor),
                 hr_emit_index_size(p, p->lane));
    }
}

/* The rows of a block are there, or all of the thread's. */
static void print_leaves(hr_stage_printer *s, bool end) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_stage_collects(s->plan, s->stage, step)) continue;
        if (end)
            hr_print(p, "collector_end(&collected_%d);", i);
        else
            hr_print(p, "collector_leave(&collected_%d, rows * %s * %d);", i, hr_emit_index_size(p, p->lane),
                     (int)hr_dtype_size(hr_stage_target(s, step)->dtype));
    }
}

static void print_phase_loop(jam_printer *a, int phase) {
    hr_printer *p = a->s->p;
    hr_text *body = &a->phases[phase];
    hr_print(p, "for (int r = 0; r < rows; r++) {");
    p->indent++;
    hr_print(p, "const int64_t task = block + r;");
    if (a->estimates && phase < 2) hr_print(p, "const bool exact = exact_of[r];");
    for (int v = 0; v < a->value_count; v++) {
        const made *value = &a->values[v];
        if (value->phase < phase && a->reads[phase][value->tensor])
            hr_print(p, "const %s %s = %s_of[r];", value->type, value->name, value->name);
    }
    hr_print_body(p, body);
    for (int v = 0; v < a->value_count; v++)
        if (a->values[v].phase == phase && a->values[v].needed)
            hr_print(p, "%s_of[r] = %s;", a->values[v].name, a->values[v].name);
    p->indent--;
    hr_print(p, "}");
}

/* Rows whose estimate was too small go through their first pass again, with the maximum itself. */
static void print_estimated(jam_printer *a) {
    hr_printer *p = a->s->p;
    hr_print(p, "bool exact_of[%d] = {false};", hr_stage_jam(a->s->stage));
    hr_print(p, "for (bool again = true; again;) {");
    p->indent++;
    hr_print(p, "again = false;");
    print_phase_loop(a, 0);
    print_phase_loop(a, 1);
    p->indent--;
    hr_print(p, "}");
}

static void name_stash(hr_stage_printer *s) {
    for (int k = 0; k < hr_stash_of(s->stage)->count; k++)
        if (!hr_stash_of(s->stage)->once[k])
            s->stash_name[k] = hr_format(s->p, "stash_%d + r * (((%s) * 4 + %d) / 64 * 16)", k,
                                         hr_stage_row_size(s->p, s->stage), HR_AREA_PADDING);
}

void hr_stage_jam_loop(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int most = hr_stage_jam(s->stage);
    jam_printer a = {.s = s, .estimates = hr_stage_estimates(s->stage)};
    a.phase_count = hr_stage_main_passes(s->stage) + a.estimates;
    a.phases = hr_arena_alloc(p->arena, (size_t)a.phase_count * sizeof *a.phases);
    a.reads = hr_arena_alloc(p->arena, (size_t)a.phase_count * sizeof *a.reads);
    name_stash(s);
    for (int phase = 0; phase < a.phase_count; phase++)
        print_phase(&a, phase);
    find_needed(&a);
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    hr_print(p, "const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;");
    print_collectors(s);
    hr_stage_lines_begin(s, "begin");
    for (int i = 0; i < s->ahead_count; i++)
        hr_print(p, "%s", s->ahead[i]);
    hr_stage_chains_begin(s);
    hr_print(p, "for (int64_t block = begin; block < end; block += %d) {", most);
    p->indent++;
    hr_print(p, "const int rows = end - block < %d ? (int)(end - block) : %d;", most, most);
    for (int v = 0; v < a.value_count; v++)
        if (a.values[v].needed) hr_print(p, "%s %s_of[%d];", a.values[v].type, a.values[v].name, most);
    if (a.estimates) print_estimated(&a);
    for (int phase = a.estimates ? 2 : 0; phase < a.phase_count; phase++)
        print_phase_loop(&a, phase);
    print_leaves(s, false);
    hr_stage_chains_go_on(s, "rows", NULL);
    p->indent--;
    hr_print(p, "}");
    hr_stage_chains_end(s);
    print_leaves(s, true);
    hr_stage_lines_end(s);
}
