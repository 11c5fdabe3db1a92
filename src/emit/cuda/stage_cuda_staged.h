/* Short rows that begin anywhere in memory, staged: all rows of a block come to shared memory and leave it
 * in one run of whole pieces of 16 bytes, because so many of them follow each other that they begin and end
 * there. Threads take their elements from shared memory, where rows may begin anywhere.
 *
 * In: a stage. Out: how it lies on the device, and text.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_STAGED_H
#define HR_EMIT_CUDA_STAGE_CUDA_STAGED_H

#include "emit/cuda/stage_cuda.h"

/* Where a tensor's rows stand in shared memory; NULL where they do not come (leave) this way. */
const char *hr_cuda_block_slot_in(const hr_cuda_stage *s, const hr_expr *element);
const char *hr_cuda_block_slot_out(const hr_cuda_stage *s, int tensor);
/* Whether the groups of a row begin inside words, as text. Where a warp has a row it takes two, one after the
 * other, of which the second, `odd`, begins so and the first does not. */
const char *hr_cuda_block_slot_apart(const hr_cuda_stage *s);
/* Before the loop over rows. */
void hr_cuda_print_block_slots(hr_cuda_stage *s);
/* In the loop: the block's rows are asked for and waited for, and a thread's first row is begun; its last is
 * ended; the block's rows are sent back. */
void hr_cuda_print_block_in(hr_cuda_stage *s);
void hr_cuda_print_block_out(hr_cuda_stage *s);
void hr_cuda_print_returning(hr_cuda_stage *s);

#endif
