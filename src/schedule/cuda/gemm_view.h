/* A tensor as a product walks it: few axes with strides, which is what a tensor map describes.
 *
 * In: subscripts that are plain indices, and groups of indices that the product runs through as one. Out:
 * sizes and strides of those groups, where memory has them as one.
 */
#ifndef HR_SCHEDULE_CUDA_GEMM_VIEW_H
#define HR_SCHEDULE_CUDA_GEMM_VIEW_H

#include "plan/plan.h"

/* How a tile of an operand comes into shared memory. */
typedef enum hr_gemm_load {
    HR_GEMM_ELEMENTS, /* one by one, whatever they are */
    HR_GEMM_CHUNKS, /* 16 bytes at a time, as they lie in memory, where all arrays begin at whole 16 bytes */
} hr_gemm_load;

enum { HR_GEMM_VIEW_AXES = 4, HR_GEMM_BATCH_AXES = 2 };

/* Axis 0 runs along memory, 1 is the other one; then those of the batch, the innermost first. */
typedef struct hr_gemm_view {
    int tensor;
    int rank;                                                   /* 0 = the copy engine cannot walk it so */
    int64_t size[HR_GEMM_VIEW_AXES], stride[HR_GEMM_VIEW_AXES]; /* elements */
    int64_t offset;                                             /* bytes, of what stands in scratch memory */
    /* HR_LAYOUT_MEMBERS: the subscript that says which; NULL = memory is one. Axes 2 and 3 are steps of 16
     * bytes from the array's address, and 65536 of those. */
    const hr_expr *member;
} hr_gemm_view;

/* Indices that the product runs through as one, row-major. */
typedef struct hr_gemm_indices {
    int count;
    const int *index;
} hr_gemm_indices;

/* `inner` runs along memory. `view->rank` stays 0 where memory has gaps that differ, where strides are no
 * whole 16 bytes, or where a subscript is no plain index. */
hr_status hr_gemm_view_make(const hr_plan *plan, const int64_t *extents, int tensor,
                            hr_expr *const *subscripts, hr_gemm_indices inner, hr_gemm_indices outer,
                            hr_gemm_indices batch, hr_gemm_view *view);

/* The same of a tensor whose first axis are members that lie apart, which `batch`, one index, counts: the
 * copy engine goes through all memory from the array's address on, and the code says where a member begins.
 * `view->member` is the first subscript. */
hr_status hr_gemm_members_view_make(const hr_plan *plan, const int64_t *extents, int tensor,
                                    hr_expr *const *subscripts, hr_gemm_indices inner, hr_gemm_indices outer,
                                    hr_gemm_indices batch, hr_gemm_view *view);

#endif
