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

/* out[i] = random(seed, counter + i) */
static inline void random_fill(uint64_t seed, uint64_t counter, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = f32_random(seed, counter + (uint64_t)i);
}
