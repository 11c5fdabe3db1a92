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

/* The lower halves of two vectors side by side: `low` stays where it is. */
static inline vblock vblock_pair(vblock low, vblock high) {
#if HR_LANES == 16
    __asm__("vpshufd $0xa0, %1, %0%{%2%}" : "+v"(low) : "v"(high), "Yk"((vm)0xaaaa));
    return low;
#else
    return (low & 0xffffffff) | high << 32;
#endif
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

static inline void philox_lanes_store(philox_lanes x, uint32_t *out) {
    vblock front = vblock_pair(x.a, x.b), back = vblock_pair(x.c, x.d);
    *(vu_loose *)out = (vu)vblock_unpack(front, back, 0);
    *(vu_loose *)(out + HR_LANES) = (vu)vblock_unpack(front, back, 1);
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

/* A group is so many vectors of blocks side by side: a round takes 7 to 9 cycles until its result is there,
 * and the words of six vectors are what the registers of AVX-512 hold. */
#define HR_RANDOM_PARTS (HR_LANES == 16 ? 6 : 4)
#define HR_RANDOM_PART  (4 * HR_BLOCKS)
#define HR_RANDOM_GROUP (HR_RANDOM_PARTS * HR_RANDOM_PART)

/* The first two rounds of blocks whose numbers share their upper word: it and the two words that are 0 leave
 * one multiplication of four, that of `right`. `left` is the lower word's first product. */
static inline philox_lanes philox_lanes_begun(const random_keys *keys, vblock left, uint64_t upper) {
    const uint64_t second = (uint32_t)(upper ^ keys->a[0][0]) * UINT64_C(0xD2511F53);
    vblock right = vblock_multiply(vblock_upper(left) ^ keys->b[0], (vblock){0} + 0xCD9E8D57u);
    return (philox_lanes){vblock_upper(right) ^ keys->a[1], right, left ^ ((second >> 32) ^ keys->b[1]),
                          (vblock){0} + second};
}

/* The HR_RANDOM_GROUP words of the blocks from `block` on. The lower word of the last block's number is that
 * of the first and what is between. Not inlined: it takes all registers, and the loop around it wants some.
 */
static void random_group(const random_keys *keys, uint64_t block, uint32_t *out) __attribute__((noinline));
static void random_group(const random_keys *keys, uint64_t block, uint32_t *out) {
    const uint64_t upper = block >> 32, step = HR_BLOCKS * UINT64_C(0xD2511F53);
    vblock left = vblock_multiply(vblock_order() + (uint32_t)block, (vblock){0} + 0xD2511F53u);
    philox_lanes x[HR_RANDOM_PARTS];
#pragma GCC unroll 8
    for (int part = 0; part < HR_RANDOM_PARTS; part++)
        x[part] = philox_lanes_begun(keys, left + (uint64_t)part * step, upper);
/* Unrolled, it would hold keys in registers and the words in memory. */
#pragma GCC unroll 1
    for (int round = 2; round < 10; round++) {
        const vblock a = keys->a[round], b = keys->b[round];
#pragma GCC unroll 8
        for (int part = 0; part < HR_RANDOM_PARTS; part++)
            x[part] = philox_lanes_round(x[part], a, b);
    }
#pragma GCC unroll 8
    for (int part = 0; part < HR_RANDOM_PARTS; part++)
        philox_lanes_store(x[part], out + part * HR_RANDOM_PART);
}

/* Two parts, for what is less than a group */
static inline void random_pair(const random_keys *keys, uint64_t block, uint32_t *out) {
    philox_lanes x = philox_lanes_begin(block), y = philox_lanes_begin(block + HR_BLOCKS);
#pragma GCC unroll 1
    for (int round = 0; round < 10; round++) {
        x = philox_lanes_round(x, keys->a[round], keys->b[round]);
        y = philox_lanes_round(y, keys->a[round], keys->b[round]);
    }
    philox_lanes_store(x, out);
    philox_lanes_store(y, out + HR_RANDOM_PART);
}

/* How many words around those that are asked for may be written: blocks are whole, and so are parts. */
#define HR_RANDOM_BEFORE HR_LANES
#define HR_RANDOM_AFTER  (2 * HR_RANDOM_PART)

/* out[i] = the word of counter + i, for i from 0 to count - 1. The words of a block stay together: what is
 * around them is written, too. */
static inline void random_fill(const random_keys *keys, uint64_t counter, int64_t count, uint32_t *out) {
    uint64_t block = (uint64_t)((int64_t)counter >> 2);
    for (int64_t i = -(int64_t)(counter % 4); i < count;) {
        const bool share =
            (uint32_t)block <= UINT32_MAX - HR_RANDOM_GROUP / 4; /* their numbers' upper word */
        const bool group = share && i + HR_RANDOM_GROUP <= count + HR_RANDOM_AFTER;
        if (group)
            random_group(keys, block, out + i);
        else
            random_pair(keys, block, out + i);
        i += group ? HR_RANDOM_GROUP : 2 * HR_RANDOM_PART;
        block += (group ? HR_RANDOM_GROUP : 2 * HR_RANDOM_PART) / 4;
    }
}

/* The numbers of HR_LANES words */
static inline vf vf_random(const uint32_t *words) {
    return vf_from_vi((vi)(*(const vu_loose *)words >> 8)) * 0x1p-24f;
}

/* The words whose numbers are at least some bound: those from `least` on, if there are any. */
typedef struct random_bound {
    vu least;
    vm any;
} random_bound;

static inline random_bound random_bound_of(float bound) {
    const float number = ceilf(bound * 0x1p24f);
    const uint32_t least = number > 0 && number < 0x1p24f ? (uint32_t)number << 8 : 0;
    return (random_bound){(vu)vi_of((int32_t)least), vm_of(number < 0x1p24f)};
}

static inline vm vm_random_ge(const uint32_t *words, random_bound bound) {
    const vu word = *(const vu_loose *)words;
#if HR_LANES == 16
    vm m;
    __asm__("vpcmpnltud %2, %1, %0%{%3%}" : "=k"(m) : "v"(word), "v"(bound.least), "Yk"(bound.any));
    return m;
#else
    return (word >= bound.least) & bound.any;
#endif
}
