/* Row stages whose passes run side by side. In: a stage. Out: text. See stage_skew.h.
 *
 * For each pass p, three functions over the state of a row: stage_N_enter_p computes what the task needs
 * before the pass, stage_N_pass_p does a block of its lanes, and after the last, stage_N_leave stores what is
 * one a task.
 */
#include "emit/stage_skew.h"

#include "emit/function_c.h"
#include "emit/lane_loop.h"
#include "emit/lane_sums.h"
#include "emit/stage_area.h"
#include "emit/stage_estimate.h"
#include "emit/stage_line.h"
#include "emit/stage_spread.h"

enum {
    HR_INPUTS_MAX = 16,
    BLOCK_VECTORS = 16, /* of f32, in a block of columns; a multiple of all ways */
    PACE_VECTORS = 2    /* what a step reads is waited for so often */
};

typedef struct skewed {
    hr_stage_printer *s;
    hr_printer *p;
    hr_lane_step steps[HR_STEPS_MAX];
    const hr_expr *prefetched[HR_STREAMS_MAX];
    int ways, unit;  /* vectors of a step of all passes, and how many each does in turn */
    int value_count; /* values of the task that functions printed so far have computed */
    const char *value_name[HR_STEPS_MAX], *value_type[HR_STEPS_MAX];
    int known[HR_STEPS_MAX]; /* by pass: how many of them it may read */
    struct {
        const hr_expr *element; /* of an input, one a task: read once, kept in the row */
        int pass;               /* the first that needs it */
        const char *name;       /* once it is there */
    } inputs[HR_INPUTS_MAX];
    int input_count;
} skewed;

static bool is_row_value(const hr_step *step) {
    return step->kind == HR_STEP_ROW || step->kind == HR_STEP_REDUCE_ROW;
}

static bool has_columns(const hr_stage *stage) {
    return hr_stage_has(stage, HR_STEP_REDUCE_COLUMN);
}

/* Groups of two rows that go through all columns together: their sums are taken up and put back once. */
static bool goes_in_pairs(const hr_stage *stage) {
    return stage->group > 1 && has_columns(stage);
}

/* ---- the state of a row ---- */

static void find_inputs(skewed *k, const hr_expr *node, int pass) {
    hr_printer *p = k->p;
    if (p->seen[node->id] == p->stamp || k->input_count == HR_INPUTS_MAX) return;
    p->seen[node->id] = p->stamp;
    if (node->op != HR_OP_ELEMENT || hr_expr_level(p, node) != HR_AT_TASK) {
        for (int i = 0; i < node->arg_count; i++)
            find_inputs(k, node->args[i], pass);
        return;
    }
    const hr_tensor *tensor = &k->s->function->tensors[node->tensor];
    if (tensor->role != HR_ROLE_INPUT || tensor->rank == 0) return;
    k->inputs[k->input_count].element = node;
    k->inputs[k->input_count++].pass = pass;
}

static void find_all_inputs(skewed *k) {
    k->p->stamp++;
    for (int pass = 0; pass < k->s->stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
        unsigned stamp = ++k->p->stamp;
        for (int i = 0; i < k->input_count; i++)
            k->p->seen[k->inputs[i].element->id] = stamp;
        for (int i = 0; i < lanes.step_count; i++)
            find_inputs(k, k->steps[i].value, pass);
    }
}

static void print_state(skewed *k) {
    hr_printer *p = k->p;
    const hr_stage *stage = k->s->stage;
    hr_print(p, "typedef struct stage_%d_row {", k->s->number);
    p->indent++;
    hr_print(p, "int64_t task;");
    for (int i = 0; i < stage->kept_count; i++)
        hr_print(p, "float *kept_%d;", i);
    for (int pass = 0; pass < stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
        hr_lane_fields(p, &lanes);
    }
    for (int i = 0; i < stage->step_count; i++) {
        if (!is_row_value(&stage->steps[i])) continue;
        const hr_tensor *tensor =
            &k->s->function->tensors[k->s->function->statements[stage->steps[i].statement].tensor];
        hr_print(p, "%s s%d_%.40s;", hr_c_compute(hr_compute_type(tensor->dtype)), i, tensor->name);
        if (stage->steps[i].spread) hr_print(p, "float squares_%d, spread_%d;", i, i);
    }
    if (stage->spare_pass) hr_print(p, "bool settled;");
    for (int i = 0; i < k->input_count; i++)
        hr_print(p, "%s u%d;", hr_c_compute(k->inputs[i].element->type), i);
    p->indent--;
    hr_print(p, "} stage_%d_row;", k->s->number);
    hr_print(p, "%s", "");
}

