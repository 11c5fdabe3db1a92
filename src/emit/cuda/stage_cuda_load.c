/* The groups that a thread holds, and how they get into its registers. In: a stage. Out: text.
 *
 * Loads stand before the first use of any of them. A row that is read several times stays in registers, or
 * waits in shared memory, or is read again; a persistent block may prefetch its next row.
 */
#include "base/dtype.h"
#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_staged.h"
#include "emit/cuda/stage_cuda_tile.h"

#include <inttypes.h>
#include <string.h>

enum { ELEMENTS_MAX = 256 };

/* ---- what a pass does ---- */

static bool in_groups(const hr_cuda_stage *s, const hr_step *step) {
    if (step->kind == HR_STEP_ELEMENT) return step->stored;
    if (step->kind == HR_STEP_REDUCE_ALL) return !hr_step_is_row_total(s->plan, s->stage, step);
    return step->kind != HR_STEP_ROW;
}

bool hr_cuda_runs_in(const hr_cuda_stage *s, const hr_step *step, int pass) {
    return step->pass == pass && in_groups(s, step) && !s->beside[step - s->stage->steps];
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

bool hr_cuda_whole(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    return hr_cuda_is_whole(s->plan, s->c, tensor, subscripts, s->extents);
}

/* Groups of it are contiguous in memory, with no check of their own. */
static bool is_grouped(const hr_cuda_stage *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    if (e->op != HR_OP_ELEMENT || s->p->value[e->tensor] || tensor->rank == 0) return false;
    if (hr_expr_level(s->p, e) != HR_AT_LANE) return false;
    if (s->c->ends == HR_CUDA_ENDS_STRADDLED && !s->one_row)
        return !hr_element_is_guarded(s->function, e) && hr_cuda_whole(s, e->tensor, e->args);
    return hr_expr_is_row_form(s->p, e);
}

/* Its groups begin at whole groups of memory, if the tensor does. */
bool hr_cuda_is_aligned(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    int rank = s->function->tensors[tensor].rank;
    int64_t axis;
    if (hr_cuda_whole(s, tensor, subscripts))
        return s->c->ends == HR_CUDA_ENDS_EXACT || hr_cuda_is_map(s->c) || s->c->ends == HR_CUDA_ENDS_SHIFTED;
    bool rows = s->c->ends == HR_CUDA_ENDS_EXACT ||
                (rank == 1 && !hr_cuda_is_map(s->c) && s->c->ends != HR_CUDA_ENDS_SHIFTED &&
                 s->c->ends != HR_CUDA_ENDS_STRADDLED);
    if (!rows || !rest_is_aligned(s, subscripts[rank - 1])) return false;
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
typedef struct element_search {
    hr_cuda_stage *s;
    element_list *out;
} element_search;

static hr_visit find_element(void *context, const hr_expr *node) {
    const element_search *in = context;
    hr_cuda_stage *s = in->s;
    if (s->stash[node->id]) return HR_VISIT_PAST;
    if (!is_grouped(s, node)) return HR_VISIT_ON;
    if (!s->held[node->id] && in->out->count < ELEMENTS_MAX) in->out->element[in->out->count++] = node;
    return HR_VISIT_PAST;
}

/* It, and the values of the task level that its place needs, are there before the first pass. */
static hr_visit is_not_there(const hr_expr *node, const void *stage) {
    const hr_cuda_stage *s = stage;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    return hr_visit_until(
        hr_stage_makes(s->plan, s->stage, node->tensor) ||
        (s->function->tensors[node->tensor].role == HR_ROLE_LOCAL && !s->plan->materialised[node->tensor]));
}

static bool is_placeable(const hr_cuda_stage *s, const hr_expr *element) {
    return !hr_expr_find(element, is_not_there, s);
}

static hr_visit is_of_task(const hr_expr *node, const void *stage) {
    const hr_stage *of = stage;
    return hr_visit_until(node->op == HR_OP_INDEX && hr_indices_have(of->task, of->task_count, node->index));
}

static bool varies_by_task(const hr_cuda_stage *s, const hr_expr *element) {
    return hr_expr_find(element, is_of_task, s->stage);
}

/* What a pass needs; a row that stays in registers is asked for as a whole before its first pass. What is the
 * same for every row is in cache, and is loaded where it is used. */
static void elements_of_pass(hr_cuda_stage *s, int pass, element_list *out) {
    element_search in = {s, out};
    hr_walk walk = {.enter = find_element, .context = &in};
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (!hr_cuda_runs_in(s, step, pass)) continue;
        hr_walk_through(&walk, step->value);
        for (int a = 0; step->kind == HR_STEP_SCATTER && a < hr_cuda_statement(s, step)->subscript_count; a++)
            hr_walk_through(&walk, hr_cuda_statement(s, step)->subscripts[a]);
    }
    const int here = out->count;
    const bool whole = pass == 0 && hr_cuda_is_resident(s->c);
    for (int i = 0; i < s->stage->step_count && whole; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (in_groups(s, step) && step->pass > 0) hr_walk_through(&walk, step->value);
    }
    hr_printer_walked(s->p, &walk);
    for (int i = here; i < out->count;)
        if (!is_placeable(s, out->element[i]) ||
            (!hr_cuda_loads_ahead(s->c) && s->c->same != HR_CUDA_SAME_EARLY &&
             !varies_by_task(s, out->element[i])))
            out->element[i] = out->element[--out->count];
        else
            i++;
}

/* ---- groups ---- */

bool hr_cuda_leaves_last(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    return s->c->eviction == HR_EVICTION_LAST && hr_cuda_whole(s, tensor, subscripts) &&
           s->function->tensors[s->plan->storage[tensor]].role != HR_ROLE_INOUT;
}

/* `condition`, where group u of a thread may end after its row; u is a number once the loop is unrolled, so
 * that the other groups cost nothing. */
static const char *not_after(const hr_cuda_stage *s, const char *condition) {
    const hr_cuda_choice *c = s->c;
    int64_t whole = c->row / ((int64_t)c->row_threads * c->slices * c->vector);
    return hr_cuda_is_resident(c) && whole ? hr_format(s->p, "(u < %" PRId64 " || %s)", whole, condition)
                                           : condition;
}

/* The same and `begins`, where it may begin before its row. */
static const char *not_outside(const hr_cuda_stage *s, const char *begins, const char *ends) {
    ends = not_after(s, ends);
    if (s->c->ends != HR_CUDA_ENDS_SHIFTED) return ends;
    return hr_format(s->p, hr_cuda_is_resident(s->c) ? "(u > 0 || %s) && %s" : "%s && %s", begins, ends);
}

const char *hr_cuda_element_guard(hr_cuda_stage *s) {
    if (hr_cuda_is_map(s->c)) return hr_format(s->p, "inside || pos + v < %s", hr_cuda_row_end(s));
    if (!hr_cuda_is_resident(s->c))
        return hr_format(s->p,
                         s->c->ends == HR_CUDA_ENDS_SHIFTED ? "inside || (pos + v >= 0 && pos + v < %s)"
                                                            : "inside || pos + v < %s",
                         hr_cuda_row_end(s));
    return not_outside(s, "v >= -pos", hr_format(s->p, "v < %" PRId64 " - pos", s->c->row));
}

void hr_cuda_open_groups(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *type = s->positions;
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int u = 0; u < %d; u++) {", c->groups);
    p->indent++;
    if (hr_cuda_is_map(c)) {
        if (c->both) return;
        if (c->walk == HR_CUDA_WALK_TILES) {
            hr_cuda_print_tile_place(s);
            return;
        }
        hr_print(p, "const %s pos = (base + u * %d + (int)threadIdx.x) * %d;", type, c->threads, c->vector);
        hr_print(p, "if (pos >= total) continue;");
        if (c->ends != HR_CUDA_ENDS_EXACT) hr_print(p, "const bool inside = pos + %d <= total;", c->vector);
        return;
    }
    int64_t run = (int64_t)c->row_threads * (c->rows == HR_CUDA_ROWS_RING ? 1 : c->slices);
    const char *first = c->chunks > 1 ? hr_format(p, "((%s)chunk * %d + u)", type, c->groups) : "u";
    if (c->ends == HR_CUDA_ENDS_EXACT &&
        hr_cuda_is_resident(c)) /* 64 bits, so that u's part stays a constant of the address */
        hr_print(p, "const int64_t pos = (int64_t)lane * %d + u * %" PRId64 ";", c->vector, run * c->vector);
    else
        hr_print(p, "const %s pos = (%s * %" PRId64 " + lane) * %d%s;", type, first, run, c->vector,
                 c->ends == HR_CUDA_ENDS_SHIFTED ? " - shift" : "");
    bool full = c->ends == HR_CUDA_ENDS_EXACT && c->row % c->vector == 0 &&
                c->row / c->vector == (int64_t)c->row_threads * c->slices * c->groups * c->chunks;
    const char *idle =
        hr_cuda_asks_live(c) && !s->loads_ahead && c->rows != HR_CUDA_ROWS_BLOCK ? "!live" : "";
    if (!full)
        hr_print(p, "if (pos >= %" PRId64 "%s%s) continue;", c->row, *idle ? " || " : "", idle);
    else if (*idle)
        hr_print(p, "if (%s) continue;", idle);
    if (c->ends != HR_CUDA_ENDS_EXACT &&
        c->rows == HR_CUDA_ROWS_BLOCK) /* two elements: one by one costs less than a branch */
        hr_print(p, "const bool inside = u < %d;", c->groups - 1);
    else if (c->ends != HR_CUDA_ENDS_EXACT)
        hr_print(p, "const bool inside = %s;",
                 not_outside(s, "pos >= 0", hr_format(p, "pos + %d <= %" PRId64, c->vector, c->row)));
}

void hr_cuda_close(hr_printer *p) {
    p->indent--;
    hr_print(p, "}");
}

/* Indices of the position `at`; the lane's is what `lane` names. Divided as unsigned 32-bit numbers where
 * they are so small. */
void hr_cuda_print_indices(hr_cuda_stage *s, const char *at, const char *lane) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *type = c->position_bits == 32 ? "uint32_t" : "int64_t";
    int first = hr_cuda_is_map(c) ? 0 : s->stage->task_count, last = c->order_count - 1;
    const char *rest = at;
    for (int k = last; k >= first; k--) {
        const char *name = k == last ? lane : hr_emit_index(p, c->order[k]);
        const char *size = hr_emit_index_size(p, c->order[k]);
        if (c->both && k == c->both) {
            hr_print(p, "const int64_t %s = u;", name);
            continue;
        }
        if (k == first) {
            hr_print(p, "const int64_t %s = %s;", name, rest);
            break;
        }
        hr_print(p, "const int64_t %s = (%s)%s %% (%s)%s;", name, type, rest, type, size);
        const char *above = hr_format(p, "rest_%d", k);
        hr_print(p, "const %s %s = (%s)%s / (%s)%s;", type, above, type, rest, type, size);
        rest = above;
    }
}

