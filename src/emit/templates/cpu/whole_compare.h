/* Comparisons of whole numbers of 64 bits: one of lanes has its own. */

STATIC_INLINE bool i64_lt(int64_t a, int64_t b) {
    return a < b;
}

STATIC_INLINE bool i64_le(int64_t a, int64_t b) {
    return a <= b;
}

STATIC_INLINE bool i64_gt(int64_t a, int64_t b) {
    return a > b;
}

STATIC_INLINE bool i64_ge(int64_t a, int64_t b) {
    return a >= b;
}

STATIC_INLINE bool i64_eq(int64_t a, int64_t b) {
    return a == b;
}

STATIC_INLINE bool i64_ne(int64_t a, int64_t b) {
    return a != b;
}

STATIC_INLINE int64_t i64_of(int64_t x) {
    return x;
}
