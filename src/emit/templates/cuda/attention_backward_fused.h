/* The gradients of attention on the tensor cores of sm_90a as one kernel of five products, whose blocks own
 * keys and walk along queries: scores and weights are made once, not once for queries and once for keys as in
 * attention_backward.h, which has most of what this one is made of.
 *
 * A block takes items by a counter: P::tile_m keys of one batch (head). Each of its two last warpgroups has
 * 64 of them. Weights and gradients of scores are the left operands of the sums of values and keys, in
 * registers; gradients of scores go through shared memory, too, where both groups read them as the left
 * operand of what this tile adds to the gradients of its queries. That product comes a step later: so a group
 * waits for the other only where that is a whole step behind.
 *
 * What blocks add to a query comes in the order of their keys, whatever the order in which they run: each
 * tile of queries has a count of the blocks that have added, and a block waits until that is the number of
 * those before it. The first one stores, the others add in the L2, by a warp that does nothing else. Items
 * are taken in the same order, so a block waits only for blocks that run. It walks from its last tile to its
 * first: so under a causal mask it begins with a tile that its neighbours of the same length begin with, too,
 * and is behind them by the time that a turn takes, not by the tiles that they have and it has not. A kernel
 * before this one clears the counts, one after it rounds the sums: they lie as threads have them,
 * [tile][group][four][thread].
 *
 * P is as in attention_backward.h, with keys and waits; own_places is 1. And
 * query_columns: of the products for queries, of which a group has all rows and 64 columns where a tile has
 * 64 queries, 64 rows and all columns where it has 128; query_sums(d, a, b, accumulate), store_query(a,
 * batch, row, column, sum).
 */
template <class P> struct backward_fused_memory {
    typedef backward_memory<P> ring;
    static constexpr int slope_bytes = P::tile_m * P::tile_n * 2, /* gradients of a tile's scores */
        slopes_at = ring::ring_at + P::places * ring::place_bytes;
    static constexpr int quads = P::query_columns / 8, sum_bytes = 2 * quads * 128 * 16,
                         sums_at = slopes_at + 2 * slope_bytes;
    static constexpr int barriers_at = sums_at + sum_bytes, items_at = barriers_at + 64,
                         places_at = items_at + 64, tiles_at = places_at + P::places * 16,
                         lists_at = tiles_at + P::places * 8;
    static constexpr bool wide_tile = P::tile_n == 128;
};

/* `full` and `empty` are of a place of the ring, as for attention_fill(). */
struct backward_fused_block {
    char *memory;
    uint32_t address, own_full, own_empty, slopes_full, slopes_empty, sums_full, sums_empty, full, empty;
    int items; /* of the grid */
};

/* From where its shared memory begins. Called anew in a loop, its places hold no registers from step to step.
 */
template <class P>
static __device__ inline backward_fused_block backward_fused_at(uint32_t address, int items) {
    backward_fused_block b;
    stay_inside(address);
    b.memory = attention_shared();
    b.address = address;
    b.own_full = address + backward_fused_memory<P>::barriers_at;
    b.own_empty = b.own_full + 8;
    b.slopes_full = b.own_full + 16;
    b.slopes_empty = b.own_full + 32;
    b.sums_full = b.own_full + 48;
    b.sums_empty = b.own_full + 56;
    b.full = address + backward_fused_memory<P>::places_at;
    b.empty = b.full + 8 * P::places;
    b.items = items;
    return b;
}

