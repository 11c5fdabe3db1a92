/* Sums over neighbours of a product's results, as text. In: a stage. Out: for each what gemm_partials.h of
 * src/emit/templates/cuda/ asks for. */
#ifndef HR_EMIT_CUDA_GEMM_PARTIAL_SUMS_H
#define HR_EMIT_CUDA_GEMM_PARTIAL_SUMS_H

#include "emit/cuda/gemm_side.h"

/* "e[3] = VALUE;": the values that are summed, from e[first] on. Sums of products have names. */
void hr_gemm_print_partial_values(gemm_printer *g, int first);
/* struct stage_N_partial_I, and stage_N_partial_values(). `of_sum`: how sums come to it. */
void hr_gemm_print_partials(gemm_printer *g, const char *of_sum);
/* Members of the kernel's parameters. */
void hr_gemm_print_partial_members(gemm_printer *g);

#endif
