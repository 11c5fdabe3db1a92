// A block brings 32 x 32 of each operand to shared memory, and all its threads take their operands from there.
// Each element that comes from the caches now serves 32 multiply-adds instead of one.
// Shared memory answers in about 30 clocks and without looking anything up, where the L2 takes 260.

extern "C" __global__ void __launch_bounds__(1024) gemm(const __grid_constant__ arguments args) {
    __shared__ float left[32][32], right[32][32];
    const int row = threadIdx.x / 32, column = threadIdx.x % 32;
    const int64_t m = blockIdx.y * 32 + row, n = blockIdx.x * 32 + column;
    float sum = 0;
    for (int64_t from = 0; from < args.K; from += 32) {
        left[row][column] = f32_from_bf16(args.a[m * args.K + from + column]);
        right[row][column] = f32_from_bf16(args.b[(from + row) * args.N + n]);
        __syncthreads();
        for (int k = 0; k < 32; k++)
            sum = fmaf(left[row][k], right[k][column], sum);
        __syncthreads();
    }
    args.c[m * args.N + n] = bf16_from_f32(sum);
}
