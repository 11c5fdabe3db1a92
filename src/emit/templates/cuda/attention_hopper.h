/* Attention on the tensor cores of sm_90a: for each query the sum of values, weighted by softmax over its
 * scores with all keys. Queries, keys and values of 16 bits; scores, sums and the softmax in f32; weights are
 * rounded to 16 bits as they become the left operand of the second product.
 *
 * A block takes P::tile_m queries of one batch (head). Its first warpgroup brings them once, and tiles of
 * P::tile_n keys and of their values through two rings of two places. Each of the two others multiplies 64
 * queries by a tile of keys, makes weights of the scores in registers, and multiplies these by the values.
 * The maximum and the sum of a row's softmax are running ones: when the maximum grows, what was added up
 * shrinks. The product with the values of one tile runs beside the softmax of the next. A named barrier lets
 * the groups issue products in turn, so that one's softmax goes beside the other's products.
 *
 * Tiles of keys are taken from the last to the first. Those below `open` count for all queries of the block
 * and ask for no mask; those from `blocks` on count for none and are left out.
 *
 * P, which the printer makes for a region: tile_m, tile_n, deep (elements of a query), wide (of a value),
 * run (the size of the last index of queries), open_score(a, batch, m, n, sum) and sees(a, batch, m, n): a
 * score is the first where the second holds, -inf elsewhere; bound(a, batch, m): keys that a query sees;
 * bounded: sees() asks for nothing else; factor(a): what makes an open score an exponent of 2, unit(a): what
 * makes it the score of the text; store(a, batch, m, n, value), rows(a, batch, m, peak, total, total where 0
 * stands for an infinite peak); query, key and value with load(to, map, column, row, batch, barrier) and
 * element(a, batch, row, column); pair(low, high); scores(d, a, b, accumulate) and values(d, a, b,
 * accumulate).
 */
struct attention_size {
    int64_t batch, m, n, section;
};

template <class P> struct attention_memory {
    static constexpr int deep_spans = (P::deep + 63) / 64, wide_spans = (P::wide + 63) / 64;
    static constexpr int query_bytes = deep_spans * P::tile_m * 128, key_bytes = deep_spans * P::tile_n * 128,
                         value_bytes = wide_spans * P::tile_n * 128;
    static constexpr int keys_at = query_bytes, values_at = keys_at + 2 * key_bytes,
                         barriers_at = values_at + 2 * value_bytes;
};

/* The block's dynamic shared memory, at whole 1024 bytes: what is swizzled is so by bits of its address. */
static __device__ inline char *attention_shared() {
#ifdef HR_EMULATED
    return (char *)emulated_shared();
#else
    extern __shared__ __align__(1024) uint4 attention_words[];
    return (char *)attention_words;
#endif
}

/* What the groups of a block know of it. Barriers: of a ring's place, full and empty. */
struct attention_block {
    char *memory;
    uint32_t address, query_full, key_full, key_empty, value_full, value_empty;
    int batch, blocks, open; /* tiles of keys: those that count, those that ask for no mask */
    int64_t m;               /* the first query */
};

/* Which queries: heads in sections, whose keys and values the L2 holds, the last queries first, which see the
 * most keys under a mask. */
template <class P, class A>
static __device__ inline void attention_place(const A &a, const attention_size &size, attention_block &b) {
    const int64_t tiles = (size.m + P::tile_m - 1) / P::tile_m, per = size.section * tiles;
    const int64_t section = (int64_t)blockIdx.x / per, rest = (int64_t)blockIdx.x % per;
    const int64_t left = size.batch - section * size.section;
    const int64_t heads = left < size.section ? left : size.section;
    b.batch = (int)(section * size.section + rest % heads);
    b.m = (tiles - 1 - rest / heads) * P::tile_m;
    const int64_t end = b.m + P::tile_m < size.m ? b.m + P::tile_m : size.m;
    const int64_t run = P::run(a);
    const bool together = b.m / run == (end - 1) / run;
    const int64_t least = P::bound(a, b.batch, together ? b.m : 0);
    const int64_t most = P::bound(a, b.batch, together ? end - 1 : run - 1);
    const int64_t few = least < 0 ? 0 : least < size.n ? least : size.n;
    const int64_t many = most < 0 ? 0 : most < size.n ? most : size.n;
    b.open = P::bounded ? (int)(few / P::tile_n) : 0;
    b.blocks = (int)((many + P::tile_n - 1) / P::tile_n);
}