/* ---- functions over it ---- */

/* Keeps in the row what this function has just computed. */
static void keep_named(skewed *k, const char *name, const char *type) {
    hr_print(k->p, "row->%s = %s;", name, name);
    k->value_name[k->value_count] = name;
    k->value_type[k->value_count++] = type;
}

static void keep_value(skewed *k, const hr_step *step) {
    const hr_statement *statement = &k->s->function->statements[step->statement];
    const hr_tensor *tensor = &k->s->function->tensors[statement->tensor];
    keep_named(k, k->p->value[statement->tensor], hr_c_compute(hr_compute_type(tensor->dtype)));
}

static void keep_inputs(skewed *k, int pass) {
    for (int i = 0; i < k->input_count; i++) {
        if (k->inputs[i].pass != pass) continue;
        const char *name = hr_format(k->p, "u%d", i), *type = hr_c_compute(k->inputs[i].element->type);
        hr_print(k->p, "const %s %s = %s;", type, name, hr_expr_text(k->p, k->inputs[i].element));
        keep_named(k, name, type);
        k->inputs[i].name = name;
    }
}

static bool is_spare(const skewed *k, int pass) {
    return pass && pass == k->s->stage->spare_pass;
}

static void print_results(skewed *k, int pass, bool keep) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    for (int i = 0; i < lanes.step_count; i++) {
        if (k->steps[i].use != HR_LANE_REDUCE) continue;
        if (!keep && (k->steps[i].id >= HR_SQUARES || !k->s->stage->steps[k->steps[i].id].settles)) continue;
        const char *result = hr_lane_result(k->p, &lanes, &k->steps[i]);
        if (k->steps[i].id >= HR_SQUARES) {
            keep_named(k, hr_stage_spread_keep(k->s, &k->steps[i], result), "float");
            continue;
        }
        const hr_step *step = &k->s->stage->steps[k->steps[i].id];
        hr_dtype type = k->s->function->statements[step->statement].value->type;
        if (is_spare(k, pass))
            result = hr_format(k->p, "row->settled ? row->spread_%d : %s", k->steps[i].id, result);
        hr_emit_step_value(k->p, step, result, type);
        if (keep) keep_value(k, step);
    }
}

static void print_estimate(skewed *k, int pass) {
    (void)pass;
    hr_stage_estimate(k->s);
    for (int i = 0; i < k->s->stage->step_count; i++)
        if (k->s->stage->steps[i].estimated) keep_value(k, &k->s->stage->steps[i]);
}

/* The first pass again where its estimate was too small. */
static void print_settle(skewed *k, int pass) {
    int number = k->s->number;
    print_results(k, pass, false);
    hr_print(k->p, "if (%s) {", hr_stage_unsettled(k->s));
    hr_print(k->p, "    stage_%d_estimate(a, row, true);", number);
    hr_print(k->p, "    stage_%d_enter_%d(a, row);", number, pass);
    hr_print(k->p, "    stage_%d_pass_%d(a, row%s, 0, %s);", number, pass,
             has_columns(k->s->stage) ? ", area" : "", hr_emit_index_size(k->p, k->p->lane));
    hr_print(k->p, "}");
}

static void print_enter(skewed *k, int pass) {
    if (pass) print_results(k, pass - 1, true);
    hr_stage_row_steps(k->s, pass);
    for (int i = 0; i < k->s->stage->step_count; i++)
        if (k->s->stage->steps[i].pass == pass && k->s->stage->steps[i].kind == HR_STEP_ROW)
            keep_value(k, &k->s->stage->steps[i]);
    keep_inputs(k, pass);
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    hr_lane_begin(k->p, &lanes);
    if (!is_spare(k, pass)) return;
    hr_stage_spread_settle(k->s);
    hr_print(k->p, "row->settled = settled;");
    for (int i = 0; i < lanes.step_count; i++)
        hr_print(k->p, "row->spread_%d = spread_%d;", lanes.steps[i].id, lanes.steps[i].id);
}

static void print_pass(skewed *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    if (lanes.step_count) hr_lane_loop(k->p, &lanes);
}

