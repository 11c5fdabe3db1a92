/* Sums over groups of whole-number dots. In: a stage with dots. Out: the lines of a task. */
#ifndef HR_EMIT_C_STAGE_DOTS_H
#define HR_EMIT_C_STAGE_DOTS_H

#include "emit/c/stage_parts.h"

void hr_stage_dots(hr_stage_printer *printer);

#endif
