/* Row stages of short rows: a few rows go through each pass before the first of them goes through the next,
 * so that a core has the lanes of other rows to do while what is between two passes is computed. Results of
 * ragged rows are put together in cache.
 */
#ifndef HR_EMIT_C_STAGE_JAM_H
#define HR_EMIT_C_STAGE_JAM_H

#include "emit/c/stage_parts.h"

/* The loop over tasks, in the body of the stage's function. */
void hr_stage_jam_loop(hr_stage_printer *s);

#endif
