/* Maps that read across what they write, as a transposing copy does: tiles. In: a flat stage. Out: text.
 *
 * A warp's threads hold groups of 32 neighbouring values of the index along which an array is read, so that
 * what they read of it is one run of memory for each element of a group; the warps of a block hold
 * neighbouring groups, so that what they write meets in the L2.
 */
#ifndef HR_EMIT_STAGE_CUDA_TILE_H
#define HR_EMIT_STAGE_CUDA_TILE_H

#include "emit/stage_cuda.h"

/* Whether it pays; changes the choice where it does. */
void hr_cuda_choose_tile(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_cuda_choice *choice);
/* The loop over tiles, which the caller closes; the place of group u of a thread in it, in the loop over
 * groups. */
void hr_cuda_open_tiles(hr_cuda_stage *stage);
void hr_cuda_print_tile_place(hr_cuda_stage *stage);

#endif
