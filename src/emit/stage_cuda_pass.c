/* The passes of a CUDA stage over the groups that a thread holds. In: a stage. Out: text.
 *
 * Loads stand before the first use of any of them. The element of a group that is being computed is `v`, its
 * position in the row (in a flat stage: among all elements) `pos + v`.
 */
#include "base/dtype.h"
#include "emit/lane_loop.h"
#include "emit/stage_cuda.h"

#include <inttypes.h>
#include <string.h>

enum { KEPT_ELEMENTS_MAX = 64, ELEMENTS_MAX = 256 };

/* ---- reductions ---- */

static bool is_largest(hr_op op) {
    return op == HR_OP_REDUCE_MAX || op == HR_OP_REDUCE_ARGMAX;
}

static const char *plain_sum_type(const hr_cuda_stage *s, const hr_step *step) {
    hr_dtype type =
        step->reduce == HR_OP_REDUCE_SUM ? hr_cuda_statement(s, step)->value->type : step->value->type;
    if (step->reduce == HR_OP_REDUCE_SUM && type != HR_F32 && type != HR_F64) return "int64_t";
    return type == HR_BOOL ? "int32_t" : hr_c_compute(type);
}

const char *hr_cuda_sum_type(const hr_cuda_stage *s, const hr_step *step) {
    const char *type = plain_sum_type(s, step);
    return hr_is_arg(step->reduce) ? hr_format(s->p, "found<%s>", type) : type;
}

const char *hr_cuda_identity(hr_cuda_stage *s, const hr_step *step) {
    if (hr_is_arg(step->reduce)) return "{0, -1}";
    return hr_reduce_identity(s->p, step->reduce, step->value->type);
}

const char *hr_cuda_reducer(const hr_step *step) {
    if (step->reduce == HR_OP_REDUCE_SUM) return "reduce_sum";
    if (hr_is_arg(step->reduce))
        return is_largest(step->reduce) ? "reduce_found<true>" : "reduce_found<false>";
    return is_largest(step->reduce) ? "reduce_max" : "reduce_min";
}

/* "a = a + value;" of whatever reduction */
static void print_add(hr_cuda_stage *s, const hr_step *step, const char *sum, const char *value) {
    const char *type = plain_sum_type(s, step);
    if (hr_is_arg(step->reduce))
        value = hr_format(s->p, "found<%s>{(%s)%s, (int64_t)(pos + v)}", type, type, value);
    else if (step->value->type == HR_BOOL || step->value->type == HR_I32)
        value = hr_format(s->p, "(%s)%s", type, value);
    if (step->reduce == HR_OP_REDUCE_SUM)
        hr_print(s->p, "%s += %s;", sum, value);
    else
        hr_print(s->p, "%s = %s::of(%s, %s);", sum, hr_cuda_reducer(step), sum, value);
}

/* ---- what a pass does ---- */

static bool in_groups(const hr_cuda_stage *s, const hr_step *step) {
    if (step->kind == HR_STEP_ELEMENT) return step->stored;
    if (step->kind == HR_STEP_REDUCE_ALL) return !hr_cuda_is_row_total(s->plan, s->stage, step);
    return step->kind != HR_STEP_ROW;
}

static bool runs_in(const hr_cuda_stage *s, const hr_step *step, int pass) {
    return step->pass == pass && in_groups(s, step);
}

/* ---- which elements are loaded a group at a time ---- */

/* A whole number of a shape-like expression; false where it depends on anything but extents. */
static bool known(const hr_cuda_stage *s, const hr_expr *e, int64_t *out) {
    int64_t a, b;
    switch (e->op) {
    case HR_OP_NUMBER:
        *out = e->whole;
        return true;
    case HR_OP_EXTENT:
        *out = s->extents[e->extent];
        return true;
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_MUL:
        if (!known(s, e->args[0], &a) || !known(s, e->args[1], &b)) return false;
        *out = e->op == HR_OP_ADD ? a + b : e->op == HR_OP_SUB ? a - b : a * b;
        return true;
    default:
        return false;
    }
}

