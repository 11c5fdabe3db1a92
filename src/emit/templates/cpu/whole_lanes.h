/* Whole numbers, lane by lane. */

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
