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
 * A thread's sums are registers: where both gradients have more columns than there are, P::parts blocks make
 * the scores of an item, each for P::deep_part and P::wide_part columns of the sums.
 *
 * Rows of a query, of a key are `deep` wide, of a result and a value `wide`. P is as in
 * attention_backward_items.h, and has own_places, places, deep, wide, registers of both kinds of groups;
 * parts, deep_part, wide_part, and deep_spans, wide_spans: pieces of 64 columns that a tile has; own_deep,
 * own_wide, walk_deep and walk_wide with load() and element(); scores(d, a, b, accumulate), deep_sums(d, a,
 * b, accumulate), wide_sums(d, a, b, accumulate); store_deep(a, batch, row, column, sum) and store_wide().
 */
template <class P> struct backward_memory {
    static constexpr int deep_spans = P::deep_spans, wide_spans = P::wide_spans;
    static constexpr int own_deep_bytes = deep_spans * P::tile_m * 128,
                         own_bytes = own_deep_bytes + wide_spans * P::tile_m * 128;
    static constexpr int deep_bytes = deep_spans * P::tile_n * 128,
                         place_bytes = deep_bytes + wide_spans * P::tile_n * 128;
    static constexpr int ring_at = P::own_places * own_bytes, barriers_at = ring_at + P::places * place_bytes;
    /* Behind the barriers, where queries come through the ring: what is one for each, lists a place. */
    static constexpr int lists_at = barriers_at + 32 + P::places * 16,
                         lists_bytes = backward_lists<P>::count * backward_lists<P>::bytes;
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
    b.items = (int)size.batch * (int)((size.own + P::tile_m - 1) / P::tile_m) * P::parts;
    if (threadIdx.x == 0) {
        const int fillers = BOXES ? 1 : 128;
        for (int s = 0; s < 2; s++) {
            ptx_mbarrier_init(b.own_full + s * 8, 2 * fillers);
            ptx_mbarrier_init(b.own_empty + s * 8, 8);
        }
        for (int s = 0; s < P::places; s++) {
            ptx_mbarrier_init(b.full + s * 8, 2 * fillers + (backward_lists<P>::there ? 32 : 0));
            ptx_mbarrier_init(b.empty + s * 8, 8);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return b;
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

/* By one thread, or by all of the group where arrays begin anywhere; lists by its second warp. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void backward_produce(const A &a, const backward_size &size, const backward_block &b,
                                               const M &maps) {
    typedef backward_memory<P> memory;
    const bool brings = !BOXES || threadIdx.x == 0, lists = backward_lists<P>::there && threadIdx.x / 32 == 1;
    if (!brings && !lists) return;
    int place = 0, parity = 1, round = 0;
#pragma unroll 1
    for (int number = (int)blockIdx.x; number < b.items; number += (int)gridDim.x, round++) {
        const backward_item item = backward_item_at<P>(a, size, number / P::parts);
        if (brings) backward_bring_own<P, BOXES>(a, size, b, maps, item, round);
#pragma unroll 1
        for (int step = item.first; step < item.end; step++) {
            const int at = memory::ring_at + place * memory::place_bytes,
                      n = backward_tile<P>(a, size, item, step) * P::tile_n;
            ptx_mbarrier_wait(b.empty + place * 8, parity);
            if (brings) {
                attention_fill<typename P::walk_deep, BOXES, P::tile_n, memory::deep_spans, P::deep>(
                    a, b, at, maps.walk_deep, item.batch, n, size.walk, b.full + place * 8);
                attention_fill<typename P::walk_wide, BOXES, P::tile_n, memory::wide_spans, P::wide>(
                    a, b, at + memory::deep_bytes, maps.walk_wide, item.batch, n, size.walk,
                    b.full + place * 8);
            }
            if (lists) {
                backward_lists_fill<P>(a, size, item.batch, n,
                                       (float *)(b.memory + memory::lists_at + place * memory::lists_bytes));
                ptx_mbarrier_arrive(b.full + place * 8);
            }
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
    float deep_sums[P::deep_part / 2], wide_sums[P::keys ? P::wide_part / 2 : 1];
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
static __device__ inline void backward_wide_sums(backward_group<P> &g, int place, int accumulate,
                                                 int part = 0) {
    const uint32_t at = (uint32_t)place * (backward_memory<P>::place_bytes >> 4) +
                        (uint32_t)part * (P::wide_part / 64 * P::tile_n * 8);
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
        P::wide_sums(g.wide_sums, g.weights[k], g.walk_wide_sums + at + k * 128, k > 0 || accumulate);
}

template <class P>
static __device__ inline void backward_deep_sums(backward_group<P> &g, int place, int accumulate,
                                                 int part = 0) {
    const uint32_t at = (uint32_t)place * (backward_memory<P>::place_bytes >> 4) +
                        (uint32_t)part * (P::deep_part / 64 * P::tile_n * 8);
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
        P::deep_sums(g.deep_sums, g.gradients[k], g.walk_deep_sums + at + k * 128, k > 0 || accumulate);
}

/* All of the warp have read the place. */
static __device__ inline void backward_leave(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(barrier);
}

template <class P, class A>
static __device__ inline void backward_store(const A &a, const backward_size &size, int batch,
                                             const backward_group<P> &g, int part = 0) {
    uint32_t thread = threadIdx.x;
    stay_inside(thread); /* no address is made before the loop over items: registers are scarce */
    const int column = (int)thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < P::deep_part / 2; i++) {
        const int m = g.m + i / 2 % 2 * 8, n = part * P::deep_part + column + i / 4 * 8 + i % 2;
        if (m < (int)size.own && (P::parts == 1 || n < P::deep))
            P::store_deep(a, batch, m, n, g.deep_sums[i]);
    }
    if constexpr (P::keys) {
#pragma unroll
        for (int i = 0; i < P::wide_part / 2; i++) {
            const int m = g.m + i / 2 % 2 * 8, n = part * P::wide_part + column + i / 4 * 8 + i % 2;
            if (m < (int)size.own && (P::parts == 1 || n < P::wide))
                P::store_wide(a, batch, m, n, g.wide_sums[i]);
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
    int place = 0, parity = 0, before = 0;
#pragma unroll 1
    for (int round = 0; (int)(blockIdx.x + round * gridDim.x) < b.items;
         round++) { /* a register less than two */
        const int item_number = (int)(blockIdx.x + round * gridDim.x), part = item_number % P::parts;
        const backward_item item = backward_item_at<P>(a, size, item_number / P::parts);
        const int own = round % P::own_places, m = item.m + number * 64;
        g.m = m + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < P::deep_part / 2; i++)
            g.deep_sums[i] = 0;
#pragma unroll
        for (int i = 0; i < (P::keys ? P::wide_part / 2 : 1); i++)
            g.wide_sums[i] = 0;
        backward_of_query<P>(a, size, item.batch, g);
        ptx_mbarrier_wait(b.own_full + own * 8, round / P::own_places & 1);
#pragma unroll 1
        for (int step = item.first; step < item.end; step++) {
            const uint32_t own_at = (uint32_t)own * (memory::own_bytes >> 4);
            ptx_mbarrier_wait(b.full + place * 8, parity);
            ptx_wgmma_fence();
            backward_scores<P>(g, own_at, place);
            backward_products<P>(g, own_at, place);
            ptx_wgmma_commit();
            const int tile = backward_tile<P>(a, size, item, step);
            const bool open = backward_is_open<P, 64>(a, size, item, m, step, tile);
            backward_seen<P> seen = {};
            if (!open) seen = backward_seen_of<P>(a, size, item.batch, g, tile);
            ptx_wgmma_wait<0>();
            if (!P::waits && step > item.first) backward_leave(b.empty + before * 8);
            const char *const lists = b.memory + memory::lists_at + place * memory::lists_bytes;
            if (open && !(P::waits && P::listed)) /* registers are scarce */
                backward_pairs<P, true>(a, size, lists, item.batch, g, tile, seen);
            else
                backward_pairs<P, false>(a, size, lists, item.batch, g, tile, seen);
            ptx_wgmma_fence();
            if constexpr (P::keys) backward_wide_sums<P>(g, place, step > item.first, part);
            backward_deep_sums<P>(g, place, step > item.first, part);
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
        backward_store<P>(a, size, item.batch, g, part);
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
