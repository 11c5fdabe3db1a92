/* Attention on the tensor cores of sm_90a: for each query the sum of values, weighted by softmax over its
 * scores with all keys. Queries, keys and values of 16 bits; scores, sums and the softmax in f32; weights are
 * rounded to 16 bits as they become the left operand of the second product.
 *
 * A block of the grid takes items in turn: P::tile_m queries of one batch (head). Its first warpgroup brings
 * these, and tiles of P::tile_n keys and of their values through two rings of two places. Each of the others
 * multiplies 64 queries by a tile of keys, makes weights of the scores in registers, and multiplies these by
 * the values. The product with the values of one tile runs beside the softmax of the next. A named barrier
 * lets the groups issue products in turn, so that one's softmax goes beside the others' products.
 *
 * Exponents of a row have a base: its largest score so far, or one that is at most 8 less, so that what was
 * added up is seldom to be multiplied anew.
 *
 * Tiles of keys are taken from the last to the first. Those that no query of a group sees are left out by the
 * group, those that none of the block sees are not brought. Where all of a tile count for all queries no mask
 * is asked for.
 *
 * A value that is not finite makes NaN with a weight of 0 as well. So a row of finite weights whose result is
 * not finite is made again key by key, from those alone that it sees.
 *
 * P, which the printer makes for a region: tile_m, tile_n, deep (elements of a query), wide (of a value),
 * query_places, registers of the first group and of the others; run (the size of the last index of queries),
 * open_score(a, batch, m, n, sum) and sees(a, batch, m, n): a score is the first where the second holds, -inf
 * elsewhere; plain: an open score is the sum; begin(a, batch, m), bound(a, batch, m): a query sees keys from
 * the one to before the other; listed: data say which tiles count, and classes_of is there, of
 * attention_classes.h: batch(a, batch), holds(a, batch, m, m_last, n, n_last, queries, keys) and the numbers
 * of_query and of_key with count and read(); begins: the first is not always 0; bounded: sees() asks for
 * nothing else; summed_under_mask: over no keys the sum is 0, not NaN; factor(a): what makes an open score an
 * exponent of 2, unit(a): what makes it the score of the text; rows(a, batch, m, peak, total, total where 0
 * stands for an infinite peak, base of exponents, total about it); normalised: weights are exponentials over
 * their total, else times row_weight(), of the same arguments; has_pairs: times pair_factor(a, batch, m, n);
 * reads_rows: bits() and store() read what rows() left;
 * store(a, batch, m, n, value), and where results leave as whole rows (leaves_rows) bits(a, batch, m, n,
 * value) and row(a, batch, m), their place; query, key and value with load(to, map, column, row, batch,
 * barrier) and element(a, batch, row, column); pair(low, high), number(bits); scores(d, a, b, accumulate) and
 * values(d, a, b, accumulate).
 */
/* ---- the warpgroups that multiply ---- */

/* A group's 64 rows. A thread has rows `row` and `row` + 8; of the keys of a tile, and of a value, the pair
 * 8 j + 2 (lane % 4) of each j. */
template <class P> struct attention_group {
    uint64_t query, key, value; /* descriptors of the first part of the first place */
    int m;                      /* the first of the two rows */
    int number;                 /* of the group */
    int taken;                  /* tiles of keys before the item in hand */
    float scores[P::tile_n / 2], sums[P::wide / 2];
    uint32_t weights[P::tile_n / 16][4];
    float peak[2], base[2], total[2]; /* peak: of open scores; base: of exponents; total: the thread's part */
};

template <class P>
static __device__ inline void attention_scores(attention_group<P> &g, uint64_t query, int place) {
    typedef attention_memory<P> memory;
    const uint64_t key = g.key + (uint32_t)place * (memory::key_bytes >> 4);
#pragma unroll
    for (int k = 0; k < (P::deep + 15) / 16; k++)
        P::scores(g.scores, query + (k / 4 * P::tile_m * 8 + k % 4 * 2),
                  key + (k / 4 * P::tile_n * 8 + k % 4 * 2), k > 0);
}

template <class P>
static __device__ inline void attention_values(attention_group<P> &g, int place, int accumulate) {
    typedef attention_memory<P> memory;
    const uint64_t value = g.value + (uint32_t)place * (memory::value_bytes >> 4);
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
        P::values(g.sums, g.weights[k], value + k * 128, k > 0 || accumulate);
}

/* All of the warp have read the place. */
static __device__ inline void attention_leave(uint32_t barrier) {
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(barrier);
}

