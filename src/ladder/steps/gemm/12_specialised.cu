// One warpgroup only copies and gives its registers to the two that only multiply; a block stays and takes tile after tile.
// Groups no longer wait for each other: two barriers for each stage say that it is full, and that it is empty again.
// The next products are queued before the last ones end, and the copies of the next tile run under this one's results.

static const int raster = 8; // tiles along m before the next column of tiles: what they share stays in the L2

struct tile_list {
    int m_tiles, n_tiles, steps;
};

static __device__ void produce(const ring_place &ring, const tile_list &list, const void *a, const void *b) {
    int stage = 0, parity = 1; // the first round finds all stages empty
    for (int number = blockIdx.x; number < list.m_tiles * list.n_tiles; number += gridDim.x) {
        const gemm_tile tile = gemm_tile_at(number, list.m_tiles, list.n_tiles, raster);
        for (int step = 0; step < list.steps; step++) {
            ptx_mbarrier_wait(ring.empty + stage * 8, parity);
            ring_fill(ring, stage, a, b, tile.m * 128, tile.n * 256, step * 64);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

static __device__ void consume(const ring_place &ring, const tile_list &list, const arguments &args, int group) {
    int stage = 0, parity = 0;
    for (int number = blockIdx.x; number < list.m_tiles * list.n_tiles; number += gridDim.x) {
        const gemm_tile tile = gemm_tile_at(number, list.m_tiles, list.n_tiles, raster);
        float sum[128];
        for (int step = 0; step < list.steps; step++) {
            ptx_mbarrier_wait(ring.full + stage * 8, parity);
            group_multiply(sum, ring, stage, group, step > 0);
            if (step > 0) { // the products before these are done: their stage is empty
                ptx_wgmma_wait<1>();
                if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(ring.empty + (stage + stages - 1) % stages * 8);
            }
            if (++stage == stages) stage = 0, parity ^= 1;
        }
        ptx_wgmma_wait<0>();
        if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(ring.empty + (stage + stages - 1) % stages * 8);
        group_store(args.c + (int64_t)(tile.m * 128 + group * 64) * args.N + tile.n * 256, args.N, sum);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) gemm(const __grid_constant__ tensor_map a,
                                                          const __grid_constant__ tensor_map b,
                                                          const __grid_constant__ arguments args) {
    const ring_place ring = ring_begin(8); // eight warps empty a stage
    const tile_list list = {(int)(args.M / 128), (int)(args.N / 256), (int)(args.K / 64)};
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group == 2) {
        ptx_registers_give<40>();
        if (threadIdx.x == 256) produce(ring, list, &a, &b);
    } else {
        ptx_registers_take<232>();
        consume(ring, list, args, group);
    }
}
