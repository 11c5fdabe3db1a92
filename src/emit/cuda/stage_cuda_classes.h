/* Classes of tiles that a mask leaves, as CUDA. In: what is known of a mask. Out: text: the struct that
 * templates/cuda/attention_classes.h asks for.
 */
#ifndef HR_EMIT_CUDA_STAGE_CUDA_CLASSES_H
#define HR_EMIT_CUDA_STAGE_CUDA_CLASSES_H

#include "emit/expression.h"
#include "plan/mask_class.h"

/* struct stage_N_classes, and the functions that it calls. */
void hr_cuda_print_attention_classes(hr_printer *printer, int number, const hr_contract *scores,
                                     const hr_expr *condition, const hr_mask_classes *classes);

#endif