/* For each tile of an item but its first the groups go in turn. */
template <class P>
static __device__ inline void attention_order_wait(const attention_item &all, int number, int block) {
    if (block < all.end - 1) ptx_barrier_sync(1 + number, 256);
}

template <class P>
static __device__ inline void attention_order_signal(const attention_item &all, int number, int block) {
    const int groups = attention_memory<P>::groups;
    if (block < all.end - 1 && (number < groups - 1 || block > all.first))
        ptx_barrier_arrive(1 + (number + 1) % groups, 256);
}

/* Where a tile's keys and values are, and the parity of its ring's turn. */
struct attention_place {
    int place, parity;
};

template <class P>
static __device__ inline attention_place attention_place_of(const attention_group<P> &g,
                                                            const attention_item &all, int block) {
    const int t = g.taken + all.end - 1 - block;
    return {t & 1, t >> 1 & 1};
}

/* The tiles from `block` down to `first` are others'. */
template <class P>
static __device__ inline void attention_skip(const attention_block &b, const attention_group<P> &g,
                                             const attention_item &all, int block, int first) {
#pragma unroll 1
    for (; block >= first; block--) {
        const attention_place at = attention_place_of(g, all, block);
        attention_order_wait<P>(all, g.number, block);
        attention_order_signal<P>(all, g.number, block);
        ptx_mbarrier_wait(b.key_full + at.place * 8, at.parity);
        attention_leave(b.key_empty + at.place * 8);
        ptx_mbarrier_wait(b.value_full + at.place * 8, at.parity);
        attention_leave(b.value_empty + at.place * 8);
    }
}

/* The first tile of a group. */
template <class P, class A>
static __device__ inline void attention_first(const A &a, const attention_size &size,
                                              const attention_block &b, attention_group<P> &g,
                                              const attention_item &all, uint64_t query, int block) {
    const attention_place at = attention_place_of(g, all, block);
    float shrink[2];
    ptx_mbarrier_wait(b.key_full + at.place * 8, at.parity);
    attention_order_wait<P>(all, g.number, block);
    ptx_wgmma_fence();
    attention_scores<P>(g, query, at.place);
    ptx_wgmma_commit();
    attention_order_signal<P>(all, g.number, block);
    ptx_wgmma_wait<0>();
    attention_leave(b.key_empty + at.place * 8);
    attention_softmax<P, true>(a, size, all.batch, g, attention_tile<P>(all, block), shrink);
    attention_pack<P>(g);
}

/* Scores of tile `block`, and sums of the one before; FIRST: of what is summed up. */
template <class P, bool MASKED, class A>
static __device__ inline void attention_step(const A &a, const attention_size &size, const attention_block &b,
                                             attention_group<P> &g, const attention_item &all, uint64_t query,
                                             int block, bool first) {
    const attention_place at = attention_place_of(g, all, block);
    const attention_place before = attention_place_of(g, all, block + 1);
    float shrink[2];
    ptx_mbarrier_wait(b.key_full + at.place * 8, at.parity);
    attention_order_wait<P>(all, g.number, block);
    ptx_wgmma_fence();
    attention_scores<P>(g, query, at.place);
    ptx_wgmma_commit();
    ptx_mbarrier_wait(b.value_full + before.place * 8, before.parity);
    ptx_wgmma_fence();
    attention_values<P>(g, before.place, !first);
    ptx_wgmma_commit();
    attention_order_signal<P>(all, g.number, block);
    ptx_wgmma_wait<1>();
    attention_leave(b.key_empty + at.place * 8);
    const bool shrinks =
        attention_softmax<P, MASKED>(a, size, all.batch, g, attention_tile<P>(all, block), shrink);
    ptx_wgmma_wait<0>();
    attention_leave(b.value_empty + before.place * 8);
    attention_pack<P>(g);
    if (shrinks) {
#pragma unroll
        for (int i = 0; i < P::wide / 2; i++)
            g.sums[i] *= shrink[i / 2 % 2];
    }
}

