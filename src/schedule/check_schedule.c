/* Refuses what cannot be combined. In: a scheduled plan. Out: good, or which parameters of which stage
 * exclude each other. It reads the finished schedules alone, none of the bookkeeping of those that made them.
 */
#include "schedule/target.h"

/* ---- a CPU's walk ---- */

/* Of passes that run side by side. */
static const char *pipeline_fault(const hr_stage *stage, const hr_cpu_walk *walk) {
    const hr_pipeline *pipeline = &walk->pipeline;
    if (!pipeline->depth)
        return pipeline->throttle || pipeline->direction ? "a throttle or a direction without a pipeline"
                                                         : NULL;
    if (stage->contract) return "a pipeline of a product";
    if (!hr_stage_is_vector(stage)) return "a pipeline of scalar lanes";
    if (pipeline->depth != hr_stage_main_passes(stage) || pipeline->depth < 2)
        return "a pipeline whose depth is not the number of passes";
    if (walk->partition != HR_PARTITION_TASKS) return "a pipeline where threads share out rows or columns";
    if (walk->order != HR_ORDER_LYING) return "a pipeline of tasks in another order than they lie";
    if (stage->schedule->joins) return "a pipeline in a stage that goes on with the one before it";
    if (pipeline->direction == HR_REVERSED && (walk->jam > 1 || pipeline->depth != 2))
        return "a last pass from the end with several rows side by side, or of more than two passes";
    if (pipeline->direction == HR_REVERSED && hr_stash_has_rows(stage))
        return "a last pass from the end with stashed rows, which lie in order";
    return NULL;
}

static const char *order_fault(const hr_stage *stage, const hr_cpu_walk *walk) {
    if ((walk->order == HR_ORDER_GATHERED) != (walk->gathered != NULL))
        return "an order of gathered rows without these rows";
    if ((walk->partition == HR_PARTITION_COLUMNS) != (walk->strip > 0))
        return "strips of columns without a width, or a width without strips";
    if (walk->partition != HR_PARTITION_TASKS && walk->order != HR_ORDER_LYING)
        return "another order of tasks where threads share out rows or columns";
    if (walk->strip && hr_stash_of(stage)->count) return "stashed rows in strips of columns";
    if (walk->gathered && hr_stash_of(stage)->count) return "stashed rows where tasks have another order";
    return NULL;
}

static const char *jam_fault(const hr_stage *stage, const hr_cpu_walk *walk) {
    if (walk->jam < 0 || walk->jam > 16) return "more rows side by side than there are registers for";
    if (!hr_stage_jam(stage)) return NULL;
    if (walk->partition != HR_PARTITION_TASKS || walk->order != HR_ORDER_LYING)
        return "rows side by side that are not neighbours";
    if (hr_cpu_walk_sums_apart(walk)) return "rows side by side beside sums in registers";
    return NULL;
}

static const char *loop_fault(const hr_stage *stage, const hr_cpu_walk *walk) {
    const bool joined = walk->loop == HR_LOOP_JOINED || walk->loop == HR_LOOP_BLOCK;
    if ((walk->loop == HR_LOOP_PIPELINE) != (walk->pipeline.depth > 0))
        return "passes side by side without a pipeline, or a pipeline in another loop";
    if ((walk->loop == HR_LOOP_TRANSPOSED) != (walk->across_count > 0))
        return "tiles without what is read across the lanes";
    if (hr_cpu_walk_sums_apart(walk) && !joined && walk->loop < HR_LOOP_GROUPS)
        return "sums in registers in a loop over tasks";
    if (walk->store && !hr_stage_is_vector(stage)) return "scalars that leave past the caches";
    return NULL;
}

static const char *walk_fault(const hr_stage *stage) {
    const hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    const char *fault = pipeline_fault(stage, walk);
    if (!fault) fault = order_fault(stage, walk);
    if (!fault) fault = jam_fault(stage, walk);
    if (!fault) fault = loop_fault(stage, walk);
    if (!fault && walk->segments.run &&
        (walk->pipeline.depth || hr_stage_jam(stage) || walk->gathered || hr_stash_of(stage)->count ||
         stage->schedule->joins))
        fault = "segments of sums beside a pipeline, a jam, a stash, another order or another stage";
    return fault;
}

/* ---- a GPU's grid ---- */

static const char *grid_fault(const hr_stage *stage) {
    const hr_cuda_choice *c = hr_grid_of(stage);
    if (hr_cuda_is_map(c) && c->rows != HR_CUDA_ROWS_HELD)
        return "rows in shared memory of a stage without rows";
    if (c->columns && c->rows == HR_CUDA_ROWS_SHARED && c->depth < 2)
        return "rows of sums that are read late, and no place for the next one";
    if (c->threads < 1 || c->threads > 1024) return "a block of no threads, or of more than 1024";
    if (c->vector < 1 || c->groups < 1) return "threads that hold nothing";
    if (c->cluster > 1 && c->partners > 1) return "a cluster that both shares rows and adds up sums";
    return NULL;
}

hr_status hr_schedule_check(const hr_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        const hr_schedule_kind kind = stage->schedule->kind;
        const bool product = kind == HR_SCHEDULE_CPU_PRODUCT || kind == HR_SCHEDULE_CUDA_PRODUCT ||
                             kind == HR_SCHEDULE_CUDA_BACKWARD;
        const char *fault = NULL;
        if (hr_kind_list[kind].target != hr_target_of(&plan->limits)->kind)
            fault = "a schedule of another target";
        else if (kind != HR_SCHEDULE_CUDA_ATTENTION && product != (stage->contract != NULL))
            fault = "a schedule of another kind of stage";
        else if (kind == HR_SCHEDULE_CPU_WALK)
            fault = walk_fault(stage);
        else if (kind == HR_SCHEDULE_CUDA_GRID)
            fault = grid_fault(stage);
        if (fault)
            return hr_fail(HR_INTERNAL, "kernel %.60s, stage %d (%.60s): %s", plan->source->name, i + 1,
                           stage->name ? stage->name : "", fault);
    }
    return HR_OK;
}
