/* The gradients of attention on the tensor cores of sm_80 and later, from scores that are made again: one
 * kernel for those of queries and one for those of keys and values, as in attention_backward.h, which has the
 * multiplication of warpgroups that this one does without. Each sum is one warp's, in one order.
 *
 * A block has one item: P::tile_m owned rows, 16 a warp, which stay in shared memory, and tiles of the other
 * side that come through a ring of P::places by cp.async. A warp multiplies its rows by a tile with mma.sync:
 * scores, and the products of the results' gradients with values. What follows from both are the left
 * operands of the sums, in the same registers.
 *
 * A thread's sums are registers: where both gradients have more columns than there are, P::parts blocks make
 * the scores of an item, each for P::deep_part and P::wide_part columns of the sums.
 *
 * A tile lies as spans of 64 columns, each a run of rows of 128 bytes, swizzled as in gemm_ampere.h. P is as
 * in attention_backward_items.h, and has places, warps, deep, wide; parts, deep_part, wide_part; own_deep,
 * own_wide, walk_deep and walk_wide with element() and, with chunks, place(); multiply(d, a, b);
 * store_deep(a, batch, row, column, sum) and store_wide().
 */
template <class P> struct backward_ampere_memory {
    static constexpr int deep_spans = (P::deep + 63) / 64, wide_spans = (P::wide + 63) / 64;
    static constexpr int own_deep_bytes = deep_spans * P::tile_m * 128,
                         ring_at = own_deep_bytes + wide_spans * P::tile_m * 128;
    static constexpr int deep_bytes = deep_spans * P::tile_n * 128,
                         place_bytes = deep_bytes + wide_spans * P::tile_n * 128;
    /* Behind the ring: what is one for each query, lists a place. */
    static constexpr int lists_at = ring_at + P::places * place_bytes,
                         lists_bytes = backward_lists<P>::count * backward_lists<P>::bytes;
};

/* A warp's 16 rows: a thread has m and m + 8. */
template <class P> struct backward_ampere_rows {
    int m;
    float of_query[2][backward_lists<P>::count]; /* of owned queries */
    float scores[P::tile_n / 2], products[P::tile_n / 2];
    float deep_sums[P::deep_part / 8][4], wide_sums[P::keys ? P::wide_part / 8 : 1][4];
    uint32_t weights[P::keys ? P::tile_n / 16 : 1][4], gradients[P::tile_n / 16][4];
};

/* ---- what is read ---- */

/* Begins the copies of ROWS rows of so many spans; zeros past the ends. */
template <class P, class S, bool COPIES, int ROWS, int SPANS, int COLUMNS, class A>
static __device__ inline void backward_ampere_fill(const A &a, char *to, int64_t batch, int64_t row,
                                                   int64_t rows) {
#pragma unroll 1
    for (int e = (int)threadIdx.x; e < ROWS * SPANS * 8; e += P::warps * 32) {
        const int here = e / 8 % ROWS, span = e / (ROWS * 8), column = span * 64 + e % 8 * 8;
        const bool there = row + here < rows && column < COLUMNS;
        char *const place = to + span * ROWS * 128 + k_major_place(here, e % 8);
        if constexpr (COPIES && S::chunks && !S::widens) {
            const char *const from = there ? (const char *)S::place(a, batch, row + here) : nullptr;
            ptx_copy_part_past_l1(ptx_shared_address(place), from ? from + column * 2 : (const char *)a.fault,
                                  from ? 16 : 0);
        } else {
            *(uint4 *)place = attention_piece<S, COPIES, COLUMNS>(a, batch, row + here, column, there);
        }
    }
}

template <class P, bool COPIES, class A>
static __device__ inline void backward_ampere_bring(const A &a, const backward_size &size, char *shared,
                                                    const backward_item &item, int step, int place) {
    typedef backward_ampere_memory<P> memory;
    if (step < item.end) {
        const int n = backward_tile<P>(a, size, item, step) * P::tile_n;
        char *const to = shared + memory::ring_at + place * memory::place_bytes;
        backward_ampere_fill<P, typename P::walk_deep, COPIES, P::tile_n, memory::deep_spans, P::deep>(
            a, to, item.batch, n, size.walk);
        backward_ampere_fill<P, typename P::walk_wide, COPIES, P::tile_n, memory::wide_spans, P::wide>(
            a, to + memory::deep_bytes, item.batch, n, size.walk);
        if (backward_lists<P>::there && (int)threadIdx.x / 32 == place)
            backward_lists_fill<P>(a, size, item.batch, n,
                                   (float *)(shared + memory::lists_at + place * memory::lists_bytes));
    }
    ptx_copy_commit();
}

/* ---- the products ---- */

/* Of the warp's owned rows, whose first stands at `row`, with a tile, along DEPTH columns. */
template <class P, int DEPTH>
static __device__ inline void backward_ampere_multiply(float (&out)[P::tile_n / 2], uint32_t own, int row,
                                                       uint32_t walk) {
    float d[P::tile_n / 8][4] = {};
#pragma unroll 4 /* registers are scarce */
    for (int k = 0; k < (DEPTH + 15) / 16; k++) {
        uint32_t left[4];
        gemm_left_fragment<true>(own + k / 4 * P::tile_m * 128, row, k % 4, left);
#pragma unroll
        for (int j = 0; j < P::tile_n / 16; j++) {
            uint32_t low[2], high[2];
            gemm_right_fragments<true>(walk + k / 4 * P::tile_n * 128, j * 16, k % 4, low, high);
            P::multiply(d[2 * j], left, low);
            P::multiply(d[2 * j + 1], left, high);
        }
    }
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++)
        out[i] = d[i / 4][i % 4];
}

