/* A matrix product on the tensor cores of sm_80 and later: sum over k of left(m, k) * right(n, k), operands
 * of 16 bits, sums in f32.
 *
 * A block of P::threads threads takes tiles of P::tile_m x P::tile_n results. Tiles of the operands, 64 along
 * k, come through a ring of P::stages places in shared memory: in chunks of 16 bytes by cp.async where memory
 * allows it, element by element otherwise, zeros past the ends. Each warp multiplies its share of the tile by
 * mma.sync out of registers that ldmatrix filled.
 *
 * A tile is a run of rows of 128 bytes, eight chunks of 16 bytes each. Chunk c of row r stands in the place
 * of chunk c ^ r % 8: then the eight rows that an instruction reads at once lie in different banks. It is the
 * swizzle that the copy engine makes, too.
 *
 * P, which the printer makes for a stage: tile_m, tile_n, stages, threads, warps_m, raster (tiles along m
 * that share a column of tiles before the next: the L2 serves what they read twice), multiply(d, a, b),
 * store(a, batch, m, n, sum); left and right: k_major, chunks, element(a, batch, mn, k) and place(...).
 *
 * P::rights products that share the left operand are one walk: their right tiles of P::right_n columns are
 * stacked to one of P::tile_n. right_1 and on are the others; store() takes all sums of a place.
 */
struct gemm_size {
    int64_t batch, m, n, k;
};

struct gemm_tile {
    int batch, m, n; /* its number along each */
};

/* Tile number `tile` of all: batch by batch, `raster` tiles along m by all along n. (2^31 tiles would be more
 * than a memory holds.) */
static __device__ inline gemm_tile gemm_tile_at(int tile, int m_tiles, int n_tiles, int raster) {
    const int batch = tile / (m_tiles * n_tiles), here = tile - batch * (m_tiles * n_tiles);
    const int run = here / (raster * n_tiles), rest = here - run * (raster * n_tiles);
    const int left = m_tiles - run * raster, rows = left < raster ? left : raster;
    return {batch, run * raster + rest % rows, rest / rows};
}

/* Where chunk `chunk` of 8 elements along k of row `row` stands, in bytes. */
static __device__ inline int k_major_place(int row, int chunk) {
    return row * 128 + ((chunk ^ (row & 7)) << 4);
}

/* The same where 64 elements along the rows' axis are neighbours, one k after the other, 64 of those. */
static __device__ inline int mn_major_place(int k, int chunk) {
    return (chunk >> 3) * 8192 + k * 128 + (((chunk & 7) ^ (k & 7)) << 4);
}

/* A tile in shared memory: for ordinary stores, and for instructions that take its address. */
struct gemm_place {
    char *memory;
    uint32_t address;
};

/* Chunk `e` of a tile's ROWS * 8, of eight elements: where it stands, and of what. */
struct gemm_chunk {
    int64_t mn, k;
    int to;
};

template <class S, int ROWS>
static __device__ inline gemm_chunk gemm_chunk_at(int e, int64_t first, int64_t k_first) {
    const int chunks = S::k_major ? 8 : ROWS / 8, chunk = e % chunks, row = e / chunks;
    return {first + (S::k_major ? row : chunk * 8), k_first + (S::k_major ? chunk * 8 : row),
            S::k_major ? k_major_place(row, chunk) : mn_major_place(row, chunk)};
}

/* A tile of ROWS x 64 of one side into its place, 16 bytes at a time. */
template <class S, int ROWS, int THREADS, class A>
static __device__ inline void gemm_load_chunks(const A &a, int64_t batch, int64_t first, int64_t size,
                                               int64_t k_first, int64_t k_size, const gemm_place &tile) {
#pragma unroll
    for (int i = 0; i < ROWS * 8 / THREADS; i++) {
        const gemm_chunk c = gemm_chunk_at<S, ROWS>((int)threadIdx.x + i * THREADS, first, k_first);
        const bool inside = c.mn < size && c.k < k_size;
        ptx_copy_part_past_l1(tile.address + c.to, S::place(a, batch, inside ? c.mn : 0, inside ? c.k : 0),
                              inside ? 16 : 0);
    }
}

