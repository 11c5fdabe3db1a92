/* The narrow float formats by whole-number arithmetic, in terms of lanes; compiled for scalars too.
 *
 * `vf_of_<format>_bits` widens the bits of a storage value; `vi_<format>_bits` rounds to nearest even and
 * gives the bits. bf16 and f16 overflow to infinity, f8 saturates to its largest value; NaN stays NaN.
 */
static inline vf vf_of_bf16_bits(vi x) {
    return vf_of_bits((vi)((vu)x << 16));
}

static inline vi vi_bf16_bits(vf x) {
    vu bits = (vu)vf_bits(x);
    vu rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return vi_select(vf_eq(x, x), (vi)(rounded >> 16), (vi)(bits >> 16 | 0x40));
}

/* Widens `fraction` bits below a 5-bit exponent, which is f32's biased by 112 less. A denormal is read as
 * 2^-14 plus itself, which is exact in f32. */
static inline vf vf_of_small_bits(vi sign, vi magnitude) {
    vi tiny = vf_bits(vf_of_bits(magnitude + (113 << 23)) - 0x1p-14f);
    vi finite = vi_select(vi_lt(magnitude, vi_of(1 << 23)), tiny, magnitude + (112 << 23));
    vi special =
        (magnitude + (224 << 23)) | vi_select(vi_gt(magnitude, vi_of(31 << 23)), vi_of(1 << 22), vi_of(0));
    return vf_of_bits(vi_select(vi_lt(magnitude, vi_of(31 << 23)), finite, special) | sign);
}

static inline vf vf_of_f16_bits(vi x) {
    return vf_of_small_bits((vi)(((vu)x & 0x8000) << 16), (x & 0x7fff) << 13);
}

/* Below 2^-14 the result is a denormal, in steps of 2^-24, to which adding 0.5 rounds. */
static inline vi vi_f16_bits(vf x) {
    vi bits = vf_bits(x), magnitude = bits & INT32_MAX, sign = (vi)((vu)bits >> 16) & 0x8000;
    vi tiny = vf_bits(vf_of_bits(magnitude) + 0.5f) - (126 << 23);
    vi normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112 << 23)) >> 13;
    vi finite = vi_select(vi_lt(magnitude, vi_of(113 << 23)), tiny, normal);
    vi special = vi_select(vf_eq(x, x), vi_of(0x7c00), vi_of(0x7e00));
    return sign | vi_select(vi_lt(magnitude, vi_of(0x477ff000)), finite, special);
}

static inline vf vf_of_f8e5m2_bits(vi x) {
    return vf_of_f16_bits((vi)((vu)x << 8));
}

/* Steps of 2^-16 below 2^-14; the largest value is 57344. */
static inline vi vi_f8e5m2_bits(vf x) {
    vi bits = vf_bits(x), magnitude = bits & INT32_MAX, sign = (vi)((vu)bits >> 24) & 0x80;
    vi tiny = vf_bits(vf_of_bits(magnitude) + 128.0f) - (134 << 23);
    vi normal = (magnitude + 0xfffff + ((magnitude >> 21) & 1) - (112 << 23)) >> 21;
    vi finite = vi_select(vi_lt(magnitude, vi_of(113 << 23)), tiny, normal);
    vi rounded = vi_select(vi_lt(magnitude, vi_of(143 << 23)), vi_min(finite, vi_of(0x7b)), vi_of(0x7b));
    return sign | vi_select(vf_eq(x, x), rounded, vi_of(0x7e));
}

/* Exponent bias 7, no infinity, NaN is all ones; a denormal is a multiple of 2^-9. */
static inline vf vf_of_f8e4m3_bits(vi x) {
    vi magnitude = (x & 0x7f) << 20;
    vi tiny = vf_bits(vf_of_bits(magnitude + (121 << 23)) - 0x1p-6f);
    vi finite = vi_select(vi_lt(magnitude, vi_of(1 << 23)), tiny, magnitude + (120 << 23));
    vi value = vi_select(vi_eq(magnitude, vi_of(0x7f << 20)), vi_of(0x7fc00000), finite);
    return vf_of_bits(value | (vi)(((vu)x & 0x80) << 24));
}

/* Steps of 2^-9 below 2^-6; the largest value is 448. */
static inline vi vi_f8e4m3_bits(vf x) {
    vi bits = vf_bits(x), magnitude = bits & INT32_MAX, sign = (vi)((vu)bits >> 24) & 0x80;
    vi tiny = vf_bits(vf_of_bits(magnitude) + 16384.0f) - (141 << 23);
    vi normal = (magnitude + 0x7ffff + ((magnitude >> 20) & 1) - (120 << 23)) >> 20;
    vi finite = vi_select(vi_lt(magnitude, vi_of(121 << 23)), tiny, normal);
    vi rounded = vi_select(vi_lt(magnitude, vi_of(136 << 23)), vi_min(finite, vi_of(0x7e)), vi_of(0x7e));
    return sign | vi_select(vf_eq(x, x), rounded, vi_of(0x7f));
}
