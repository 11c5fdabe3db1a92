/* Uniform numbers in [0, 1): word counter % 4 of Philox4x32-10, block counter // 4, key seed. */
typedef struct philox_block {
    uint32_t word[4];
} philox_block;

static inline philox_block philox(uint64_t seed, uint64_t block) {
    uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32), c = 0, d = 0;
    uint32_t key_a = (uint32_t)seed, key_b = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)a * 0xD2511F53u, right = (uint64_t)c * 0xCD9E8D57u;
        a = (uint32_t)(right >> 32) ^ b ^ key_a;
        c = (uint32_t)(left >> 32) ^ d ^ key_b;
        b = (uint32_t)right;
        d = (uint32_t)left;
        key_a += 0x9E3779B9u;
        key_b += 0xBB67AE85u;
    }
    return (philox_block){{a, b, c, d}};
}

/* A counter is a signed whole number that was cast: block counter // 4 rounds down. */
static inline float f32_random(uint64_t seed, uint64_t counter) {
    return (float)(philox(seed, (uint64_t)((int64_t)counter >> 2)).word[counter & 3] >> 8) * 0x1p-24f;
}

/* 64-bit lanes, of which multiplications read the lower halves */
typedef uint64_t vblock __attribute__((vector_size(4 * HR_LANES)));

/* The product of the lower halves. */
static inline vblock vblock_multiply(vblock a, vblock b) {
#if HR_LANES >= 8
    vblock r;
    __asm__("vpmuludq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return r;
#else
    return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

/* A key in every lane: of 64 bits, or of 32 where words stand so. */
static inline vblock vblock_key(uint64_t key) {
#if HR_LANES >= 8
    return (vblock)((vu){0} + (uint32_t)key);
#else
    return (vblock){0} + key;
#endif
}

/* The keys of all rounds, each in every lane: made once, then operands that come from memory beside other
 * work. So are the factors of words that stand so. */
typedef struct random_keys {
    vblock a[10], b[10];
#if HR_LANES >= 8
    vblock factor_a, factor_c;
    vblock ends; /* those of the last round, side by side */
#endif
} random_keys;

static inline random_keys random_keys_of(uint64_t seed) {
    random_keys keys;
    for (int round = 0; round < 10; round++) {
        keys.a[round] = vblock_key(seed + (uint64_t)round * 0x9E3779B9u);
        keys.b[round] = vblock_key((seed >> 32) + (uint64_t)round * 0xBB67AE85u);
    }
#if HR_LANES >= 8
    keys.factor_a = vblock_key(0xD2511F53u);
    keys.factor_c = vblock_key(0xCD9E8D57u);
    keys.ends = (keys.a[9] & 0xffffffff) | keys.b[9] << 32;
#endif
    return keys;
}
