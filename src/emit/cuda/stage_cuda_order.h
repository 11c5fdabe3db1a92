/* A stage whose rows go in order, as CUDA: a scan, or the largest elements. In: a stage. Out: text, and how
 * many blocks of how many threads it takes. It is for any extents. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_ORDER_H
#define HR_EMIT_CUDA_STAGE_CUDA_ORDER_H

#include "emit/emit.h"
#include "emit/printer.h"
#include "ir/size.h"

hr_status hr_emit_ordered_cuda(hr_printer *printer, int number);
/* What its blocks share out, how much of it each takes, and its threads. */
const hr_size *hr_cuda_ordered_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage);
int hr_cuda_ordered_run(const hr_plan *plan, const hr_stage *stage);
int hr_cuda_ordered_threads(const hr_plan *plan, const hr_stage *stage);
/* Blocks that share a row, each with a part of it; more than one: a kernel before it finds what parts come
 * to. */
int hr_cuda_ordered_parts(const hr_plan *plan, const hr_stage *stage);
/* How many rows its memory is for. */
int64_t hr_cuda_ordered_most(const hr_plan *plan, const hr_stage *stage);

#endif
