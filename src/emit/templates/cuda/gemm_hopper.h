/* What the warpgroups of gemm_hopper_block.h's blocks do with the tiles that come: they multiply them, out of
 * shared memory or out of registers, and have the epilogue.
 */
/* The last store of a piece's place is over, for all of the group. */
template <int LEFT> static __device__ inline void gemm_place_free(int group) {
    if (threadIdx.x % 128 == 0) ptx_bulk_wait_read<LEFT>();
    ptx_barrier_sync(1 + group, 128);
}

/* Columns 16 j to 16 j + 15 of a piece of 16-bit results: eight values of a thread, in the order of wgmma's
 * sums. */
template <class P, int ROW_BYTES>
static __device__ inline void gemm_leave_16(uint32_t piece, int j, const float (&e)[8]) {
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % 128 / 32 * 16 + lane % 16;
    const int chunk = 2 * j + lane / 16, swizzle = ROW_BYTES == 128 ? row % 8 : row / 2 % 4;
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        word[i] = P::pair(e[2 * i], e[2 * i + 1]);
    ptx_store_matrix_4(piece + row * ROW_BYTES + ((chunk ^ swizzle) << 4), word);
}

/* Where values 2 i and 2 i + 1 of those eight stand in a piece, in bytes. */
template <int RESULT_BYTES, int ROW_BYTES> static __device__ inline int gemm_pair_place(int j, int i) {
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % 128 / 32 * 16 + lane / 4 + i % 2 * 8;
    const int at = (16 * j + i / 2 * 8 + lane % 4 * 2) * RESULT_BYTES;
    const int swizzle = ROW_BYTES == 128 ? row % 8 : row / 2 % 4;
    return row * ROW_BYTES + ((at / 16 ^ swizzle) << 4) + at % 16;
}

/* The same of 32-bit results. */
static __device__ inline void gemm_leave_32(char *piece, int j, const float (&e)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        *(float2 *)(piece + gemm_pair_place<4, 128>(j, i)) = make_float2(e[2 * i], e[2 * i + 1]);
}

/* What was staged at the place of these eight values. */
template <class P, int ROW_BYTES>
static __device__ inline void gemm_read_staged(const char *piece, int j, float (&e)[8]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const char *at = piece + gemm_pair_place<P::result_bytes, ROW_BYTES>(j, i);
        if constexpr (P::result_bytes == 4) {
            e[2 * i] = ((const float2 *)at)->x;
            e[2 * i + 1] = ((const float2 *)at)->y;
        } else {
            P::unpack(*(const uint32_t *)at, e[2 * i], e[2 * i + 1]);
        }
    }
}

/* Column `of` of the eight from `first` on, or one that there is where it is not: what it gives is not
 * stored. RUN: elements that end together, 0 = all of a tile. */
template <int RUN> static __device__ inline int gemm_column(int first, int of, int size) {
    if (RUN == 0) return first + of;
    if (RUN == 8) return (first < size ? first : size - 8) + of;
    return first + of < size ? first + of : size - 1;
}

/* One piece: the epilogue of its sums, and their way to its place, at byte `at`. `column` is its first in the
 * tile. */
