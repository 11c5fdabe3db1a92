// A warpgroup of its own copies, with few registers; the two that multiply take what it gives back.
// Keys and values have barriers of their own, groups no longer wait for each other, and blocks with most keys come first.
// The masked tile comes first and alone: all others are softened without a comparison.

static __device__ void consume(const attention_ring &ring, const arguments &args, int query, int tiles) {
    const uint32_t q = ring.q + query % 128 * 128;
    row_sums rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[64];
    ptx_mbarrier_wait(ring.q_full, 0);
    for (int t = 0; t < tiles; t++) {
        const int place = t % stages, parity = t / stages % 2, key = (tiles - 1 - t) * 128;
        float s[64], shrink[2];
        uint32_t weights[8][4];
        ptx_mbarrier_wait(ring.k_full + 8 * place, parity);
        group_scores(s, q, ring.k + place * tile_bytes);
        ptx_wgmma_wait<0>();
        leave(ring.k_empty + 8 * place);
        if (t == 0)
            soften<true>(s, rows, shrink, distance_of(query, key));
        else
            soften<false>(s, rows, shrink, 0);
        weights_pack(weights, s);
        if (t > 0) group_shrink(o, shrink);
        ptx_mbarrier_wait(ring.v_full + 8 * place, parity);
        group_values(o, weights, ring.v + place * tile_bytes, t > 0);
        ptx_wgmma_wait<0>();
        leave(ring.v_empty + 8 * place);
    }
    group_leave(head_of(args).o + (int64_t)query * width, o, rows);
}

extern "C" __global__ void __launch_bounds__(384, 1) attention(const __grid_constant__ tensor_map q,
                                                               const __grid_constant__ tensor_map k,
                                                               const __grid_constant__ tensor_map v,
                                                               const __grid_constant__ arguments args) {
    const attention_ring ring = ring_begin(8); // eight warps empty a place
    const int m = (gridDim.x - 1 - blockIdx.x) * 128, tiles = keys_before(args, m + 128) / 128;
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group == 2) {
        ptx_registers_give<24>();
        if (threadIdx.x == 256) produce(ring, &q, &k, &v, m, tiles);
    } else {
        ptx_registers_take<240>();
        consume(ring, args, m + group * 64, tiles);
    }
}