template <class P, bool BOXES, class A>
static __device__ inline attention_block attention_begin(const A &a, const attention_size &size) {
    attention_block b;
    b.memory = attention_shared();
    b.address = __shfl_sync(0xffffffffu, ptx_shared_address(b.memory), 0);
    b.query_full = b.address + attention_memory<P>::barriers_at;
    b.key_full = b.query_full + 8;
    b.key_empty = b.key_full + 16;
    b.value_full = b.key_empty + 16;
    b.value_empty = b.value_full + 16;
    attention_place<P>(a, size, b);
    if (threadIdx.x == 0) {
        const int fillers = BOXES ? 1 : 128;
        ptx_mbarrier_init(b.query_full, fillers);
        for (int s = 0; s < 2; s++) {
            ptx_mbarrier_init(b.key_full + s * 8, fillers);
            ptx_mbarrier_init(b.value_full + s * 8, fillers);
            ptx_mbarrier_init(b.key_empty + s * 8, 8);
            ptx_mbarrier_init(b.value_empty + s * 8, 8);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return b;
}

/* ---- the warpgroup that brings ---- */

/* ROWS rows of so many spans of 64 elements: span after span, each row 128 bytes. By the copy engine, or each
 * thread some chunks of 16 bytes, element by element, where arrays begin anywhere. */
template <class S, bool BOXES, int ROWS, int SPANS, int COLUMNS, class A>
static __device__ inline void attention_fill(const A &a, const attention_block &b, int at, const void *map,
                                             int64_t row, int64_t rows, uint32_t barrier) {
    if constexpr (BOXES) {
        ptx_mbarrier_arrive_expect(barrier, ROWS * SPANS * 128);
#pragma unroll
        for (int s = 0; s < SPANS; s++)
            S::load(b.address + at + s * ROWS * 128, map, s * 64, (int)row, b.batch, barrier);
    } else {
#pragma unroll 1
        for (int e = (int)threadIdx.x; e < ROWS * SPANS * 8; e += 128) {
            const int here = e / 8 % ROWS, chunk = e % 8, column = e / (ROWS * 8) * 64 + chunk * 8;
            uint32_t word[4] = {0, 0, 0, 0};
            if (row + here < rows && column < COLUMNS) {
#pragma unroll
                for (int v = 0; v < 8; v++)
                    word[v / 2] |= (uint32_t)S::element(a, b.batch, row + here, column + v) << v % 2 * 16;
            }
            *(uint4 *)(b.memory + at + e / (ROWS * 8) * ROWS * 128 + here * 128 + ((chunk ^ here % 8) << 4)) =
                make_uint4(word[0], word[1], word[2], word[3]);
        }
        ptx_fence_proxy_async();
        ptx_mbarrier_arrive(barrier);
    }
}

template <class P, bool BOXES, class A, class M>
static __device__ inline void attention_produce(const A &a, const attention_size &size,
                                                const attention_block &b, const M &maps) {
    typedef attention_memory<P> memory;
    attention_fill<typename P::query, BOXES, P::tile_m, memory::deep_spans, P::deep>(a, b, 0, maps.query, b.m,
                                                                                     size.m, b.query_full);
#pragma unroll 1
    for (int t = 0; t < b.blocks; t++) {
        const int place = t & 1, parity = (t >> 1 & 1) ^ 1;
        const int64_t n = (int64_t)(b.blocks - 1 - t) * P::tile_n;
        ptx_mbarrier_wait(b.key_empty + place * 8, parity);
        attention_fill<typename P::key, BOXES, P::tile_n, memory::deep_spans, P::deep>(
            a, b, memory::keys_at + place * memory::key_bytes, maps.key, n, size.n, b.key_full + place * 8);
        ptx_mbarrier_wait(b.value_empty + place * 8, parity);
        attention_fill<typename P::value, BOXES, P::tile_n, memory::wide_spans, P::wide>(
            a, b, memory::values_at + place * memory::value_bytes, maps.value, n, size.n,
            b.value_full + place * 8);
    }
}

/* ---- the warpgroups that multiply ---- */

/* A group's 64 rows. A thread has rows `row` and `row` + 8; of the keys of a tile, and of a value, the pair
 * 8 j + 2 (lane % 4) of each j. */
template <class P> struct attention_group {
    uint64_t query, key, value; /* descriptors of the first part of the first place */
    int64_t m;                  /* of the first of the two rows */
    int number;                 /* of the group, 0 or 1 */
    float scores[P::tile_n / 2], sums[P::wide / 2];
    uint32_t weights[P::tile_n / 16][4];
    float peak[2], total[2]; /* of open scores; the thread's part */
};

template <class P>
static __device__ inline void attention_scores(attention_group<P> &g, const attention_block &b, int place) {
    typedef attention_memory<P> memory;
    const uint64_t key = g.key + (uint32_t)place * (memory::key_bytes >> 4);
#pragma unroll
    for (int k = 0; k < (P::deep + 15) / 16; k++)
        P::scores(g.scores, g.query + (k / 4 * P::tile_m * 8 + k % 4 * 2),
                  key + (k / 4 * P::tile_n * 8 + k % 4 * 2), k > 0);
}

template <class P>
static __device__ inline void attention_values(attention_group<P> &g, const attention_block &b, int place,
                                               int accumulate) {
    typedef attention_memory<P> memory;
    const uint64_t value = g.value + (uint32_t)place * (memory::value_bytes >> 4);
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
        P::values(g.sums, g.weights[k], value + k * 128, k > 0 || accumulate);
}

/* Exponents' bases; what was added up before is to be multiplied by `shrink`. Scores become weights. */
template <class P, bool MASKED, class A>
static __device__ inline void attention_softmax(const A &a, const attention_size &size,
                                                const attention_block &b, attention_group<P> &g, int block,
                                                float (&shrink)[2]) {
    const int64_t n = (int64_t)block * P::tile_n + (int)threadIdx.x % 4 * 2;
    const int64_t rows[2] = {g.m < size.m ? g.m : size.m - 1, g.m + 8 < size.m ? g.m + 8 : size.m - 1};
    float most[2] = {g.peak[0], g.peak[1]};
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++) {
        const int64_t key = n + i / 4 * 8 + i % 2;
        if (MASKED) {
            const int64_t there = key < size.n ? key : size.n - 1;
            const bool seen = key < size.n && P::sees(a, b.batch, rows[i / 2 % 2], there);
            const float open = P::open_score(a, b.batch, rows[i / 2 % 2], there, g.scores[i]);
            g.scores[i] = seen ? open : -INFINITY;
        } else {
            g.scores[i] = P::open_score(a, b.batch, rows[i / 2 % 2], key, g.scores[i]);
        }
        most[i / 2 % 2] = fmaxf(most[i / 2 % 2], g.scores[i]);
    }
    const float factor = P::factor(a);
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 1));
        most[r] = fmaxf(most[r], __shfl_xor_sync(0xffffffffu, most[r], 2));
        base[r] = most[r] == -INFINITY ? 0.0f : most[r] * factor;
        shrink[r] = machine_exp2(fmaf(g.peak[r], factor, -base[r]));
        g.peak[r] = most[r];
        g.total[r] *= shrink[r];
    }
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++) {
        g.scores[i] = machine_exp2(fmaf(g.scores[i], factor, -base[i / 2 % 2]));
        g.total[i / 2 % 2] += g.scores[i];
    }
}

