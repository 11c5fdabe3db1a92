/* Passes that are mostly skipped, or done again: variances that mostly follow from sums of an earlier pass,
 * and maxima that are estimated from the beginning of a row.
 *
 * In: a stage. Out: text.
 */
#ifndef HR_EMIT_C_STAGE_FALLBACK_H
#define HR_EMIT_C_STAGE_FALLBACK_H

#include "emit/c/stage_parts.h"

/* ---- variances: of a stage with a fallback_pass, see hr_variance_sums in plan/plan.h ----
 *
 * In the text, squares_I is the sum of squares beside which step I's own pass is mostly skipped, about_I
 * what follows from it, and `settled` says whether that suffices.
 */

/* The lane steps that `pass` takes on, at most `max`; returns how many. */
int hr_stage_variance_squares(hr_stage_printer *s, int pass, hr_lane_step *out, int max);
/* Prints what such a step has summed, `result`, as a variable; gives its name. */
const char *hr_stage_variance_stash(hr_stage_printer *s, const hr_lane_step *lane, const char *result);
/* Prints what follows for each step of the fallback pass, and `settled`. */
void hr_stage_variance_settle(hr_stage_printer *s);
/* Prints the fallback pass as a whole: its loop where it is not settled. */
void hr_stage_variance_pass(hr_stage_printer *s, const hr_lane_pass *lanes);

/* ---- estimated maxima: schedule/cpu/estimate.c ----
 *
 * `exact` is in scope: whether the row's own maximum is asked for.
 */

/* Prints the maximum over the row's first lanes, or over all of it. */
void hr_stage_estimate(hr_stage_printer *s);
/* The condition, after the first pass, that it must be done again with the row's own maximum. */
const char *hr_stage_unsettled(hr_stage_printer *s);

#endif
