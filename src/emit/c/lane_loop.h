/* The loops of one pass over a row: outer indices, tiles, vectors of lanes and their tail.
 *
 * In: the steps of a pass whose task-level lines are printed. Out: the loop's text. The stage around it
 * provides the names in hr_lane_step; split stages run from `first` to `last` instead of over the whole lane
 * axis.
 */
#ifndef HR_EMIT_C_LANE_LOOP_H
#define HR_EMIT_C_LANE_LOOP_H

#include "emit/c/lane_pass.h"
#include "emit/c/random_list.h"

/* The body of the loop alone: a part of a step, `unit` vectors of lanes from `i`, which it moves. */
void hr_lane_step_body(hr_printer *printer, const hr_lane_pass *pass);
/* The least such part: a whole line of each stream. */
int hr_lane_unit(hr_printer *printer, const hr_lane_pass *pass);
/* Values that are drawn a tile at a time: HR_OP_RANDOM nodes of vector mode. */
void hr_lane_randoms(hr_printer *printer, const hr_lane_pass *pass, hr_random_list *out);

void hr_lane_loop(hr_printer *printer, const hr_lane_pass *pass);

#endif
