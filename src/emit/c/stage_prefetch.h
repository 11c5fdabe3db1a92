/* Memory is prefetched some kilobytes ahead where a stage walks it once, and a row ahead where several passes
 * walk a row: spread over the passes, so that reads and streaming stores mix. Gathered rows are prefetched
 * some kilobytes of rows ahead, a task at least.
 */
#ifndef HR_EMIT_C_STAGE_PREFETCH_H
#define HR_EMIT_C_STAGE_PREFETCH_H

#include "emit/c/stage_parts.h"

/* Sets what the lanes of the pass prefetch. Pass pass_count is the column sums' own loop. */
void hr_stage_prefetch(hr_stage_printer *s, int pass, hr_lane_pass *lanes);
/* Sets how far ahead, before the lanes are printed. Prints it where it takes a division: in the task, before
 * the loop over lanes. */
void hr_stage_prefetch_place(hr_stage_printer *s, int pass, hr_lane_pass *lanes);
/* Prints where a tensor's row is for the task `next`, by its first `count` subscripts: the name of the
 * pointer, or NULL. */
const char *hr_stage_next_row(hr_stage_printer *s, int tensor, hr_expr *const *subscripts, int count);
/* Prints the places of the next task's gathered rows. */
void hr_stage_next_rows(hr_stage_printer *s, int pass, hr_lane_pass *lanes);

#endif
