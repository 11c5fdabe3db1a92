/* Whole numbers. Sums and products wrap; floordiv and mod by 0 give 0; mod has the divisor's sign. */

static inline int32_t i32_relu(int32_t x) {
    return x > 0 ? x : 0;
}

static inline int32_t i32_abs(int32_t x) {
    return (int32_t)(x < 0 ? 0 - (uint32_t)x : (uint32_t)x);
}

static inline int32_t i32_clamp(int32_t x, int32_t low, int32_t high) {
    return i32_min(i32_max(x, low), high);
}

static inline int32_t i32_floordiv(int32_t a, int32_t b) {
    if (HR_IS_POWER(b)) return a >> HR_EXPONENT(b);
    if (b == 0) return 0;
    if (b == -1) return (int32_t)(0 - (uint32_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int32_t i32_mod(int32_t a, int32_t b) {
    if (HR_IS_POWER(b)) return a & (b - 1);
    if (b == 0 || b == -1) return 0;
    int32_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* A negative power is 1 // x^-n, cut to a whole number. */
static inline int32_t i32_pow(int32_t x, int32_t n) {
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    uint32_t power = 1, square = (uint32_t)x;
    for (int32_t rest = n; rest != 0; rest >>= 1) {
        power *= rest & 1 ? square : 1;
        square *= square;
    }
    return (int32_t)power;
}

static inline int32_t i32_powi(int32_t x, int n) {
    return i32_pow(x, n);
}
