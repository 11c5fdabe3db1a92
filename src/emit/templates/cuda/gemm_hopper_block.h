/* A matrix product on the tensor cores of sm_90a: sum over k of left(m, k) * right(n, k), operands of 16 or 8
 * bits, sums in f32.
 *
 * A block has three warpgroups. One thread of the first, the producer, has the copy engine bring tiles of the
 * operands, 64 along k, into a ring of P::stages places; the two others multiply them by wgmma. They share a
 * tile, half of its rows each, or (P::ping_pong) each has a tile of its own and one multiplies while the
 * other stores. A block of the grid takes tiles in turn. Blocks of a cluster (P::cluster along m) have the
 * same columns: each brings half of the right tile for both.
 *
 * full[s] ends a phase when the bytes of stage s are there, empty[s] when all warps that read it have left
 * it, those of the other block of the cluster included.
 *
 * Where k is in P::splits parts, each part of each tile is a tile of its own, whose sums leave as they are,
 * part after part; gemm_fold(), the kernel after this one, adds them up in their order and has the epilogue.
 * Where the last wave of tiles is not full, clusters may share those along k: gemm_stream.h.
 *
 * Where operands stand in parts (gemm_operands.h), the steps of P::pairs pairs of parts follow each other; a
 * part is an operand behind all batches of the one before.
 *
 * Several products may be one walk (gemm_walk.h): of P::walks products each has tiles of its own, behind each
 * other along n, or along m where P::along_m; P::next is the one behind this, of P::after. Or their sums are
 * one: P::more has the steps behind this one's, of P::terms_after.
 *
 * P, which the printer makes for a stage (stage_cuda_gemm.c):
 *
 * - tile_m, left_rows, tile_n, stages, cluster, raster, splits, chain, scaled, ping_pong, producer_registers,
 * consumer_registers; pieces: places of a group for what it stores, 0 = for all of its tile; n_run: see
 * gemm_column.
 *
 * - right_batch(): which matrix of its tensor a right operand is in a batch, or where that lies, as a side's
 * batch_of() gives it. rights_apart: it is another for each of them.
 *
 * - left_row, left_columns: bytes and elements of a row of a left tile. computes: its elements, raw_type,
 * become wgmma's left operand in registers by left_at(k), where they stand along a row, left_number() and
 * left_pair(); scale_k: neighbours along k that have a factor of their own, 0 = all have one, or none.
 *
 * - rights, right_n: see gemm_ampere.h. Their tiles of right_n columns are stacked in shared
 * memory, so that one instruction multiplies them all, and a thread has all sums of a place.
 *
 * - pairs, left_parts, right_parts: four bits a pair. left and right: k_major, load(); multiply(d, a, b,
 * accumulate).
 *
 * - results, result_bytes, values(), pair(), store_box(); store() where stores_boxes is false. group_bytes,
 * column_bytes: what a group's results and columns take; in a walk the most of all.
 *
 * - of a product in a walk: size().
 *
 * - partials, partial_values(), partial_0 and on: gemm_partials.h. values() gives what they sum behind the
 *   results.
 *
 * - columns and column_values(): values that are one for each column. has_staged, load_staged(), unpack(): an
 *   element of a matrix that comes to where the result leaves from. throttled: values() loads from memory.
 */
template <class P> struct gemm_hopper_memory {
    static constexpr int left_bytes = P::tile_m * P::left_row, stage_bytes = left_bytes + P::tile_n * 128;
    static constexpr int come_bytes = P::left_rows * P::left_row + P::tile_n * 128; /* of a stage */
    /* A group's sums: parts of 64 rows; a piece is 64 rows of so many columns that they are 128 bytes, or 64.
     */
    static constexpr int parts = (P::ping_pong ? P::tile_m : P::tile_m / 2) / 64;
    static constexpr int piece_columns = P::result_bytes == 4 || P::right_n % 64 ? 32 : 64;
    static constexpr int row_bytes = piece_columns * P::result_bytes, piece_bytes = 64 * row_bytes;
    static constexpr int piece_count = parts * (P::right_n / piece_columns);
    static constexpr int places = P::pieces ? P::pieces : piece_count;
    static constexpr int results_at = P::stages * stage_bytes, columns_at = results_at + 2 * P::group_bytes;
    static constexpr int barriers_at = columns_at + 2 * P::column_bytes;
    /* Piece x of a group's first result. All products of a walk have groups at the same places: one of them
     * may still store what another begins. */
    static __device__ inline int piece_at(int group, int x) {
        return results_at + group * P::group_bytes + x % places * P::results * piece_bytes;
    }
};

