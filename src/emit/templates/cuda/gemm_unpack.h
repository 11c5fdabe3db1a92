/* Whole numbers of 8 and 4 bits as pairs of bf16 or f16, exact: for gemm_thin.h. */

/* Pairs of bf16: a whole number in the last bits of 128 adds to it. add(): a + b, exact. */
struct thin_bf16 {
    static constexpr int base = 128;
    static constexpr uint32_t base_bits = 0x43004300u;
    static __device__ inline uint32_t pair(float a, float b) { return bf16_pair(a, b); }
    static __device__ inline uint32_t add(uint32_t a, uint32_t b) {
#ifdef HR_EMULATED
        return bf16_pair(f32_from_bf16((uint16_t)a) + f32_from_bf16((uint16_t)b),
                         f32_from_bf16((uint16_t)(a >> 16)) + f32_from_bf16((uint16_t)(b >> 16)));
#else
        uint32_t r;
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(0x3f803f80u), "r"(b));
        return r;
#endif
    }
};

/* Pairs of f16: one in those of 1024. */
struct thin_f16 {
    static constexpr int base = 1024;
    static constexpr uint32_t base_bits = 0x64006400u;
    static __device__ inline uint32_t pair(float a, float b) { return f16_pair(a, b); }
    static __device__ inline uint32_t add(uint32_t a, uint32_t b) {
#ifdef HR_EMULATED
        return f16_pair(f32_from_f16((uint16_t)a) + f32_from_f16((uint16_t)b),
                        f32_from_f16((uint16_t)(a >> 16)) + f32_from_f16((uint16_t)(b >> 16)));
#else
        uint32_t r;
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
        return r;
#endif
    }
};

/* x & mask ^ bits, in one instruction. */
static __device__ inline uint32_t thin_field(uint32_t x, uint32_t mask, uint32_t bits) {
#ifdef HR_EMULATED
    return (x & mask) ^ bits;
#else
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(bits));
    return r;
#endif
}

/* Bytes 0, 2, 1, 3: neighbours lie 16 bits apart then. */
static __device__ inline uint32_t thin_apart(uint32_t word) {
#ifdef HR_EMULATED
    return (word & 0xff0000ffu) | (word >> 8 & 0xff00u) | (word & 0xff00u) << 8;
#else
    return __byte_perm(word, 0, 0x3120);
#endif
}

/* Eight numbers of four bits, those of bytes 0 and 1, 2 and 3 in one register: low halves, then high ones.
 * They become the last bits of PAIRS' base. FLIP: bits turned over; BIAS: what is added. */
template <class PAIRS, int FLIP, int BIAS>
static __device__ inline void thin_halves(uint32_t word, uint32_t (&r)[4]) {
    word = thin_apart(word);
    const uint32_t more = PAIRS::pair(BIAS - PAIRS::base, BIAS - PAIRS::base);
#pragma unroll
    for (int i = 0; i < 4; i++)
        r[i] = PAIRS::add(
            thin_field(word >> (i % 2 * 8 + i / 2 * 4), 0x000f000fu, PAIRS::base_bits | FLIP * 0x10001u),
            more);
}

/* Four numbers of eight bits: f16 as above. bf16 has no room for all eight beside the 128: by way of f32, in
 * order. */
template <int FLIP, int BIAS> static __device__ inline void thin_whole_f16(uint32_t word, uint32_t (&r)[2]) {
    word = thin_apart(word);
    const uint32_t more = f16_pair(BIAS - 1024, BIAS - 1024);
#pragma unroll
    for (int i = 0; i < 2; i++)
        r[i] = thin_f16::add(thin_field(word >> i * 8, 0x00ff00ffu, 0x64006400u | FLIP * 0x10001u), more);
}

template <int FLIP, int BIAS> static __device__ inline void thin_whole_bf16(uint32_t word, uint32_t (&r)[2]) {
    uint32_t bits[4];
    word ^= FLIP * 0x1010101u;
#pragma unroll
    for (int i = 0; i < 4; i++) {
#ifdef HR_EMULATED
        const uint32_t large = 0x4b000000u | (word >> i * 8 & 0xff);
#else
        const uint32_t large = __byte_perm(word, 0x4b000000u, 0x7440 + i);
#endif
        bits[i] = (uint32_t)f32_bits(f32_of_bits((int32_t)large) - (float)(8388608 - BIAS));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
#ifdef HR_EMULATED
        r[i] = bits[2 * i] >> 16 | (bits[2 * i + 1] & 0xffff0000u);
#else
        r[i] = __byte_perm(bits[2 * i], bits[2 * i + 1], 0x7632);
#endif
    }
}
