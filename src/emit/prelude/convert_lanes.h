/* Loads and stores of the narrow float formats, and rounding through them. */
#define HR_F16C (HR_LANES >= 8)

static inline vf vf_from_f16(vu16 h) {
#if HR_F16C
    vf r;
    __asm__("vcvtph2ps %1, %0" : "=v"(r) : "v"(h));
    return r;
#else
    return vf_of_f16_bits(vi_from_vu16(h));
#endif
}

static inline vu16 vu16_f16(vf x) {
#if HR_F16C
    vu16 r;
    __asm__("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(x));
    return r;
#else
    return __builtin_convertvector(vi_f16_bits(x), vu16);
#endif
}

static inline vf vf_from_bf16(vu16 h) {
    return vf_of_bf16_bits(vi_from_vu16(h));
}

/* The instruction takes f32 denormals for 0, which bf16 can hold: a vector with one goes the long way. */
static inline vu16 vu16_bf16(vf x) {
#if HR_LANES == 16 && defined __AVX512BF16__
    vu16 r;
    vm denormal;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(x));
    __asm__("vfpclassps $0x20, %1, %0" : "=k"(denormal) : "v"(x));
    if (__builtin_expect(denormal == 0, 1)) return r;
#endif
    return __builtin_convertvector(vi_bf16_bits(x), vu16);
}

static inline vf vf_from_f8e4m3(vu8 h) {
    return vf_of_f8e4m3_bits(vi_from_vu8(h));
}

static inline vu8 vu8_f8e4m3(vf x) {
    return __builtin_convertvector(vi_f8e4m3_bits(x), vu8);
}

static inline vf vf_from_f8e5m2(vu8 h) {
    return vf_from_f16(__builtin_convertvector(h, vu16) << 8);
}

static inline vu8 vu8_f8e5m2(vf x) {
    return __builtin_convertvector(vi_f8e5m2_bits(x), vu8);
}

static inline vf vf_load_f16(const uint16_t *p) {
    return vf_from_f16(*(const vu16_loose *)p);
}

static inline vf vf_load_part_f16(const uint16_t *p, int count) {
    return vf_from_f16(vu16_load_part(p, count));
}

static inline void vf_store_f16(uint16_t *p, vf x) {
    *(vu16_loose *)p = vu16_f16(x);
}

static inline void vf_store_part_f16(uint16_t *p, vf x, int count) {
    vu16_store_part(p, vu16_f16(x), count);
}

static inline vf vf_round_f16(vf x) {
    return vf_from_f16(vu16_f16(x));
}

static inline vf vf_load_bf16(const uint16_t *p) {
    return vf_from_bf16(*(const vu16_loose *)p);
}

static inline vf vf_load_part_bf16(const uint16_t *p, int count) {
    return vf_from_bf16(vu16_load_part(p, count));
}

static inline void vf_store_bf16(uint16_t *p, vf x) {
    *(vu16_loose *)p = vu16_bf16(x);
}

static inline void vf_store_part_bf16(uint16_t *p, vf x, int count) {
    vu16_store_part(p, vu16_bf16(x), count);
}

static inline vf vf_round_bf16(vf x) {
    return vf_from_bf16(vu16_bf16(x));
}

static inline vf vf_load_f8e4m3(const uint8_t *p) {
    return vf_from_f8e4m3(*(const vu8_loose *)p);
}

static inline vf vf_load_part_f8e4m3(const uint8_t *p, int count) {
    return vf_from_f8e4m3(vu8_load_part(p, count));
}

static inline void vf_store_f8e4m3(uint8_t *p, vf x) {
    *(vu8_loose *)p = vu8_f8e4m3(x);
}

static inline void vf_store_part_f8e4m3(uint8_t *p, vf x, int count) {
    vu8_store_part(p, vu8_f8e4m3(x), count);
}

static inline vf vf_round_f8e4m3(vf x) {
    return vf_from_f8e4m3(vu8_f8e4m3(x));
}

static inline vf vf_load_f8e5m2(const uint8_t *p) {
    return vf_from_f8e5m2(*(const vu8_loose *)p);
}

static inline vf vf_load_part_f8e5m2(const uint8_t *p, int count) {
    return vf_from_f8e5m2(vu8_load_part(p, count));
}

static inline void vf_store_f8e5m2(uint8_t *p, vf x) {
    *(vu8_loose *)p = vu8_f8e5m2(x);
}

static inline void vf_store_part_f8e5m2(uint8_t *p, vf x, int count) {
    vu8_store_part(p, vu8_f8e5m2(x), count);
}

static inline vf vf_round_f8e5m2(vf x) {
    return vf_from_f8e5m2(vu8_f8e5m2(x));
}