template <class P, class A, class T, int COUNT>
static __device__ inline void gemm_leave_piece(const A &a, const gemm_size &size, const gemm_block &b,
                                               int group, int batch, int64_t m, int n, int column,
                                               const T (&sum)[COUNT], int at) {
    typedef gemm_hopper_memory<P> memory;
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % 128 / 32 * 16 + lane / 4;
    const float *columns = (const float *)(b.memory + memory::columns_at + group * P::column_bytes);
#pragma unroll
    for (int j = 0; j < memory::piece_columns / 16; j++) {
        float e[P::results + P::partials][8], staged[8];
        uint32_t pair = lane % 4 * 2;
        if (P::throttled) { /* no load of later columns begins before this: registers are scarce */
            __syncwarp();
            stay_inside(pair);
        }
        if constexpr (P::has_staged) {
            gemm_read_staged<P, memory::row_bytes>(b.memory + at, j, staged);
            __syncwarp(); /* before others of the warp write there */
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int64_t at_m = m + row + i / 2 % 2 * 8;
            const int near = column + j * 16 + i / 4 * 8;
            float value[P::results + P::partials], of_column[P::columns ? P::columns : 1];
#pragma unroll
            for (int c = 0; c < P::columns; c++)
                of_column[c] = columns[c * P::right_n + near + (int)pair + i % 2];
            const int64_t of_m = at_m < size.m ? at_m : size.m - 1;
            const int of_n = gemm_column<P::n_run>(n + near, (int)pair + i % 2, (int)size.n);
            if constexpr (P::rights == 1) {
                P::values(a, batch, of_m, of_n, sum[near / 2 + i % 4], of_column, staged[i], value);
            } else {
                T sums[P::rights];
#pragma unroll
                for (int r = 0; r < P::rights; r++)
                    sums[r] = sum[r * (P::right_n / 2) + near / 2 + i % 4];
                P::values(a, batch, of_m, of_n, sums, of_column, staged[i], value);
            }
#pragma unroll
            for (int r = 0; r < P::results + P::partials; r++)
                e[r][i] = value[r];
        }
        if constexpr (P::partials > 0)
            gemm_leave_partials<P, P::results>(a, size, m + row - lane / 4, n + column + j * 16, e);
#pragma unroll
        for (int r = 0; r < P::results; r++) {
            if constexpr (P::result_bytes == 2)
                gemm_leave_16<P, memory::row_bytes>(b.address + at + r * memory::piece_bytes, j, e[r]);
            else
                gemm_leave_32(b.memory + at + r * memory::piece_bytes, j, e[r]);
        }
    }
}

/* Values that are one for each column of a group's tile, into shared memory. All of the group have read those
 * of the tile before: its last results were handed over since. */
template <class P, class A>
static __device__ inline void gemm_begin_columns(const A &a, const gemm_size &size, const gemm_block &b,
                                                 int group, int batch, int n) {
    typedef gemm_hopper_memory<P> memory;
    float *columns = (float *)(b.memory + memory::columns_at + group * P::column_bytes);
#pragma unroll
    for (int from = 0; from < P::right_n; from += 128) {
        const int at = from + (int)threadIdx.x % 128;
        if (at >= P::right_n) break;
        float value[P::columns];
        P::column_values(a, batch, n + at < size.n ? n + at : size.n - 1, value);
#pragma unroll
        for (int c = 0; c < P::columns; c++)
            columns[c * P::right_n + at] = value[c];
    }
}

/* Begins the copies of staged rows to the places that the tile's first result will leave from. */
template <class P, class M>
static __device__ inline void gemm_begin_staged(const gemm_block &b, const M &maps, int group, int batch,
                                                int m, int n) {
    typedef gemm_hopper_memory<P> memory;
    const int across = P::right_n / memory::piece_columns;
    if (threadIdx.x % 128 != 0) return;
    ptx_bulk_wait_read<0>();
    ptx_mbarrier_arrive_expect(b.staged + group * 8, memory::piece_count * memory::piece_bytes);
#pragma unroll
    for (int x = 0; x < memory::piece_count; x++)
        P::load_staged(b.address + memory::piece_at(group, x), maps, n + x % across * memory::piece_columns,
                       m + x / across * 64, batch, b.staged + group * 8);
}

