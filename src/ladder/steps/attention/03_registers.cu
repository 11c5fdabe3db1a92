// Scores stay in the registers in which mma.sync left them: softmax there, and out of them the weights' next product.
// A row is shared by four lanes of one warp, so that two shuffles take the place of shared memory and barriers.
// The sums of one product lie exactly as the left operand of the next: no element has to move.

extern "C" __global__ void __launch_bounds__(128) attention(const __grid_constant__ arguments args) {
    char *const q = staged_memory(), *const k = q + tile_bytes, *const v = k + tile_bytes;
    const head head = head_of(args);
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16, m = blockIdx.x * 64;
    row_sums rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[16][4] = {}, scale[2];
    rows_load(q, head.q + (int64_t)m * width);
    for (int n = 0; n < keys_before(args, m + 64); n += 64) {
        rows_load(k, head.k + (int64_t)n * width);
        rows_load(v, head.v + (int64_t)n * width);
        __syncthreads();
        float s[8][4], shrink[2];
        uint32_t weights[4][4];
        warp_scores(s, ptx_shared_address(q), ptx_shared_address(k), row);
        float(&flat)[32] = *(float(*)[32])s;
        soften<true>(flat, rows, shrink, m + row + lane / 4 - n - lane % 4 * 2);
        weights_pack(weights, flat);
#pragma unroll
        for (int i = 0; i < 64; i++)
            o[i / 4][i % 4] *= shrink[i / 2 % 2];
#pragma unroll
        for (int step = 0; step < 4; step++)
            warp_values(o, weights[step], ptx_shared_address(v), step);
        __syncthreads();
    }
    rows_end(rows, scale);
    warp_leave(head.o + (int64_t)m * width, o, row, scale);
}
