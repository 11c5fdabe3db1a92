/* Attention of few queries on the tensor cores of sm_80 and later: for each the sum of values, weighted by
 * softmax over its scores with all keys. What it costs is to read the keys and values, once.
 *
 * An item is 16 queries of a batch: where heads share keys, those of all of them are rows here. Its keys are
 * in up to P::splits parts, a block each: in no more than give each warp a step. A warp takes every fourth
 * step of 16 keys of the part. What the warps have is added up in shared memory; parts are left in scratch
 * memory, and attention_split_end() adds them up, always in their order. One part alone leaves results.
 *
 * Each warp has a ring of P::places of its own in shared memory, filled by cp.async: no other one waits for
 * it. A copy's lanes read whole rows, one after the other: in pieces of 64 bytes, as the products read
 * them, the same bytes take a quarter longer. The order of k in a product is free, and so is that of columns,
 * so that a lane needs pieces of 16 bytes as they lie in memory: of keys the piece lane % 4 of each four of
 * the rows lane / 4 and lane / 4 + 8, of values the piece lane / 4 of each eight of the rows 2 (lane % 4),
 * the one after it, and those 8 further on. Pieces are swapped within a row so that eight lanes that read at
 * once ask eight banks.
 *
 * Keys outside of those that some row of the item sees are not read: zeros stand for them. Nor are steps of
 * which data say that no row sees a key (attention_classes.h). What is said of
 * values that are not finite in attention_hopper.h holds here, too.
 *
 * P, which the printer makes for a region: as in attention_hopper.h, but classed in place of listed, and
 * splits, places, warps; multiply(d, a, b); query, key and value with chunks (rows are whole pieces),
 * place(a, batch, row) and element(a, batch, row, column). place() is null for a row that is not there.
 * looks_up: data tell where rows are, so that a lane looks up one row and the others hear of it.
 */

template <class P> struct split_memory {
    static constexpr int key_steps = (P::deep + 31) / 32, value_steps = (P::wide + 63) / 64;
    static constexpr int key_pieces = key_steps * 4, value_pieces = value_steps * 8; /* of a row */
    static constexpr int values_at = 16 * key_pieces * 16;                           /* in a place */
    static constexpr int place_bytes = values_at + 16 * value_pieces * 16;
    static constexpr int columns = (P::wide + 31) / 32;
    /* Registers have no room for more than 128 elements of queries: they stay behind the rings. */
    static constexpr bool shares_queries = P::deep > 128;
    static constexpr int queries_at = P::warps * P::places * place_bytes;
    static constexpr int classes_at = queries_at + (shares_queries ? key_steps * 1024 : 0);
    static constexpr int pitch = P::wide + 4; /* of a row's sums, its peak, base and total */
};

/* The rows lane / 4 and lane / 4 + 8. */
template <class P> struct split_rows {
    int m;
    float scores[8], sums[split_memory<P>::value_steps * 8][4];
    uint32_t weights[1][4];
    uint4 query[split_memory<P>::shares_queries ? 1 : split_memory<P>::key_steps][2];
    float peak[2], base[2], total[2];
};

/* A row of which a lane has columns lane + 32 x. */
template <class P> struct split_row { float peak, base, total, sums[split_memory<P>::columns]; };

/* What a warp has to do: steps of 16 keys from `step` to before `end`, of keys from `first` to before `last`.
 * Of those from open_first to before open_last all rows see all keys. `parts`: that have keys, one at least.
 */
struct split_item {
    int batch, m, unit, part, parts;
    int step, end, first, last, open_first, open_last;
};

/* The smallest and the largest of the first 16 lanes. */
struct split_range {
    int low, high;
};

static __device__ inline split_range split_range_of(int value) {
    split_range r = {value, value};
#pragma unroll
    for (int step = 8; step; step /= 2) {
        const int low = __shfl_xor_sync(0xffffffffu, r.low, step),
                  high = __shfl_xor_sync(0xffffffffu, r.high, step);
        r.low = low < r.low ? low : r.low;
        r.high = high > r.high ? high : r.high;
    }
    return r;
}

