/* Derivatives of functions: the slope of each in each argument, from derivatives.def.
 *
 * A slope takes what the value of the function is made from where that is cheaper: silu has the sigmoid, the
 * gelus one function and no division.
 */
#ifndef HR_GRAD_SLOPE_H
#define HR_GRAD_SLOPE_H

#include "grad/algebra.h"

typedef struct hr_slope_point {
    hr_algebra *algebra;
    hr_expr *const *args;
    hr_expr *value;
} hr_slope_point;

/* NULL where the operation passes no gradient to this argument. */
hr_expr *hr_slope(hr_algebra *algebra, hr_op op, int argument, hr_expr *const *args, hr_expr *value);

/* The function's value, made from what its slope is made from, too. */
hr_expr *hr_value_beside_slope(hr_algebra *algebra, hr_op op, hr_expr *arg);

#endif
