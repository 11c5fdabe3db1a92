/* What a block of attention has to do, and the warpgroup that brings queries, keys and values: the first part
 * of attention_hopper.h, which says what P is.
 */
struct attention_size {
    int64_t batch, m, n;
    int section; /* heads that go together */
    int *lists;  /* attention_classes.h; NULL = there are none */
};

template <class P> struct attention_memory {
    static constexpr int groups = P::tile_m / 64;
    static constexpr int deep_spans = (P::deep + 63) / 64, wide_spans = (P::wide + 63) / 64;
    /* Results leave through the place of their queries. */
    static constexpr int query_spans = P::leaves_rows && wide_spans > deep_spans ? wide_spans : deep_spans;
    static constexpr int query_bytes = query_spans * P::tile_m * 128,
                         key_bytes = deep_spans * P::tile_n * 128, value_bytes = wide_spans * P::tile_n * 128;
    static constexpr int keys_at = P::query_places * query_bytes, values_at = keys_at + 2 * key_bytes,
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

/* What the groups of a block know of it. Barriers: of a place, full and empty. */
struct attention_block {
    char *memory;
    uint32_t address, query_full, query_empty, key_full, key_empty, value_full, value_empty;
    int items; /* of the grid */
};

template <class P, bool BOXES>
static __device__ inline attention_block attention_begin(const attention_size &size) {
    attention_block b;
    b.memory = attention_shared();
    b.address = __shfl_sync(0xffffffffu, ptx_shared_address(b.memory), 0);
    b.query_full = b.address + attention_memory<P>::barriers_at;
    b.query_empty = b.query_full + 16;
    b.key_full = b.query_empty + 16;
    b.key_empty = b.key_full + 16;
    b.value_full = b.key_empty + 16;
    b.value_empty = b.value_full + 16;
    b.items = (int)size.batch * (int)((size.m + P::tile_m - 1) / P::tile_m);
    if (threadIdx.x == 0) {
        const int fillers = BOXES && P::query::boxes ? 1 : 128, warps = attention_memory<P>::groups * 4;
        for (int s = 0; s < 2; s++) {
            ptx_mbarrier_init(b.query_full + s * 8, fillers);
            ptx_mbarrier_init(b.key_full + s * 8, fillers);
            ptx_mbarrier_init(b.value_full + s * 8, fillers);
            ptx_mbarrier_init(b.query_empty + s * 8, warps);
            ptx_mbarrier_init(b.key_empty + s * 8, warps);
            ptx_mbarrier_init(b.value_empty + s * 8, warps);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return b;
}

/* ---- what there is to do ---- */

/* Queries of a batch, and the tiles of keys that they see. `open_first` to `open_end`: all see all of them.
 * Where the tiles are listed these are places in the list, from its end.
 */
struct attention_item {
    int batch, m, first, end, open_first, open_end;
    const int *tiles; /* the list; NULL = tiles go by their own numbers */
};

template <class P> static __device__ inline int attention_tile(const attention_item &item, int block) {
    if constexpr (P::listed)
        return item.tiles[item.end - 1 - block];
    else
        return block;
}

static __device__ inline int attention_clamp(int64_t key, int64_t keys) {
    return (int)(key < 0 ? 0 : key < keys ? key : keys);
}

/* `rows` queries from m on. */
template <class P, class A>
static __device__ inline attention_item attention_part(const A &a, const attention_size &size, int batch,
                                                       int m, int rows) {
    attention_item item = {batch, m, 0, 0, 0, 0, nullptr};
    if (m >= (int)size.m) return item;
    if constexpr (P::listed) {
        const int *const list =
            class_list<P>(size, size.lists, P::classes_of::batch(a, batch), m / P::tile_m);
        item.tiles = list + 2;
        item.end = list[1];
        item.open_end = list[1] - list[0];
        return item;
    }
    const int last = (m + rows < (int)size.m ? m + rows : (int)size.m) - 1, run = (int)P::run(a);
    const bool together = m / run == last / run;
    const int64_t low = together ? m : 0, high = together ? last : run - 1;
    item.end = (attention_clamp(P::bound(a, batch, high), size.n) + P::tile_n - 1) / P::tile_n;
    item.open_end = P::bounded ? attention_clamp(P::bound(a, batch, low), size.n) / P::tile_n : 0;
    if (P::begins) {
        item.first = attention_clamp(P::begin(a, batch, low), size.n) / P::tile_n;
        item.open_first = (attention_clamp(P::begin(a, batch, high), size.n) + P::tile_n - 1) / P::tile_n;
        if (item.first > item.end) item.first = item.end;
    }
    return item;
}

/* Heads in sections, whose keys and values the L2 holds, the last queries first, which see the most keys
 * under a mask. */
template <class P, class A>
static __device__ inline attention_item attention_item_at(const A &a, const attention_size &size,
                                                          int number) {
    const int tiles = (int)((size.m + P::tile_m - 1) / P::tile_m);
    const int section = (int)((uint32_t)number / ((uint32_t)size.section * (uint32_t)tiles));
    const int rest = number - section * size.section * tiles, left = (int)size.batch - section * size.section;
    const int heads = left < size.section ? left : size.section;
    return attention_part<P>(a, size, section * size.section + rest % heads,
                             (tiles - 1 - rest / heads) * P::tile_m, P::tile_m);
}

/* ---- the warpgroup that brings ---- */

/* Rows as in attention_fill(), by 128 threads that load 8 pieces each before they store the first. */
template <class S, int ROWS, int SPANS, int COLUMNS, class A, class B>
static __device__ inline void attention_fill_pieces(const A &a, const B &b, int at, int batch, int64_t row,
                                                    int64_t rows) {
    const int thread = (int)threadIdx.x % 128, chunk = thread % 8, pieces = ROWS * SPANS * 8;
#pragma unroll 1
    for (int first = thread; first < pieces; first += 1024) {
        typename S::piece raw[8];
#pragma unroll
        for (int u = 0; u < 8; u++) {
            const int e = first + u * 128, here = e / 8 % ROWS, column = e / (ROWS * 8) * 64 + chunk * 8;
            raw[u] = {};
            if (e < pieces && row + here < rows && column < COLUMNS)
                raw[u] = S::bring(S::place(a, batch, row + here), column);
        }
#pragma unroll
        for (int u = 0; u < 8; u++) {
            const int e = first + u * 128, here = e / 8 % ROWS;
            if (e < pieces)
                *(uint4 *)(b.memory + at + e / (ROWS * 8) * ROWS * 128 + here * 128 +
                           ((chunk ^ here % 8) << 4)) = S::widened(raw[u]);
        }
    }
}

/* Neighbours of 16 bits. */
template <int COUNT> struct alignas(COUNT * 2) attention_words { uint32_t word[COUNT / 2]; };

/* ROWS rows of so many spans of 64 elements: span after span, each row 128 bytes. By the copy engine, or each
 * of the first THREADS some pieces, element by element, where arrays begin anywhere. */
template <class S, bool BOXES, int ROWS, int SPANS, int COLUMNS, int THREADS = 128, int PIECE = 8, class A,
          class B>
static __device__ inline void attention_fill(const A &a, const B &b, int at, const void *map, int batch,
                                             int64_t row, int64_t rows, uint32_t barrier) {
    if constexpr (BOXES && S::boxes) {
        ptx_mbarrier_arrive_expect(barrier, ROWS * SPANS * 128);
#pragma unroll
        for (int s = 0; s < SPANS; s++)
            S::load(b.address + at + s * ROWS * 128, map, s * 64, (int)row, batch, barrier);
    } else {
        if constexpr (BOXES && S::chunks) {
            attention_fill_pieces<S, ROWS, SPANS, COLUMNS>(a, b, at, batch, row, rows);
        } else {
#pragma unroll 1
            for (int e = (int)threadIdx.x; e < ROWS * SPANS * (64 / PIECE); e += THREADS) {
                const int here = e / (64 / PIECE) % ROWS, span = e / (ROWS * (64 / PIECE)),
                          near = e % (64 / PIECE) * PIECE, column = span * 64 + near;
                attention_words<PIECE> piece = {};
                if ((int)row + here < (int)rows && column < COLUMNS) {
#pragma unroll
                    for (int v = 0; v < PIECE; v++)
                        piece.word[v / 2] |= (uint32_t)S::element(a, batch, (int)row + here, column + v)
                                             << v % 2 * 16;
                }
                *(attention_words<PIECE> *)(b.memory + at + span * ROWS * 128 + here * 128 +
                                            ((near / 8 ^ here % 8) << 4) + near % 8 * 2) = piece;
            }
        }
        ptx_fence_proxy_async();
        ptx_mbarrier_arrive(barrier);
    }
}

template <class P, bool BOXES, class A, class M>
static __device__ inline void attention_produce(const A &a, const attention_size &size,
                                                const attention_block &b, const M &maps) {
    typedef attention_memory<P> memory;
    int taken = 0, round = 0;
#pragma unroll 1
    for (int number = (int)blockIdx.x; number < b.items; number += (int)gridDim.x, round++) {
        const attention_item item = attention_item_at<P>(a, size, number);
        const int queries = round % P::query_places, query_parity = (round / P::query_places & 1) ^ 1;
        ptx_mbarrier_wait(b.query_empty + queries * 8, query_parity);
        attention_fill<typename P::query, BOXES, P::tile_m, memory::deep_spans, P::deep>(
            a, b, queries * memory::query_bytes, maps.query, item.batch, item.m, size.m,
            b.query_full + queries * 8);
#pragma unroll 1
        for (int block = item.end - 1; block >= item.first; block--, taken++) {
            const int place = taken & 1, parity = (taken >> 1 & 1) ^ 1;
            const int64_t n = (int64_t)attention_tile<P>(item, block) * P::tile_n;
            ptx_mbarrier_wait(b.key_empty + place * 8, parity);
            attention_fill<typename P::key, BOXES, P::tile_n, memory::deep_spans, P::deep>(
                a, b, memory::keys_at + place * memory::key_bytes, maps.key, item.batch, n, size.n,
                b.key_full + place * 8);
            ptx_mbarrier_wait(b.value_empty + place * 8, parity);
            attention_fill<typename P::value, BOXES, P::tile_n, memory::wide_spans, P::wide>(
                a, b, memory::values_at + place * memory::value_bytes, maps.value, item.batch, n, size.n,
                b.value_full + place * 8);
        }
    }
}

/* ---- what threads bring, by pieces of 16 bytes ---- */

/* The piece of 16 bytes that begins at `column`; zeros from COLUMNS on. */
template <class S, int COLUMNS, class A>
static __device__ inline uint4 attention_elements(const A &a, int64_t batch, int64_t row, int column,
                                                  bool there) {
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int v = 0; v < 8; v++)
        if (there && column + v < COLUMNS)
            word[v / 2] |= (uint32_t)S::element(a, batch, row, column + v) << v % 2 * 16;
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* The same, of whole pieces where rows have such. */
template <class S, bool COPIES, int COLUMNS, class A>
static __device__ inline uint4 attention_piece(const A &a, int64_t batch, int64_t row, int column,
                                               bool there) {
    if constexpr (COPIES && S::chunks) {
        if (!there || column >= COLUMNS) return make_uint4(0, 0, 0, 0);
        const void *const place = S::place(a, batch, row);
        if (S::looks_up && !place) return make_uint4(0, 0, 0, 0);
        return S::widened(S::bring(place, column));
    }
    return attention_elements<S, COLUMNS>(a, batch, row, column, there);
}
