/* How a CPU walks a plan's stages: the list of passes. In: a plan. Out: its schedules. */
#include "ir/graph.h"
#include "plan/passes.h"
#include "schedule/cpu/candidates_cpu.h"
#include "schedule/cpu/passes_cpu.h"
#include "schedule/schedule_passes.h"
#include "schedule/target.h"

/* Bytes of the threads' copies of one sum over tasks: a run takes little more memory than its arrays. */
enum { COPIES_MOST = 16 << 20 };

static hr_facts facts_of(const hr_device_limits *limits) {
    const double second = (double)hr_limits_l2(limits) / 4,
                 copies = (double)COPIES_MOST / 4 / (double)hr_limits_threads(limits);
    return (hr_facts){.set = HR_FACT_THREAD_A_TASK | HR_FACT_AXES_SPLIT | HR_FACT_COLUMNS_ONCE |
                             HR_FACT_COLUMN_POSITIONS | HR_FACT_BYTE_PRODUCTS | HR_FACT_AXES_WRITTEN_OUT |
                             HR_FACT_TASKS_TRANSPOSED | HR_FACT_NEXT_TASK_AHEAD | HR_FACT_BYTE_DOTS |
                             HR_FACT_SCORES_AGAIN,
                      .guess_bytes = 1,
                      /* A core multiplies each vector by itself, and widens what is narrow for each anew; of
                       * more, a product that packs the matrix is done sooner. */
                      .thin_f32 = 2,
                      .thin = 1,
                      .columns_most = second < copies ? second : copies};
}

/* ---- the passes ---- */

/* What a stage computes, in which lanes. */
static hr_status schedule_values(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    hr_cpu_walk *walk = hr_cpu_walk_of(stage);
    HR_TRY(hr_schedule_lanes(extents, true, plan, stage));
    HR_TRY(hr_pass_write_out(extents, plan, stage));
    if (walk->written_out) HR_TRY(hr_schedule_lanes(extents, true, plan, stage));
    bool estimated = hr_estimate_peak(plan, stage);
    if (hr_stage_is_vector(stage) && !stage->contract && !estimated) hr_pass_variance(plan->graph, stage);
    stage->shape = hr_stage_shape_of(plan->normal, stage);
    return hr_graph_status(plan->graph);
}

/* What a thread takes, and in which order. */
static hr_status schedule_order(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    HR_TRY(hr_pass_task_order(extents, plan, stage));
    HR_TRY(hr_pass_columns_alone(extents, plan, stage));
    hr_schedule_describe(plan, stage);
    return HR_OK;
}

/* How it goes through its rows. */
static hr_status schedule_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    HR_TRY(hr_pass_few_rows(extents, plan, stage));
    HR_TRY(hr_pass_short_rows(extents, plan, stage));
    HR_TRY(hr_pass_pipeline(extents, plan, stage));
    HR_TRY(hr_pass_stash(extents, plan, stage));
    hr_pass_chains(plan, stage);
    return hr_pass_pipeline_ends(extents, plan, stage);
}

/* How it goes through the rows of a block. */
static hr_status schedule_block(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    HR_TRY(hr_pass_stash(extents, plan, stage));
    hr_pass_chains(plan, stage);
    return HR_OK;
}

/* A row in order: scalars, of which the compiler makes vectors block by block. */
static void schedule_ordered(hr_plan *plan, hr_stage *stage) {
    stage->schedule->kind = HR_SCHEDULE_CPU_ORDERED;
    stage->schedule->lanes = HR_LANES_SCALAR;
    hr_cpu_walk_of(stage)->loop = HR_LOOP_ORDERED;
    hr_schedule_describe(plan, stage);
}

/* Tasks along the last index fill the rows of a tile, or go one by one. */
static hr_status choose_tile_rows(const int64_t *extents, const hr_plan *plan, hr_stage *stage) {
    enum { ROWS = 16 };
    int64_t tasks;
    if (!plan->limits.matrix_bytes || !stage->task_count) return HR_OK;
    const int last = stage->task[stage->task_count - 1];
    HR_TRY(hr_extent_value(plan->normal, plan->normal->indices[last].extent, extents, &tasks));
    hr_cpu_walk_of(stage)->tile_rows = tasks >= ROWS ? ROWS : 0;
    return HR_OK;
}

/* Of groups of dots the loops are fixed. */
static hr_status schedule_dots(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    stage->schedule->kind = HR_SCHEDULE_CPU_DOTS;
    HR_TRY(choose_tile_rows(extents, plan, stage));
    HR_TRY(hr_schedule_lanes(extents, true, plan, stage));
    hr_schedule_describe(plan, stage);
    return HR_OK;
}

static hr_status schedule_stage(const int64_t *extents, hr_plan *plan, hr_stage *stage) {
    if (stage->dots) return schedule_dots(extents, plan, stage);
    if (hr_stage_is_ordered(stage)) {
        schedule_ordered(plan, stage);
        return HR_OK;
    }
    stage->schedule->kind = stage->contract ? HR_SCHEDULE_CPU_PRODUCT : HR_SCHEDULE_CPU_WALK;
    HR_TRY(schedule_values(extents, plan, stage));
    return schedule_order(extents, plan, stage);
}

/* Its loops are fixed. */
static bool is_fixed(const hr_stage *stage) {
    return stage->dots || hr_stage_is_ordered(stage);
}

/* How it goes through memory. */
static hr_status schedule_walk(hr_plan *plan, int number) {
    hr_stage *stage = &plan->stages[number];
    HR_TRY(hr_pass_task_loop(plan, number));
    hr_pass_store(stage);
    hr_pass_unroll(plan, stage);
    return hr_pass_prefetch(plan, number);
}

static hr_status schedule(const int64_t *extents, bool unfused, hr_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++)
        HR_TRY(schedule_stage(extents, plan, &plan->stages[i]));
    if (!unfused) HR_TRY(hr_pass_join_strips(extents, plan));
    if (!unfused) HR_TRY(hr_pass_attend_blocks(extents, plan));
    for (int i = 0; i < plan->stage_count; i++)
        if (is_fixed(&plan->stages[i]))
            continue;
        else if (!hr_schedule_attends(plan, i))
            HR_TRY(schedule_rows(extents, plan, &plan->stages[i]));
        else
            HR_TRY(schedule_block(extents, plan, &plan->stages[i]));
    for (int i = 0; i < plan->stage_count; i++)
        if (!is_fixed(&plan->stages[i])) HR_TRY(schedule_walk(plan, i));
    HR_TRY(hr_pass_segments(extents, plan));
    HR_TRY(hr_pass_contract_lanes(extents, plan));
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].contract)
            plan->stages[i].schedule->product = hr_contract_choice_of(plan, &plan->stages[i]);
    return HR_OK;
}

const hr_target hr_target_cpu = {
    HR_TARGET_CPU, "cpu", facts_of, schedule, hr_cpu_candidates,
};
