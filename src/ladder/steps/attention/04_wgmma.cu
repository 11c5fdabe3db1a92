// Warpgroups multiply by wgmma, 64 queries by 128 keys at a time, and the copy engine brings keys and values ahead.
// Weights are the left operand from registers; keys and values are read from shared memory by the tensor cores.
// The products run at the full rate, but while a group softens its scores its tensor core has nothing to do.

extern "C" __global__ void __launch_bounds__(256, 1) attention(const __grid_constant__ tensor_map q,
                                                               const __grid_constant__ tensor_map k,
                                                               const __grid_constant__ tensor_map v,
                                                               const __grid_constant__ arguments args) {
    const attention_ring ring = ring_begin(1);
    const int group = threadIdx.x / 128, m = blockIdx.x * 128, query = m + group * 64;
    const int tiles = keys_before(args, m + 128) / 128;
    row_sums rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[64];
    if (threadIdx.x == 0) {
        rows_fetch(ring.q, &q, m, ring.q_full);
        for (int t = 0; t < stages && t < tiles; t++) {
            rows_fetch(ring.k + t * tile_bytes, &k, t * 128, ring.k_full + 8 * t);
            rows_fetch(ring.v + t * tile_bytes, &v, t * 128, ring.v_full + 8 * t);
        }
    }
    ptx_mbarrier_wait(ring.q_full, 0);
    for (int t = 0; t < tiles; t++) {
        const int place = t % stages, parity = t / stages % 2;
        float s[64], shrink[2];
        uint32_t weights[8][4];
        ptx_mbarrier_wait(ring.k_full + 8 * place, parity);
        group_scores(s, ring.q + group * 64 * 128, ring.k + place * tile_bytes);
        ptx_wgmma_wait<0>();
        soften<true>(s, rows, shrink, distance_of(query, t * 128));
        weights_pack(weights, s);
        if (t > 0) group_shrink(o, shrink);
        ptx_mbarrier_wait(ring.v_full + 8 * place, parity);
        group_values(o, weights, ring.v + place * tile_bytes, t > 0);
        ptx_wgmma_wait<0>();
        __syncthreads(); // both groups have read the tile
        if (threadIdx.x == 0 && t + stages < tiles) {
            rows_fetch(ring.k + place * tile_bytes, &k, (t + stages) * 128, ring.k_full + 8 * place);
            rows_fetch(ring.v + place * tile_bytes, &v, (t + stages) * 128, ring.v_full + 8 * place);
        }
    }
    group_leave(head_of(args).o + (int64_t)query * width, o, rows);
}
