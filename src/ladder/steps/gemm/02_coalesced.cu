// The threads of a warp are now neighbours along the columns: that is all that changed.
// They read 32 neighbouring elements of `b` and the same element of `a`, and write 32 neighbours of `c`.
// A warp's access is then one line of memory, not 32: the unit that serves them works on whole lines.

extern "C" __global__ void __launch_bounds__(1024) gemm(const __grid_constant__ arguments args) {
    const int64_t m = blockIdx.y * 32 + threadIdx.x / 32, n = blockIdx.x * 32 + threadIdx.x % 32;
    float sum = 0;
    for (int64_t k = 0; k < args.K; k++)
        sum = fmaf(f32_from_bf16(args.a[m * args.K + k]), f32_from_bf16(args.b[k * args.N + n]), sum);
    args.c[m * args.N + n] = bf16_from_f32(sum);
}
