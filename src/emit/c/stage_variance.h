/* Fallback passes: what a stage prints where a sum of squares about something that is one a row mostly
 * follows from sums of an earlier pass. See hr_variance_sums in plan/plan.h.
 *
 * In: a stage with a fallback_pass. Out: text. In it, squares_I is the sum of squares beside which step I's
 * own pass is mostly skipped, spread_I what follows from it, and `settled` says whether that suffices.
 */
#ifndef HR_EMIT_C_STAGE_VARIANCE_H
#define HR_EMIT_C_STAGE_VARIANCE_H

#include "emit/c/stage_parts.h"

/* The lane steps that `pass` takes on, at most `max`; returns how many. */
int hr_stage_variance_squares(hr_stage_printer *s, int pass, hr_lane_step *out, int max);
/* Prints what such a step has summed, `result`, as a variable; gives its name. */
const char *hr_stage_variance_stash(hr_stage_printer *s, const hr_lane_step *lane, const char *result);
/* Prints what follows for each step of the fallback pass, and `settled`. */
void hr_stage_variance_settle(hr_stage_printer *s);
/* Prints the fallback pass as a whole: its loop where it is not settled. */
void hr_stage_variance_pass(hr_stage_printer *s, const hr_lane_pass *lanes);

#endif