/* Two indices, of which the inner one ends at most once in a group: one division a group is enough. */
bool hr_cuda_wraps_once(const hr_cuda_stage *s) {
    int first = hr_cuda_is_map(s->c) ? 0 : s->stage->task_count;
    return s->c->ends == HR_CUDA_ENDS_STRADDLED && s->c->order_count - first == 2 &&
           s->c->lane >= s->c->vector;
}

/* Where in its row a group's first element stands, for a pointer that leaves the lane out. */
const char *hr_cuda_group_start(const hr_cuda_stage *s) {
    int first = hr_cuda_is_map(s->c) ? 0 : s->stage->task_count;
    return (s->c->ends == HR_CUDA_ENDS_STRADDLED && !s->one_row) || s->c->order_count - first <= 1 ? "pos"
                                                                                                   : "start";
}

void hr_cuda_print_group_indices(hr_cuda_stage *s) {
    if (strcmp(hr_cuda_group_start(s), "start") == 0) hr_cuda_print_indices(s, "pos", "start");
    if (!hr_cuda_wraps_once(s)) return;
    const char *type = s->c->position_bits == 32 ? "uint32_t" : "int64_t";
    hr_print(s->p, "const %s above = (%s)pos / (%s)%" PRId64 ", start = (%s)pos %% (%s)%" PRId64 ";",
             s->positions, type, type, s->c->lane, type, type, s->c->lane);
}

