/* The choices of a stage that are worth measuring on a GPU, the schedule's own first, then likeliest first.
 */
#ifndef HR_SCHEDULE_CUDA_CANDIDATES_CUDA_H
#define HR_SCHEDULE_CUDA_CANDIDATES_CUDA_H

#include "plan/plan.h"
#include "schedule/knobs.h"

int hr_cuda_candidates(const hr_plan *plan, const hr_stage *stage, hr_knobs *out, int max);

#endif
