/* Maps that share a launch: what is written to places of their own behind a map that is no smaller, as a
 * token's keys and values behind its queries. In: stages that are scheduled. Out: which go with the one
 * before.
 *
 * A launch takes longer to begin than few elements take. Its blocks go through the elements of one stage
 * after the other, in no order between blocks: so none reads or writes what another one writes.
 */
#include "schedule/cuda/cuda_follow.h"
#include "ir/visit.h"

static bool step_reads(const hr_plan *plan, const hr_step *step, int tensor) {
    const hr_statement *statement = &plan->normal->statements[step->statement];
    bool reads = hr_expr_reads(step->value, tensor);
    for (int a = 0; a < statement->subscript_count; a++)
        reads = reads || hr_expr_reads(statement->subscripts[a], tensor) ||
                (step->subscripts && hr_expr_reads(step->subscripts[a], tensor));
    return reads;
}

static bool stage_reads(const hr_plan *plan, const hr_stage *stage, int tensor) {
    for (int i = 0; i < stage->step_count; i++)
        if (step_reads(plan, &stage->steps[i], tensor)) return true;
    return false;
}

/* Nothing that one of them writes is read or written by the other. */
static bool are_apart(const hr_plan *plan, const hr_stage *a, const hr_stage *b) {
    for (int t = 0; t < plan->normal->tensor_count; t++) {
        const bool first = hr_stage_overwrites(plan, a, t), second = hr_stage_overwrites(plan, b, t);
        if ((first && (second || stage_reads(plan, b, t))) || (second && stage_reads(plan, a, t)))
            return false;
    }
    return true;
}

/* All that it does is to go through its elements, whatever the number of blocks. */
static bool is_plain_map(const hr_plan *plan, const hr_stage *stage) {
    if (stage->schedule->kind != HR_SCHEDULE_CUDA_GRID) return false;
    const hr_cuda_choice *c = hr_grid_of(stage);
    const hr_stage_kernels kernels = hr_stage_kernels_of(plan, stage, c);
    return c->walk == HR_CUDA_WALK_MAP && !c->once && !c->places && !c->shared_bytes && !c->work_bytes &&
           hr_cuda_cluster_blocks(c) == 1 && !kernels.begin && !kernels.end;
}

static bool writes_places(const hr_plan *plan, const hr_stage *stage) {
    return hr_stage_has_only(stage, HR_STEP_SCATTER) &&
           plan->normal->statements[stage->steps[0].statement].store == HR_STORE_PLACE;
}

static hr_status points_of(const hr_plan *plan, const hr_stage *stage, const int64_t *extents, int64_t *out) {
    const hr_cuda_choice *c = hr_grid_of(stage);
    return hr_plan_points(plan, c->order, c->order_count, extents, out);
}

static hr_status may_follow(const hr_plan *plan, const int64_t *extents, int first, int i, bool *may) {
    const hr_stage *stage = &plan->stages[i], *leader = &plan->stages[first];
    int64_t points, most;
    *may = is_plain_map(plan, leader) && is_plain_map(plan, stage) && writes_places(plan, stage) &&
           hr_grid_of(leader)->threads == hr_grid_of(stage)->threads &&
           hr_grid_of(leader)->together == hr_grid_of(stage)->together;
    for (int k = first; *may && k < i; k++)
        *may = are_apart(plan, &plan->stages[k], stage);
    if (!*may) return HR_OK;
    HR_TRY(points_of(plan, stage, extents, &points));
    HR_TRY(points_of(plan, leader, extents, &most));
    *may = points <= most;
    return HR_OK;
}

hr_status hr_cuda_find_followers(hr_plan *plan, const int64_t *extents) {
    int first = 0;
    for (int i = 1; i < plan->stage_count && !plan->general; i++) {
        hr_stage *stage = &plan->stages[i];
        bool may;
        HR_TRY(may_follow(plan, extents, first, i, &may));
        if (!may) {
            first = i;
            continue;
        }
        plan->stages[i - 1].schedule->grid.followed = true;
        stage->schedule->grid.follows = true;
        stage->why = hr_arena_format(plan->arena, "%s; in the launch of stage %d", stage->why, first + 1);
    }
    return HR_OK;
}
