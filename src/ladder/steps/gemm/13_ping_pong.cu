// Each of the two groups has a tile of its own, and they take turns: one multiplies while the other has its epilogue.
// What a text does with its sums, and the way out of its results, no longer keeps the tensor cores waiting.
// Smaller tiles ask the L2 for more: two blocks (a cluster) share the columns of `b`, and each brings half for both.

static const int raster = 8, stages = 6, box_bytes = 64 * 128;
static const int left_bytes = 2 * box_bytes, stage_bytes = left_bytes + 2 * box_bytes; // 128 x 128 results

struct ring_place {
    uint32_t memory, full, empty;
    int rank; // of the block in its cluster
};

struct tile_list {
    int m_tiles, n_tiles, steps; // of clusters
    int first, apart;            // of this cluster: its first tile, and how far it is to the next
};

static __device__ ring_place ring_begin() {
    ring_place ring;
    ring.memory = ptx_shared_address(gemm_memory());
    ring.full = ring.memory + stages * stage_bytes;
    ring.empty = ring.full + stages * 8;
    ring.rank = ptx_cluster_rank();
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; s++) {
            ptx_mbarrier_init(ring.full + s * 8, 1);
            ptx_mbarrier_init(ring.empty + s * 8, 8); // four warps of the group in each block
        }
        ptx_fence_mbarrier_init();
    }
    ptx_cluster_arrive();
    ptx_cluster_wait();
    return ring;
}

static __device__ void produce(const ring_place &ring, const tile_list &list, const void *a, const void *b) {
    int stage = 0, parity = 1;
    for (int number = list.first; number < list.m_tiles * list.n_tiles; number += list.apart) {
        const gemm_tile tile = gemm_tile_at(number, list.m_tiles, list.n_tiles, raster);
        for (int step = 0; step < list.steps; step++) {
            const uint32_t to = ring.memory + stage * stage_bytes, full = ring.full + stage * 8;
            ptx_mbarrier_wait(ring.empty + stage * 8, parity);
            ptx_mbarrier_arrive_expect(full, stage_bytes);
            ptx_tensor_load_2d(to, a, step * 64, (tile.m * 2 + ring.rank) * 128, full);
            ptx_tensor_load_2d_multicast(to + left_bytes + ring.rank * box_bytes, b, tile.n * 128 + ring.rank * 64,
                                         step * 64, full, 3);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

// Begins the products of a stage: two parts of 64 rows, four of 16 along k each.
static __device__ inline void tile_multiply(float (&sum)[2][64], uint32_t tiles, bool accumulate) {
    const uint64_t left = ptx_wgmma_descriptor(tiles, 16, 1024, 1);
    const uint64_t right = ptx_wgmma_descriptor(tiles + left_bytes, box_bytes, 1024, 1);
    ptx_wgmma_fence();
#pragma unroll
    for (int x = 0; x < 8; x++)
        ptx_wgmma_m64n128k16_f32_bf16_bf16_k_mn(sum[x % 2], left + x % 2 * (box_bytes / 16) + x / 2 * 2,
                                                right + x / 2 * 128, accumulate || x > 1);
    ptx_wgmma_commit();
}

static __device__ inline void tile_store(uint16_t *c, int64_t stride, const float (&sum)[2][64]) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const float *of = &sum[i / 32][i % 32 * 2];
        uint16_t *to = c + (i / 32 * 64 + row + i % 2 * 8) * stride + i % 32 / 2 * 8 + lane % 4 * 2;
        *(uint32_t *)to = bf16_pair(of[0], of[1]);
    }
}

static __device__ void consume(const ring_place &ring, const tile_list &list, const arguments &args, int group) {
    const uint32_t empty = ptx_cluster_address(ring.empty, threadIdx.x % 2); // lanes 0 and 1 tell both blocks
    int taken = 0, round = 0; // steps of the tiles before, those of the other group included
    for (int number = list.first; number < list.m_tiles * list.n_tiles;
         number += list.apart, round++, taken += list.steps) {
        if (round % 2 != group) continue;
        int stage = taken % stages, parity = taken / stages % 2, before = 0;
        float sum[2][64];
        if (round > 0) ptx_barrier_sync(1 + group, 256); // the other one has begun its last products
        for (int step = 0; step < list.steps; step++) {
            ptx_mbarrier_wait(ring.full + stage * 8, parity);
            tile_multiply(sum, ring.memory + stage * stage_bytes, step > 0);
            if (step > 0) {
                ptx_wgmma_wait<1>();
                if (threadIdx.x % 32 < 2) ptx_mbarrier_arrive_cluster(empty + before * 8);
            }
            before = stage;
            if (++stage == stages) stage = 0, parity ^= 1;
        }
        if (number + list.apart < list.m_tiles * list.n_tiles) ptx_barrier_arrive(1 + (group ^ 1), 256);
        ptx_wgmma_wait<0>();
        if (threadIdx.x % 32 < 2) ptx_mbarrier_arrive_cluster(empty + before * 8);
        const gemm_tile tile = gemm_tile_at(number, list.m_tiles, list.n_tiles, raster);
        const int64_t m = (tile.m * 2 + ring.rank) * 128;
        if (m < args.M) tile_store(args.c + m * args.N + tile.n * 128, args.N, sum);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) gemm(const __grid_constant__ tensor_map a,
                                                          const __grid_constant__ tensor_map b,
                                                          const __grid_constant__ arguments args) {
    const ring_place ring = ring_begin();
    const tile_list list = {(int)((args.M + 255) / 256), (int)(args.N / 128), (int)(args.K / 64), (int)blockIdx.x / 2,
                            (int)gridDim.x / 2};
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group == 2) {
        ptx_registers_give<40>();
        if (threadIdx.x == 256) produce(ring, list, &a, &b);
        __syncwarp();
    } else {
        ptx_registers_take<232>();
        consume(ring, list, args, group);
    }
    ptx_cluster_arrive(); // nobody ends while the other block may still tell it of a stage
    ptx_cluster_wait();
}
