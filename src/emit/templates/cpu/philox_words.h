/* Philox on AVX2 and AVX-512: a vector holds one word of HR_LANES blocks, half the registers of words in
 * 64-bit lanes, so that more parts hide the 8 to 10 cycles until a round's result is there: sixteen registers
 * hold the words of three parts, thirty-two those of four. The product of all lanes is a move of the odd
 * ones, two multiplications, and one operation for the upper and one for the lower halves: with the exclusive
 * ors 12 operations a round of 64 words on AVX-512, on AVX2 14 a round of 32.
 *
 * The upper halves change places: lanes 0 1 2 3 of 128 bits become 0 2 1 3, and return a round later. The
 * lower halves stay as they are, and meet upper halves of the next round: so both are in the same order.
 */
#define HR_RANDOM_PARTS (HR_LANES == 16 ? 4 : 3)
#define HR_RANDOM_FEW   1
#define HR_RANDOM_PART  (4 * HR_LANES)
#define HR_RANDOM_GROUP (HR_RANDOM_PARTS * HR_RANDOM_PART)

/* The words of HR_LANES blocks */
typedef struct philox_lanes {
    vu a, b, c, d;
} philox_lanes;

/* The even lanes' products and the odd ones' */
typedef struct philox_product {
    vblock even, odd;
} philox_product;

/* A shift would do for the odd lanes but keeps the port of the multiplications from them. */
static inline philox_product philox_multiply(vu x, vblock factor) {
#if HR_LANES == 16
    vblock odd;
    __asm__("vpshufd $0xf5, %1, %0" : "=v"(odd) : "v"(x));
#else
    const vblock odd = (vblock)x >> 32;
#endif
    return (philox_product){vblock_multiply((vblock)x, factor), vblock_multiply(odd, factor)};
}

static inline vu philox_upper(philox_product x) {
    vu r;
    __asm__("vshufps $0xdd, %2, %1, %0" : "=v"(r) : "v"(x.even), "v"(x.odd));
    return r;
}

/* AVX2 cannot put the odd ones beside the even ones in one operation: it multiplies once more, by a factor
 * from memory, since registers are for the words. */
static inline vu philox_lower(vu x, philox_product product, const vblock *factor) {
#if HR_LANES == 16
    (void)x;
    (void)factor;
    __asm__("vpshufd $0xa0, %1, %0%{%2%}" : "+v"(product.even) : "v"(product.odd), "Yk"((vm)0xaaaa));
    return (vu)product.even;
#else
    vu r;
    (void)product;
    __asm__("vpmulld %2, %1, %0" : "=v"(r) : "v"(x), "m"(*factor));
    return r;
#endif
}

/* What a round's upper halves are combined with: on AVX-512 all three at once. On AVX2 as an operation of its
 * own, since the compiler would combine the key with the upper halves, which are what everything waits for.
 */
static inline vu philox_keyed(vu x, const vblock *key) {
#if HR_LANES == 16
    return x ^ (vu)*key;
#else
    vu r;
    __asm__("vpxor %2, %1, %0" : "=v"(r) : "v"(x), "m"(*key));
    return r;
#endif
}

/* Lane k of the i-th 128 bits works on block k * HR_LANES / 4 + i, so that they are stored in order, or, for
 * the order of even and odd lanes, half of the blocks in each half of the lanes; `moved` as after an odd
 * number of rounds.
 */
static inline vu philox_order(bool moved, bool even_odd) {
    vu order = {0};
    for (int lane = 0; lane < HR_LANES; lane++) {
        const int at = lane % 4, k = moved && (at == 1 || at == 2) ? 3 - at : at, i = lane / 4;
        order[lane] = (uint32_t)(even_odd && HR_LANES == 16 ? k / 2 * (HR_LANES / 2) + 2 * i + k % 2
                                                            : k * (HR_LANES / 4) + i);
    }
    return order;
}

static inline philox_lanes philox_lanes_begin(uint64_t block, bool even_odd) {
    const vu lower = (vu){0} + (uint32_t)block, upper = (vu){0} + (uint32_t)(block >> 32);
    const vu moved = philox_order(true, even_odd) + lower;
    return (philox_lanes){philox_order(false, even_odd) + lower, upper - (vu)(moved < lower), {0}, {0}};
}

/* The first product of the blocks in these places, and its lower half: those that lie `blocks` after the one
 * whose product it is. Sums of what the compiler knows, in place of multiplications. */
