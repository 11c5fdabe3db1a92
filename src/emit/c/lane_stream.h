/* Stores of a pass that go past the caches: where they are aligned, and which wait for the end of a block.
 *
 * In: a pass. Out: text.
 */
#ifndef HR_EMIT_C_LANE_STREAM_H
#define HR_EMIT_C_LANE_STREAM_H

#include "emit/c/lane_pass.h"

/* ---- alignment ---- */

/* How many lanes from the row's beginning its first streamed result has to the next aligned vector: "0" where
 * nothing is streamed. Prints the lines that it takes. */
const char *hr_lane_shift(hr_printer *printer, const hr_lane_pass *pass);

/* What of the pass leaves past the caches first; NULL = nothing. */
const hr_lane_step *hr_lane_first_stream(const hr_lane_pass *pass);
/* Whether all that the pass streams, one result at least, is aligned at the lane `i`, as C. Prints the lines
 * that it takes. */
const char *hr_lane_aligned(hr_printer *printer, const hr_lane_pass *pass);
/* " && ..." for each step that streams: its results are aligned from `lane` on, NULL: from the array's
 * beginning on. */
const char *hr_lane_all_aligned(hr_printer *printer, const hr_lane_pass *pass, const char *lane);
/* The lanes before the first aligned vector are walked by themselves, up to `begin`. */
bool hr_lane_goes_by_head(const hr_lane_pass *pass);
/* How many those are from the row's lane 0 ("") or " + LANE" on. */
const char *hr_lane_stream_head(hr_printer *printer, const hr_lane_pass *pass, const char *lane);
/* Prints `begin`. */
void hr_lane_print_begin(hr_printer *printer, const hr_lane_pass *pass, const char *last);
/* Prints aligned_<id> for each that streams. `last`: of a block, else NULL. */
void hr_lane_print_alignments(hr_printer *printer, const hr_lane_pass *pass, const char *last);
/* The limits of a part of a row, moved to where its streamed results are aligned. */
void hr_lane_print_shifted(hr_printer *printer, const hr_lane_pass *pass, const char **first,
                           const char **last);

/* ---- blocks of a map's steps where it has several results and a vector is less than a line ----
 *
 * Of the streamed results all but the first wait in a buffer until the block's end: streams into the same
 * line of two pages at a time share what combines their stores on some cores, so that one waits until the
 * other's line is in memory. A function that is done for several vectors side by side is done for the whole
 * block before all else: a core that sees few operations ahead finds more of them ready in two short loops
 * than in a long one.
 */

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
