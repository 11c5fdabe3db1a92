/* Maps that share a launch. In: stages that are scheduled. Out: which go with the one before. */
#ifndef HR_SCHEDULE_CUDA_FOLLOW_H
#define HR_SCHEDULE_CUDA_FOLLOW_H

#include "schedule/cuda/launches_cuda.h"
#include "schedule/schedule.h"

/* Sets `follows` and `followed` of the stages' choices. */
hr_status hr_cuda_find_followers(hr_plan *plan, const int64_t *extents);

/* It has no launch of its own. */
static inline bool hr_cuda_follows(const hr_stage *stage) {
    return stage->schedule->kind == HR_SCHEDULE_CUDA_GRID && hr_grid_of(stage)->follows;
}
/* The first of the stages that share the stage's launch: itself where it has its own. */
static inline int hr_cuda_leader(const hr_plan *plan, int stage) {
    while (hr_cuda_follows(&plan->stages[stage]))
        stage--;
    return stage;
}

#endif