static inline philox_product philox_first(uint64_t product, uint32_t blocks, bool even_odd) {
    const vu order = philox_order(false, even_odd) + blocks;
    vblock even = {0}, odd = {0};
    for (int lane = 0; lane < HR_LANES / 2; lane++) {
        even[lane] = order[2 * lane] * UINT64_C(0xD2511F53);
        odd[lane] = order[2 * lane + 1] * UINT64_C(0xD2511F53);
    }
    return (philox_product){even + product, odd + product};
}

static inline vu philox_first_lower(uint64_t product, uint32_t blocks, bool even_odd) {
    return (philox_order(false, even_odd) + blocks) * 0xD2511F53u + (uint32_t)product;
}

/* The first two rounds of a part whose blocks' numbers share their upper word: it and the two words that are
 * 0 leave one multiplication of four. `product`: that of the group's first block. */
static inline philox_lanes philox_lanes_begun(const random_keys *keys, uint64_t product, int part,
                                              uint64_t upper, bool even_odd) {
    const uint64_t second = (uint32_t)(upper ^ keys->a[0][0]) * UINT64_C(0xD2511F53);
    const uint32_t blocks = (uint32_t)(part * HR_LANES);
    const vu c = philox_keyed(philox_upper(philox_first(product, blocks, even_odd)), keys->b);
    const vu d = philox_first_lower(product, blocks, even_odd) ^ (uint32_t)(second >> 32);
    const philox_product right = philox_multiply(c, keys->factor_c);
    return (philox_lanes){philox_keyed(philox_upper(right), keys->a + 1),
                          philox_lower(c, right, &keys->factor_c), philox_keyed(d, keys->b + 1),
                          (vu){0} + (uint32_t)second};
}

static inline philox_lanes philox_lanes_round(philox_lanes x, const random_keys *keys, int round) {
    const vu b = philox_keyed(x.b, keys->a + round), d = philox_keyed(x.d, keys->b + round);
    philox_lanes y;
    philox_product product = philox_multiply(x.c, keys->factor_c);
    y.a = philox_upper(product) ^ b;
    y.b = philox_lower(x.c, product, &keys->factor_c);
    product = philox_multiply(x.a, keys->factor_a);
    y.c = philox_upper(product) ^ d;
    y.d = philox_lower(x.a, product, &keys->factor_a);
    return y;
}

/* What a round has for one word of each block, the lower halves of its product beside the upper ones. */
static inline philox_product philox_beside(philox_product x, vu other) {
    vblock even, odd;
    __asm__("vpunpckldq %2, %1, %0" : "=v"(even) : "v"((vu){0}), "v"(other));
    __asm__("vpunpckhdq %2, %1, %0" : "=v"(odd) : "v"((vu){0}), "v"(other));
    return (philox_product){x.even ^ even, x.odd ^ odd};
}

/* The words of two blocks: those of the even (odd) lanes of 64 bits, upper half first. */
static inline void philox_store(uint32_t *out, vblock front, vblock back) {
    vu even, odd;
    __asm__("vshufps $0x11, %2, %1, %0" : "=v"(even) : "v"(front), "v"(back));
    __asm__("vshufps $0xbb, %2, %1, %0" : "=v"(odd) : "v"(front), "v"(back));
    *(vu_loose *)out = even;
    *(vu_loose *)(out + HR_LANES) = odd;
}

/* The last round, whose words are moved to their places in memory at once, and their store */
static inline void philox_lanes_end(philox_lanes x, const random_keys *keys, uint32_t *out) {
    const vu b = philox_keyed(x.b, keys->a + 9), d = philox_keyed(x.d, keys->b + 9);
    const philox_product front = philox_beside(philox_multiply(x.c, keys->factor_c), b),
                         back = philox_beside(philox_multiply(x.a, keys->factor_a), d);
    philox_store(out, front.even, back.even);
    philox_store(out + 2 * HR_LANES, front.odd, back.odd);
}

#if HR_LANES == 16
/* A shift, for once: what follows are moves, which no other port does. */
static inline philox_product philox_multiply_last(vu x, vblock factor) {
    vblock odd;
    __asm__("vpsrlq $32, %1, %0" : "=v"(odd) : "v"(x));
    return (philox_product){vblock_multiply((vblock)x, factor), vblock_multiply(odd, factor)};
}

/* In the order of even and odd lanes a block's words of even numbers stand beside each other, and its
 * products in 64-bit lanes nearly do: `sums` has the lower halves that these words are combined with. */
