/* The loop over the groups that a thread holds: where each lies, and which of its elements are in its row.
 * In: a stage. Out: text. */
#include "emit/cuda/stage_cuda_elements.h"
#include "emit/cuda/stage_cuda_tile.h"

#include <inttypes.h>

bool hr_cuda_leaves_last(const hr_cuda_stage *s, int tensor, hr_expr *const *subscripts) {
    return s->c->eviction == HR_EVICTION_LAST && hr_cuda_whole(s, tensor, subscripts) &&
           s->function->tensors[s->plan->storage[tensor]].role != HR_ROLE_INOUT;
}

const char *hr_cuda_not_after(const hr_cuda_stage *s, const char *condition) {
    const hr_cuda_choice *c = s->c;
    int64_t whole = c->row / ((int64_t)c->row_threads * c->slices * c->vector);
    return hr_cuda_is_resident(c) && whole ? hr_format(s->p, "(u < %" PRId64 " || %s)", whole, condition)
                                           : condition;
}

const char *hr_cuda_not_outside(const hr_cuda_stage *s, const char *begins, const char *ends) {
    ends = hr_cuda_not_after(s, ends);
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
    return hr_cuda_not_outside(s, "v >= -pos", hr_format(s->p, "v < %" PRId64 " - pos", s->c->row));
}

/* In a map: groups of a block are neighbours. */
static void open_map_groups(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    if (c->both) return;
    if (c->walk == HR_CUDA_WALK_TILES) {
        hr_cuda_print_tile_place(s);
        return;
    }
    hr_print(p, "const %s pos = (base + u * %d + (int)threadIdx.x) * %d;", s->positions, c->threads,
             c->vector);
    hr_print(p, "if (pos >= total) continue;");
    if (c->ends != HR_CUDA_ENDS_EXACT) hr_print(p, "const bool inside = pos + %d <= total;", c->vector);
}

/* Leaves out what is beyond a row. */
static void print_beyond(hr_cuda_stage *s) {
    const hr_cuda_choice *c = s->c;
    bool full = c->ends == HR_CUDA_ENDS_EXACT && c->row % c->vector == 0 &&
                c->row / c->vector == (int64_t)c->row_threads * c->slices * c->groups * c->chunks;
    bool idle = hr_cuda_checks_live(c) && !s->loads_ahead && c->rows != HR_CUDA_ROWS_BLOCK;
    if (!full)
        hr_print(s->p, "if (pos >= %" PRId64 "%s) continue;", c->row, idle ? " || !live" : "");
    else if (idle)
        hr_print(s->p, "if (!live) continue;");
    if (s->bounded) hr_print(s->p, "if (pos >= until || pos + %d <= from) continue;", c->vector);
}

/* Of rows: threads that hold a row are neighbours. */
static void open_row_groups(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int64_t run = (int64_t)c->row_threads * (c->rows == HR_CUDA_ROWS_RING ? 1 : c->slices);
    const char *first = c->chunks > 1 ? hr_format(p, "((%s)chunk * %d + u)", s->positions, c->groups) : "u";
    if (c->ends == HR_CUDA_ENDS_EXACT &&
        hr_cuda_is_resident(c)) /* 64 bits, so that u's part stays a constant of the address */
        hr_print(p, "const int64_t pos = (int64_t)lane * %d + u * %" PRId64 ";", c->vector, run * c->vector);
    else
        hr_print(p, "const %s pos = (%s * %" PRId64 " + lane) * %d%s;", s->positions, first, run, c->vector,
                 c->ends == HR_CUDA_ENDS_SHIFTED ? " - shift" : "");
    print_beyond(s);
    if (c->ends == HR_CUDA_ENDS_EXACT) return;
    if (c->rows == HR_CUDA_ROWS_BLOCK) /* two elements: one by one costs less than a branch */
        hr_print(p, "const bool inside = u < %d;", c->groups - 1);
    else
        hr_print(p, "const bool inside = %s;",
                 hr_cuda_not_outside(s, "pos >= 0", hr_format(p, "pos + %d <= %" PRId64, c->vector, c->row)));
}

void hr_cuda_open_groups(hr_cuda_stage *s) {
    hr_print(s->p, "#pragma unroll");
    hr_print(s->p, "for (int u = 0; u < %d; u++) {", s->c->groups);
    s->p->indent++;
    if (hr_cuda_is_map(s->c))
        open_map_groups(s);
    else
        open_row_groups(s);
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
        if (c->both && k == c->both) {
            hr_print(p, "const int64_t %s = u;", name);
            continue;
        }
        if (k == first) {
            hr_print(p, "const int64_t %s = %s;", name, rest);
            break;
        }
        const char *size = hr_emit_index_size(p, c->order[k]);
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
bool hr_cuda_group_starts_at_pos(const hr_cuda_stage *s) {
    int first = hr_cuda_is_map(s->c) ? 0 : s->stage->task_count;
    return (s->c->ends == HR_CUDA_ENDS_STRADDLED && !s->one_row) || s->c->order_count - first <= 1;
}

const char *hr_cuda_group_start(const hr_cuda_stage *s) {
    return hr_cuda_group_starts_at_pos(s) ? "pos" : "start";
}

void hr_cuda_print_group_indices(hr_cuda_stage *s) {
    if (!hr_cuda_group_starts_at_pos(s)) hr_cuda_print_indices(s, "pos", "start");
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
