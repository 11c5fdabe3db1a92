/* What the three files that make CUDA source of a plan share: emit_cuda.c, which prints it, launches_cuda.c,
 * which says what one execution launches, and launcher_cuda.c, which prints the same as C++ to paste. */
#ifndef HR_EMIT_CUDA_EMIT_CUDA_PARTS_H
#define HR_EMIT_CUDA_EMIT_CUDA_PARTS_H

#include "emit/cuda/stage_cuda.h"
#include "emit/cuda/stage_cuda_gemm.h"
#include "emit/emit.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/cuda/choose_backward.h"

/* A local begins at a multiple of 256 bytes, behind what stages use one after the other. */
enum { HR_CUDA_LOCAL_MORE = 255, HR_CUDA_LOCAL_UNIT = 256 };

/* One plan as code: all that is to paste, or a part of it. */
typedef struct hr_cuda_emitter {
    const hr_plan *plan;
    const hr_function *function;
    const int64_t *extents;
    const hr_plan *fast; /* of the part that this one stands in for; NULL = it is none */
    hr_printer printer;
    hr_printer *p;
    int declared;                   /* parameters and results */
    hr_cuda_gemm *gemms, *siblings; /* of the stages that are products */
    int64_t work_bytes;
} hr_cuda_emitter;

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

/* ---- emit_cuda.c ---- */

/* Bytes of a tensor in the scratch memory, as C. */
const char *hr_cuda_local_size(hr_cuda_emitter *emitter, int tensor);

/* ---- launches_cuda.c ---- */

/* ceil(total / run), at least `least` and at most `limit`, times `slices` */
typedef struct hr_launch_shape {
    int64_t run, least, limit, slices;
    bool cluster; /* the slices are one */
} hr_launch_shape;

hr_launch_shape hr_cuda_shape_of(const hr_cuda_choice *choice);
/* Of a kernel that clears, and of a stage of a general plan. */
hr_launch_shape hr_cuda_clear_shape(const hr_plan *plan);
hr_launch_shape hr_cuda_general_shape(const hr_plan *plan, const hr_stage *stage);
hr_launch_shape hr_cuda_ordered_shape(const hr_plan *plan, const hr_stage *stage);
/* Blocks of the kernel that ends a stage. */
int64_t hr_cuda_end_blocks(const hr_cuda_choice *choice);
/* What the kernel before a scatter clears, and what blocks share out. */
const hr_size *hr_cuda_cleared_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
const hr_size *hr_cuda_total_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage,
                                  const hr_cuda_choice *choice);
/* The most of that which its code, made for fewer, holds for. */
int64_t hr_cuda_total_most(const hr_cuda_choice *choice);
/* Of the scratch memory, what stages use one after the other. */
hr_status hr_cuda_work_bytes(const hr_plan *plan, const int64_t *extents, int64_t *most);
/* The launches of one stage, behind `work_bytes`. */
hr_status hr_cuda_stage_launches(const hr_plan *plan, const int64_t *extents, int stage, int64_t work_bytes,
                                 hr_launch *out, int max, int *count);

/* ---- launcher_cuda.c ---- */

/* Some kernel copies by tensor maps, which are made for the extents of this source. */
bool hr_cuda_has_maps(const hr_cuda_emitter *emitter);
/* It does, or some product leaves parts in scratch memory: the source is for these extents alone. */
bool hr_cuda_is_for_extents(const hr_cuda_emitter *emitter);
/* scratch_bytes(), holds() and launch() of a part, behind its kernels. */
hr_status hr_cuda_print_launcher(hr_cuda_emitter *emitter);
/* "void *stream, int64_t n_N, ..." and "stream, n_N, ..."; of extents alone. */
void hr_cuda_append_parameters(hr_cuda_emitter *emitter, hr_text *out);
void hr_cuda_append_arguments(hr_cuda_emitter *emitter, hr_text *out);
const char *hr_cuda_extents_declared(hr_cuda_emitter *emitter);
const char *hr_cuda_extents_passed(hr_cuda_emitter *emitter);

#endif
