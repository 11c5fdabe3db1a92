// Three kernels, as the text has it: all scores to memory, the softmax of their rows, the sums of values.
// The products run on tensor cores, and key tiles that no query sees are left out.
// What the hardware minds is the memory between: a score is written, read three times and written once more.

static __device__ inline float *scores_of(const arguments &args) {
    return (float *)args.scratch + blockIdx.y * args.I * args.J;
}

static __device__ inline uint16_t *weights_of(const arguments &args) {
    return (uint16_t *)(args.scratch + args.B * args.H * args.I * args.J * 4) + blockIdx.y * args.I * args.J;
}

extern "C" __global__ void __launch_bounds__(128) scores(const __grid_constant__ arguments args) {
    char *const q = staged_memory(), *const k = q + tile_bytes;
    const head head = head_of(args);
    const int m = blockIdx.x * 64, row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;
    rows_load(q, head.q + (int64_t)m * width);
    for (int n = 0; n < keys_before(args, m + 64); n += 64) {
        rows_load(k, head.k + (int64_t)n * width);
        __syncthreads();
        float s[8][4];
        warp_scores(s, ptx_shared_address(q), ptx_shared_address(k), row);
#pragma unroll
        for (int i = 0; i < 16; i++)
            *(float2 *)(scores_of(args) + (m + row + lane / 4 + i % 2 * 8) * args.J + n + i / 2 * 8 + lane % 4 * 2) =
                make_float2(s[i / 2][i % 2 * 2] * factor, s[i / 2][i % 2 * 2 + 1] * factor);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(256) weights(const __grid_constant__ arguments args) {
    const int m = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int seen = keys_before(args, m + 1), end = keys_before(args, m / 64 * 64 + 64);
    const float *s = scores_of(args) + m * args.J;
    uint16_t *w = weights_of(args) + m * args.J;
    float peak = -INFINITY, total = 0;
    for (int n = lane; n < seen; n += 32)
        peak = fmaxf(peak, s[n]);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, lanes));
    for (int n = lane; n < seen; n += 32)
        total += machine_exp2(s[n] - peak);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, lanes);
    for (int n = lane; n < end; n += 32)
        w[n] = n < seen ? bf16_from_f32(machine_exp2(s[n] - peak) / total) : (uint16_t)0;
}

extern "C" __global__ void __launch_bounds__(128) outputs(const __grid_constant__ arguments args) {
    char *const w = staged_memory(), *const v = w + half_bytes;
    const head head = head_of(args);
    const int m = blockIdx.x * 64, row = threadIdx.x / 32 * 16;
    float o[16][4] = {};
    for (int n = 0; n < keys_before(args, m + 64); n += 64) {
        tile_load<layout, 64, 128>(w, weights_of(args) + m * args.J + n, args.J);
        rows_load(v, head.v + (int64_t)n * width);
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 4; step++) {
            uint32_t a[4];
            left_fragment<layout>(a, ptx_shared_address(w), row, step);
            warp_values(o, a, ptx_shared_address(v), step);
        }
        __syncthreads();
    }
    warp_leave(head.o + (int64_t)m * width, o, row, {1, 1});
}
