/* Which tiles of keys a mask leaves to a tile of queries, where data say it: documents, prefixes, padding.
 *
 * A block of attention_split.h asks of the steps of its item. A kernel before attention_hopper.h makes a list
 * for each tile of queries: how many tiles of keys are partial (some pairs count), how many there are in all,
 * then their numbers: first the partial ones, then those of which all pairs count, each from the last on.
 * What is not in the list is neither brought nor multiplied.
 *
 * What is known of a tile are ranges: the least and the largest of each number that data say once a query or
 * once a key. The class follows from them as values of an expression follow from its arguments.
 */
struct class_range {
    int64_t low, high; /* of a condition: 1 where it is certain, 1 where it is possible */
    static constexpr int64_t most = 0x7fffffffffffffff, least = -most - 1;
};

static __device__ inline class_range class_number(int64_t value) {
    return {value, value};
}

static __device__ inline class_range class_unknown() {
    return {class_range::least, class_range::most};
}

static __device__ inline class_range class_doubt() {
    return {0, 1};
}

/* place / inner % size for places from `first` to `last`. */
static __device__ inline class_range class_place(int64_t first, int64_t last, int64_t inner, int64_t size) {
    if (first / inner / size != last / inner / size) return {0, size - 1};
    return {first / inner % size, last / inner % size};
}

static __device__ inline class_range class_less(class_range a, class_range b) {
    return {a.high < b.low, a.low < b.high};
}

static __device__ inline class_range class_no_more(class_range a, class_range b) {
    return {a.high <= b.low, a.low <= b.high};
}

static __device__ inline class_range class_same(class_range a, class_range b) {
    return {a.low == a.high && b.low == b.high && a.low == b.low, a.low <= b.high && b.low <= a.high};
}

static __device__ inline class_range class_not(class_range a) {
    return {1 - a.high, 1 - a.low};
}

static __device__ inline int64_t class_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static __device__ inline int64_t class_most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static __device__ inline class_range class_min(class_range a, class_range b) {
    return {class_least(a.low, b.low), class_least(a.high, b.high)};
}

static __device__ inline class_range class_max(class_range a, class_range b) {
    return {class_most(a.low, b.low), class_most(a.high, b.high)};
}

/* Sums of such numbers do not leave an i64. */
static __device__ inline bool class_is_small(class_range a) {
    return a.low >= -((int64_t)1 << 61) && a.high <= (int64_t)1 << 61;
}

static __device__ inline class_range class_add(class_range a, class_range b) {
    if (!class_is_small(a) || !class_is_small(b)) return class_unknown();
    return {a.low + b.low, a.high + b.high};
}

static __device__ inline class_range class_minus(class_range a) {
    return class_is_small(a) ? class_range{-a.high, -a.low} : class_unknown();
}

static __device__ inline class_range class_subtract(class_range a, class_range b) {
    return class_add(a, class_minus(b));
}

/* What an i32 holds: beyond it, its values wrap around. */
static __device__ inline class_range class_narrow(class_range a) {
    return a.low >= -0x80000000ll && a.high <= 0x7fffffffll ? a : class_unknown();
}

/* Of S's numbers at `first` to `last`, by a warp. */
template <class S, class A>
static __device__ inline void class_gather(const A &a, int64_t batch, int64_t first, int64_t last,
                                           class_range *out) {
    if constexpr (S::count == 0) return;
    int64_t value[S::room];
#pragma unroll
    for (int t = 0; t < S::count; t++)
        out[t] = {class_range::most, class_range::least};
#pragma unroll 4
    for (int64_t at = first + (int)threadIdx.x % 32; at <= last; at += 32) {
        S::read(a, batch, at, value);
#pragma unroll
        for (int t = 0; t < S::count; t++)
            out[t] = {class_least(out[t].low, value[t]), class_most(out[t].high, value[t])};
    }
#pragma unroll
    for (int step = 16; step; step /= 2)
#pragma unroll
        for (int t = 0; t < S::count; t++) {
            const int64_t low = __shfl_xor_sync(0xffffffffu, (long long)out[t].low, step),
                          high = __shfl_xor_sync(0xffffffffu, (long long)out[t].high, step);
            out[t] = {class_least(out[t].low, low), class_most(out[t].high, high)};
        }
}

struct class_of_tile {
    static constexpr int empty = 0, partial = 1, full = 2;
};

/* What the mask says of the queries m to m_last, with those numbers, and a tile of keys, by a warp. */
template <class P, class A>
static __device__ inline int class_of(const A &a, const attention_size &size, int64_t batch, int64_t m,
                                      int64_t m_last, const class_range *queries, int tile) {
    typedef typename P::classes_of C;
    class_range keys[C::of_key::room];
    const int64_t n = (int64_t)tile * P::tile_n, n_last = class_least(n + P::tile_n, size.n) - 1;
    class_gather<typename C::of_key>(a, batch, n, n_last, keys);
    const class_range holds = C::holds(a, batch, m, m_last, n, n_last, queries, keys);
    if (holds.low > 0 && n + P::tile_n <= size.n) return class_of_tile::full;
    return holds.high > 0 ? class_of_tile::partial : class_of_tile::empty;
}

/* Appends the tiles of that class, by a warp. */
static __device__ inline int class_append(const char *classes, int tiles, int wanted, int *list, int count) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll 1
    for (int last = tiles - 1; last >= 0; last -= 32) {
        const int tile = last - lane;
        const bool here = tile >= 0 && classes[tile] == wanted;
        const unsigned all = __ballot_sync(0xffffffffu, here);
        if (here) list[count + __popc(all & ((1u << lane) - 1))] = tile;
        count += __popc(all);
    }
    return count;
}

/* The list of a tile of queries. */
template <class P>
static __device__ inline const int *class_list(const attention_size &size, const int *lists, int64_t batch,
                                               int64_t tile) {
    const int64_t rows = (size.m + P::tile_m - 1) / P::tile_m, tiles = (size.n + P::tile_n - 1) / P::tile_n;
    return lists + (batch * rows + tile) * (tiles + 2);
}

/* A block of the grid makes one list. */
template <class P, class A>
static __device__ inline void attention_classify(const A &a, const attention_size size) {
    typedef typename P::classes_of C;
    const int rows = (int)((size.m + P::tile_m - 1) / P::tile_m),
              tiles = (int)((size.n + P::tile_n - 1) / P::tile_n);
    const int batch = (int)blockIdx.x / rows, row = (int)blockIdx.x % rows;
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    const int64_t m = (int64_t)row * P::tile_m, m_last = class_least(m + P::tile_m, size.m) - 1;
    char *const classes = staged_memory();
    class_range queries[C::of_query::room];
    class_gather<typename C::of_query>(a, batch, m, m_last, queries);
#pragma unroll 1
    for (int tile = warp; tile < tiles; tile += warps) {
        const int found = class_of<P>(a, size, batch, m, m_last, queries, tile);
        if (threadIdx.x % 32 == 0) classes[tile] = (char)found;
    }
    __syncthreads();
    if (warp > 0) return;
    int *const list = (int *)class_list<P>(size, size.lists, batch, row);
    const int partial = class_append(classes, tiles, class_of_tile::partial, list + 2, 0);
    const int count = class_append(classes, tiles, class_of_tile::full, list + 2, partial);
    if (threadIdx.x == 0) list[0] = partial, list[1] = count;
}
