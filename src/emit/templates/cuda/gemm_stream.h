/* Stream-K: P::stream_clusters clusters share the last P::stream tiles of a product, which are fewer, along
 * k. Each takes a run of their steps, tile after tile: the end of one tile or its middle, and the beginning
 * of the next. The sums of such a piece leave as threads have them. gemm_fold_stream(), the kernel after this
 * one, adds up the pieces of a tile in their order along k and has the epilogue.
 *
 * P, beside what gemm_hopper_block.h asks for: stream, 0 = all tiles are whole; stream_clusters;
 * stream_sums(a): where pieces leave.
 */
struct gemm_piece {
    int tile, first, steps; /* the tile counts from the first one that is shared */
};

/* The first step of a cluster's run; `steps` of a tile. */
template <class P> static __device__ inline int gemm_run_begin(int cluster, int steps) {
    return (int)((int64_t)P::stream * steps * cluster / P::stream_clusters);
}

/* The first or the second piece of a cluster's run; of 0 steps where there is none. */
template <class P> static __device__ inline gemm_piece gemm_piece_at(int cluster, int piece, int steps) {
    const int begin = gemm_run_begin<P>(cluster, steps), end = gemm_run_begin<P>(cluster + 1, steps);
    const int tile = begin / steps, next = (tile + 1) * steps, met = end < next ? end : next;
    if (piece == 0) return {tile, begin - tile * steps, met - begin};
    return {tile + 1, 0, end - met};
}

/* Four sums of a thread: two neighbours of a row, and of the eighth row after it. */
template <class T> struct alignas(16) gemm_quad { T of[4]; };

/* Where those of a piece begin: [64 rows][four sums][thread]. */
template <class P, class A>
static __device__ inline gemm_quad<typename P::sum_type> *gemm_piece_sums(const A &a, int cluster, int piece,
                                                                          int rank) {
    const int64_t slot = ((int64_t)cluster * 2 + piece) * P::cluster + rank;
    return (gemm_quad<typename P::sum_type> *)P::stream_sums(a) + slot * (P::tile_m * P::tile_n / 4);
}

/* A thread's sums of a piece, whose group has the tile's rows from 64 * `part` on. */
template <class P, class T, int PARTS, int COUNT>
static __device__ inline void gemm_leave_sums(gemm_quad<T> *to, int part, const T (&sum)[PARTS][COUNT]) {
#pragma unroll
    for (int i = 0; i < PARTS * COUNT / 4; i++) {
        const T *of = &sum[i / (COUNT / 4)][i % (COUNT / 4) * 4];
        to[(part * (COUNT / 4) + i) * 128 + (int)threadIdx.x % 128] = {{of[0], of[1], of[2], of[3]}};
    }
}

/* Of 64 rows and 16 columns of tile `tile`: what its clusters left, added up in their order. */
template <class P, class A, class T, int COUNT>
static __device__ inline void gemm_add_pieces(const A &a, int tile, int steps, int rank, int part, int chunk,
                                              T (&sum)[COUNT]) {
    const int64_t all = (int64_t)P::stream * steps, at = (int64_t)tile * steps;
    const int first = (int)(((at + 1) * P::stream_clusters - 1) / all);
    const int end = (int)(((int64_t)(tile + 1) * P::stream_clusters + P::stream - 1) / P::stream);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        sum[i] = 0;
#pragma unroll 4
    for (int cluster = first; cluster < end; cluster++) {
        const int piece = cluster == first && gemm_run_begin<P>(cluster, steps) < at;
        const gemm_quad<T> *of = gemm_piece_sums<P>(a, cluster, piece, rank);
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            const int quad = i / 2 * (P::right_n / 8) + chunk * 2 + i % 2;
            const gemm_quad<T> more = of[(part * (P::tile_n / 8) + quad) * 128 + (int)threadIdx.x % 128];
#pragma unroll
            for (int x = 0; x < 4; x++)
                sum[i * 4 + x] += more.of[x];
        }
    }
}
