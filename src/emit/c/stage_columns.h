/* Sums of columns: beside the passes of a group of tasks, alone, or a strip of columns at a time, and stages
 * that go through such strips together. In: a stage. Out: text.
 */
#ifndef HR_EMIT_C_STAGE_COLUMNS_H
#define HR_EMIT_C_STAGE_COLUMNS_H

#include "emit/c/stage_parts.h"

/* Tasks whose sums are added up together: with 4 pages read side by side, reading alone is at its best. */
enum { HR_COLUMN_GROUP = 4 };

/* The step's sums in the thread's area begin as what changes nothing; `columns`: how many. */
void hr_stage_column_start(hr_stage_printer *s, int step, const char *columns);
/* The totals of the step's sums, where it has such, in a thread's area that begins at `area`. */
void hr_stage_column_totals(hr_stage_printer *s, int step, const char *area);
/* Chains of the stage's column sums, in the function that has the sums and their totals: before the loop over
 * tasks; after so many `tasks` of it more, as C, of so many `columns` (NULL = a row's); after the loop, where
 * the stage's end asks for them. Nothing where the stage has no such sums. */
void hr_stage_chains_begin(hr_stage_printer *s);
void hr_stage_chains_go_on(hr_stage_printer *s, const char *tasks, const char *columns);
void hr_stage_chains_end(hr_stage_printer *s);
/* The sums over the tasks from `group` on: HR_COLUMN_GROUP of them, or those before `last`. */
void hr_stage_columns(hr_stage_printer *s, const char *last);
/* All tasks of a stage of nothing else: threads share the tasks, or the columns where the stage has strips.
 */
void hr_stage_column_share(hr_stage_printer *s);
void hr_stage_column_strips(hr_stage_printer *s);

/* ---- stages that go together ---- */

/* stage_N_strip, one strip's part of the stage. */
void hr_stage_strip_function(hr_stage_printer *s);
/* The body of the function of the run's last stage: all stages, strip by strip. `s` is at its first. */
void hr_stage_run_loop(hr_stage_printer *s);

#endif
