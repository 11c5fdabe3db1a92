/* Attention as one kernel on the tensor cores: which regions it takes, and its tile. Many queries by wgmma on
 * sm_90a, templates/cuda/attention_hopper.h; few of them, with keys shared out, by mma.sync,
 * attention_split.h, which takes what else there is, too.
 *
 * In: a region of a plan, numbers for the extents. Out: numbers and words; nothing is printed here. Where the
 * kernel cannot take a region, `why` says what is in the way, and its stages remain what they are.
 */
#ifndef HR_SCHEDULE_CUDA_CHOOSE_ATTENTION_H
#define HR_SCHEDULE_CUDA_CHOOSE_ATTENTION_H

#include "plan/mask_class.h"
#include "plan/softmax.h"
#include "schedule/cuda/gemm_view.h"

typedef enum hr_attention_mainloop { HR_ATTENTION_HOPPER, HR_ATTENTION_SPLIT } hr_attention_mainloop;

/* Of HR_ATTENTION_SPLIT, a block of the kernel that adds up parts of keys; of HR_ATTENTION_HOPPER, one of the
 * kernel that lists tiles. */
enum { HR_ATTENTION_END_THREADS = 256, HR_ATTENTION_BEGIN_THREADS = 256 };

enum { HR_ATTENTION_SMALL = 1 << 22 };

typedef struct hr_cuda_attention {
    bool fits;
    hr_attention_mainloop mainloop;
    int first, last; /* stages */
    hr_softmax softmax;
    hr_dtype dtype;                 /* of queries, keys and values as they are multiplied: bf16 or f16 */
    bool widens;                    /* some of them are f8, and widen to it as threads bring them */
    hr_gemm_view query, key, value; /* HR_ATTENTION_HOPPER */
    hr_gemm_load query_load, key_load, value_load; /* where there are no boxes */
    int splits, places; /* HR_ATTENTION_SPLIT: parts of the keys, blocks of them in flight for a warp */
    /* What data say of tiles; HR_ATTENTION_HOPPER: the kernel that lists those that count; 0 = none does.
     * HR_ATTENTION_SPLIT: bytes of a block's shared memory for what they say of its steps; 0 = nothing. */
    hr_mask_classes classes;
    int64_t class_bytes;
    int64_t begin_blocks, begin_shared_bytes;
    int64_t end_blocks, end_shared_bytes; /* of the kernel that adds up parts; 0 = there is none */
    int64_t work_bytes;                   /* of the parts, or of the lists */
    bool reads_rows;  /* what follows the second product reads something of a row that the region makes */
    bool leaves_rows; /* its only result has 16 bits and whole rows of values: they are stored by 16 bytes */
    int64_t key_group, value_group; /* neighbours along the last index of batches that share them */
    int deep, wide;                 /* a query's elements, a value's */
    /* In open scores, a conversion to f32 of whole numbers that are smaller than HR_ATTENTION_SMALL; NULL =
     * none.
     */
    const hr_expr *small;
    const hr_expr *scale; /* open score = first product * scale > 0; NULL = it is anything else */
    int tile_m, tile_n;   /* queries and keys of a block */
    int query_places;     /* of the ring of queries */
    int threads;          /* a warpgroup that loads, two or three that multiply */
    int load_registers, multiply_registers; /* of a thread of these */
    int64_t section;              /* heads that go together: all of their keys and values stay in the L2 */
    int64_t blocks, shared_bytes; /* of the grid, which take tiles in turn, or one each; of a block */
    char why[480];
} hr_cuda_attention;

/* Bytes that a part of keys leaves for each query, in f32: the sums, then the largest score, the base of
 * exponents and their sum. */
static inline int64_t hr_cuda_attention_part_bytes(const hr_cuda_attention *attention) {
    return ((int64_t)attention->wide + 4) * 4;
}
/* A plain element of that dtype. */
bool hr_cuda_attention_takes(const hr_plan *plan, const hr_expr *e, hr_dtype dtype);
/* Heads of so many bytes that go together: the L2 holds all of them. */
int64_t hr_cuda_attention_section(int64_t bytes, int64_t heads);

/* A box of an operand of `inner` columns that neighbouring batches may share: h // by for their last index h;
 * *group: by, 1 where they do not. */
hr_status hr_cuda_attention_view(const hr_plan *plan, const hr_contract *scores, const int64_t *extents,
                                 const hr_expr *e, hr_gemm_indices inner, hr_gemm_view *view, int64_t *group);
/* By chunks where a row of `inner` is whole pieces of 16 bytes, wherever it is. */
hr_status hr_cuda_attention_load(const hr_plan *plan, const int64_t *extents, const hr_expr *e, int inner,
                                 hr_gemm_load *out);

/* What follows the second product reads the tensor, which the region makes: of a row there is one, in memory.
 */
bool hr_cuda_attention_reads(const hr_plan *plan, const hr_region *region, int tensor);
hr_status hr_cuda_attention_choose(const hr_plan *plan, const hr_region *region, const int64_t *extents,
                                   hr_cuda_attention *out);

#endif
