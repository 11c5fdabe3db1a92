/* What the lanes of a pass add up: accumulators of its reductions, in variables or in a struct that stays for
 * the other parts of the row, and sums of columns.
 *
 * In: the steps of a pass and their values. Out: text.
 */
#ifndef HR_EMIT_C_LANE_SUMS_H
#define HR_EMIT_C_LANE_SUMS_H

#include "emit/c/lane_pass.h"

/* The type that vectors reduce values of `type` in: booleans as 0 and 1. */
hr_dtype hr_lane_reduced(hr_dtype type);
/* The accumulators as variables, before the loop. */
void hr_lane_declare(hr_printer *printer, const hr_lane_pass *pass);
/* Adds the lanes' values of a step, where it is a reduction or a column's sum. */
void hr_lane_add(hr_printer *printer, const hr_lane_step *step, const char *value);
/* The reduced value after the loop, as an operand of type `type`. */
const char *hr_lane_result(hr_printer *printer, const hr_lane_pass *pass, const hr_lane_step *step);

/* ---- chains ---- */

/* Whether something of the pass is added up in chains that end in totals. */
bool hr_lane_has_totals(const hr_printer *printer, const hr_lane_pass *pass);
/* Lanes that `ways` accumulators take until their chains are as long as they may be, as C. */
const char *hr_lane_chain(hr_printer *printer, const hr_lane_pass *pass, int ways);
/* Ends the chains: what they have goes to the totals. `from`: where both stand, "" = local variables. */
void hr_lane_fold(hr_printer *printer, const hr_lane_pass *pass, const char *from);

/* The lanes of the pass, as many at a time as chains may have addends; `print_lanes`: those of a pass. Under
 * outer loops, before which `chained` is 0, a chain goes on from one to the next: of each, the lanes of its
 * last step may all go to one accumulator. */
void hr_lane_chains(hr_printer *printer, const hr_lane_pass *pass,
                    void (*print_lanes)(hr_printer *, const hr_lane_pass *));

/* ---- with `state` ---- */

/* The fields of such a struct, and what they hold before the first part. */
void hr_lane_fields(hr_printer *printer, const hr_lane_pass *pass);
void hr_lane_begin(hr_printer *printer, const hr_lane_pass *pass);
/* Writes them back from the place `from`: "" = local variables. */
void hr_lane_save(hr_printer *printer, const hr_lane_pass *pass, const char *from);
/* Names for those that the body in hand uses; `qualifier` is "const " or "". */
void hr_lane_views(hr_printer *printer, const hr_lane_pass *pass, const char *qualifier);

#endif
