/* What the kernels of attention's gradients have in common, attention_backward.h for sm_90a and
 * attention_backward_ampere.h for sm_80: what a block has to do, and what follows from scores element by
 * element.
 *
 * Two kernels: blocks of one own queries and walk along keys, those of the other own keys and walk along
 * queries. An item is P::tile_m rows of a batch (head), which a block owns; it walks along tiles of P::tile_n
 * rows of the other side. Which of them count a mask says: as an interval (P::masked), or data do
 * (P::listed): then a kernel before lists them.
 *
 * P, which the printer makes: tile_m, tile_n; keys: the owned rows are keys; masked, begin(a, batch, m) and
 * bound(a, batch, m): a query sees keys from the one to before the other; listed: classes_of, as
 * attention_classes.h asks for; of_query_count and of_query(a, batch, query, list): what is one for each
 * query; pair(a, batch, query, key, list, score, product): makes the weight and the gradient of the score of
 * them, where the mask leaves it, which sees(a, batch, query, key) says; open: of whole tiles it is known
 * that it leaves all; waits; pair_bits(low, high).
 */
struct backward_size {
    int64_t batch, own, walk; /* rows of each side */
    int section;              /* heads that go together */
    int *lists;               /* of tiles that count; NULL = there are none */
    /* attention_backward_fused.h: of each tile of queries and block of keys whether it adds to it, where
     * tiles are listed; the next item, then of each tile how many blocks have added; the sums */
    char *adders;
    int *turns;
    float *sums;
};

/* Owned rows, and the steps over tiles of the other side that count for them, `first` to before `end`: tiles
 * by their numbers, or as the list has them: first those of which some pairs count, then the others. */
struct backward_item {
    int batch, m, first, end;
};

/* The list of an item: how many tiles are partial, how many there are, their numbers. */
template <class P>
static __device__ inline int *backward_list(const backward_size &size, int64_t batch, int64_t own_tile) {
    const int64_t rows = (size.own + P::tile_m - 1) / P::tile_m,
                  tiles = (size.walk + P::tile_n - 1) / P::tile_n;
    return size.lists + (batch * rows + own_tile) * (tiles + 2);
}

/* That of an item. Where registers are scarce its place is found anew for each step. */
template <class P, class A>
static __device__ inline const int *backward_list_of(const A &a, const backward_size &size,
                                                     const backward_item &item) {
    uint32_t m = (uint32_t)item.m;
    if (P::waits) stay_inside(m);
    return backward_list<P>(size, P::classes_of::batch(a, item.batch), m / P::tile_m);
}

template <class P, class A>
static __device__ inline int backward_tile(const A &a, const backward_size &size, const backward_item &item,
                                           int step) {
    if constexpr (P::listed)
        return backward_list_of<P>(a, size, item)[2 + step];
    else
        return step;
}

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
    if constexpr (P::listed) {
        item.end = backward_list_of<P>(a, size, item)[1];
        return;
    }
    if constexpr (P::masked && P::keys) {
        const int begin = item.m, batch = item.batch;
        first = backward_search(last, [&](int query) { return P::bound(a, batch, query) > begin; });
        last = backward_search(last, [&](int query) { return P::begin(a, batch, query) >= end; });
    } else if constexpr (P::masked) {
        first = attention_clamp(P::begin(a, item.batch, item.m), last);
        last = attention_clamp(P::bound(a, item.batch, end - 1), last);
    }
    item.first = first / P::tile_n;
    /* Where keys are owned this asks the same of each tile for all owners: their turns are counted by it */
    const bool any = P::keys ? last > item.first * P::tile_n : first < last;
    item.end = any ? (last + P::tile_n - 1) / P::tile_n : item.first;
}

/* Heads in sections, those rows first that have the most to do under a causal mask. */
template <class P, class A>
static __device__ inline backward_item backward_item_at(const A &a, const backward_size &size, int number) {
    backward_item item = {};
    const int tiles = (int)((size.own + P::tile_m - 1) / P::tile_m), per = size.section * tiles;
    const int section = number / per, rest = number % per, left = (int)size.batch - section * size.section;
    const int heads = left < size.section ? left : size.section, tile = rest / heads;
    item.batch = section * size.section + rest % heads;
    item.m = (P::keys ? tile : tiles - 1 - tile) * P::tile_m;
    backward_walk<P>(a, size, item.m + P::tile_m < (int)size.own ? item.m + P::tile_m : (int)size.own, item);
    return item;
}