template <class P, bool BOXES>
static __device__ inline backward_fused_block backward_fused_begin(const backward_size &size) {
    const uint32_t address = __shfl_sync(0xffffffffu, ptx_shared_address(attention_shared()), 0);
    const int items = (int)size.batch * (int)((size.own + P::tile_m - 1) / P::tile_m);
    const backward_fused_block b = backward_fused_at<P>(address, items);
    if (threadIdx.x == 0) {
        const int fillers = BOXES ? 1 : 96;
        ptx_mbarrier_init(b.own_full, 2 * fillers);
        ptx_mbarrier_init(b.own_empty, 9);
        for (int s = 0; s < 2; s++) {
            ptx_mbarrier_init(b.slopes_full + s * 8, 8);
            ptx_mbarrier_init(b.slopes_empty + s * 8, 8);
        }
        ptx_mbarrier_init(b.sums_full, 8);
        ptx_mbarrier_init(b.sums_empty, 1);
        for (int s = 0; s < P::places; s++) {
            ptx_mbarrier_init(b.full + s * 8, 2 * fillers + (backward_lists<P>::there ? 32 : 0));
            ptx_mbarrier_init(b.empty + s * 8, 8);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return b;
}

/* The place of that round's item, whose batch is -1 where there is none: one for all threads, one for that
 * which adds alone. */
template <class P>
static __device__ inline backward_item *backward_fused_item(const backward_fused_block &b, int round,
                                                            bool adds) {
    return (backward_item *)(b.memory + backward_fused_memory<P>::items_at) + (round & 1) + 2 * adds;
}

/* Places in a list begin at 0. */
template <class P> static __device__ inline int backward_fused_first(const backward_item &item) {
    return P::listed ? 0 : item.first;
}

/* ---- the warps that bring ---- */

/* An item's keys and values, once those of the one before are left. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void backward_fused_bring_own(const A &a, const backward_size &size,
                                                       const backward_fused_block &b, const M &maps,
                                                       const backward_item &item, int round) {
    typedef backward_memory<P> ring;
    ptx_mbarrier_wait(b.own_empty, (round & 1) ^ 1);
    attention_fill<typename P::own_deep, BOXES, P::tile_m, ring::deep_spans, P::deep, 96, 2>(
        a, b, 0, maps.own_deep, item.batch, item.m, size.own, b.own_full);
    attention_fill<typename P::own_wide, BOXES, P::tile_m, ring::wide_spans, P::wide, 96, 2>(
        a, b, ring::own_deep_bytes, maps.own_wide, item.batch, item.m, size.own, b.own_full);
}

/* By one thread, or by three warps where arrays begin anywhere; lists by the second warp. An item's first
 * tiles come before its keys: the block is still at the item before. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void backward_fused_produce(const A &a, const backward_size &size,
                                                     const backward_fused_block &b, const M &maps) {
    typedef backward_memory<P> ring;
    typedef backward_fused_memory<P> memory;
    const bool brings = !BOXES || threadIdx.x == 0, lists = backward_lists<P>::there && threadIdx.x / 32 == 1;
    int count = 0; /* of tiles, twice, and whether the round is odd: registers are scarce */
#pragma unroll 1
    for (;; count ^= 1) {
        if (threadIdx.x == 0) {
            const int number = atomicAdd(size.turns, 1);
            backward_item item = {-1, 0, 0, 0};
            if (number < b.items) item = backward_item_at<P>(a, size, number);
            *backward_fused_item<P>(b, count, false) = *backward_fused_item<P>(b, count, true) = item;
        }
        ptx_barrier_sync(1, 96);
        const backward_item item = *backward_fused_item<P>(b, count, false);
        if (item.batch < 0) break;
        if (brings && item.first == item.end)
            backward_fused_bring_own<P, BOXES>(a, size, b, maps, item, count);
        if (!brings && !lists) continue;
#pragma unroll 1
        for (int step = item.end - 1; step >= backward_fused_first<P>(item); step--, count += 2) {
            uint32_t list = 0; /* where it begins, among all */
            if constexpr (P::listed) list = (uint32_t)(backward_list_of<P>(a, size, item) - size.lists);
            const int place = count / 2 % P::places, at = ring::ring_at + place * ring::place_bytes,
                      tile = P::listed ? size.lists[list + 2 + step] : step, n = tile * P::tile_n;
            ptx_mbarrier_wait(b.empty + place * 8, (count / 2 / P::places & 1) ^ 1);
            if (P::listed && threadIdx.x == 0) /* the others need not look for it */
                *(int *)(b.memory + memory::tiles_at + place * 8) = tile * 2 + (step >= size.lists[list]);
            if (brings) {
                attention_fill<typename P::walk_deep, BOXES, P::tile_n, ring::deep_spans, P::deep, 96, 2>(
                    a, b, at, maps.walk_deep, item.batch, n, size.walk, b.full + place * 8);
                attention_fill<typename P::walk_wide, BOXES, P::tile_n, ring::wide_spans, P::wide, 96, 2>(
                    a, b, at + ring::deep_bytes, maps.walk_wide, item.batch, n, size.walk,
                    b.full + place * 8);
                const int before = item.end - P::places, first = backward_fused_first<P>(item);
                if (step == (before > first ? before : first))
                    backward_fused_bring_own<P, BOXES>(a, size, b, maps, item, count);
            }
            if (lists) {
                backward_lists_fill<P>(a, size, item.batch, n,
                                       (float *)(b.memory + memory::lists_at + place * ring::lists_bytes));
                ptx_mbarrier_arrive(b.full + place * 8);
            }
        }
    }
    if (!brings) return;
    ptx_mbarrier_wait(b.own_empty, (count & 1) ^ 1);
    ptx_mbarrier_arrive(b.own_full); /* the others hear that there is no more */
    ptx_mbarrier_arrive(b.own_full);
}

/* ---- the warp that adds to the gradients of queries ---- */

/* Blocks of keys that add to the tile's queries before that of an item. */
template <class P, class A>
static __device__ inline int backward_fused_turn(const A &a, const backward_size &size,
                                                 const backward_item &item, int tile) {
    const int own_tile = item.m / P::tile_m;
    int turn = own_tile;
    if constexpr (P::listed) {
        const int tiles = (int)((size.walk + P::tile_n - 1) / P::tile_n),
                  rows = (int)((size.own + P::tile_m - 1) / P::tile_m);
        const char *const adders =
            size.adders + ((int64_t)P::classes_of::batch(a, item.batch) * tiles + tile) * rows;
        turn = 0;
#pragma unroll 1
        for (int i = 0; i < own_tile; i++)
            turn += adders[i];
    } else if constexpr (P::masked) {
        turn -= attention_clamp(P::begin(a, item.batch, (int64_t)tile * P::tile_n), size.own) / P::tile_m;
    }
    return turn;
}

/* By one thread. */
template <class P, class A>
static __device__ inline void backward_fused_add(const A &a, const backward_size &size,
                                                 const backward_fused_block &b) {
    typedef backward_fused_memory<P> memory;
    const int tiles = (int)((size.walk + P::tile_n - 1) / P::tile_n);
    int taken = 0;
#pragma unroll 1
    for (int round = 0;; round++) {
        ptx_mbarrier_wait(b.own_full, round & 1);
        const backward_item item = *backward_fused_item<P>(b, round, true);
        if (item.batch < 0) return;
        ptx_mbarrier_arrive(b.own_empty);
#pragma unroll 1
        for (int step = item.end - 1; step >= backward_fused_first<P>(item); step--, taken++) {
            const int tile = backward_tile<P>(a, size, item, step);
            const int64_t at = (int64_t)item.batch * tiles + tile;
            const int turn = backward_fused_turn<P>(a, size, item, tile);
            float *const to = size.sums + at * (memory::sum_bytes / 4);
            ptx_wait_value(size.turns + 1 + at, turn);
            ptx_fence_proxy_async_global();
            ptx_mbarrier_wait(b.sums_full, taken & 1);
            if (turn == 0)
                ptx_bulk_store(to, b.address + memory::sums_at, memory::sum_bytes);
            else
                ptx_bulk_add_f32(to, b.address + memory::sums_at, memory::sum_bytes);
            ptx_bulk_commit();
            ptx_bulk_wait_read<0>();
            ptx_mbarrier_arrive(b.sums_empty);
            ptx_bulk_wait<0>();
            ptx_fence_proxy_async_global();
            ptx_store_release(size.turns + 1 + at, turn + 1);
        }
    }
}

/* ---- the warpgroups that multiply ---- */

/* A step's tile, and whether all its pairs with a group's 64 keys count. */
struct backward_fused_told {
    int tile;
    bool open;
};

/* In `place` of the ring. */
template <class P, class A>
static __device__ inline backward_fused_told
backward_fused_told_of(const A &a, const backward_size &size, const backward_fused_block &b,
                       const backward_item &item, int number, int step, int place) {
    const int m = item.m + number * 64;
    if constexpr (P::listed) {
        const int told = *(const int *)(b.memory + backward_fused_memory<P>::tiles_at + place * 8);
        const bool whole = m + 64 <= (int)size.own && (told / 2 + 1) * P::tile_n <= (int)size.walk;
        return {told / 2, whole && told & 1};
    } else {
        const int tile = backward_tile<P>(a, size, item, step);
        return {tile, backward_is_open<P, 64>(a, size, item, m, step, tile)};
    }
}

/* Gradients of a tile's scores to shared memory: [64 queries][key][query]. */
template <class P>
static __device__ inline void backward_fused_leave_slopes(const backward_group<P> &g, uint32_t to,
                                                          int number) {
    uint32_t thread = threadIdx.x;
    stay_inside(thread); /* no address is made before: registers are scarce */
    const int lane = (int)thread % 32, row = number * 64 + (int)thread % 128 / 32 * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++) {
        const int chunk = k % 4 * 2 + lane / 16;
        ptx_store_matrix_4(to + k / 4 * P::tile_m * 128 + row * 128 + ((chunk ^ row % 8) << 4),
                           g.gradients[k]);
    }
}

