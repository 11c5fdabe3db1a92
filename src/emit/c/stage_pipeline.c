/* Row stages whose passes run side by side. In: a stage. Out: text. See stage_pipeline.h.
 *
 * For each pass p, three functions over the state of a row: stage_N_enter_p computes what the task needs
 * before the pass, stage_N_pass_p does a block of its lanes, and after the last, stage_N_leave stores what is
 * one a task.
 */
#include "emit/c/stage_pipeline.h"

#include "emit/c/function_c.h"
#include "emit/c/lane_loop.h"
#include "emit/c/lane_store.h"
#include "emit/c/lane_sums.h"
#include "emit/c/scratch_c.h"
#include "emit/c/stage_fallback.h"
#include "emit/c/stage_line.h"
#include "emit/c/stage_pipeline_loop.h"
#include "emit/c/stage_prefetch.h"
#include "schedule/schedule.h"

enum {
    HR_INPUTS_MAX = 16,
    BLOCK_VECTORS = 16,  /* of f32, in a block of columns; a multiple of all ways */
    THROTTLE_VECTORS = 2 /* what a step reads is waited for so often: the throttle */
};

typedef struct pipeline_printer {
    hr_stage_printer *s;
    hr_printer *p;
    hr_lane_step steps[HR_STEPS_MAX];
    int ways, unit;  /* vectors of a step of all passes, and how many each does at a time */
    int value_count; /* values of the task that functions printed so far have computed */
    const char *value_name[HR_STEPS_MAX], *value_type[HR_STEPS_MAX];
    int known[HR_STEPS_MAX]; /* by pass: how many of them it may read */
    struct {
        const hr_expr *element; /* of an input, one a task: read once, kept in the row */
        int pass;               /* the first that needs it */
        const char *name;       /* once it is there */
    } inputs[HR_INPUTS_MAX];
    int input_count;
} pipeline_printer;

static bool is_row_value(const hr_step *step) {
    return step->kind == HR_STEP_ROW || step->kind == HR_STEP_REDUCE_ROW;
}

/* ---- the state of a row ---- */

typedef struct inputs_of {
    pipeline_printer *k;
    int pass;
} inputs_of;

static hr_visit find_input(void *context, const hr_expr *node) {
    const inputs_of *of = context;
    pipeline_printer *k = of->k;
    if (node->op != HR_OP_ELEMENT || hr_expr_level(k->p, node) != HR_AT_TASK) return HR_VISIT_ON;
    const hr_tensor *tensor = &k->s->function->tensors[node->tensor];
    bool known = tensor->role != HR_ROLE_INPUT || tensor->rank == 0 || k->input_count == HR_INPUTS_MAX;
    for (int i = 0; i < k->input_count; i++)
        known = known || k->inputs[i].element == node;
    if (known) return HR_VISIT_PAST;
    k->inputs[k->input_count].element = node;
    k->inputs[k->input_count++].pass = of->pass;
    return HR_VISIT_PAST;
}

static void find_all_inputs(pipeline_printer *k) {
    for (int pass = 0; pass < k->s->stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
        inputs_of of = {k, pass};
        for (int i = 0; i < lanes.step_count; i++)
            hr_expr_visit(k->steps[i].value, find_input, &of);
    }
}

static void print_state(pipeline_printer *k) {
    hr_printer *p = k->p;
    const hr_stage *stage = k->s->stage;
    hr_print(p, "typedef struct %s {",
             hr_define(p, HR_IDENTIFIER, hr_format(p, "stage_%d_row", k->s->number)));
    p->indent++;
    hr_print(p, "int64_t task;");
    for (int i = 0; i < hr_stash_of(stage)->count; i++)
        hr_print(p, "float *stash_%d;", i);
    for (int pass = 0; pass < stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
        hr_lane_fields(p, &lanes);
    }
    for (int i = 0; i < stage->step_count; i++) {
        if (!is_row_value(&stage->steps[i])) continue;
        const hr_tensor *tensor =
            &k->s->function->tensors[k->s->function->statements[stage->steps[i].statement].tensor];
        hr_print(p, "%s s%d_%.40s;", hr_c_compute(hr_compute_type(tensor->dtype)), i, tensor->name);
        if (stage->steps[i].variance) hr_print(p, "float squares_%d, about_%d;", i, i);
    }
    if (stage->fallback_pass) hr_print(p, "bool settled;");
    for (int i = 0; i < k->input_count; i++)
        hr_print(p, "%s u%d;", hr_c_compute(k->inputs[i].element->type), i);
    p->indent--;
    hr_print(p, "} stage_%d_row;", k->s->number);
    hr_print(p, "%s", "");
}

