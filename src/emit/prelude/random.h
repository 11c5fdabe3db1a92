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

/* Blocks side by side in 64-bit lanes: the lower half of each is a word, the upper half is ignored. */
#define HR_BLOCKS (HR_LANES / 2)

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

/* Lane 2i works on block i and lane 2i + 1 on block HR_BLOCKS / 2 + i, so that unpacking restores the order.
 */
static inline vblock vblock_order(void) {
    vblock order = {0};
    for (int lane = 0; lane < HR_BLOCKS; lane++)
        order[lane] = (uint64_t)(lane / 2 + lane % 2 * (HR_BLOCKS / 2));
    return order;
}

/* The even (odd) lanes of two vectors, by turns. */
static inline vblock vblock_unpack(vblock a, vblock b, int odd) {
    vblock r = {0};
#if HR_LANES >= 8
    if (odd)
        __asm__("vpunpckhqdq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    else
        __asm__("vpunpcklqdq %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
#else
    for (int lane = 0; lane < HR_BLOCKS; lane += 2)
        r[lane] = a[lane + odd], r[lane + 1] = b[lane + odd];
#endif
    return r;
}

static inline vf vf_of_words(vblock words) {
    return vf_from_vi((vi)((vu)words >> 8)) * 0x1p-24f;
}

/* The 4 * HR_BLOCKS numbers of the blocks from `block` on. */
static inline void random_blocks(uint64_t seed, uint64_t block, float *out) {
    vblock index = vblock_order() + block, a = index, b = index >> 32, c = {0}, d = {0};
    uint64_t key_a = seed & 0xffffffff, key_b = seed >> 32;
    for (int round = 0; round < 10; round++) {
        vblock left = vblock_multiply(a, (vblock){0} + 0xD2511F53u),
               right = vblock_multiply(c, (vblock){0} + 0xCD9E8D57u);
        a = (right >> 32) ^ b ^ key_a;
        c = (left >> 32) ^ d ^ key_b;
        b = right;
        d = left;
        key_a = (uint32_t)(key_a + 0x9E3779B9u);
        key_b = (uint32_t)(key_b + 0xBB67AE85u);
    }
    vblock front = (a & 0xffffffff) | b << 32, back = (c & 0xffffffff) | d << 32;
    vf_store_f32(out, vf_of_words(vblock_unpack(front, back, 0)));
    vf_store_f32(out + HR_LANES, vf_of_words(vblock_unpack(front, back, 1)));
}

/* out[i] = random(seed, counter + i). Whole groups of blocks are written in place, ragged ends through a
 * buffer. */
static inline void random_fill(uint64_t seed, uint64_t counter, int64_t count, float *out) {
    int64_t i = -(int64_t)(counter % 4);
    uint64_t block = (uint64_t)((int64_t)counter >> 2);
    for (; i < count; i += 4 * HR_BLOCKS, block += HR_BLOCKS) {
        if (i >= 0 && i + 4 * HR_BLOCKS <= count) {
            random_blocks(seed, block, out + i);
            continue;
        }
        float buffer[4 * HR_BLOCKS];
        random_blocks(seed, block, buffer);
        for (int64_t k = i < 0 ? -i : 0; k < 4 * HR_BLOCKS && i + k < count; k++)
            out[i + k] = buffer[k];
    }
}