/* The epilogue of a group's sums, whose first row is m; results leave by the copy engine. */
template <class P, class A, class M, class T, int PARTS, int COUNT>
static __device__ inline void gemm_leave(const A &a, const gemm_size &size, const gemm_block &b,
                                         const M &maps, int group, int batch, int64_t m, int n, int parity,
                                         const T (&sum)[PARTS][COUNT]) {
    typedef gemm_hopper_memory<P> memory;
    const int across = P::right_n / memory::piece_columns;
    const bool first = threadIdx.x % 128 == 0;
    if (P::has_staged) ptx_mbarrier_wait(b.staged + group * 8, parity);
    if (P::pieces == 0) gemm_place_free<0>(group);
#pragma unroll
    for (int x = 0; x < memory::piece_count; x++) {
        const int part = x / across, column = x % across * memory::piece_columns;
        if (P::pieces) { /* the places of a tile begin anew: its last ones may be fewer pieces ago */
            if (x == 0 && (P::walks > 1 || memory::piece_count % memory::places))
                gemm_place_free<0>(group);
            else
                gemm_place_free<P::pieces - 1>(group);
        }
        gemm_leave_piece<P>(a, size, b, group, batch, m + part * 64, n, column, sum[part],
                            memory::piece_at(group, x));
        if (P::pieces == 0 && x + 1 < memory::piece_count) continue;
        ptx_fence_proxy_async();
        ptx_barrier_sync(1 + group, 128);
        if (!first) continue;
#pragma unroll
        for (int y = P::pieces ? x : 0; y <= x; y++)
#pragma unroll
            for (int r = 0; r < P::results; r++)
                P::store_box(a, maps, r, n + y % across * memory::piece_columns, (int)m + y / across * 64,
                             batch, b.address + memory::piece_at(group, y) + r * memory::piece_bytes);
        ptx_bulk_commit();
    }
}

/* The epilogue of results that the copy engine cannot store. */
template <class P, class A, class T, int PARTS, int COUNT>
static __device__ inline void gemm_leave_elements(const A &a, const gemm_size &size, int batch, int64_t m,
                                                  int64_t n, const T (&sum)[PARTS][COUNT]) {
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int i = 0; i < COUNT / P::rights; i += 2) {
            T low[P::rights], high[P::rights];
#pragma unroll
            for (int r = 0; r < P::rights; r++) {
                low[r] = sum[part][r * (COUNT / P::rights) + i];
                high[r] = sum[part][r * (COUNT / P::rights) + i + 1];
            }
            gemm_store_pair<P>(a, size, batch, m + part * 64 + row + i / 2 % 2 * 8,
                               n + i / 4 * 8 + lane % 4 * 2, low, high);
        }
    if constexpr (P::partials > 0) {
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int i = 0; i < COUNT / P::rights; i += 8)
                gemm_make_partials<P>(
                    a, size, batch, m + part * 64 + row - lane / 4, n + i * 2,
                    [&](int x, int r) { return (float)sum[part][r * (COUNT / P::rights) + i + x]; });
    }
}

/* The products of one tile of a group, from `stage` of the ring on. The stage before the one in hand is left
 * when its products are over; `leave` tells both blocks of a cluster. */
template <class P, class T, int PARTS, int COUNT>
static __device__ inline void gemm_multiply_tile(const gemm_block &b, T (&sum)[PARTS][COUNT], uint64_t left,
                                                 uint64_t right, int steps, int taken, uint32_t leave) {
    typedef gemm_hopper_memory<P> memory;
    const int left_step = P::left::k_major ? 2 : 128, right_step = P::right::k_major ? 2 : 128;
    int stage = taken % P::stages, parity = taken / P::stages & 1, before = 0;
    const bool tells = (int)threadIdx.x % 32 < P::cluster;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        ptx_mbarrier_wait(b.full + stage * 8, parity);
        const uint64_t at = (uint32_t)stage * (memory::stage_bytes >> 4);
        ptx_wgmma_fence();
#pragma unroll
        for (int x = 0; x < 4 * PARTS; x++) {
            const int q = x / PARTS, part = x % PARTS;
            P::multiply(sum[part], left + at + q * left_step + part * 512, right + at + q * right_step,
                        step > 0 || q > 0);
        }
        ptx_wgmma_commit();
        if (step > 0) {
            ptx_wgmma_wait<1>();
            if (tells) ptx_mbarrier_arrive_cluster(leave + before * 8);
        }
        before = stage;
        if (++stage == P::stages) stage = 0, parity ^= 1;
    }
}

