/* Philox where no instructions are known: blocks side by side in 64-bit lanes. The lower half of each is a
 * word, the upper half is ignored.
 */
#define HR_BLOCKS       (HR_LANES / 2)
#define HR_RANDOM_PARTS 4
#define HR_RANDOM_FEW   2
#define HR_RANDOM_PART  (4 * HR_BLOCKS)
#define HR_RANDOM_GROUP (HR_RANDOM_PARTS * HR_RANDOM_PART)

/* The upper halves, moved down */
static inline vblock vblock_upper(vblock x) {
    return x >> 32;
}

/* Lane 2i works on block i and lane 2i + 1 on block HR_BLOCKS / 2 + i, so that unpacking restores the order.
 */
static inline vblock vblock_order(void) {
    vblock order = {0};
    for (int lane = 0; lane < HR_BLOCKS; lane++)
        order[lane] = (uint64_t)(lane / 2 + lane % 2 * (HR_BLOCKS / 2));
    return order;
}

/* The even (odd) lanes of two vectors, one after the other. */
static inline vblock vblock_unpack(vblock a, vblock b, int odd) {
    vblock r = {0};
    for (int lane = 0; lane < HR_BLOCKS; lane += 2)
        r[lane] = a[lane + odd], r[lane + 1] = b[lane + odd];
    return r;
}

/* The lower halves of two vectors side by side: `low` stays where it is. */
static inline vblock vblock_pair(vblock low, vblock high) {
    return (low & 0xffffffff) | high << 32;
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

/* Turned once they are there: random_fill_even_odd */
static inline void random_group_even_odd(const random_keys *keys, uint64_t block, uint32_t *out) {
    random_group(keys, block, out);
}

/* Two parts, for what is less than a group */
static inline void random_few(const random_keys *keys, uint64_t block, uint32_t *out, bool even_odd) {
    (void)even_odd;
    philox_lanes x = philox_lanes_begin(block), y = philox_lanes_begin(block + HR_BLOCKS);
#pragma GCC unroll 1
    for (int round = 0; round < 10; round++) {
        x = philox_lanes_round(x, keys->a[round], keys->b[round]);
        y = philox_lanes_round(y, keys->a[round], keys->b[round]);
    }
    philox_lanes_store(x, out);
    philox_lanes_store(y, out + HR_RANDOM_PART);
}