/* ---- functions over it ---- */

/* Keeps in the row what this function has just computed. */
static void keep_named(pipeline_printer *k, const char *name, const char *type) {
    hr_print(k->p, "row->%s = %s;", name, name);
    k->value_name[k->value_count] = name;
    k->value_type[k->value_count++] = type;
}

static void keep_value(pipeline_printer *k, const hr_step *step) {
    const hr_statement *statement = &k->s->function->statements[step->statement];
    const hr_tensor *tensor = &k->s->function->tensors[statement->tensor];
    keep_named(k, k->p->value[statement->tensor], hr_c_compute(hr_compute_type(tensor->dtype)));
}

static void keep_inputs(pipeline_printer *k, int pass) {
    for (int i = 0; i < k->input_count; i++) {
        if (k->inputs[i].pass != pass) continue;
        const char *name = hr_format(k->p, "u%d", i), *type = hr_c_compute(k->inputs[i].element->type);
        hr_print(k->p, "const %s %s = %s;", type, name, hr_expr_text(k->p, k->inputs[i].element));
        keep_named(k, name, type);
        k->inputs[i].name = name;
    }
}

static bool is_fallback(const pipeline_printer *k, int pass) {
    return pass && pass == k->s->stage->fallback_pass;
}

static void print_results(pipeline_printer *k, int pass, bool keep) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    for (int i = 0; i < lanes.step_count; i++) {
        if (k->steps[i].use != HR_LANE_REDUCE) continue;
        if (!keep && (k->steps[i].id >= HR_SQUARES || !k->s->stage->steps[k->steps[i].id].settles)) continue;
        const char *result = hr_lane_result(k->p, &lanes, &k->steps[i]);
        if (k->steps[i].id >= HR_SQUARES) {
            keep_named(k, hr_stage_variance_stash(k->s, &k->steps[i], result), "float");
            continue;
        }
        const hr_step *step = &k->s->stage->steps[k->steps[i].id];
        hr_dtype type = k->s->function->statements[step->statement].value->type;
        if (is_fallback(k, pass))
            result = hr_format(k->p, "row->settled ? row->about_%d : %s", k->steps[i].id, result);
        hr_emit_step_value(k->p, step, result, type);
        if (keep) keep_value(k, step);
    }
}

static void print_estimate(pipeline_printer *k, int pass) {
    (void)pass;
    hr_stage_estimate(k->s);
    for (int i = 0; i < k->s->stage->step_count; i++)
        if (k->s->stage->steps[i].estimated) keep_value(k, &k->s->stage->steps[i]);
}

/* The first pass again where its estimate was too small. */
static void print_settle(pipeline_printer *k, int pass) {
    int number = k->s->number;
    print_results(k, pass, false);
    hr_print(k->p, "if (%s) {", hr_stage_unsettled(k->s));
    hr_print(k->p, "    stage_%d_estimate(a, row, true);", number);
    hr_print(k->p, "    stage_%d_enter_%d(a, row);", number, pass);
    hr_print(k->p, "    stage_%d_pass_%d(a, row%s, 0, %s);", number, pass,
             hr_pipeline_has_columns(k->s->stage) ? ", area" : "", hr_emit_index_size(k->p, k->p->lane));
    hr_print(k->p, "}");
}