/* The block's dynamic shared memory, at whole 1024 bytes: what is swizzled is so by bits of its address. */
static __device__ inline char *gemm_memory() {
#ifdef HR_EMULATED
    return (char *)emulated_shared();
#else
    extern __shared__ __align__(1024) uint4 gemm_words[];
    return (char *)gemm_words;
#endif
}

/* What the groups of a block know of it. */
struct gemm_block {
    char *memory;
    uint32_t address, full, empty, staged;
    int rank, cluster, clusters; /* of the block in its cluster, of the cluster, of the grid */
    int m_tiles, n_tiles, whole; /* tiles of clusters; those that are not shared along k */
    int tiles; /* what is behind the last number that this cluster takes: a tile's, or behind them a piece's
                */
    int batches, steps; /* of a tile: a step is 64 along k of one pair of parts */
};

/* A tile, and the steps along k that it takes. */
struct gemm_work {
    gemm_tile tile; /* its batch counts the parts of k: all batches of the first, then of the next */
    int batch, first, steps;
};

/* Which of the two pieces that a cluster has of shared tiles comes by a number behind those of whole tiles.
 */
static __device__ inline int gemm_piece_of(const gemm_block &b, int number) {
    return number - b.whole < b.clusters ? 0 : 1;
}

template <class P> static __device__ inline gemm_work gemm_work_at(const gemm_block &b, int number) {
    if constexpr (P::stream > 0) {
        if (number >= b.whole) {
            const gemm_piece at = gemm_piece_at<P>(b.cluster, gemm_piece_of(b, number), b.steps);
            const gemm_tile tile = gemm_tile_at(b.whole + at.tile, b.m_tiles, b.n_tiles, P::raster);
            return {tile, tile.batch, at.first, at.steps};
        }
    }
    const gemm_tile tile = gemm_tile_at(number, b.m_tiles, b.n_tiles, P::raster);
    if constexpr (P::splits == 1) {
        return {tile, tile.batch, 0, b.steps};
    } else {
        const int part = tile.batch / b.batches;
        const int first = (int)((int64_t)b.steps * part / P::splits);
        return {tile, tile.batch - part * b.batches, first,
                (int)((int64_t)b.steps * (part + 1) / P::splits) - first};
    }
}

/* ---- walks ---- */

/* Tiles, of clusters, that a product of a walk has along the walk. */
template <class P, class A> static __device__ inline int gemm_own_tiles(const A &a) {
    const gemm_size size = P::size(a);
    return P::along_m ? (int)((size.m + P::tile_m * P::cluster - 1) / (P::tile_m * P::cluster))
                      : (int)((size.n + P::right_n - 1) / P::right_n);
}

/* Those of the products behind it. */
template <class P, class A> static __device__ inline int gemm_tiles_after(const A &a) {
    if constexpr (P::after > 0)
        return gemm_own_tiles<typename P::next>(a) + gemm_tiles_after<typename P::next>(a);
    else
        return 0;
}

/* The walk's tile is of a product behind this one, from whose first tile on it is counted then. */
template <class P, class A> static __device__ inline bool gemm_is_behind(const A &a, gemm_tile &tile) {
    int &at = P::along_m ? tile.m : tile.n;
    const int own = gemm_own_tiles<P>(a);
    if (at < own) return false;
    at -= own;
    return true;
}

/* Steps along k of a sum, those of the products behind it included. */
template <class P, class A> static __device__ inline int gemm_steps_of(const A &a, int64_t k) {
    const int own = (int)((k + P::k_step - 1) / P::k_step) * P::pairs;
    if constexpr (P::terms_after > 0)
        return own + gemm_steps_of<typename P::more>(a, P::more::size(a).k);
    else
        return own;
}