template <class P> static __device__ inline void attention_pack(attention_group<P> &g) {
#pragma unroll
    for (int i = 0; i < P::tile_n / 4; i++)
        g.weights[i / 4][i % 4] = P::pair(g.scores[2 * i], g.scores[2 * i + 1]);
}

/* All of the warp have read the place. */
static __device__ inline void attention_leave(uint32_t barrier) {
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(barrier);
}

/* Scores of tile `block`, the t-th that is taken, and sums of the one before. */
template <class P, bool MASKED, class A>
static __device__ inline void attention_step(const A &a, const attention_size &size, const attention_block &b,
                                             attention_group<P> &g, int block) {
    const int t = b.blocks - 1 - block, place = t & 1, before = place ^ 1;
    float shrink[2];
    ptx_mbarrier_wait(b.key_full + place * 8, t >> 1 & 1);
    ptx_barrier_sync(2 + g.number, 256);
    ptx_wgmma_fence();
    attention_scores<P>(g, b, place);
    ptx_wgmma_commit();
    ptx_mbarrier_wait(b.value_full + before * 8, (t - 1) >> 1 & 1);
    ptx_wgmma_fence();
    attention_values<P>(g, b, before, t > 1);
    ptx_wgmma_commit();
    if (g.number == 0 || block > 0) ptx_barrier_arrive(2 + (g.number ^ 1), 256);
    ptx_wgmma_wait<1>();
    attention_leave(b.key_empty + place * 8);
    attention_softmax<P, MASKED>(a, size, b, g, block, shrink);
    ptx_wgmma_wait<0>();
    attention_leave(b.value_empty + before * 8);
    attention_pack<P>(g);
#pragma unroll
    for (int i = 0; i < P::wide / 2; i++)
        g.sums[i] *= shrink[i / 2 % 2];
}

