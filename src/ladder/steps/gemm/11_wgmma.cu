// Four warps together issue wgmma, a product of 64 x 256 x 16, and the copy engine (TMA) fills the ring by whole boxes.
// One thread asks for the copies, a barrier in shared memory counts their bytes, and no register holds an operand.
// Only so do the tensor cores of this generation reach their rate: by mma.sync they stop at about 65 % of it.

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ tensor_map a,
                                                       const __grid_constant__ tensor_map b,
                                                       const __grid_constant__ arguments args) {
    const ring_place ring = ring_begin(1);
    const int group = threadIdx.x / 128, tiles = (int)(args.K / 64), m = blockIdx.y * 128, n = blockIdx.x * 256;
    float sum[128];
    if (threadIdx.x == 0)
        for (int tile = 0; tile < stages && tile < tiles; tile++)
            ring_fill(ring, tile, &a, &b, m, n, tile * 64);
    for (int tile = 0; tile < tiles; tile++) {
        const int stage = tile % stages;
        ptx_mbarrier_wait(ring.full + stage * 8, tile / stages % 2);
        group_multiply(sum, ring, stage, group, tile > 0);
        ptx_wgmma_wait<0>();
        __syncthreads(); // both groups have read the stage
        if (threadIdx.x == 0 && tile + stages < tiles) ring_fill(ring, stage, &a, &b, m, n, (tile + stages) * 64);
    }
    group_store(args.c + (m + group * 64) * args.N + n, args.N, sum);
}
