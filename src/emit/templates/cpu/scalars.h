/* One value at a time: the names of lanes_*.h for a scalar, so that a function written once in terms of lanes
 * is compiled for scalars too, and the conversions among scalar compute types.
 */
STATIC_INLINE float f32_of(float x) {
    return x;
}

STATIC_INLINE int32_t i32_of(int32_t x) {
    return x;
}

STATIC_INLINE int32_t f32_bits(float x) {
    int32_t r;
    memcpy(&r, &x, 4);
    return r;
}

STATIC_INLINE float f32_of_bits(int32_t x) {
    float r;
    memcpy(&r, &x, 4);
    return r;
}

STATIC_INLINE bool b_of(bool x) {
    return x;
}

STATIC_INLINE bool b_and(bool a, bool b) {
    return a & b;
}

STATIC_INLINE bool b_or(bool a, bool b) {
    return a | b;
}

STATIC_INLINE bool b_not(bool a) {
    return !a;
}

STATIC_INLINE bool b_select(bool m, bool a, bool b) {
    return m ? a : b;
}

STATIC_INLINE bool f32_lt(float a, float b) {
    return a < b;
}

STATIC_INLINE bool f32_le(float a, float b) {
    return a <= b;
}

STATIC_INLINE bool f32_gt(float a, float b) {
    return a > b;
}

STATIC_INLINE bool f32_ge(float a, float b) {
    return a >= b;
}

STATIC_INLINE bool i32_gt(int32_t a, int32_t b) {
    return a > b;
}

STATIC_INLINE bool i32_ge(int32_t a, int32_t b) {
    return a >= b;
}

STATIC_INLINE bool f32_eq(float a, float b) {
    return a == b;
}

STATIC_INLINE bool f32_ne(float a, float b) {
    return a != b;
}

STATIC_INLINE bool i32_lt(int32_t a, int32_t b) {
    return a < b;
}

STATIC_INLINE bool i32_le(int32_t a, int32_t b) {
    return a <= b;
}

STATIC_INLINE bool i32_eq(int32_t a, int32_t b) {
    return a == b;
}

STATIC_INLINE bool i32_ne(int32_t a, int32_t b) {
    return a != b;
}

STATIC_INLINE float f32_select(bool m, float a, float b) {
    return m ? a : b;
}

STATIC_INLINE double f64_select(bool m, double a, double b) {
    return m ? a : b;
}

STATIC_INLINE int32_t i32_select(bool m, int32_t a, int32_t b) {
    return m ? a : b;
}

STATIC_INLINE int64_t i64_select(bool m, int64_t a, int64_t b) {
    return m ? a : b;
}

STATIC_INLINE float f32_larger(float a, float b) {
    return a > b ? a : b;
}

STATIC_INLINE float f32_smaller(float a, float b) {
    return a < b ? a : b;
}

STATIC_INLINE float f32_max(float a, float b) {
    return a > b || a != a ? a : b;
}

STATIC_INLINE float f32_min(float a, float b) {
    return a < b || a != a ? a : b;
}

STATIC_INLINE double f64_max(double a, double b) {
    return a > b || a != a ? a : b;
}

STATIC_INLINE double f64_min(double a, double b) {
    return a < b || a != a ? a : b;
}

STATIC_INLINE int32_t i32_max(int32_t a, int32_t b) {
    return a > b ? a : b;
}

STATIC_INLINE int32_t i32_min(int32_t a, int32_t b) {
    return a < b ? a : b;
}

STATIC_INLINE int64_t i64_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

STATIC_INLINE int64_t i64_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

STATIC_INLINE float f32_sqrt(float x) {
    return sqrtf(x);
}

STATIC_INLINE double f64_sqrt(double x) {
    return sqrt(x);
}

STATIC_INLINE float f32_floor(float x) {
    return floorf(x);
}

STATIC_INLINE double f64_floor(double x) {
    return floor(x);
}

STATIC_INLINE float f32_ceil(float x) {
    return ceilf(x);
}

STATIC_INLINE double f64_ceil(double x) {
    return ceil(x);
}

STATIC_INLINE float f32_round(float x) {
    return rintf(x);
}

STATIC_INLINE double f64_round(double x) {
    return rint(x);
}

STATIC_INLINE float f32_fma(float a, float b, float c) {
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* The sum of (f - about)^2 over `count` values f from their sum and that of their squares. False where little
 * is left of what they are made of, or one is not finite: then the difference is mostly rounding. */
STATIC_INLINE bool f32_squares_about(float sum, float squares, float about, double count, float *out) {
    double level = count * about * about, result = squares - 2.0 * about * sum + level;
    *out = (float)result;
    return squares <= 0x1.fffffep127f && 8 * result >= squares + level;
}

/* Chains of f32 end: what they have goes to totals of f64, which begin with the first of them. */
STATIC_INLINE void f32_fold(float *sums, double *totals, int64_t count, int64_t folds) {
    for (int64_t i = 0; i < count; i++) {
        totals[i] = (folds ? totals[i] : 0.0) + (double)sums[i];
        sums[i] = 0;
    }
}

/* What chains of f32 that have ended and the one in hand come to. */
STATIC_INLINE void f32_unfold(float *sums, const double *totals, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sums[i] = (float)(totals[i] + (double)sums[i]);
}

/* What stands for the largest element of a row of exponentials before all of it is seen. */
STATIC_INLINE float f32_estimate(float largest, bool exact) {
    return exact || (largest > -INFINITY && largest < INFINITY) ? largest : 0;
}

/* Whether a sum of exponentials says that the estimate was good: none of them left f32's range. */
STATIC_INLINE bool f32_is_settled(float total) {
    return total >= 0.5f && total <= 0x1p100f;
}
