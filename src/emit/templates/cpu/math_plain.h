/* Special functions by polynomials alone, for lanes without AVX-512 and for scalars. Branch-free, so that
 * loops over scalars become vectors. Coefficients come from tools/fit_prelude.py.
 */
/* Adding 1.5 * 2^23 rounds to a whole number, which then stands in the lowest bits. ln2 is split so that
 * products with its first part are exact without FMA too. */
static inline VF VF_exp(VF x) {
    VF inside = VF_smaller(VF_of(89), VF_larger(VF_of(-104), x));
    VF t = VF_fma(inside, VF_of(0x1.715476p+0f), VF_of(0x1.8p23f)), n = t - 0x1.8p23f;
    VF r = VF_fma(n, VF_of(0x1.bd0106p-13f), VF_fma(n, VF_of(-0x1.630000p-1f), inside));
    VF p = VF_of(0x1.6a5198p-10f);
    p = VF_fma(p, r, VF_of(0x1.12397cp-7f));
    p = VF_fma(p, r, VF_of(0x1.5558acp-5f));
    p = VF_fma(p, r, VF_of(0x1.555492p-3f));
    p = VF_fma(p, r, VF_of(0x1.fffffcp-2f));
    return VF_scale_by(VF_fma(r * r, p, r) + 1, VF_bits(t) - 0x4b400000);
}

static inline VF VF_exp_narrow(VF x) {
    return VF_exp(x);
}

static inline void VF_exp_narrow_ways(VF *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = VF_exp_narrow(x[way]);
}

static inline VF VF_exp_below(VF x, float peak) {
    return VF_exp(x - peak);
}

static inline void VF_exp_below_ways(VF *x, int ways, float peak) {
    for (int way = 0; way < ways; way++)
        x[way] = VF_exp_below(x[way], peak);
}

static inline VF VF_exp2(VF x) {
    VF inside = VF_smaller(VF_of(129), VF_larger(VF_of(-151), x));
    VF t = inside + 0x1.8p23f, r = inside - (t - 0x1.8p23f);
    VF p = VF_of(0x1.417a9cp-13f);
    p = VF_fma(p, r, VF_of(0x1.5f0948p-10f));
    p = VF_fma(p, r, VF_of(0x1.3b2dd2p-7f));
    p = VF_fma(p, r, VF_of(0x1.c6af7ap-5f));
    p = VF_fma(p, r, VF_of(0x1.ebfbdcp-3f));
    p = VF_fma(p, r, VF_of(0x1.62e430p-1f));
    return VF_scale_by(VF_fma(r, p, VF_of(1)), VF_bits(t) - 0x4b400000);
}

/* Denormals are scaled into range; then x = m * 2^n with m between sqrt(1/2) and sqrt(2). */
static inline VF VF_log(VF x) {
    VM tiny = VF_lt(x, VF_of(0x1p-126f));
    VI bits = VF_bits(VF_select(tiny, x * 0x1p23f, x));
    VI n = (bits - 0x3f3504f3) >> 23;
    VF r = VF_of_bits(bits - (VI)((VU)n << 23)) - 1;
    VF whole = VF_from_VI(n - VI_select(tiny, VI_of(23), VI_of(0)));
    VF p = VF_of(-0x1.392534p-4f);
    p = VF_fma(p, r, VF_of(0x1.05b362p-3f));
    p = VF_fma(p, r, VF_of(-0x1.0d9a78p-3f));
    p = VF_fma(p, r, VF_of(0x1.22d004p-3f));
    p = VF_fma(p, r, VF_of(-0x1.546f36p-3f));
    p = VF_fma(p, r, VF_of(0x1.99a056p-3f));
    p = VF_fma(p, r, VF_of(-0x1.000232p-2f));
    p = VF_fma(p, r, VF_of(0x1.555554p-2f));
    VF square = r * r, tail = VF_fma(square * r, p, VF_fma(square, VF_of(-0.5f), whole * -0x1.bd0106p-13f));
    return VF_log_limits(x, VF_fma(whole, VF_of(0x1.630000p-1f), r + tail));
}