template <class P, class A>
static __device__ inline void attention_store(const A &a, const attention_size &size,
                                              const attention_block &b, attention_group<P> &g) {
    const int column = (int)threadIdx.x % 4 * 2;
    float inverse[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = g.total[r];
        total += __shfl_xor_sync(0xffffffffu, total, 1);
        total += __shfl_xor_sync(0xffffffffu, total, 2);
        inverse[r] = size.n > 0 ? 1.0f / total : 0.0f; /* a sum over no keys is 0 */
        /* Of infinite peaks the text's totals are other ones. */
        const float of_peak = g.peak[r] == -INFINITY && size.n > 0 ? NAN : total;
        const float of_zero = g.peak[r] == INFINITY ? INFINITY : total;
        if (column == 0 && g.m + r * 8 < size.m)
            P::rows(a, b.batch, g.m + r * 8, g.peak[r] * P::unit(a), of_peak, of_zero);
    }
#pragma unroll
    for (int i = 0; i < P::wide / 2; i++) {
        const int64_t m = g.m + i / 2 % 2 * 8;
        if (m < size.m) P::store(a, b.batch, m, column + i / 4 * 8 + i % 2, g.sums[i] * inverse[i / 2 % 2]);
    }
}

template <class P, class A>
static __device__ inline void attention_consume(const A &a, const attention_size &size,
                                                const attention_block &b, int number) {
    typedef attention_memory<P> memory;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % 128 / 32;
    attention_group<P> g;
    g.number = number;
    g.m = b.m + number * 64 + warp * 16 + lane / 4;
    g.query = ptx_wgmma_descriptor(b.address + number * 64 * 128, 16, 1024, 1);
    g.key = ptx_wgmma_descriptor(b.address + memory::keys_at, 16, 1024, 1);
    g.value = ptx_wgmma_descriptor(b.address + memory::values_at, P::tile_n * 128, 1024, 1);
    g.peak[0] = g.peak[1] = -INFINITY;
    g.total[0] = g.total[1] = 0;
#pragma unroll
    for (int i = 0; i < P::wide / 2; i++)
        g.sums[i] = 0;
    if (b.blocks > 0) {
        const int last = b.blocks - 1;
        float shrink[2];
        if (number == 1 && last > 0) ptx_barrier_arrive(2, 256);
        ptx_mbarrier_wait(b.query_full, 0);
        ptx_mbarrier_wait(b.key_full, 0);
        ptx_wgmma_fence();
        attention_scores<P>(g, b, 0);
        ptx_wgmma_commit();
        ptx_wgmma_wait<0>();
        attention_leave(b.key_empty);
        attention_softmax<P, true>(a, size, b, g, last, shrink);
        attention_pack<P>(g);
        int block = last - 1;
#pragma unroll 1
        for (; block >= b.open; block--)
            attention_step<P, true>(a, size, b, g, block);
#pragma unroll 1
        for (; block >= 0; block--)
            attention_step<P, false>(a, size, b, g, block);
        ptx_mbarrier_wait(b.value_full + (last & 1) * 8, last >> 1 & 1);
        ptx_wgmma_fence();
        attention_values<P>(g, b, last & 1, last > 0);
        ptx_wgmma_commit();
        ptx_wgmma_wait<0>();
    }
    attention_store<P>(a, size, b, g);
}

/* BOXES: arrays begin at whole 16 bytes, and the copy engine has maps of them. */
template <class P, bool BOXES, class A, class M>
static __device__ inline void attention_hopper(const A &a, const attention_size size, const M &maps) {
    const attention_block b = attention_begin<P, BOXES>(a, size);
    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        ptx_registers_give<40>();
        if (!BOXES || threadIdx.x == 0) attention_produce<P, BOXES>(a, size, b, maps);
        __syncwarp();
    } else {
        ptx_registers_take<232>();
        attention_consume<P>(a, size, b, group - 1);
    }
}