const char *hr_cuda_row_end(hr_cuda_stage *s) {
    return hr_cuda_is_map(s->c) ? "total" : hr_format(s->p, "%" PRId64, s->c->row);
}

/* The row (flat: the tensor) that a whole element's positions count from. */
const char *hr_cuda_whole_base(hr_cuda_stage *s, int tensor) {
    const char *base = hr_emit_tensor(s->p, tensor);
    return hr_cuda_is_map(s->c) ? base : hr_format(s->p, "%s + task * %" PRId64, base, s->c->row);
}

static bool is_staged(const hr_cuda_stage *s, const hr_expr *e) {
    return hr_cuda_is_staged(s->c) && hr_cuda_whole(s, e->tensor, e->args);
}

const char *hr_cuda_slot(hr_cuda_stage *s, const hr_expr *e, const char *buffer) {
    const hr_cuda_choice *c = s->c;
    if (c->rows == HR_CUDA_ROWS_RING)
        return hr_format(s->p, "staged_%d + (%s * %d + u) * %d + (int)threadIdx.x", e->id, buffer, c->groups,
                         c->threads);
    const char *group = c->chunks > 1 ? hr_format(s->p, "(chunk * %d + u)", c->groups) : "u";
    const char *slot = hr_format(s->p, "staged_%d + %s * %d + (int)threadIdx.x", e->id, group, c->threads);
    return c->depth > 1 && buffer
               ? hr_format(s->p, "%s + %s * %" PRId64, slot, buffer, c->chunks * c->groups * c->threads)
               : slot;
}

