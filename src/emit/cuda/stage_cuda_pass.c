/* The passes of a CUDA stage over the groups that a thread holds. In: a stage. Out: text.
 *
 * The element of a group that is being computed is `v`, its
 * position in the row (in a flat stage: among all elements) `pos + v`.
 */
#include "emit/c/random_list.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_exchange.h"
#include "emit/cuda/stage_cuda_shared.h"
#include "emit/cuda/stage_cuda_tile.h"
#include "plan/row_bounds.h"

#include <inttypes.h>

/* ROW_GROUPS_MIN: groups of a row for which a branch of their own pays for those that lie in one row */
enum { STASH_ELEMENTS_MAX = 32, ELEMENTS_MAX = 256, ROW_GROUPS_MIN = 64 };

/* ---- values ---- */

const char *hr_cuda_value_of(hr_cuda_stage *s, const hr_expr *e, const char *bits) {
    hr_dtype dtype = s->function->tensors[e->tensor].dtype, type = hr_compute_type(dtype);
    if (dtype == HR_BOOL) return hr_format(s->p, "(%s != 0)", bits);
    return type == dtype
               ? bits
               : hr_format(s->p, "%s_from_%s(%s)", hr_type_prefix(type), hr_dtype_name(dtype), bits);
}

/* Names what is in registers as operands of element v. */
static void name_held(hr_cuda_stage *s, bool on) {
    hr_printer *p = s->p;
    hr_cuda_name_tiled(s, on);
    hr_expr *const *table = s->plan->graph->table;
    for (int i = 0; i < s->plan->graph->table_size; i++) {
        const hr_expr *node = table[i];
        if (!node) continue;
        if (node->op == HR_OP_ELEMENT && s->held[node->id]) {
            bool late = false;
            for (int k = 0; k < s->late_count; k++)
                late = late || s->late[k] == node;
            const char *bits = hr_format(p, "element_of(%s%s, v)", s->held[node->id], late ? "" : "[u]");
            p->buffer[node->id] = on ? hr_cuda_value_of(s, node, bits) : NULL;
        }
        if (s->stash[node->id])
            p->buffer[node->id] = on ? hr_format(p, "stash_%d[u * %d + v]%s", node->id, s->c->vector,
                                                 hr_cuda_merged_scale(s, node))
                                     : NULL;
    }
}

static bool can_keep(const hr_cuda_stage *s) {
    if (s->c->rows == HR_CUDA_ROWS_RING) return true; /* it was chosen so that they fit */
    return hr_cuda_is_resident(s->c) && !s->c->columns && s->c->groups * s->c->vector <= STASH_ELEMENTS_MAX &&
           s->stage->pass_count > 1;
}

void hr_cuda_declare_stash(hr_cuda_stage *s) {
    for (int k = 0; k < hr_stash_of(s->stage)->count && can_keep(s); k++)
        if (!hr_stash_of(s->stage)->once[k] && hr_stash_of(s->stage)->value[k]->op != HR_OP_ELEMENT)
            hr_print(s->p, "float stash_%d[%d];", hr_stash_of(s->stage)->value[k]->id,
                     s->c->groups * s->c->vector);
}

static void print_stash(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    for (int k = 0; k < hr_stash_of(s->stage)->count && can_keep(s); k++) {
        const hr_expr *stash = hr_stash_of(s->stage)->value[k];
        if (hr_stash_of(s->stage)->once[k] || stash->op == HR_OP_ELEMENT || s->stash[stash->id] ||
            !p->uses[stash->id])
            continue;
        p->uses[stash->id]++;
        const char *value = hr_expr_text(p, stash);
        hr_print(p, "stash_%d[u * %d + v] = %s;", stash->id, s->c->vector, value);
        s->stash[stash->id] = true; /* for the passes to come */
    }
}

/* ---- random numbers ---- */

static bool counts_along(hr_printer *p, const hr_expr *e) {
    if (e->op == HR_OP_INDEX) return e->index == p->lane;
    if (e->op != HR_OP_ADD && e->op != HR_OP_SUB) return false;
    bool left = hr_expr_level(p, e->args[0]) == HR_AT_LANE,
         right = hr_expr_level(p, e->args[1]) == HR_AT_LANE;
    if (left == right || (right && e->op == HR_OP_SUB)) return false;
    return counts_along(p, e->args[left ? 0 : 1]);
}

static bool is_drawn_together(hr_printer *p, const hr_expr *random) {
    return hr_expr_level(p, random->args[0]) < HR_AT_LANE && counts_along(p, random->args[1]);
}

