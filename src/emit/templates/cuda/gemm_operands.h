/* Operands of a product that the tensor cores cannot take as they lie: laid out anew as numbers of 16 bits,
 * one, two or three parts whose sum is the value. And the product by the arithmetic of threads.
 *
 * Each part is what is left of the value, rounded to bf16: three hold all of an f32. What is infinite, no
 * number or rounds to infinity has no parts: the block that meets it raises its flag, and the product is made
 * by the arithmetic of threads. Values of less than 2^-110 lose bits, for the last parts have no numbers so
 * small.
 */

/* Three parts of two values, the first value's in the lower half. Returns whether both have parts. */
static __device__ inline bool gemm_parts_of(float low, float high, uint32_t (&part)[3]) {
#pragma unroll
    for (int p = 0; p < 3; p++) {
        part[p] = bf16_pair(low, high);
        low -= f32_of_bits((int32_t)(part[p] << 16));
        high -= f32_of_bits((int32_t)(part[p] & 0xffff0000u));
    }
    return low - low == 0 && high - high == 0;
}

/* One operand into its place. S: parts; k_major: lines run along k, otherwise along the other axis; exact:
 * the 16 bits of a value that one part holds; value(a, batch, mn, k). A thread lays four neighbours of a
 * line. `to`: [part][batch][line][along], lines of `pitch` elements, a multiple of 8. */
template <class S, class A>
static __device__ inline bool gemm_lay(const A &a, int64_t batches, int64_t mn_size, int64_t k_size,
                                       int64_t pitch, uint16_t *to) {
    const int64_t lines = S::k_major ? mn_size : k_size, along = S::k_major ? k_size : mn_size;
    const int64_t quads = pitch / 4, whole = batches * lines * quads;
    bool good = true;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < whole;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t line = i / quads, first = i % quads * 4, batch = line / lines, at = line % lines;
        float value[4];
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const int64_t x = first + v;
            value[v] = x < along ? S::value(a, batch, S::k_major ? at : x, S::k_major ? x : at) : 0;
        }
        uint32_t low[3], high[3];
        if constexpr (S::parts == 1) {
            low[0] = S::pair(value[0], value[1]);
            high[0] = S::pair(value[2], value[3]);
        } else {
            good &= gemm_parts_of(value[0], value[1], low) & gemm_parts_of(value[2], value[3], high);
        }
#pragma unroll
        for (int p = 0; p < S::parts; p++)
            *(uint2 *)(to + (p * whole + i) * 4) = make_uint2(low[p], high[p]);
    }
    return good;
}

/* What sums are multiplied by after each step along k: of each row, and of each 64 columns. */
template <class P, class A>
static __device__ inline bool gemm_scales_are_finite(const A &a, const gemm_size &size) {
    const int64_t steps = (size.k + P::scales_apart - 1) / P::scales_apart, columns = (size.n + 63) / 64;
    const int64_t each = (size.m + columns) * steps, whole = size.batch * each;
    bool good = true;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < whole;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t at = i % each / steps, k = i % each % steps * P::scales_apart;
        const float scale = at < size.m ? P::left_scale(a, i / each, at, k)
                                        : P::right_scale(a, i / each, (at - size.m) * 64, k);
        good &= scale - scale == 0;
    }
    return good;
}

/* Some block of the kernel before this raised its flag. */
static __device__ inline bool gemm_is_flagged(const int *flags, int count) {
    int raised = 0;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        raised |= flags[i];
    return __syncthreads_or(raised);
}

/* A product by the arithmetic of threads, T: float or double. A block of at least 256 threads takes tiles of
 * 64 x 64; operands are evaluated as they are read, by neighbouring threads along memory.
 *
 * P: left and right, and right_1 and on of P::rights, with along_k (neighbours along k are neighbours in
 * memory) and value(a, batch, mn, k); store(a, batch, m, n, sum), where there are several rights of all
 * their sums; partials, partial_values(), partial_0 and on: gemm_partials.h. */