template <class P, class A>
static __device__ inline split_item split_item_of(const A &a, const attention_size &size, int unit,
                                                  int part) {
    const int tiles = (int)((size.m + 15) / 16);
    split_item item;
    item.unit = unit;
    item.part = part;
    item.batch = item.unit / tiles;
    item.m = item.unit % tiles * 16;
    const int here = item.m + (int)threadIdx.x % 16, row = here < (int)size.m ? here : (int)size.m - 1;
    const split_range begin =
        split_range_of(P::begins ? attention_clamp(P::begin(a, item.batch, row), size.n) : 0);
    const split_range bound = split_range_of(attention_clamp(P::bound(a, item.batch, row), size.n));
    item.first = begin.low;
    item.last = bound.high > begin.low ? bound.high : begin.low;
    item.open_first = (begin.high + 15) / 16;
    item.open_last = P::bounded ? bound.low / 16 : 0;
    const int from = item.first / 16, steps = item.last > item.first ? (item.last + 15) / 16 - from : 0;
    /* What classes of steps need in shared memory is a part of all keys. */
    const int least = P::classed ? 1 : P::warps, share = (steps + P::splits - 1) / P::splits,
              each = share < least ? least : share, parts = (steps + each - 1) / each;
    item.parts = parts < 1 ? 1 : parts;
    item.step = from + (each * item.part < steps ? each * item.part : steps);
    item.end = from + (each * (item.part + 1) < steps ? each * (item.part + 1) : steps);
    return item;
}

/* ---- what of it counts ---- */

/* Leaves what the mask says of each step at `classes`. */
template <class P, class A>
static __device__ inline void split_classify(const A &a, const attention_size &size, const split_item &item,
                                             char *classes) {
    typedef typename P::classes_of C;
    const int64_t batch = C::batch(a, item.batch), last = class_least(item.m + 16, size.m) - 1;
    class_range queries[C::of_query::room];
    class_gather<typename C::of_query>(a, batch, item.m, last, queries);
#pragma unroll 1
    for (int step = item.step + (int)threadIdx.x / 32; step < item.end; step += P::warps) {
        const int found = class_of<P>(a, size, batch, item.m, last, queries, step);
        if (threadIdx.x % 32 == 0) classes[step - item.step] = (char)found;
    }
    __syncthreads();
}

/* Some row of the item sees some of its keys. */
template <class P> static __device__ inline bool split_counts(const split_item &item, int step) {
    bool counts = step < item.end;
    if constexpr (P::classed)
        counts =
            counts && staged_memory()[split_memory<P>::classes_at + step - item.step] != class_of_tile::empty;
    return counts;
}

/* All rows see all of its keys. */
template <class P> static __device__ inline bool split_is_open(const split_item &item, int step) {
    bool open = step >= item.open_first && step < item.open_last;
    if constexpr (P::classed)
        open = staged_memory()[split_memory<P>::classes_at + step - item.step] == class_of_tile::full;
    return open;
}

/* ---- what is read ---- */

/* Where pieces of keys and of values stand among 16 rows, in bytes. */
template <class P> static __device__ inline int split_key_place(int row, int piece) {
    const int swap = split_memory<P>::key_steps % 2 ? 0 : (row & 1) * 4;
    return (row * split_memory<P>::key_pieces + (piece ^ swap)) * 16;
}

template <class P> static __device__ inline int split_value_place(int row, int piece) {
    return (row * split_memory<P>::value_pieces + (piece ^ (row & 6))) * 16;
}

/* Row `row` of memory; null where it is not one of those to be read. */
template <class S, class A>
static __device__ inline const char *split_place(const A &a, const split_item &item, int row) {
    if (row < item.first || row >= item.last) return nullptr;
    return (const char *)S::place(a, item.batch, row);
}

/* Begins the copies of 16 rows of PIECES pieces, which stand where `at` says. */
template <class S, bool COPIES, int COLUMNS, int PIECES, class A>
static __device__ inline void split_copy(const A &a, char *to, const split_item &item, int step,
                                         int (*at)(int row, int piece)) {
    const int lane = (int)threadIdx.x % 32, first = step * 16;
    if constexpr (COPIES && S::chunks && !S::widens) {
        const char *known = nullptr;
        if constexpr (S::looks_up) known = split_place<S>(a, item, first + lane % 16);
#pragma unroll
        for (int i = 0; i < PIECES / 2; i++) {
            const int row = (i * 32 + lane) / PIECES, piece = (i * 32 + lane) % PIECES;
            const char *from;
            if constexpr (S::looks_up)
                from = (const char *)__shfl_sync(0xffffffffu, (unsigned long long)known, row);
            else
                from = split_place<S>(a, item, first + row);
            const bool inside = from && piece * 8 < COLUMNS;
            ptx_copy_part_past_l1(ptx_shared_address(to) + at(row, piece),
                                  inside ? from + piece * 16 : (const char *)a.fault, inside ? 16 : 0);
        }
    } else {
#pragma unroll 1
        for (int i = 0; i < PIECES / 2; i++) {
            const int row = (i * 32 + lane) / PIECES, piece = (i * 32 + lane) % PIECES, n = first + row;
            const bool there = n >= item.first && n < item.last;
            *(uint4 *)(to + at(row, piece)) =
                attention_piece<S, COPIES, COLUMNS>(a, item.batch, n, piece * 8, there);
        }
    }
}