static void print_random_group(hr_cuda_stage *s, const hr_expr *node, const hr_expr *compared) {
    hr_printer *p = s->p;
    const char *seed = hr_expr_text(p, node->args[0]);
    const char *counter =
        hr_format(p, "%s + %s", hr_emit_lane_rest(p, node->args[1]), hr_cuda_group_start(s));
    if (compared) hr_random_print_bound(p, node, compared);
    hr_print(p, "%s random_%d[%d];", compared ? "uint32_t" : "float", node->id, s->c->vector);
    hr_print(p, "random_%s<%d>(random_%d, (uint64_t)%s, (uint64_t)(%s));", compared ? "words" : "group",
             s->c->vector, node->id, seed, counter);
    hr_random_give(p, node, compared, hr_format(p, "random_%d[v]", node->id),
                   hr_format(p, "is_at_least(random_%d[v], bound_%d)", node->id, node->id));
}

/* Four neighbouring numbers come of one block of the generator: those of a group are drawn together. */
static void print_randoms(hr_cuda_stage *s, int pass, hr_random_list *list) {
    hr_printer *p = s->p;
    const hr_expr **values = hr_arena_alloc(p->arena, (size_t)s->stage->step_count * sizeof *values);
    int count = 0;
    for (int i = 0; i < s->stage->step_count && (s->c->ends != HR_CUDA_ENDS_STRADDLED || s->one_row); i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass)) values[count++] = s->stage->steps[i].value;
    hr_random_find(p, values, count, is_drawn_together, list);
    for (int i = 0; i < list->count; i++)
        print_random_group(s, list->node[i], list->compared[i]);
}

/* ---- stores ---- */

typedef struct store {
    const hr_step *step;
    const hr_statement *statement;
    hr_dtype type, dtype; /* of the value and of the tensor */
    bool grouped, paired; /* groups are contiguous; values are rounded two at a time */
    int id;
} store;

static store store_of(const hr_cuda_stage *s, const hr_step *step) {
    store t = {.step = step, .statement = hr_cuda_statement(s, step), .type = step->value->type};
    const hr_tensor *tensor = &s->function->tensors[t.statement->tensor];
    t.dtype = tensor->dtype;
    t.id = (int)(step - s->stage->steps);
    int last = t.statement->subscript_count - 1;
    bool dense = !hr_layout_has_strides(hr_plan_layout(s->plan, t.statement->tensor));
    const hr_expr *end = last >= 0 ? t.statement->subscripts[last] : NULL;
    bool along = end && end->op == HR_OP_INDEX && end->index == s->p->lane;
    t.grouped = dense && (s->c->ends == HR_CUDA_ENDS_STRADDLED
                              ? hr_cuda_whole(s, t.statement->tensor, t.statement->subscripts)
                              : along);
    t.paired = t.grouped && t.type == HR_F32 && (t.dtype == HR_BF16 || t.dtype == HR_F16);
    return t;
}

/* Into the place in shared memory that the row leaves from; threads without a row have one there, too. */
static void print_staged_store(hr_cuda_stage *s, const char *staged_block, const char *values) {
    hr_printer *p = s->p;
    const char *place = hr_format(p, "%s + place + pos", staged_block);
    const char *apart = hr_cuda_block_slot_apart(s);
    if (s->c->ends != HR_CUDA_ENDS_EXACT) hr_print(p, "if (inside)");
    hr_print(p, "%sstore_staged(%s, %s, %s);", s->c->ends == HR_CUDA_ENDS_EXACT ? "" : "    ", place, values,
             apart);
    if (s->c->ends == HR_CUDA_ENDS_EXACT) return;
    hr_print(p, "else");
    hr_print(p, "    store_part(%s, %s, 0, %s - pos);", place, values, hr_cuda_row_end(s));
}

