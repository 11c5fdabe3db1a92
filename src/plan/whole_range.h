/* Which values a whole-number expression can take at given extents. */
#ifndef HR_PLAN_WHOLE_RANGE_H
#define HR_PLAN_WHOLE_RANGE_H

#include "base/interval.h"
#include "ir/graph.h"

/* Of indices, extents, literals, elements of 8 bits and what is computed from them; not known where a part is
 * none of these, or may reach 2^30. `extents`: NULL = of those of literal size alone. */
interval hr_whole_range_of(const hr_function *function, const int64_t *extents, const hr_expr *expr);

/* How the interval of an operation follows from those of its arguments (of WHERE the last two), and what
 * emitted text calls that; NULL where it does not. NEG has one argument, and interval_neg(). */
typedef struct hr_interval_operation {
    const char *name;
    interval (*value)(interval a, interval b);
} hr_interval_operation;
hr_interval_operation hr_interval_operation_of(hr_op op);
interval hr_interval_of_dtype(hr_dtype dtype);

/* Whether 32 bits of a lane hold an i64 value at these extents, or it may stand beside such lanes. Where they
 * do, that is assumed from now on: plan/assumption.h. */
bool hr_whole_fits_lanes(hr_graph *graph, const int64_t *extents, const hr_expr *expr);

/* A number from 0 to HR_SMALL - 1, whatever the extents are: there are `count` values of what follows from it
 * alone. */
enum { HR_SMALL = 16 };
bool hr_whole_is_small(const hr_function *function, const hr_expr *expr, int *count);
/* An element whose last subscript is one, inside its axis: `code[w % 16]`. */
bool hr_element_is_small(const hr_function *function, const hr_expr *element);

#endif