/* Begins the copies of 16 keys and their values. `ring`: the warp's. */
template <class P, bool COPIES, class A>
static __device__ inline void split_bring(const A &a, char *ring, const split_item &item, int step,
                                          int place) {
    typedef split_memory<P> memory;
    char *const to = ring + place * memory::place_bytes;
    if (split_counts<P>(item, step)) {
        split_copy<typename P::key, COPIES, P::deep, memory::key_pieces>(a, to, item, step,
                                                                         split_key_place<P>);
        split_copy<typename P::value, COPIES, P::wide, memory::value_pieces>(a, to + memory::values_at, item,
                                                                             step, split_value_place<P>);
    }
    ptx_copy_commit();
}

/* The lane's pieces of the left operands of the first product. */
template <class P, bool COPIES, class A>
static __device__ inline void split_queries(const A &a, const attention_size &size, const split_item &item,
                                            split_rows<P> &g, char *shared) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int s = 0; s < split_memory<P>::key_steps; s++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int m = g.m + r * 8, column = s * 32 + lane % 4 * 8;
            const uint4 piece =
                attention_piece<typename P::query, COPIES, P::deep>(a, item.batch, m, column, m < size.m);
            if constexpr (!split_memory<P>::shares_queries)
                g.query[s][r] = piece;
            else if (threadIdx.x < 32)
                *(uint4 *)(shared + (s * 2 + r) * 512) = piece;
        }
    if constexpr (split_memory<P>::shares_queries) __syncthreads();
}

/* ---- the products ---- */