static void print_group_store(hr_cuda_stage *s, const store *t) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int tensor = t->statement->tensor, rank = t->statement->subscript_count;
    const char *base, *kind = t->dtype == HR_BF16 ? "bf16_" : "f16_",
                      *live = hr_cuda_checks_live(c) ? "if (live) " : "";
    const char *aligned = hr_cuda_is_aligned(s, tensor, t->statement->subscripts) ? "ALIGNED" : "false";
    const char *values = hr_format(p, "%sgroup_of(y%d)", t->paired ? kind : "", t->id);
    const char *staged_block = hr_cuda_block_slot_out(s, tensor);
    if (staged_block) {
        print_staged_store(s, staged_block, values);
        return;
    }
    if (hr_cuda_whole(s, tensor, t->statement->subscripts) && hr_cuda_group_starts_at_pos(s))
        base = hr_cuda_whole_base(s, tensor);
    else
        base = hr_format(p, "%s + %s", hr_emit_tensor(p, tensor),
                         hr_emit_offset(p, tensor, t->statement->subscripts, rank - 1));
    const char *whole =
        hr_format(p, "store_group<%s>(%s + %s, %s);", aligned, base, hr_cuda_group_start(s), values);
    if (s->exit[t->id])
        whole = hr_format(p, "leave_group<%s>(%s, %s + pos, %s);", aligned,
                          hr_cuda_slot(s, s->exit[t->id], "here"), base, values);
    if (c->ends == HR_CUDA_ENDS_EXACT) {
        hr_print(p, "%s%s", live, whole);
        return;
    }
    hr_print(p, hr_cuda_checks_live(c) ? "if (inside && live)" : "if (inside)");
    hr_print(p, "    %s", whole);
    hr_print(p, hr_cuda_checks_live(c) ? "else if (live)" : "else");
    hr_print(p, "    store_part(%s + %s, %s, %s, %s - pos);", base, hr_cuda_group_start(s), values,
             hr_cuda_is_map(c) ? "0" : "-pos", hr_cuda_row_end(s));
}

static void print_element_store(hr_cuda_stage *s, const store *t, const char *value) {
    hr_printer *p = s->p;
    if (t->grouped) {
        hr_print(p, "y%d[v] = %s;", t->id, t->paired ? value : hr_emit_stored(p, value, t->type, t->dtype));
        return;
    }
    const hr_statement *statement = t->statement;
    hr_print(p, "%s%s[%s] = %s;", hr_cuda_checks_live(s->c) ? "if (live) " : "",
             hr_emit_tensor(p, statement->tensor),
             hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
             hr_emit_stored(p, value, t->type, t->dtype));
}

/* ---- a pass ---- */

static void print_column(hr_cuda_stage *s, const hr_step *step, int i, const char *value) {
    hr_printer *p = s->p;
    if (hr_cuda_checks_live(s->c)) hr_print(p, "if (live)");
    p->indent += hr_cuda_checks_live(s->c);
    if (s->c->sums == HR_CUDA_SUMS_MEMORY)
        hr_cuda_print_add(s, step, hr_format(p, "column_%d[pos + v]", i), value);
    else
        hr_cuda_print_add(s, step, hr_format(p, "column_%d[u * %d + v]", i, s->c->vector), value);
    p->indent -= hr_cuda_checks_live(s->c);
}

static void print_step(hr_cuda_stage *s, int i, const char *value) {
    const hr_step *step = &s->stage->steps[i];
    hr_printer *p = s->p;
    switch (step->kind) {
    case HR_STEP_ELEMENT: {
        store t = store_of(s, step);
        print_element_store(s, &t, value);
        break;
    }
    case HR_STEP_REDUCE_ROW:
        if (s->online[i])
            hr_print(p, "z%d[v] = %s;", i, value);
        else
            hr_cuda_print_add(s, step, hr_format(p, "a%d", i), value);
        break;
    case HR_STEP_REDUCE_COLUMN:
        print_column(s, step, i, value);
        break;
    case HR_STEP_REDUCE_ALL:
        if (hr_cuda_checks_live(s->c)) hr_print(p, "if (live)");
        hr_cuda_print_add(
            s, step, hr_format(p, hr_cuda_is_total_of_parts(s, step) ? "part_%d" : "total_%d", i), value);
        break;
    case HR_STEP_ORDERED: /* a kernel of its own */
        break;
    case HR_STEP_SCATTER:
        hr_cuda_print_scatter(s, step, value);
        break;
    case HR_STEP_ROW:
    case HR_STEP_PARTIAL: /* a product's */
        break;
    }
}

static void prepare_steps(hr_cuda_stage *s, int pass, hr_emit_level level) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_cuda_runs_in(s, step, pass)) continue;
        hr_expr_prepare(s->p, step->value, level);
        for (int a = 0; step->kind == HR_STEP_SCATTER && a < hr_cuda_statement(s, step)->subscript_count; a++)
            hr_expr_prepare(s->p, hr_cuda_statement(s, step)->subscripts[a], level);
    }
}

