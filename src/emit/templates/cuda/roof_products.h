/* Products as fast as the tensor cores take them, for the roof: operands in shared memory (sm_90a) or
 * registers.
 *
 * Operands are random bits of ordinary numbers: zeros would run faster than data does. Each kernel repeats
 * the same tiles; the host counts the multiply-adds. PRODUCT: the type of its sums, and make(), the
 * instruction. */
struct product_words {
    uint32_t *never;
    const uint32_t *random; /* 64 KB of operand bits, made on the host for this dtype */
    int rounds;
};

/* Of two warpgroups a block: tiles of 64 x 256, 128 bytes of k a stage, two stages. */
template <class PRODUCT> static __device__ inline void repeat_shared(const product_words &w) {
    constexpr int tile_a = 64 * 128, tile_b = 256 * 128, stages = 2, stage_bytes = 2 * tile_a + tile_b;
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int i = threadIdx.x; i < stages * stage_bytes / 4; i += blockDim.x)
        ((uint32_t *)tiles)[i] = w.random[(i + blockIdx.x * 64) & 16383];
    ptx_fence_proxy_async();
    __syncthreads();
    typename PRODUCT::sum d[128];
#pragma unroll
    for (int i = 0; i < 128; i++)
        d[i] = 0;
    for (int round = 0; round < w.rounds; round++) {
#pragma unroll 1
        for (int stage = 0; stage < stages; stage++) {
            ptx_wgmma_fence();
            const uint32_t at = ptx_shared_address(tiles + stage * stage_bytes);
            const uint64_t a = ptx_wgmma_descriptor(at + threadIdx.x / 128 * tile_a, 16, 1024, 1);
            const uint64_t b = ptx_wgmma_descriptor(at + 2 * tile_a, 16, 1024, 1);
#pragma unroll
            for (int k = 0; k < 4; k++)
                PRODUCT::make(d, a + 2 * k, b + 2 * k, 1);
        }
        ptx_wgmma_commit();
        ptx_wgmma_wait<0>();
    }
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 128; i++)
        bits ^= (uint32_t)d[i];
    if (bits == 0x5eed5eed) *w.never = bits;
}

/* Of any warps: tiles of 16 x 8, eight sums of four a warp. */
template <class PRODUCT> static __device__ inline void repeat_registers(const product_words &w) {
    typename PRODUCT::sum d[8][4];
    uint32_t a[4], b[2], bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        a[i] = w.random[(threadIdx.x * 4 + i) & 16383];
#pragma unroll
    for (int i = 0; i < 2; i++)
        b[i] = w.random[(threadIdx.x * 2 + i + 4096) & 16383];
#pragma unroll
    for (int i = 0; i < 32; i++)
        d[i / 4][i % 4] = 0;
    for (int round = 0; round < w.rounds; round++) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            PRODUCT::make(d[i], a, b);
    }
#pragma unroll
    for (int i = 0; i < 32; i++)
        bits ^= (uint32_t)d[i / 4][i % 4];
    if (bits == 0x5eed5eed) *w.never = bits;
}