/* All rows of the tile, which is that step of the item, count for all ROWS rows from m on. */
template <class P, int ROWS, class A>
static __device__ inline bool backward_is_open(const A &a, const backward_size &size,
                                               const backward_item &item, int m, int step, int tile) {
    const int n = tile * P::tile_n, last = m + ROWS - 1, n_last = n + P::tile_n - 1;
    if (!P::open || last >= (int)size.own || n_last >= (int)size.walk) return false;
    if constexpr (P::listed) return step >= backward_list_of<P>(a, size, item)[0];
    const int query = P::keys ? n : m, query_last = P::keys ? n_last : last, key = P::keys ? m : n,
              key_last = P::keys ? last : n_last;
    return !P::masked ||
           (P::bound(a, item.batch, query) > key_last && P::begin(a, item.batch, query_last) <= key);
}

/* ---- lists of tiles ---- */

/* What the mask says of owned rows m to m_last, whose numbers `queries` or `keys` hold, and a tile of the
 * other side, by a warp. */
template <class P, class A>
static __device__ inline int backward_class(const A &a, const backward_size &size, int64_t batch, int64_t m,
                                            int64_t m_last, class_range *queries, class_range *keys,
                                            int tile) {
    typedef typename P::classes_of C;
    const int64_t n = (int64_t)tile * P::tile_n, n_last = class_least(n + P::tile_n, size.walk) - 1;
    class_range holds;
    if constexpr (P::keys) {
        class_gather<typename C::of_query>(a, batch, n, n_last, queries);
        holds = C::holds(a, batch, n, n_last, m, m_last, queries, keys);
    } else {
        class_gather<typename C::of_key>(a, batch, n, n_last, keys);
        holds = C::holds(a, batch, m, m_last, n, n_last, queries, keys);
    }
    return holds.low > 0    ? class_of_tile::full
           : holds.high > 0 ? class_of_tile::partial
                            : class_of_tile::empty;
}

/* A block of the grid makes one list. */
template <class P, class A>
static __device__ inline void attention_backward_classify(const A &a, const backward_size size) {
    typedef typename P::classes_of C;
    const int rows = (int)((size.own + P::tile_m - 1) / P::tile_m),
              tiles = (int)((size.walk + P::tile_n - 1) / P::tile_n);
    const int batch = (int)blockIdx.x / rows, row = (int)blockIdx.x % rows;
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    const int64_t m = (int64_t)row * P::tile_m, m_last = class_least(m + P::tile_m, size.own) - 1;
    char *const classes = staged_memory();
    class_range queries[C::of_query::room], keys[C::of_key::room];
    if constexpr (P::keys)
        class_gather<typename C::of_key>(a, batch, m, m_last, keys);
    else
        class_gather<typename C::of_query>(a, batch, m, m_last, queries);
#pragma unroll 1
    for (int tile = warp; tile < tiles; tile += warps) {
        const int found = backward_class<P>(a, size, batch, m, m_last, queries, keys, tile);
        if (threadIdx.x % 32 != 0) continue;
        classes[tile] = (char)found;
        if (size.adders)
            size.adders[((int64_t)batch * tiles + tile) * rows + row] = found != class_of_tile::empty;
    }
    __syncthreads();
    if (warp > 0) return;
    int *const list = backward_list<P>(size, batch, row);
    const int partial = class_append(classes, tiles, class_of_tile::partial, list + 2, 0);
    const int count = class_append(classes, tiles, class_of_tile::full, list + 2, partial);
    if (threadIdx.x == 0) list[0] = partial, list[1] = count;
}

/* ---- between the products ---- */

/* A list for each tensor of which there is one element for each query of a tile. */
template <class P> struct backward_lists {
    static constexpr int count = P::of_query_count ? P::of_query_count : 1, bytes = P::tile_n * 4;
    static constexpr bool there = P::keys && P::of_query_count > 0;
};

/* Those of the tile whose first query is n, by a warp. */
template <class P, class A>
static __device__ inline void backward_lists_fill(const A &a, const backward_size &size, int batch, int n,
                                                  float *lists) {
#pragma unroll 1
    for (int i = (int)threadIdx.x % 32; i < P::tile_n; i += 32) {
        float of_query[backward_lists<P>::count];
        P::of_query(a, batch, n + i < (int)size.walk ? n + i : (int)size.walk - 1, of_query);
#pragma unroll
        for (int l = 0; l < backward_lists<P>::count; l++)
            lists[l * P::tile_n + i] = of_query[l];
    }
}