static void print_enter(pipeline_printer *k, int pass) {
    if (pass) print_results(k, pass - 1, true);
    hr_stage_row_steps(k->s, pass);
    for (int i = 0; i < k->s->stage->step_count; i++)
        if (k->s->stage->steps[i].pass == pass && k->s->stage->steps[i].kind == HR_STEP_ROW)
            keep_value(k, &k->s->stage->steps[i]);
    keep_inputs(k, pass);
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    hr_lane_begin(k->p, &lanes);
    if (!is_fallback(k, pass)) return;
    hr_stage_variance_settle(k->s);
    hr_print(k->p, "row->settled = settled;");
    for (int i = 0; i < lanes.step_count; i++)
        hr_print(k->p, "row->about_%d = about_%d;", lanes.steps[i].id, lanes.steps[i].id);
}

static void print_pass(pipeline_printer *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    hr_stage_prefetch_place(k->s, pass, &lanes);
    if (lanes.step_count) hr_lane_loop(k->p, &lanes);
}

static void print_leave(pipeline_printer *k, int pass) {
    print_results(k, pass, true);
    hr_stage_row_stores(k->s);
}

static void print_lanes(pipeline_printer *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    for (int i = 0; i < lanes.step_count; i++)
        k->steps[i].held = k->steps[i].use == HR_LANE_COLUMN;
    if (k->unit < lanes.ways) lanes.unit = k->unit;
    lanes.aligned = "aligned";
    hr_stage_prefetch_place(k->s, pass, &lanes);
    if (lanes.step_count) hr_lane_step_body(k->p, &lanes);
}

static void print_shift(pipeline_printer *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    const char *shift = hr_lane_shift(k->p, &lanes);
    hr_print(k->p, "return %s;", shift);
}

static void print_aligned(pipeline_printer *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    const char *aligned = hr_lane_aligned(k->p, &lanes);
    hr_print(k->p, "return %s;", aligned);
}

/* 0, once the streams that the pass prefetches have been read from `i` on. */
static void print_arrival(pipeline_printer *k, int pass) {
    hr_printer *p = k->p;
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    const char *sum = "";
    for (int i = 0; i < lanes.prefetch_count; i++) {
        const hr_expr *element = lanes.prefetched[i];
        if (hr_element_is_checked(p->function, element)) continue;
        hr_expr_print_pointer(p, element);
        sum = hr_format(p, "%s%sonce_read(%s + i)", sum, *sum ? " + " : "", hr_expr_pointer(p, element));
    }
    hr_print(p, "return %s;", *sum ? sum : "0");
}

/* What each function over a row is called, given beside the row, and prints. */
typedef struct part {
    const char *type, *name, *parameters;
    bool numbered, needs_area;
    const char
        *accumulators; /* how it sees them: "const ", "", or NULL where the loop takes them up itself */
    void (*print)(pipeline_printer *, int pass);
} part;

static const part estimate_part = {"static void", "estimate", ", bool exact", false,
                                   false,         NULL,       print_estimate};
static const part settle_part = {"static void", "settle", "", false, true, "const ", print_settle};
static const part enter_part = {"static void", "enter", "", true, false, "const ", print_enter};
static const part pass_part = {"static void", "pass",    ", int64_t first, int64_t last", true, true,
                               NULL,          print_pass};
static const part lanes_part = {"static inline __attribute__((always_inline)) void",
                                "lanes",
                                ", int64_t i, int from",
                                true,
                                false,
                                "",
                                print_lanes};
static const part shift_part = {"static int64_t", "shift", "", false, false, NULL, print_shift};
static const part aligned_part = {"static bool", "aligned", ", int64_t i", true, false, NULL, print_aligned};
static const part arrival_part = {"static inline __attribute__((always_inline)) int64_t",
                                  "arrival",
                                  ", int64_t i",
                                  false,
                                  false,
                                  NULL,
                                  print_arrival};
static const part leave_part = {"static void", "leave", "", false, false, "const ", print_leave};

/* The sums of columns in the thread's area, all or those that the body in hand uses. */
static void print_columns(pipeline_printer *k, bool all) {
    hr_printer *p = k->p;
    const hr_stage *stage = k->s->stage;
    for (int i = 0; i < stage->step_count; i++) {
        if (stage->steps[i].kind != HR_STEP_REDUCE_COLUMN) continue;
        const char *column = hr_format(p, "column_%d", i), *type = hr_c_compute(stage->steps[i].value->type);
        if (all || hr_is_used(p, column))
            hr_print(p, "%s *const %s = (%s *)(area + %s);", type, column, type,
                     hr_stage_area_offset(p, stage, i, -1));
    }
}

