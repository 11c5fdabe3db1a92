/* Special functions by polynomials alone, for lanes without AVX-512 and for scalars. Branch-free, so that
 * loops over scalars become vectors. Coefficients come from tools/fit_prelude.py.
 */
/* Adding 1.5 * 2^23 rounds to a whole number, which then stands in the lowest bits. ln2 is split so that
 * products with its first part are exact without FMA too. */
static inline vf vf_exp(vf x) {
    vf inside = vf_smaller(vf_of(89), vf_larger(vf_of(-104), x));
    vf t = vf_fma(inside, vf_of(0x1.715476p+0f), vf_of(0x1.8p23f)), n = t - 0x1.8p23f;
    vf r = vf_fma(n, vf_of(0x1.bd0106p-13f), vf_fma(n, vf_of(-0x1.630000p-1f), inside));
    vf p = vf_of(0x1.6a5198p-10f);
    p = vf_fma(p, r, vf_of(0x1.12397cp-7f));
    p = vf_fma(p, r, vf_of(0x1.5558acp-5f));
    p = vf_fma(p, r, vf_of(0x1.555492p-3f));
    p = vf_fma(p, r, vf_of(0x1.fffffcp-2f));
    return vf_scale_by(vf_fma(r * r, p, r) + 1, vf_bits(t) - 0x4b400000);
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

static inline vf vf_exp2(vf x) {
    vf inside = vf_smaller(vf_of(129), vf_larger(vf_of(-151), x));
    vf t = inside + 0x1.8p23f, r = inside - (t - 0x1.8p23f);
    vf p = vf_of(0x1.417a9cp-13f);
    p = vf_fma(p, r, vf_of(0x1.5f0948p-10f));
    p = vf_fma(p, r, vf_of(0x1.3b2dd2p-7f));
    p = vf_fma(p, r, vf_of(0x1.c6af7ap-5f));
    p = vf_fma(p, r, vf_of(0x1.ebfbdcp-3f));
    p = vf_fma(p, r, vf_of(0x1.62e430p-1f));
    return vf_scale_by(vf_fma(r, p, vf_of(1)), vf_bits(t) - 0x4b400000);
}

/* Denormals are scaled into range; then x = m * 2^n with m between sqrt(1/2) and sqrt(2). */
static inline vf vf_log(vf x) {
    vm tiny = vf_lt(x, vf_of(0x1p-126f));
    vi bits = vf_bits(vf_select(tiny, x * 0x1p23f, x));
    vi n = (bits - 0x3f3504f3) >> 23;
    vf r = vf_of_bits(bits - (vi)((vu)n << 23)) - 1;
    vf whole = vf_from_vi(n - vi_select(tiny, vi_of(23), vi_of(0)));
    vf p = vf_of(-0x1.392534p-4f);
    p = vf_fma(p, r, vf_of(0x1.05b362p-3f));
    p = vf_fma(p, r, vf_of(-0x1.0d9a78p-3f));
    p = vf_fma(p, r, vf_of(0x1.22d004p-3f));
    p = vf_fma(p, r, vf_of(-0x1.546f36p-3f));
    p = vf_fma(p, r, vf_of(0x1.99a056p-3f));
    p = vf_fma(p, r, vf_of(-0x1.000232p-2f));
    p = vf_fma(p, r, vf_of(0x1.555554p-2f));
    vf square = r * r, tail = vf_fma(square * r, p, vf_fma(square, vf_of(-0.5f), whole * -0x1.bd0106p-13f));
    return vf_log_limits(x, vf_fma(whole, vf_of(0x1.630000p-1f), r + tail));
}

static inline vf vf_log2(vf x) {
    vm tiny = vf_lt(x, vf_of(0x1p-126f));
    vi bits = vf_bits(vf_select(tiny, x * 0x1p23f, x));
    vi n = (bits - 0x3f3504f3) >> 23;
    vf r = vf_of_bits(bits - (vi)((vu)n << 23)) - 1;
    vf whole = vf_from_vi(n - vi_select(tiny, vi_of(23), vi_of(0)));
    vf p = vf_of(-0x1.5181cep-4f);
    p = vf_fma(p, r, vf_of(0x1.521abep-3f));
    p = vf_fma(p, r, vf_of(-0x1.8b6618p-3f));
    p = vf_fma(p, r, vf_of(0x1.ab38f4p-3f));
    p = vf_fma(p, r, vf_of(-0x1.eb179cp-3f));
    p = vf_fma(p, r, vf_of(0x1.273ca4p-2f));
    p = vf_fma(p, r, vf_of(-0x1.7156d0p-2f));
    p = vf_fma(p, r, vf_of(0x1.ec71fep-2f));
    p = vf_fma(p, r, vf_of(-0x1.715476p-1f));
    p = vf_fma(p, r, vf_of(0x1.715476p+0f));
    return vf_log_limits(x, vf_fma(r, p, whole));
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

/* A polynomial below 1; above, 1 - erfc, whose logarithm is almost a parabola. */
static inline vf vf_erf(vf x) {
    vf size = vf_of_bits(vf_bits(x) & INT32_MAX), square = x * x, near = vf_of(-0x1.217f0ap-19f),
       log_erfc = vf_of(0x1.ce4d14p-21f);
    vf inside = vf_smaller(vf_of(4), size);
    near = vf_fma(near, square, vf_of(0x1.6981f6p-14f));
    near = vf_fma(near, square, vf_of(-0x1.a99294p-11f));
    near = vf_fma(near, square, vf_of(0x1.5482a0p-8f));
    near = vf_fma(near, square, vf_of(-0x1.b8044ap-6f));
    near = vf_fma(near, square, vf_of(0x1.ce2d74p-4f));
    near = vf_fma(near, square, vf_of(-0x1.812740p-2f));
    near = vf_fma(near, square, vf_of(0x1.06eba8p-3f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(-0x1.cce620p-17f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(0x1.352ebap-14f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(0x1.066b0cp-14f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(-0x1.aae256p-9f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(0x1.839cc2p-6f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(-0x1.b549aap-4f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(-0x1.44c83cp-1f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(-0x1.210fa4p+0f));
    log_erfc = vf_fma(log_erfc, inside, vf_of(0x1.e14d32p-14f));
    vf far = 1 - vf_exp(log_erfc);
    vf value = vf_select(vf_lt(size, vf_of(1)), vf_fma(near, x, x), far);
    return vf_of_bits(vf_bits(value) | (vf_bits(x) & INT32_MIN));
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