/* Of the item `all` the group's part `own`. */
template <class P, class A>
static __device__ inline void attention_sum(const A &a, const attention_size &size, const attention_block &b,
                                            attention_group<P> &g, const attention_item &all,
                                            const attention_item &own, uint64_t query) {
    if (own.end <= own.first) {
        attention_skip<P>(b, g, all, all.end - 1, all.first);
        return;
    }
    int block = own.end - 1;
    attention_skip<P>(b, g, all, all.end - 1, own.end);
    attention_first<P>(a, size, b, g, all, query, block);
#pragma unroll 1
    for (block--; block >= own.open_end && block >= own.first; block--)
        attention_step<P, true>(a, size, b, g, all, query, block, block == own.end - 2);
#pragma unroll 1
    for (; block >= own.open_first && block >= own.first; block--)
        attention_step<P, false>(a, size, b, g, all, query, block, block == own.end - 2);
    if constexpr (P::begins) {
#pragma unroll 1
        for (; block >= own.first; block--)
            attention_step<P, true>(a, size, b, g, all, query, block, block == own.end - 2);
    }
    const attention_place last = attention_place_of(g, all, own.first);
    ptx_mbarrier_wait(b.value_full + last.place * 8, last.parity);
    ptx_wgmma_fence();
    attention_values<P>(g, last.place, own.first < own.end - 1);
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
    attention_leave(b.value_empty + last.place * 8);
    attention_skip<P>(b, g, all, own.first - 1, all.first);
}

/* ---- results ---- */

/* Rows of finite weights whose values are not finite. `total`, `weight`: of rows. */
template <class P, class A>
static __device__ inline void attention_mend(const A &a, const attention_size &size, int batch,
                                             const attention_group<P> &g, const float (&total)[2],
                                             const float (&weight)[2], float (&values)[P::wide / 2]) {
    uint32_t thread = threadIdx.x;
    stay_inside(thread);
    const int lane = (int)thread % 32;
    float odd[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < P::wide / 2; i++)
        odd[i / 2 % 2] = fmaf(values[i], 0.0f, odd[i / 2 % 2]);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const bool mends = odd[r] != 0 && total[r] > 0 && total[r] < INFINITY && g.m + r * 8 < size.m;
        unsigned rows = __ballot_sync(0xffffffffu, mends);
#pragma unroll 1
        while (rows) {
            const int from = (__ffs((int)rows) - 1) & ~3; /* the first lane of the row */
            rows &= ~(15u << from);
            const float base = __shfl_sync(0xffffffffu, g.base[r], from);
            const float factor = __shfl_sync(0xffffffffu, weight[r], from);
            float sum[(P::wide + 31) / 32];
            attention_again<P>(a, size, batch, g.m - lane / 4 + from / 4 + r * 8, base, sum);
            uint32_t place = thread % 4 * 2; /* the thread's columns of row r */
            stay_inside(place);
#pragma unroll
            for (int i = 0; i < P::wide / 4; i++) {
                const float mended =
                    __shfl_sync(0xffffffffu, sum[i / 8], (int)place + (i / 2 % 4 * 8 + i % 2)) * factor;
                if (lane / 4 == from / 4) values[i / 2 * 4 + r * 2 + i % 2] = mended;
            }
        }
    }
}

/* Through the place of the group's queries, then 16 bytes a lane. BOXES: they are stored at once. */
template <class P, bool BOXES, class A>
static __device__ inline void attention_store_rows(const A &a, const attention_size &size,
                                                   const attention_block &b, const attention_group<P> &g,
                                                   const attention_item &all, int at,
                                                   const float (&values)[P::wide / 2]) {
    uint32_t thread = threadIdx.x;
    stay_inside(thread); /* no address is made before the loop over items: registers are scarce */
    const int lane = (int)thread % 32, warp = (int)thread % 128 / 32;
    const int first = g.number * 64 + warp * 16, row = first + lane % 16, chunks = P::wide / 8;
    ptx_barrier_sync(1 + attention_memory<P>::groups + g.number,
                     128); /* products with the queries are over */
#pragma unroll
    for (int j = 0; j < (P::wide + 15) / 16; j++) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int e = 8 * j + 2 * i < P::wide / 2 ? 8 * j + 2 * i : 0, r = i % 2;
            const int m = g.m + r * 8 < (int)size.m ? g.m + r * 8 : (int)size.m - 1;
            const int column = e / 4 * 8 + lane % 4 * 2;
            word[i] = 0;
            if (P::reads_rows && m != g.m + r * 8) continue; /* the last row may be another warp's */
            word[i] = (uint32_t)P::bits(a, all.batch, m, column, values[e]) |
                      (uint32_t)P::bits(a, all.batch, m, column + 1, values[e + 1]) << 16;
        }
        const int chunk = 2 * j + lane / 16;
        ptx_store_matrix_4(
            b.address + at + chunk / 8 * P::tile_m * 128 + row * 128 + ((chunk % 8 ^ row % 8) << 4), word);
    }
    __syncwarp();
