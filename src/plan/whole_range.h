/* Which values a whole-number expression can take at given extents. */
#ifndef HR_PLAN_WHOLE_RANGE_H
#define HR_PLAN_WHOLE_RANGE_H

#include "ir/graph.h"

typedef struct hr_whole_range {
    int64_t low, high;
} hr_whole_range;

/* Of indices, extents, literals, elements of 8 bits and what is computed from them; false where they are not
 * known, or where any of them may exceed 2^30, so that lanes of 32 bits hold them all. `extents`: NULL = of
 * those of literal size alone. */
bool hr_whole_range_of(const hr_function *function, const int64_t *extents, const hr_expr *expr,
                       hr_whole_range *out);

/* Whether 32 bits of a lane hold an i64 value, or it may stand beside such lanes. */
bool hr_whole_fits_lanes(const hr_function *function, const int64_t *extents, const hr_expr *expr);

/* A number from 0 to HR_SMALL - 1, whatever the extents are: there are `count` values of what follows from it
 * alone. */
enum { HR_SMALL = 16 };
bool hr_whole_is_small(const hr_function *function, const hr_expr *expr, int *count);
/* An element whose last subscript is one, inside its axis: `code[w % 16]`. */
bool hr_element_is_small(const hr_function *function, const hr_expr *element);

#endif