template <class P> struct backward_fused_queries {
    uint64_t slopes, keys; /* descriptors */
    float sums[P::query_columns / 2];
};

/* Where the operands of a group are. */
template <class P>
static __device__ inline void backward_fused_look(const backward_fused_block &b, int number,
                                                  backward_group<P> &g, backward_fused_queries<P> &q) {
    typedef backward_memory<P> ring;
    typedef backward_fused_memory<P> memory;
    const uint32_t own = b.address, rows = (uint32_t)number * 64 * 128, tiles = own + ring::ring_at;
    const uint32_t part = (uint32_t)number * P::tile_m * 128; /* of 64 queries, or of 64 columns */
    g.own_deep = ptx_wgmma_descriptor(own + rows, 16, 1024, 1);
    g.own_wide = ptx_wgmma_descriptor(own + ring::own_deep_bytes + rows, 16, 1024, 1);
    g.walk_deep = ptx_wgmma_descriptor(tiles, 16, 1024, 1);
    g.walk_wide = ptx_wgmma_descriptor(tiles + ring::deep_bytes, 16, 1024, 1);
    g.walk_deep_sums = ptx_wgmma_descriptor(tiles, P::tile_n * 128, 1024, 1);
    g.walk_wide_sums = ptx_wgmma_descriptor(tiles + ring::deep_bytes, P::tile_n * 128, 1024, 1);
    q.slopes = ptx_wgmma_descriptor(own + memory::slopes_at + (memory::wide_tile ? part : 0), P::tile_m * 128,
                                    1024, 1);
    q.keys = ptx_wgmma_descriptor(own + (memory::wide_tile ? 0 : part), P::tile_m * 128, 1024, 1);
}

