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

static double negated(double x) {
    return -x;
}

static double itself(double x) {
    return x;
}

static double rsqrt(double x) {
    return 1 / sqrt(x);
}

static double relu(double x) {
    return x < 0 ? 0 : x;
}

static double gelu(double x) {
    return times_vanishing(x, 0.5 * erfc(-x * sqrt_half));
}

static double gelu_tanh(double x) {
    return times_vanishing(x, sigmoid(2 * gelu_argument(x)));
}

static double silu(double x) {
    return times_vanishing(x, sigmoid(x));
}

double hr_unary(hr_op op, double x) {
    static double (*const functions[HR_OP_COUNT])(double) = {
        [HR_OP_NEG] = negated, [HR_OP_EXP] = exp,         [HR_OP_EXP2] = exp2,
        [HR_OP_LOG] = log,     [HR_OP_LOG2] = log2,       [HR_OP_SQRT] = sqrt,
        [HR_OP_RSQRT] = rsqrt, [HR_OP_SIN] = sin,         [HR_OP_COS] = cos,
        [HR_OP_TANH] = tanh,   [HR_OP_ERF] = erf,         [HR_OP_SIGMOID] = sigmoid,
        [HR_OP_RELU] = relu,   [HR_OP_GELU] = gelu,       [HR_OP_GELU_TANH] = gelu_tanh,
        [HR_OP_SILU] = silu,   [HR_OP_ABS] = fabs,        [HR_OP_FLOOR] = floor,
        [HR_OP_CEIL] = ceil,   [HR_OP_ROUND] = nearbyint, [HR_OP_STOP] = itself,
    };
    return functions[op](x);
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
