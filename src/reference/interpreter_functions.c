/* The language's functions of one number, their slopes, and the two of two numbers that libm lacks. In: f64.
 * Out: f64. */
#include "reference/interpreter_functions.h"

#include <math.h>
#include <stdlib.h>

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

double hr_floor_modulo(double a, double b) {
    double rest = fmod(a, b);
    if (rest != 0) return (rest < 0) != (b < 0) ? rest + b : rest;
    return copysign(0, b);
}

double hr_power(double base, double exponent) {
    if (exponent != rint(exponent) || fabs(exponent) > 64) return pow(base, exponent);
    double product = 1;
    for (int left = (int)fabs(exponent); left; left >>= 1, base *= base)
        if (left & 1) product *= base;
    return exponent < 0 ? 1 / product : product;
}

static const double sqrt_2_over_pi = 0.79788456080286535588;
static const double sqrt_half = 0.70710678118654752440;

static inline double gelu_argument(double x) {
    return sqrt_2_over_pi * (x + 0.044715 * x * x * x);
}

static double gelu_tanh_slope(double x) {
    double s = sigmoid(2 * gelu_argument(x));
    return s + x * s * (1 - s) * 2 * sqrt_2_over_pi * (1 + 3 * 0.044715 * x * x);
}

/* x times what vanishes faster than -x grows: 0 in the limit, where the formula says inf * 0. */
static inline double times_vanishing(double x, double factor) {
    return x == -INFINITY ? -0.0 : x * factor;
}

double hr_unary(hr_op op, double x) {
    switch (op) {
    case HR_OP_NEG:
        return -x;
    case HR_OP_EXP:
        return exp(x);
    case HR_OP_EXP2:
        return exp2(x);
    case HR_OP_LOG:
        return log(x);
    case HR_OP_LOG2:
        return log2(x);
    case HR_OP_SQRT:
        return sqrt(x);
    case HR_OP_RSQRT:
        return 1 / sqrt(x);
    case HR_OP_SIN:
        return sin(x);
    case HR_OP_COS:
        return cos(x);
    case HR_OP_TANH:
        return tanh(x);
    case HR_OP_ERF:
        return erf(x);
    case HR_OP_SIGMOID:
        return sigmoid(x);
    case HR_OP_RELU:
        return x < 0 ? 0 : x;
    case HR_OP_GELU:
        return times_vanishing(x, 0.5 * erfc(-x * sqrt_half));
    case HR_OP_GELU_TANH:
        return times_vanishing(x, sigmoid(2 * gelu_argument(x)));
    case HR_OP_SILU:
        return times_vanishing(x, sigmoid(x));
    case HR_OP_ABS:
        return fabs(x);
    case HR_OP_FLOOR:
        return floor(x);
    case HR_OP_CEIL:
        return ceil(x);
    case HR_OP_STOP:
        return x;
    default:
        return nearbyint(x);
    }
}

double hr_unary_slope(hr_op op, double x, double y) {
    switch (op) {
    case HR_OP_EXP:
        return y;
    case HR_OP_EXP2:
        return M_LN2 * y;
    case HR_OP_LOG:
        return 1 / fabs(x);
    case HR_OP_LOG2:
        return M_LOG2E / fabs(x);
    case HR_OP_SQRT:
        return 0.5 / y;
    case HR_OP_RSQRT:
        return 0.5 * y / fabs(x);
    case HR_OP_TANH:
        return 1 - y * y;
    case HR_OP_ERF:
        return M_2_SQRTPI * exp(-x * x);
    case HR_OP_SIGMOID:
        return y * (1 - y);
    case HR_OP_GELU:
        return fabs(0.5 * erfc(-x * sqrt_half) + x * exp(-0.5 * x * x) * 0.5 * sqrt_2_over_pi);
    case HR_OP_GELU_TANH:
        return fabs(gelu_tanh_slope(x));
    case HR_OP_SILU:
        return fabs(sigmoid(x) * (1 + x * (1 - sigmoid(x))));
    default:
        return 1;
    }
}
