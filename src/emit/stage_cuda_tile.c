/* Maps that read across what they write. In: a flat stage. Out: text. See stage_cuda_tile.h. */
#include "emit/stage_cuda_tile.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdlib.h>

/* ACROSS: threads of a warp. ALONG: warps of a block. READ_BYTES: of memory that a warp reads at once. */
enum { ACROSS = 32, ALONG = 8, READ_BYTES = 128, LEAST_BYTES = 8, LEAST_LANES = 16, GROUPS_MAX = 4 };

/* ---- the choice ---- */

typedef struct search {
    const hr_plan *plan;
    const hr_cuda_choice *c;
    const int64_t *extents;
    bool *visited;
    int across; /* place in the choice's order; 0 or less: none */
    double points;
    int size; /* bytes of an element that is read across */
} search;

static int64_t size_of_index(const search *s, int index) {
    int64_t size = 0;
    const hr_function *function = s->plan->normal;
    bool known = hr_extent_value(function, function->indices[index].extent, s->extents, &size) == HR_OK;
    return known ? size : 0;
}

static double points_of(const search *s, const hr_tensor *tensor) {
    double points = 1;
    for (int a = 0; a < tensor->rank; a++) {
        int64_t size = 0;
        bool known = hr_extent_value(s->plan->normal, tensor->shape[a], s->extents, &size) == HR_OK;
        points *= known ? (double)size : 0;
    }
    return points;
}

/* Its last subscript is an index of the stage, alone, and another is the lane. */
static void look_at(search *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->plan->normal->tensors[e->tensor];
    int lane = s->c->order[s->c->order_count - 1], last = tensor->rank - 1;
    double points = points_of(s, tensor);
    if (last < 1 || e->args[last]->op != HR_OP_INDEX || e->args[last]->index == lane || points < s->points)
        return;
    bool strided = false;
    for (int a = 0; a < last; a++)
        strided = strided || hr_cuda_depends_on(e->args[a], lane);
    for (int k = 0; k + 1 < s->c->order_count && strided; k++)
        if (s->c->order[k] == e->args[last]->index) {
            s->across = k;
            s->points = points;
            s->size = (int)hr_dtype_size(tensor->dtype);
        }
}

static void look(search *s, const hr_expr *e) {
    if (s->visited[e->id]) return;
    s->visited[e->id] = true;
    if (e->op == HR_OP_ELEMENT && e->arg_count) look_at(s, e);
    for (int i = 0; i < e->arg_count; i++)
        look(s, e->args[i]);
}

void hr_cuda_choose_tile(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *c) {
    const hr_tunables *tunables = &plan->tunables;
    double all = 1;
    search s = {.plan = plan, .c = c, .extents = extents, .across = -1};
    if (!c->exact || c->totals || c->list || c->once || c->places || c->both || c->order_count < 2 ||
        c->lane < LEAST_LANES || tunables->row_threads || tunables->unroll)
        return;
    for (int k = 0; k < c->order_count; k++)
        all *= (double)size_of_index(&s, c->order[k]);
    s.points = all / 2; /* smaller ones stay in a cache */
    s.visited = calloc((size_t)plan->normal->expr_count + 1, 1);
    for (int i = 0; i < stage->step_count && s.visited; i++)
        if (stage->steps[i].stored) look(&s, stage->steps[i].value);
    free(s.visited);
    if (s.across < 0 || size_of_index(&s, c->order[s.across]) < ACROSS / 2) return;
    int groups = READ_BYTES / (ACROSS * s.size);
    c->tile = true;
    c->across = s.across;
    c->groups = groups < 1 ? 1 : groups > GROUPS_MAX ? GROUPS_MAX : groups;
    c->threads = c->row_threads = ACROSS * ALONG;
}

/* ---- the text ---- */

/* Groups of a lane's run, and tiles of them. */
static int64_t groups_along(const hr_cuda_choice *c) {
    return c->lane / c->vector;
}

void hr_cuda_open_tiles(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *type = s->positions, *size = hr_emit_index_size(p, c->order[c->across]);
    int64_t along = hr_divide_up(groups_along(c), ALONG);
    int run = ACROSS * c->groups;
    const char *between = hr_emit_points(p, c->order + c->across + 1, c->order_count - c->across - 2);
    hr_print(p, "const int64_t across = (%s + %d) / %d; /* tiles */", size, run - 1, run);
    hr_print(p, "const int64_t tiles = %s * across * (%s) * %" PRId64 ";",
             hr_emit_points(p, c->order, c->across), between, along);
    hr_print(p, "for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {");
    p->indent++;
    hr_print(p, "const %s first_group = (%s)(tile %% %" PRId64 ") * %d + (int)threadIdx.x / %d;", type, type,
             along, ALONG, ACROSS);
    hr_print(p, "const int64_t strip = tile / %" PRId64 ", part = strip / across;", along);
    hr_print(p, "const %s first_across = (%s)(strip %% across) * %d + (int)threadIdx.x %% %d;", type, type,
             run, ACROSS);
}

void hr_cuda_print_tile_place(hr_cuda_stage *s) {
    hr_printer *p = s->p;
    const hr_cuda_choice *c = s->c;
    const char *type = s->positions, *size = hr_emit_index_size(p, c->order[c->across]);
    const char *between = hr_emit_points(p, c->order + c->across + 1, c->order_count - c->across - 2);
    hr_print(p, "if (first_across + u * %d >= %s || first_group >= %" PRId64 ") continue;", ACROSS, size,
             groups_along(c));
    hr_print(
        p,
        "const %s pos = (%s)(((part / (%s) * %s + first_across + u * %d) * (%s) + part %% (%s)) * %" PRId64
        ") + first_group * %d;",
        type, type, between, size, ACROSS, between, between, c->lane, c->vector);
}
