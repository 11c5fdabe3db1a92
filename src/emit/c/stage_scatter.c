/* What is written into places that depend on data. In: a stage. Out: text. See stage_scatter.h. */
#include "emit/c/stage_scatter.h"

#include "base/dtype.h"
#include "emit/c/stage_order.h"
#include "emit/c/stage_prefetch.h"
#include "emit/element.h"
#include "emit/reduce.h"
#include "emit/templates/cpu/places.h"

/* ---- each thread owns the places that are its share and skips the others ---- */

static bool is_row_scatter(hr_stage_printer *s, const hr_statement *statement) {
    int rank = statement->subscript_count;
    if (!s->stage->row_count || s->stage->row_count > 1 || rank < 2) return false;
    const hr_expr *last = statement->subscripts[rank - 1];
    if (last->op != HR_OP_INDEX || last->index != s->p->lane) return false;
    for (int a = 0; a < rank - 1; a++)
        if (hr_expr_level(s->p, statement->subscripts[a]) == HR_AT_LANE) return false;
    return true;
}

/* What is added, as C, or what is stored in the place. */
static const char *written_value(hr_stage_printer *s, const hr_step *step) {
    const hr_statement *statement = &s->function->statements[step->statement];
    hr_dtype dtype = s->function->tensors[statement->tensor].dtype;
    const char *value = hr_expr_text(s->p, step->value);
    if (statement->store == HR_STORE_PLACE) return hr_emit_stored(s->p, value, step->value->type, dtype);
    return step->value->type == dtype ? value : hr_format(s->p, "(%s)%s", hr_c_compute(dtype), value);
}

static const char *write_operator(const hr_statement *statement) {
    return statement->store == HR_STORE_PLACE ? "=" : "+=";
}

/* What says which row a task adds to. */
static void print_subscripts(hr_stage_printer *s, const hr_statement *statement) {
    for (int a = 0; a < statement->subscript_count; a++)
        hr_expr_prepare(s->p, statement->subscripts[a], HR_AT_TASK);
}

/* The flag that the first `axes` subscripts of what the stage writes are on their axes. */
static const char *valid_text(hr_stage_printer *s, int axes) {
    const char *condition = hr_emit_scatter_condition(s->p, &s->stage->steps[0], axes);
    return condition ? condition : "true";
}

/* Tasks without such a row are left out. */
static void print_check(hr_stage_printer *s, const hr_statement *statement) {
    hr_print(s->p, "if (!(%s)) continue;", valid_text(s, statement->subscript_count - 1));
}

static void print_task(hr_stage_printer *s) {
    hr_printer_forget(s->p, HR_AT_TASK);
    hr_stage_task_indices(s);
}

/* The offset of that row. */
static const char *row_place(hr_stage_printer *s, const hr_statement *statement) {
    return hr_emit_offset(s->p, statement->tensor, statement->subscripts, statement->subscript_count - 1);
}

static const char *row_length(hr_stage_printer *s, const hr_statement *statement) {
    return hr_emit_size(s->p, s->function->tensors[statement->tensor].shape[statement->subscript_count - 1]);
}

/* Adds the lanes from `first` to `last` to those of `row`, a pointer, from `place` on, or stores them there.
 */
static void print_row_writes(hr_stage_printer *s, const hr_step *step, const char *row, const char *place,
                             const char *first, const char *last) {
    hr_printer *p = s->p;
    hr_print(p, "#pragma omp simd");
    hr_print(p, "for (int64_t i = %s; i < %s; i++) {", first, last);
    p->indent++;
    hr_printer_forget(p, HR_AT_LANE);
    hr_expr_count_uses(p, step->value);
    const char *value = written_value(s, step);
    hr_print(p, "%s[%si] %s %s;", row, place, write_operator(&s->function->statements[step->statement]),
             value);
    p->indent--;
    hr_print(p, "}");
}

/* ---- places whose sums are totals of f64 until the end ---- */

/* Few places have them on the stack. More have them in scratch memory where what that takes is little beside
 * the work: where so many points are added to each that their sums need it. Else those have them that most is
 * added to (templates/cpu/places.h), which takes less, but for a set of slots a thread. */
