// A warp takes a row: lane l reads elements l, l + 32, and so on, and shuffles join what the lanes found.
// The three passes remain.
// A warp's load is now one piece of a line, and 32 times as many threads have loads on their way.

extern "C" __global__ void __launch_bounds__(256) softmax(const __grid_constant__ arguments args) {
    const int64_t m = blockIdx.x * 8 + threadIdx.x / 32;
    if (m >= args.M) return;
    const uint16_t *x = args.x + m * args.N;
    const int lane = threadIdx.x % 32;
    float peak = -INFINITY, total = 0;
    for (int64_t n = lane; n < args.N; n += 32)
        peak = fmaxf(peak, f32_from_bf16(x[n]));
    peak = warp_max(peak);
    for (int64_t n = lane; n < args.N; n += 32)
        total += exponential(f32_from_bf16(x[n]) - peak);
    const float factor = 1 / warp_sum(total);
    for (int64_t n = lane; n < args.N; n += 32)
        args.y[m * args.N + n] = bf16_from_f32(exponential(f32_from_bf16(x[n]) - peak) * factor);
}
