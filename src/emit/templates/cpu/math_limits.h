/* What lanes of AVX2, other lanes and scalars need where results are denormal or not numbers. */
/* x * 2^n for -252 <= n <= 254, in two steps so that denormals are rounded once. */
static inline VF VF_scale_by(VF x, VI n) {
    VI half = n >> 1;
    VF first = VF_of_bits((VI)((VU)(half + 127) << 23)),
       second = VF_of_bits((VI)((VU)(n - half + 127) << 23));
    return x * first * second;
}

/* The value of a logarithm where its argument is 0, negative, infinite or NaN; y elsewhere. */
static inline VF VF_log_limits(VF x, VF y) {
    y = VF_select(VF_lt(x, VF_of(INFINITY)), y, x);
    y = VF_select(VF_eq(x, VF_of(0)), VF_of(-INFINITY), y);
    return VF_select(VF_lt(x, VF_of(0)), VF_of(NAN), y);
}
