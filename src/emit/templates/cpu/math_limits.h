/* What lanes of AVX2, other lanes and scalars need where results are denormal or not numbers. */
/* x * 2^n for -252 <= n <= 254, in two steps so that denormals are rounded once. */
static inline vf vf_scale_by(vf x, vi n) {
    vi half = n >> 1;
    vf first = vf_of_bits((vi)((vu)(half + 127) << 23)),
       second = vf_of_bits((vi)((vu)(n - half + 127) << 23));
    return x * first * second;
}

/* The value of a logarithm where its argument is 0, negative, infinite or NaN; y elsewhere. */
static inline vf vf_log_limits(vf x, vf y) {
    y = vf_select(vf_lt(x, vf_of(INFINITY)), y, x);
    y = vf_select(vf_eq(x, vf_of(0)), vf_of(-INFINITY), y);
    return vf_select(vf_lt(x, vf_of(0)), vf_of(NAN), y);
}
