// A tile of 128 x 256 results by two warpgroups of 64 x 256. In each stage of the ring: 128 rows of `a`, 64 along k,
// and four boxes of 64 rows of `b`, 64 columns each, as the copy engine swizzles them.
static const int stages = 4, box_bytes = 64 * 128, left_bytes = 2 * box_bytes, stage_bytes = left_bytes + 4 * box_bytes;

struct ring_place {
    uint32_t memory, full, empty; // barriers: one a stage
};

static __device__ inline ring_place ring_begin(int arrivals) {
    ring_place ring;
    ring.memory = ptx_shared_address(gemm_memory());
    ring.full = ring.memory + stages * stage_bytes;
    ring.empty = ring.full + stages * 8;
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; s++) {
            ptx_mbarrier_init(ring.full + s * 8, 1);
            ptx_mbarrier_init(ring.empty + s * 8, arrivals);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return ring;
}

// One thread asks the copy engine for 64 along k of both operands; `full` counts the bytes that arrive.
static __device__ inline void ring_fill(const ring_place &ring, int stage, const void *a, const void *b, int m, int n,
                                        int k) {
    const uint32_t to = ring.memory + stage * stage_bytes, full = ring.full + stage * 8;
    ptx_mbarrier_arrive_expect(full, stage_bytes);
    ptx_tensor_load_2d(to, a, k, m, full);
#pragma unroll
    for (int c = 0; c < 4; c++)
        ptx_tensor_load_2d(to + left_bytes + c * box_bytes, b, n + c * 64, k, full);
}

// Begins the products of a stage: four of 16 along k, whose operands the tensor cores read from shared memory.
static __device__ inline void group_multiply(float (&sum)[128], const ring_place &ring, int stage, int group,
                                             bool accumulate) {
    const uint32_t tiles = ring.memory + stage * stage_bytes;
    const uint64_t left = ptx_wgmma_descriptor(tiles + group * box_bytes, 16, 1024, 1);
    const uint64_t right = ptx_wgmma_descriptor(tiles + left_bytes, box_bytes, 1024, 1);
    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
        ptx_wgmma_m64n256k16_f32_bf16_bf16_k_mn(sum, left + k * 2, right + k * 128, accumulate || k > 0);
    ptx_wgmma_commit();
}

// `c`: the first result of the group's 64 rows.
static __device__ inline void group_store(uint16_t *c, int64_t stride, const float (&sum)[128]) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < 64; j++)
        *(uint32_t *)(c + (row + j % 2 * 8) * stride + j / 2 * 8 + lane % 4 * 2) = bf16_pair(sum[2 * j], sum[2 * j + 1]);
}
