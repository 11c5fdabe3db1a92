// A tile of 128 x 128 results by eight warps of 64 x 32. In shared memory: 128 rows of `a`, and behind them two tiles
// of 64 rows of `b`, 64 columns each; 64 along k together.
static const int left_bytes = 128 * 128, right_bytes = 64 * 128, both_bytes = left_bytes + 2 * right_bytes;

struct warp_place {
    int row, column; // in the block's tile
};

static __device__ inline warp_place warp_place_of() {
    const int warp = threadIdx.x / 32;
    return {warp % 2 * 64, warp / 2 * 32};
}

template <class LAYOUT>
static __device__ inline void warp_multiply(float (&sum)[4][4][4], uint32_t tiles, const warp_place &at) {
    const uint32_t right = tiles + left_bytes + at.column / 64 * right_bytes;
#pragma unroll
    for (int step = 0; step < 4; step++) {
        uint32_t a[4][4], b[2][2][2];
#pragma unroll
        for (int i = 0; i < 4; i++)
            left_fragment<LAYOUT>(a[i], tiles, at.row + 16 * i, step);
#pragma unroll
        for (int j = 0; j < 2; j++)
            right_of_columns<LAYOUT>(b[j], right, at.column % 64 + 16 * j, step);
#pragma unroll
        for (int i = 0; i < 16; i++)
            ptx_mma_m16n8k16_f32_bf16_bf16(sum[i / 4][i % 4], a[i / 4], b[i % 4 / 2][i % 2]);
    }
}

// `c`: the tile's first result.
static __device__ inline void warp_store(uint16_t *c, int64_t stride, const float (&sum)[4][4][4], const warp_place &at) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const float *two = &sum[i / 8][i / 2 % 4][i % 2 * 2];
        const int row = at.row + i / 8 * 16 + i % 2 * 8 + lane / 4, column = at.column + i / 2 % 4 * 8 + lane % 4 * 2;
        *(uint32_t *)(c + row * stride + column) = bf16_pair(two[0], two[1]);
    }
}
