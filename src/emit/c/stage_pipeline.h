/* Row stages whose passes run side by side: while the last pass writes row r, the one before it works on row
 * r + 1 and so on, a block of lanes at a time.
 *
 * Why: memory reads and streaming stores each have a limit below that of both together (docs/facts.md), so a
 * row that is first read and then written leaves one of them idle alternately. Side by side, both run all the
 * time, and arithmetic beside them. It pays where the rows in flight stay in the first-level cache.
 */
#ifndef HR_EMIT_C_STAGE_PIPELINE_H
#define HR_EMIT_C_STAGE_PIPELINE_H

#include "emit/c/stage_parts.h"

/* The functions of the passes, before the stage's own. */
void hr_stage_pipeline_functions(hr_stage_printer *s);

#endif
