// One kernel: a block takes 64 queries, goes over the keys in tiles of 64, and scores live in shared memory only.
// The softmax runs online: where a tile has a larger peak, what was summed up before shrinks to it.
// Memory is asked for queries, keys and values alone; the scores' way is now two trips through shared memory a tile.

static const int pitch = 68; // numbers: rows that a warp writes at once lie in other banks

extern "C" __global__ void __launch_bounds__(128) attention(const __grid_constant__ arguments args) {
    char *const q = staged_memory(), *const k = q + tile_bytes, *const v = k + tile_bytes, *const w = v + tile_bytes;
    float *const s = (float *)(w + half_bytes), *const shrinks = s + 64 * pitch, *const totals = shrinks + 64;
    const head head = head_of(args);
    const int t = threadIdx.x, lane = t % 32, row = t / 32 * 16, m = blockIdx.x * 64;
    float o[16][4] = {}, peak = -INFINITY, total = 0; // these two: of row t / 2
    rows_load(q, head.q + (int64_t)m * width);
    for (int n = 0; n < keys_before(args, m + 64); n += 64) {
        rows_load(k, head.k + (int64_t)n * width);
        rows_load(v, head.v + (int64_t)n * width);
        __syncthreads();
        float tile[8][4];
        warp_scores(tile, ptx_shared_address(q), ptx_shared_address(k), row);
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int at_row = row + lane / 4 + i / 2 % 2 * 8, key = i / 4 * 8 + lane % 4 * 2 + i % 2;
            s[at_row * pitch + key] = n + key <= m + at_row ? tile[i / 4][i % 4] * factor : -INFINITY;
        }
        __syncthreads();
        const float *mine = s + t / 2 * pitch + t % 2 * 32; // half a row
        float most = peak, sum = 0;
        for (int j = 0; j < 32; j++)
            most = fmaxf(most, mine[j]);
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        for (int j = 0; j < 32; j++) {
            const float e = machine_exp2(mine[j] - most);
            const int at = t % 2 * 32 + j;
            *(uint16_t *)(w + layout::place(t / 2, at / 8) + at % 8 * 2) = bf16_from_f32(e);
            sum += e;
        }
        const float shrink = machine_exp2(peak - most);
        total = total * shrink + sum + __shfl_xor_sync(0xffffffffu, sum, 1);
        peak = most;
        if (t % 2 == 0) shrinks[t / 2] = shrink;
        if (t % 2 == 0) totals[t / 2] = total;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 64; i++)
            o[i / 4][i % 4] *= shrinks[row + lane / 4 + i / 2 % 2 * 8];
#pragma unroll
        for (int step = 0; step < 4; step++) {
            uint32_t a[4];
            left_fragment<layout>(a, ptx_shared_address(w), row, step);
            warp_values(o, a, ptx_shared_address(v), step);
        }
        __syncthreads();
    }
    warp_leave(head.o + (int64_t)m * width, o, row, {1 / totals[row + lane / 4], 1 / totals[row + lane / 4 + 8]});
}
