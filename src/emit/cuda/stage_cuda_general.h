/* A stage as a CUDA kernel that holds at any extents: none of them is a number in its text, and nothing is
 * chosen by them. It is what emitted source falls back on, beside a fast path. In: a stage of a plan whose
 * stages are a statement each. Out: text. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_GENERAL_H
#define HR_EMIT_CUDA_STAGE_CUDA_GENERAL_H

#include "emit/expression.h"

/* stage_N, and stage_N_begin where it clears what is added into. */
hr_status hr_emit_general_cuda(hr_printer *printer, int number);

#endif