/* The same element by element. */
template <class S, int ROWS, int THREADS, class A>
static __device__ inline void gemm_load_elements(const A &a, int64_t batch, int64_t first, int64_t size,
                                                 int64_t k_first, int64_t k_size, const gemm_place &tile) {
#pragma unroll 1 /* registers are scarce */
    for (int i = 0; i < ROWS * 8 / THREADS; i++) {
        const gemm_chunk c = gemm_chunk_at<S, ROWS>((int)threadIdx.x + i * THREADS, first, k_first);
        uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
        for (int v = 0; v < 8; v++) {
            const int64_t mn = c.mn + (S::k_major ? 0 : v), k = c.k + (S::k_major ? v : 0);
            if (mn < size && k < k_size) word[v / 2] |= (uint32_t)S::element(a, batch, mn, k) << v % 2 * 16;
        }
        *(uint4 *)(tile.memory + c.to) = make_uint4(word[0], word[1], word[2], word[3]);
    }
}

template <class S, int ROWS, int THREADS, bool CHUNKS, class A>
static __device__ inline void gemm_load_tile(const A &a, int64_t batch, int64_t first, int64_t size,
                                             int64_t k_first, int64_t k_size, const gemm_place &tile) {
    if constexpr (CHUNKS)
        gemm_load_chunks<S, ROWS, THREADS>(a, batch, first, size, k_first, k_size, tile);
    else
        gemm_load_elements<S, ROWS, THREADS>(a, batch, first, size, k_first, k_size, tile);
}

/* Rows `row` to `row` + 15 of the left tile, step `step` of 16 along k. */
template <bool K_MAJOR>
static __device__ inline void gemm_left_fragment(uint32_t tile, int row, int step, uint32_t (&r)[4]) {
    const int lane = (int)threadIdx.x % 32;
    if (K_MAJOR)
        ptx_load_matrix_4(r, tile + k_major_place(row + lane % 16, step * 2 + lane / 16));
    else
        ptx_load_matrix_4_transposed(
            r, tile + mn_major_place(step * 16 + lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2));
}