static bool used_after(hr_cuda_stage *s, const hr_expr *e, int pass) {
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->pass > pass && hr_cuda_runs_in(s, step, step->pass) && hr_expr_contains(step->value, e))
            return true;
    }
    return false;
}

/* The group of row `task`, whose first position is `pos`. */
void hr_cuda_print_stage_group(hr_cuda_stage *s, const hr_expr *e, const char *task, const char *buffer,
                               bool may_be_aligned) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *aligned = may_be_aligned && hr_cuda_is_aligned(s, e->tensor, e->args) ? "ALIGNED" : "false";
    const char *place =
        hr_format(p, "%s + %s * %" PRId64 " + pos", hr_emit_tensor(p, e->tensor), task, c->row);
    if (c->ends == HR_CUDA_ENDS_EXACT)
        hr_print(p, "stage_group<%s>(%s, %s, 0, %d);", aligned, hr_cuda_slot(s, e, buffer), place, c->vector);
    else
        hr_print(p, "stage_group<%s>(%s, %s, -pos, %" PRId64 " - pos);", aligned, hr_cuda_slot(s, e, buffer),
                 place, c->row);
}

/* The groups of the row after this one take the places of those that were used for the last time. */
static void print_restaging(hr_cuda_stage *s, const hr_expr *const *elements, int count, int pass) {
    hr_printer *p = s->p;
    bool any = false;
    if (s->c->depth > 1 || s->c->rows == HR_CUDA_ROWS_RING) return;
    for (int i = 0; i < count; i++)
        any = any || (is_staged(s, elements[i]) && !used_after(s, elements[i], pass));
    if (!any) return;
    hr_print(p, "if (ahead < tasks) {");
    p->indent++;
    if (s->c->ends == HR_CUDA_ENDS_SHIFTED) hr_print(p, "const int shift = ahead_shift;");
    hr_cuda_open_groups(s);
    for (int i = 0; i < count; i++)
        if (is_staged(s, elements[i]) && !used_after(s, elements[i], pass))
            hr_cuda_print_stage_group(s, elements[i], "ahead", "0", true);
    hr_cuda_close(p);
    hr_cuda_close(p);
}

static void all_elements(hr_cuda_stage *s, element_list *out) {
    element_search in = {s, out};
    hr_walk walk = {.enter = find_element, .context = &in};
    for (int i = 0; i < s->stage->step_count; i++)
        if (hr_cuda_runs_in(s, &s->stage->steps[i], s->stage->steps[i].pass))
            hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(s->p, &walk);
}

/* All of row `row` into the places of that buffer. */
static void print_staging_of_row(hr_cuda_stage *s, const element_list *all, const char *row,
                                 const char *buffer) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    hr_print(p, "if (%s < tasks) {", row);
    p->indent++;
    hr_print(p, "const int64_t task = %s;", row);
    if (c->ends == HR_CUDA_ENDS_SHIFTED)
        hr_print(p, "const int shift = (int)((uint64_t)task * %" PRId64 " %% %d);", c->row, c->vector);
    if (c->chunks > 1) {
        hr_print(p, "for (int64_t chunk = 0; chunk < %" PRId64 "; chunk++) {", c->chunks);
        p->indent++;
    }
    hr_cuda_open_groups(s);
    for (int i = 0; i < all->count; i++)
        if (is_staged(s, all->element[i]))
            hr_cuda_print_stage_group(s, all->element[i], "task", buffer, true);
    hr_cuda_close(p);
    if (c->chunks > 1) hr_cuda_close(p);
    hr_cuda_close(p);
    if (c->depth > 1) hr_print(p, "ptx_copy_commit();");
}

int hr_cuda_staged_elements(hr_cuda_stage *s, const hr_expr **out, int max) {
    element_list all = {0};
    int count = 0;
    all_elements(s, &all);
    for (int i = 0; i < all.count && count < max; i++)
        if (is_staged(s, all.element[i])) out[count++] = all.element[i];
    return count;
}

/* What is the same for all rows waits in shared memory. */
static bool is_same_shared(const hr_cuda_stage *s, const hr_expr *e) {
    return s->c->same == HR_CUDA_SAME_SHARED && !is_staged(s, e) && !varies_by_task(s, e);
}

