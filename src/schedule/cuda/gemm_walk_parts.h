/* Between gemm_walk.c, which finds products for a walk, and gemm_walk_tile.c, which finds a tile for them. */
#ifndef HR_SCHEDULE_CUDA_GEMM_WALK_PARTS_H
#define HR_SCHEDULE_CUDA_GEMM_WALK_PARTS_H

#include "schedule/cuda/gemm_walk.h"

/* A product that may be part of a walk. */
typedef struct hr_walk_member {
    bool can; /* the tensor cores take it, its operands as they lie or laid out anew */
    hr_gemm_sizes sizes;
    hr_cuda_gemm gemm;
    bool *read, *written; /* by tensor: memory */
} hr_walk_member;

typedef struct hr_walker {
    hr_plan *plan;
    const int64_t *extents;
    hr_walk_member *members; /* one a stage */
} hr_walker;

/* Each product of the walk as it is multiplied, all with one tile, less the last ones where their tensor maps
 * are too many for a kernel; false where there is none that they all have room in, or where a launch each is
 * faster. */
bool hr_gemm_walk_multiply(const hr_walker *walker, hr_gemm_walk *walk);

#endif
