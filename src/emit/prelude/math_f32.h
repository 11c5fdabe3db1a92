/* Elementwise functions of f32 in terms of lanes; compiled for scalars too.
 *
 * The limits decide where a formula meets inf * 0: silu(-inf) = gelu(-inf) = -0.
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

static inline vf vf_sigmoid(vf x) {
    return 1 / (1 + vf_exp(-x));
}

static inline vf vf_silu(vf x) {
    vf inside = vf_larger(vf_of(-200), x);
    return vf_select(vf_eq(x, x), inside / (1 + vf_exp(-inside)), x);
}

static inline vf vf_gelu_tanh(vf x) {
    vf inside = vf_larger(vf_of(-20), x);
    vf cubic = inside * (0.044715f * inside * inside + 1);
    return vf_select(vf_eq(x, x), inside / (1 + vf_exp(-1.5957691216057308f * cubic)), x);
}

static inline vf vf_gelu(vf x) {
    vf inside = vf_larger(vf_of(-20), x);
    return vf_select(vf_eq(x, x), 0.5f * inside * (1 + vf_erf(0.70710678f * inside)), x);
}

static inline vf vf_powi(vf x, int n) {
    vf power = vf_of(1);
    for (unsigned rest = n < 0 ? -(unsigned)n : (unsigned)n; rest != 0; rest >>= 1) {
        power = rest & 1 ? power * x : power;
        x = x * x;
    }
    return n < 0 ? 1 / power : power;
}