/* What a tile adds to its queries, from the place of its slopes. */
template <class P>
static __device__ inline void backward_fused_multiply(backward_fused_queries<P> &q, int place) {
    const uint32_t at = (uint32_t)place * (backward_fused_memory<P>::slope_bytes >> 4);
#pragma unroll
    for (int k = 0; k < P::tile_m / 16; k++)
        P::query_sums(q.sums, q.slopes + at + k * 128, q.keys + k * 128, k > 0);
}

/* Its sums go to where the adding warp takes them; `taken`: tiles before that one. */
template <class P>
static __device__ inline void backward_fused_leave_sums(const backward_fused_block &b,
                                                        const backward_fused_queries<P> &q, int number,
                                                        int taken) {
    typedef backward_fused_memory<P> memory;
    uint32_t thread = threadIdx.x;
    stay_inside(thread);
    float4 *const to =
        (float4 *)(b.memory + memory::sums_at) + number * memory::quads * 128 + (int)thread % 128;
    ptx_mbarrier_wait(b.sums_empty, (taken & 1) ^ 1);
#pragma unroll
    for (int i = 0; i < memory::quads; i++)
        to[i * 128] = make_float4(q.sums[4 * i], q.sums[4 * i + 1], q.sums[4 * i + 2], q.sums[4 * i + 3]);
    ptx_fence_proxy_async();
    backward_leave(b.sums_full);
}

