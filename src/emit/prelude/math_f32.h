/* Elementwise functions of f32 in terms of lanes; compiled for scalars too.
 *
 * The limits decide where a formula meets inf * 0: silu(-inf) = gelu(-inf) = gelu_tanh(-inf) = -0.
 */
static inline vf vf_div(vf a, vf b) {
    return a / b;
}

static inline vf vf_abs(vf x) {
    return vf_of_bits(vf_bits(x) & INT32_MAX);
}

static inline vf vf_relu(vf x) {
    return vf_max(x, vf_of(0));
}

static inline vf vf_clamp(vf x, vf low, vf high) {
    return vf_min(vf_max(x, low), high);
}

static inline vf vf_rsqrt(vf x) {
    return 1 / vf_sqrt(x);
}

/* x/2 (1 + erf(x/sqrt2)); below -6 the sum is 0. */
static inline vf vf_gelu(vf x) {
    vf half = 0.5f * vf_larger(vf_of(-6), x);
    return vf_fma(half, vf_erf(x * 0x1.6a09e6p-1f), half);
}

static inline vf vf_powi(vf x, int n) {
    vf power = vf_of(1);
    for (unsigned rest = n < 0 ? -(unsigned)n : (unsigned)n; rest != 0; rest >>= 1) {
        power = rest & 1 ? power * x : power;
        x = x * x;
    }
    return n < 0 ? 1 / power : power;
}
