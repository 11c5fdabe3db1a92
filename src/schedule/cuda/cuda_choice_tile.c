/* Whether a map that reads across what it writes goes through tiles. In: a flat stage. Out: numbers. See
 * stage_cuda_tile.h for what is made of them. */
#include "schedule/cuda/cuda_choice_parts.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

#include <stdlib.h>

/* READ_BYTES: of a tile's run of what is read. */
enum { READ_BYTES = 128, LEAST_LANES = 16, GROUPS_MAX = 4 };

typedef struct search {
    const hr_plan *plan;
    const hr_cuda_choice *c;
    const int64_t *extents;
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

/* Its last subscript is an index of the stage, alone, and another is the lane. */
static void look_at(search *s, const hr_expr *e) {
    const hr_tensor *tensor = &s->plan->normal->tensors[e->tensor];
    int lane = s->c->order[s->c->order_count - 1], last = tensor->rank - 1;
    double points = hr_extent_elements(s->plan->normal, tensor, s->extents);
    if (last < 1 || e->args[last]->op != HR_OP_INDEX || e->args[last]->index == lane || points < s->points)
        return;
    bool strided = false;
    for (int a = 0; a < last; a++)
        strided = strided || hr_expr_has_index(e->args[a], lane);
    for (int k = 0; k + 1 < s->c->order_count && strided; k++)
        if (s->c->order[k] == e->args[last]->index) {
            s->across = k;
            s->points = points;
            s->size = (int)hr_dtype_size(tensor->dtype);
        }
}

static hr_visit look(void *in, const hr_expr *e) {
    if (e->op == HR_OP_ELEMENT && e->arg_count) look_at(in, e);
    return HR_VISIT_ON;
}

void hr_cuda_choose_tile(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *c) {
    const hr_knobs *knobs = hr_stage_knobs(stage);
    double all = 1;
    search s = {.plan = plan, .c = c, .extents = extents, .across = -1};
    if (c->ends != HR_CUDA_ENDS_EXACT || c->totals || c->walk == HR_CUDA_WALK_LISTS || c->once || c->places ||
        c->both || c->order_count < 2 || c->lane < LEAST_LANES || knobs->row_threads || knobs->groups)
        return;
    for (int k = 0; k < c->order_count; k++)
        all *= (double)size_of_index(&s, c->order[k]);
    s.points = all / 2; /* smaller ones stay in a cache */
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].stored) hr_expr_visit(stage->steps[i].value, look, &s);
    if (s.across < 0 || size_of_index(&s, c->order[s.across]) < HR_CUDA_TILE_ACROSS / 2) return;
    int groups = READ_BYTES / (HR_CUDA_TILE_ACROSS * s.size);
    c->walk = HR_CUDA_WALK_TILES;
    c->across = s.across;
    c->groups = groups < 1 ? 1 : groups > GROUPS_MAX ? GROUPS_MAX : groups;
    c->threads = c->row_threads = HR_CUDA_TILE_ACROSS * HR_CUDA_TILE_ALONG;
}