/* The sums of columns of a pass, which its lanes are given, as parameters or as arguments. */
static const char *held_sums(pipeline_printer *k, const hr_lane_pass *lanes, bool declared) {
    const char *all = "";
    for (int i = 0; i < lanes->step_count; i++) {
        const hr_lane_step *s = &lanes->steps[i];
        const char *type = declared ? hr_format(k->p, "%s *", hr_lane_prefix(s->type)) : "";
        if (s->use == HR_LANE_COLUMN) all = hr_format(k->p, "%s, %sheld_%d", all, type, s->id);
    }
    return all;
}

/* What the body in hand uses of the row and of the thread's area. */
static void declare_used(pipeline_printer *k, int known, const part *part) {
    hr_printer *p = k->p;
    const hr_stage *stage = k->s->stage;
    hr_print(p, "const int64_t task = row->task;");
    hr_stage_task_indices(k->s);
    for (int i = 0; i < stage->task_count; i++)
        hr_print(p, "(void)%s;", hr_emit_index(p, stage->task[i]));
    for (int i = 0; i < known; i++)
        if (hr_is_used(p, k->value_name[i]))
            hr_print(p, "const %s %s = row->%s;", k->value_type[i], k->value_name[i], k->value_name[i]);
    print_columns(k, false);
    for (int pass = 0; part->accumulators && pass < stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
        hr_lane_views(p, &lanes, part->accumulators);
    }
}

static void print_part(pipeline_printer *k, const part *part, int pass) {
    hr_printer *p = k->p;
    hr_text body, whole, *out;
    int known = k->value_count;
    hr_printer_forget(p, HR_AT_TASK);
    for (int i = 0; i < k->input_count; i++)
        p->name[k->inputs[i].element->id] = k->inputs[i].name;
    out = hr_print_aside(p, &body);
    part->print(k, pass);
    hr_print_back(p, out);
    out = hr_print_aside(p, &whole);
    declare_used(k, known, part);
    hr_print_body(p, &body);
    hr_print_back(p, out);
    const char *name =
        hr_format(p, part->numbered ? "stage_%d_%s_%d" : "stage_%d_%s", k->s->number, part->name, pass);
    const char *area = part->needs_area && hr_pipeline_has_columns(k->s->stage) ? ", char *area" : "";
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    const char *held = part == &lanes_part
                           ? hr_format(p, "%s%s", hr_lane_first_stream(&lanes) ? ", bool aligned" : "",
                                       held_sums(k, &lanes, true))
                       : part == &leave_part || (part == &pass_part && pass == k->s->stage->pass_count - 1)
                           ? hr_stage_lines_parameter(k->s)
                           : "";
    hr_emit_function(p, part->type, name,
                     hr_format(p, "const arguments *a, stage_%d_row *row%s%s%s", k->s->number, area,
                               part->parameters, held),
                     &whole);
}

/* A step of all passes has as many vectors as their reductions have accumulators, and each pass does a line
 * of its stream alternately, so that reads and streaming stores mix. */
static void choose_step(pipeline_printer *k) {
    k->ways = k->unit = 1;
    for (int pass = 0; pass < k->s->stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
        int unit = hr_lane_unit(k->p, &lanes);
        if (is_fallback(k, pass)) continue;
        if (lanes.ways > k->ways) k->ways = lanes.ways;
        if (unit > k->unit) k->unit = unit;
    }
    if (k->unit > k->ways) k->unit = k->ways;
}

/* ---- what the passes do side by side ---- */

/* The rows that go through a step together: their passes' copies, and where those that live are. */
static const char *const row_name[] = {"row_%d", "beside_%d"};

static const char *live_row(pipeline_printer *k, int rows, int r, int position) {
    return rows > 1 ? hr_format(k->p, "live[%d][%d]", r, position) : hr_format(k->p, "live[%d]", position);
}

