/* The stage of a matrix product as a CUDA kernel: a plain tiled product in shared memory, whose operands are
 * evaluated as they are read and whose sums go through the stage's steps. In: a stage. Out: text. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_CONTRACT_H
#define HR_EMIT_CUDA_STAGE_CUDA_CONTRACT_H

#include "emit/expression.h"

hr_status hr_emit_contract_cuda(hr_printer *printer, int number);
/* `sum`, of one product or, an array, of all that are stacked: a parameter's declaration. */
const char *hr_cuda_sums_parameter(hr_printer *printer, const hr_contract *contract, const char *type);
/* For a step of the epilogue the products' elements are the finished sums, `sum` or the elements of an array
 * of stacked ones; not any longer. */
void hr_cuda_name_sums(hr_printer *printer, const hr_contract *contract, const hr_step *step);
void hr_cuda_forget_sums(hr_printer *printer, const hr_contract *contract);
/* The body of a function of (batch, m, n, sum): what the stage makes of a finished sum, and stores. */
void hr_cuda_print_contract_epilogue(hr_printer *printer, const hr_stage *stage);
/* stage_N_plain: what gemm_plain() of the prelude asks for, by functions that evaluate the operands. It uses
 * stage_N_store(). */
void hr_cuda_print_plain_product(hr_printer *printer, int number);

#endif
