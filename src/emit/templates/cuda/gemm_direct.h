/* A matrix of whole numbers of 8 bits, 16 of which share a scale, times up to eight vectors, on the tensor
 * cores of sm_80 and later: as gemm_thin.h, whose P is this one's, but that the matrix goes from memory
 * straight into registers.
 *
 * A warp has 16 rows and takes every k_warps-th chunk of 64 bytes of each, P::ahead of them on their way. A
 * lane loads 16 bytes of the rows lane / 4 and 8 further on, and their scale. Four lanes then exchange words,
 * so that they have the same 16 bytes of a row, a word each: neighbours along k of one group, a product's
 * whole k, whose sum is multiplied by its scale in f32. What warps along k have is added up in shared memory,
 * in their order. A result that is not finite is computed again as the text says: a scale may not be.
 *
 * P::waits: the matrix is there before the launch before has ended, and the rest is not.
 */
template <class P> struct direct_memory {
    static constexpr int chunks = (int)((P::row_bytes + 63) / 64);
    static constexpr int slots = 2; /* of a chunk: eight numbers of a vector for each lane */
    static constexpr int chunk_bytes = slots * 64 * P::vectors; /* of the vectors */
    static constexpr int rows = 16 * P::row_warps, threads = 32 * P::row_warps * P::k_warps;
    static constexpr int pitch = 9; /* of a row's sums */
};

/* 16 bytes of two rows, and their scales. */
struct direct_pieces {
    uint4 word[2];
    float scale[2];
};

struct direct_item {
    int64_t batch, row; /* the block's first one */
};

/* The lane's two rows, and where they begin; a row that is not there is another one, whose results
 * nobody leaves. */
struct direct_rows {
    int64_t row[2];
    const char *from[2];
};

template <class P, class A>
static __device__ inline direct_rows direct_rows_of(const A &a, const direct_item &item, int64_t row) {
    const int lane = (int)threadIdx.x % 32;
    direct_rows rows;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int64_t at = row + lane / 4 + r * 8;
        rows.row[r] = at < P::rows ? at : P::rows - 1;
        rows.from[r] = (const char *)P::place(a, item.batch, rows.row[r]);
    }
    return rows;
}

/* Scales of 0 stand for what is past the row, beside any numbers. */
template <class P, bool COPIES, class A>
static __device__ inline void direct_load(const A &a, const direct_item &item, const direct_rows &rows,
                                          int chunk, direct_pieces &to) {
    const int wanted = chunk * 4 + (int)threadIdx.x % 4, pieces = (int)(P::row_bytes / 16);
    const bool inside = wanted < pieces;
    const int piece = inside ? wanted : 0;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const char *const from = rows.from[r] + piece * 16;
        to.word[r] = COPIES ? load_16(from, stay::plain) : thin_bytes((const uint8_t *)from);
        const float scale = P::scale(a, item.batch, rows.row[r], piece * 16);
        to.scale[r] = inside ? scale : 0.0f;
    }
}

/* Word j of lane t, of four, becomes word t of lane j. */
static __device__ inline void direct_exchange(uint4 &x) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    uint32_t first = __shfl_xor_sync(0xffffffffu, odd ? x.x : x.y, 1),
             second = __shfl_xor_sync(0xffffffffu, odd ? x.z : x.w, 1);
    if (odd)
        x.x = first, x.z = second;
    else
        x.y = first, x.w = second;
    first = __shfl_xor_sync(0xffffffffu, upper ? x.x : x.z, 2);
    second = __shfl_xor_sync(0xffffffffu, upper ? x.y : x.w, 2);
    if (upper)
        x.x = first, x.y = second;
    else
        x.z = first, x.w = second;
}

/* The chunk's products. `vectors`: those along its k. A lane has the sums of its rows and the columns
 * 2 (lane % 4) and the next. */
template <class P>
static __device__ inline void direct_take(direct_pieces pieces, const char *vectors, float (&sums)[4]) {
    const int lane = (int)threadIdx.x % 32, column = lane / 4 < P::vectors ? lane / 4 : P::vectors - 1;
    direct_exchange(pieces.word[0]);
    direct_exchange(pieces.word[1]);
    const uint32_t low[4] = {pieces.word[0].x, pieces.word[0].y, pieces.word[0].z, pieces.word[0].w},
                   high[4] = {pieces.word[1].x, pieces.word[1].y, pieces.word[1].z, pieces.word[1].w};
    uint4 b[2];
#pragma unroll
    for (int slot = 0; slot < 2; slot++)
        b[slot] = *(const uint4 *)(vectors + (slot * P::vectors + column) * 64 + lane % 4 * 16);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t p[2], q[2];
        float d[4] = {};
        P::numbers(low[j], p);
        P::numbers(high[j], q);
        const uint4 of = b[j / 2];
        const uint32_t left[4] = {p[0], q[0], p[1], q[1]},
                       right[2] = {j % 2 ? of.z : of.x, j % 2 ? of.w : of.y};
        P::multiply(d, left, right);
        const float above = __shfl_sync(0xffffffffu, pieces.scale[0], (lane & 28) + j),
                    below = __shfl_sync(0xffffffffu, pieces.scale[1], (lane & 28) + j);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (P::vectors > 1 || i % 2 == 0) sums[i] = fmaf(d[i], i < 2 ? above : below, sums[i]);
    }
}