/* What pass `pass` reads of its row, as a copy: then the compiler knows that no store changes it. */
static void print_copy(pipeline_printer *k, int pass, const char *row, const char *live) {
    hr_printer *p = k->p;
    hr_print(p, "stage_%d_row %s;", k->s->number, row);
    hr_print(p, "%s.task = %s->task;", row, live);
    for (int i = 0; i < hr_stash_of(k->s->stage)->count; i++)
        hr_print(p, "%s.stash_%d = %s->stash_%d;", row, i, live, i);
    for (int i = 0; i < k->known[pass]; i++)
        hr_print(p, "%s.%s = %s->%s;", row, k->value_name[i], live, k->value_name[i]);
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    lanes.state = hr_format(p, "%s.", row);
    hr_lane_save(p, &lanes, hr_format(p, "%s->", live));
}

/* The sums of columns from `at` on, taken up before the rows' lanes of a pass, or put back after. */
static void print_held(pipeline_printer *k, const hr_lane_pass *lanes, const char *at, int vectors,
                       bool before) {
    hr_printer *p = k->p;
    for (int i = 0; i < lanes->step_count; i++) {
        const hr_lane_step *s = &lanes->steps[i];
        if (s->use != HR_LANE_COLUMN) continue;
        const char *v = hr_lane_prefix(s->type), *type = hr_dtype_name(s->type);
        if (before) hr_print(p, "    %s held_%d[%d];", v, s->id, vectors);
        for (int n = 0; n < vectors; n++) {
            const char *place = hr_format(p, "column_%d + %s + %d * HR_LANES", s->id, at, n);
            if (before)
                hr_print(p, "    held_%d[%d] = %s_load_%s(%s);", s->id, n, v, type, place);
            else
                hr_print(p, "    %s_store_%s(%s, held_%d[%d]);", v, type, place, s->id, n);
        }
    }
}

/* Vectors of a step of a row, or of two. */
static int step_vectors(const pipeline_printer *k, int rows) {
    return rows > 1 ? k->unit : k->ways;
}

/* What the pass at a position adds to the place that all have come to. */
static const char *pass_place(const pipeline_printer *k, int position) {
    return position == hr_stage_main_passes(k->s->stage) - 1 ? " + shift" : "";
}

/* What the pass at a position does with the vectors from `first` on; `aligned` as C: whether all that it
 * streams is, or that is asked of each vector. */
static void print_main_pass(pipeline_printer *k, int position, int first, int rows, const char *aligned) {
    hr_printer *p = k->p;
    int pass = hr_stage_pass_at(k->s->stage, position), number = k->s->number;
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
    int step = lanes.ways < k->unit ? lanes.ways : k->unit;
    bool backward = position == hr_stage_main_passes(k->s->stage) - 1 &&
                    hr_cpu_walk_of(k->s->stage)->pipeline.direction == HR_REVERSED;
    const char *more = hr_lane_first_stream(&lanes) ? hr_format(p, ", %s", aligned) : "";
    more = hr_format(p, "%s%s", more, held_sums(k, &lanes, false));
    for (int way = first; way < first + k->unit && lanes.step_count; way += step) {
        const char *at = hr_format(p, "%s%d * HR_LANES%s", backward ? "last - (i - first) - " : "i + ",
                                   backward ? way + step : way, pass_place(k, position));
        if (step < k->unit) hr_print(p, "    {");
        print_held(k, &lanes, at, step, true);
        for (int r = 0; r < rows; r++)
            hr_print(p, "    stage_%d_lanes_%d(&copy, &%s, %s, %d%s);", number, pass,
                     hr_format(p, row_name[r], pass), at, way % lanes.ways, more);
        print_held(k, &lanes, at, step, false);
        if (step < k->unit) hr_print(p, "    }");
    }
}

