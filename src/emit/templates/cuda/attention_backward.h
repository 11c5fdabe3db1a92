/* The gradients of attention on the tensor cores of sm_90a, from scores that are made again: one kernel for
 * those of queries, whose blocks own queries and walk along keys, and one for those of keys and values, whose
 * blocks own keys and walk along queries. So each sum is one block's, in one order. Operands of 16 bits, sums
 * in f32; weights and gradients of scores are rounded to 16 bits as they become left operands.
 *
 * A block of the grid takes items in turn: P::tile_m rows of one batch (head), which it owns. Its first
 * warpgroup brings what they hold once, and tiles of P::tile_n rows of the other side through a ring of
 * P::places. Each of the two others multiplies 64 rows by a tile: scores, and the products of the results'
 * gradients with values. What follows from both are the left operands of the sums, in registers: the owned
 * rows are those of all products. The products of the next tile follow the sums of this one without a gap,
 * where there are registers for both (P::waits: there are not); one group's elementwise work goes beside the
 * other's products.
 *
 * Rows of a query, of a key are `deep` wide, of a result and a value `wide`. P, which the printer makes:
 * tile_m, tile_n, own_places, places, deep, wide, registers of both kinds of groups; keys: the owned rows are
 * keys; masked, begin(a, batch, m) and bound(a, batch, m): a query sees keys from the one to before the
 * other; own_deep, own_wide, walk_deep and walk_wide with load() and element(); of_query(a, batch, query,
 * list): what is one for each query; pair(a, batch, query, key, list, score, product): makes the weight and
 * the gradient of the score of them; where `open`, open_pair() for scores that the mask leaves; waits;
 * scores(d, a, b, accumulate), deep_sums(d, a, b, accumulate), wide_sums(d, a, b, accumulate), pair_bits(low,
 * high); store_deep(a, batch, row, column, sum) and store_wide().
 */
struct backward_size {
    int64_t batch, own, walk; /* rows of each side */
    int section;              /* heads that go together */
};

template <class P> struct backward_memory {
    static constexpr int deep_spans = (P::deep + 63) / 64, wide_spans = (P::wide + 63) / 64;
    static constexpr int own_deep_bytes = deep_spans * P::tile_m * 128,
                         own_bytes = own_deep_bytes + wide_spans * P::tile_m * 128;
    static constexpr int deep_bytes = deep_spans * P::tile_n * 128,
                         place_bytes = deep_bytes + wide_spans * P::tile_n * 128;
    static constexpr int ring_at = P::own_places * own_bytes, barriers_at = ring_at + P::places * place_bytes;
    /* Behind the barriers, where queries come through the ring: what is one for each, a list a place. */
    static constexpr int lists = P::of_query_count ? P::of_query_count : 1, list_bytes = P::tile_n * 4,
                         lists_at = barriers_at + 32 + P::places * 16;
    static constexpr bool has_lists = P::keys && P::of_query_count > 0;
};

/* What the groups of a block know of it. Barriers: of a place, full and empty. */
struct backward_block {
    char *memory;
    uint32_t address, own_full, own_empty, full, empty;
    int items; /* of the grid */
};

