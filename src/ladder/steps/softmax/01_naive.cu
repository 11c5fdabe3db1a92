// A thread takes a row and goes over it three times: the largest element, the sum of exponentials, the results.
// Nothing is shared and nothing is kept.
// The hardware likes none of it: the 32 threads of a warp read 32 rows, so that each load touches 32 lines of memory.

extern "C" __global__ void __launch_bounds__(128) softmax(const __grid_constant__ arguments args) {
    const int64_t m = blockIdx.x * 128 + threadIdx.x;
    if (m >= args.M) return;
    const uint16_t *x = args.x + m * args.N;
    float peak = -INFINITY, total = 0;
    for (int64_t n = 0; n < args.N; n++)
        peak = fmaxf(peak, f32_from_bf16(x[n]));
    for (int64_t n = 0; n < args.N; n++)
        total += exponential(f32_from_bf16(x[n]) - peak);
    for (int64_t n = 0; n < args.N; n++)
        args.y[m * args.N + n] = bf16_from_f32(exponential(f32_from_bf16(x[n]) - peak) / total);
}