template <class P, class A>
static __device__ inline void backward_fused_step(const A &a, const backward_size &size,
                                                  const backward_fused_block &all, const backward_item &item,
                                                  backward_group<P> &g, backward_fused_queries<P> &q,
                                                  int number, int step, int taken) {
    typedef backward_fused_memory<P> memory;
    const backward_fused_block b = backward_fused_at<P>(all.address, all.items);
    const int place = taken % P::places;
    const int slopes = taken & 1, before = slopes ^ 1;
    backward_fused_look<P>(b, number, g, q);
    ptx_mbarrier_wait(b.full + place * 8, taken / P::places & 1);
    const backward_fused_told told = backward_fused_told_of<P>(a, size, b, item, number, step, place);
    const int tile = told.tile;
    const bool open = told.open;
    backward_seen<P> seen = {}; /* asked for before there are scores: registers are scarce */
    if (!open) seen = backward_seen_of<P>(a, size, item.batch, g, tile);
    forget(g.scores);
    forget(g.products);
    ptx_wgmma_fence();
    backward_scores<P>(g, 0, place);
    backward_products<P>(g, 0, place);
    ptx_wgmma_commit();
    ptx_wgmma_wait<0>();
    const char *const lists = b.memory + memory::lists_at + place * memory::ring::lists_bytes;
    if (open)
        backward_pairs<P, true>(a, size, lists, item.batch, g, tile, seen);
    else
        backward_pairs<P, false>(a, size, lists, item.batch, g, tile, seen);
    ptx_mbarrier_wait(b.slopes_empty + slopes * 8, (taken >> 1 & 1) ^ 1);
    backward_fused_leave_slopes<P>(g, b.address + memory::slopes_at + slopes * memory::slope_bytes, number);
    ptx_fence_proxy_async();
    backward_leave(b.slopes_full + slopes * 8);
    const bool second = step < item.end - 1;
    forget(q.sums);
    if (second) {
        ptx_mbarrier_wait(b.slopes_full + before * 8, (taken - 1) >> 1 & 1);
        ptx_wgmma_fence();
        backward_fused_multiply<P>(q, before);
        ptx_wgmma_commit();
    }
    ptx_wgmma_fence();
    backward_wide_sums<P>(g, place, second);
    backward_deep_sums<P>(g, place, second);
    ptx_wgmma_commit();
    ptx_wgmma_wait<1>();
    if (second) {
        backward_leave(b.slopes_empty + before * 8);
        backward_fused_leave_sums<P>(b, q, number, taken - 1);
    }
    ptx_wgmma_wait<0>();
    backward_leave(b.empty + place * 8);
}

template <class P, class A>
static __device__ inline void backward_fused_consume(const A &a, const backward_size &size,
                                                     const backward_fused_block &b, int number) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % 128 / 32;
    backward_group<P> g;
    backward_fused_queries<P> q;
    int taken = 0;