static void print_leave(skewed *k, int pass) {
    print_results(k, pass, true);
    hr_stage_row_stores(k->s);
}

static void print_lanes(skewed *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    for (int i = 0; i < lanes.step_count; i++)
        k->steps[i].held = k->steps[i].use == HR_LANE_COLUMN;
    if (k->unit < lanes.ways) lanes.unit = k->unit;
    if (lanes.step_count) hr_lane_step_body(k->p, &lanes);
}

static void print_shift(skewed *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    const char *shift = hr_lane_shift(k->p, &lanes);
    hr_print(k->p, "return %s;", shift);
}

static void print_arrival(skewed *k, int pass) {
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    const char *arrival = hr_lane_arrival(k->p, &lanes);
    hr_print(k->p, "return %s;", arrival ? arrival : "0");
}

/* What each function over a row is called, given beside the row, and prints. */
typedef struct part {
    const char *type, *name, *parameters;
    bool numbered, needs_area;
    const char
        *accumulators; /* how it sees them: "const ", "", or NULL where the loop takes them up itself */
    void (*print)(skewed *, int pass);
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
static const part arrival_part = {"static inline __attribute__((always_inline)) int64_t",
                                  "arrival",
                                  ", int64_t i",
                                  false,
                                  false,
                                  NULL,
                                  print_arrival};
static const part leave_part = {"static void", "leave", "", false, false, "const ", print_leave};

/* The sums of columns in the thread's area, those that `body` mentions or, without one, all. */
static void print_columns(skewed *k, const char *body) {
    hr_printer *p = k->p;
    const hr_stage *stage = k->s->stage;
    for (int i = 0; i < stage->step_count; i++) {
        if (stage->steps[i].kind != HR_STEP_REDUCE_COLUMN) continue;
        const char *column = hr_format(p, "column_%d", i), *type = hr_c_compute(stage->steps[i].value->type);
        if (!body || hr_emit_occurs(body, column))
            hr_print(p, "%s *const %s = (%s *)(area + %s);", type, column, type,
                     hr_stage_area_offset(p, stage, i, -1));
    }
}

/* The sums of columns of a pass, which its lanes are given, as parameters or as arguments. */
static const char *held_sums(skewed *k, const hr_lane_pass *lanes, bool declared) {
    const char *all = "";
    for (int i = 0; i < lanes->step_count; i++) {
        const hr_lane_step *s = &lanes->steps[i];
        const char *type = declared ? hr_format(k->p, "%s *", hr_lane_prefix(s->type)) : "";
        if (s->use == HR_LANE_COLUMN) all = hr_format(k->p, "%s, %sheld_%d", all, type, s->id);
    }
    return all;
}

/* What a body mentions of the row and of the thread's area. */
static void declare_mentioned(skewed *k, const char *body, int known, const part *part) {
    hr_printer *p = k->p;
    const hr_stage *stage = k->s->stage;
    hr_print(p, "const int64_t task = row->task;");
    hr_stage_task_indices(k->s);
    for (int i = 0; i < stage->task_count; i++)
        hr_print(p, "(void)%s;", hr_emit_index(p, stage->task[i]));
    for (int i = 0; i < known; i++)
        if (hr_emit_occurs(body, k->value_name[i]))
            hr_print(p, "const %s %s = row->%s;", k->value_type[i], k->value_name[i], k->value_name[i]);
    print_columns(k, body);
    for (int pass = 0; part->accumulators && pass < stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
        hr_lane_views(p, &lanes, body, part->accumulators);
    }
}

static void print_part(skewed *k, const part *part, int pass) {
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
    declare_mentioned(k, hr_text_data(&body), known, part);
    hr_print_body(p, &body);
    hr_print_back(p, out);
    const char *name =
        hr_format(p, part->numbered ? "stage_%d_%s_%d" : "stage_%d_%s", k->s->number, part->name, pass);
    const char *area = part->needs_area && has_columns(k->s->stage) ? ", char *area" : "";
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    const char *held = part == &lanes_part ? held_sums(k, &lanes, true)
                       : part == &leave_part || (part == &pass_part && pass == k->s->stage->pass_count - 1)
                           ? hr_stage_lines_parameter(k->s)
                           : "";
    hr_emit_function(p, part->type, name,
                     hr_format(p, "const arguments *a, stage_%d_row *row%s%s%s", k->s->number, area,
                               part->parameters, held),
                     &whole);
}

/* A step of all passes has as many vectors as their reductions have accumulators, and each pass does a line
 * of its stream in turn, so that reads and streaming stores mix. */
static void choose_step(skewed *k) {
    k->ways = k->unit = 1;
    for (int pass = 0; pass < k->s->stage->pass_count; pass++) {
        hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
        int unit = hr_lane_unit(k->p, &lanes);
        if (is_spare(k, pass)) continue;
        if (lanes.ways > k->ways) k->ways = lanes.ways;
        if (unit > k->unit) k->unit = unit;
    }
    if (k->unit > k->ways) k->unit = k->ways;
}

/* ---- what the passes do side by side ---- */

/* The rows that go through a step together: their passes' copies, and where those that live are. */
static const char *const row_name[] = {"row_%d", "beside_%d"};

static const char *live_row(skewed *k, int rows, int r, int turn) {
    return rows > 1 ? hr_format(k->p, "live[%d][%d]", r, turn) : hr_format(k->p, "live[%d]", turn);
}

/* What pass `pass` reads of its row, as a copy: then the compiler knows that no store changes it. */
static void print_copy(skewed *k, int pass, const char *row, const char *live) {
    hr_printer *p = k->p;
    hr_print(p, "stage_%d_row %s;", k->s->number, row);
    hr_print(p, "%s.task = %s->task;", row, live);
    for (int i = 0; i < k->s->stage->kept_count; i++)
        hr_print(p, "%s.kept_%d = %s->kept_%d;", row, i, live, i);
    for (int i = 0; i < k->known[pass]; i++)
        hr_print(p, "%s.%s = %s->%s;", row, k->value_name[i], live, k->value_name[i]);
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    lanes.state = hr_format(p, "%s.", row);
    hr_lane_save(p, &lanes, hr_format(p, "%s->", live));
}

/* The sums of columns from `at` on, taken up before the rows' lanes of a pass, or put back after. */
static void print_held(skewed *k, const hr_lane_pass *lanes, const char *at, int vectors, bool before) {
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

/* How far the first pass is ahead of the others: so far that they never come to where it begins; 0 in short
 * rows. Elements, as C over extents. */
static const char *lead_text(hr_stage_printer *s) {
    enum { LEADS_OF_ROW = 4 };
    int lead = s->stage->lead;
    if (!lead) return NULL;
    return hr_format(s->p, "(%s < %d ? 0 : %d)", hr_emit_index_size(s->p, s->p->lane), LEADS_OF_ROW * lead,
                     lead);
}

/* What the pass of a turn does with the vectors from `first` on. */
static void print_turn(skewed *k, int turn, int first, int rows) {
    hr_printer *p = k->p;
    int pass = hr_stage_pass_at(k->s->stage, turn), number = k->s->number;
    hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
    int step = lanes.ways < k->unit ? lanes.ways : k->unit;
    bool last = turn == hr_stage_turns(k->s->stage) - 1, backward = last && k->s->stage->backward;
    for (int way = first; way < first + k->unit && lanes.step_count; way += step) {
        const char *at = hr_format(p, "%s%d * HR_LANES%s", backward ? "last - (i - first) - " : "i + ",
                                   backward ? way + step : way,
                                   last                             ? " + shift"
                                   : turn == 0 && k->s->stage->lead ? " + lead"
                                                                    : "");
        if (step < k->unit) hr_print(p, "    {");
        print_held(k, &lanes, at, step, true);
        for (int r = 0; r < rows; r++)
            hr_print(p, "    stage_%d_lanes_%d(&copy, &%s, %s, %d%s);", number, pass,
                     hr_format(p, row_name[r], pass), at, way % lanes.ways, held_sums(k, &lanes, false));
        print_held(k, &lanes, at, step, false);
        if (step < k->unit) hr_print(p, "    }");
    }
}

/* What the first pass does before the others begin. */
static void print_leading(skewed *k, int step, int rows) {
    hr_printer *p = k->p;
    const char *lead = lead_text(k->s);
    if (!lead) return;
    hr_print(p, "const int64_t lead = %s;", lead);
    hr_text_format(p->out, "#pragma GCC unroll 1\n");
    hr_print(p, "for (int64_t i = first ? 0 : -lead; i < 0; i += %d * HR_LANES) {", step);
    for (int first = 0; first < step; first += k->unit) {
        hr_print(p, "    {");
        p->indent++;
        print_turn(k, 0, first, rows);
        p->indent--;
        hr_print(p, "    }");
    }
    hr_print(p, "}");
}

static bool keeps_rows_apart(const hr_stage *stage) {
    if (hr_stage_shares_kept(stage)) return false;
    for (int i = 0; i < stage->kept_count; i++)
        if (!stage->kept_once[i]) return true;
    return false;
}

/* The next step's place waits for what this one reads. */
static void print_wait(skewed *k, int first, int rows) {
    const char *all = "";
    int pass = hr_stage_pass_at(k->s->stage, 0);
    for (int r = 0; r < rows; r++)
        all = hr_format(k->p, "%s%sstage_%d_arrival(&copy, &%s, i + %d * HR_LANES%s)", all, *all ? " + " : "",
                        k->s->number, hr_format(k->p, row_name[r], pass), first,
                        k->s->stage->lead ? " + lead" : "");
    hr_print(k->p, "    i += %s;", all);
}

/* Where rows are kept apart, their reads come before the stores of the rows before: rows of a multiple of 4
 * KB would have each load wait for the store to the same place of another page. Elsewhere the last pass goes
 * first: it finds the row's inputs, which it reads again, nearer, and has read what the first pass writes
 * over. */
static void print_together(skewed *k, int rows) {
    hr_printer *p = k->p;
    int number = k->s->number, turns = hr_stage_turns(k->s->stage);
    hr_text body, *out = hr_print_aside(p, &body);
    hr_print(p, "const arguments copy = *a;");
    for (int turn = 0; turn < turns; turn++)
        for (int r = 0; r < rows; r++) {
            int pass = hr_stage_pass_at(k->s->stage, turn);
            print_copy(k, pass, hr_format(p, row_name[r], pass), live_row(k, rows, r, turn));
        }
    print_columns(k, NULL);
    int step = rows > 1 ? k->unit : k->ways;
    print_leading(k, step, rows);
    hr_print(p, "for (int64_t i = first; i < last; i += %d * HR_LANES) {", step);
    bool apart = keeps_rows_apart(k->s->stage), columns = has_columns(k->s->stage);
    if (k->s->stage->pace == HR_PACE_ENDED) hr_print(p, "    load_fence();");
    for (int first = 0; first < step; first += k->unit) {
        if (columns) hr_print(p, "    {");
        p->indent += columns;
        for (int n = 0; n < turns; n++)
            print_turn(k, apart ? n : turns - 1 - n, first, rows);
        p->indent -= columns;
        if (columns) hr_print(p, "    }");
        if (k->s->stage->pace == HR_PACE_READ && (first + k->unit) * rows % PACE_VECTORS == 0)
            print_wait(k, first, rows);
    }
    hr_print(p, "}");
    for (int turn = 0; turn < turns; turn++)
        for (int r = 0; r < rows; r++) {
            int pass = hr_stage_pass_at(k->s->stage, turn);
            hr_lane_pass lanes = hr_stage_lane_pass(k->s, pass, k->steps, k->prefetched);
            lanes.state = hr_format(p, "%s->", live_row(k, rows, r, turn));
            hr_lane_save(p, &lanes, hr_format(p, "%s.", hr_format(p, row_name[r], pass)));
        }
    hr_print_back(p, out);
    const char *live = rows > 1 ? hr_format(p, "(*live)[%d]", turns) : "*live";
    hr_emit_function(p, "static void", hr_format(p, "stage_%d_%s", number, rows > 1 ? "pair" : "together"),
                     hr_format(p,
                               "const arguments *a, stage_%d_row *const %s%s, int64_t shift, int64_t first, "
                               "int64_t last",
                               number, live, columns ? ", char *area" : ""),
                     &body);
}

/* What a row begins a turn with; a spared pass comes before it, where the row needs that. */
static void print_enters(hr_stage_printer *s, int turn) {
    hr_printer *p = s->p;
    int pass = hr_stage_pass_at(s->stage, turn), number = s->number, spare = s->stage->spare_pass;
    if (!spare || pass != spare + 1) {
        hr_print(p, "if (live[%d]) stage_%d_enter_%d(a, live[%d]);", turn, number, pass, turn);
        return;
    }
    hr_print(p, "if (live[%d]) {", turn);
    hr_print(p, "    stage_%d_enter_%d(a, live[%d]);", number, spare, turn);
    hr_print(p, "    if (!live[%d]->settled) stage_%d_pass_%d(a, live[%d]%s, 0, %s);", turn, number, spare,
             turn, has_columns(s->stage) ? ", area" : "", hr_emit_index_size(p, p->lane));
    hr_print(p, "    stage_%d_enter_%d(a, live[%d]);", number, pass, turn);
    hr_print(p, "}");
}

/* What the rows of a turn begin with. Returns how many of their lanes the passes can do in turns. */
static void print_start(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int turns = hr_stage_turns(s->stage), last = s->stage->pass_count - 1, number = s->number;
    const char *size = hr_emit_index_size(p, p->lane), *area = has_columns(s->stage) ? ", area" : "";
    hr_text body, *out = hr_print_aside(p, &body);
    if (hr_stage_estimates(s->stage)) {
        hr_print(p, "if (live[0]) stage_%d_estimate(a, live[0], false);", number);
        hr_print(p, "if (live[1]) stage_%d_settle(a, live[1]%s);", number, area);
    }
    for (int turn = 0; turn < turns; turn++)
        print_enters(s, turn);
    hr_print(p, "*shift = 0;");
    hr_print(p, "for (int turn = 0; turn < %d; turn++)", turns);
    hr_print(p, "    if (!live[turn]) return 0;");
    hr_print(p, "const int64_t lanes = %d * HR_LANES, ahead = stage_%d_shift(a, live[%d]);", s->together,
             number, turns - 1);
    const char *lead = lead_text(s);
    if (lead) hr_print(p, "const int64_t lead = %s;", lead);
    const char *most = lead ? "(lead > ahead ? lead : ahead)" : "ahead";
    hr_print(p, "const int64_t done = %s < %s ? (%s - %s) / lanes * lanes : 0;", most, size, size, most);
    hr_print(p, "if (done) *shift = ahead;");
    hr_print(p, "if (*shift) stage_%d_pass_%d(a, live[%d]%s, 0, 0%s);", number, last, turns - 1, area,
             hr_stage_lines_passed(s));
    hr_print(p, "return done;");
    hr_print_back(p, out);
    hr_emit_function(p, "static int64_t", hr_format(p, "stage_%d_start", number),
                     hr_format(p, "const arguments *a, stage_%d_row **live%s, int64_t *shift%s", number,
                               *area ? ", char *area" : "", hr_stage_lines_parameter(s)),
                     &body);
}

/* What is left of the rows of a turn. */
static void print_finish(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int turns = hr_stage_turns(s->stage), number = s->number;
    const char *size = hr_emit_index_size(p, p->lane), *area = has_columns(s->stage) ? ", area" : "";
    hr_text body, *out = hr_print_aside(p, &body);
    const char *lead = lead_text(s);
    if (lead) hr_print(p, "const int64_t lead = done ? %s : 0;", lead);
    for (int turn = turns - 1; turn >= 0; turn--)
        hr_print(p, "if (live[%d] && done%s < %s) stage_%d_pass_%d(a, live[%d]%s, done%s, %s%s);", turn,
                 turn == turns - 1   ? " + shift"
                 : lead && turn == 0 ? " + lead"
                                     : "",
                 size, number, hr_stage_pass_at(s->stage, turn), turn, area,
                 lead && turn == 0 ? " + lead" : "", size, turn == turns - 1 ? hr_stage_lines_passed(s) : "");
    hr_print(p, "if (live[%d]) stage_%d_leave(a, live[%d]%s);", turns - 1, number, turns - 1,
             hr_stage_lines_passed(s));
    hr_print_back(p, out);
    hr_emit_function(p, "static void", hr_format(p, "stage_%d_finish", number),
                     hr_format(p, "const arguments *a, stage_%d_row **live%s, int64_t done, int64_t shift%s",
                               number, *area ? ", char *area" : "", hr_stage_lines_parameter(s)),
                     &body);
}

void hr_stage_skew_functions(hr_stage_printer *s) {
    skewed k = {.s = s, .p = s->p};
    int passes = s->stage->pass_count;
    for (int i = 0; i < s->stage->kept_count; i++) {
        s->kept_name[i] = hr_format(s->p, "row->kept_%d", i);
        s->kept_done[i] = s->stage->kept_once[i];
    }
    find_all_inputs(&k);
    print_state(&k);
    choose_step(&k);
    bool estimates = hr_stage_estimates(s->stage);
    if (estimates) print_part(&k, &estimate_part, 0);
    for (int pass = 0; pass < passes; pass++) {
        print_part(&k, &enter_part, pass);
        k.known[pass] = k.value_count;
        if (!is_spare(&k, pass)) print_part(&k, &lanes_part, pass);
        print_part(&k, &pass_part, pass);
        if (estimates && pass == 0) print_part(&k, &settle_part, pass);
    }
    print_part(&k, &shift_part, passes - 1);
    if (s->stage->pace == HR_PACE_READ) print_part(&k, &arrival_part, 0);
    print_part(&k, &leave_part, passes - 1);
    print_together(&k, 1);
    if (goes_in_pairs(s->stage)) print_together(&k, 2);
    s->together = k.ways;
    s->block = k.unit > 1 ? 2 * BLOCK_VECTORS : BLOCK_VECTORS;
    print_start(s);
    print_finish(s);
}

/* ---- the loop over rows ---- */

static void print_rows(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int rows = hr_stage_turns(s->stage) * s->stage->group;
    hr_print(p, "stage_%d_row rows[%d];", s->number, rows);
    for (int i = 0; i < s->stage->kept_count; i++) {
        int slots = hr_stage_kept_slots(s->stage, i);
        const char *place = hr_format(p, "(float *)(area + %s)", hr_stage_area_offset(p, s->stage, -1, i));
        if (slots > 1)
            place = hr_format(p, "%s + r %% %d * (((%s) * 4 + %d) / 64 * 16)", place, slots,
                              hr_stage_row_size(p, s->stage), HR_AREA_PADDING);
        hr_print(p, "for (int r = 0; r < %d; r++) rows[r].kept_%d = %s;", rows, i,
                 s->stage->kept_once[i] ? s->kept_name[i] : place);
    }
    hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
    hr_print(p, "const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;");
    hr_stage_lines_begin(s, "begin");
}

/* The rows of a step, one at each turn. */
static void print_step(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int turns = hr_stage_turns(s->stage), number = s->number;
    const char *area = has_columns(s->stage) ? ", area" : "";
    hr_print(p, "stage_%d_row *live[%d];", number, turns);
    hr_print(p, "int64_t shift;");
    hr_print(p, "for (int turn = 0; turn < %d; turn++)", turns);
    hr_print(
        p, "    live[turn] = step - turn >= begin && step - turn < end ? &rows[(step - turn) %% %d] : NULL;",
        turns);
    hr_print(p, "if (live[0]) live[0]->task = step;");
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
    int group = s->stage->group;
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
    int turns = hr_stage_turns(s->stage), number = s->number, group = s->stage->group;
    const char *area = has_columns(s->stage) ? ", area" : "";
    hr_print(p, "stage_%d_row *live[%d][%d];", number, group, turns);
    hr_print(p, "int64_t done[%d], shift[%d];", group, group);
    hr_print(p, "for (int r = 0; r < %d; r++) {", group);
    hr_print(p, "    for (int turn = 0; turn < %d; turn++) {", turns);
    hr_print(p, "        const int64_t task = step + r - turn * %d;", group);
    hr_print(p, "        live[r][turn] = task >= begin && task < end ? &rows[task %% %d] : NULL;",
             turns * group);
    hr_print(p, "    }");
    hr_print(p, "    if (live[r][0]) live[r][0]->task = step + r;");
    hr_print(p, "    done[r] = stage_%d_start(a, live[r]%s, &shift[r]%s);", number, area,
             hr_stage_lines_passed(s));
    hr_print(p, "}");
    if (goes_in_pairs(s->stage))
        print_pair(s);
    else
        print_blocks(s);
    hr_print(p, "for (int r = 0; r < %d; r++)", group);
    hr_print(p, "    stage_%d_finish(a, live[r]%s, done[r], shift[r]%s);", number, area,
             hr_stage_lines_passed(s));
}

void hr_stage_skew_loop(hr_stage_printer *s) {
    hr_printer *p = s->p;
    int group = s->stage->group;
    print_rows(s);
    hr_print(p, "for (int64_t step = begin; begin < end && step < end + %d; step%s) {",
             (hr_stage_turns(s->stage) - 1) * group, group > 1 ? hr_format(p, " += %d", group) : "++");
    p->indent++;
    if (group > 1)
        print_group_step(s);
    else
        print_step(s);
    p->indent--;
    hr_print(p, "}");
    hr_stage_lines_end(s);
}