/* The next step's place waits for what this one reads. */
static void print_wait(pipeline_printer *k, int first, int rows) {
    const char *all = "";
    int pass = hr_stage_pass_at(k->s->stage, 0);
    for (int r = 0; r < rows; r++)
        all = hr_format(k->p, "%s%sstage_%d_arrival(&copy, &%s, i + %d * HR_LANES%s)", all, *all ? " + " : "",
                        k->s->number, hr_format(k->p, row_name[r], pass), first, pass_place(k, 0));
    hr_print(k->p, "    i += %s;", all);
}

/* Where stashed rows are apart, their reads come before the stores of the rows before: rows of a multiple of
 * 4 KB would have each load wait for the store to the same place of another page. Elsewhere the last pass
 * goes first: it finds the row's inputs, which it reads again, nearer, and has read what the first pass
 * writes over. */
static void print_step_of_passes(pipeline_printer *k, int rows, const char *aligned) {
    hr_printer *p = k->p;
    int passes = hr_stage_main_passes(k->s->stage), step = step_vectors(k, rows);
    bool apart = hr_stash_has_rows(k->s->stage) && !hr_stage_shares_stash(k->s->stage);
    bool columns = hr_pipeline_has_columns(k->s->stage);
    for (int first = 0; first < step; first += k->unit) {
        if (columns) hr_print(p, "    {");
        p->indent += columns;
        for (int n = 0; n < passes; n++)
            print_main_pass(k, apart ? n : passes - 1 - n, first, rows, aligned);
        p->indent -= columns;
        if (columns) hr_print(p, "    }");
        if (hr_cpu_walk_of(k->s->stage)->pipeline.throttle == HR_THROTTLE_ADDRESSES &&
            (first + k->unit) * rows % THROTTLE_VECTORS == 0)
            print_wait(k, first, rows);
    }
}

/* Lanes that the chains of the passes' sums take; NULL = no pass has any. */
static const char *lanes_of_chains(pipeline_printer *k, int rows) {
    for (int position = 0; position < hr_stage_main_passes(k->s->stage); position++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, hr_stage_pass_at(k->s->stage, position), k->steps);
        if (hr_lane_has_totals(k->p, &lanes)) return hr_lane_chain(k->p, &lanes, step_vectors(k, rows));
    }
    return NULL;
}

static void print_fold(pipeline_printer *k, int rows) {
    for (int position = 0; position < hr_stage_main_passes(k->s->stage); position++) {
        int pass = hr_stage_pass_at(k->s->stage, position);
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
        for (int r = 0; r < rows; r++)
            hr_lane_fold(k->p, &lanes, hr_format(k->p, "%s.", hr_format(k->p, row_name[r], pass)));
    }
}

static void print_main_passes(pipeline_printer *k, int rows, const char *aligned) {
    hr_printer *p = k->p;
    const int step = step_vectors(k, rows);
    const char *most = lanes_of_chains(k, rows);
    if (!most) {
        hr_print(p, "for (int64_t i = first; i < last; i += %d * HR_LANES) {", step);
        print_step_of_passes(k, rows, aligned);
        hr_print(p, "}");
        return;
    }
    hr_print(p, "for (int64_t chain = first, chain_end; chain < last; chain = chain_end) {");
    p->indent++;
    hr_print(p, "const int64_t stop = chain - chain %% (%s) + %s;", most, most);
    hr_print(p, "chain_end = stop < last ? stop : last;");
    hr_print(p, "for (int64_t i = chain; i < chain_end; i += %d * HR_LANES) {", step);
    print_step_of_passes(k, rows, aligned);
    hr_print(p, "}");
    hr_print(p, "if (chain_end < stop) break;");
    print_fold(k, rows);
    p->indent--;
    hr_print(p, "}");
}

/* Whether all that the rows stream is aligned, as C; NULL where they stream nothing. */
static const char *all_aligned(pipeline_printer *k, int rows) {
    hr_printer *p = k->p;
    const char *all = NULL;
    for (int position = 0; position < hr_stage_main_passes(k->s->stage); position++) {
        int pass = hr_stage_pass_at(k->s->stage, position);
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
        for (int r = 0; r < rows && hr_lane_first_stream(&lanes); r++)
            all =
                hr_format(p, "%s%sstage_%d_aligned_%d(&copy, %s, first%s)", all ? all : "", all ? " && " : "",
                          k->s->number, pass, live_row(k, rows, r, position), pass_place(k, position));
    }
    return all;
}

