/* The gradients of attention on the tensor cores. In: five products and how they lie on them. Out: text: the
 * functions and numbers that src/emit/templates/cuda/attention_backward.h asks for, and kernels that call it.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_BACKWARD_H
#define HR_EMIT_CUDA_STAGE_CUDA_BACKWARD_H

#include "emit/cuda/tensor_core.h"
#include "emit/expression.h"
#include "schedule/cuda/choose_backward.h"

/* Kernels stage_N, whose blocks own queries, and stage_N_keys, and of each one for arrays that begin
 * anywhere, stage_N_unaligned and stage_N_keys_unaligned; N: the last of the five stages. Or as one,
 * stage_N_keys alone, between stage_N_keys_begin and stage_N_keys_end. */
hr_status hr_emit_backward_cuda(hr_printer *printer, const hr_cuda_backward *backward);
/* The instructions that multiply: their functions stand in front of the stages. */
enum { HR_BACKWARD_PRODUCT_KINDS = 4 };
void hr_cuda_backward_products(const hr_cuda_backward *backward, hr_tensor_core *out);

#endif