/* Columns `row` to `row` + 15 of the right tile: the first eight, and the others. */
template <bool K_MAJOR>
static __device__ inline void gemm_right_fragments(uint32_t tile, int row, int step, uint32_t (&low)[2],
                                                   uint32_t (&high)[2]) {
    const int lane = (int)threadIdx.x % 32;
    uint32_t r[4];
    if (K_MAJOR)
        ptx_load_matrix_4(r, tile + k_major_place(row + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
    else
        ptx_load_matrix_4_transposed(r, tile + mn_major_place(step * 16 + lane % 16, row / 8 + lane / 16));
    low[0] = r[0], low[1] = r[1], high[0] = r[2], high[1] = r[3];
}

/* The epilogue of two neighbours along n: row m, columns n and n + 1. */
template <class P, class A, class T, int RIGHTS>
static __device__ inline void gemm_store_pair(const A &a, const gemm_size &size, int64_t batch, int64_t m,
                                              int64_t n, const T (&low)[RIGHTS], const T (&high)[RIGHTS]) {
    if (m >= size.m || n >= size.n) return;
    if constexpr (RIGHTS == 1) {
        P::store(a, batch, m, n, low[0]);
        if (n + 1 < size.n) P::store(a, batch, m, n + 1, high[0]);
    } else {
        P::store(a, batch, m, n, low);
        if (n + 1 < size.n) P::store(a, batch, m, n + 1, high);
    }
}

/* The tile of right operand S, the R-th of those that are stacked from `tile` on. */
template <class P, class S, bool CHUNKS, int R, class A>
static __device__ inline void gemm_load_right(const A &a, const gemm_size &size, int batch, int64_t n,
                                              int64_t k, const gemm_place &tile) {
    const gemm_place own = {tile.memory + R * P::right_n * 128, tile.address + R * P::right_n * 128};
    gemm_load_tile<S, P::right_n, P::threads, CHUNKS && S::chunks>(a, batch, n, size.n, k, size.k, own);
}

/* Steps of 64 along k of a sum, those of the products behind it (gemm_hopper_block.h) included. */
template <class P, class A> static __device__ inline int gemm_ampere_steps(const A &a, int64_t k) {
    const int own = (int)((k + 63) / 64);
    if constexpr (P::terms_after > 0)
        return own + gemm_ampere_steps<typename P::more>(a, P::more::size(a).k);
    else
        return own;
}

/* The tiles of a step to where its stage begins; nothing behind the last step. */
template <class P, bool CHUNKS, class A>
static __device__ inline void gemm_ampere_bring(const A &a, const gemm_size &size, int batch, int64_t m,
                                                int64_t n, int step, const gemm_place &left) {
    const int64_t k = (int64_t)step * 64;
    if constexpr (P::terms_after > 0) {
        const int own = (int)((size.k + 63) / 64);
        if (step >= own) {
            gemm_ampere_bring<typename P::more, CHUNKS>(a, P::more::size(a), batch, m, n, step - own, left);
            return;
        }
    }
    if (k >= size.k) return;
    const int left_bytes = P::tile_m * 128;
    const gemm_place right = {left.memory + left_bytes, left.address + left_bytes};
    gemm_load_tile<typename P::left, P::tile_m, P::threads, CHUNKS && P::left::chunks>(a, batch, m, size.m, k,
                                                                                       size.k, left);
    gemm_load_right<P, typename P::right, CHUNKS, 0>(a, size, batch, n, k, right);
    if constexpr (P::rights > 1)
        gemm_load_right<P, typename P::right_1, CHUNKS, 1>(a, size, batch, n, k, right);
    if constexpr (P::rights > 2)
        gemm_load_right<P, typename P::right_2, CHUNKS, 2>(a, size, batch, n, k, right);
    if constexpr (P::rights > 3)
        gemm_load_right<P, typename P::right_3, CHUNKS, 3>(a, size, batch, n, k, right);
}

template <class P, bool CHUNKS, class A>
static __device__ inline void gemm_ampere_load(const A &a, const gemm_size &size, int batch, int64_t m,
                                               int64_t n, int step, const gemm_place &ring) {
    const int at = step % P::stages * ((P::tile_m + P::tile_n) * 128);
    gemm_ampere_bring<P, CHUNKS>(a, size, batch, m, n, step, {ring.memory + at, ring.address + at});
    ptx_copy_commit();
}

/* The first column in a stacked tile of block `j` of eight of a warp's COLUMNS: its shares of the right
 * operands' tiles begin at `column` of each. */
template <class P, int COLUMNS> static __device__ inline int gemm_ampere_column(int column, int j) {
    return j / (COLUMNS / P::rights) * P::right_n + column + j % (COLUMNS / P::rights) * 8;
}

/* A warp's share of one stage. */
template <class P, int ROWS, int COLUMNS>
static __device__ inline void gemm_ampere_multiply(float (&sum)[ROWS][COLUMNS][4], uint32_t stage, int row,
                                                   int column) {
#pragma unroll
    for (int step = 0; step < 4; step++) {
        uint32_t left[ROWS][4], right[COLUMNS][2];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            gemm_left_fragment<P::left::k_major>(stage, row + i * 16, step, left[i]);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 2)
            gemm_right_fragments<P::right::k_major>(stage + P::tile_m * 128,
                                                    gemm_ampere_column<P, COLUMNS>(column, j), step, right[j],
                                                    right[j + 1]);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                P::multiply(sum[i][j], left[i], right[j]);
    }
}

/* Results of a warp's share, whose first row and column these are. */
template <class P, class A, int ROWS, int COLUMNS>
static __device__ inline void gemm_ampere_store(const A &a, const gemm_size &size, int batch, int64_t m,
                                                int64_t n, const float (&sum)[ROWS][COLUMNS][4]) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS / P::rights; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float low[P::rights], high[P::rights];
#pragma unroll
                for (int r = 0; r < P::rights; r++) {
                    low[r] = sum[i][j + r * (COLUMNS / P::rights)][h * 2];
                    high[r] = sum[i][j + r * (COLUMNS / P::rights)][h * 2 + 1];
                }
                gemm_store_pair<P>(a, size, batch, m + i * 16 + lane / 4 + h * 8, n + j * 8 + lane % 4 * 2,
                                   low, high);
            }
    if constexpr (P::partials > 0) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS / P::rights; j += 2)
                gemm_make_partials<P>(a, size, batch, m + i * 16, n + j * 8, [&](int x, int r) {
                    return sum[i][j + x / 4 + r * (COLUMNS / P::rights)][x % 4];
                });
    }
}

/* One tile, whose first row and column these are; rows end before size.m. CHUNKS: all arrays begin at whole
 * 16 bytes. A block may have more threads than P::threads: they only wait. */