void hr_cuda_print_places(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    element_list all = {0};
    all_elements(s, &all);
    int64_t offset = 0;
    for (int i = 0; i < all.count; i++) {
        const hr_expr *e = all.element[i];
        if (!is_staged(s, e) && !is_same_shared(s, e)) continue;
        const char *type = hr_c_storage(s->function->tensors[e->tensor].dtype);
        hr_print(p, "group<%s, %d> *const staged_%d = (group<%s, %d> *)(staged_memory() + %" PRId64 ");",
                 type, c->vector, e->id, type, c->vector, offset);
        offset += (is_staged(s, e) ? c->depth : 1) * c->chunks * c->groups * c->threads * c->vector *
                  (int64_t)hr_dtype_size(s->function->tensors[e->tensor].dtype);
    }
}

void hr_cuda_print_staging(hr_cuda_stage *s, const char *step) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    element_list all = {0};
    hr_cuda_print_places(s);
    all_elements(s, &all);
    s->step = step;
    if (c->depth < 2) {
        print_staging_of_row(s, &all, "ahead", "0");
        return;
    }
    hr_print(p, "int here = 0; /* which of the places has the row in hand */");
    hr_print(p, "for (int place = 0; place < %d; place++) {", c->depth - 1);
    p->indent++;
    hr_print(p, "const %s asked = ahead + place * %s;", hr_cuda_row_type(s), step);
    print_staging_of_row(s, &all, "asked", "place");
    hr_cuda_close(p);
}

void hr_cuda_print_next_staging(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    element_list all = {0};
    all_elements(s, &all);
    hr_print(p, "const int free = here == 0 ? %d : here - 1;", s->c->depth - 1);
    if (s->c->depth > 2)
        hr_print(p, "const %s asked = ahead + %d * %s;", hr_cuda_row_type(s), s->c->depth - 2, s->step);
    print_staging_of_row(s, &all, s->c->depth > 2 ? "asked" : "ahead", "free");
    hr_print(p, "ptx_copy_wait<%d>();", s->c->depth - 1);
}

/* Whole groups of it may be read though parts of them are of the rows beside: nobody writes to it. */
static bool reads_beyond(const hr_cuda_stage *s, const hr_expr *e) {
    if (s->c->ends != HR_CUDA_ENDS_SHIFTED || !hr_cuda_is_resident(s->c) || hr_cuda_loads_ahead(s->c) ||
        s->c->ends == HR_CUDA_ENDS_STRADDLED)
        return false;
    if (!hr_cuda_whole(s, e->tensor, e->args)) return false;
    for (int i = 0; i < s->stage->step_count; i++) {
        const hr_step *step = &s->stage->steps[i];
        if (step->stored &&
            s->plan->storage[hr_cuda_statement(s, step)->tensor] == s->plan->storage[e->tensor])
            return false;
    }
    return true;
}

/* One value a column, which groups that begin where the rows of other tensors are aligned meet anywhere. */
static bool reads_across(const hr_cuda_stage *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int64_t axis;
    return s->c->ends == HR_CUDA_ENDS_SHIFTED && s->c->position_bits == 32 &&
           s->c->ends != HR_CUDA_ENDS_STRADDLED && tensor->rank == 1 && e->args[0]->op == HR_OP_INDEX &&
           hr_extent_value(s->function, tensor->shape[0], s->extents, &axis) == HR_OK && axis == s->c->row;
}

static void print_staged_load(hr_cuda_stage *s, const hr_expr *e, const char *staged_block) {
    hr_printer *p = s->p;
    const char *place = hr_format(p, "%s + place + pos", staged_block);
    const char *load =
        hr_format(p, "load_carried<%d>(%s, %s)", s->c->vector, place, hr_cuda_block_slot_apart(s));
    if (s->c->ends != HR_CUDA_ENDS_EXACT)
        load = hr_format(p, "inside ? %s : load_part<%d>(%s, 0, %s - pos)", load, s->c->vector, place,
                         hr_cuda_row_end(s));
    hr_print(p, "%s[u] = %s;", s->held[e->id], load);
}

/* Groups that registers hold only while they are used: those that wait in shared memory for a pass that reads
 * them again, and what is the same for every row and comes from the cache. */
static bool is_late(const hr_cuda_stage *s, const hr_expr *e) {
    if (s->c->columns && hr_cuda_is_staged(s->c) && !hr_cuda_is_resident(s->c))
        return is_staged(s, e) || is_same_shared(s, e);
    return !hr_cuda_is_map(s->c) && hr_cuda_is_resident(s->c) && !hr_cuda_loads_ahead(s->c) &&
           s->c->same != HR_CUDA_SAME_EARLY && s->c->ends != HR_CUDA_ENDS_STRADDLED && !varies_by_task(s, e);
}

/* How its load treats the caches: cuda_machine.h. Between two uses of a row's weights whole rows pass through
 * the L1 of a multiprocessor. */