const hr_size *hr_scatter_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int threads) {
    if (!hr_scatter_may_be_totalled(plan, stage)) return hr_size_number(sizes, 0);
    const hr_tensor *tensor =
        &plan->normal->tensors[plan->normal->statements[stage->steps[0].statement].tensor];
    const hr_size *points =
        hr_size_product(sizes, hr_size_points(sizes, plan->normal, stage->task, stage->task_count),
                        hr_size_points(sizes, plan->normal, stage->row, stage->row_count));
    const int last = tensor->rank > 1 ? tensor->rank - 1 : tensor->rank; /* a slot has an element, or a row */
    const hr_size *slot =
        hr_size_sum(sizes, hr_size_elements(sizes, tensor, last, 1), hr_size_number(sizes, 2));
    const hr_size *set = hr_size_product(sizes, hr_size_number(sizes, PLACE_WAYS * (int)sizeof(double)),
                                         hr_size_brackets(sizes, slot));
    return hr_size_sum(sizes,
                       hr_size_least(sizes, hr_size_elements(sizes, tensor, 0, (int64_t)sizeof(double)),
                                     hr_size_parts(sizes, hr_size_brackets(sizes, points), 2)),
                       hr_size_product(sizes, set, hr_size_word(sizes, "threads", threads)));
}

/* Whose places these are; those of strides may lie before the array's address. */
static const char *owner_of(hr_stage_printer *s, const hr_statement *statement, bool rows,
                            const char *place) {
    if (hr_layout_has_strides(hr_plan_layout(s->plan, statement->tensor)))
        return hr_format(s->p, "(int64_t)((uint64_t)(%s) / %s %% (uint64_t)threads)", place,
                         rows ? hr_format(s->p, "(uint64_t)(%s)", row_length(s, statement)) : "16");
    return rows ? hr_format(s->p, "%s / %s %% threads", place, row_length(s, statement))
                : hr_format(s->p, "%s / 16 %% threads", place);
}

static void print_totals_begin(hr_stage_printer *s, const hr_statement *statement, bool rows) {
    hr_printer *p = s->p;
    hr_print(p, "const int64_t places = %s, points = %s * %s;", hr_emit_elements(p, statement->tensor),
             hr_stage_task_total(s), hr_emit_points(p, s->stage->row, s->stage->row_count));
    hr_print(p, "double near[%d];", HR_SCATTER_NEAR);
    hr_print(p, "double *const totals = places <= %d           ? near", HR_SCATTER_NEAR);
    hr_print(p, "                       : places <= points / 2 / 8 ? (double *)(void *)work");
    hr_print(p, "                                                  : NULL;");
    hr_print(p, "for (int64_t k = 0; totals && k < places; k++)");
    hr_print(p, "    if (%s == thread) totals[k] = 0;", owner_of(s, statement, rows, "k"));
    hr_print(p, "place_slots slots = {0};");
    hr_print(p, "if (!totals) slots = place_slots_of(work, %s, %s, thread, threads);",
             rows ? hr_stage_task_total(s) : "points", rows ? row_length(s, statement) : "1");
}

/* "total": where the additions to `place` go; NULL = into the table. */
static void print_total(hr_stage_printer *s, const hr_statement *statement) {
    hr_print(s->p, "double *const total = totals ? totals + place : place_total(&slots, %s, place);",
             hr_emit_tensor(s->p, statement->tensor));
}

static void print_totals_end(hr_stage_printer *s, const hr_statement *statement, bool rows) {
    hr_printer *p = s->p;
    const char *table = hr_emit_tensor(p, statement->tensor);
    hr_print(p, "for (int64_t k = 0; totals && k < places; k++)");
    hr_print(p, "    if (%s == thread) %s[k] = (float)(%s[k] + totals[k]);",
             owner_of(s, statement, rows, "k"), table, table);
    hr_print(p, "if (!totals) place_slots_end(&slots, %s);", table);
}

static void print_row_scatter(hr_stage_printer *s, const hr_step *step, const hr_statement *statement) {
    hr_printer *p = s->p;
    print_task(s);
    print_subscripts(s, statement);
    print_check(s, statement);
    hr_print(p, "const int64_t place = %s;", row_place(s, statement));
    if (statement->store == HR_STORE_ADD)
        hr_print(p, "if (%s < 1 || %s != thread) continue;", row_length(s, statement),
                 owner_of(s, statement, true, "place"));
    const char *lanes = hr_emit_index_size(p, p->lane);
    const bool totals = hr_scatter_may_be_totalled(s->plan, s->stage);
    if (totals) print_total(s, statement);
    for (int to_totals = totals; to_totals >= 0; to_totals--) {
        if (totals) hr_print(p, to_totals ? "if (total) {" : "} else {");
        p->indent += totals;
        hr_printer_forget(p, HR_AT_TASK); /* what the other block names is not known here */
        hr_expr_prepare(p, step->value, HR_AT_TASK);
        print_row_writes(s, step, to_totals ? "total" : hr_emit_tensor(p, statement->tensor),
                         to_totals ? "" : "place + ", "0", lanes);
        p->indent -= totals;
    }
    if (totals) hr_print(p, "}");
}

