// By warpgroups: 128 queries a block, 64 of them a group; 128 keys a tile. 128 rows of 128 elements are two boxes of the
// copy engine, 64 elements wide. A ring has two places for keys and two for values.
static const int box_bytes = 128 * 128, tile_bytes = 2 * box_bytes, stages = 2;

// Barriers follow each other in the order of these, two for each but the first.
struct attention_ring {
    uint32_t q, k, v; // memory
    uint32_t q_full, k_full, v_full, k_empty, v_empty;
};

static __device__ inline attention_ring ring_begin(int arrivals) {
    attention_ring ring;
    ring.q = ptx_shared_address(gemm_memory());
    ring.k = ring.q + tile_bytes;
    ring.v = ring.k + stages * tile_bytes;
    ring.q_full = ring.v + stages * tile_bytes;
    ring.k_full = ring.q_full + 8;
    ring.v_full = ring.k_full + 8 * stages;
    ring.k_empty = ring.v_full + 8 * stages;
    ring.v_empty = ring.k_empty + 8 * stages;
    if (threadIdx.x == 0) {
        ptx_mbarrier_init(ring.q_full, 1);
        for (int s = 0; s < 2 * stages; s++) {
            ptx_mbarrier_init(ring.k_full + 8 * s, 1); // and of values, which follow
            ptx_mbarrier_init(ring.k_empty + 8 * s, arrivals);
        }
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    return ring;
}

// One thread asks for 128 rows, from `row` on, of this block's head.
static __device__ inline void rows_fetch(uint32_t to, const void *map, int row, uint32_t full) {
    ptx_mbarrier_arrive_expect(full, tile_bytes);
    ptx_tensor_load_3d(to, map, 0, row, blockIdx.y, full);
    ptx_tensor_load_3d(to + box_bytes, map, 64, row, blockIdx.y, full);
}

// Begins the scores of a group's 64 queries with 128 keys: both sides run along the elements.
static __device__ inline void group_scores(float (&s)[64], uint32_t q, uint32_t k) {
    const uint64_t left = ptx_wgmma_descriptor(q, 16, 1024, 1), right = ptx_wgmma_descriptor(k, 16, 1024, 1);
    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int at = i / 4 * (box_bytes >> 4) + i % 4 * 2;
        ptx_wgmma_m64n128k16_f32_bf16_bf16_k_k(s, left + at, right + at, i > 0);
    }
    ptx_wgmma_commit();
}

// Begins to add 128 weights a query, from registers, times their values.
static __device__ inline void group_values(float (&o)[64], const uint32_t (&weights)[8][4], uint32_t v,
                                           bool accumulate) {
    const uint64_t right = ptx_wgmma_descriptor(v, box_bytes, 1024, 1);
    ptx_wgmma_fence();
#pragma unroll
    for (int i = 0; i < 8; i++)
        ptx_wgmma_m64n128k16_f32_bf16_bf16_r_mn(o, weights[i], right + i * 128, accumulate || i > 0);
    ptx_wgmma_commit();
}

static __device__ inline void group_shrink(float (&o)[64], const float (&shrink)[2]) {
#pragma unroll
    for (int i = 0; i < 64; i++)
        o[i] *= shrink[i / 2 % 2];
}

// `o`: the group's first query.
static __device__ inline void group_leave(uint16_t *o, const float (&sum)[64], const row_sums &rows) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    float scale[2];
    rows_end(rows, scale);
#pragma unroll
    for (int i = 0; i < 32; i++)
        *(uint32_t *)(o + (row + i % 2 * 8) * width + i / 2 * 8 + lane % 4 * 2) =
            bf16_pair(sum[2 * i] * scale[i % 2], sum[2 * i + 1] * scale[i % 2]);
}

// The query of a thread's first row less the key of its first score in a tile.
static __device__ inline int distance_of(int query, int key) {
    const int lane = threadIdx.x % 32;
    return query + threadIdx.x % 128 / 32 * 16 + lane / 4 - key - lane % 4 * 2;
}
