/* Which values a whole-number expression can take at given extents. */
#ifndef HR_PLAN_WHOLE_RANGE_H
#define HR_PLAN_WHOLE_RANGE_H

#include "plan/graph.h"

typedef struct hr_whole_range {
    int64_t low, high;
} hr_whole_range;

/* Of indices, extents, literals and what is computed from them; false where they are not known, or where any
 * of them may exceed 2^30, so that lanes of 32 bits hold them all. */
bool hr_whole_range_of(const hr_function *function, const int64_t *extents, const hr_expr *expr,
                       hr_whole_range *out);

/* Whether 32 bits of a lane hold an i64 value, or it may stand beside such lanes. */
bool hr_whole_fits_lanes(const hr_function *function, const int64_t *extents, const hr_expr *expr);

#endif