/* Over all of the row's indices; `own`: over this thread's share of them, into its own places. Places that
 * are assigned are the share of whoever assigns them. */
static void print_element_scatter(hr_stage_printer *s, const hr_step *step, const hr_statement *statement,
                                  bool own) {
    const bool shared = own || statement->store == HR_STORE_PLACE;
    hr_printer *p = s->p;
    int rank = statement->subscript_count, loops = s->stage->row_count;
    for (int i = 0; i < loops; i++) {
        const char *index = hr_emit_index(p, s->stage->row[i]),
                   *size = hr_emit_index_size(p, s->stage->row[i]);
        if (shared && i == 0 && !s->stage->task_count)
            hr_print(p, "for (int64_t %s = %s * thread / threads; %s < %s * (thread + 1) / threads; %s++) {",
                     index, size, index, size, index);
        else
            hr_print(p, "for (int64_t %s = 0; %s < %s; %s++) {", index, index, size, index);
        p->indent++;
    }
    hr_printer_forget(p, HR_AT_TASK);
    hr_print(p, "if (!(%s)) continue;", valid_text(s, rank));
    hr_print(p, "const int64_t place = %s;",
             hr_emit_offset(p, statement->tensor, statement->subscripts, rank));
    if (!shared) hr_print(p, "if (%s != thread) continue;", owner_of(s, statement, false, "place"));
    const char *value = written_value(s, step), *table = own ? "own" : hr_emit_tensor(p, statement->tensor);
    if (hr_scatter_may_be_totalled(s->plan, s->stage)) {
        print_total(s, statement);
        hr_print(p, "if (total)");
        hr_print(p, "    *total += %s;", value);
        hr_print(p, "else");
        hr_print(p, "    %s[place] += %s;", table, value);
    } else {
        hr_print(p, "%s[place] %s %s;", table, write_operator(statement), value);
    }
    for (int i = 0; i < loops; i++) {
        p->indent--;
        hr_print(p, "}");
    }
}

/* ---- few places: each thread counts on its own ---- */

/* Whole numbers: in which order they are added changes nothing. */
static bool can_own(const hr_stage_printer *s, const hr_statement *statement) {
    return statement->store == HR_STORE_ADD && s->function->tensors[statement->tensor].dtype == HR_I64 &&
           statement->subscript_count > 0 && s->stage->task_count + s->stage->row_count > 0 &&
           hr_plan_layout(s->plan, statement->tensor) == HR_LAYOUT_DENSE;
}

/* Up to "} else {" for more places than fit the first-level cache. */
static void print_own(hr_stage_printer *s, const hr_step *step, const hr_statement *statement) {
    enum { PLACES_MOST = 2048 };
    hr_printer *p = s->p;
    hr_print(p, "const int64_t places = %s;", hr_emit_elements(p, statement->tensor));
    hr_print(p, "if (places <= %d) {", PLACES_MOST);
    p->indent++;
    hr_print(p, "int64_t own[%d];", PLACES_MOST);
    hr_print(p, "for (int64_t k = 0; k < places; k++)");
    hr_print(p, "    own[k] = 0;");
    if (s->stage->task_count) {
        hr_print(p, "const int64_t tasks = %s;", hr_stage_task_total(s));
        hr_print(
            p,
            "for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; task++) {");
    } else {
        hr_print(p, "{");
    }
    p->indent++;
    if (s->stage->task_count) hr_stage_task_indices(s);
    print_element_scatter(s, step, statement, true);
    p->indent--;
    hr_print(p, "}");
    hr_print(p, "for (int64_t k = 0; k < places; k++)");
    hr_print(p, "    if (own[k]) __atomic_fetch_add(%s + k, own[k], __ATOMIC_RELAXED);",
             hr_emit_tensor(p, statement->tensor));
    p->indent--;
    hr_print(p, "} else {");
}