/* Rows of left tiles that never come. */
template <class P> static __device__ inline void gemm_clear_rows(char *stages) {
    const int words = (P::tile_m - P::left_rows) * 8;
    for (int i = (int)threadIdx.x; i < P::stages * words; i += (int)blockDim.x)
        *(uint4 *)(stages + i / words * gemm_hopper_memory<P>::stage_bytes + P::left_rows * 128 +
                   i % words * 16) = make_uint4(0, 0, 0, 0);
    ptx_fence_proxy_async();
}

template <class P, class A>
static __device__ inline void gemm_count_tiles(const A &a, const gemm_size &size, gemm_block &b) {
    b.m_tiles = (int)((size.m + P::tile_m * P::cluster - 1) / (P::tile_m * P::cluster));
    b.n_tiles = (int)((size.n + P::right_n - 1) / P::right_n);
    (P::along_m ? b.m_tiles : b.n_tiles) += gemm_tiles_after<P>(a);
    b.batches = (int)size.batch;
    b.steps = gemm_steps_of<P>(a, size.k);
    b.tiles = b.batches * P::splits * b.m_tiles * b.n_tiles;
    b.whole = b.tiles - P::stream;
}

template <class P, class A>
static __device__ inline gemm_block gemm_hopper_begin(const A &a, const gemm_size &size) {
    gemm_block b;
    b.memory = gemm_memory();
    b.address = __shfl_sync(0xffffffffu, ptx_shared_address(b.memory), 0);
    b.full = b.address + gemm_hopper_memory<P>::barriers_at;
    b.empty = b.full + P::stages * 8;
    b.staged = b.empty + P::stages * 8; /* one for each group */
    b.rank = P::cluster > 1 ? ptx_cluster_rank() : 0;
    b.cluster = (int)blockIdx.x / P::cluster;
    b.clusters = (int)gridDim.x / P::cluster;
    gemm_count_tiles<P>(a, size, b);
    if constexpr (P::stream > 0) {
        const int pieces = b.cluster >= P::stream_clusters                     ? 0
                           : gemm_piece_at<P>(b.cluster, 1, b.steps).steps > 0 ? 2
                                                                               : 1;
        b.tiles = b.whole + b.clusters * pieces;
    }
    if constexpr (P::left_rows < P::tile_m) gemm_clear_rows<P>(b.memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < P::stages; s++) {
            ptx_mbarrier_init(b.full + s * 8, 1);
            ptx_mbarrier_init(b.empty + s * 8, (P::ping_pong ? 4 : 8) * P::cluster);
        }
        ptx_mbarrier_init(b.staged, 1);
        ptx_mbarrier_init(b.staged + 8, 1);
        ptx_fence_mbarrier_init();
    }
    if (P::cluster > 1) {
        ptx_cluster_arrive();
        ptx_cluster_wait();
    } else {
        __syncthreads();
    }
    return b;
}

/* A tile of ROWS x 64 of one side; of SHARERS blocks each brings its share to all. Along k: a run of 64 k a
 * row. Along the rows' axis: 64 of them a run, run after run of all k. */
template <class S, int ROWS, int SHARERS>
static __device__ inline void gemm_fill(uint32_t tile, const void *map, int first, int k,
                                        typename S::batch_type batch, int rank, uint32_t barrier) {
    if (S::k_major) {
        const int rows = ROWS / SHARERS * rank;
        S::template load<SHARERS>(tile + rows * 128, map, k, first + rows, batch, barrier);
        return;
    }
    const int rows = 64 / SHARERS * rank;
#pragma unroll
    for (int c = 0; c < ROWS / 64; c++)
        S::template load<SHARERS>(tile + c * 8192 + rows * 128, map, first + c * 64, k + rows, batch,
                                  barrier);
}

/* Where the tiles of a step of P go, and what they are of: numbers of matrices, or places of them. */
template <class P> struct gemm_step {
    uint32_t place, full;
    int m, n, batches, rank;
    typename P::left::batch_type left_batch;
    typename P::right::batch_type right_batch[P::rights_apart ? P::rights : 1];
};