/* All values of an element are computed before the first is stored. */
static void print_element(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    const char *values[ELEMENTS_MAX];
    int count = s->stage->step_count < ELEMENTS_MAX ? s->stage->step_count : ELEMENTS_MAX;
    hr_printer_forget(p, HR_AT_LANE);
    for (int i = 0; i < count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass)) hr_expr_count_uses(p, s->stage->steps[i].value);
    print_stash(s);
    for (int i = 0; i < count; i++) {
        if (!hr_cuda_runs_in(s, &s->stage->steps[i], pass)) continue;
        values[i] = hr_format(p, "e%d", i);
        const char *text = hr_expr_text(p, s->stage->steps[i].value);
        hr_print(p, "const %s e%d = %s;", hr_c_compute(s->stage->steps[i].value->type), i, text);
    }
    for (int i = 0; i < count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass)) print_step(s, i, values[i]);
}

static hr_visit is_read(void *printer, const hr_expr *node) {
    hr_printer *p = printer;
    if (p->buffer[node->id]) return HR_VISIT_PAST;
    return hr_visit_until(node->op == HR_OP_ELEMENT && !p->value[node->tensor] &&
                          hr_expr_level(p, node) > HR_AT_TASK);
}

static bool reads_elements(hr_printer *p, const hr_expr *value) {
    hr_walk walk = {.enter = is_read, .context = p};
    const bool found = hr_walk_through(&walk, value);
    hr_walk_end(&walk);
    return found;
}

/* Elements of a group that stand outside of the row must not be computed: they would be read or added up. */
static bool needs_guard(hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_cuda_runs_in(s, step, pass)) continue;
        bool apart = s->online[i] || (step->kind == HR_STEP_ELEMENT && store_of(s, step).grouped);
        if (!apart || reads_elements(s->p, step->value)) return true;
    }
    return false;
}

static void print_element_loop(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    bool guard = c->ends != HR_CUDA_ENDS_EXACT && needs_guard(s, pass);
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int v = 0; v < %d; v++) {", c->vector);
    p->indent++;
    if (guard) hr_print(p, "if (%s) {", hr_cuda_element_guard(s));
    p->indent += guard;
    if (hr_cuda_wraps_once(s)) {
        int first = hr_cuda_is_map(c) ? 0 : s->stage->task_count;
        hr_print(p, "const bool wraps = start + v >= %" PRId64 ";", c->lane);
        hr_print(p, "const int64_t i = wraps ? start + v - %" PRId64 " : start + v;", c->lane);
        hr_print(p, "const int64_t %s = above + wraps;", hr_emit_index(p, c->order[first]));
        prepare_steps(s, pass, HR_AT_OUTER);
    } else if (c->ends == HR_CUDA_ENDS_STRADDLED) {
        hr_print(p, "const %s at = pos + v;", s->positions);
        hr_cuda_print_indices(s, "at", "i");
        prepare_steps(s, pass, HR_AT_OUTER);
    } else if (p->lane >= 0) {
        hr_print(p, "const int64_t i = %s + v;", hr_cuda_group_start(s));
    }
    print_element(s, pass);
    hr_printer_forget(p, HR_AT_LANE);
    if (guard) hr_cuda_close(p);
    hr_cuda_close(p);
}

/* Nearly all groups of a straddling stage lie in one row. */
static bool splits_by_row(const hr_cuda_stage *s) {
    return hr_cuda_is_map(s->c) && hr_cuda_wraps_once(s) &&
           s->c->lane >= (int64_t)ROW_GROUPS_MIN * s->c->vector && hr_stash_of(s->stage)->count == 0;
}

/* For those groups what is one for a row is read and computed once, and neighbours are loaded together. */
static void print_one_row_loop(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    hr_random_list randoms;
    s->one_row = true;
    hr_print(p, "const int64_t %s = above;", hr_emit_index(p, s->c->order[0]));
    prepare_steps(s, pass, HR_AT_OUTER);
    hr_cuda_print_late_loads(s, pass);
    print_randoms(s, pass, &randoms);
    name_held(s, true);
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int v = 0; v < %d; v++) {", s->c->vector);
    p->indent++;
    hr_print(p, "const int64_t i = start + v;");
    print_element(s, pass);
    hr_printer_forget(p, HR_AT_LANE);
    hr_cuda_close(p);
    name_held(s, false);
    hr_cuda_drop_late_loads(s);
    hr_random_forget(p, &randoms);
    hr_printer_forget(p, HR_AT_OUTER);
    name_held(s, true);
    s->one_row = false;
}

