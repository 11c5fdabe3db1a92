/* The parts of the choice of how a stage lies on a CUDA device: each looks at one way and fills the choice
 * where it pays. */
#ifndef HR_SCHEDULE_CUDA_CUDA_CHOICE_PARTS_H
#define HR_SCHEDULE_CUDA_CUDA_CHOICE_PARTS_H

#include "schedule/cuda/cuda_choice.h"

/* Long rows pass through shared memory in a ring of places. In: a stage of rows that are walked more than
 * once, and how it would lie otherwise. Out: the same, or a ring. */
void hr_cuda_choose_ring(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *choice);
/* Decides whether the rows of a stage are staged, a block of them at a time; fills the choice if so. `choice`
 * has the order of indices, the row, and the vector of its widest tensors. */
bool hr_cuda_choose_staged_block(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                                 hr_cuda_choice *choice);
/* A flat stage goes through tiles; changes the choice where it pays. */
void hr_cuda_choose_tile(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *choice);

#endif
