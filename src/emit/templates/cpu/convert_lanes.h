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

/* Bytes of a vector's two halves, each beside 0 in a word's lower half: first of bytes 0 to 7, then of 8 to
 * 15; 128 gives 0. Unused where lanes are others, as the tables below. */
static const uint8_t wide_order[32] __attribute__((aligned(32), unused)) = {
    128, 128, 0, 1, 128, 128, 2,  3,  128, 128, 4,  5,  128, 128, 6,  7,
    128, 128, 8, 9, 128, 128, 10, 11, 128, 128, 12, 13, 128, 128, 14, 15};

/* Of 16 bytes: the lower halves of the words, then the upper ones. */
static const uint8_t mixed_order[32]
    __attribute__((aligned(32), unused)) = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,
                                            0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};

/* One operation on vectors, where a load that repeats 16 bytes costs none. */
static inline vf vf_load_bf16(const uint16_t *p) {
#if HR_LANES == 8
    vu r;
    __asm__("vbroadcasti128 %1, %0" : "=x"(r) : "m"(*(const vu16_loose *)p));
    __asm__("vpshufb %1, %0, %0" : "+x"(r) : "x"(*(const vu_loose *)(const void *)wide_order));
    return (vf)r;
#else
    return vf_from_bf16(*(const vu16_loose *)p);
#endif
}

static inline vf vf_load_part_bf16(const uint16_t *p, int count) {
    return vf_from_bf16(vu16_load_part(p, count));
}

/* Whether any lane of the two vectors is NaN */
#if HR_LANES == 8
static inline bool vf_any_nan(vf a, vf b) {
    vf unordered;
    int lanes;
    __asm__("vcmpunordps %2, %1, %0" : "=x"(unordered) : "x"(a), "x"(b));
    __asm__("vmovmskps %1, %0" : "=r"(lanes) : "x"(unordered));
    return lanes != 0;
}
#endif

/* Two vectors as bf16, those of `low` in the lower halves of the words. Half a unit is added to both; where
 * the half that is cut off is 0 then, it was just between two and the last bit goes, which is found for both
 * at once: there 0xfffe stays, elsewhere it saturates. Where not `long_nan`, NaN have no bits among those
 * that are cut off, and nothing is added to what stays. */
static inline vu vu_mixed_bf16(vf low, vf high, bool long_nan) {
    (void)long_nan;
#if HR_LANES == 8
    if (__builtin_expect(!long_nan || !vf_any_nan(low, high), 1)) {
        const vu half = (vu)vi_of(0x8000), even = (vu)vi_of((int32_t)0xfffefffe);
        const vu first = (vu)low + half, second = (vu)high + half;
        vu kept, cut;
        __asm__("vpblendw $0xaa, %2, %1, %0" : "=x"(kept) : "x"(first >> 16), "x"(second));
        __asm__("vpblendw $0xaa, %2, %1, %0" : "=x"(cut) : "x"(first), "x"(second << 16));
        __asm__("vpaddusw %2, %1, %0" : "=x"(cut) : "x"(cut), "x"(even));
        return kept & cut;
    }
#endif
    return (vu)vi_bf16_bits(low) | (vu)vi_bf16_bits(high) << 16;
}

static inline void vf_store_bf16(uint16_t *p, vf x) {
    *(vu16_loose *)p = vu16_bf16(x);
}

/* Two vectors of bf16 that lie side by side as words are widened by one operation each, where the order of
 * their lanes does not matter: way 0, 2, .. is the even elements, way 1, 3, .. the odd ones. Shifts and masks
 * leave the ports that move lanes to others. From a register: memory would be read once for each way. */
static inline vf vf_even_odd_bf16(vu words, int way) {
#if HR_LANES == 16
    vu r;
    if (way % 2)
        __asm__("vpandd %1, %2, %0" : "=v"(r) : "v"(words), "v"((vu){0} + 0xffff0000u));
    else
        __asm__("vpslld $16, %1, %0" : "=v"(r) : "v"(words));
    return (vf)r;
#else
    return way % 2 ? (vf)(words & 0xffff0000u) : (vf)(words << 16);
#endif
}

