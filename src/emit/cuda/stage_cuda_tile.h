/* Maps that read across what they write, as a transposing copy does: tiles. In: a flat stage. Out: text.
 *
 * A block brings a tile of what is read across to shared memory, in runs along that array's own memory, and
 * takes the elements of its groups from there; eight neighbouring threads write a run of neighbouring groups.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_TILE_H
#define HR_EMIT_CUDA_STAGE_CUDA_TILE_H

#include "emit/cuda/stage_cuda.h"

/* The loop over tiles, with what is read across in shared memory; the place of group u of a thread in a tile,
 * in the loop over groups. */
void hr_cuda_open_tiles(hr_cuda_stage *stage);
void hr_cuda_print_tile_place(hr_cuda_stage *stage);
void hr_cuda_close_tiles(hr_cuda_stage *stage);
/* In the loop over elements: names of what is in the tile, or no more. */
void hr_cuda_name_tiled(hr_cuda_stage *stage, bool on);

#endif
