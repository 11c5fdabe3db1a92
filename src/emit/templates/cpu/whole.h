/* Whole numbers. Sums and products wrap; floordiv and mod by 0 give 0; mod has the divisor's sign. */

/* A power of two that the text names: `k // 32` stands where groups share a scale, in the innermost loop. */
#ifdef __CUDACC__
#define HR_IS_POWER(b) false
#define HR_EXPONENT(b) 0
#else
#define HR_IS_POWER(b) (__builtin_constant_p(b) && (b) > 0 && ((b) & ((b)-1)) == 0)
#define HR_EXPONENT(b) __builtin_ctzll((uint64_t)(b))
#endif

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

static inline bool i64_lt(int64_t a, int64_t b) {
    return a < b;
}

static inline bool i64_le(int64_t a, int64_t b) {
    return a <= b;
}

static inline bool i64_gt(int64_t a, int64_t b) {
    return a > b;
}

static inline bool i64_ge(int64_t a, int64_t b) {
    return a >= b;
}

static inline bool i64_eq(int64_t a, int64_t b) {
    return a == b;
}

static inline bool i64_ne(int64_t a, int64_t b) {
    return a != b;
}

static inline int64_t i64_of(int64_t x) {
    return x;
}

static inline int64_t i64_relu(int64_t x) {
    return x > 0 ? x : 0;
}

static inline int64_t i64_abs(int64_t x) {
    return (int64_t)(x < 0 ? 0 - (uint64_t)x : (uint64_t)x);
}

static inline int64_t i64_clamp(int64_t x, int64_t low, int64_t high) {
    return i64_min(i64_max(x, low), high);
}

static inline int64_t i64_floordiv(int64_t a, int64_t b) {
    if (HR_IS_POWER(b)) return a >> HR_EXPONENT(b);
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t i64_mod(int64_t a, int64_t b) {
    if (HR_IS_POWER(b)) return a & (b - 1);
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* A negative power is 1 // x^-n, cut to a whole number. */
static inline int64_t i64_pow(int64_t x, int64_t n) {
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    uint64_t power = 1, square = (uint64_t)x;
    for (int64_t rest = n; rest != 0; rest >>= 1) {
        power *= rest & 1 ? square : 1;
        square *= square;
    }
    return (int64_t)power;
}

static inline int64_t i64_powi(int64_t x, int n) {
    return i64_pow(x, n);
}

/* ---- bits; a shift by less than 0 or by the width leaves nothing but the sign ---- */

static inline int32_t i32_bit_and(int32_t a, int32_t b) {
    return a & b;
}

static inline int32_t i32_bit_xor(int32_t a, int32_t b) {
    return a ^ b;
}

static inline int32_t i32_bit_or(int32_t a, int32_t b) {
    return a | b;
}

static inline int32_t i32_shift_left(int32_t a, int32_t by) {
    return by < 0 || by > 31 ? 0 : (int32_t)((uint32_t)a << by);
}

static inline int32_t i32_shift_right(int32_t a, int32_t by) {
    return a >> (by < 0 || by > 31 ? 31 : by);
}

static inline int64_t i64_bit_and(int64_t a, int64_t b) {
    return a & b;
}

static inline int64_t i64_bit_xor(int64_t a, int64_t b) {
    return a ^ b;
}

static inline int64_t i64_bit_or(int64_t a, int64_t b) {
    return a | b;
}

static inline int64_t i64_shift_left(int64_t a, int64_t by) {
    return by < 0 || by > 63 ? 0 : (int64_t)((uint64_t)a << by);
}

static inline int64_t i64_shift_right(int64_t a, int64_t by) {
    return a >> (by < 0 || by > 63 ? 63 : by);
}

/* ---- lanes ---- */

static inline vi vi_relu(vi x) {
    return vi_max(x, vi_of(0));
}

static inline vi vi_abs(vi x) {
    return vi_max(x, (vi)(0 - (vu)x));
}

static inline vi vi_clamp(vi x, vi low, vi high) {
    return vi_min(vi_max(x, low), high);
}

static inline vi vi_powi(vi x, int n) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = i32_pow(x[lane], n);
    return x;
}

static inline vi vi_floordiv(vi a, vi b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_floordiv(a[lane], b[lane]);
    return a;
}

static inline vi vi_mod(vi a, vi b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_mod(a[lane], b[lane]);
    return a;
}

static inline vi vi_pow(vi a, vi b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_pow(a[lane], b[lane]);
    return a;
}

static inline vi vi_bit_and(vi a, vi b) {
    return a & b;
}

static inline vi vi_bit_xor(vi a, vi b) {
    return a ^ b;
}

static inline vi vi_bit_or(vi a, vi b) {
    return a | b;
}

static inline vi vi_shift_left(vi a, vi by) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_shift_left(a[lane], by[lane]);
    return a;
}

static inline vi vi_shift_right(vi a, vi by) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_shift_right(a[lane], by[lane]);
    return a;
}