/* The same of the pair that begins at p, or, for the second vector, a vector before p. */
static inline vf vf_load_even_odd_bf16(const uint16_t *p, int way) {
    return vf_even_odd_bf16(*(const vu_loose *)(p - way % 2 * HR_LANES), way);
}

/* Where element i stands after all pairs of vectors of the first `even_odd` are walked as even and odd lanes.
 */
static inline int64_t even_odd_place(int64_t i, int64_t even_odd) {
    const int64_t in = i % (2 * HR_LANES), place = in % 2 * HR_LANES + in / 2;
    return i < even_odd ? i - in + place : i;
}

/* vm_at of the same: `lane` counts from where way's vector would begin in order. */
static inline vm vm_at_even_odd(int64_t lane, int way) {
    int64_t before = way % 2 * HR_LANES, in = lane + before;
    return vm_at(in >= 0 && in < 2 * HR_LANES ? even_odd_place(in, 2 * HR_LANES) - before : -1);
}

/* Pairs of vectors that are walked as even and odd lanes are put in order; `from` and `to` are whole pairs
 * apart. */
static inline void even_odd_undone(float *row, int64_t from, int64_t to) {
    for (; from < to; from += 2 * HR_LANES) {
        vf pair[2] = {*(vf_loose *)(row + from), *(vf_loose *)(row + from + HR_LANES)};
#if HR_LANES == 8
        vf low, high;
        __asm__("vunpcklps %2, %1, %0" : "=x"(low) : "x"(pair[0]), "x"(pair[1]));
        __asm__("vunpckhps %2, %1, %0" : "=x"(high) : "x"(pair[0]), "x"(pair[1]));
        __asm__("vperm2f128 $0x20, %2, %1, %0" : "=x"(pair[0]) : "x"(low), "x"(high));
        __asm__("vperm2f128 $0x31, %2, %1, %0" : "=x"(pair[1]) : "x"(low), "x"(high));
        *(vf_loose *)(row + from) = pair[0];
        *(vf_loose *)(row + from + HR_LANES) = pair[1];
#elif HR_LANES == 16
        const vi lane = vi_iota(), place = lane % 2 * HR_LANES + lane / 2;
        for (int way = 0; way < 2; way++) {
            vf r = pair[0];
            __asm__("vpermt2ps %2, %1, %0" : "+v"(r) : "v"(place + way * (HR_LANES / 2)), "v"(pair[1]));
            *(vf_loose *)(row + from + way * HR_LANES) = r;
        }
#else
        for (int64_t i = 0; i < 2 * HR_LANES; i++) {
            int64_t place = even_odd_place(i, 2 * HR_LANES);
            row[from + i] = pair[place / HR_LANES][place % HR_LANES];
        }
#endif
    }
}

#if HR_LANES == 16
/* The words of these numbers, two a lane, but 0 for the lower ones where `upper`. Intel's cores move bytes in
 * one operation and words in two. */
static inline vu vu_moved_words(vu words, vu numbers, bool upper) {
    vu r;
#ifdef __AVX512VBMI__
    const uint64_t kept = upper ? UINT64_C(0xcccccccccccccccc) : UINT64_MAX;
    __asm__("vpermb %1, %2, %0%{%3%}%{z%}"
            : "=v"(r)
            : "v"(words), "v"(numbers * 0x202 + 0x01000100), "Yk"(kept));
#else
    const uint32_t kept = upper ? 0xaaaaaaaa : UINT32_MAX;
    __asm__("vpermw %1, %2, %0%{%3%}%{z%}" : "=v"(r) : "v"(words), "v"(numbers), "Yk"(kept));
#endif
    return r;
}
#endif