/* Sums over a tile's rows of their COLUMNS columns from `column` on. */
template <class P, int COLUMNS>
static __device__ inline void backward_ampere_sums(float (&sums)[COLUMNS / 8][4],
                                                   const uint32_t (&left)[P::tile_n / 16][4], uint32_t walk,
                                                   int column) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < P::tile_n / 16; k++)
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; j++) {
            const int chunk = column / 8 + j * 2 + lane / 16;
            uint32_t r[4];
            ptx_load_matrix_4_transposed(r, walk + chunk / 8 * P::tile_n * 128 +
                                                k_major_place(k * 16 + lane % 16, chunk % 8));
            const uint32_t low[2] = {r[0], r[1]}, high[2] = {r[2], r[3]};
            P::multiply(sums[2 * j], left[k], low);
            P::multiply(sums[2 * j + 1], left[k], high);
        }
}

template <class P, class A>
static __device__ inline void backward_ampere_step(const A &a, const backward_size &size,
                                                   const backward_item &item, backward_ampere_rows<P> &g,
                                                   const char *shared, int step, int place, int part) {
    typedef backward_ampere_memory<P> memory;
    const uint32_t own = ptx_shared_address(shared),
                   walk = own + memory::ring_at + place * memory::place_bytes;
    const int row = (int)threadIdx.x / 32 * 16, tile = backward_tile<P>(a, size, item, step);
    const char *const lists = shared + memory::lists_at + place * memory::lists_bytes;
    backward_ampere_multiply<P, P::deep>(g.scores, own, row, walk);
    backward_ampere_multiply<P, P::wide>(g.products, own + memory::own_deep_bytes, row,
                                         walk + memory::deep_bytes);
    if (backward_is_open<P, 16>(a, size, item, item.m + row, step, tile))
        backward_pairs<P, true>(a, size, lists, item.batch, g, tile, backward_seen<P>{});
    else
        backward_pairs<P, false>(a, size, lists, item.batch, g, tile,
                                 backward_seen_of<P>(a, size, item.batch, g, tile));
    if constexpr (P::keys)
        backward_ampere_sums<P, P::wide_part>(g.wide_sums, g.weights, walk + memory::deep_bytes,
                                              part * P::wide_part);
    backward_ampere_sums<P, P::deep_part>(g.deep_sums, g.gradients, walk, part * P::deep_part);
}

/* ---- a block ---- */

template <class P, class A>
static __device__ inline void backward_ampere_store(const A &a, const backward_size &size, int batch,
                                                    const backward_ampere_rows<P> &g, int part) {
    const int column = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < P::deep_part / 2; i++) {
        const int m = g.m + i / 2 % 2 * 8, n = part * P::deep_part + column + i / 4 * 8 + i % 2;
        if (m < (int)size.own && n < P::deep) P::store_deep(a, batch, m, n, g.deep_sums[i / 4][i % 4]);
    }
    if constexpr (P::keys) {
#pragma unroll
        for (int i = 0; i < P::wide_part / 2; i++) {
            const int m = g.m + i / 2 % 2 * 8, n = part * P::wide_part + column + i / 4 * 8 + i % 2;
            if (m < (int)size.own && n < P::wide) P::store_wide(a, batch, m, n, g.wide_sums[i / 4][i % 4]);
        }
    }
}

/* COPIES: arrays begin at whole 16 bytes. */
template <class P, bool COPIES, class A>
static __device__ inline void attention_backward_ampere(const A &a, const backward_size size) {
    typedef backward_ampere_memory<P> memory;
    char *const shared = staged_memory();
    const int part = (int)blockIdx.x % P::parts;
    const backward_item item = backward_item_at<P>(a, size, (int)blockIdx.x / P::parts);
    backward_ampere_rows<P> g = {};
    g.m = item.m + (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4;
    backward_ampere_fill<P, typename P::own_deep, COPIES, P::tile_m, memory::deep_spans, P::deep>(
        a, shared, item.batch, item.m, size.own);
    backward_ampere_fill<P, typename P::own_wide, COPIES, P::tile_m, memory::wide_spans, P::wide>(
        a, shared + memory::own_deep_bytes, item.batch, item.m, size.own);
#pragma unroll
    for (int s = 0; s < P::places - 1; s++)
        backward_ampere_bring<P, COPIES>(a, size, shared, item, item.first + s, s);
    backward_of_query<P>(a, size, item.batch, g);
    int place = 0;
#pragma unroll 1
    for (int step = item.first; step < item.end; step++) {
        ptx_copy_wait<P::places - 2>();
        __syncthreads();
        const int next = place ? place - 1 : P::places - 1; /* which all have left */
        backward_ampere_bring<P, COPIES>(a, size, shared, item, step + P::places - 1, next);
        backward_ampere_step<P>(a, size, item, g, shared, step, place, part);
        place = place == P::places - 1 ? 0 : place + 1;
    }
    ptx_copy_wait<0>();
    backward_ampere_store<P>(a, size, item.batch, g, part);
}