static inline void philox_store_even_odd(uint32_t *out, vblock front, vblock back, vu sums,
                                         const vblock *key) {
    vu even = (vu)back, odd = (vu)front;
    __asm__("vmovshdup %1, %0%{%2%}" : "+v"(even) : "v"(front), "Yk"((vm)0x5555));
    __asm__("vmovsldup %1, %0%{%2%}" : "+v"(odd) : "v"(back), "Yk"((vm)0xaaaa));
    *(vu_loose *)out = even ^ sums ^ (vu)*key;
    *(vu_loose *)(out + HR_LANES) = odd;
}

/* As philox_lanes_end, 14 operations for 64 words in place of 20 */
static inline void philox_lanes_end_even_odd(philox_lanes x, const random_keys *keys, uint32_t *out) {
    const philox_product front = philox_multiply_last(x.c, keys->factor_c),
                         back = philox_multiply_last(x.a, keys->factor_a);
    vu even, odd;
    __asm__("vpunpckldq %2, %1, %0" : "=v"(even) : "v"(x.b), "v"(x.d));
    __asm__("vpunpckhdq %2, %1, %0" : "=v"(odd) : "v"(x.b), "v"(x.d));
    philox_store_even_odd(out, front.even, back.even, even, &keys->ends);
    philox_store_even_odd(out + 2 * HR_LANES, front.odd, back.odd, odd, &keys->ends);
}
#endif

static inline void philox_lanes_leave(philox_lanes x, const random_keys *keys, uint32_t *out, bool even_odd) {
#if HR_LANES == 16
    if (even_odd)
        philox_lanes_end_even_odd(x, keys, out);
    else
#endif
        philox_lanes_end(x, keys, out);
    (void)even_odd;
}

/* The HR_RANDOM_GROUP words of the blocks from `block` on, in three parts, so that a loop may do something
 * else after each round from 2 to 8. The lower word of the last block's number is that of the first and what
 * is between. */
static inline void random_group_begin(philox_lanes *x, const random_keys *keys, uint64_t block, bool even_odd)
    __attribute__((always_inline));
static inline void random_group_begin(philox_lanes *x, const random_keys *keys, uint64_t block,
                                      bool even_odd) {
    const uint64_t product = (uint32_t)block * UINT64_C(0xD2511F53);
#pragma GCC unroll 8
    for (int part = 0; part < HR_RANDOM_PARTS; part++)
        x[part] = philox_lanes_begun(keys, product, part, block >> 32, even_odd);
}

static inline void random_group_round(philox_lanes *x, const random_keys *keys, int round)
    __attribute__((always_inline));
static inline void random_group_round(philox_lanes *x, const random_keys *keys, int round) {
#pragma GCC unroll 8
    for (int part = 0; part < HR_RANDOM_PARTS; part++)
        x[part] = philox_lanes_round(x[part], keys, round);
}

static inline void random_group_end(const philox_lanes *x, const random_keys *keys, uint32_t *out,
                                    bool even_odd) __attribute__((always_inline));
static inline void random_group_end(const philox_lanes *x, const random_keys *keys, uint32_t *out,
                                    bool even_odd) {
#pragma GCC unroll 8
    for (int part = 0; part < HR_RANDOM_PARTS; part++)
        philox_lanes_leave(x[part], keys, out + part * HR_RANDOM_PART, even_odd);
}

static inline void random_group_all(const random_keys *keys, uint64_t block, uint32_t *out, bool even_odd)
    __attribute__((always_inline));
static inline void random_group_all(const random_keys *keys, uint64_t block, uint32_t *out, bool even_odd) {
    philox_lanes x[HR_RANDOM_PARTS];
    random_group_begin(x, keys, block, even_odd);
#pragma GCC unroll 1
    for (int round = 2; round < 9; round++)
        random_group_round(x, keys, round);
    random_group_end(x, keys, out, even_odd);
}

/* Not inlined: it takes all registers, and the loop around it wants some. */
static void random_group(const random_keys *keys, uint64_t block, uint32_t *out) __attribute__((noinline));
static void random_group(const random_keys *keys, uint64_t block, uint32_t *out) {
    random_group_all(keys, block, out, false);
}

static void random_group_even_odd(const random_keys *keys, uint64_t block, uint32_t *out)
    __attribute__((noinline));
static void random_group_even_odd(const random_keys *keys, uint64_t block, uint32_t *out) {
    random_group_all(keys, block, out, true);
}

/* A part, for what is less than a group */
static inline void random_few(const random_keys *keys, uint64_t block, uint32_t *out, bool even_odd) {
    philox_lanes x = philox_lanes_begin(block, even_odd);
#pragma GCC unroll 1
    for (int round = 0; round < 9; round++)
        x = philox_lanes_round(x, keys, round);
    philox_lanes_leave(x, keys, out, even_odd);
}
