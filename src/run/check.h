/* Whether a computed element may stand for its meaning, and where to look: the check apart from launching. */
#ifndef HR_RUN_CHECK_H
#define HR_RUN_CHECK_H

#include "plan/plan.h"
#include "reference/reference.h"

/* The distance between the meaning of `got`, an element of `dtype` that was computed as `type`, and all that
 * rounds to it. 0 for a correctly rounded element, and where honest arithmetic may give anything; infinite
 * where NaN or infinity stand in only one of the two. Whole numbers that are computed as such: 0 or at least
 * 1. */
double hr_check_excess(hr_dtype type, hr_dtype dtype, double got, const hr_meaning *meaning);
/* The same over the meaning's error: the element is right where that is at most 1. */
double hr_check_ratio(hr_dtype type, hr_dtype dtype, double got, const hr_meaning *meaning);
/* The type in which the statement's results are computed: whole numbers that are added to floats are floats.
 */
hr_dtype hr_check_type(const hr_function *function, const hr_statement *statement);
/* In what order the code of `plan` adds up the reductions of its text, for hr_reference_orders; for free().
 */
hr_status hr_check_orders(const hr_plan *plan, const int64_t *extents, hr_sum_order **out, int *count);

/* The subscripts of point `number` of a tensor: its corners, edges and middle first; then, of four, two
 * anywhere, one near the end of the last axis and one beside borders of vectors, tiles and threads' shares.
 */
void hr_check_point(int rank, const int64_t *shape, int64_t number, uint64_t seed, int64_t *subscripts);
/* Element `number` of a tensor that is looked at whole: the first, the last, then each other one once, far
 * from the one before it, so that a part of them is spread over all. */
void hr_check_element(int rank, const int64_t *shape, int64_t number, int64_t *subscripts);

#endif