/* ---- rows in order ---- */

/* Which of the tensor's rows a task adds to. */
static const char *print_row_number(hr_stage_printer *s) {
    const hr_statement *statement = &s->function->statements[s->stage->steps[0].statement];
    print_subscripts(s, statement);
    print_check(s, statement);
    if (statement->subscript_count == 2) return hr_expr_text(s->p, statement->subscripts[0]);
    return hr_format(s->p, "(%s) / %s", row_place(s, statement), row_length(s, statement));
}

static const char *row_total(hr_stage_printer *s, const hr_statement *statement) {
    const hr_tensor *tensor = &s->function->tensors[statement->tensor];
    const char *rows = hr_emit_size(s->p, tensor->shape[0]);
    for (int a = 1; a < statement->subscript_count - 1; a++)
        rows = hr_format(s->p, "%s * %s", rows, hr_emit_size(s->p, tensor->shape[a]));
    return rows;
}

/* Rows of the next task that are prefetched: pointers to their beginnings, and how wide their elements are.
 */
typedef struct rows_ahead {
    const char *name[HR_STREAMS_MAX];
    int size[HR_STREAMS_MAX], count;
} rows_ahead;

static void prefetch_row(hr_stage_printer *s, int tensor, hr_expr *const *subscripts, rows_ahead *ahead) {
    if (ahead->count == HR_STREAMS_MAX) return;
    const char *name = hr_stage_next_row(s, tensor, subscripts, s->function->tensors[tensor].rank - 1);
    if (!name) return;
    ahead->name[ahead->count] = name;
    ahead->size[ahead->count++] = (int)hr_dtype_size(s->function->tensors[tensor].dtype);
}

typedef struct prefetching {
    hr_stage_printer *s;
    rows_ahead *ahead;
} prefetching;

static void prefetch_element(void *context, const hr_expr *node) {
    const prefetching *asked = context;
    hr_stage_printer *s = asked->s;
    if (node->op != HR_OP_ELEMENT) return;
    int rank = s->function->tensors[node->tensor].rank;
    for (int a = 0; a < rank - 1; a++)
        if (hr_expr_level(s->p, node->args[a]) == HR_AT_LANE) return;
    if (rank > 1 && hr_expr_level(s->p, node->args[rank - 1]) == HR_AT_LANE)
        prefetch_row(s, node->tensor, node->args, asked->ahead);
}

static void prefetch_rows(hr_stage_printer *s, const hr_expr *value, rows_ahead *ahead) {
    prefetching asked = {s, ahead};
    hr_walk walk = {.leave = prefetch_element, .context = &asked};
    hr_walk_through(&walk, value);
    hr_printer_walked(s->p, &walk);
}

/* A few lines at a time, so that prefetching the next rows mixes with the work on this one. */
static void print_row_lanes(hr_stage_printer *s, const hr_step *step, const char *table,
                            const rows_ahead *ahead) {
    enum { BLOCK = 32, LINE = 64 };
    hr_printer *p = s->p;
    const char *size = hr_emit_index_size(p, p->lane);
    hr_print(p, "for (int64_t block = 0; block < %s; block += %d) {", size, BLOCK);
    p->indent++;
    for (int n = 0; n < ahead->count; n++)
        for (int line = 0; line < BLOCK * ahead->size[n]; line += LINE)
            hr_print(p, line ? "prefetch_read(%s + block + %d);" : "prefetch_read(%s + block);",
                     ahead->name[n], line / ahead->size[n]);
    hr_print(p, "const int64_t stop = %s - block < %d ? %s : block + %d;", size, BLOCK, size, BLOCK);
    print_row_writes(s, step, table, "place + ", "block", "stop");
    p->indent--;
    hr_print(p, "}");
}

/* Tasks that add to one row follow each other: after a chain of them its totals, in f64, take what the row
 * has come to. */
static bool has_chains(const hr_stage_printer *s, const hr_statement *statement) {
    return s->function->tensors[statement->tensor].dtype == HR_F32;
}

static void print_chains_begin(hr_stage_printer *s, const hr_statement *statement) {
    if (!has_chains(s, statement)) return;
    hr_print(s->p, "double *const totals = (double *)(void *)(work + %s) + thread * %s;",
             hr_order_totals_text(s), row_length(s, statement));
    hr_print(s->p, "int64_t chained = 0, folds = 0, before = -1;");
}

