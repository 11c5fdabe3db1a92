/* A stage whose rows go in order, as CUDA: a scan, or the largest elements. In: a stage. Out: text. It
 * is for any extents. */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_ORDER_H
#define HR_EMIT_CUDA_STAGE_CUDA_ORDER_H

#include "emit/emit.h"
#include "emit/printer.h"

hr_status hr_emit_ordered_cuda(hr_printer *printer, int number);

#endif
