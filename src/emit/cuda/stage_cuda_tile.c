/* Maps that read across what they write. In: a flat stage. Out: text. See stage_cuda_tile.h. */
#include "emit/cuda/stage_cuda_tile.h"

#include "base/dtype.h"
#include "ir/visit.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TILE_BYTES = 40960, ACROSS = HR_CUDA_TILE_ACROSS, ALONG = HR_CUDA_TILE_ALONG };

/* ---- what is in a tile ---- */

static int64_t groups_along(const hr_cuda_choice *c) {
    return c->lane / c->vector;
}

static int tile_lanes(const hr_cuda_choice *c) {
    return ALONG * c->vector;
}

static int tile_run(const hr_cuda_choice *c) {
    return ACROSS * c->groups;
}

static int element_size(const hr_cuda_stage *s, const hr_expr *e) {
    return (int)hr_dtype_size(s->function->tensors[e->tensor].dtype);
}

/* Elements from one run of a tile to the next: four bytes more than the run, so that those of one column are
 * in different banks. */
static int tile_pitch(const hr_cuda_stage *s, const hr_expr *e) {
    int size = element_size(s, e);
    return tile_run(s->c) + (size < 4 ? 4 / size : 1);
}

/* The last subscript is the index across, one other the lane, and the rest is the same for a tile. */
static bool is_tiled(const hr_cuda_stage *s, const hr_expr *e) {
    const hr_cuda_choice *c = s->c;
    const hr_tensor *tensor = &s->function->tensors[e->tensor];
    int across = c->order[c->across], lane = c->order[c->order_count - 1], lanes = 0, last = tensor->rank - 1;
    if (e->op != HR_OP_ELEMENT || last < 1 || hr_element_is_guarded(s->function, e)) return false;
    if (hr_element_is_checked(s->function, e) || hr_plan_layout(s->plan, e->tensor) != HR_LAYOUT_DENSE ||
        s->p->value[e->tensor] || hr_stage_makes(s->plan, s->stage, e->tensor))
        return false;
    if (e->args[last]->op != HR_OP_INDEX || e->args[last]->index != across) return false;
    for (int a = 0; a < last; a++) {
        if (hr_expr_has_index(e->args[a], across)) return false;
        if (!hr_expr_has_index(e->args[a], lane)) continue;
        if (e->args[a]->op != HR_OP_INDEX) return false;
        lanes++;
    }
    return lanes == 1;
}

static hr_visit find_tiled(void *stage, const hr_expr *node) {
    hr_cuda_stage *s = stage;
    if (!is_tiled(s, node)) return HR_VISIT_ON;
    int bytes = tile_lanes(s->c) * tile_pitch(s, node) * element_size(s, node);
    if (s->tiled_count < HR_CUDA_TILES_MAX && s->tiled_bytes + bytes <= TILE_BYTES) {
        s->tiled[s->tiled_count++] = node;
        s->tiled_bytes += bytes;
    }
    return HR_VISIT_PAST;
}

static void find_all_tiled(hr_cuda_stage *s) {
    hr_walk walk = {.enter = find_tiled, .context = s};
    s->tiled_count = s->tiled_bytes = 0;
    for (int i = 0; i < s->stage->step_count; i++)
        if (s->stage->steps[i].stored) hr_walk_through(&walk, s->stage->steps[i].value);
    hr_printer_walked(s->p, &walk);
}

void hr_cuda_name_tiled(hr_cuda_stage *s, bool on) {
    hr_printer *p = s->p;
    for (int i = 0; i < s->tiled_count && s->c->walk == HR_CUDA_WALK_TILES; i++) {
        const hr_expr *e = s->tiled[i];
        const char *bits = hr_format(p, "tile_%d[(along * %d + v) * %d + over + u * %d]", e->id, s->c->vector,
                                     tile_pitch(s, e), ACROSS);
        p->buffer[e->id] = on ? hr_cuda_value_of(s, e, bits) : NULL;
    }
}

/* ---- the text ---- */

static const char *between_text(hr_cuda_stage *s) {
    const hr_cuda_choice *c = s->c;
    return hr_emit_points(s->p, c->order + c->across + 1, c->order_count - c->across - 2);
}

