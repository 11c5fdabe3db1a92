/* A matrix product on the tensor cores of a CUDA device: which main loop, how operands come, which tile.
 *
 * In: a stage with a contract, numbers for the extents. Out: numbers and words; nothing is printed here.
 * Where the tensor cores cannot take a product, `why` says what in the text keeps them from it.
 */
#ifndef HR_SCHEDULE_CUDA_CHOOSE_GEMM_H
#define HR_SCHEDULE_CUDA_CHOOSE_GEMM_H

#include "plan/plan.h"

typedef enum hr_gemm_mainloop {
    HR_GEMM_PLAIN,  /* no tensor cores: arithmetic of threads */
    HR_GEMM_AMPERE, /* cp.async, ldmatrix, mma.sync: sm_80 and later */
} hr_gemm_mainloop;

/* How a tile of an operand comes into shared memory. */
typedef enum hr_gemm_load {
    HR_GEMM_ELEMENTS, /* one by one, whatever they are */
    HR_GEMM_CHUNKS, /* 16 bytes at a time, as they lie in memory, where all arrays begin at whole 16 bytes */
} hr_gemm_load;

/* One operand: what it is at (batch, m or n, k). */
typedef struct hr_gemm_side {
    const hr_expr *value;
    bool k_major; /* neighbours along k are neighbours in memory; otherwise those along m or n */
    hr_gemm_load load;
} hr_gemm_side;

typedef struct hr_cuda_gemm {
    hr_gemm_mainloop mainloop;
    hr_dtype dtype; /* of both operands: bf16 or f16 */
    hr_gemm_side left, right;
    int tile_m, tile_n; /* results of a block */
    int stages;         /* of the ring of tiles, each 64 along k */
    int threads, warps_m;
    int raster; /* tiles along m before the next column of tiles */
    int64_t blocks, shared_bytes;
    char why[160];
} hr_cuda_gemm;

hr_status hr_cuda_gemm_choose(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                              hr_cuda_gemm *out);

#endif
