/* A maximum that is estimated from the beginning of a row: see plan/estimate.c.
 *
 * In: a stage. Out: text. `exact` is in scope: whether the row's own maximum is asked for.
 */
#ifndef HR_EMIT_C_STAGE_ESTIMATE_H
#define HR_EMIT_C_STAGE_ESTIMATE_H

#include "emit/c/stage_parts.h"

/* Prints the maximum over the row's first lanes, or over all of it. */
void hr_stage_estimate(hr_stage_printer *s);
/* The condition, after the first pass, that it must be done again with the row's own maximum. */
const char *hr_stage_unsettled(hr_stage_printer *s);

#endif