/* Of lane + rest: is the rest a whole number of groups? */
static bool rest_is_aligned(const hr_cuda_stage *s, const hr_expr *e) {
    int64_t rest;
    if (e->op == HR_OP_INDEX && e->index == s->p->lane) return true;
    if (e->op != HR_OP_ADD && e->op != HR_OP_SUB) return false;
    for (int side = 0; side < 2; side++)
        if (known(s, e->args[side], &rest))
            return rest % s->c->vector == 0 && rest_is_aligned(s, e->args[1 - side]);
    return false;
}

static bool is_whole(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    return hr_cuda_is_whole(s->plan, s->c, tensor, subscripts, s->extents);
}

/* Groups of it are contiguous in memory, with no check of their own. */
static bool is_grouped(const hr_cuda_stage *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    if (e->op != HR_OP_ELEMENT || s->p->value[e->tensor] || tensor->rank == 0) return false;
    if (hr_expr_level(s->p, e) != HR_AT_LANE) return false;
    if (s->c->straddle) return !hr_element_is_guarded(s->function, e) && is_whole(s, e->tensor, e->args);
    return hr_expr_is_row_form(s->p, e);
}

/* Its groups begin at whole groups of memory, if the tensor does. */
static bool is_aligned(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    int rank = s->function->tensors[tensor].rank;
    int64_t axis;
    if (is_whole(s, tensor, subscripts)) return s->c->exact || s->c->flat || s->c->shifted;
    if (!s->c->exact || !rest_is_aligned(s, subscripts[rank - 1])) return false;
    if (rank == 1) return true;
    return hr_extent_value(s->function, s->function->tensors[tensor].shape[rank - 1], s->extents, &axis) ==
               HR_OK &&
           axis % s->c->vector == 0;
}

typedef struct element_list {
    int count;
    const hr_expr *element[ELEMENTS_MAX];
} element_list;

/* Elements that a value loads; what is held in registers already is not looked into. */
static void find_elements(hr_cuda_stage *s, const hr_expr *node, element_list *out) {
    hr_printer *p = s->p;
    if (p->seen[node->id] == p->stamp || s->kept[node->id]) return;
    p->seen[node->id] = p->stamp;
    if (is_grouped(s, node)) {
        if (!s->held[node->id] && out->count < ELEMENTS_MAX) out->element[out->count++] = node;
        return;
    }
    for (int i = 0; i < node->arg_count; i++)
        find_elements(s, node->args[i], out);
}

/* Values of the task level that the element's place needs are there. */
static bool is_placeable(const hr_cuda_stage *s, const hr_expr *node) {
    if (node->op == HR_OP_ELEMENT && s->function->tensors[node->tensor].role == HR_ROLE_LOCAL &&
        !s->plan->materialised[node->tensor])
        return false;
    for (int i = 0; i < node->arg_count; i++)
        if (!is_placeable(s, node->args[i])) return false;
    return true;
}

static bool varies_by_task(const hr_cuda_stage *s, const hr_expr *node) {
    if (node->op == HR_OP_INDEX)
        for (int i = 0; i < s->stage->task_count; i++)
            if (s->stage->task[i] == node->index) return true;
    for (int i = 0; i < node->arg_count; i++)
        if (varies_by_task(s, node->args[i])) return true;
    return false;
}

/* What a pass needs; a row that stays in registers is asked for as a whole before its first pass. What is the
 * same for every row is in cache, and is loaded where it is used. */
static void elements_of_pass(hr_cuda_stage *s, int pass, element_list *out) {
    s->p->stamp++;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (runs_in(s, step, pass)) find_elements(s, step->value, out);
    }
    if (pass > 0 || !s->c->resident) return;
    int here = out->count;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (in_groups(s, step) && step->pass > 0) find_elements(s, step->value, out);
    }
    for (int i = here; i < out->count;)
        if (!is_placeable(s, out->element[i]) || !varies_by_task(s, out->element[i]))
            out->element[i] = out->element[--out->count];
        else
            i++;
}

/* ---- groups ---- */

