/* What kernels of attention read by tiles: queries, keys, values and their like. In: an element of the text
 * and how its rows lie. Out: text: a function for one element and a struct that brings a box. */
#ifndef HR_EMIT_CUDA_ATTENTION_SIDE_H
#define HR_EMIT_CUDA_ATTENTION_SIDE_H

#include "emit/cuda/tensor_core.h"
#include "emit/expression.h"
#include "schedule/cuda/gemm_view.h"

/* `value` is an element of `dtype`, which has 16 bits, or of 8 bits that widen to it; a row is a place of
 * `rows`, in it `columns` run. `group` neighbours along the last index of batches share an element. */
typedef struct hr_attention_side {
    const hr_expr *value;
    hr_dtype dtype;
    hr_gemm_indices batch, rows, columns;
    const hr_gemm_view *view; /* NULL = no boxes are brought */
    int64_t group;
    hr_gemm_load load;
} hr_attention_side;

/* struct stage_N_NAME_side with element(); with a view load(), with chunks place(), bring() and widened().
 * Members say which there are (boxes, chunks), whether widened() is more than a copy (widens), and whether
 * data say where rows are (looks_up). */
void hr_cuda_print_attention_side(hr_printer *printer, int number, const char *name,
                                  const hr_attention_side *side);
/* The end of a function that says whether a key counts for a query; NULL = all do. */
void hr_attention_print_mask(hr_printer *printer, const hr_expr *mask);
/* A warpgroup's products: of `scores` columns, whose operands both lie along k in shared memory; then of each
 * of `widths`, whose left operand is in registers and whose right one is of rows of k. */
void hr_attention_products(hr_dtype dtype, int scores, const int *widths, int count, hr_tensor_core *out);
/* A member of a kernel's parameters: the product of that name into `columns` sums of a warpgroup. */
void hr_attention_print_product(hr_printer *printer, const char *name, const char *columns,
                                const hr_tensor_core *product);
/* The product of a warp by mma.sync, and the member of a kernel's parameters that calls it: multiply(d, a,
 * b).
 */
hr_tensor_core hr_attention_warp_product(hr_dtype dtype);
void hr_attention_print_warp_product(hr_printer *printer, hr_dtype dtype);

#endif