/* Byte `at` of row `row` of a left tile whose rows are ROW bytes, swizzled over all of them. */
template <int ROW> static __device__ inline int gemm_raw_place(int row, int at) {
    const int swizzle = ROW == 128 ? row % 8 : ROW == 64 ? row / 2 % 4 : row / 4 % 2;
    return row * ROW + ((at / 16 ^ swizzle) << 4) + at % 16;
}

/* wgmma's left operand of one stage, computed by the text: of each 16 along k from the `first` on, of each 64
 * rows. `row` and `m`: of the thread's first value, in the tile and of all. */
template <class P, class A, int BLOCKS, int PARTS>
static __device__ inline void gemm_compute_left(const A &a, const gemm_size &size, int batch,
                                                const char *tile, int row, int64_t m, int64_t k_first,
                                                int first, uint32_t (&left)[BLOCKS][PARTS][4]) {
    typedef typename P::raw_type raw;
    uint32_t pair = (uint32_t)threadIdx.x % 4 * 2;
    const int64_t before = P::left_at(a, k_first);
#pragma unroll
    for (int i = 0; i < 4 * BLOCKS * PARTS; i++) {
        const int q = i / 4 / PARTS, part = i / 4 % PARTS, at_row = part * 64 + i % 2 * 8;
        if (i % 4 == 0) stay_inside(pair); /* nothing is loaded long before: registers are scarce */
        const int64_t k = k_first + (first + q) * 16 + i / 2 % 2 * 8 + pair;
        const int64_t at_m = m + at_row < size.m ? m + at_row : size.m - 1;
        float value[2];
#pragma unroll
        for (int v = 0; v < 2; v++) {
            /* past the end the right operand is 0, and this must not be infinite */
            const bool inside = P::k_whole || k + v < size.k;
            const int64_t at_k = inside ? k + v : size.k - 1;
            const int at = (int)(P::left_at(a, at_k) - before) * (int)sizeof(raw);
            const raw x = *(const raw *)(tile + gemm_raw_place<P::left_row>(row + at_row, at));
            value[v] = inside ? P::left_number(a, batch, at_m, at_k, x) : 0;
        }
        left[q][part][i % 4] = P::left_pair(value[0], value[1]);
    }
}

/* sum += chain * factors, of a tile's rows. */
template <class P, class A, int PARTS, int COUNT>
static __device__ inline void gemm_add_scaled(const A &a, const gemm_size &size, int batch, int64_t m,
                                              int64_t k, const float (&chain)[PARTS][COUNT],
                                              float (&sum)[PARTS][COUNT]) {
#pragma unroll
    for (int i = 0; i < PARTS * 2; i++) {
        const int64_t at = m + i / 2 * 64 + i % 2 * 8;
        const float scale =
            P::left_scale(a, batch, at < size.m ? at : size.m - 1, k < size.k ? k : size.k - 1);
#pragma unroll
        for (int j = i % 2 * 2; j < COUNT; j += 4) {
            sum[i / 2][j] = fmaf(chain[i / 2][j], scale, sum[i / 2][j]);
            sum[i / 2][j + 1] = fmaf(chain[i / 2][j + 1], scale, sum[i / 2][j + 1]);
        }
    }
}

/* Sums times their rows' factors. */
template <class P, class A, int PARTS, int COUNT>
static __device__ inline void gemm_scale_sums(const A &a, const gemm_size &size, int batch, int64_t m,
                                              float (&sum)[PARTS][COUNT]) {
#pragma unroll
    for (int i = 0; i < PARTS * 2; i++) {
        const int64_t at = m + i / 2 * 64 + i % 2 * 8;
        const float scale = P::left_scale(a, batch, at < size.m ? at : size.m - 1, 0);
#pragma unroll
        for (int j = i % 2 * 2; j < COUNT; j += 4) {
            sum[i / 2][j] *= scale;
            sum[i / 2][j + 1] *= scale;
        }
    }
}

