/* Whole numbers, lane by lane. */

STATIC_INLINE vi vi_relu(vi x) {
    return vi_max(x, vi_of(0));
}

STATIC_INLINE vi vi_abs(vi x) {
    return vi_max(x, (vi)(0 - (vu)x));
}

STATIC_INLINE vi vi_clamp(vi x, vi low, vi high) {
    return vi_min(vi_max(x, low), high);
}

STATIC_INLINE vi vi_powi(vi x, int n) {
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = i32_pow(x[lane], n);
    return x;
}

STATIC_INLINE vi vi_floordiv(vi a, vi b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_floordiv(a[lane], b[lane]);
    return a;
}

STATIC_INLINE vi vi_mod(vi a, vi b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_mod(a[lane], b[lane]);
    return a;
}

STATIC_INLINE vi vi_pow(vi a, vi b) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_pow(a[lane], b[lane]);
    return a;
}

STATIC_INLINE vi vi_bit_and(vi a, vi b) {
    return a & b;
}

STATIC_INLINE vi vi_bit_xor(vi a, vi b) {
    return a ^ b;
}

STATIC_INLINE vi vi_bit_or(vi a, vi b) {
    return a | b;
}

STATIC_INLINE vi vi_shift_left(vi a, vi by) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_shift_left(a[lane], by[lane]);
    return a;
}

STATIC_INLINE vi vi_shift_right(vi a, vi by) {
    for (int lane = 0; lane < HR_LANES; lane++)
        a[lane] = i32_shift_right(a[lane], by[lane]);
    return a;
}
