/* A step of a lane loop: the body for one vector of lanes, or for several side by side, and blocks of steps.
 *
 * In: a pass whose pointers and task-level lines are printed. Out: lines for the lanes from `i` on.
 */
#ifndef HR_EMIT_C_LANE_STEP_H
#define HR_EMIT_C_LANE_STEP_H

#include "emit/c/lane_pass.h"

typedef void (*hr_lane_body)(hr_printer *printer, const hr_lane_pass *pass);

/* The body for a lane or a vector of them; `in_ways`: for the vector `way` of a step of several, without what
 * the step does once. */
void hr_lane_print_body(hr_printer *printer, const hr_lane_pass *pass, bool in_ways);
/* The body for one vector. */
void hr_lane_print_vector(hr_printer *printer, const hr_lane_pass *pass);
/* A step of several vectors, or the part of one that `unit` is; moves `i`. */
void hr_lane_print_step(hr_printer *printer, const hr_lane_pass *pass);
/* Several steps, at whose end leaves what waited; see lane_store.h. */
void hr_lane_print_block(hr_printer *printer, const hr_lane_pass *pass, const char *last);
/* Prints `body` for the `vectors` vectors at `i`; where the lane's index is compared with one place, v ==
 * target[t], once for the vectors that hold the place and once, without the comparison, for all others. */
void hr_lane_near_and_far(hr_printer *printer, const hr_lane_pass *pass, int vectors, hr_lane_body body);
/* Prefetches what the lanes of `vectors` vectors will need later, a cache line at a time. */
void hr_lane_prefetches(hr_printer *printer, const hr_lane_pass *pass, int vectors);

#endif
