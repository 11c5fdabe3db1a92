/* Whether long rows pass through shared memory in a ring of places, and how many threads and blocks hold one.
 * See stage_cuda_ring.h. */
#ifndef HR_EMIT_CUDA_CUDA_CHOICE_RING_H
#define HR_EMIT_CUDA_CUDA_CHOICE_RING_H

#include "emit/cuda/cuda_choice.h"

/* In: a stage of rows that are walked more than once, and how it would lie otherwise. Out: the same, or a
 * ring. */
void hr_cuda_choose_ring(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *choice);

#endif
