/* Bodies of lane loops that match one lane with a place: v == target[t].
 *
 * In: a pass, and what prints its body. Out: the body, twice where there is such a match.
 */
#ifndef HR_EMIT_C_LANE_MATCH_H
#define HR_EMIT_C_LANE_MATCH_H

#include "emit/c/lane_pass.h"

typedef void (*hr_lane_body)(hr_printer *printer, const hr_lane_pass *pass);

/* Prints `body` for the `vectors` vectors at `i`; where the lane's index is compared with one place, once for
 * the vectors that hold the place and once, without the comparison, for all others. */
void hr_lane_near_and_far(hr_printer *printer, const hr_lane_pass *pass, int vectors, hr_lane_body body);

#endif