static inline VF VF_log2(VF x) {
    VM tiny = VF_lt(x, VF_of(0x1p-126f));
    VI bits = VF_bits(VF_select(tiny, x * 0x1p23f, x));
    VI n = (bits - 0x3f3504f3) >> 23;
    VF r = VF_of_bits(bits - (VI)((VU)n << 23)) - 1;
    VF whole = VF_from_VI(n - VI_select(tiny, VI_of(23), VI_of(0)));
    VF p = VF_of(-0x1.5181cep-4f);
    p = VF_fma(p, r, VF_of(0x1.521abep-3f));
    p = VF_fma(p, r, VF_of(-0x1.8b6618p-3f));
    p = VF_fma(p, r, VF_of(0x1.ab38f4p-3f));
    p = VF_fma(p, r, VF_of(-0x1.eb179cp-3f));
    p = VF_fma(p, r, VF_of(0x1.273ca4p-2f));
    p = VF_fma(p, r, VF_of(-0x1.7156d0p-2f));
    p = VF_fma(p, r, VF_of(0x1.ec71fep-2f));
    p = VF_fma(p, r, VF_of(-0x1.715476p-1f));
    p = VF_fma(p, r, VF_of(0x1.715476p+0f));
    return VF_log_limits(x, VF_fma(r, p, whole));
}

static inline VF VF_tanh(VF x) {
    VF size = VF_of_bits(VF_bits(x) & INT32_MAX), square = x * x;
    VF p = VF_of(-0x1.734efep-8f);
    p = VF_fma(p, square, VF_of(0x1.51971ap-6f));
    p = VF_fma(p, square, VF_of(-0x1.b826fep-5f));
    p = VF_fma(p, square, VF_of(0x1.110688p-3f));
    p = VF_fma(p, square, VF_of(-0x1.555530p-2f));
    VF near = VF_fma(p * square, x, x), far = 1 - 2 / (VF_exp(2 * size) + 1);
    VF value = VF_select(VF_lt(size, VF_of(0.625f)), near, far);
    return VF_of_bits(VF_bits(value) | (VF_bits(x) & INT32_MIN));
}

/* A polynomial below 1; above, 1 - erfc, whose logarithm is almost a parabola. */
static inline VF VF_erf(VF x) {
    VF size = VF_of_bits(VF_bits(x) & INT32_MAX), square = x * x, near = VF_of(-0x1.217f0ap-19f),
       log_erfc = VF_of(0x1.ce4d14p-21f);
    VF inside = VF_smaller(VF_of(4), size);
    near = VF_fma(near, square, VF_of(0x1.6981f6p-14f));
    near = VF_fma(near, square, VF_of(-0x1.a99294p-11f));
    near = VF_fma(near, square, VF_of(0x1.5482a0p-8f));
    near = VF_fma(near, square, VF_of(-0x1.b8044ap-6f));
    near = VF_fma(near, square, VF_of(0x1.ce2d74p-4f));
    near = VF_fma(near, square, VF_of(-0x1.812740p-2f));
    near = VF_fma(near, square, VF_of(0x1.06eba8p-3f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(-0x1.cce620p-17f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(0x1.352ebap-14f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(0x1.066b0cp-14f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(-0x1.aae256p-9f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(0x1.839cc2p-6f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(-0x1.b549aap-4f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(-0x1.44c83cp-1f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(-0x1.210fa4p+0f));
    log_erfc = VF_fma(log_erfc, inside, VF_of(0x1.e14d32p-14f));
    VF far = 1 - VF_exp(log_erfc);
    VF value = VF_select(VF_lt(size, VF_of(1)), VF_fma(near, x, x), far);
    return VF_of_bits(VF_bits(value) | (VF_bits(x) & INT32_MIN));
}

static inline VF VF_sigmoid(VF x) {
    return 1 / (1 + VF_exp(-x));
}

static inline VF VF_silu(VF x) {
    return VF_larger(VF_of(-89), x) * VF_sigmoid(x);
}

/* For results of 16 bits: no shorter here. */
static inline VF VF_sigmoid_narrow(VF x) {
    return VF_sigmoid(x);
}

static inline void VF_sigmoid_narrow_ways(VF *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = VF_sigmoid_narrow(x[way]);
}

static inline VF VF_silu_narrow(VF x) {
    return VF_silu(x);
}

static inline void VF_silu_narrow_ways(VF *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = VF_silu_narrow(x[way]);
}

/* x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3). Below -13 the result is too small for f32. */
static inline VF VF_gelu_tanh(VF x) {
    VF inside = VF_larger(VF_of(-13), x);
    return inside *
           VF_sigmoid(inside * VF_fma(inside * inside, VF_of(0x1.2444f2p-4f), VF_of(0x1.988454p+0f)));
}

static inline VF VF_rsqrt(VF x) {
    return 1 / VF_sqrt(x);
}

/* x/2 (1 + erf(x/sqrt2)); below -6 the sum is 0. */
static inline VF VF_gelu(VF x) {
    VF half = 0.5f * VF_larger(VF_of(-6), x);
    return VF_fma(half, VF_erf(x * 0x1.6a09e6p-1f), half);
}
