/* A stage as a CUDA kernel that holds at any extents: none of them is a number in its text, and nothing is
 * chosen by them. It is what emitted source falls back on, beside a fast path. In: a stage of a plan whose
 * stages are a statement each. Out: text. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_GENERAL_H
#define HR_EMIT_CUDA_STAGE_CUDA_GENERAL_H

#include "emit/expression.h"

enum { HR_CUDA_GENERAL_THREADS = 256 };

/* stage_N, and stage_N_begin where it clears what is added into. */
hr_status hr_emit_general_cuda(hr_printer *printer, int number);
bool hr_cuda_general_begins(const hr_plan *plan, const hr_stage *stage);
/* What its blocks share out: a result for each block where `sums`, else one for each thread. */
const hr_size *hr_cuda_general_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
bool hr_cuda_general_sums(const hr_stage *stage);

#endif