/* Blocks of 16 along k of a left operand in registers, times the right one from `right` on. */
template <class P, int BLOCKS, int PARTS, int COUNT>
static __device__ inline void gemm_multiply_left(const uint32_t (&left)[BLOCKS][PARTS][4], uint64_t right,
                                                 bool adds, float (&sum)[PARTS][COUNT]) {
#pragma unroll
    for (int x = 0; x < BLOCKS * PARTS; x++) {
        const int q = x / PARTS, part = x % PARTS;
        P::multiply(sum[part], left[q][part], right + q * (P::right::k_major ? 2 : 128), adds || q > 0);
    }
}

/* Of a step of 64 along k: sums that have a factor of their own. */
template <class P> static __device__ constexpr int gemm_runs() {
    return P::scale_k && P::scale_k < 64 ? 64 / P::scale_k : 1;
}

/* The products of one tile of a group out of registers. m: of the thread's first row. With P::scale_k the
 * sums of so many along k go to `sum` times their factors. */
template <class P, class A, int PARTS, int COUNT>
static __device__ inline void gemm_multiply_raw(const A &a, const gemm_size &size, const gemm_block &b,
                                                float (&sum)[PARTS][COUNT], uint64_t right, int group_row,
                                                const gemm_work &work, int64_t m, int taken, uint32_t leave) {
    typedef gemm_hopper_memory<P> memory;
    const int right_step = P::right::k_major ? 2 : 128;
    constexpr int runs = gemm_runs<P>();
    const int chain_steps = P::scale_k > 64 ? P::scale_k / 64 : 1;
    const bool tells = (int)threadIdx.x % 32 < P::cluster;
    int stage = taken % P::stages, parity = taken / P::stages & 1;
    float chain[P::scale_k ? PARTS : 1][P::scale_k ? COUNT : 1];
    bool adds = false; /* to what the sums, or those of a chain, are */
    if constexpr (P::scale_k > 0) {
#pragma unroll
        for (int i = 0; i < PARTS * COUNT; i++)
            sum[i / COUNT][i % COUNT] = 0;
    }
#pragma unroll 1
    for (int step = work.first; step < work.first + work.steps; step++) {
        ptx_mbarrier_wait(b.full + stage * 8, parity);
        const uint64_t at = (uint32_t)stage * (memory::stage_bytes >> 4);
#pragma unroll
        for (int run = 0; run < runs; run++) {
            uint32_t left[4 / runs][PARTS][4];
            gemm_compute_left<P>(a, size, work.batch, b.memory + stage * memory::stage_bytes, group_row, m,
                                 (int64_t)step * 64, run * (4 / runs), left);
            ptx_wgmma_fence();
            const uint64_t right_at = right + at + run * (4 / runs) * right_step;
            if constexpr (P::scale_k > 0)
                gemm_multiply_left<P>(left, right_at, adds, chain);
            else
                gemm_multiply_left<P>(left, right_at, adds, sum);
            ptx_wgmma_commit();
            ptx_wgmma_wait<0>();
            if constexpr (P::scale_k > 0) {
                const bool ends = (step + 1) % chain_steps == 0 || step + 1 == work.first + work.steps;
                if (ends)
                    gemm_add_scaled<P>(a, size, work.batch, m, (int64_t)step * 64 + run * (64 / runs), chain,
                                       sum);
                adds = !ends;
            }
        }
        if constexpr (P::scale_k == 0) adds = true;
        __syncwarp(); /* all lanes have read what is given back */
        if (tells && step + 1 < work.first + work.steps) ptx_mbarrier_arrive_cluster(leave + stage * 8);
        if (++stage == P::stages) stage = 0, parity ^= 1;
    }
    if constexpr (P::scaled && P::scale_k == 0) gemm_scale_sums<P>(a, size, work.batch, m, sum);
}

