// cp.async brings the next tiles, 32 along k, into a second pair of buffers while the first pair is multiplied.
// The copy passes no register and nobody waits for it, but it cannot convert: what it brings stays in 16 bits.
// Plain units need numbers, so each use converts anew, and that costs more than the copies took; tensor cores take 16 bits as they are.

static const int deep = 32; // along k

struct buffers {
    uint16_t left[128][deep], right[deep][128];
};

static __device__ inline void begin_copies(buffers &to, const arguments &args, int64_t m, int64_t n, int64_t k) {
#pragma unroll
    for (int i = threadIdx.x; i < 512; i += 256) { // 16 bytes each
        ptx_copy<16>(ptx_shared_address(&to.left[i / 4][i % 4 * 8]), args.a + (m + i / 4) * args.K + k + i % 4 * 8);
        ptx_copy<16>(ptx_shared_address(&to.right[i / 16][i % 16 * 8]),
                     args.b + (k + i / 16) * args.N + n + i % 16 * 8);
    }
    ptx_copy_commit();
}

static __device__ inline float low_of(uint32_t pair) {
    return f32_of_bits((int32_t)(pair << 16));
}

static __device__ inline float high_of(uint32_t pair) {
    return f32_of_bits((int32_t)(pair & 0xffff0000u));
}

// Two along k of 8 x 8 results: rows 16 apart, columns neighbours.
static __device__ inline void multiply(float (&sum)[8][8], const buffers &of, int row, int column, int k) {
    const uint4 here = *(const uint4 *)&of.right[k][column * 8], next = *(const uint4 *)&of.right[k + 1][column * 8];
    const uint32_t b[2][4] = {{here.x, here.y, here.z, here.w}, {next.x, next.y, next.z, next.w}};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const uint32_t a = *(const uint32_t *)&of.left[row + 16 * i][k];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            sum[i][2 * j] = fmaf(low_of(a), low_of(b[0][j]), sum[i][2 * j]);
            sum[i][2 * j + 1] = fmaf(low_of(a), high_of(b[0][j]), sum[i][2 * j + 1]);
            sum[i][2 * j] = fmaf(high_of(a), low_of(b[1][j]), sum[i][2 * j]);
            sum[i][2 * j + 1] = fmaf(high_of(a), high_of(b[1][j]), sum[i][2 * j + 1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) gemm(const __grid_constant__ arguments args) {
    __shared__ __align__(16) buffers ring[2];
    const int row = threadIdx.x / 16, column = threadIdx.x % 16, tiles = (int)(args.K / deep);
    const int64_t m = blockIdx.y * 128, n = blockIdx.x * 128;
    float sum[8][8] = {};
    begin_copies(ring[0], args, m, n, 0);
    for (int tile = 0; tile < tiles; tile++) {
        ptx_copy_wait<0>();
        __syncthreads(); // the tile is there for all, and nobody reads the other one any more
        if (tile + 1 < tiles) begin_copies(ring[(tile + 1) % 2], args, m, n, (int64_t)(tile + 1) * deep);
#pragma unroll 2 // more would not leave room for two blocks
        for (int k = 0; k < deep; k += 2)
            multiply(sum, ring[tile % 2], row, column, k);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        store_16(args.c + (m + row + 16 * i) * args.N + n + column * 8, bf16_pair(sum[i][0], sum[i][1]),
                 bf16_pair(sum[i][2], sum[i][3]), bf16_pair(sum[i][4], sum[i][5]), bf16_pair(sum[i][6], sum[i][7]));
}
