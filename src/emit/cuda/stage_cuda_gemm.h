/* The stage of a matrix product on the tensor cores. In: a stage and how it lies on them. Out: text: the
 * functions and numbers that a main loop of src/emit/templates/cuda/ asks for, and a kernel that calls it. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_GEMM_H
#define HR_EMIT_CUDA_STAGE_CUDA_GEMM_H

#include "emit/cuda/tensor_core.h"
#include "emit/expression.h"
#include "schedule/cuda/choose_gemm.h"

/* `siblings`: the same products by HR_GEMM_AMPERE; both one a stage. The products of the stage's walk come
 * with it. */
hr_status hr_emit_gemm_cuda(hr_printer *printer, int number, const hr_cuda_gemm *gemms,
                            const hr_cuda_gemm *siblings);
/* By HR_GEMM_THIN: stage_cuda_thin.c. */
hr_status hr_emit_thin_cuda(hr_printer *printer, int number, const hr_cuda_gemm *gemm);
/* The instruction that multiplies: its function stands in front of the stages. */
hr_tensor_core hr_cuda_gemm_product(const hr_cuda_gemm *gemm);
/* Tiles of the stage, as a C expression over extents. */
const char *hr_cuda_gemm_size(hr_printer *printer, const hr_stage *stage, const hr_cuda_gemm *gemm);

#endif