static void print_chain(hr_stage_printer *s, const hr_statement *statement) {
    hr_printer *p = s->p;
    const char *table = hr_emit_tensor(p, statement->tensor), *length = row_length(s, statement);
    if (!has_chains(s, statement)) return;
    hr_print(p, "if (place != before) {");
    hr_print(p, "    if (folds) f32_unfold(%s + before, totals, %s);", table, length);
    hr_print(p, "    before = place, chained = folds = 0;");
    hr_print(p, "} else if (chained == %d) {", HR_CHAIN_ADDENDS);
    hr_print(p, "    f32_fold(%s + place, totals, %s, folds++);", table, length);
    hr_print(p, "    chained = 0;");
    hr_print(p, "}");
    hr_print(p, "chained++;");
}

static void print_chains_end(hr_stage_printer *s, const hr_statement *statement) {
    if (has_chains(s, statement))
        hr_print(s->p, "if (folds) f32_unfold(%s + before, totals, %s);",
                 hr_emit_tensor(s->p, statement->tensor), row_length(s, statement));
}

static void print_ordered(hr_stage_printer *s) {
    enum { BYTES_AHEAD = 8192 };
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[0];
    const hr_statement *statement = &s->function->statements[step->statement];
    rows_ahead ahead = {.count = 0};
    hr_print(p, "const int64_t row = %s * %d, ahead = row < 1 || row > %d ? 1 : %d / row;",
             row_length(s, statement), (int)hr_dtype_size(s->function->tensors[statement->tensor].dtype),
             BYTES_AHEAD, BYTES_AHEAD);
    print_chains_begin(s, statement);
    hr_print(p, "for (int64_t n = 0; n < order.count; n++) {");
    p->indent++;
    hr_print(p, "const int64_t task = order.tasks[n];");
    hr_print(p, "const int64_t next = order.tasks[n + ahead < order.count ? n + ahead : n];");
    print_task(s);
    print_subscripts(s, statement);
    hr_print(p, "const int64_t place = %s;", row_place(s, statement));
    print_chain(s, statement);
    prefetch_row(s, statement->tensor, statement->subscripts, &ahead);
    prefetch_rows(s, step->value, &ahead);
    hr_expr_prepare(p, step->value, HR_AT_TASK);
    print_row_lanes(s, step, hr_emit_tensor(p, statement->tensor), &ahead);
    p->indent--;
    hr_print(p, "}");
    print_chains_end(s, statement);
}

/* Each thread goes through all tasks and adds to the places that are its own; of places that are assigned it
 * assigns those of its share of the tasks. */
static void print_tasks(hr_stage_printer *s, const hr_statement *statement) {
    if (statement->store == HR_STORE_PLACE && (s->stage->task_count || !s->stage->row_count)) {
        hr_print(s->p, "const int64_t tasks = %s;", hr_stage_task_total(s));
        hr_print(s->p, "for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; "
                       "task++) {");
    } else {
        hr_print(s->p, "for (int64_t task = 0; task < %s; task++) {", hr_stage_task_total(s));
    }
}

void hr_stage_scatter(hr_stage_printer *s) {
    hr_printer *p = s->p;
    const hr_step *step = &s->stage->steps[0];
    const hr_statement *statement = &s->function->statements[step->statement];
    if (hr_cpu_walk_of(s->stage)->order != HR_ORDER_LYING) {
        hr_order_added(s, row_total(s, statement), print_row_number, print_ordered);
        return;
    }
    const bool lone =
        statement->store == HR_STORE_PLACE && !s->stage->task_count; /* a row to be shared out */
    bool rows = !lone && is_row_scatter(s, statement), own = !rows && can_own(s, statement);
    const bool totals = hr_scatter_may_be_totalled(s->plan, s->stage);
    if (own) print_own(s, step, statement);
    if (totals) print_totals_begin(s, statement, rows);
    p->indent += own;
    hr_printer_forget(p, HR_AT_TASK);
    print_tasks(s, statement);
    p->indent++;
    if (rows) {
        print_row_scatter(s, step, statement);
    } else {
        hr_stage_task_indices(s);
        print_element_scatter(s, step, statement, false);
    }
    p->indent--;
    hr_print(p, "}");
    p->indent -= own;
    if (own) hr_print(p, "}");
    if (totals) print_totals_end(s, statement, rows);
}