#pragma unroll 4
    for (int e = lane; e < 16 * chunks; e += 32) {
        const int here = first + e / chunks, chunk = e % chunks;
        const uint4 *from = (const uint4 *)(b.memory + at + chunk / 8 * P::tile_m * 128 + here * 128 +
                                            ((chunk % 8 ^ here % 8) << 4));
        if (all.m + here >= size.m) continue;
        if constexpr (BOXES) {
            ((uint4 *)P::row(a, all.batch, all.m + here))[chunk] = *from;
        } else {
            uint16_t *const to = (uint16_t *)P::row(a, all.batch, all.m + here) + chunk * 8;
#pragma unroll
            for (int i = 0; i < 8; i++)
                to[i] = ((const uint16_t *)from)[i];
        }
    }
    ptx_fence_proxy_async();
    __syncwarp();
}

template <class P, bool BOXES, class A>
static __device__ inline void attention_store(const A &a, const attention_size &size,
                                              const attention_block &b, attention_group<P> &g,
                                              const attention_item &all, int at) {
    const int column = (int)threadIdx.x % 4 * 2;
    float weight[2], total[2];
    bool empty[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        total[r] = g.total[r];
        total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
        total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
        const int m = g.m + r * 8 < (int)size.m ? g.m + r * 8 : (int)size.m - 1;
        weight[r] = attention_row_weight<P>(a, size, all.batch, m, g.peak[r], g.base[r], total[r]);
        empty[r] = attention_is_empty<P>(a, size, all.batch, m, g.peak[r]);
        if (column != 0 || g.m + r * 8 >= size.m) continue;
        attention_leave_row<P>(a, size, all.batch, g.m + r * 8, g.peak[r], g.base[r], total[r]);
    }
    __syncwarp(); /* what follows the sums may read what a row left */
    float values[P::wide / 2];
#pragma unroll
    for (int i = 0; i < P::wide / 2; i++)
        values[i] = empty[i / 2 % 2] ? 0.0f : g.sums[i] * weight[i / 2 % 2];
    attention_mend<P>(a, size, all.batch, g, total, weight, values);
    if constexpr (P::leaves_rows) {
        attention_store_rows<P, BOXES>(a, size, b, g, all, at, values);
    } else {
#pragma unroll
        for (int i = 0; i < P::wide / 2; i++) {
            const int m = g.m + i / 2 % 2 * 8;
            if (m < (int)size.m) P::store(a, all.batch, m, column + i / 4 * 8 + i % 2, values[i]);
        }
    }
}

template <class P, bool BOXES, class A>
static __device__ inline void attention_consume(const A &a, const attention_size &size,
                                                const attention_block &b, int number) {
    typedef attention_memory<P> memory;
    const int row = (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4;
    const uint64_t query = ptx_wgmma_descriptor(b.address + number * 64 * 128, 16, 1024, 1);
    attention_group<P> g;
    g.number = number;
    g.taken = 0;
    g.key = ptx_wgmma_descriptor(b.address + memory::keys_at, 16, 1024, 1);
    g.value = ptx_wgmma_descriptor(b.address + memory::values_at, P::tile_n * 128, 1024, 1);
    int round = 0;
#pragma unroll 1
    for (int at = (int)blockIdx.x; at < b.items; at += (int)gridDim.x, round++) {
        const attention_item all = attention_item_at<P>(a, size, at);
        const attention_item own = attention_part<P>(a, size, all.batch, all.m + number * 64, 64);
        const int queries = round % P::query_places, place = queries * memory::query_bytes;
        g.m = own.m + row;
        g.peak[0] = g.peak[1] = g.base[0] = g.base[1] = -INFINITY;
        g.total[0] = g.total[1] = 0;
#pragma unroll
        for (int i = 0; i < P::wide / 2; i++)
            g.sums[i] = 0;
        if (number == memory::groups - 1 && all.end - all.first > 1) ptx_barrier_arrive(1, 256);
        ptx_mbarrier_wait(b.query_full + queries * 8, round / P::query_places & 1);
        attention_sum<P>(a, size, b, g, all, own, query + (uint32_t)(place >> 4));
        attention_store<P, BOXES>(a, size, b, g, all, place);
        attention_leave(b.query_empty + queries * 8);
        g.taken += all.end - all.first;
    }
}

/* BOXES: arrays begin at whole 16 bytes, and the copy engine has maps of them, but where they widen. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void attention_hopper(const A &a, const attention_size size, const M &maps) {
    const attention_block b = attention_begin<P, BOXES>(size);
    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        ptx_registers_give<P::producer_registers>();
        if (!BOXES || !P::query::boxes || threadIdx.x == 0) attention_produce<P, BOXES>(a, size, b, maps);
        __syncwarp();
    } else {
        ptx_registers_take<P::consumer_registers>();
        attention_consume<P, BOXES>(a, size, b, group - 1);
    }
}
