/* Blocks of a map's steps where it has several results and a vector is less than a line.
 *
 * Of the streamed results all but the first wait in a buffer until the block's end: streams into the same
 * line of two pages at a time share what combines their stores on some cores, so that one waits until the
 * other's line is in memory. A function that is done for several vectors side by side is done for the whole
 * block before all else: a core that sees few operations ahead finds more of them ready in two short loops
 * than in a long one.
 *
 * In: a pass. Out: which of its steps wait, and text.
 */
#ifndef HR_EMIT_C_LANE_BLOCK_H
#define HR_EMIT_C_LANE_BLOCK_H

#include "emit/c/lane_pass.h"

/* Whether results of the pass wait, where its loop is one of whole steps. */
bool hr_lane_has_late(const hr_printer *printer, const hr_lane_pass *pass);

/* Begins a block of at most so many steps of the lanes before `last`: from `block` to `until`. Returns the
 * steps, of which some may wait. */
const hr_lane_step *hr_lane_begin_block(hr_printer *printer, const hr_lane_pass *pass, const char *last,
                                        int steps);
/* All that waited leaves: of the pass with those steps. */
void hr_lane_end_block(hr_printer *printer, const hr_lane_pass *pass);

/* Where the step's results of the lanes from `i` on go. */
const char *hr_lane_target(hr_printer *printer, const hr_lane_step *step);

#endif