/* The tiles of step `step` of a sum, of `k_steps` along k. */
template <class P, class A, class M, class T>
static __device__ inline void gemm_bring(const A &a, const M &maps, const T &to, int step, int64_t k_size) {
    const int k_steps = (int)((k_size + P::k_step - 1) / P::k_step);
    if constexpr (P::terms_after > 0) {
        if (step >= k_steps * P::pairs) {
            gemm_bring<typename P::more>(a, maps.more, to, step - k_steps * P::pairs, P::more::size(a).k);
            return;
        }
    }
    const int pair = P::pairs == 1 ? 0 : step / k_steps, of_pair = step - pair * k_steps;
    const typename P::left::batch_type left_batch =
        to.left_batch + (int)(P::left_parts >> 4 * pair & 15) * to.batches;
    const int right_part = (int)(P::right_parts >> 4 * pair & 15) * to.batches;
    gemm_fill<typename P::left, P::left_rows, 1>(to.place, maps.left, to.m, of_pair * P::left_columns,
                                                 left_batch, 0, to.full);
#pragma unroll
    for (int r = 0; r < P::rights; r++)
        gemm_fill<typename P::right, P::right_n, P::cluster>(
            to.place + gemm_hopper_memory<P>::left_bytes + r * P::right_n * 128, maps.right[r], to.n,
            of_pair * P::k_step, to.right_batch[P::rights_apart ? r : 0] + right_part, to.rank, to.full);
}

/* Of a block: the next stage of its ring, and the phase in which that is filled. */
struct gemm_ring {
    int stage, parity;
};

/* The tiles of all steps of a tile of P, or of the product of its walk that it is of. */
template <class P, class A, class M>
static __device__ inline void gemm_produce_tile(const A &a, int64_t k_size, const gemm_block &b,
                                                const M &maps, const gemm_work &work, gemm_tile tile,
                                                gemm_ring &ring) {
    if constexpr (P::after > 0) {
        if (gemm_is_behind<P>(a, tile)) {
            gemm_produce_tile<typename P::next>(a, k_size, b, maps.next, work, tile, ring);
            return;
        }
    }
    gemm_step<P> to;
    to.m = (tile.m * P::cluster + b.rank) * P::tile_m;
    to.n = tile.n * P::right_n;
    to.left_batch = P::left::batch_of(a, work.batch);
#pragma unroll
    for (int r = 0; r < (P::rights_apart ? P::rights : 1); r++)
        to.right_batch[r] = P::right_batch(a, work.batch, r);
    to.batches = b.batches;
    to.rank = b.rank;
#pragma unroll 1 /* few registers */
    for (int step = work.first; step < work.first + work.steps; step++) {
        to.place = b.address + ring.stage * gemm_hopper_memory<P>::stage_bytes;
        to.full = b.full + ring.stage * 8;
        ptx_mbarrier_wait(b.empty + ring.stage * 8, ring.parity);
        ptx_mbarrier_arrive_expect(to.full, gemm_hopper_memory<P>::come_bytes);
        gemm_bring<P>(a, maps, to, step, k_size);
        if (++ring.stage == P::stages) ring.stage = 0, ring.parity ^= 1;
    }
}

template <class P, class A, class M>
static __device__ inline void gemm_produce(const A &a, const gemm_size &size, const gemm_block &b,
                                           const M &maps) {
    gemm_ring ring = {0, 1};
    for (int number = b.cluster; number < b.tiles; number += b.clusters) {
        const gemm_work work = gemm_work_at<P>(b, number);
        gemm_produce_tile<P>(a, size.k, b, maps, work, work.tile, ring);
    }
}

/* Where part 0 of a side's tile in stage 0 begins, as wgmma takes it; 16 along k are STEP further, 64 rows
 * 512. */
template <bool K_MAJOR> static __device__ inline uint64_t gemm_descriptor(uint32_t tile) {
    return K_MAJOR ? ptx_wgmma_descriptor(tile, 16, 1024, 1) : ptx_wgmma_descriptor(tile, 8192, 1024, 1);
}