/* Factors of what a chain of a tile comes to: of the thread's rows, and of each 64 columns. */
template <class P, int PARTS> struct gemm_scales { float row[PARTS][2], column[(P::tile_n + 63) / 64]; };

template <class P, int PARTS, class A>
static __device__ inline void gemm_scales_of(const A &a, const gemm_size &size, int batch, int64_t m,
                                             int64_t n, int64_t k, gemm_scales<P, PARTS> &g) {
    const int row = (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < PARTS * 2; i++) {
        const int64_t at = m + i / 2 * 64 + row + i % 2 * 8;
        g.row[i / 2][i % 2] = P::left_scale(a, batch, at < size.m ? at : size.m - 1, k);
    }
#pragma unroll
    for (int c = 0; c < (P::tile_n + 63) / 64; c++)
        g.column[c] = P::right_scale(a, batch, n + c * 64 < size.n ? n + c * 64 : size.n - 1, k);
}

/* The same in chains of P::chain steps: what they come to is added up outside of the tensor cores, which cut
 * sums; with P::scaled times the scales of the chain's first step. m, n, k: of the tile's first products. */
template <class P, class A, int PARTS, int COUNT>
static __device__ inline void gemm_multiply_chains(const A &a, const gemm_size &size, const gemm_block &b,
                                                   float (&sum)[PARTS][COUNT], uint64_t left, uint64_t right,
                                                   const gemm_work &work, int64_t m, int64_t n, int taken,
                                                   uint32_t leave) {
    const bool tells = (int)threadIdx.x % 32 < P::cluster;
    float chain[PARTS][COUNT];
#pragma unroll
    for (int i = 0; i < PARTS * COUNT; i++)
        sum[i / COUNT][i % COUNT] = 0;
#pragma unroll 1
    for (int first = 0; first < work.steps; first += P::chain) {
        const int count = work.steps - first < P::chain ? work.steps - first : P::chain;
        gemm_scales<P, PARTS> scale;
        if constexpr (P::scaled)
            gemm_scales_of<P, PARTS>(a, size, work.batch, m, n, (int64_t)(work.first + first) * P::k_step,
                                     scale);
        gemm_multiply_tile<P>(b, chain, left, right, count, taken + first, leave);
        ptx_wgmma_wait<0>();
        if (tells && first + count < work.steps)
            ptx_mbarrier_arrive_cluster(leave + (taken + first + count - 1) % P::stages * 8);
#pragma unroll
        for (int i = 0; i < PARTS * COUNT; i++) {
            const int part = i / COUNT, at = i % COUNT;
            if constexpr (P::scaled)
                sum[part][at] =
                    fmaf(chain[part][at], scale.row[part][at / 2 % 2] * scale.column[at / 4 * 8 / 64],
                         sum[part][at]);
            else
                sum[part][at] += chain[part][at];
        }
    }
}

/* Of a product, alone or in a walk. */
template <class P, class A>
static __device__ inline gemm_size gemm_size_of(const A &a, const gemm_size &alone) {
    if constexpr (P::walks > 1)
        return P::size(a);
    else
        return alone;
}

/* What a tile of P, or of the product of its walk that it is of, needs before its epilogue. */
template <class P, class A, class M>
static __device__ inline void gemm_begin_tile(const A &a, const gemm_size &size, const gemm_block &b,
                                              const M &maps, int group, gemm_tile tile, int first_row) {
    if constexpr (P::after > 0) {
        if (gemm_is_behind<P>(a, tile)) {
            gemm_begin_tile<typename P::next>(a, size, b, maps.next, group, tile, first_row);
            return;
        }
    }
    const int n = tile.n * P::right_n;
    if constexpr (P::columns > 0) gemm_begin_columns<P>(a, gemm_size_of<P>(a, size), b, group, tile.batch, n);
    if constexpr (P::has_staged)
        gemm_begin_staged<P>(b, maps, group, tile.batch, tile.m * (P::tile_m * P::cluster) + first_row, n);
}

