/* Results that wait: of a map's streamed results all but the first are kept for a block of steps and leave
 * when those of the first have left. Streams into the same line of two pages at a time share what combines
 * their stores on some cores, so that one waits until the other's line is in memory.
 *
 * In: a pass. Out: which of its steps wait, and text.
 */
#ifndef HR_EMIT_LANE_LATE_H
#define HR_EMIT_LANE_LATE_H

#include "emit/lane_pass.h"

/* Whether results of the pass are to wait where its loop is one of whole steps. */
bool hr_lane_has_late(const hr_printer *printer, const hr_lane_pass *pass);

/* Begins a block of the lanes before `last`: from `block` to `until`. Returns the steps, of which some
 * wait. */
const hr_lane_step *hr_lane_begin_block(hr_printer *printer, const hr_lane_pass *pass, const char *last);
/* All that waited leaves. */
void hr_lane_end_block(hr_printer *printer, const hr_lane_pass *pass);

/* Where the step's results of the lanes from `i` on go. */
const char *hr_lane_target(hr_printer *printer, const hr_lane_step *step);

#endif
