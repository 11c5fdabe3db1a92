/* Elementwise functions of f32 in terms of lanes; compiled for scalars too.
 *
 * Where a formula of an instruction set's file meets inf * 0 its limits decide: silu, gelu and gelu_tanh of
 * -inf are 0 or -0.
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

static inline vf vf_powi(vf x, int n) {
    vf power = vf_of(1);
    for (unsigned rest = n < 0 ? -(unsigned)n : (unsigned)n; rest != 0; rest >>= 1) {
        power = rest & 1 ? power * x : power;
        x = x * x;
    }
    return n < 0 ? 1 / power : power;
}