static const char *stay_of(const hr_cuda_stage *s, const hr_expr *e) {
    bool input = s->function->tensors[s->plan->storage[e->tensor]].role == HR_ROLE_INPUT;
    if (hr_cuda_leaves_last(s, e->tensor, e->args)) return "stay::in_l2";
    return input && is_late(s, e) ? "stay::in_l1" : "stay::plain";
}

static void print_load(hr_cuda_stage *s, const hr_expr *e, const char *before, const char *index) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    if (is_staged(s, e) || (is_same_shared(s, e) && !s->loads_ahead)) {
        const char *slot = hr_cuda_slot(s, e, is_staged(s, e) ? "here" : NULL);
        hr_print(p, "%s%s = *(%s);", s->held[e->id], index, slot);
        return;
    }
    const char *staged_block = hr_cuda_block_slot_in(s, e);
    if (staged_block) {
        print_staged_load(s, e, staged_block);
        return;
    }
    const char *held = s->held[e->id];
    const char *type = hr_c_storage(s->function->tensors[e->tensor].dtype);
    const char *aligned = hr_cuda_is_aligned(s, e->tensor, e->args) ? "ALIGNED" : "false";
    const char *place, *valid = NULL;
    if (c->ends == HR_CUDA_ENDS_STRADDLED && !s->one_row) {
        place = hr_format(p, "%s + pos", hr_cuda_whole_base(s, e->tensor));
    } else {
        hr_expr_print_pointer(p, e);
        place = hr_format(p, "%s + %s", p->pointer[e->id], hr_cuda_group_start(s));
        valid = p->valid[e->id];
    }
    const char *load = hr_format(p, "load_group<%s, %d>(%s, %s)", aligned, c->vector, place, stay_of(s, e));
    if (reads_across(s, e))
        load = hr_format(p, "load_across<ALIGNED, %" PRId64 ", %d>(%s, pos)", c->row, c->vector,
                         hr_emit_tensor(p, e->tensor));
    else if (reads_beyond(s, e))
        load = hr_format(p, "%s ? %s : load_part<%d>(%s, -pos, %s - pos)",
                         not_after(s, hr_format(p, "pos + %d <= rest", c->vector)), load, c->vector, place,
                         hr_cuda_row_end(s));
    else if (c->ends != HR_CUDA_ENDS_EXACT && !s->one_row)
        load = hr_format(p, "inside ? %s : load_part<%d>(%s, %s, %s - pos)", load, c->vector, place,
                         hr_cuda_is_map(c) ? "0" : "-pos", hr_cuda_row_end(s));
    if (valid) load = hr_format(p, "!%s ? zero_group<%s, %d>() : %s", valid, type, c->vector, load);
    hr_print(p, "%s%s%s = %s;", before, held, index, load);
}

static void name_and_declare(hr_cuda_stage *s, const hr_expr *e, const char *before) {
    hr_printer *p = s->p;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    if (!s->held[e->id]) s->held[e->id] = hr_format(p, "x%d_%.40s", ++p->number, tensor->name);
    hr_print(p, "group<%s, %d> %s%s[%d]%s;", hr_c_storage(tensor->dtype), s->c->vector, before,
             s->held[e->id], s->c->groups, hr_cuda_block_slot_in(s, e) ? " = {}" : "");
}

static void print_load_loop(hr_cuda_stage *s, const hr_expr *const *elements, int count, const char *before,
                            const char *index) {
    hr_printer *p = s->p;
    for (int i = 0; i < count; i++) {
        if (hr_cuda_block_slot_in(s, elements[i])) continue;
        for (int a = 0; a < elements[i]->arg_count; a++)
            hr_expr_prepare(p, elements[i]->args[a], HR_AT_TASK);
        if (s->c->ends != HR_CUDA_ENDS_STRADDLED) hr_expr_prepare(p, elements[i], HR_AT_TASK);
    }
    hr_cuda_open_groups(s);
    if (s->c->ends != HR_CUDA_ENDS_STRADDLED) hr_cuda_print_group_indices(s);
    for (int i = 0; i < count; i++)
        print_load(s, elements[i], before, index);
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_OUTER);
}

void hr_cuda_print_late_loads(hr_cuda_stage *s, int pass) {
    element_list list = {0};
    hr_printer *p = s->p;
    s->late_count = 0;
    elements_of_pass(s, pass, &list);
    for (int i = 0; i < list.count && s->late_count < HR_CUDA_STEPS_MAX; i++) {
        const hr_expr *e = list.element[i];
        const hr_tensor *tensor = &s->function->tensors[e->tensor];
        s->held[e->id] = hr_format(p, "x%d_%.40s", ++p->number, tensor->name);
        hr_print(p, "group<%s, %d> %s;", hr_c_storage(tensor->dtype), s->c->vector, s->held[e->id]);
        print_load(s, e, "", "");
        s->late[s->late_count++] = e;
    }
    if (s->late_count && hr_cuda_is_staged(s->c) && !hr_cuda_is_resident(s->c))
        hr_print(p, "keep_order(); /* fewer groups in registers at a time */");
}

