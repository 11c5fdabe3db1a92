/* The gradients of attention on the tensor cores of sm_90a: which five products go together, and their tiles.
 *
 * In: a plan, the stage of scores, numbers for the extents. Out: numbers and words; nothing is printed here.
 * Where the kernels cannot take them, `why` says what is in the way, and the stages remain what they are.
 */
#ifndef HR_SCHEDULE_CUDA_CHOOSE_BACKWARD_H
#define HR_SCHEDULE_CUDA_CHOOSE_BACKWARD_H

#include "plan/backward.h"
#include "schedule/cuda/gemm_view.h"

enum { HR_BACKWARD_OF_QUERY_MAX = 4 };

typedef struct hr_cuda_backward {
    bool found, fits; /* found: there are five such products */
    hr_backward text;
    hr_key_bounds bounds; /* of its mask */
    hr_dtype dtype;       /* of queries, keys, values and the result's gradient: bf16 or f16 */
    hr_gemm_view query, given, key, value; /* given: the result's gradient */
    /* What the text reads of a query beside its row: an element of each of these tensors */
    int of_query_count;
    const hr_expr *of_query[HR_BACKWARD_OF_QUERY_MAX];
    int deep, wide;         /* a query's elements, a value's */
    int tile_m, tile_n;     /* rows that a block owns, rows of a tile */
    int own_places, places; /* for owned rows; of the ring of tiles */
    bool waits;             /* a thread has no registers for sums over queries and the next tile's products */
    int threads;            /* a warpgroup that loads, two that multiply */
    int64_t section;        /* heads that go together: what they hold stays in the L2 */
    int64_t query_blocks, key_blocks, shared_bytes; /* of grids, which take rows in turn; of a block */
    char why[200];
} hr_cuda_backward;

hr_status hr_cuda_backward_choose(const hr_plan *plan, int scores, const int64_t *extents,
                                  hr_cuda_backward *out);

#endif