/* `shared`: the lane's pieces of queries, where they are there. */
template <class P>
static __device__ inline void split_scores(split_rows<P> &g, const char *place, const char *shared) {
    const int lane = (int)threadIdx.x % 32;
    float d[2][4] = {};
#pragma unroll
    for (int s = 0; s < split_memory<P>::key_steps; s++) {
        uint4 low, high;
        if constexpr (split_memory<P>::shares_queries) {
            low = *(const uint4 *)(shared + s * 1024);
            high = *(const uint4 *)(shared + s * 1024 + 512);
        } else {
            low = g.query[s][0];
            high = g.query[s][1];
        }
        const uint32_t a[2][4] = {{low.x, high.x, low.y, high.y}, {low.z, high.z, low.w, high.w}};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint4 piece =
                *(const uint4 *)(place + split_key_place<P>(half * 8 + lane / 4, s * 4 + lane % 4));
            const uint32_t b[2][2] = {{piece.x, piece.y}, {piece.z, piece.w}};
            P::multiply(d[half], a[0], b[0]);
            P::multiply(d[half], a[1], b[1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        g.scores[i] = d[i / 4][i % 4];
}

/* The lower halves of two words, or the upper ones. */
static __device__ inline uint32_t split_pair(uint32_t a, uint32_t b, int upper) {
    return upper ? a >> 16 | (b & 0xffff0000u) : (a & 0xffffu) | b << 16;
}

/* Column lane / 4 of product 8 s + j is that of 64 s + 8 (lane / 4) + j. */
template <class P> static __device__ inline void split_values(split_rows<P> &g, const char *place) {
    const int steps = split_memory<P>::value_steps, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int s = 0; s < steps; s++) {
        uint32_t word[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
            const uint4 piece = *(const uint4 *)(place + split_memory<P>::values_at +
                                                 split_value_place<P>(row, s * 8 + lane / 4));
            word[i][0] = piece.x, word[i][1] = piece.y, word[i][2] = piece.z, word[i][3] = piece.w;
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const uint32_t b[2] = {split_pair(word[0][j / 2], word[1][j / 2], j % 2),
                                   split_pair(word[2][j / 2], word[3][j / 2], j % 2)};
            P::multiply(g.sums[s * 8 + j], g.weights[0], b);
        }
    }
}

template <class P, class A>
static __device__ inline void split_step(const A &a, const attention_size &size, const split_item &item,
                                         split_rows<P> &g, int step, const char *place, const char *shared) {
    float shrink[2];
    bool shrinks;
    split_scores<P>(g, place, shared);
    if (split_is_open<P>(item, step))
        shrinks = attention_softmax<P, false>(a, size, item.batch, g, step, shrink);
    else
        shrinks = attention_softmax<P, true>(a, size, item.batch, g, step, shrink);
    attention_pack<P>(g);
    if (shrinks) {
#pragma unroll
        for (int i = 0; i < split_memory<P>::value_steps * 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                g.sums[i][e] *= shrink[e / 2];
    }
    split_values<P>(g, place);
}

/* ---- what is left ---- */

/* A row is done: its results. */
template <class P, class A>
static __device__ inline void split_finish(const A &a, const attention_size &size, int batch, int64_t m,
                                           split_row<P> &row) {
    typedef split_memory<P> memory;
    const int lane = (int)threadIdx.x % 32;
    const bool empty = attention_is_empty<P>(a, size, batch, m, row.peak);
    const float weight = attention_row_weight<P>(a, size, batch, m, row.peak, row.base, row.total);
    float odd = 0;
#pragma unroll
    for (int x = 0; x < memory::columns; x++) {
        row.sums[x] = empty ? 0.0f : row.sums[x] * weight;
        odd = fmaf(row.sums[x], 0.0f, odd);
    }
    /* Values that are not finite make NaN with a weight of 0. */
    if (__any_sync(0xffffffffu, odd != 0) && row.total > 0 && row.total < INFINITY) {
        attention_again<P>(a, size, batch, m, row.base, row.sums);
#pragma unroll
        for (int x = 0; x < memory::columns; x++)
            row.sums[x] *= weight;
    }
    if (lane == 0) attention_leave_row<P>(a, size, batch, m, row.peak, row.base, row.total);
    __syncwarp(); /* what follows the sums may read what the row left */
#pragma unroll
    for (int x = 0; x < memory::columns; x++)
        if (lane + 32 * x < P::wide) P::store(a, batch, m, lane + 32 * x, row.sums[x]);
}

/* Adds up COUNT parts of a row, each `apart` floats after the one before; those from `first` on, each
 * `every`. */
template <class P>
static __device__ inline split_row<P> split_add(const float *parts, int count, int64_t apart, int first,
                                                int every) {
    const int lane = (int)threadIdx.x % 32;
    split_row<P> row;
    row.peak = row.base = -INFINITY;
    row.total = 0;
#pragma unroll
    for (int x = 0; x < split_memory<P>::columns; x++)
        row.sums[x] = 0;
#pragma unroll 1
    for (int s = lane; s < count; s += 32) {
        row.peak = fmaxf(row.peak, parts[s * apart + P::wide]);
        row.base = fmaxf(row.base, parts[s * apart + P::wide + 1]);
    }
#pragma unroll
    for (int step = 16; step; step /= 2) {
        row.peak = fmaxf(row.peak, __shfl_xor_sync(0xffffffffu, row.peak, step));
        row.base = fmaxf(row.base, __shfl_xor_sync(0xffffffffu, row.base, step));
    }
#pragma unroll 4
    for (int s = first; s < count; s += every) {
        const float base = parts[s * apart + P::wide + 1];
        const float weight = base == -INFINITY ? 0.0f : machine_exp2(base - row.base);
        row.total = fmaf(parts[s * apart + P::wide + 2], weight, row.total);
#pragma unroll
        for (int x = 0; x < split_memory<P>::columns; x++)
            if (lane + 32 * x < P::wide)
                row.sums[x] = fmaf(parts[s * apart + lane + 32 * x], weight, row.sums[x]);
    }
    return row;
}

template <class P> static __device__ inline void split_leave(float *to, const split_row<P> &row) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int x = 0; x < split_memory<P>::columns; x++)
        if (lane + 32 * x < P::wide) to[lane + 32 * x] = row.sums[x];
    if (lane == 0) to[P::wide] = row.peak, to[P::wide + 1] = row.base, to[P::wide + 2] = row.total;
}

/* A warp's rows into shared memory. Pairs of columns 16 (lane % 4) + j and 8 further on are one lane's. */
template <class P> static __device__ inline void split_share_sums(const split_rows<P> &g, float *to) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float *const row = to + (lane / 4 + r * 8) * split_memory<P>::pitch;
#pragma unroll
        for (int i = 0; i < split_memory<P>::value_steps * 8; i++) {
            const int column = i / 8 * 64 + lane % 4 * 16 + i % 8;
            if (column < P::wide) row[column] = g.sums[i][r * 2];
            if (column + 8 < P::wide) row[column + 8] = g.sums[i][r * 2 + 1];
        }
        float total = g.total[r];
        total += __shfl_xor_sync(0xffffffffu, total, 1);
        total += __shfl_xor_sync(0xffffffffu, total, 2);
        if (lane % 4 == 0) row[P::wide] = g.peak[r], row[P::wide + 1] = g.base[r], row[P::wide + 2] = total;
    }
}

