/* Long rows through a ring of places in shared memory. In: a stage whose choice is a ring. Out: text.
 *
 * A block, or a cluster of blocks, is persistent. Of the places of a row's share one is in
 * hand, one or two are being copied out, and the rest are being filled by the copy engine. So memory has
 * requests while threads compute and wait for each other, and no thread stands behind its own stores. What is
 * the same for all rows is read once, into registers: a block always holds the same columns.
 *
 * Rows are taken from a counter in scratch memory, which stage_N_begin clears: blocks that sit farther from
 * memory take fewer. A row is taken while the one before it is computed, and published to the blocks of the
 * cluster.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_RING_H
#define HR_EMIT_CUDA_STAGE_CUDA_RING_H

#include "emit/cuda/stage_cuda.h"

/* Warps of a block, and as many more as make a power of two. */
int hr_cuda_ring_warps(const hr_cuda_choice *choice);
/* The body of stage_N_begin. */
void hr_cuda_print_ring_begin(hr_cuda_stage *s);
/* The barriers on which the block waits for copies and for messages. */
void hr_cuda_print_ring_arrivals(hr_cuda_stage *s);
/* After a pass: registers hold the row as it came, not what was unpacked from it. */
void hr_cuda_print_packing(hr_cuda_stage *s);
/* Before a row's elements are read, and after what is asked of memory for the whole row: both come at once.
 */
void hr_cuda_print_ring_wait(hr_cuda_stage *s);
/* The loop over rows; `print_row` prints what is done with row `task`. */
void hr_cuda_print_ring_loop(hr_cuda_stage *s, void (*print_row)(hr_cuda_stage *));

#endif
