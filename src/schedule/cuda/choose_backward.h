/* The gradients of attention on the tensor cores: which five products go together, and their tiles. By wgmma
 * on sm_90a, as one kernel (templates/cuda/attention_backward_fused.h) or two that make scores each
 * (attention_backward.h); what that cannot take, and on sm_80, as two by mma.sync,
 * attention_backward_ampere.h.
 *
 * In: a plan, the stage of scores, numbers for the extents. Out: numbers and words; nothing is printed here.
 * Where the kernels cannot take them, `why` says what is in the way, and the stages remain what they are.
 */
#ifndef HR_SCHEDULE_CUDA_CHOOSE_BACKWARD_H
#define HR_SCHEDULE_CUDA_CHOOSE_BACKWARD_H

#include "plan/backward.h"
#include "plan/mask_class.h"
#include "schedule/cuda/gemm_view.h"

enum { HR_BACKWARD_OF_QUERY_MAX = 4, HR_BACKWARD_BEGIN_THREADS = 256, HR_BACKWARD_END_THREADS = 256 };

typedef enum hr_backward_mainloop {
    HR_BACKWARD_FUSED,
    HR_BACKWARD_HOPPER,
    HR_BACKWARD_AMPERE
} hr_backward_mainloop;

/* What it multiplies; given: the result's gradient. */
typedef enum hr_backward_side {
    HR_BACKWARD_OF_QUERIES,
    HR_BACKWARD_OF_KEYS,
    HR_BACKWARD_GIVEN,
    HR_BACKWARD_OF_VALUES,
    HR_BACKWARD_SIDES
} hr_backward_side;

/* One of the two kernels: that whose blocks own queries, or that whose blocks own keys. HR_BACKWARD_FUSED has
 * the second alone. */
typedef struct hr_backward_kernel {
    int64_t blocks;                           /* of the grid, which take rows in turn, or an item each */
    int64_t begin_blocks, begin_shared_bytes; /* of the kernel before it that lists tiles, or clears counts;
                                                 0 = there is none */
    int64_t end_blocks;                       /* HR_BACKWARD_FUSED: of that after it, which rounds sums */
    int parts, deep_part, wide_part;          /* blocks of an item, columns of each */
} hr_backward_kernel;

typedef struct hr_cuda_backward {
    bool found, fits; /* found: there are five such products */
    hr_backward text;
    hr_backward_mainloop mainloop;
    hr_key_bounds bounds;    /* of its mask */
    hr_mask_classes classes; /* what data say of it, where kernels list tiles */
    hr_dtype dtype;          /* of queries, keys, values and the result's gradient: bf16 or f16 */
    hr_gemm_view view[HR_BACKWARD_SIDES]; /* but of HR_BACKWARD_AMPERE */
    hr_gemm_load load[HR_BACKWARD_SIDES]; /* HR_BACKWARD_AMPERE */
    int64_t group[HR_BACKWARD_SIDES];     /* neighbours along the last index of batches that share a view */
    /* What the text reads of a query beside its row: an element of each of these tensors */
    int of_query_count;
    const hr_expr *of_query[HR_BACKWARD_OF_QUERY_MAX];
    int deep, wide;             /* a query's elements, a value's */
    int deep_spans, wide_spans; /* with wgmma: pieces of 64 columns that a tile has */
    int tile_m, tile_n;         /* rows that a block owns, rows of a tile */
    int own_places, places;     /* for owned rows; of the ring of tiles */
    bool waits;           /* a thread has no registers for sums over queries and the next tile's products */
    int threads;          /* of a block; with wgmma: a warpgroup that loads, two that multiply */
    int64_t section;      /* heads that go together: what they hold stays in the L2 */
    int64_t shared_bytes; /* of a block */
    bool lists;           /* kernels before list the tiles that data leave */
    int64_t work_bytes;   /* of lists, which both kernels have one after the other; of counts and sums */
    /* HR_BACKWARD_FUSED: columns of a group's product for queries; where in the work memory, behind the
     * lists, it is told which blocks add to a tile, how many have, and their sums are */
    int query_columns;
    int64_t adders_at, turns_at, sums_at;
    hr_backward_kernel kernel[2]; /* whose blocks own queries, and keys */
    char why[320];                /* "" = they are no such products */
} hr_cuda_backward;

/* One of the operands. */
const hr_expr *hr_cuda_backward_operand(const hr_plan *plan, const hr_cuda_backward *backward,
                                        hr_backward_side side);
hr_status hr_cuda_backward_choose(const hr_plan *plan, int scores, const int64_t *extents,
                                  hr_cuda_backward *out);

#endif