void hr_cuda_drop_late_loads(hr_cuda_stage *s) {
    for (int k = 0; k < s->late_count; k++)
        s->held[s->late[k]->id] = NULL;
    s->late_count = 0;
}

/* Brings those that come through shared memory to the front; how many they are. */
static int staged_first(hr_cuda_stage *s, element_list *list) {
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        const hr_expr *e = list->element[i];
        if (!hr_cuda_block_slot_in(s, e)) continue;
        list->element[i] = list->element[count];
        list->element[count++] = e;
    }
    return count;
}

static void print_staged_loads(hr_cuda_stage *s, const hr_expr *const *elements, int count) {
    hr_printer *p = s->p;
    bool ask = hr_cuda_asks_live(s->c);
    if (ask) hr_print(p, "if (live) {");
    p->indent += ask;
    print_load_loop(s, elements, count, "", "[u]");
    if (ask) hr_cuda_close(p);
}

void hr_cuda_print_loads(hr_cuda_stage *s, int pass) {
    element_list list = {0};
    elements_of_pass(s, pass, &list);
    for (int i = 0; i < list.count;)
        if (is_late(s, list.element[i])) {
            for (int a = 0; a < list.element[i]->arg_count; a++)
                hr_expr_prepare(s->p, list.element[i]->args[a], HR_AT_TASK);
            hr_expr_prepare(s->p, list.element[i], HR_AT_TASK);
            list.element[i] = list.element[--list.count];
        } else {
            i++;
        }
    if (!list.count) return;
    for (int i = 0; i < list.count; i++)
        name_and_declare(s, list.element[i], "");
    int staged_block = s->c->rows == HR_CUDA_ROWS_BLOCK ? staged_first(s, &list) : 0;
    if (staged_block) print_staged_loads(s, list.element, staged_block);
    if (staged_block < list.count)
        print_load_loop(s, list.element + staged_block, list.count - staged_block, "", "[u]");
    if (hr_cuda_is_staged(s->c)) print_restaging(s, list.element, list.count, pass);
}

void hr_cuda_print_same_loads(hr_cuda_stage *s) {
    element_list all = {0};
    all_elements(s, &all);
    int same = 0;
    for (int i = 0; i < all.count; i++)
        if (!varies_by_task(s, all.element[i]) && is_placeable(s, all.element[i]))
            all.element[same++] = all.element[i];
    for (int i = 0; i < same; i++)
        name_and_declare(s, all.element[i], "");
    if (same) print_load_loop(s, all.element, same, "", "[u]");
}

/* Elements of the task level that could be loaded a row ahead. */
static hr_visit find_value(void *stage, const hr_expr *node) {
    hr_cuda_stage *s = stage;
    const hr_tensor *tensor = node->op == HR_OP_ELEMENT ? &s->function->tensors[node->tensor] : NULL;
    bool plain = tensor && tensor->rank &&
                 (tensor->role == HR_ROLE_INPUT || s->plan->materialised[node->tensor]) &&
                 !hr_element_is_checked(s->function, node);
    if (!plain || hr_expr_level(s->p, node) != HR_AT_TASK || !varies_by_task(s, node) ||
        !is_placeable(s, node) || s->ahead_value_count == HR_CUDA_STEPS_MAX)
        return HR_VISIT_ON;
    s->ahead_value[s->ahead_value_count++] = node;
    return HR_VISIT_PAST;
}

static void print_ahead(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    s->loads_ahead = true;
    hr_print(p, "if (ahead < tasks) {");
    p->indent++;
    hr_print(p, s->c->columns && hr_cuda_is_staged(s->c) && hr_cuda_is_resident(s->c)
                    ? "const int64_t task = ahead + own_zero();"
                    : "const int64_t task = ahead;");
    print_indices_of_task(s);
    for (int i = 0; i < s->ahead_value_count; i++) {
        const char *text = hr_expr_text(p, s->ahead_value[i]);
        hr_print(p, "ahead_%d = %s;", s->ahead_value[i]->id, text);
    }
    if (s->ahead_count) print_load_loop(s, s->ahead, s->ahead_count, "ahead_", "[u]");
    s->loads_ahead = false;
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_TASK);
}

