/* How bf16 goes through a pass. Two vectors of it are a line. They are narrowed by one instruction, and
 * widened by one operation each where they may be walked as even and odd lanes: first the even elements of
 * both, then the odd ones.
 *
 * In: a pass. Out: what is so in it; nothing is printed.
 */
#ifndef HR_EMIT_C_LANE_HALVES_H
#define HR_EMIT_C_LANE_HALVES_H

#include "emit/c/lane_pass.h"

/* Two vectors of the step's values leave as one: the instruction that narrows two costs no more than the one
 * for one. */
bool hr_lane_is_paired(const hr_printer *printer, const hr_lane_pass *pass, const hr_lane_step *step);
/* A step whose value leaves as words of bf16 and is needed, rounded like them, by the pass itself:
 * `rounding`. NULL where there is none. */
const hr_lane_step *hr_lane_rounded(hr_printer *printer, const hr_lane_pass *pass, const hr_expr **rounding);
/* Whether the pass may walk pairs as even and odd lanes. */
bool hr_lane_is_even_odd(hr_printer *printer, const hr_lane_pass *pass, const hr_expr *rounding);
/* Notes the value that the pass stashes as printer->stash_even_odd where its row may stand as even and odd
 * lanes. The only pass that needs it walks them so, too. */
void hr_lane_stash_even_odd(hr_printer *printer, const hr_lane_pass *pass);
/* Whether the pass needs the value that stands as even and odd lanes. */
bool hr_lane_uses_even_odd(hr_printer *printer, const hr_lane_pass *pass);
/* Whether a NaN among the step's values may have bits below those that bf16 keeps. */
bool hr_lane_has_long_nan(hr_printer *printer, const hr_lane_step *step);
/* Whether one vector of a pair is stored before the other is read, so that they are not read as one. */
bool hr_lane_stores_between(const hr_printer *printer, const hr_lane_pass *pass);

#endif