template <class T> struct gemm_plain_tiles { T left[16][68], right[16][68]; };

template <class S, class T, class A>
static __device__ inline void gemm_plain_load(const A &a, int64_t batch, int64_t first, int64_t size,
                                              int64_t k_first, int64_t k_size, T (&tile)[16][68]) {
    for (int e = (int)threadIdx.x; e < 1024; e += 256) {
        const int k = S::along_k ? e % 16 : e / 64, at = S::along_k ? e / 16 : e % 64;
        const bool inside = first + at < size && k_first + k < k_size;
        tile[k][at] = inside ? S::value(a, batch, first + at, k_first + k) : 0;
    }
}

template <class T>
static __device__ inline void gemm_plain_multiply(const gemm_plain_tiles<T> &tiles, int m, int n,
                                                  T (&sum)[4][4]) {
#pragma unroll
    for (int k = 0; k < 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] += tiles.left[k][m + i] * tiles.right[k][n + j];
}

template <class P, class T, class A>
static __device__ inline void gemm_plain_store(const A &a, const gemm_size &size, int64_t batch, int64_t m,
                                               int64_t n, const T (&sum)[P::rights][4][4]) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int64_t at_m = m + i / 4, at_n = n + i % 4;
        if (at_m >= size.m || at_n >= size.n) continue;
        if constexpr (P::rights == 1) {
            P::store(a, batch, at_m, at_n, sum[0][i / 4][i % 4]);
        } else {
            T sums[P::rights];
#pragma unroll
            for (int r = 0; r < P::rights; r++)
                sums[r] = sum[r][i / 4][i % 4];
            P::store(a, batch, at_m, at_n, sums);
        }
    }
}

/* Sums of one tile with right operand S, whose first row and column these are. */
template <class P, class S, class T, class A>
static __device__ inline void gemm_plain_sums(const A &a, const gemm_size &size, int64_t batch, int64_t m,
                                              int64_t n, gemm_plain_tiles<T> &tiles, T (&sum)[4][4]) {
    const int m_thread = (int)threadIdx.x / 16 * 4, n_thread = (int)threadIdx.x % 16 * 4;
    const bool works = threadIdx.x < 256;
    for (int64_t k = 0; k < size.k; k += 16) {
        if (works) gemm_plain_load<typename P::left>(a, batch, m, size.m, k, size.k, tiles.left);
        if (works) gemm_plain_load<S>(a, batch, n, size.n, k, size.k, tiles.right);
        __syncthreads();
        if (works) gemm_plain_multiply(tiles, m_thread, n_thread, sum);
        __syncthreads();
    }
}

/* A sum over 16 neighbours (gemm_partials.h), number NUMBER of the stage's, of a tile whose sums are in
 * registers: each thread merges its four, then one those of four threads. */
template <class P, class S, int NUMBER, class T, class A>
static __device__ inline void gemm_plain_leave_partial(const A &a, const gemm_size &size, int64_t batch,
                                                       int64_t m, int64_t n, gemm_plain_tiles<T> &tiles,
                                                       const T (&sum)[P::rights][4][4]) {
    const int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
    float near[4] = {S::none(), S::none(), S::none(), S::none()};
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int64_t at_m = m + row + i / 4, at_n = n + column + i % 4;
        float sums[P::rights], value[P::partials];
        if (threadIdx.x >= 256 || at_m >= size.m || at_n >= size.n) continue;
#pragma unroll
        for (int r = 0; r < P::rights; r++)
            sums[r] = (float)sum[r][i / 4][i % 4];
        P::partial_values(a, batch, at_m, at_n, sums, value);
        float &to = near[S::along_m ? i % 4 : i / 4];
        to = S::merge(to, value[NUMBER]);
    }
    if (threadIdx.x < 256)
