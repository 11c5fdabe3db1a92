/* Results that leave past the caches in whole lines although each is less: what is one a task, as a row's
 * mean, and where a row ends and the next one begins. They are put together in cache first.
 *
 * Why: each would otherwise be stored into a line that memory has to bring first. Stores leave a core in
 * order, so those that come after it wait for that line, and when they are as many as the core holds all of
 * it does: more than a microsecond where memory is busy (docs/facts.md).
 */
#ifndef HR_EMIT_C_STAGE_LINE_H
#define HR_EMIT_C_STAGE_LINE_H

#include "emit/c/stage_parts.h"

/* Which results are such, where a thread goes through its tasks in order: `lines`, `line` and `meeting`. */
void hr_stage_find_lines(hr_stage_printer *stage);
/* Before the thread's tasks from `begin` on, where a task stores what is one, and after the last. */
void hr_stage_lines_begin(hr_stage_printer *stage, const char *begin);
bool hr_stage_line_put(hr_stage_printer *stage, const hr_step *step, const char *value); /* false: is none */
void hr_stage_lines_end(hr_stage_printer *stage);
/* In a pass whose rows are such: says so. */
void hr_stage_lines_join(hr_stage_printer *stage, int pass, hr_lane_pass *lanes);
/* How functions over a row take them as a parameter, and are given them. */
const char *hr_stage_lines_parameter(const hr_stage_printer *stage);
const char *hr_stage_lines_passed(const hr_stage_printer *stage);

#endif
