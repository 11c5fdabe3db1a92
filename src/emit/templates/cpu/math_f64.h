/* Elementwise functions of f64. */
STATIC_INLINE double f64_exp(double x) {
    return exp(x);
}

STATIC_INLINE double f64_exp2(double x) {
    return exp2(x);
}

STATIC_INLINE double f64_log(double x) {
    return log(x);
}

STATIC_INLINE double f64_log2(double x) {
    return log2(x);
}

STATIC_INLINE double f64_sin(double x) {
    return sin(x);
}

STATIC_INLINE double f64_cos(double x) {
    return cos(x);
}

STATIC_INLINE double f64_tanh(double x) {
    return tanh(x);
}

STATIC_INLINE double f64_erf(double x) {
    return erf(x);
}

STATIC_INLINE bool f64_lt(double a, double b) {
    return a < b;
}

STATIC_INLINE bool f64_le(double a, double b) {
    return a <= b;
}

STATIC_INLINE bool f64_gt(double a, double b) {
    return a > b;
}

STATIC_INLINE bool f64_ge(double a, double b) {
    return a >= b;
}

STATIC_INLINE bool f64_eq(double a, double b) {
    return a == b;
}

STATIC_INLINE bool f64_ne(double a, double b) {
    return a != b;
}

STATIC_INLINE double f64_of(double x) {
    return x;
}

STATIC_INLINE double f64_div(double a, double b) {
    return a / b;
}

STATIC_INLINE double f64_abs(double x) {
    return fabs(x);
}

STATIC_INLINE double f64_relu(double x) {
    return f64_max(x, 0);
}

STATIC_INLINE double f64_clamp(double x, double low, double high) {
    return f64_min(f64_max(x, low), high);
}

STATIC_INLINE double f64_rsqrt(double x) {
    return 1 / sqrt(x);
}

STATIC_INLINE double f64_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

STATIC_INLINE double f64_silu(double x) {
    return x < -800 ? -0.0 : x / (1 + exp(-x));
}

STATIC_INLINE double f64_gelu(double x) {
    return x < -40 ? -0.0 : 0.5 * x * erfc(-0.70710678118654752 * x);
}

STATIC_INLINE double f64_gelu_tanh(double x) {
    return x < -40 ? -0.0 : x / (1 + exp(-1.5957691216057308 * x * (1 + 0.044715 * x * x)));
}

/* gcc makes a root of a power of one half where it makes vectors, and the root of -inf is NaN. */
STATIC_INLINE double f64_pow(double x, double y) {
    return y == 0.5 ? x == -INFINITY ? INFINITY : sqrt(x + 0.0) : pow(x, y);
}

STATIC_INLINE double f64_floordiv(double a, double b) {
    return floor(a / b);
}

STATIC_INLINE double f64_mod(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

STATIC_INLINE double f64_powi(double x, int n) {
    double power = 1;
    for (unsigned rest = n < 0 ? -(unsigned)n : (unsigned)n; rest != 0; rest >>= 1) {
        power = rest & 1 ? power * x : power;
        x = x * x;
    }
    return n < 0 ? 1 / power : power;
}
