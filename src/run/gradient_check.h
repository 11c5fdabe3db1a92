/* A gradient against central differences of its kernel, both by the interpreter in f64.
 *
 * In: a function and what is derived of it. Out: how far the two are apart at small random points. */
#ifndef HR_RUN_GRADIENT_CHECK_H
#define HR_RUN_GRADIENT_CHECK_H

#include "ir/function.h"

/* HR_WRONG_RESULT where they differ by more than 1e-6. */
hr_status hr_gradient_compare(const hr_function *function, const hr_gradient_options *options,
                              hr_gradient_check *out);

#endif