static bool is_streamed(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    return s->plan->tunables.stream != 2 && is_whole(s, tensor, subscripts) &&
           s->function->tensors[s->plan->storage[tensor]].role != HR_ROLE_INOUT;
}

static void open_group_loop(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *type = s->positions;
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int u = 0; u < %d; u++) {", c->groups);
    p->indent++;
    if (c->flat) {
        hr_print(p, "const int64_t pos = (base + u * %d + (int)threadIdx.x) * %d;", c->threads, c->vector);
        hr_print(p, "if (pos >= total) continue;");
        if (!c->exact) hr_print(p, "const bool inside = pos + %d <= total;", c->vector);
        return;
    }
    int64_t run = (int64_t)c->row_threads * c->slices;
    const char *first = c->resident ? "u" : hr_format(p, "((%s)chunk * %d + u)", type, c->groups);
    hr_print(p, "const %s pos = (%s * %" PRId64 " + lane) * %d%s;", type, first, run, c->vector,
             c->shifted ? " - shift" : "");
    bool full = c->exact && c->row % c->vector == 0 && c->row / c->vector == run * c->groups * c->chunks;
    const char *idle = c->block_rows > 1 ? "!live" : "";
    if (!full)
        hr_print(p, "if (pos >= %" PRId64 "%s%s) continue;", c->row, *idle ? " || " : "", idle);
    else if (*idle)
        hr_print(p, "if (%s) continue;", idle);
    if (!c->exact) hr_print(p, "const bool inside = pos >= 0 && pos + %d <= %" PRId64 ";", c->vector, c->row);
}

static void close(hr_printer *p) {
    p->indent--;
    hr_print(p, "}");
}

/* Indices of the position `at`; the lane's is what `lane` names. */
static void print_indices(hr_cuda_stage *s, const char *at, const char *lane) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int first = c->flat ? 0 : s->stage->task_count, last = c->order_count - 1;
    const char *rest = at;
    for (int k = last; k >= first; k--) {
        const char *name = k == last ? lane : hr_emit_index(p, c->order[k]);
        const char *size = hr_emit_index_size(p, c->order[k]);
        hr_print(p, k == first ? "const int64_t %s = %s;" : "const int64_t %s = %s %% %s;", name, rest, size);
        if (k == first) break;
        rest = hr_format(p, "rest_%d", k);
        hr_print(p, "const int64_t %s = %s / %s;", rest, k == last ? at : hr_format(p, "rest_%d", k + 1),
                 size);
    }
}

/* Where in its row a group's first element stands, for a pointer that leaves the lane out. */
static const char *group_start(const hr_cuda_stage *s) {
    int first = s->c->flat ? 0 : s->stage->task_count;
    return s->c->straddle || s->c->order_count - first <= 1 ? "pos" : "start";
}

static void print_group_indices(hr_cuda_stage *s) {
    if (strcmp(group_start(s), "start") == 0) print_indices(s, "pos", "start");
}

static const char *row_end(hr_cuda_stage *s) {
    return s->c->flat ? "total" : hr_format(s->p, "%" PRId64, s->c->row);
}

/* The row (flat: the tensor) that a whole element's positions count from. */
static const char *whole_base(hr_cuda_stage *s, int tensor) {
    const char *base = hr_emit_tensor(s->p, tensor);
    return s->c->flat ? base : hr_format(s->p, "%s + task * %" PRId64, base, s->c->row);
}