static void print_all_elements(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    if (!splits_by_row(s)) {
        print_element_loop(s, pass);
        return;
    }
    hr_print(p, "if (start + %d <= %" PRId64 ") {", s->c->vector, s->c->lane);
    p->indent++;
    print_one_row_loop(s, pass);
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    print_element_loop(s, pass);
    hr_printer_forget(p, HR_AT_OUTER);
    hr_cuda_close(p);
}

static const char *no_values(hr_cuda_stage *s) {
    const char *values = "-INFINITY";
    for (int v = 1; v < s->c->vector; v++)
        values = hr_format(s->p, "%s, -INFINITY", values);
    return values;
}

/* What is stored or added a group at a time, before its elements have values. */
static void declare_groups(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_cuda_runs_in(s, step, pass)) continue;
        if (hr_cuda_is_grouped_scatter(s, step))
            hr_print(p, "%s y%d[%d] = {};", hr_cuda_scatter_type(s, step), i, s->c->vector);
        if (step->kind != HR_STEP_ELEMENT) continue;
        store t = store_of(s, step);
        if (t.grouped)
            hr_print(p, "%s y%d[%d]%s;", t.paired ? "float" : hr_c_storage(t.dtype), t.id, s->c->vector,
                     s->c->ends == HR_CUDA_ENDS_EXACT ? "" : " = {}");
    }
}

/* Peaks whose sums are made beside them take a group's values together. */
static void declare_online(hr_cuda_stage *s, int pass, bool guard) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass) && s->online[i])
            hr_print(s->p, guard ? "float z%d[%d] = {%s};" : "float z%d[%d];", i, s->c->vector, no_values(s));
}

static void add_online(hr_cuda_stage *s, int pass, bool guard) {
    for (int i = 0; i < s->stage->step_count; i++) {
        if (!hr_cuda_runs_in(s, &s->stage->steps[i], pass) || !s->online[i]) continue;
        if (!guard && s->c->ends != HR_CUDA_ENDS_EXACT)
            hr_print(s->p, "if (!inside) leave_outside(z%d, -pos, %s - pos);", i, hr_cuda_row_end(s));
        hr_print(s->p, "online_add(a%d, a%d, z%d);", i, s->online[i] - 1, i);
    }
}

static void store_groups(hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_cuda_runs_in(s, step, pass) || step->kind != HR_STEP_ELEMENT) continue;
        store t = store_of(s, step);
        if (t.grouped) print_group_store(s, &t);
    }
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass) &&
            hr_cuda_is_grouped_scatter(s, &s->stage->steps[i]))
            hr_cuda_print_group_scatter(s, &s->stage->steps[i]);
}

static void print_groups(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    hr_random_list randoms;
    hr_cuda_open_groups(s);
    hr_cuda_print_group_indices(s);
    if (s->c->ends != HR_CUDA_ENDS_STRADDLED && p->outer_count) prepare_steps(s, pass, HR_AT_OUTER);
    hr_cuda_print_late_loads(s, pass);
    print_randoms(s, pass, &randoms);
    declare_groups(s, pass);
    hr_cuda_print_wide_loads(s, pass);
    name_held(s, true);
    const bool guard = s->c->ends != HR_CUDA_ENDS_EXACT && needs_guard(s, pass);
    declare_online(s, pass, guard);
    print_all_elements(s, pass);
    name_held(s, false);
    hr_cuda_drop_wide_loads(s);
    hr_cuda_drop_late_loads(s);
    add_online(s, pass, guard);
    hr_random_forget(p, &randoms);
    store_groups(s, pass);
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_OUTER);
}

/* ---- chains ---- */

/* Runs of groups after which a row's sums in f32 go to totals in f64; 0 = a row has no more. */
static int64_t runs_of_chain(const hr_cuda_stage *s) {
    const int64_t addends = (int64_t)s->c->groups * s->c->vector, chain = s->stage->schedule->chain;
    const int64_t runs = chain > addends ? chain / addends : 1;
    return chain && s->c->chunks > runs ? runs : 0;
}

static bool has_total(const hr_cuda_stage *s, int i, int pass) {
    const hr_step *step = &s->stage->steps[i];
    return hr_cuda_runs_in(s, step, pass) && step->kind == HR_STEP_REDUCE_ROW && hr_cuda_sums_f32(s, step);
}

/* The sum that is made beside the peak of step i; -1 = none. */
static int online_sum(const hr_cuda_stage *s, int i, int pass) {
    return hr_cuda_runs_in(s, &s->stage->steps[i], pass) ? s->online[i] - 1 : -1;
}