template <class P, bool CHUNKS, class A>
static __device__ inline void gemm_ampere_tile(const A &a, const gemm_size &size, int batch, int64_t m,
                                               int64_t n) {
    const gemm_place ring = {staged_memory(), ptx_shared_address(staged_memory())};
    const int stage_bytes = (P::tile_m + P::tile_n) * 128;
    const int rows = P::tile_m / P::warps_m / 16, columns = P::tile_n / (P::threads / 32 / P::warps_m) / 8;
    const int warp = (int)threadIdx.x / 32, works = threadIdx.x < P::threads;
    const int row = warp % P::warps_m * rows * 16, column = warp / P::warps_m * (columns / P::rights) * 8;
    const int steps = gemm_ampere_steps<P>(a, size.k);
    float sum[rows][columns][4] = {};
#pragma unroll
    for (int s = 0; s < P::stages - 1; s++)
        if (works) gemm_ampere_load<P, CHUNKS>(a, size, batch, m, n, s, ring);
    for (int step = 0; step < steps; step++) {
        ptx_copy_wait<P::stages - 2>();
        __syncthreads();
        if (!works) continue;
        gemm_ampere_load<P, CHUNKS>(a, size, batch, m, n, step + P::stages - 1, ring);
        gemm_ampere_multiply<P>(sum, ring.address + step % P::stages * stage_bytes, row, column);
    }
    ptx_copy_wait<0>();
    __syncthreads();
    if (works) gemm_ampere_store<P>(a, size, batch, m + row, n + column, sum);
}

/* Its tiles have the numbers from `before` on, blocks the numbers of the grid by turns. Returns the first
 * number behind them. */
template <class P, bool CHUNKS, class A>
static __device__ inline int gemm_ampere(const A &a, const gemm_size size, int before) {
    const int m_tiles = (int)((size.m + P::tile_m - 1) / P::tile_m);
    const int n_tiles = (int)((size.n + P::right_n - 1) / P::right_n);
    const int tiles = (int)size.batch * m_tiles * n_tiles, blocks = (int)gridDim.x;
    int number = (int)blockIdx.x - before % blocks;
    if (number < 0) number += blocks;
    for (; number < tiles; number += blocks) {
        const gemm_tile tile = gemm_tile_at(number, m_tiles, n_tiles, P::raster);
        gemm_ampere_tile<P, CHUNKS>(a, size, tile.batch, (int64_t)tile.m * P::tile_m,
                                    (int64_t)tile.n * P::right_n);
    }
    return before + tiles;
}

/* ---- rows that choose their right operand ---- */

/* Sums of what threads 0 to i have, each thread's own, of a block of 1024. */
static __device__ inline int gemm_sums_before(int (&sums)[1024], int value) {
    sums[threadIdx.x] = value;
    __syncthreads();
#pragma unroll 1
    for (int by = 1; by < 1024; by *= 2) {
        const int more = (int)threadIdx.x >= by ? sums[threadIdx.x - by] : 0;
        __syncthreads();
        sums[threadIdx.x] += more;
        __syncthreads();
    }
    return sums[threadIdx.x] - value;
}

/* One block of 1024 threads sorts rows by the group that they chose, P::group(a, row), of P::groups, at most
 * 1024; those that chose none are left out. Which of a group comes first may change from run to run: each is
 * computed for itself. tiles: how many there are in the first one's x; then of each its group, its first row
 * of the order and the end of its group. */
template <class P, class A>
static __device__ inline void gemm_sort(const A &a, int64_t rows, int *order, int4 *tiles) {
    __shared__ int count[1024], sums[1024];
    const int group = (int)threadIdx.x;
    count[group] = 0;
    __syncthreads();
    for (int row = group; row < (int)rows; row += 1024) {
        const int chosen = P::group(a, row);
        if (chosen >= 0) atomicAdd(&count[chosen], 1);
    }
    __syncthreads();
    const int own = count[group], own_tiles = (own + P::tile_m - 1) / P::tile_m;
    const int first = gemm_sums_before(sums, own), first_tile = gemm_sums_before(sums, own_tiles);
    if (group == 1023) tiles[0] = make_int4(first_tile + own_tiles, 0, 0, 0);
    for (int t = 0; t < own_tiles; t++)
        tiles[1 + first_tile + t] = make_int4(group, first + t * P::tile_m, first + own, 0);
    count[group] = first;
    __syncthreads();
    for (int row = group; row < (int)rows; row += 1024) {
        const int chosen = P::group(a, row);
        if (chosen >= 0) order[atomicAdd(&count[chosen], 1)] = row;
    }
}

/* A block a tile of rows that chose the same, and of columns. Rows are places of the order. */
template <class P, bool CHUNKS, class A>
static __device__ inline void gemm_grouped(const A &a, const gemm_size size, const int4 *tiles) {
    const int n_tiles = (int)((size.n + P::tile_n - 1) / P::tile_n);
    const int number = (int)blockIdx.x / n_tiles, column = (int)blockIdx.x % n_tiles;
    if (number >= tiles[0].x) return;
    const int4 tile = tiles[1 + number];
    const gemm_size of_group = {1, tile.z, size.n, size.k};
    gemm_ampere_tile<P, CHUNKS>(a, of_group, tile.x, tile.y, (int64_t)column * P::tile_n);
}