static void print_load(hr_cuda_stage *s, const hr_expr *e) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *held = s->held[e->id],
               *once = is_streamed(s, e->tensor, e->args) && s->c->resident ? "true" : "false";
    const char *type = hr_c_storage(s->function->tensors[e->tensor].dtype);
    const char *aligned = is_aligned(s, e->tensor, e->args) ? "ALIGNED" : "false";
    const char *place, *valid = NULL;
    if (c->straddle) {
        place = hr_format(p, "%s + pos", whole_base(s, e->tensor));
    } else {
        hr_expr_print_pointer(p, e);
        place = hr_format(p, "%s + %s", p->pointer[e->id], group_start(s));
        valid = p->valid[e->id];
    }
    const char *load = hr_format(p, "load_group<%s, %d>(%s, %s)", aligned, c->vector, place, once);
    if (!c->exact)
        load = hr_format(p, "inside ? %s : load_part<%d>(%s, %s, %s - pos)", load, c->vector, place,
                         c->flat ? "0" : "-pos", row_end(s));
    if (valid) load = hr_format(p, "!%s ? zero_group<%s, %d>() : %s", valid, type, c->vector, load);
    hr_print(p, "%s[u] = %s;", held, load);
}

void hr_cuda_print_loads(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    element_list list = {0};
    elements_of_pass(s, pass, &list);
    if (!list.count) return;
    for (int i = 0; i < list.count; i++) {
        const hr_expr *e = list.element[i];
        for (int a = 0; a < e->arg_count; a++)
            hr_expr_prepare(p, e->args[a], HR_AT_TASK);
        if (!s->c->straddle) hr_expr_prepare(p, e, HR_AT_TASK);
        const hr_tensor *tensor = &s->function->tensors[e->tensor];
        s->held[e->id] = hr_format(p, "x%d_%.40s", ++p->number, tensor->name);
        hr_print(p, "group<%s, %d> %s[%d];", hr_c_storage(tensor->dtype), s->c->vector, s->held[e->id],
                 s->c->groups);
    }
    open_group_loop(s);
    print_group_indices(s);
    for (int i = 0; i < list.count; i++)
        print_load(s, list.element[i]);
    close(p);
    hr_printer_forget(p, HR_AT_OUTER);
}

/* ---- values ---- */

/* Names what is in registers as operands of element v. */
static void name_held(hr_cuda_stage *s, bool on) {
    hr_printer *p = s->p;
    hr_expr *const *table = s->plan->graph->table;
    for (int i = 0; i < s->plan->graph->table_size; i++) {
        const hr_expr *node = table[i];
        if (!node) continue;
        if (node->op == HR_OP_ELEMENT && s->held[node->id]) {
            hr_dtype dtype = s->function->tensors[node->tensor].dtype, type = hr_compute_type(dtype);
            const char *bits = hr_format(p, "element_of(%s[u], v)", s->held[node->id]);
            if (dtype == HR_BOOL)
                bits = hr_format(p, "(%s != 0)", bits);
            else if (type != dtype)
                bits = hr_format(p, "%s_from_%s(%s)", hr_type_prefix(type), hr_dtype_name(dtype), bits);
            p->buffer[node->id] = on ? bits : NULL;
        }
        if (s->kept[node->id])
            p->buffer[node->id] = on ? hr_format(p, "kept_%d[u * %d + v]", node->id, s->c->vector) : NULL;
    }
}

static bool can_keep(const hr_cuda_stage *s) {
    return s->c->resident && !s->c->columns && s->c->groups * s->c->vector <= KEPT_ELEMENTS_MAX &&
           s->stage->pass_count > 1;
}

void hr_cuda_declare_kept(hr_cuda_stage *s) {
    for (int k = 0; k < s->stage->kept_count && can_keep(s); k++)
        if (!s->stage->kept_once[k] && s->stage->kept[k]->op != HR_OP_ELEMENT)
            hr_print(s->p, "float kept_%d[%d];", s->stage->kept[k]->id, s->c->groups * s->c->vector);
}

static void print_kept(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    for (int k = 0; k < s->stage->kept_count && can_keep(s); k++) {
        const hr_expr *kept = s->stage->kept[k];
        if (s->stage->kept_once[k] || kept->op == HR_OP_ELEMENT || s->kept[kept->id] || !p->uses[kept->id])
            continue;
        p->uses[kept->id]++;
        const char *value = hr_expr_text(p, kept);
        hr_print(p, "kept_%d[u * %d + v] = %s;", kept->id, s->c->vector, value);
        s->kept[kept->id] = true; /* for the passes to come */
    }
}

/* ---- random numbers ---- */

