/* Whether a computed element may stand for its meaning: the tolerance model, apart from launching. */
#ifndef HR_RUN_CHECK_H
#define HR_RUN_CHECK_H

#include "ir/function.h"
#include "reference/reference.h"

/* How wrong `got`, an element of `dtype` that was computed as `type`, is for this meaning: the distance
 * between the meaning and all that rounds to `got`, over the meaning's scale. 0 for a correctly rounded
 * element; infinite where NaN or infinity stand in only one of the two. Whole numbers that are computed as
 * such: 0 or at least 1. */
double hr_check_error(hr_dtype type, hr_dtype dtype, double got, const hr_meaning *meaning);
/* The type in which the statement's results are computed: whole numbers that are added to floats are floats.
 */
hr_dtype hr_check_type(const hr_function *function, const hr_statement *statement);
/* What that may be: arithmetic in `type` with a reduction over `terms`. */
double hr_check_tolerance(hr_dtype type, double terms);

/* The subscripts of point `number` of a tensor: its corners, edges and middle first, then points at random,
 * every other one of these near the end of the last axis. */
void hr_check_point(int rank, const int64_t *shape, int64_t number, uint64_t seed, int64_t *subscripts);
/* Element `number` of a tensor that is looked at whole: the first, the last, then each other one once, far
 * from the one before it, so that a part of them is spread over all. */
void hr_check_element(int rank, const int64_t *shape, int64_t number, int64_t *subscripts);

#endif
