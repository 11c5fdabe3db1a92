/* Special functions for lanes without AVX2 and for scalars: branch-free. */
static inline vf vf_exp(vf x) {
    return vf_exp_wide(x);
}

static inline vf vf_exp2(vf x) {
    return vf_exp2_wide(x);
}

static inline vf vf_log(vf x) {
    return vf_log_wide(x);
}

static inline vf vf_log2(vf x) {
    return vf_log2_wide(x);
}

static inline vf vf_exp_narrow(vf x) {
    return vf_exp(x);
}

static inline void vf_exp_narrow_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_exp_narrow(x[way]);
}

static inline vf vf_exp_below(vf x, float peak) {
    return vf_exp(x - peak);
}

static inline void vf_exp_below_ways(vf *x, int ways, float peak) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_exp_below(x[way], peak);
}

static inline vf vf_tanh(vf x) {
    vf size = vf_of_bits(vf_bits(x) & INT32_MAX), square = x * x;
    vf p = vf_of(-0x1.734efep-8f);
    p = vf_fma(p, square, vf_of(0x1.51971ap-6f));
    p = vf_fma(p, square, vf_of(-0x1.b826fep-5f));
    p = vf_fma(p, square, vf_of(0x1.110688p-3f));
    p = vf_fma(p, square, vf_of(-0x1.555530p-2f));
    vf near = vf_fma(p * square, x, x), far = 1 - 2 / (vf_exp(2 * size) + 1);
    vf value = vf_select(vf_lt(size, vf_of(0.625f)), near, far);
    return vf_of_bits(vf_bits(value) | (vf_bits(x) & INT32_MIN));
}

static inline vf vf_erf(vf x) {
    return vf_erf_wide(x);
}

static inline vf vf_sigmoid(vf x) {
    return 1 / (1 + vf_exp(-x));
}

static inline vf vf_silu(vf x) {
    return vf_larger(vf_of(-89), x) * vf_sigmoid(x);
}

/* For results of 16 bits: no shorter here. */
static inline vf vf_sigmoid_narrow(vf x) {
    return vf_sigmoid(x);
}

static inline void vf_sigmoid_narrow_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_sigmoid_narrow(x[way]);
}

static inline vf vf_silu_narrow(vf x) {
    return vf_silu(x);
}

static inline void vf_silu_narrow_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_silu_narrow(x[way]);
}

/* x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3). Below -13 the result is too small for f32. */
static inline vf vf_gelu_tanh(vf x) {
    vf inside = vf_larger(vf_of(-13), x);
    return inside *
           vf_sigmoid(inside * vf_fma(inside * inside, vf_of(0x1.2444f2p-4f), vf_of(0x1.988454p+0f)));
}

static inline vf vf_rsqrt(vf x) {
    return 1 / vf_sqrt(x);
}

/* x/2 (1 + erf(x/sqrt2)); below -6 the sum is 0. */
static inline vf vf_gelu(vf x) {
    vf half = 0.5f * vf_larger(vf_of(-6), x);
    return vf_fma(half, vf_erf(x * 0x1.6a09e6p-1f), half);
}