typedef struct random_list {
    int count;
    const hr_expr *node[HR_RANDOMS_MAX];
} random_list;

static bool counts_along(const hr_cuda_stage *s, const hr_expr *e) {
    if (e->op == HR_OP_INDEX) return e->index == s->p->lane;
    if (e->op != HR_OP_ADD && e->op != HR_OP_SUB) return false;
    bool left = hr_expr_level(s->p, e->args[0]) == HR_AT_LANE,
         right = hr_expr_level(s->p, e->args[1]) == HR_AT_LANE;
    if (left == right || (right && e->op == HR_OP_SUB)) return false;
    return counts_along(s, e->args[left ? 0 : 1]);
}

static void find_randoms(hr_cuda_stage *s, const hr_expr *node, random_list *out) {
    hr_printer *p = s->p;
    if (p->seen[node->id] == p->stamp || hr_expr_level(p, node) != HR_AT_LANE) return;
    p->seen[node->id] = p->stamp;
    if (node->op == HR_OP_RANDOM && out->count < HR_RANDOMS_MAX &&
        hr_expr_level(p, node->args[0]) < HR_AT_LANE && counts_along(s, node->args[1]))
        out->node[out->count++] = node;
    for (int i = 0; i < node->arg_count; i++)
        find_randoms(s, node->args[i], out);
}

/* Four neighbouring numbers come of one block of the generator: those of a group are drawn together. */
static void print_randoms(hr_cuda_stage *s, int pass, random_list *list) {
    hr_printer *p = s->p;
    p->stamp++;
    for (int i = 0; i < s->stage->step_count && !s->c->straddle; i++)
        if (runs_in(s, &s->stage->steps[i], pass)) find_randoms(s, s->stage->steps[i].value, list);
    for (int i = 0; i < list->count; i++) {
        const hr_expr *node = list->node[i];
        hr_print(p, "float random_%d[%d];", node->id, s->c->vector);
        hr_print(p, "random_group<%d>(random_%d, (uint64_t)%s, (uint64_t)(%s + %s));", s->c->vector, node->id,
                 hr_expr_text(p, node->args[0]), hr_emit_lane_rest(p, node->args[1]), group_start(s));
        p->buffer[node->id] = hr_format(p, "random_%d[v]", node->id);
    }
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
    int memory = s->plan->storage[t.statement->tensor], last = t.statement->subscript_count - 1;
    bool declared = memory < s->plan->source->parameter_count + s->plan->source->result_count;
    bool dense = !declared || s->plan->layouts[memory] != HR_LAYOUT_STRIDED;
    const hr_expr *end = last >= 0 ? t.statement->subscripts[last] : NULL;
    bool along = end && end->op == HR_OP_INDEX && end->index == s->p->lane;
    t.grouped = dense && (s->c->straddle ? is_whole(s, t.statement->tensor, t.statement->subscripts) : along);
    t.paired = t.grouped && t.type == HR_F32 && (t.dtype == HR_BF16 || t.dtype == HR_F16);
    return t;
}

static void print_group_store(hr_cuda_stage *s, const store *t) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int tensor = t->statement->tensor, rank = t->statement->subscript_count;
    const char *base, *kind = t->dtype == HR_BF16 ? "bf16_" : "f16_",
                      *live = c->block_rows > 1 ? "if (live) " : "";
    const char *aligned = is_aligned(s, tensor, t->statement->subscripts) ? "ALIGNED" : "false";
    const char *once = is_streamed(s, tensor, t->statement->subscripts) ? "true" : "false";
    const char *values = hr_format(p, "%sgroup_of(y%d)", t->paired ? kind : "", t->id);
    if (is_whole(s, tensor, t->statement->subscripts) && strcmp(group_start(s), "pos") == 0)
        base = whole_base(s, tensor);
    else
        base = hr_format(p, "%s + %s", hr_emit_tensor(p, tensor),
                         hr_emit_offset(p, tensor, t->statement->subscripts, rank - 1));
    const char *whole =
        hr_format(p, "store_group<%s>(%s + %s, %s, %s);", aligned, base, group_start(s), values, once);
    if (c->exact) {
        hr_print(p, "%s%s", live, whole);
        return;
    }
    hr_print(p, c->block_rows > 1 ? "if (inside && live)" : "if (inside)");
    hr_print(p, "    %s", whole);
    hr_print(p, c->block_rows > 1 ? "else if (live)" : "else");
    hr_print(p, "    store_part(%s + %s, %s, %s, %s - pos);", base, group_start(s), values,
             c->flat ? "0" : "-pos", row_end(s));
}

