/* The loop over rows whose passes run side by side: which rows a step takes, what its rows begin with and
 * what is left of them when it ends. What the passes do in it is in stage_pipeline.c.
 */
#ifndef HR_EMIT_C_STAGE_PIPELINE_LOOP_H
#define HR_EMIT_C_STAGE_PIPELINE_LOOP_H

#include "emit/c/stage_parts.h"

static inline bool hr_pipeline_has_columns(const hr_stage *stage) {
    return hr_stage_has(stage, HR_STEP_REDUCE_COLUMN);
}

/* Groups of two rows that go through all columns together: their sums are taken up and put back once. */
static inline bool hr_pipeline_is_jammed(const hr_stage *stage) {
    return hr_cpu_walk_of(stage)->jam > 1 && hr_pipeline_has_columns(stage);
}

/* The functions that a step begins and ends with. */
void hr_stage_pipeline_ends(hr_stage_printer *s);
/* The body of the stage's function. */
void hr_stage_pipeline_loop(hr_stage_printer *s);

#endif
