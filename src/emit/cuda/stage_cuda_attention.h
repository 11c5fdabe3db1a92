/* Attention on the tensor cores. In: a region and how it lies on them. Out: text: the functions and numbers
 * that attention_hopper.h or attention_split.h of src/emit/templates/cuda asks for, and kernels that call it.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_ATTENTION_H
#define HR_EMIT_CUDA_STAGE_CUDA_ATTENTION_H

#include "emit/cuda/tensor_core.h"
#include "emit/expression.h"
#include "schedule/cuda/choose_attention.h"

/* Kernels stage_N, which may take maps, stage_N_unaligned, which takes arrays that begin anywhere, and, where
 * keys are in parts, stage_N_end, which adds these up; N: the region's first stage. */
hr_status hr_emit_attention_cuda(hr_printer *printer, const hr_cuda_attention *attention);
/* The instructions that multiply: their functions stand in front of the stages. */
enum { HR_ATTENTION_PRODUCTS = 2 };
void hr_cuda_attention_products(const hr_cuda_attention *attention, hr_tensor_core *out);

#endif