template <class P, bool BOXES>
static __device__ inline backward_block backward_begin(const backward_size &size) {
    backward_block b;
    b.memory = attention_shared();
    b.address = __shfl_sync(0xffffffffu, ptx_shared_address(b.memory), 0);
    b.own_full = b.address + backward_memory<P>::barriers_at;
    b.own_empty = b.own_full + 16;
    b.full = b.own_empty + 16;
    b.empty = b.full + 8 * P::places;
    b.items = (int)size.batch * (int)((size.own + P::tile_m - 1) / P::tile_m);
    if (threadIdx.x == 0) {
        const int fillers = BOXES ? 1 : 128;
        for (int s = 0; s < 2; s++) {
            ptx_mbarrier_init(b.own_full + s * 8, 2 * fillers);
            ptx_mbarrier_init(b.own_empty + s * 8, 8);
        }
        for (int s = 0; s < P::places; s++) {
            ptx_mbarrier_init(b.full + s * 8, 2 * fillers + (backward_memory<P>::has_lists ? 32 : 0));
            ptx_mbarrier_init(b.empty + s * 8, 8);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return b;
}

/* ---- what there is to do ---- */

/* Owned rows, and the tiles of the other side that count for them. */
struct backward_item {
    int batch, m, first, end;
};

/* The first query from which on `past` holds, which does not cease to. */
template <class F> static __device__ inline int backward_search(int queries, const F &past) {
    int low = 0, high = queries;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (past(middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Which rows of the other side count for owned rows up to before `end`. */
template <class P, class A>
static __device__ inline void backward_walk(const A &a, const backward_size &size, int end,
                                            backward_item &item) {
    int first = 0, last = (int)size.walk;
    if constexpr (P::masked && P::keys) {
        const int begin = item.m, batch = item.batch;
        first = backward_search(last, [&](int query) { return P::bound(a, batch, query) > begin; });
        last = backward_search(last, [&](int query) { return P::begin(a, batch, query) >= end; });
    } else if constexpr (P::masked) {
        first = attention_clamp(P::begin(a, item.batch, item.m), last);
        last = attention_clamp(P::bound(a, item.batch, end - 1), last);
    }
    item.first = first / P::tile_n;
    item.end = first < last ? (last + P::tile_n - 1) / P::tile_n : item.first;
}

/* Heads in sections, those rows first that have the most to do under a causal mask. */
template <class P, class A>
static __device__ inline backward_item backward_item_at(const A &a, const backward_size &size, int number) {
    backward_item item;
    const int tiles = (int)((size.own + P::tile_m - 1) / P::tile_m), per = size.section * tiles;
    const int section = number / per, rest = number % per, left = (int)size.batch - section * size.section;
    const int heads = left < size.section ? left : size.section, tile = rest / heads;
    item.batch = section * size.section + rest % heads;
    item.m = (P::keys ? tile : tiles - 1 - tile) * P::tile_m;
    backward_walk<P>(a, size, item.m + P::tile_m < (int)size.own ? item.m + P::tile_m : (int)size.own, item);
    return item;
}

/* All rows of a tile count for all 64 rows from m on. */
template <class P, class A>
static __device__ inline bool backward_is_open(const A &a, const backward_size &size, int batch, int m,
                                               int tile) {
    const int n = tile * P::tile_n, last = m + 63, n_last = n + P::tile_n - 1;
    if (!P::open || last >= (int)size.own || n_last >= (int)size.walk) return false;
    const int query = P::keys ? n : m, query_last = P::keys ? n_last : last, key = P::keys ? m : n,
              key_last = P::keys ? last : n_last;
    return !P::masked || (P::bound(a, batch, query) > key_last && P::begin(a, batch, query_last) <= key);
}

/* ---- the warpgroup that brings ---- */

template <class P, bool BOXES, class A, class M>
static __device__ inline void backward_bring_own(const A &a, const backward_size &size,
                                                 const backward_block &b, const M &maps,
                                                 const backward_item &item, int round) {
    typedef backward_memory<P> memory;
    const int own = round % P::own_places, at = own * memory::own_bytes;
    ptx_mbarrier_wait(b.own_empty + own * 8, (round / P::own_places & 1) ^ 1);
    attention_fill<typename P::own_deep, BOXES, P::tile_m, memory::deep_spans, P::deep>(
        a, b, at, maps.own_deep, item.batch, item.m, size.own, b.own_full + own * 8);
    attention_fill<typename P::own_wide, BOXES, P::tile_m, memory::wide_spans, P::wide>(
        a, b, at + memory::own_deep_bytes, maps.own_wide, item.batch, item.m, size.own, b.own_full + own * 8);
}

/* Lists of what is one for each query of a tile, by a warp. */
template <class P, class A>
static __device__ inline void backward_bring_lists(const A &a, const backward_size &size,
                                                   const backward_block &b, int batch, int n, int place) {
    typedef backward_memory<P> memory;
    float *lists = (float *)(b.memory + memory::lists_at + place * memory::lists * memory::list_bytes);
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32; i < P::tile_n; i += 32) {
        float of_query[memory::lists];
        P::of_query(a, batch, n + i < (int)size.walk ? n + i : (int)size.walk - 1, of_query);
#pragma unroll
        for (int l = 0; l < memory::lists; l++)
            lists[l * P::tile_n + i] = of_query[l];
    }
    ptx_mbarrier_arrive(b.full + place * 8);
}

/* By one thread, or by all of the group where arrays begin anywhere; lists by its second warp. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void backward_produce(const A &a, const backward_size &size, const backward_block &b,
                                               const M &maps) {
    typedef backward_memory<P> memory;
    const bool brings = !BOXES || threadIdx.x == 0, lists = memory::has_lists && threadIdx.x / 32 == 1;
    if (!brings && !lists) return;
    int place = 0, parity = 1, round = 0;
#pragma unroll 1
    for (int number = (int)blockIdx.x; number < b.items; number += (int)gridDim.x, round++) {
        const backward_item item = backward_item_at<P>(a, size, number);
        if (brings) backward_bring_own<P, BOXES>(a, size, b, maps, item, round);
#pragma unroll 1
        for (int tile = item.first; tile < item.end; tile++) {
            const int at = memory::ring_at + place * memory::place_bytes, n = tile * P::tile_n;
            ptx_mbarrier_wait(b.empty + place * 8, parity);
            if (brings) {
                attention_fill<typename P::walk_deep, BOXES, P::tile_n, memory::deep_spans, P::deep>(
                    a, b, at, maps.walk_deep, item.batch, n, size.walk, b.full + place * 8);
                attention_fill<typename P::walk_wide, BOXES, P::tile_n, memory::wide_spans, P::wide>(
                    a, b, at + memory::deep_bytes, maps.walk_wide, item.batch, n, size.walk,
                    b.full + place * 8);
            }
            if (lists) backward_bring_lists<P>(a, size, b, item.batch, n, place);
            if (++place == P::places) place = 0, parity ^= 1;
        }
    }
}

/* ---- the warpgroups that multiply ---- */

/* A group's 64 rows. A thread has rows m and m + 8; of a tile's rows and of columns the pair 8 j + 2 (lane %
 * 4) of each j. */
template <class P> struct backward_group {
    uint64_t own_deep, own_wide;   /* descriptors of left operands */
    uint64_t walk_deep, walk_wide; /* of right operands, rows by columns: in the ring's first place */
    uint64_t walk_deep_sums, walk_wide_sums; /* the same as right operands of sums over rows */
    int m;
    float of_query[2][P::of_query_count ? P::of_query_count : 1]; /* of owned queries */
    float scores[P::tile_n / 2], products[P::tile_n / 2];
    float deep_sums[P::deep / 2], wide_sums[P::keys ? P::wide / 2 : 1];
    uint32_t weights[P::keys ? P::tile_n / 16 : 1][4], gradients[P::tile_n / 16][4];
};

template <class P>
static __device__ inline void backward_scores(backward_group<P> &g, uint32_t own, int place) {
    const uint32_t at = (uint32_t)place * (backward_memory<P>::place_bytes >> 4);
#pragma unroll
    for (int k = 0; k < (P::deep + 15) / 16; k++)
        P::scores(g.scores, g.own_deep + own + (k / 4 * P::tile_m * 8 + k % 4 * 2),
                  g.walk_deep + at + (k / 4 * P::tile_n * 8 + k % 4 * 2), k > 0);
}

/* Of results' gradients with values. */
template <class P>
static __device__ inline void backward_products(backward_group<P> &g, uint32_t own, int place) {
    const uint32_t at = (uint32_t)place * (backward_memory<P>::place_bytes >> 4);
#pragma unroll
    for (int k = 0; k < (P::wide + 15) / 16; k++)
        P::scores(g.products, g.own_wide + own + (k / 4 * P::tile_m * 8 + k % 4 * 2),
                  g.walk_wide + at + (k / 4 * P::tile_n * 8 + k % 4 * 2), k > 0);
}

template <class P>
static __device__ inline void backward_wide_sums(backward_group<P> &g, int place, int accumulate) {
    const uint32_t at = (uint32_t)place * (backward_memory<P>::place_bytes >> 4);
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
        P::wide_sums(g.wide_sums, g.weights[k], g.walk_wide_sums + at + k * 128, k > 0 || accumulate);
}

template <class P>
static __device__ inline void backward_deep_sums(backward_group<P> &g, int place, int accumulate) {
    const uint32_t at = (uint32_t)place * (backward_memory<P>::place_bytes >> 4);
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
        P::deep_sums(g.deep_sums, g.gradients[k], g.walk_deep_sums + at + k * 128, k > 0 || accumulate);
}

/* Scores become weights, products the gradients of scores. OPEN: no mask is asked for, and all rows are
 * there; else the last row stands in the place of rows past the end of the other side, of which the ring
 * holds zeros. */
template <class P, bool OPEN, class A>
static __device__ inline void backward_pairs(const A &a, const backward_size &size, const backward_block &b,
                                             int batch, backward_group<P> &g, int tile, int place) {
    typedef backward_memory<P> memory;
    const int own = (int)size.own - 1, walk = (int)size.walk - 1;
    const int rows[2] = {OPEN || g.m < own ? g.m : own, OPEN || g.m + 8 < own ? g.m + 8 : own};
    const char *lists = b.memory + memory::lists_at + place * memory::lists * memory::list_bytes;
#pragma unroll
    for (int j = 0; j < P::tile_n / 8; j++) {
        uint32_t column = threadIdx.x % 4 * 2;
        if (P::waits) {
            __syncwarp();
            stay_inside(column); /* no load for later columns begins before this: registers are scarce */
        }
        column += 8 * j;
        float of_query[2][memory::lists]; /* of two columns, or of two rows */
        if constexpr (memory::has_lists) {
#pragma unroll
            for (int l = 0; l < memory::lists; l++) {
                const float2 pair = *(const float2 *)(lists + l * memory::list_bytes + column * 4);
                of_query[0][l] = pair.x;
                of_query[1][l] = pair.y;
            }
        }
#pragma unroll
        for (int i = 4 * j; i < 4 * j + 4; i++) {
            const int m = rows[i / 2 % 2], there = tile * P::tile_n + (int)column + i % 2;
            const int at = OPEN || there < walk ? there : walk;
            const int query = P::keys ? at : m, key = P::keys ? m : at;
            const float(&list)[memory::lists] = P::keys ? of_query[i % 2] : g.of_query[i / 2 % 2];
            if constexpr (OPEN)
                P::open_pair(a, batch, query, key, list, g.scores[i], g.products[i]);
            else
                P::pair(a, batch, query, key, list, g.scores[i], g.products[i]);
        }
#pragma unroll
        for (int i = 2 * j; i < 2 * j + 2; i++) {
            if constexpr (P::keys)
                g.weights[i / 4][i % 4] = P::pair_bits(g.scores[2 * i], g.scores[2 * i + 1]);
            g.gradients[i / 4][i % 4] = P::pair_bits(g.products[2 * i], g.products[2 * i + 1]);
        }
    }
}

/* All of the warp have read the place. */
static __device__ inline void backward_leave(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(barrier);
}

template <class P, class A>
static __device__ inline void backward_store(const A &a, const backward_size &size, int batch,
                                             const backward_group<P> &g) {
    uint32_t thread = threadIdx.x;
    stay_inside(thread); /* no address is made before the loop over items: registers are scarce */
    const int column = (int)thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < P::deep / 2; i++) {
        const int m = g.m + i / 2 % 2 * 8;
        if (m < (int)size.own) P::store_deep(a, batch, m, column + i / 4 * 8 + i % 2, g.deep_sums[i]);
    }
    if constexpr (P::keys) {
#pragma unroll
        for (int i = 0; i < P::wide / 2; i++) {
            const int m = g.m + i / 2 % 2 * 8;
            if (m < (int)size.own) P::store_wide(a, batch, m, column + i / 4 * 8 + i % 2, g.wide_sums[i]);
        }
    }
}

template <class P, class A>
static __device__ inline void backward_consume(const A &a, const backward_size &size, const backward_block &b,
                                               int number) {
    typedef backward_memory<P> memory;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % 128 / 32;
    const uint32_t rows = (uint32_t)number * 64 * 128, ring = b.address + memory::ring_at;
    backward_group<P> g;
    g.own_deep = ptx_wgmma_descriptor(b.address + rows, 16, 1024, 1);
    g.own_wide = ptx_wgmma_descriptor(b.address + memory::own_deep_bytes + rows, 16, 1024, 1);
    g.walk_deep = ptx_wgmma_descriptor(ring, 16, 1024, 1);
    g.walk_wide = ptx_wgmma_descriptor(ring + memory::deep_bytes, 16, 1024, 1);
    g.walk_deep_sums = ptx_wgmma_descriptor(ring, P::tile_n * 128, 1024, 1);
    g.walk_wide_sums = ptx_wgmma_descriptor(ring + memory::deep_bytes, P::tile_n * 128, 1024, 1);
    int place = 0, parity = 0, before = 0, round = 0;
#pragma unroll 1
    for (int at = (int)blockIdx.x; at < b.items; at += (int)gridDim.x, round++) {
        const backward_item item = backward_item_at<P>(a, size, at);
        const int own = round % P::own_places, m = item.m + number * 64;
        g.m = m + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < P::deep / 2; i++)
            g.deep_sums[i] = 0;
#pragma unroll
        for (int i = 0; i < (P::keys ? P::wide / 2 : 1); i++)
            g.wide_sums[i] = 0;
        if constexpr (!P::keys && P::of_query_count > 0) {
            const int last = (int)size.own - 1;
            P::of_query(a, item.batch, g.m < last ? g.m : last, g.of_query[0]);
            P::of_query(a, item.batch, g.m + 8 < last ? g.m + 8 : last, g.of_query[1]);
        }
        ptx_mbarrier_wait(b.own_full + own * 8, round / P::own_places & 1);
#pragma unroll 1
        for (int tile = item.first; tile < item.end; tile++) {
            const uint32_t own_at = (uint32_t)own * (memory::own_bytes >> 4);
            ptx_mbarrier_wait(b.full + place * 8, parity);
            ptx_wgmma_fence();
            backward_scores<P>(g, own_at, place);
            backward_products<P>(g, own_at, place);
            ptx_wgmma_commit();
            ptx_wgmma_wait<0>();
            if (!P::waits && tile > item.first) backward_leave(b.empty + before * 8);
            if (backward_is_open<P>(a, size, item.batch, m, tile))
                backward_pairs<P, true>(a, size, b, item.batch, g, tile, place);
            else
                backward_pairs<P, false>(a, size, b, item.batch, g, tile, place);
            ptx_wgmma_fence();
            if constexpr (P::keys) backward_wide_sums<P>(g, place, tile > item.first);
            backward_deep_sums<P>(g, place, tile > item.first);
            ptx_wgmma_commit();
            if constexpr (P::waits) {
                ptx_wgmma_wait<0>();
                backward_leave(b.empty + place * 8);
            }
            before = place;
            if (++place == P::places) place = 0, parity ^= 1;
        }
        ptx_wgmma_wait<0>();
        if (!P::waits && item.first < item.end) backward_leave(b.empty + before * 8);
        if (lane == 0) ptx_mbarrier_arrive(b.own_empty + own * 8);
        backward_store<P>(a, size, item.batch, g);
    }
}

/* BOXES: arrays begin at whole 16 bytes, and the copy engine has maps of them. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void attention_backward(const A &a, const backward_size size, const M &maps) {
    const backward_block b = backward_begin<P, BOXES>(size);
    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        ptx_registers_give<P::producer_registers>();
        backward_produce<P, BOXES>(a, size, b, maps);
        __syncwarp();
    } else {
        ptx_registers_take<P::consumer_registers>();
        backward_consume<P>(a, size, b, group - 1);
    }
}
