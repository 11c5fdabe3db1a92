/* Elementwise functions of f32 in terms of lanes; compiled for scalars too.
 *
 * Where a formula of an instruction set's file meets inf * 0 its limits decide: silu, gelu and gelu_tanh of
 * -inf are 0 or -0.
 */
STATIC_INLINE VF VF_div(VF a, VF b) {
    return a / b;
}

STATIC_INLINE VF VF_abs(VF x) {
    return VF_of_bits(VF_bits(x) & INT32_MAX);
}

STATIC_INLINE VF VF_relu(VF x) {
    return VF_max(x, VF_of(0));
}

STATIC_INLINE VF VF_clamp(VF x, VF low, VF high) {
    return VF_min(VF_max(x, low), high);
}

STATIC_INLINE VF VF_powi(VF x, int n) {
    VF power = VF_of(1);
    for (unsigned rest = n < 0 ? -(unsigned)n : (unsigned)n; rest != 0; rest >>= 1) {
        power = rest & 1 ? power * x : power;
        x = x * x;
    }
    return n < 0 ? 1 / power : power;
}
