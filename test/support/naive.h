/* The meaning of an element by the plainest recursion over the expressions: no lanes, no memory. Slow, and
 * independent of the interpreter, so that the two can be compared. */
#ifndef HR_TEST_SUPPORT_NAIVE_H
#define HR_TEST_SUPPORT_NAIVE_H

#include "support/fixture.h"

/* False where it would take more than `steps` operations, or a subscript leaves its axis. Whole numbers pass
 * through f64: exact up to 2^53. */
bool hr_naive_value(const hr_fixture *fixture, int tensor, const int64_t *subscripts, int64_t steps,
                    double *out);

#endif
