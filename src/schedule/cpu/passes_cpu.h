/* The passes that schedule stages for a CPU, in the order in which schedule_cpu.c calls them. Each says what
 * it requires and provides. All change the stages that they are given. */
#ifndef HR_SCHEDULE_CPU_PASSES_CPU_H
#define HR_SCHEDULE_CPU_PASSES_CPU_H

#include "schedule/schedule.h"

/* ---- of one stage ---- */

/* Requires values and lanes, both of which it changes: lanes must be chosen again. Provides: a step for each
 * element of a short axis whose elements share what they read. */
hr_status hr_pass_write_out(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires lanes. Provides: a maximum that only keeps exponentials in range does not take a pass of its own.
 * Whether there is one. */
bool hr_estimate_peak(const hr_plan *plan, hr_stage *stage);

/* Provides the order of tasks. */
hr_status hr_pass_task_order(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Provides where column sums of nothing else are added up, and strips of columns. */
hr_status hr_pass_columns_alone(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Column sums of nothing else, none of whose values hinders that a few columns at a time go through all
 * tasks. */
hr_status hr_columns_stand_alone(const hr_plan *plan, const hr_stage *stage, bool *out);

/* Requires the order and strips. Provides that threads share the lanes of few rows. */
hr_status hr_pass_few_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires the order, strips and the partition. Provides the jam of short rows, how their ends lie, and their
 * accumulators. */
hr_status hr_pass_short_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires all passes over a row, and the jam of short ones. Provides whether passes are pipelined, with how
 * many rows and how closely. */
hr_status hr_pass_pipeline(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires the order, strips and the pipeline. Provides the values that are stashed. */
hr_status hr_pass_stash(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires the stash. Provides the offset of a pipeline's first pass and the direction of its last. */
hr_status hr_pass_pipeline_ends(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires steps as they are walked. Provides how many addends the chains of its sums have. */
void hr_pass_chains(const hr_plan *plan, hr_stage *stage);

/* Requires all passes but those of lanes and segments, of all stages. Provides the loop. */
hr_status hr_pass_task_loop(hr_plan *plan, int number);

/* Requires the loop. Provides how results leave. */
void hr_pass_store(hr_stage *stage);

/* Requires the loop. Provides how many vectors a step of each pass takes. */
void hr_pass_unroll(hr_plan *plan, hr_stage *stage);

/* Requires the loop. Provides what each pass prefetches. */
hr_status hr_pass_prefetch(hr_plan *plan, int number);

/* ---- of all stages together ---- */

/* Requires the order and strips of all stages. Provides which go through strips together. */
hr_status hr_pass_join_strips(const int64_t *extents, hr_plan *plan);

/* Provides which of the plan's regions go through blocks of rows, and plan->in_blocks. */
hr_status hr_pass_attend_blocks(const int64_t *extents, hr_plan *plan);

/* Provides the segments of products' operands and of stages that only sum up rows. */
hr_status hr_pass_segments(const int64_t *extents, hr_plan *plan);

/* Requires segments. Provides along which index the operands of products are evaluated. */
hr_status hr_pass_contract_lanes(const int64_t *extents, hr_plan *plan);

#endif