/* Whether all is aligned is asked once: a branch a line is one more that may be guessed wrong where a row
 * ends. */
static void print_loops(pipeline_printer *k, int rows) {
    hr_printer *p = k->p;
    const char *aligned = all_aligned(k, rows);
    for (int is = aligned ? 1 : 0; is >= 0; is--) {
        if (aligned) hr_print(p, is ? "if (%s) {" : "} else {", aligned);
        p->indent += aligned != NULL;
        print_main_passes(k, rows, is ? "true" : "false");
        p->indent -= aligned != NULL;
    }
    if (aligned) hr_print(p, "}");
}

static void print_together(pipeline_printer *k, int rows) {
    hr_printer *p = k->p;
    int number = k->s->number, passes = hr_stage_main_passes(k->s->stage);
    hr_text body, *out = hr_print_aside(p, &body);
    hr_print(p, "const arguments copy = *a;");
    for (int position = 0; position < passes; position++)
        for (int r = 0; r < rows; r++) {
            int pass = hr_stage_pass_at(k->s->stage, position);
            print_copy(k, pass, hr_format(p, row_name[r], pass), live_row(k, rows, r, position));
        }
    print_columns(k, true);
    print_loops(k, rows);
    for (int position = 0; position < passes; position++)
        for (int r = 0; r < rows; r++) {
            int pass = hr_stage_pass_at(k->s->stage, position);
            hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps);
            lanes.state = hr_format(p, "%s->", live_row(k, rows, r, position));
            hr_lane_save(p, &lanes, hr_format(p, "%s.", hr_format(p, row_name[r], pass)));
        }
    hr_print_back(p, out);
    const char *live = rows > 1 ? hr_format(p, "(*live)[%d]", passes) : "*live";
    hr_emit_function(
        p, "static void", hr_format(p, "stage_%d_%s", number, rows > 1 ? "pair" : "together"),
        hr_format(p,
                  "const arguments *a, stage_%d_row *const %s%s, int64_t shift, int64_t first, int64_t last",
                  number, live, hr_pipeline_has_columns(k->s->stage) ? ", char *area" : ""),
        &body);
}

void hr_stage_pipeline_functions(hr_stage_printer *s) {
    pipeline_printer k = {.s = s, .p = s->p};
    int passes = s->stage->pass_count;
    for (int i = 0; i < hr_stash_of(s->stage)->count; i++) {
        s->stash_name[i] = hr_format(s->p, "row->stash_%d", i);
        s->stash_done[i] = hr_stash_of(s->stage)->once[i];
    }
    find_all_inputs(&k);
    print_state(&k);
    choose_step(&k);
    bool estimates = hr_stage_estimates(s->stage);
    if (estimates) print_part(&k, &estimate_part, 0);
    for (int pass = 0; pass < passes; pass++) {
        print_part(&k, &enter_part, pass);
        k.known[pass] = k.value_count;
        if (!is_fallback(&k, pass)) print_part(&k, &lanes_part, pass);
        print_part(&k, &pass_part, pass);
        if (estimates && pass == 0) print_part(&k, &settle_part, pass);
    }
    for (int pass = 0; pass < passes; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(s, pass, k.steps);
        if (!is_fallback(&k, pass) && hr_lane_first_stream(&lanes)) print_part(&k, &aligned_part, pass);
    }
    print_part(&k, &shift_part, passes - 1);
    if (hr_cpu_walk_of(s->stage)->pipeline.throttle == HR_THROTTLE_ADDRESSES)
        print_part(&k, &arrival_part, 0);
    print_part(&k, &leave_part, passes - 1);
    print_together(&k, 1);
    if (hr_pipeline_is_jammed(s->stage)) print_together(&k, 2);
    s->together = k.ways;
    s->block = k.unit > 1 ? 2 * BLOCK_VECTORS : BLOCK_VECTORS;
    hr_stage_pipeline_ends(s);
}