#pragma unroll 1
    for (int round = 0;; round++) {
        ptx_mbarrier_wait(b.own_full, round & 1);
        const backward_item item = *backward_fused_item<P>(b, round, false);
        if (item.batch < 0) return;
        g.m = item.m + number * 64 + warp * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < P::deep_part / 2; i++)
            g.deep_sums[i] = 0;
#pragma unroll
        for (int i = 0; i < P::wide_part / 2; i++)
            g.wide_sums[i] = 0;
#pragma unroll 1
        for (int step = item.end - 1; step >= backward_fused_first<P>(item); step--, taken++)
            backward_fused_step<P>(a, size, b, item, g, q, number, step, taken);
        if (item.first < item.end) {
            const int last = taken - 1, slopes = last & 1;
            backward_fused_look<P>(b, number, g, q);
            ptx_mbarrier_wait(b.slopes_full + slopes * 8, last >> 1 & 1);
            ptx_wgmma_fence();
            backward_fused_multiply<P>(q, slopes);
            ptx_wgmma_commit();
            ptx_wgmma_wait<0>();
            backward_leave(b.slopes_empty + slopes * 8);
            backward_fused_leave_sums<P>(b, q, number, last);
        }
        backward_leave(b.own_empty);
        backward_store<P>(a, size, item.batch, g);
    }
}

/* BOXES: arrays begin at whole 16 bytes, and the copy engine has maps of them. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void attention_backward_fused(const A &a, const backward_size size, const M &maps) {
    const backward_fused_block b = backward_fused_begin<P, BOXES>(size);
    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        ptx_registers_give<P::producer_registers>();
        if (threadIdx.x < 96)
            backward_fused_produce<P, BOXES>(a, size, b, maps);
        else if (threadIdx.x == 96)
            backward_fused_add<P>(a, size, b);
        __syncwarp();
    } else {
        ptx_registers_take<P::consumer_registers>();
        backward_fused_consume<P>(a, size, b, group - 1);
    }
}

/* ---- the kernels before and after ---- */

template <class P> static __device__ inline void attention_backward_clear(const backward_size &size) {
    const int64_t counts = 1 + size.batch * ((size.walk + P::tile_n - 1) / P::tile_n);
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < counts;
         i += (int64_t)gridDim.x * blockDim.x)
        size.turns[i] = 0;
}

/* The sums of a tile of queries for each block of the grid; of those to which nobody added they are 0. A
 * thread has two columns of the rows m and m + 8; neighbours have neighbouring columns. */
template <class P, class A>
static __device__ inline void attention_backward_round(const A &a, const backward_size &size) {
    typedef backward_fused_memory<P> memory;
    const int tiles = (int)((size.walk + P::tile_n - 1) / P::tile_n);
    const int batch = (int)blockIdx.x / tiles, n = (int)blockIdx.x % tiles * P::tile_n;
    const bool added = size.turns[1 + blockIdx.x] > 0;
    const float4 *const sums = (const float4 *)size.sums + (int64_t)blockIdx.x * (memory::sum_bytes / 16);
#pragma unroll 1
    for (int e = (int)threadIdx.x; e < memory::sum_bytes / 16; e += (int)blockDim.x) {
        const int pair = e % 4, quad = e / 4 % memory::quads, row = e / 4 / memory::quads % 32,
                  group = e / 128 / memory::quads;
        const float4 sum =
            added ? sums[(group * memory::quads + quad) * 128 + row * 4 + pair] : make_float4(0, 0, 0, 0);
        const int m = n + row / 8 * 16 + row % 8 + (memory::wide_tile ? group * 64 : 0);
        const int column = quad * 8 + pair * 2 + (memory::wide_tile ? 0 : group * 64);
        if (column >= P::deep) continue;
        if (m < (int)size.walk) {
            P::store_query(a, batch, m, column, sum.x);
            P::store_query(a, batch, m, column + 1, sum.y);
        }
        if (m + 8 < (int)size.walk) {
            P::store_query(a, batch, m + 8, column, sum.z);
            P::store_query(a, batch, m + 8, column + 1, sum.w);
        }
    }
}
