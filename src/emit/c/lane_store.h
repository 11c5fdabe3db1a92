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

#endif
