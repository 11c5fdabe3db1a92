// A thread computes 8 x 8 results: from 16 operands in registers come 64 multiply-adds.
// A block of 256 threads has a tile of 128 x 128 and goes 16 along k at a time.
// Registers feed every multiply-add at full rate; shared memory gives a quarter of that, so it is asked 4 times less.

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ arguments args) {
    __shared__ float left[16][132], right[16][128]; // along k first; 132: rows that a warp writes lie in other banks
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;
    const int64_t m = blockIdx.y * 128, n = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int64_t from = 0; from < args.K; from += 16) {
        for (int i = threadIdx.x; i < 16 * 128; i += 256) {
            left[i % 16][i / 16] = f32_from_bf16(args.a[(m + i / 16) * args.K + from + i % 16]);
            right[i / 128][i % 128] = f32_from_bf16(args.b[(from + i / 128) * args.N + n + i % 128]);
        }
        __syncthreads();
        for (int k = 0; k < 16; k++) {
            float a[8], b[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                a[i] = left[k][row + 16 * i];
                b[i] = right[k][column + 16 * i];
            }
#pragma unroll
            for (int i = 0; i < 64; i++)
                sum[i / 8][i % 8] = fmaf(a[i / 8], b[i % 8], sum[i / 8][i % 8]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 64; i++)
        args.c[(m + row + 16 * (i / 8)) * args.N + n + column + 16 * (i % 8)] = bf16_from_f32(sum[i / 8][i % 8]);
}
