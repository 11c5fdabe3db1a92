/* How the results of a pass leave: as they are, rounded, two vectors of bf16 as one; past the caches or not.
 *
 * In: a step whose values are there. Out: lines that store them.
 */
#ifndef HR_EMIT_C_LANE_STORE_H
#define HR_EMIT_C_LANE_STORE_H

#include "emit/c/lane_pass.h"

/* Prints where the step's results go, without the lane: the pointer q<id>. */
void hr_lane_print_target(hr_printer *printer, const hr_lane_step *step);
/* Lanes beside each other go to elements beside each other. */
bool hr_lane_stores_in_row(hr_printer *printer, const hr_lane_step *step);
/* Some step's vectors leave in pairs. */
bool hr_lane_has_pairs(const hr_printer *printer, const hr_lane_pass *pass);
/* A bf16 element of an input that is stored as it is; all steps are such. */
bool hr_lane_is_move(const hr_printer *printer, const hr_lane_pass *pass, const hr_lane_step *step);
bool hr_lane_is_all_moves(const hr_printer *printer, const hr_lane_pass *pass);

/* Whether denormals count in what a pair is rounded from, as they do not in values that lose them before, and
 * whether all bits of NaN do: two arguments. */
const char *hr_lane_rounded_kinds(hr_printer *printer, const hr_lane_step *step);
/* Those of a step of several vectors, w<id>[way], that leave in pairs; `rounded` does as words, b<id>[]. */
void hr_lane_print_pairs(hr_printer *printer, const hr_lane_pass *pass, const hr_lane_step *rounded);
/* The lanes of one vector, or one lane, whose text is `value`. */
void hr_lane_print_store(hr_printer *printer, const hr_lane_step *step, const char *value);

/* The lanes at an end of the row of pass->meeting, from `i` on, go where the row beside it is put together,
 * and what is whole of it leaves; not where the array is so unaligned that no row ever begins with a line. */
void hr_lane_end_begin(hr_printer *printer, const hr_lane_pass *pass);
void hr_lane_end_leave(hr_printer *printer, const hr_lane_pass *pass);
/* The same for the end behind the lanes that have left already. */
void hr_lane_tail_begin(hr_printer *printer, const hr_lane_pass *pass);
void hr_lane_tail_leave(hr_printer *printer, const hr_lane_pass *pass);

/* ---- stores past the caches: where they are aligned ---- */

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

#endif