static void print_element_store(hr_cuda_stage *s, const store *t, const char *value) {
    hr_printer *p = s->p;
    if (t->grouped) {
        hr_print(p, "y%d[v] = %s;", t->id, t->paired ? value : hr_emit_stored(p, value, t->type, t->dtype));
        return;
    }
    const hr_statement *statement = t->statement;
    hr_print(p, "%s%s[%s] = %s;", s->c->block_rows > 1 ? "if (live) " : "",
             hr_emit_tensor(p, statement->tensor),
             hr_emit_offset(p, statement->tensor, statement->subscripts, statement->subscript_count),
             hr_emit_stored(p, value, t->type, t->dtype));
}

/* ---- scatter ---- */

static void print_scatter(hr_cuda_stage *s, const hr_step *step, const char *value) {
    hr_printer *p = s->p;
    const hr_statement *statement = hr_cuda_statement(s, step);
    const hr_tensor *tensor = &s->function->tensors[statement->tensor];
    const char *condition = NULL;
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = statement->subscripts[a];
        if (hr_subscript_is_safe(s->function, subscript, tensor->shape[a]) || hr_expr_is_affine(subscript))
            continue;
        condition = hr_format(p, "%s%sin_range(%s, %s, %d, fault)", condition ? condition : "",
                              condition ? " && " : "", hr_expr_text(p, subscript),
                              hr_emit_size(p, tensor->shape[a]), step->target->id * HR_AXES_MAX + a + 1);
    }
    const char *type = hr_c_compute(hr_compute_type(tensor->dtype));
    hr_print(p, "%s%s%sadd_to(%s + %s, (%s)%s);", condition ? "if (" : "", condition ? condition : "",
             condition ? ") " : "", hr_emit_tensor(p, statement->tensor),
             hr_emit_offset(p, statement->tensor, statement->subscripts, tensor->rank), type, value);
}

/* ---- a pass ---- */

static void print_column(hr_cuda_stage *s, const hr_step *step, int i, const char *value) {
    hr_printer *p = s->p;
    if (s->c->block_rows > 1) hr_print(p, "if (live)");
    p->indent += s->c->block_rows > 1;
    if (s->c->column_memory)
        print_add(s, step, hr_format(p, "column_%d[pos + v]", i), value);
    else
        print_add(s, step, hr_format(p, "column_%d[u * %d + v]", i, s->c->vector), value);
    p->indent -= s->c->block_rows > 1;
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
        print_add(s, step, hr_format(p, "a%d", i), value);
        break;
    case HR_STEP_REDUCE_COLUMN:
        print_column(s, step, i, value);
        break;
    case HR_STEP_REDUCE_ALL:
        if (s->c->block_rows > 1) hr_print(p, "if (live)");
        print_add(s, step, hr_format(p, "total_%d", i), value);
        break;
    case HR_STEP_SCATTER:
        print_scatter(s, step, value);
        break;
    case HR_STEP_ROW:
        break;
    }
}

static void prepare_steps(hr_cuda_stage *s, int pass, hr_emit_level level) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!runs_in(s, step, pass)) continue;
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
        if (runs_in(s, &s->stage->steps[i], pass)) hr_expr_count_uses(p, s->stage->steps[i].value);
    print_kept(s);
    for (int i = 0; i < count; i++) {
        if (!runs_in(s, &s->stage->steps[i], pass)) continue;
        values[i] = hr_format(p, "e%d", i);
        const char *text = hr_expr_text(p, s->stage->steps[i].value);
        hr_print(p, "const %s e%d = %s;", hr_c_compute(s->stage->steps[i].value->type), i, text);
    }
    for (int i = 0; i < count; i++)
        if (runs_in(s, &s->stage->steps[i], pass)) print_step(s, i, values[i]);
}

