// A thread computes one result, and the 32 threads of a warp are neighbours along the rows.
// Nothing is shared: every multiply-add waits for two loads of its own.
// The hardware likes none of it: each load of `a` by a warp touches 32 different lines of memory.

extern "C" __global__ void __launch_bounds__(1024) gemm(const __grid_constant__ arguments args) {
    const int64_t m = blockIdx.y * 32 + threadIdx.x % 32, n = blockIdx.x * 32 + threadIdx.x / 32;
    float sum = 0;
    for (int64_t k = 0; k < args.K; k++)
        sum = fmaf(f32_from_bf16(args.a[m * args.K + k]), f32_from_bf16(args.b[k * args.N + n]), sum);
    args.c[m * args.N + n] = bf16_from_f32(sum);
}
