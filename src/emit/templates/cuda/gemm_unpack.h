/* Whole numbers of 8 and 4 bits as pairs of bf16 or f16, exact: for gemm_thin.h. */

/* Pairs of bf16: a + b, exact for small whole numbers. */
static __device__ inline uint32_t thin_add_bf16(uint32_t a, uint32_t b) {
#ifdef HR_EMULATED
    return bf16_pair(f32_from_bf16((uint16_t)a) + f32_from_bf16((uint16_t)b),
                     f32_from_bf16((uint16_t)(a >> 16)) + f32_from_bf16((uint16_t)(b >> 16)));
#else
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(0x3f803f80u), "r"(b));
    return r;
#endif
}

/* Pairs of f16: a + b; a / 16 + b. */
static __device__ inline uint32_t thin_add_f16(uint32_t a, uint32_t b) {
#ifdef HR_EMULATED
    return f16_pair(f32_from_f16((uint16_t)a) + f32_from_f16((uint16_t)b),
                    f32_from_f16((uint16_t)(a >> 16)) + f32_from_f16((uint16_t)(b >> 16)));
#else
    uint32_t r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
#endif
}

static __device__ inline uint32_t thin_sixteenth_f16(uint32_t a, uint32_t b) {
#ifdef HR_EMULATED
    return f16_pair(f32_from_f16((uint16_t)a) / 16 + f32_from_f16((uint16_t)b),
                    f32_from_f16((uint16_t)(a >> 16)) / 16 + f32_from_f16((uint16_t)(b >> 16)));
#else
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(0x2c002c00u), "r"(b));
    return r;
#endif
}

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

/* Bytes of a, 0 to 3, and of b, 4 to 7: those that the digits of `pick` name, the last one first. */
static __device__ inline uint32_t thin_pick(uint32_t a, uint32_t b, uint32_t pick) {
#ifdef HR_EMULATED
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t from = pick >> i * 4 & 7;
        r |= ((from < 4 ? a >> from * 8 : b >> (from - 4) * 8) & 0xff) << i * 8;
    }
    return r;
#else
    return __byte_perm(a, b, pick);
#endif
}

/* Bytes 0 and 1, or 2 and 3, each under the byte `over`. */
static __device__ inline uint32_t thin_under(uint32_t bytes, uint32_t over, int pair) {
    return thin_pick(bytes, over, pair ? 0x4342 : 0x4140);
}

/* Eight numbers of four bits, those of bytes 0 and 1, 2 and 3 in one register: low halves, then high ones.
 * FLIP: bits turned over; BIAS: what is added. bf16: they become the last bits of 128. */
template <int FLIP, int BIAS>
static __device__ inline void thin_halves_bf16(uint32_t word, uint32_t (&r)[4]) {
    const uint32_t flip = FLIP * 0x1010101u, more = bf16_pair(BIAS - 128, BIAS - 128);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t numbers = thin_field(word >> half * 4, 0x0f0f0f0fu, flip);
#pragma unroll
        for (int i = 0; i < 2; i++)
            r[half * 2 + i] = thin_add_bf16(thin_under(numbers, 0x43, i), more);
    }
}

/* f16: of 1024, which has room for 16 times a number, too. */
template <int FLIP, int BIAS> static __device__ inline void thin_halves_f16(uint32_t word, uint32_t (&r)[4]) {
    const uint32_t more = f16_pair(BIAS - 1024, BIAS - 1024), rest = f16_pair(BIAS - 64, BIAS - 64);
    word = thin_pick(word, 0, 0x3120); /* neighbours lie 16 bits apart then */
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t numbers = word >> i * 8;
        r[i] = thin_add_f16(thin_field(numbers, 0x000f000fu, 0x64006400u | FLIP * 0x10001u), more);
        r[2 + i] = thin_sixteenth_f16(thin_field(numbers, 0x00f000f0u, 0x64006400u | FLIP * 0x100010u), rest);
    }
}

/* Four numbers of eight bits. f16 as above. */
template <int FLIP, int BIAS> static __device__ inline void thin_whole_f16(uint32_t word, uint32_t (&r)[2]) {
    const uint32_t more = f16_pair(BIAS - 1024, BIAS - 1024);
    word = thin_pick(word, 0, 0x3120);
#pragma unroll
    for (int i = 0; i < 2; i++)
        r[i] = thin_add_f16(thin_field(word >> i * 8, 0x00ff00ffu, 0x64006400u | FLIP * 0x10001u), more);
}

/* bf16 has room for seven bits beside the 128. The first bit is the last one of an exponent: it makes -128 of
 * -256. */
template <int FLIP, int BIAS> static __device__ inline void thin_whole_bf16(uint32_t word, uint32_t (&r)[2]) {
    const uint32_t seven = thin_field(word, 0x7f7f7f7fu, (FLIP & 0x7f) * 0x1010101u);
    const uint32_t first = thin_field(word, 0x80808080u, (~FLIP & 0x80) * 0x1010101u);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r[i] = thin_add_bf16(thin_under(seven, 0x43, i), thin_under(first, 0xc3, i));
        if (BIAS != -128) r[i] = thin_add_bf16(r[i], bf16_pair(BIAS + 128, BIAS + 128));
    }
}
