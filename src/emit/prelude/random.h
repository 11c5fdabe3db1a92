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

/* The upper halves, moved down. A shift would do but keep the port of the multiplications from them. */
static inline vblock vblock_upper(vblock x) {
#if HR_LANES >= 8
    vblock r;
    __asm__("vpshufd $0xf5, %1, %0" : "=v"(r) : "v"(x));
    return r;
#else
    return x >> 32;
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

/* The words of HR_BLOCKS blocks */
typedef struct philox_lanes {
    vblock a, b, c, d;
} philox_lanes;

static inline philox_lanes philox_lanes_begin(uint64_t block) {
    vblock index = vblock_order() + block;
    return (philox_lanes){index, index >> 32, {0}, {0}};
}

static inline philox_lanes philox_lanes_round(philox_lanes x, vblock key_a, vblock key_b) {
    vblock left = vblock_multiply(x.a, (vblock){0} + 0xD2511F53u),
           right = vblock_multiply(x.c, (vblock){0} + 0xCD9E8D57u);
    return (philox_lanes){vblock_upper(right) ^ x.b ^ key_a, right, vblock_upper(left) ^ x.d ^ key_b, left};
}

static inline void philox_lanes_store(philox_lanes x, float *out) {
    vblock front = (x.a & 0xffffffff) | x.b << 32, back = (x.c & 0xffffffff) | x.d << 32;
    vf_store_f32(out, vf_of_words(vblock_unpack(front, back, 0)));
    vf_store_f32(out + HR_LANES, vf_of_words(vblock_unpack(front, back, 1)));
}

/* The keys of all rounds, each in every lane: made once, then operands that come from memory beside other
 * work. */
typedef struct random_keys {
    vblock a[10], b[10];
} random_keys;

static inline random_keys random_keys_of(uint64_t seed) {
    random_keys keys;
    for (int round = 0; round < 10; round++) {
        keys.a[round] = (vblock){0} + (seed + (uint64_t)round * 0x9E3779B9u);
        keys.b[round] = (vblock){0} + ((seed >> 32) + (uint64_t)round * 0xBB67AE85u);
    }
    return keys;
}

/* The HR_RANDOM_GROUP numbers of the blocks from `block` on, in four parts side by side: a round takes 7
 * cycles until its result is there, 3 a part until the ports are free again. */
#define HR_RANDOM_HALF  (8 * HR_BLOCKS)
#define HR_RANDOM_GROUP (2 * HR_RANDOM_HALF)

/* The first two rounds of blocks whose numbers share their upper word: it and the two words that are 0 leave
 * one multiplication of four, that of `right`. `left` is the lower word's first product. */
static inline philox_lanes philox_lanes_begun(const random_keys *keys, vblock left, uint64_t upper) {
    const uint64_t second = (uint32_t)(upper ^ keys->a[0][0]) * UINT64_C(0xD2511F53);
    vblock right = vblock_multiply(vblock_upper(left) ^ keys->b[0], (vblock){0} + 0xCD9E8D57u);
    return (philox_lanes){vblock_upper(right) ^ keys->a[1], right, left ^ ((second >> 32) ^ keys->b[1]),
                          (vblock){0} + second};
}

/* The lower word of the last block's number is that of the first and what is between. */
static inline void random_group(const random_keys *keys, uint64_t block, float *out) {
    const uint64_t upper = block >> 32, part = HR_BLOCKS * UINT64_C(0xD2511F53);
    vblock left = vblock_multiply(vblock_order() + (uint32_t)block, (vblock){0} + 0xD2511F53u);
    philox_lanes w = philox_lanes_begun(keys, left, upper), x = philox_lanes_begun(keys, left + part, upper),
                 y = philox_lanes_begun(keys, left + 2 * part, upper),
                 z = philox_lanes_begun(keys, left + 3 * part, upper);
/* Unrolled, it would hold keys in registers and the four parts' words in memory. */
#pragma GCC unroll 1
    for (int round = 2; round < 10; round++) {
        const vblock a = keys->a[round], b = keys->b[round];
        w = philox_lanes_round(w, a, b);
        x = philox_lanes_round(x, a, b);
        y = philox_lanes_round(y, a, b);
        z = philox_lanes_round(z, a, b);
    }
    philox_lanes_store(w, out);
    philox_lanes_store(x, out + HR_RANDOM_HALF / 2);
    philox_lanes_store(y, out + HR_RANDOM_HALF);
    philox_lanes_store(z, out + HR_RANDOM_HALF / 2 * 3);
}

/* Half a group, for what is less than one */
static inline void random_half(const random_keys *keys, uint64_t block, float *out) {
    philox_lanes x = philox_lanes_begin(block), y = philox_lanes_begin(block + HR_BLOCKS);
#pragma GCC unroll 1
    for (int round = 0; round < 10; round++) {
        x = philox_lanes_round(x, keys->a[round], keys->b[round]);
        y = philox_lanes_round(y, keys->a[round], keys->b[round]);
    }
    philox_lanes_store(x, out);
    philox_lanes_store(y, out + HR_RANDOM_HALF / 2);
}

/* out[i] = random(seed, counter + i). Whole groups and halves are written in place, ragged ends through a
 * buffer. */
static inline void random_fill(const random_keys *keys, uint64_t counter, int64_t count, float *out) {
    const int64_t first = -(int64_t)(counter % 4);
    const uint64_t block = (uint64_t)((int64_t)counter >> 2);
    for (int64_t i = first, step; i < count; i += step) {
        const uint64_t here = block + (uint64_t)(i - first) / 4;
        const bool share = (uint32_t)here <= UINT32_MAX - 4 * HR_BLOCKS; /* the upper word of their number */
        step = i >= 0 && i + HR_RANDOM_GROUP <= count && share ? HR_RANDOM_GROUP : HR_RANDOM_HALF;
        if (step == HR_RANDOM_GROUP) {
            random_group(keys, here, out + i);
        } else if (i >= 0 && i + HR_RANDOM_HALF <= count) {
            random_half(keys, here, out + i);
        } else {
            float buffer[HR_RANDOM_HALF];
            random_half(keys, here, buffer);
            for (int64_t k = i < 0 ? -i : 0; k < HR_RANDOM_HALF && i + k < count; k++)
                out[i + k] = buffer[k];
        }
    }
}