/* The vector at p, the first (way 0, 2, ..) or the second of a pair that is read whole, in order. */
static inline vf vf_load_pair_bf16(const uint16_t *p, int way) {
#if HR_LANES == 16
    const vu words = *(const vu_loose *)(p - way % 2 * HR_LANES);
    return (vf)vu_moved_words(words, ((vu)vi_iota() + (uint32_t)(way % 2 * HR_LANES)) << 16, true);
#else
    (void)way;
    return vf_load_bf16(p);
#endif
}

/* Whether a product of `factor` and one of the two vectors' elements at p may be a denormal. As f16 the
 * elements below 2^-119 would be. */
static inline bool bf16_pair_is_tiny(const uint16_t *p, float factor) {
#if HR_LANES == 16 && defined __AVX512FP16__
    uint32_t tiny;
    __asm__("vfpclassph $0x20, %1, %0" : "=k"(tiny) : "v"(*(const vu_loose *)p));
    return tiny || !(fabsf(factor) >= 0x1p-7f);
#else
    (void)p;
    (void)factor;
    return true;
#endif
}

/* Two vectors as bf16, `low` in the first half of the words. A branch on words of 0, which alone can stand
 * for a denormal, would be cheaper where there are none, but guessed wrong where there are some. Where not
 * `tiny`, denormals may become 0; `long_nan` as above. */
static inline vu vu_pair_bf16(vf low, vf high, bool tiny, bool long_nan) {
#if HR_LANES == 16 && defined __AVX512BF16__
    vu words;
    vm low_denormal, high_denormal;
    bool none;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(words) : "v"(low), "v"(high));
    if (!tiny) return words;
    __asm__("vfpclassps $0x20, %1, %0" : "=k"(low_denormal) : "v"(low));
    __asm__("vfpclassps $0x20, %1, %0" : "=k"(high_denormal) : "v"(high));
    __asm__("kortestw %1, %2" : "=@ccz"(none) : "k"(low_denormal), "k"(high_denormal));
    if (__builtin_expect(none, 1)) return words;
#else
    (void)tiny;
#endif
    (void)long_nan;
#if HR_LANES == 8
    vu words = vu_mixed_bf16(low, high, long_nan), ordered;
    __asm__("vpshufb %2, %1, %0"
            : "=x"(words)
            : "x"(words), "x"(*(const vu_loose *)(const void *)mixed_order));
    __asm__("vpermq $0xd8, %1, %0" : "=x"(ordered) : "x"(words));
    return ordered;
#else
    union {
        vu16 half[2];
        vu whole;
    } both = {{vu16_bf16(low), vu16_bf16(high)}};
    return both.whole;
#endif
}

/* As vu_pair_bf16 where the two vectors are in the order of vf_load_even_odd_bf16. */
static inline vu vu_even_odd_bf16(vf first, vf second, bool tiny, bool long_nan) {
#if HR_LANES == 16 && defined __AVX512BF16__
    const vu words = vu_pair_bf16(first, second, tiny, long_nan);
    return vu_moved_words(words, (vu)vi_iota() * 0x10001 + 0x100000, false);
#else
    (void)tiny;
    return vu_mixed_bf16(first, second, long_nan);
#endif
}

static inline void vf_store_pair_bf16(uint16_t *p, vf low, vf high, bool tiny, bool long_nan) {
    *(vu_loose *)p = vu_pair_bf16(low, high, tiny, long_nan);
}

static inline void vf_store_even_odd_bf16(uint16_t *p, vf first, vf second, bool tiny, bool long_nan) {
    *(vu_loose *)p = vu_even_odd_bf16(first, second, tiny, long_nan);
}

static inline void vf_store_part_bf16(uint16_t *p, vf x, int count) {
    vu16_store_part(p, vu16_bf16(x), count);
}

static inline vf vf_round_bf16(vf x) {
#if HR_LANES == 16
    return vf_from_bf16(vu16_bf16(x));
#else
    return vf_of_bf16_bits(vi_bf16_bits(x));
#endif
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
