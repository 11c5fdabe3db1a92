/* What one execution of a plan launches on a CUDA device: its kernels' blocks, threads, tensor maps and the
 * scratch memory that they share. In: a scheduled plan; its extents as numbers, or their sizes as text. */
#ifndef HR_SCHEDULE_CUDA_LAUNCHES_CUDA_H
#define HR_SCHEDULE_CUDA_LAUNCHES_CUDA_H

#include "base/launch.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/cuda/choose_backward.h"
#include "schedule/cuda/choose_gemm.h"
#include "schedule/cuda/cuda_choice.h"
#include "schedule/cuda/gemm_walk.h"

/* A local begins at a multiple of 256 bytes, behind what stages use one after the other. */
enum { HR_CUDA_LOCAL_MORE = 255, HR_CUDA_LOCAL_UNIT = 256 };

/* A box of queries, keys or values is so many elements, 128 bytes, wide. */
enum { HR_ATTENTION_SPAN = 64 };

/* Threads of kernels that have the same number everywhere, and rows and columns of a plain product's tile. */
enum {
    HR_CUDA_CLEAR_THREADS = 256,
    HR_CUDA_END_THREADS = 512,
    HR_CUDA_GENERAL_THREADS = 256,
    HR_CUDA_COLUMN_THREADS = 128,
    HR_CUDA_TOPK_THREADS = 256,
    HR_CUDA_CONTRACT_THREADS = 256,
    HR_CUDA_CONTRACT_TILE = 64
};

/* ---- the kernels of a stage: launches_cuda.c ---- */

/* It is part of a kernel for a whole region; NULL = it has kernels of its own. */
static inline const hr_cuda_attention *hr_cuda_attention_of(const hr_stage *stage) {
    return stage->schedule->kind == HR_SCHEDULE_CUDA_ATTENTION ? stage->schedule->attention : NULL;
}

/* It is one of five products of attention's gradients; NULL = it is not. */
static inline const hr_cuda_backward *hr_cuda_backward_of(const hr_stage *stage) {
    return stage->schedule->kind == HR_SCHEDULE_CUDA_BACKWARD ? stage->schedule->backward : NULL;
}

/* It has no kernel of its own. */
static inline bool hr_cuda_is_joined(const hr_stage *stage) {
    return hr_cuda_attention_of(stage) || hr_cuda_backward_of(stage);
}

static inline bool hr_cuda_is_product(const hr_stage *stage) {
    return stage->shape == HR_SHAPE_CONTRACT && !hr_cuda_is_joined(stage);
}

/* The launches of a plan, in order; those of one stage, behind `work_bytes`. */
hr_status hr_cuda_launches(const hr_plan *plan, const int64_t *extents, hr_launch *out, int max, int *count);
hr_status hr_cuda_stage_launches(const hr_plan *plan, const int64_t *extents, int stage, int64_t work_bytes,
                                 hr_launch *out, int max, int *count);
/* Whether launches of other extents may use what was made for `made`. */
bool hr_cuda_serves(const hr_plan *plan, const int64_t *made, const int64_t *extents);
/* Bytes of scratch memory; of these what stages use one after the other. */
hr_status hr_cuda_scratch(const hr_plan *plan, const int64_t *extents, int64_t *out);
hr_status hr_cuda_work_bytes(const hr_plan *plan, const int64_t *extents, int64_t *most);
/* The arrays whose beginning the kernels ask for. */
void hr_cuda_aligned(const hr_plan *plan, hr_tensor_set *out);

/* ---- how many blocks: launch_sizes.c ---- */

/* ceil(total / run), at least `least` and at most `limit`, times `slices` */
typedef struct hr_launch_shape {
    int64_t run, least, limit, slices;
    bool cluster; /* the slices are one */
} hr_launch_shape;

typedef struct hr_stage_kernels {
    bool begin, end; /* the stage has these */
} hr_stage_kernels;

hr_stage_kernels hr_stage_kernels_of(const hr_plan *plan, const hr_stage *stage,
                                     const hr_cuda_choice *choice);
/* Of what blocks share out. */
hr_launch_shape hr_cuda_shape_of(const hr_cuda_choice *choice);
const hr_size *hr_cuda_total_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage,
                                  const hr_cuda_choice *choice);
/* The most of that which its code, made for fewer, holds for. */
int64_t hr_cuda_total_most(const hr_cuda_choice *choice);
/* What the kernel before a scatter clears, and how. */
const hr_size *hr_cuda_cleared_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
hr_launch_shape hr_cuda_clear_shape(const hr_plan *plan);
/* Blocks of the kernel that ends a stage, and columns of each. */
int64_t hr_cuda_end_blocks(const hr_cuda_choice *choice);
int hr_cuda_end_columns(const hr_cuda_choice *choice);
/* Groups of it are read or written in pieces of 16 bytes where it begins at whole 16 bytes. */
bool hr_cuda_may_be_aligned(const hr_plan *plan, int tensor);

/* Of a plan for any extents: the one statement of a stage; the indices of its results, and those that it
 * reduces over. */
typedef struct hr_general_indices {
    int result_count, reduced_count;
    int result[2 * HR_AXES_MAX], reduced[2 * HR_AXES_MAX];
} hr_general_indices;

const hr_step *hr_cuda_general_step(const hr_stage *stage);
hr_general_indices hr_cuda_general_indices(const hr_plan *plan, const hr_stage *stage);
/* It clears what is added into, before its work. */
bool hr_cuda_general_begins(const hr_plan *plan, const hr_stage *stage);
/* What its blocks share out: a result for each block where it sums, else one for each thread. */
bool hr_cuda_general_sums(const hr_stage *stage);
const hr_size *hr_cuda_general_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
hr_launch_shape hr_cuda_general_shape(const hr_plan *plan, const hr_stage *stage);

/* Of a stage whose rows go in order: a scan goes along the last index of what is written. */
bool hr_cuda_scans_along(const hr_function *function, const hr_stage *stage);
const hr_size *hr_cuda_ordered_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
hr_launch_shape hr_cuda_ordered_shape(const hr_plan *plan, const hr_stage *stage);
int hr_cuda_ordered_threads(const hr_plan *plan, const hr_stage *stage);
/* Blocks that share a row, each with a part of it; more than one: a kernel before it finds what parts come
 * to. */
int hr_cuda_ordered_parts(const hr_plan *plan, const hr_stage *stage);
/* Tasks of a block. */
int hr_cuda_ordered_run(const hr_plan *plan, const hr_stage *stage);
/* How many rows its memory is for. */
int64_t hr_cuda_ordered_most(const hr_plan *plan, const hr_stage *stage);

/* Blocks of a plain product. */
const hr_size *hr_cuda_contract_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
/* The most elements of a piece of a list of arrays. */
int64_t hr_cuda_piece(const hr_plan *plan);

#endif