static bool reads_elements(hr_cuda_stage *s, const hr_expr *node) {
    hr_printer *p = s->p;
    if (p->seen[node->id] == p->stamp || p->buffer[node->id]) return false;
    p->seen[node->id] = p->stamp;
    if (node->op == HR_OP_ELEMENT && !p->value[node->tensor] && hr_expr_level(p, node) > HR_AT_TASK)
        return true;
    for (int i = 0; i < node->arg_count; i++)
        if (reads_elements(s, node->args[i])) return true;
    return false;
}

/* Elements of a group that stand outside of the row must not be computed: they would be read or added up. */
static bool needs_guard(hr_cuda_stage *s, int pass) {
    s->p->stamp++;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!runs_in(s, step, pass)) continue;
        if (step->kind != HR_STEP_ELEMENT || !store_of(s, step).grouped || reads_elements(s, step->value))
            return true;
    }
    return false;
}

static void print_element_loop(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    bool guard = !c->exact && needs_guard(s, pass);
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int v = 0; v < %d; v++) {", c->vector);
    p->indent++;
    if (guard)
        hr_print(p, c->flat ? "if (pos + v < %s) {" : "if (pos + v >= 0 && pos + v < %s) {", row_end(s));
    p->indent += guard;
    if (c->straddle) {
        hr_print(p, "const int64_t at = pos + v;");
        print_indices(s, "at", "i");
        prepare_steps(s, pass, HR_AT_OUTER);
    } else if (p->lane >= 0) {
        hr_print(p, "const int64_t i = %s + v;", group_start(s));
    }
    print_element(s, pass);
    hr_printer_forget(p, HR_AT_LANE);
    if (guard) close(p);
    close(p);
}

static void print_groups(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    random_list randoms = {0};
    open_group_loop(s);
    print_group_indices(s);
    if (!s->c->straddle && p->outer_count) prepare_steps(s, pass, HR_AT_OUTER);
    print_randoms(s, pass, &randoms);
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!runs_in(s, step, pass) || step->kind != HR_STEP_ELEMENT) continue;
        store t = store_of(s, step);
        if (t.grouped)
            hr_print(p, "%s y%d[%d]%s;", t.paired ? "float" : hr_c_storage(t.dtype), t.id, s->c->vector,
                     s->c->exact ? "" : " = {}");
    }
    name_held(s, true);
    print_element_loop(s, pass);
    name_held(s, false);
    for (int i = 0; i < randoms.count; i++)
        p->buffer[randoms.node[i]->id] = NULL;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!runs_in(s, step, pass) || step->kind != HR_STEP_ELEMENT) continue;
        store t = store_of(s, step);
        if (t.grouped) print_group_store(s, &t);
    }
    close(p);
    hr_printer_forget(p, HR_AT_OUTER);
}

void hr_cuda_print_pass(hr_cuda_stage *s, int pass) {
    hr_printer *p = s->p;
    bool any = false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (runs_in(s, step, pass)) any = true;
        if (runs_in(s, step, pass) && step->kind == HR_STEP_REDUCE_ROW)
            hr_print(p, "%s a%d = %s;", hr_cuda_sum_type(s, step), i, hr_cuda_identity(s, step));
    }
    if (!any) return;
    prepare_steps(s, pass, HR_AT_TASK);
    if (s->c->resident) {
        hr_cuda_print_loads(s, pass);
        print_groups(s, pass);
        return;
    }
    hr_print(p, "for (int64_t chunk = 0; chunk < %" PRId64 "; chunk++) {", s->c->chunks);
    p->indent++;
    hr_cuda_print_loads(s, pass);
    print_groups(s, pass);
    close(p);
    memset(s->held, 0, (size_t)s->function->expr_count * sizeof *s->held);
}