#pragma unroll
        for (int i = 0; i < 4; i++)
            tiles.left[(S::along_m ? row : column) / 4][(S::along_m ? column : row) + i] = near[i];
    __syncthreads();
    const int at = (int)threadIdx.x % 64, group = (int)threadIdx.x / 64;
    const int64_t at_m = m + (S::along_m ? group * 16 : at), at_n = n + (S::along_m ? at : group * 16);
    if (threadIdx.x < 256 && at_m < size.m && at_n < size.n) {
        float all = S::none();
        for (int i = 0; i < 4; i++)
            all = S::merge(all, (float)tiles.left[group * 4 + i][at]);
        S::store(a, at_m, at_n, all);
    }
    __syncthreads();
}

template <class P, class T, class A>
static __device__ inline void gemm_plain_leave_partials(const A &a, const gemm_size &size, int64_t batch,
                                                        int64_t m, int64_t n, gemm_plain_tiles<T> &tiles,
                                                        const T (&sum)[P::rights][4][4]) {
    if constexpr (P::partials > 0)
        gemm_plain_leave_partial<P, typename P::partial_0, 0>(a, size, batch, m, n, tiles, sum);
    if constexpr (P::partials > 1)
        gemm_plain_leave_partial<P, typename P::partial_1, 1>(a, size, batch, m, n, tiles, sum);
    if constexpr (P::partials > 2)
        gemm_plain_leave_partial<P, typename P::partial_2, 2>(a, size, batch, m, n, tiles, sum);
    if constexpr (P::partials > 3)
        gemm_plain_leave_partial<P, typename P::partial_3, 3>(a, size, batch, m, n, tiles, sum);
}

/* Of the products behind it (gemm_hopper_block.h), to the same sums. */
template <class P, class T, class A>
static __device__ inline void gemm_plain_more(const A &a, int64_t batch, int64_t m, int64_t n,
                                              gemm_plain_tiles<T> &tiles, T (&sum)[4][4]) {
    if constexpr (P::terms_after > 0) {
        typedef typename P::more more;
        gemm_plain_sums<more, typename more::right>(a, more::size(a), batch, m, n, tiles, sum);
        gemm_plain_more<more>(a, batch, m, n, tiles, sum);
    }
}

/* One tile. */
template <class P, class T, class A>
static __device__ inline void gemm_plain_tile(const A &a, const gemm_size &size, int64_t tile,
                                              gemm_plain_tiles<T> &tiles) {
    const int64_t m_tiles = (size.m + 63) / 64, n_tiles = (size.n + 63) / 64;
    const int64_t batch = tile / n_tiles / m_tiles, m = tile / n_tiles % m_tiles * 64,
                  n = tile % n_tiles * 64;
    const int m_thread = (int)threadIdx.x / 16 * 4, n_thread = (int)threadIdx.x % 16 * 4;
    T sum[P::rights][4][4] = {};
    gemm_plain_sums<P, typename P::right>(a, size, batch, m, n, tiles, sum[0]);
    if constexpr (P::rights > 1) gemm_plain_sums<P, typename P::right_1>(a, size, batch, m, n, tiles, sum[1]);
    if constexpr (P::rights > 2) gemm_plain_sums<P, typename P::right_2>(a, size, batch, m, n, tiles, sum[2]);
    if constexpr (P::rights > 3) gemm_plain_sums<P, typename P::right_3>(a, size, batch, m, n, tiles, sum[3]);
    gemm_plain_more<P>(a, batch, m, n, tiles, sum[0]);
    if (threadIdx.x < 256) gemm_plain_store<P>(a, size, batch, m + m_thread, n + n_thread, sum);
    gemm_plain_leave_partials<P>(a, size, batch, m, n, tiles, sum);
}

/* All of them, by however many blocks there are. */
template <class P, class T, class A>
static __device__ inline void gemm_plain(const A &a, const gemm_size size, gemm_plain_tiles<T> &tiles) {
    const int64_t count = size.batch * ((size.m + 63) / 64) * ((size.n + 63) / 64);
    for (int64_t tile = blockIdx.x; tile < count; tile += gridDim.x)
        gemm_plain_tile<P>(a, size, tile, tiles);
}