/* The groups that a pass loaded are not in registers any more, only those that were loaded for all rows. */
void hr_cuda_forget_groups(hr_cuda_stage *s) {
    for (int id = 0; id < s->function->expr_count; id++) {
        bool same = false;
        for (int i = 0; i < s->same_count; i++)
            same = same || s->same[i]->id == id;
        if (!same) s->held[id] = NULL;
    }
}

/* What is the same for every row, once: in registers, or in shared memory where they do not suffice. */
static void print_same(hr_cuda_stage *s, const element_list *same) {
    hr_printer *p = s->p;
    if (!same->count) return;
    s->loads_ahead = true; /* as they do: there is no row in hand yet */
    if (s->c->same == HR_CUDA_SAME_SHARED) {
        for (int i = 0; i < same->count; i++)
            s->held[same->element[i]->id] = hr_format(p, "staged_%d", same->element[i]->id);
        print_load_loop(s, same->element, same->count, "",
                        hr_format(p, "[u * %d + (int)threadIdx.x]", s->c->threads));
        for (int i = 0; i < same->count; i++)
            s->held[same->element[i]->id] = NULL;
    } else {
        for (int i = 0; i < same->count; i++)
            name_and_declare(s, same->element[i], "");
        print_load_loop(s, same->element, same->count, "", "[u]");
        for (int i = 0; i < same->count && s->same_count < HR_CUDA_STEPS_MAX; i++)
            s->same[s->same_count++] = same->element[i];
    }
    s->loads_ahead = false;
}

void hr_cuda_print_first_loads(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    element_list list = {0}, same = {0};
    if (hr_cuda_is_staged(s->c))
        all_elements(s, &list);
    else
        elements_of_pass(s, 0, &list);
    s->ahead = hr_arena_alloc(p->arena, (size_t)(list.count + 1) * sizeof *s->ahead);
    for (int i = 0; i < list.count; i++) {
        const hr_expr *e = list.element[i];
        if (!varies_by_task(s, e) && is_placeable(s, e))
            same.element[same.count++] = e;
        else if (!hr_cuda_is_staged(s->c))
            s->ahead[s->ahead_count++] = e;
    }
    for (int i = 0; i < s->ahead_count; i++)
        name_and_declare(s, s->ahead[i], "ahead_");
    print_same(s, &same);
    hr_walk walk = {.enter = find_value, .context = s};
    for (int i = 0; i < s->stage->step_count; i++)
        hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(p, &walk);
    if (!s->ahead_count && !hr_cuda_is_staged(s->c)) s->ahead_value_count = 0;
    if (!s->ahead_count && !s->ahead_value_count) return;
    for (int i = 0; i < s->ahead_value_count; i++)
        hr_print(p, "%s ahead_%d = 0;", hr_c_compute(s->ahead_value[i]->type), s->ahead_value[i]->id);
    print_ahead(s, print_indices_of_task);
}

/* Those of the row in hand. */
static void name_values(hr_cuda_stage *s) {
    for (int i = 0; i < s->ahead_value_count; i++)
        s->p->name[s->ahead_value[i]->id] = hr_format(s->p, "value_%d", s->ahead_value[i]->id);
}

/* Rows that take so long that values asked for after the first exchange are there in time, while those asked
 * for with the row keep the barrier waiting. */
static bool asks_late(const hr_cuda_stage *s) {
    return s->c->same == HR_CUDA_SAME_SHARED && s->ahead_value_count > 0;
}

void hr_cuda_print_next_loads(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    hr_printer *p = s->p;
    if (!s->ahead_count && !s->ahead_value_count) return;
    for (int i = 0; i < s->ahead_count; i++) {
        const hr_expr *e = s->ahead[i];
        hr_print(p, "group<%s, %d> %s[%d];", hr_c_storage(s->function->tensors[e->tensor].dtype),
                 s->c->vector, s->held[e->id], s->c->groups);
        hr_print(p, "#pragma unroll");
        hr_print(p, "for (int u = 0; u < %d; u++)", s->c->groups);
        hr_print(p, "    %s[u] = ahead_%s[u];", s->held[e->id], s->held[e->id]);
    }
    for (int i = 0; i < s->ahead_value_count; i++) {
        const hr_expr *e = s->ahead_value[i];
        hr_print(p, "const %s value_%d = ahead_%d;", hr_c_compute(e->type), e->id, e->id);
    }
    if (!asks_late(s)) print_ahead(s, print_indices_of_task);
    name_values(s);
}

void hr_cuda_print_late_asking(hr_cuda_stage *s, void (*print_indices_of_task)(hr_cuda_stage *)) {
    if (!asks_late(s)) return;
    hr_printer_forget(s->p, HR_AT_TASK); /* names are of the row in hand */
    print_ahead(s, print_indices_of_task);
    name_values(s);
}
