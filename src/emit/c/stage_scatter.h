/* `+=` into places that depend on data. In: a stage of one such step. Out: text.
 *
 * Each place belongs to one thread, which adds to it in the order of the tasks. Where whole rows are added, a
 * thread first puts its tasks in the order of the rows that they add to, so that each row comes from memory
 * and goes back once, and prefetches the rows of the task to come while it works on one.
 */
#ifndef HR_EMIT_C_STAGE_SCATTER_H
#define HR_EMIT_C_STAGE_SCATTER_H

#include "emit/c/stage_parts.h"

/* Bytes of scratch memory for totals of places: see schedule/schedule.h. */
const hr_size *hr_scatter_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int threads);
/* The work of one thread. */
void hr_stage_scatter(hr_stage_printer *s);

#endif