/* The vectors along all of k: [chunk][slot][vector][lane % 4], zeros past the end. A thread has several loads
 * on their way. */
template <class P, bool COPIES, class A>
static __device__ inline void direct_vectors(const A &a, const direct_item &item, char *to) {
    typedef direct_memory<P> memory;
    const int of_vector = memory::chunks * memory::slots * 4, whole = of_vector * P::vectors;
    const int batch = COPIES && P::vectors_lie ? 2 : 1;
#pragma unroll 1
    for (int from = (int)threadIdx.x; from < whole; from += batch * memory::threads) {
        uint4 piece[batch];
#pragma unroll
        for (int u = 0; u < batch; u++) {
            const int i = from + u * memory::threads, at = i / of_vector, here = i % of_vector;
            const int64_t k = here / 4 * 32 + here % 4 * P::apart;
            const bool inside = i < whole && k < P::k;
            piece[u] = thin_vector<P, COPIES>(a, item.batch, inside ? at : 0, inside ? k : 0);
            if (!inside) piece[u] = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < batch; u++) {
            const int i = from + u * memory::threads, at = i / of_vector, here = i % of_vector;
            if (i < whole) *(uint4 *)(to + ((here / 4 * P::vectors + at) * 4 + here % 4) * 16) = piece[u];
        }
    }
}

/* As the text says. */
template <class P, class A>
static __device__ inline float direct_again(const A &a, const direct_item &item, int64_t row, int64_t at) {
    float sum = 0;
#pragma unroll 1
    for (int64_t k = 0; k < P::k; k++)
        sum += P::product(a, item.batch, row, at, k);
    return sum;
}

/* What all warps along k have: [warp along k][row][vector]. */
template <class P, class A>
static __device__ inline void direct_leave(const A &a, const direct_item &item, const float *met) {
    typedef direct_memory<P> memory;
    for (int i = (int)threadIdx.x; i < memory::rows * P::vectors; i += memory::threads) {
        const int here = i % memory::rows, at = i / memory::rows;
        const int64_t row = item.row + here;
        if (row >= P::rows) continue;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < P::k_warps; w++)
            sum += met[(w * memory::rows + here) * memory::pitch + at];
        if (sum - sum != 0) sum = direct_again<P>(a, item, row, at);
        P::store(a, item.batch, row, at, sum);
    }
}

/* COPIES: arrays begin at whole 16 bytes. */
template <class P, bool COPIES, class A> static __device__ inline void gemm_direct(const A &a) {
    typedef direct_memory<P> memory;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int row_warp = warp % P::row_warps, k_warp = warp / P::row_warps;
    const int tiles = (int)((P::rows + memory::rows - 1) / memory::rows);
    const direct_item item = {(int)blockIdx.x / tiles, (int64_t)((int)blockIdx.x % tiles) * memory::rows};
    const int64_t row = item.row + row_warp * 16;
    char *const vectors = staged_memory();
    direct_pieces pieces[P::ahead];
    float sums[4] = {};
    const direct_rows rows = direct_rows_of<P>(a, item, row);
    if (!P::waits) wait_for_launch_before();
#pragma unroll
    for (int s = 0; s < P::ahead; s++)
        direct_load<P, COPIES>(a, item, rows, k_warp + s * P::k_warps, pieces[s]);
    if (P::waits) wait_for_launch_before();
    direct_vectors<P, COPIES>(a, item, vectors);
    __syncthreads();
#pragma unroll 1
    for (int chunk = k_warp; chunk < memory::chunks; chunk += P::ahead * P::k_warps) {
#pragma unroll
        for (int s = 0; s < P::ahead; s++) {
            const int here = chunk + s * P::k_warps; /* past the row: scales of 0 */
            const direct_pieces now = pieces[s];
            direct_load<P, COPIES>(a, item, rows, here + P::ahead * P::k_warps, pieces[s]);
            direct_take<P>(now, vectors + (here < memory::chunks ? here : 0) * memory::chunk_bytes, sums);
        }
    }
    __syncthreads();
    float *const met = (float *)staged_memory() + (k_warp * memory::rows + row_warp * 16) * memory::pitch;
#pragma unroll
    for (int i = 0; i < 4; i++)
        met[(lane / 4 + i / 2 * 8) * memory::pitch + lane % 4 * 2 + i % 2] = sums[i];
    __syncthreads();
    direct_leave<P>(a, item, (const float *)staged_memory());
}
