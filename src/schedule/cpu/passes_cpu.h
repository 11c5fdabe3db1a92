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

/* Requires all passes over a row. Provides whether they are pipelined, with how many rows and how closely. */
hr_status hr_pass_pipeline(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Provides the stage's `ordered` and `gathered`. */
hr_status hr_pass_task_order(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Provides `few`. */
hr_status hr_pass_few_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Provides the stage's `alone` and `strip`. */
hr_status hr_pass_columns_alone(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Column sums of nothing else, none of whose values hinders that a few columns at a time go through all
 * tasks. */
hr_status hr_columns_stand_alone(const hr_plan *plan, const hr_stage *stage, bool *out);

/* Requires the pipeline, `gathered`, `few` and `alone`. Provides the stage's `ragged` and `abreast`, and
 * takes the pipeline back where rows go abreast. */
hr_status hr_pass_short_rows(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires the order and strips. Provides the values that are stashed. */
hr_status hr_pass_stash(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* Requires the stash. Provides how far ahead the first pass of a pipeline is. */
hr_status hr_pass_pipeline_offset(const int64_t *extents, hr_plan *plan, hr_stage *stage);

/* ---- of all stages together ---- */

/* Provides `joins`, and the strips of stages that go together. */
hr_status hr_pass_join_strips(const int64_t *extents, hr_plan *plan);

/* Provides `joins` of the plan's regions, and plan->in_blocks. */
hr_status hr_pass_attend_blocks(const int64_t *extents, hr_plan *plan);

/* Provides the segments of products' operands and of stages that only sum up rows. */
hr_status hr_pass_segments(const int64_t *extents, hr_plan *plan);

/* Requires segments. Provides along which index the operands of products are evaluated. */
hr_status hr_pass_contract_lanes(const int64_t *extents, hr_plan *plan);

#endif
