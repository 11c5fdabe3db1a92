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

/* The same values two vectors at a time: way 0, 2, .. is the even elements of the pair that begins at p, way
 * 1, 3, .. the odd ones of the pair that began a vector before p. Widening them is one operation instead of
 * two. */
static inline vf vf_load_turn_bf16(const uint16_t *p, int way) {
    return way % 2 ? (vf)(*(const vu_loose *)(p - HR_LANES) & 0xffff0000u) : (vf)(*(const vu_loose *)p << 16);
}

/* Where element i stands after all pairs of vectors of the first `turned` were taken by turns. */
static inline int64_t turn_place(int64_t i, int64_t turned) {
    return i < turned ? i / (2 * HR_LANES) * (2 * HR_LANES) + i % 2 * HR_LANES + i % (2 * HR_LANES) / 2 : i;
}

/* The vector at p, the first (way 0, 2, ..) or the second of a pair that is read whole. A permutation into
 * the upper halves is one operation where widening and shifting are two. */
static inline vf vf_load_pair_bf16(const uint16_t *p, int way) {
#if HR_LANES == 16
    vu order = (vu)vi_iota() << 16, words = *(const vu_loose *)(p - way % 2 * HR_LANES), r;
    if (way % 2) order += 0x100000;
    __asm__("vpermw %1, %2, %0%{%3%}%{z%}" : "=v"(r) : "vm"(words), "v"(order), "Yk"(0xaaaaaaaau));
    return (vf)r;
#else
    (void)way;
    return vf_load_bf16(p);
#endif
}

/* Two vectors as bf16, `low` in the first half of the words. A branch on words of 0, which alone can stand
 * for a denormal, would be cheaper where there are none, but guessed wrong where there are some. */
static inline vu vu_pair_bf16(vf low, vf high) {
#if HR_LANES == 16 && defined __AVX512BF16__
    vu words;
    vm low_denormal, high_denormal;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words) : "v"(low), "v"(high));
    __asm__("vfpclassps $0x20, %1, %0" : "=k"(low_denormal) : "v"(low));
    __asm__("vfpclassps $0x20, %1, %0" : "=k"(high_denormal) : "v"(high));
    if (__builtin_expect((low_denormal | high_denormal) == 0, 1)) return words;
#endif
    union {
        vu16 half[2];
        vu whole;
    } both = {{vu16_bf16(low), vu16_bf16(high)}};
    return both.whole;
}

/* As vu_pair_bf16 where the first vector is the even elements and the second the odd ones. */
static inline vu vu_turns_bf16(vf even, vf odd) {
#if HR_LANES == 16 && defined __AVX512BF16__
    static const vu order = {0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007,
                             0x180008, 0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f};
    vu words = vu_pair_bf16(even, odd), ordered;
    __asm__("vpermw %1, %2, %0" : "=v"(ordered) : "v"(words), "v"(order));
    return ordered;
#else
    return (vu)vi_bf16_bits(even) | (vu)vi_bf16_bits(odd) << 16;
#endif
}

static inline void vf_store_pair_bf16(uint16_t *p, vf low, vf high) {
    *(vu_loose *)p = vu_pair_bf16(low, high);
}

static inline void vf_store_turns_bf16(uint16_t *p, vf even, vf odd) {
    *(vu_loose *)p = vu_turns_bf16(even, odd);
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