/* COPIES: arrays begin at whole 16 bytes. `parts`: scratch memory. */
template <class P, bool COPIES, class A>
static __device__ inline void attention_split(const A &a, const attention_size size, float *parts) {
    typedef split_memory<P> memory;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    /* Neighbours among blocks are heads of the same keys: what they read lies side by side. */
    const int units = (int)size.batch * (int)((size.m + 15) / 16);
    const split_item item = split_item_of<P>(a, size, (int)blockIdx.x % units, (int)blockIdx.x / units);
    if (item.part >= item.parts) return;
    char *const ring = staged_memory() + warp * P::places * memory::place_bytes;
    char *const queries = staged_memory() + memory::queries_at + lane * 16;
    split_rows<P> g = {};
    g.m = item.m + lane / 4;
    g.peak[0] = g.peak[1] = g.base[0] = g.base[1] = -INFINITY;
    if constexpr (P::classed) split_classify<P>(a, size, item, staged_memory() + memory::classes_at);
#pragma unroll
    for (int s = 0; s < P::places - 1; s++)
        split_bring<P, COPIES>(a, ring, item, item.step + warp + s * P::warps, s);
    split_queries<P, COPIES>(a, size, item, g, queries);
    int place = 0;
#pragma unroll 1
    for (int step = item.step + warp; step < item.end; step += P::warps) {
        const int next = place ? place - 1 : P::places - 1; /* the place that the step before left */
        split_bring<P, COPIES>(a, ring, item, step + (P::places - 1) * P::warps, next);
        ptx_copy_wait<P::places - 1>();
        __syncwarp();
        if (split_counts<P>(item, step))
            split_step<P>(a, size, item, g, step, ring + place * memory::place_bytes, queries);
        __syncwarp();
        place = place == P::places - 1 ? 0 : place + 1;
    }
    ptx_copy_wait<0>();
    __syncthreads();
    float *const met = (float *)staged_memory();
    split_share_sums<P>(g, met + warp * 16 * memory::pitch);
    __syncthreads();
#pragma unroll 1
    for (int r = warp; r < 16 && item.m + r < size.m; r += P::warps) {
        split_row<P> row = split_add<P>(met + r * memory::pitch, P::warps, 16 * memory::pitch, 0, 1);
        if (P::splits > 1 && item.parts > 1)
            split_leave<P>(parts + (((int64_t)item.unit * P::splits + item.part) * 16 + r) * memory::pitch,
                           row);
        else
            split_finish<P>(a, size, item.batch, item.m + r, row);
    }
}

/* A block adds up the parts of a row: each warp some of them, then one warp theirs. */
template <class P, class A>
static __device__ inline void attention_split_end(const A &a, const attention_size size, const float *parts) {
    typedef split_memory<P> memory;
    const int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    const int64_t tiles = (size.m + 15) / 16, batch = blockIdx.x / size.m, m = blockIdx.x % size.m;
    const int64_t unit = batch * tiles + m / 16;
    const split_item item = split_item_of<P>(a, size, (int)unit, 0);
    if (item.parts == 1) return; /* it left what is asked for */
    const float *const of = parts + (unit * P::splits * 16 + m % 16) * memory::pitch;
    float *const met = (float *)staged_memory();
    split_leave<P>(met + warp * memory::pitch, split_add<P>(of, item.parts, 16 * memory::pitch, warp, warps));
    __syncthreads();
    if (warp > 0) return;
    split_row<P> row = split_add<P>(met, warps, memory::pitch, 0, 1);
    split_finish<P>(a, size, (int)batch, m, row);
}
