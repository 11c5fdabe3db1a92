/* What threads added up apart, in their areas of scratch memory (scratch_c.h), is combined and stored.
 * Always in the same order: results do not depend on timing. */
#ifndef HR_EMIT_C_STAGE_END_H
#define HR_EMIT_C_STAGE_END_H

#include "emit/expression.h"

/* Prints the body of stage_N_end; printer->lane is -1. */
void hr_emit_stage_end(hr_printer *printer, const hr_stage *stage);

#endif