/* What is one for each query of the thread's owned rows m and m + 8. */
template <class P, class G, class A>
static __device__ inline void backward_of_query(const A &a, const backward_size &size, int batch, G &g) {
    if constexpr (!P::keys && P::of_query_count > 0) {
        const int last = (int)size.own - 1;
        P::of_query(a, batch, g.m < last ? g.m : last, g.of_query[0]);
        P::of_query(a, batch, g.m + 8 < last ? g.m + 8 : last, g.of_query[1]);
    }
}

/* Whether the mask leaves pair i of a thread, as in backward_pairs(); of rows past the end it leaves none. */
template <class P, class A, class G>
static __device__ inline bool backward_sees(const A &a, const backward_size &size, int batch, const G &g,
                                            int tile, int i) {
    const int own = (int)size.own - 1, walk = (int)size.walk - 1, row = g.m + i / 2 % 2 * 8;
    const int there = tile * P::tile_n + i / 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    const int m = row < own ? row : own, at = there < walk ? there : walk;
    return P::sees(a, batch, P::keys ? at : m, P::keys ? m : at) && there <= walk && row <= own;
}

/* A bit for each pair, 32 a word. */
template <class P> struct backward_seen { uint32_t word[(P::tile_n + 63) / 64]; };

template <class P, class A, class G>
static __device__ inline backward_seen<P> backward_seen_of(const A &a, const backward_size &size, int batch,
                                                           const G &g, int tile) {
    backward_seen<P> seen = {};
#pragma unroll
    for (int i = 0; i < P::tile_n / 2; i++)
        seen.word[i / 32] |= (uint32_t)backward_sees<P>(a, size, batch, g, tile, i) << i % 32;
    return seen;
}

/* Scores become weights, products the gradients of scores. A thread has rows m and m + 8, of a tile's rows
 * the pair 8 j + 2 (lane % 4) of each j. OPEN: all pairs count; else those of `seen`, and the last row stands
 * in the place of rows past the end. */
template <class P, bool OPEN, class A, class G>
static __device__ inline void backward_pairs(const A &a, const backward_size &size, const char *lists,
                                             int batch, G &g, int tile, const backward_seen<P> &seen) {
    typedef backward_lists<P> of;
    const int own = (int)size.own - 1, walk = (int)size.walk - 1;
    const int rows[2] = {OPEN || g.m < own ? g.m : own, OPEN || g.m + 8 < own ? g.m + 8 : own};
#pragma unroll
    for (int j = 0; j < P::tile_n / 8; j++) {
        uint32_t column = threadIdx.x % 4 * 2;
        if (P::waits) {
            __syncwarp();
            stay_inside(column); /* no load for later columns begins before this: registers are scarce */
        }
        column += 8 * j;
        float of_query[2][of::count]; /* of two columns, or of two rows */
        if constexpr (of::there) {
#pragma unroll
            for (int l = 0; l < of::count; l++) {
                const float2 pair = *(const float2 *)(lists + l * of::bytes + column * 4);
                of_query[0][l] = pair.x;
                of_query[1][l] = pair.y;
            }
        }
#pragma unroll
        for (int i = 4 * j; i < 4 * j + 4; i++) {
            const int m = rows[i / 2 % 2], there = tile * P::tile_n + (int)column + i % 2;
            const int at = OPEN || there < walk ? there : walk;
            const int query = P::keys ? at : m, key = P::keys ? m : at;
            const float(&list)[of::count] = P::keys ? of_query[i % 2] : g.of_query[i / 2 % 2];
            P::pair(a, batch, query, key, list, g.scores[i], g.products[i]);
            if (!OPEN && !(seen.word[i / 32] >> i % 32 & 1)) g.scores[i] = g.products[i] = 0;
        }
#pragma unroll
        for (int i = 2 * j; i < 2 * j + 2; i++) {
            if constexpr (P::keys)
                g.weights[i / 4][i % 4] = P::pair_bits(g.scores[2 * i], g.scores[2 * i + 1]);
            g.gradients[i / 4][i % 4] = P::pair_bits(g.products[2 * i], g.products[2 * i + 1]);
        }
    }
}