/* Its epilogue. */
template <class P, class A, class M, class T, int PARTS, int COUNT>
static __device__ inline void gemm_leave_tile(const A &a, const gemm_size &size, const gemm_block &b,
                                              const M &maps, int group, gemm_tile tile, int first_row,
                                              int parity, const T (&sum)[PARTS][COUNT]) {
    if constexpr (P::after > 0) {
        if (gemm_is_behind<P>(a, tile)) {
            gemm_leave_tile<typename P::next>(a, size, b, maps.next, group, tile, first_row, parity, sum);
            return;
        }
    }
    const int64_t m = (int64_t)tile.m * (P::tile_m * P::cluster) + first_row;
    const int n = tile.n * P::right_n;
    if constexpr (P::stores_boxes)
        gemm_leave<P>(a, gemm_size_of<P>(a, size), b, maps, group, tile.batch, m, n, parity, sum);
    else
        gemm_leave_elements<P>(a, gemm_size_of<P>(a, size), tile.batch, m, n, sum);
}

template <class P, class A, class M>
static __device__ inline void gemm_consume(const A &a, const gemm_size &size, const gemm_block &b,
                                           const M &maps, int group) {
    typedef gemm_hopper_memory<P> memory;
    const int lane = (int)threadIdx.x % 32, rows = P::ping_pong ? 0 : group * memory::parts * 64;
    const int lane_row = (int)threadIdx.x % 128 / 32 * 16 + lane / 4;
    const int first_row = b.rank * P::tile_m + rows;
    const uint64_t left = gemm_descriptor<P::left::k_major>(b.address + rows * 128);
    const uint64_t right = gemm_descriptor<P::right::k_major>(b.address + memory::left_bytes);
    const uint32_t leave = ptx_cluster_address(b.empty, P::cluster > 1 ? lane % P::cluster : 0);
    const bool tells = lane < P::cluster;
    int taken = 0, round = 0, parity = 0, steps;
    static_assert(P::walks == 1 || !(P::computes || P::scaled), "one product's m and n");
    for (int number = b.cluster; number < b.tiles; number += b.clusters, round++, taken += steps) {
        const gemm_work work = gemm_work_at<P>(b, number);
        const gemm_tile tile = work.tile;
        steps = work.steps;
        if (P::ping_pong && round % 2 != group) continue;
        const int64_t m = (int64_t)tile.m * (P::tile_m * P::cluster) + first_row;
        const int n = tile.n * P::right_n;
        typename P::sum_type sum[memory::parts][P::tile_n / 2];
        if (P::stream == 0 || number < b.whole) gemm_begin_tile<P>(a, size, b, maps, group, tile, first_row);
        if (P::ping_pong && round > 0) ptx_barrier_sync(3 + group, 256);
        if constexpr (P::computes)
            gemm_multiply_raw<P>(a, size, b, sum, right, rows + lane_row, work, m + lane_row, taken, leave);
        else if constexpr (P::chain > 0)
            gemm_multiply_chains<P>(a, size, b, sum, left, right, work, m, n, taken, leave);
        else
            gemm_multiply_tile<P>(b, sum, left, right, steps, taken, leave);
        if (P::ping_pong && number + b.clusters < b.tiles) ptx_barrier_arrive(3 + (group ^ 1), 256);
        ptx_wgmma_wait<0>();
        if (tells) ptx_mbarrier_arrive_cluster(leave + (taken + steps - 1) % P::stages * 8);
        if constexpr (P::stream > 0) {
            if (number >= b.whole) {
                gemm_leave_sums<P>(gemm_piece_sums<P>(a, b.cluster, gemm_piece_of(b, number), b.rank),
                                   rows / 64, sum);
                continue;
            }
        }
        gemm_leave_tile<P>(a, size, b, maps, group, tile, first_row, parity, sum);
        parity ^= 1;
    }
    if (lane == 0) ptx_bulk_wait_read<0>();
}

