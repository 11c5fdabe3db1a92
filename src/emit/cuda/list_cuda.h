/* The loop over the pieces of lists of arrays, in CUDA. In: a flat stage. Out: text. */
#ifndef HR_EMIT_CUDA_LIST_CUDA_H
#define HR_EMIT_CUDA_LIST_CUDA_H

#include "emit/cuda/stage_cuda.h"

/* Persistent blocks take piece after piece; each piece by 16-byte accesses where all its arrays are aligned.
 */
void hr_list_cuda_loop(hr_cuda_stage *stage);
/* The table of pieces, as an expression. */
const char *hr_list_cuda_table(hr_printer *printer);

#endif
