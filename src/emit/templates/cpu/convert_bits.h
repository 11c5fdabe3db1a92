/* The narrow float formats by whole-number arithmetic, in terms of lanes; compiled for scalars too.
 *
 * `VF_of_<format>_bits` widens the bits of a storage value; `VI_<format>_bits` rounds to nearest even and
 * gives the bits. bf16 and f16 overflow to infinity, f8 saturates to its largest value; NaN stays NaN.
 */
STATIC_INLINE VF VF_of_bf16_bits(VI x) {
    return VF_of_bits((VI)((VU)x << 16));
}

STATIC_INLINE VI VI_bf16_bits(VF x) {
    VU bits = (VU)VF_bits(x);
    VU rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return VI_select(VF_eq(x, x), (VI)(rounded >> 16), (VI)(bits >> 16 | 0x40));
}

/* Widens `fraction` bits below a 5-bit exponent, which is f32's biased by 112 less. A denormal is read as
 * 2^-14 plus itself, which is exact in f32. */
STATIC_INLINE VF VF_of_small_bits(VI sign, VI magnitude) {
    VI tiny = VF_bits(VF_of_bits(magnitude + (113 << 23)) - 0x1p-14f);
    VI finite = VI_select(VI_lt(magnitude, VI_of(1 << 23)), tiny, magnitude + (112 << 23));
    VI special =
        (magnitude + (224 << 23)) | VI_select(VI_gt(magnitude, VI_of(31 << 23)), VI_of(1 << 22), VI_of(0));
    return VF_of_bits(VI_select(VI_lt(magnitude, VI_of(31 << 23)), finite, special) | sign);
}

STATIC_INLINE VF VF_of_f16_bits(VI x) {
    return VF_of_small_bits((VI)(((VU)x & 0x8000) << 16), (x & 0x7fff) << 13);
}

/* Below 2^-14 the result is a denormal, in steps of 2^-24, to which adding 0.5 rounds. */
STATIC_INLINE VI VI_f16_bits(VF x) {
    VI bits = VF_bits(x), magnitude = bits & INT32_MAX, sign = (VI)((VU)bits >> 16) & 0x8000;
    VI tiny = VF_bits(VF_of_bits(magnitude) + 0.5f) - (126 << 23);
    VI normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112 << 23)) >> 13;
    VI finite = VI_select(VI_lt(magnitude, VI_of(113 << 23)), tiny, normal);
    VI special = VI_select(VF_eq(x, x), VI_of(0x7c00), VI_of(0x7e00));
    return sign | VI_select(VI_lt(magnitude, VI_of(0x477ff000)), finite, special);
}

STATIC_INLINE VF VF_of_f8e5m2_bits(VI x) {
    return VF_of_f16_bits((VI)((VU)x << 8));
}

/* Steps of 2^-16 below 2^-14; the largest value is 57344. */
STATIC_INLINE VI VI_f8e5m2_bits(VF x) {
    VI bits = VF_bits(x), magnitude = bits & INT32_MAX, sign = (VI)((VU)bits >> 24) & 0x80;
    VI tiny = VF_bits(VF_of_bits(magnitude) + 128.0f) - (134 << 23);
    VI normal = (magnitude + 0xfffff + ((magnitude >> 21) & 1) - (112 << 23)) >> 21;
    VI finite = VI_select(VI_lt(magnitude, VI_of(113 << 23)), tiny, normal);
    VI rounded = VI_select(VI_lt(magnitude, VI_of(143 << 23)), VI_min(finite, VI_of(0x7b)), VI_of(0x7b));
    return sign | VI_select(VF_eq(x, x), rounded, VI_of(0x7e));
}

/* Exponent bias 7, no infinity, NaN is all ones; a denormal is a multiple of 2^-9. */
STATIC_INLINE VF VF_of_f8e4m3_bits(VI x) {
    VI magnitude = (x & 0x7f) << 20;
    VI tiny = VF_bits(VF_of_bits(magnitude + (121 << 23)) - 0x1p-6f);
    VI finite = VI_select(VI_lt(magnitude, VI_of(1 << 23)), tiny, magnitude + (120 << 23));
    VI value = VI_select(VI_eq(magnitude, VI_of(0x7f << 20)), VI_of(0x7fc00000), finite);
    return VF_of_bits(value | (VI)(((VU)x & 0x80) << 24));
}

/* Steps of 2^-9 below 2^-6; the largest value is 448. */
STATIC_INLINE VI VI_f8e4m3_bits(VF x) {
    VI bits = VF_bits(x), magnitude = bits & INT32_MAX, sign = (VI)((VU)bits >> 24) & 0x80;
    VI tiny = VF_bits(VF_of_bits(magnitude) + 16384.0f) - (141 << 23);
    VI normal = (magnitude + 0x7ffff + ((magnitude >> 20) & 1) - (120 << 23)) >> 20;
    VI finite = VI_select(VI_lt(magnitude, VI_of(121 << 23)), tiny, normal);
    VI rounded = VI_select(VI_lt(magnitude, VI_of(136 << 23)), VI_min(finite, VI_of(0x7e)), VI_of(0x7e));
    return sign | VI_select(VF_eq(x, x), rounded, VI_of(0x7f));
}