static void print_chains_begin(hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        if (has_total(s, i, pass)) hr_print(s->p, "double folded_%d = 0;", i);
        const int sum = online_sum(s, i, pass);
        if (sum >= 0)
            hr_print(s->p, "double folded_%d = 0; float folded_peak_%d = %s;", sum, sum,
                     hr_cuda_identity(&s->stage->steps[i]));
    }
}

static void print_fold(hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        if (has_total(s, i, pass)) hr_print(s->p, "folded_%d += a%d, a%d = 0;", i, i, i);
        const int sum = online_sum(s, i, pass);
        if (sum >= 0) hr_print(s->p, "online_fold(folded_%d, folded_peak_%d, a%d, a%d);", sum, sum, i, sum);
    }
}

static void print_chains_end(hr_cuda_stage *s, int pass) {
    print_fold(s, pass);
    for (int i = 0; i < s->stage->step_count; i++) {
        const int sum = online_sum(s, i, pass) >= 0 ? online_sum(s, i, pass) : has_total(s, i, pass) ? i : -1;
        if (sum >= 0) hr_print(s->p, "a%d = (float)folded_%d;", sum, sum);
    }
}

static bool folds_in(const hr_cuda_stage *s, int pass) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (has_total(s, i, pass) || online_sum(s, i, pass) >= 0) return true;
    return false;
}

/* `form`: of a step's number, twice. */
static void print_parts(hr_cuda_stage *s, int pass, const char *form) {
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], pass) &&
            hr_cuda_is_total_of_parts(s, &s->stage->steps[i]))
            hr_print(s->p, form, i, i);
}

/* Where data say where the row begins and ends. Groups of elements outside are not read. */
static void print_bounds(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    hr_row_bounds bounds;
    s->bounded = (s->c->rows == HR_CUDA_ROWS_HELD || s->c->rows == HR_CUDA_ROWS_AGAIN) &&
                 hr_stage_row_bounds(s->plan, s->stage, &bounds);
    if (!s->bounded) return;
    hr_print(p, "int64_t from = %s, until = %s;", bounds.begin_count ? "INT64_MAX" : "0",
             bounds.end_count ? "0" : hr_format(p, "%" PRId64, s->c->row));
    for (int k = 0; k < bounds.begin_count + bounds.end_count; k++) {
        const bool begin = k < bounds.begin_count;
        const hr_expr *bound = begin ? bounds.begin[k] : bounds.end[k - bounds.begin_count];
        hr_expr_prepare(p, bound, HR_AT_TASK);
        const char *text = hr_expr_text(p, bound), *name = begin ? "from" : "until";
        hr_print(p, "if (%s %s %s) %s = %s;", text, begin ? "<" : ">", name, name, text);
    }
}

void hr_cuda_print_pass(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    bool any = false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (hr_cuda_runs_in(s, step, pass)) any = true;
        if (hr_cuda_runs_in(s, step, pass) && step->kind == HR_STEP_REDUCE_ROW)
            hr_print(p, "%s a%d = %s;", hr_cuda_sum_type(s, step), i, hr_cuda_identity(step));
        if (hr_cuda_runs_in(s, step, pass) && s->online[i]) hr_print(p, "float a%d = 0;", s->online[i] - 1);
    }
    if (!any) return;
    prepare_steps(s, pass, HR_AT_TASK);
    print_bounds(s);
    bool runs = s->c->chunks > 1;
    const int64_t chain = runs_of_chain(s);
    if (chain) print_chains_begin(s, pass);
    if (runs) {
        hr_print(p, "for (int64_t chunk = 0; chunk < %" PRId64 "; chunk++) {", s->c->chunks);
        p->indent++;
        if (s->bounded)
            hr_print(p, "if (chunk * %" PRId64 " >= until) break;",
                     (int64_t)s->c->groups * s->c->row_threads * s->c->slices * s->c->vector);
    }
    print_parts(s, pass, "float part_%d = 0;");
    hr_cuda_print_loads(s, pass);
    print_groups(s, pass);
    print_parts(s, pass, "total_%d += part_%d;");
    if (chain && folds_in(s, pass)) {
        hr_print(p, "if (chunk %% %" PRId64 " == %" PRId64 ") {", chain, chain - 1);
        p->indent++;
        print_fold(s, pass);
        hr_cuda_close(p);
    }
    if (runs) hr_cuda_close(p);
    if (chain) print_chains_end(s, pass);
    if (!hr_cuda_is_resident(s->c)) hr_cuda_forget_groups(s);
}
