/* Whole numbers. Sums and products wrap; floordiv and mod by 0 give 0; mod has the divisor's sign. */

STATIC_INLINE intxx_t ixx_relu(intxx_t x) {
    return x > 0 ? x : 0;
}

STATIC_INLINE intxx_t ixx_abs(intxx_t x) {
    return (intxx_t)(x < 0 ? 0 - (uintxx_t)x : (uintxx_t)x);
}

STATIC_INLINE intxx_t ixx_clamp(intxx_t x, intxx_t low, intxx_t high) {
    return ixx_min(ixx_max(x, low), high);
}

STATIC_INLINE_SIZES intxx_t ixx_floordiv(intxx_t a, intxx_t b) {
    if (HR_IS_POWER(b)) return a >> HR_EXPONENT(b);
    if (b == 0) return 0;
    if (b == -1) return (intxx_t)(0 - (uintxx_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

STATIC_INLINE intxx_t ixx_mod(intxx_t a, intxx_t b) {
    if (HR_IS_POWER(b)) return a & (b - 1);
    if (b == 0 || b == -1) return 0;
    intxx_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* A negative power is 1 // x^-n, cut to a whole number. */
STATIC_INLINE intxx_t ixx_pow(intxx_t x, intxx_t n) {
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    uintxx_t power = 1, square = (uintxx_t)x;
    for (intxx_t rest = n; rest != 0; rest >>= 1) {
        power *= rest & 1 ? square : 1;
        square *= square;
    }
    return (intxx_t)power;
}

STATIC_INLINE intxx_t ixx_powi(intxx_t x, int n) {
    return ixx_pow(x, n);
}
