/* Functions of the language in f64, and how steep they are. */
#ifndef HR_REFERENCE_INTERPRETER_FUNCTIONS_H
#define HR_REFERENCE_INTERPRETER_FUNCTIONS_H

#include "ir/function.h"

double hr_unary(hr_op op, double x);
/* |f'(x)|, given f(x) = y. */
double hr_unary_slope(hr_op op, double x, double y);
/* A whole power by products: what a reader expects of x^2, and exact where the products are. */
double hr_power(double base, double exponent);
/* The remainder with the divisor's sign. */
double hr_floor_modulo(double a, double b);

#endif
