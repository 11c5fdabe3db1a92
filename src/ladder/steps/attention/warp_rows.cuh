// By warps: 64 queries a block, 16 of them a warp; 64 keys a tile. A tile of 64 rows of 128 elements is two of 64 x 64.
typedef rows_swizzled layout;
static const int half_bytes = 64 * 128, tile_bytes = 2 * half_bytes;

static __device__ inline void rows_load(char *tile, const uint16_t *from) {
    tile_load<layout, 64, 128>(tile, from, width);
    tile_load<layout, 64, 128>(tile + half_bytes, from + 64, width);
}

// Scores of a warp's 16 queries, from `row` on, with 64 keys: 8 products of 16 x 8.
static __device__ inline void warp_scores(float (&s)[8][4], uint32_t q, uint32_t k, int row) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        s[i / 4][i % 4] = 0;
#pragma unroll
    for (int step = 0; step < 8; step++) {
        uint32_t a[4], b[2][2];
        left_fragment<layout>(a, q + step / 4 * half_bytes, row, step % 4);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            right_of_rows<layout>(b, k + step / 4 * half_bytes, 8 * j, step % 4);
            ptx_mma_m16n8k16_f32_bf16_bf16(s[j], a, b[0]);
            ptx_mma_m16n8k16_f32_bf16_bf16(s[j + 1], a, b[1]);
        }
    }
}

// Adds 16 weights a query, keys 16 `step` and on, times their values: 16 products of 16 x 8.
static __device__ inline void warp_values(float (&o)[16][4], const uint32_t (&weights)[4], uint32_t v, int step) {
#pragma unroll
    for (int j = 0; j < 16; j += 2) {
        uint32_t b[2][2];
        right_of_columns<layout>(b, v + j / 8 * half_bytes, j % 8 * 8, step);
        ptx_mma_m16n8k16_f32_bf16_bf16(o[j], weights, b[0]);
        ptx_mma_m16n8k16_f32_bf16_bf16(o[j + 1], weights, b[1]);
    }
}

// `o`: the block's first query.
static __device__ inline void warp_leave(uint16_t *o, const float (&sum)[16][4], int row, const float (&scale)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const float *two = &sum[i / 2][i % 2 * 2];
        *(uint32_t *)(o + (row + lane / 4 + i % 2 * 8) * width + i / 2 * 8 + lane % 4 * 2) =
            bf16_pair(two[0] * scale[i % 2], two[1] * scale[i % 2]);
    }
}
