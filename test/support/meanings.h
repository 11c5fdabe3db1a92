/* What functions of the language mean that libm lacks, in f64. For tests only. */
#ifndef HR_TEST_SUPPORT_MEANINGS_H
#define HR_TEST_SUPPORT_MEANINGS_H

#include <math.h>

static inline double rsqrt(double x) {
    return 1 / sqrt(x);
}

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static inline double silu(double x) {
    return x == -INFINITY ? 0 : x * sigmoid(x);
}

static inline double gelu(double x) {
    return x == -INFINITY ? 0 : 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static inline double gelu_tanh(double x) {
    return x == -INFINITY ? 0 : x * sigmoid(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x));
}

#endif