template <class P, class A, class M>
static __device__ inline void gemm_hopper(const A &a, const gemm_size size, const M &maps) {
    const gemm_block b = gemm_hopper_begin<P>(a, size);
    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);
    if (group == 0) {
        ptx_registers_give<P::producer_registers>();
        if (threadIdx.x == 0) gemm_produce<P>(a, size, b, maps);
        __syncwarp();
    } else {
        ptx_registers_take<P::consumer_registers>();
        gemm_consume<P>(a, size, b, maps, group - 1);
    }
    if (P::cluster > 1) {
        ptx_cluster_arrive();
        ptx_cluster_wait();
    }
}

/* Adds up the sums over P::splits parts of k, always in their order, and has the epilogue: a warp takes 128
 * columns of a row, a lane each 32nd of them, so that what the epilogue reads and writes are whole lines,
 * too. parts: f32, [part][batch][m][n], rows of whole 16 bytes. There are fewer elements than 32 bits count:
 * parts are for products of few tiles. */
template <class P, class A>
static __device__ inline void gemm_fold(const A &a, const gemm_size size, const float *parts) {
    const unsigned lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    const unsigned line = ((unsigned)size.n + 3) / 4 * 4, runs = ((unsigned)size.n + 127) / 128;
    const unsigned m = (unsigned)size.m, rows = (unsigned)size.batch * m;
    for (unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < rows * runs; i += warps) {
        const unsigned row = i / runs, first = i % runs * 128 + lane;
        const float *part = parts + (int64_t)row * line;
        float sum[4];
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            sum[j] = first + 32 * j < (unsigned)size.n ? part[first + 32 * j] : 0;
#pragma unroll
        for (int p = 1; p < P::splits; p++) {
            part += (int64_t)rows * line;
#pragma unroll
            for (unsigned j = 0; j < 4; j++)
                if (first + 32 * j < (unsigned)size.n) sum[j] += part[first + 32 * j];
        }
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            if (first + 32 * j < (unsigned)size.n)
                P::store(a, (int64_t)(row / m), (int64_t)(row % m), (int64_t)(first + 32 * j), sum[j]);
    }
}

/* Adds up the pieces of tiles that all clusters share, and has the epilogue. 128 threads take 64 rows and 16
 * columns of a tile at a time. */
template <class P, class A>
static __device__ inline void gemm_fold_stream(const A &a, const gemm_size &size) {
    gemm_block b;
    gemm_count_tiles<P>(a, size, b);
    const int parts = P::tile_m / 64, chunks = P::right_n / 16, group = (int)threadIdx.x / 128;
    const int units = P::stream * P::cluster * parts * chunks, groups = (int)blockDim.x / 128;
#pragma unroll 1
    for (int unit = (int)blockIdx.x * groups + group; unit < units; unit += (int)gridDim.x * groups) {
        const int chunk = unit % chunks, part = unit / chunks % parts;
        const int rank = unit / chunks / parts % P::cluster, number = unit / chunks / parts / P::cluster;
        const gemm_tile tile = gemm_tile_at(b.whole + number, b.m_tiles, b.n_tiles, P::raster);
        typename P::sum_type sum[1][8 * P::rights];
        gemm_add_pieces<P>(a, number, b.steps, rank, part, chunk, sum[0]);
        gemm_leave_elements<P>(a, size, tile.batch,
                               ((int64_t)tile.m * P::cluster + rank) * P::tile_m + part * 64,
                               (int64_t)tile.n * P::right_n + chunk * 16, sum);
    }
}