/* Runs of an array that is read across, one a lane, into its tile. */
static void print_filling(hr_cuda_stage *s, const hr_expr *e) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    int size = element_size(s, e), piece = 16 / size, pieces = tile_run(c) / piece,
        rank = s->function->tensors[e->tensor].rank;
    int64_t axis = 0;
    bool known = hr_extent_value(s->function, s->function->tensors[e->tensor].shape[rank - 1], s->extents,
                                 &axis) == HR_OK;
    bool aligned = known && axis % piece == 0;
    const char *across = hr_emit_index(p, c->order[c->across]),
               *end = hr_emit_index_size(p, c->order[c->across]);
    hr_print(p, "#pragma unroll");
    hr_print(p, "for (int k = 0; k < %d; k++) {", tile_lanes(c) * pieces / (ACROSS * ALONG));
    p->indent++;
    hr_print(p,
             "const int run = (k * %d + (int)threadIdx.x) / %d, at = (k * %d + (int)threadIdx.x) %% %d * %d;",
             ACROSS * ALONG, pieces, ACROSS * ALONG, pieces, piece);
    hr_print(p, "const int64_t i = first_lane + run, %s = first_across + at;", across);
    hr_print(p, "if (i < %" PRId64 " && %s < %s)", c->lane, across, end);
    hr_print(p, "    fill_tile<%s>(tile_%d + run * %d + at, %s + %s, %s - %s);",
             aligned ? "ALIGNED" : "false", e->id, tile_pitch(s, e), hr_emit_tensor(p, e->tensor),
             hr_emit_offset(p, e->tensor, e->args, rank), end, across);
    hr_cuda_close(p);
    hr_printer_forget(p, HR_AT_TASK);
}

/* The indices that are one for a tile. */
static void print_tile_indices(hr_cuda_stage *s) {
    const hr_cuda_choice *c = s->c;
    hr_print(s->p, "const int64_t above = part / (%s), beside = part %% (%s);", between_text(s),
             between_text(s));
    hr_cuda_print_digits(s->p, c->order, c->across, "above");
    hr_cuda_print_digits(s->p, c->order + c->across + 1, c->order_count - c->across - 2, "beside");
}

void hr_cuda_open_tiles(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *size = hr_emit_index_size(p, c->order[c->across]);
    int64_t along = hr_divide_up(groups_along(c), ALONG);
    int run = tile_run(c);
    find_all_tiled(s);
    for (int i = 0; i < s->tiled_count; i++) {
        const hr_expr *e = s->tiled[i];
        const char *type = hr_c_storage(s->function->tensors[e->tensor].dtype);
        int words = (tile_lanes(c) * tile_pitch(s, e) * element_size(s, e) + 7) / 8;
        hr_print(p, "__shared__ uint64_t words_%d[%d];", e->id, words);
        hr_print(p, "%s *const tile_%d = (%s *)words_%d;", type, e->id, type, e->id);
    }
    hr_print(p, "const int along = (int)threadIdx.x %% %d, over = (int)threadIdx.x / %d; /* in a tile */",
             ALONG, ALONG);
    hr_print(p, "const int64_t across = (%s + %d) / %d; /* tiles */", size, run - 1, run);
    hr_print(p, "const int64_t tiles = %s * across * (%s) * %" PRId64 ";",
             hr_emit_points(p, c->order, c->across), between_text(s), along);
    hr_print(p, "for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {");
    p->indent++;
    hr_print(p, "const int64_t first_lane = tile %% %" PRId64 " * %d;", along, tile_lanes(c));
    hr_print(p,
             "const int64_t strip = tile / %" PRId64
             ", part = strip / across, first_across = strip %% across * %d;",
             along, run);
    if (!s->tiled_count) return;
    print_tile_indices(s);
    for (int i = 0; i < s->tiled_count; i++)
        print_filling(s, s->tiled[i]);
    hr_print(p, "__syncthreads();");
}

void hr_cuda_close_tiles(hr_cuda_stage *s) {
    if (s->tiled_count) hr_print(s->p, "__syncthreads(); /* before the next tile */");
    hr_cuda_close(s->p);
}

void hr_cuda_print_tile_place(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *type = s->positions, *size = hr_emit_index_size(p, c->order[c->across]);
    hr_print(p, "const int64_t place = first_across + over + u * %d, first = first_lane + along * %d;",
             ACROSS, c->vector);
    hr_print(p, "if (place >= %s || first >= %" PRId64 ") continue;", size, c->lane);
    hr_print(p,
             "const %s pos = (%s)(((part / (%s) * %s + place) * (%s) + part %% (%s)) * %" PRId64 " + first);",
             type, type, between_text(s), size, between_text(s), between_text(s), c->lane);
}
