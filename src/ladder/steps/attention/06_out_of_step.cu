// The scores of the next tile are queued before the sums of this one, and the softmax runs while both are multiplied.
// Two barriers give the groups their turns: while one group multiplies, the other softens.
// Exponentials take as long as half a tile's products: only under products of somebody else are they free.

// The groups queue their products in turns: 128 threads wait, 128 arrive.
static __device__ inline void order_wait(int group) {
    ptx_barrier_sync(1 + group, 256);
}

static __device__ inline void order_signal(int group) {
    ptx_barrier_arrive(1 + (group ^ 1), 256);
}

static __device__ void consume(const attention_ring &ring, const arguments &args, int query, int tiles) {
    const uint32_t q = ring.q + query % 128 * 128;
    const int group = query / 64 % 2;
    row_sums rows = {{-INFINITY, -INFINITY}, {0, 0}};
    float o[64], s[64], shrink[2];
    uint32_t weights[8][4];
    ptx_mbarrier_wait(ring.q_full, 0);
    if (group == 1) order_signal(1); // the first in order is group 0's
    ptx_mbarrier_wait(ring.k_full, 0);
    order_wait(group);
    group_scores(s, q, ring.k);
    if (group == 0 || tiles > 1) order_signal(group); // nobody waits after the last
    ptx_wgmma_wait<0>();
    leave(ring.k_empty);
    soften<true>(s, rows, shrink, distance_of(query, (tiles - 1) * 128));
    weights_pack(weights, s);
    for (int t = 1; t < tiles; t++) {
        const int place = t % stages, before = (t - 1) % stages;
        ptx_mbarrier_wait(ring.k_full + 8 * place, t / stages % 2);
        order_wait(group);
        group_scores(s, q, ring.k + place * tile_bytes);
        ptx_mbarrier_wait(ring.v_full + 8 * before, (t - 1) / stages % 2);
        group_values(o, weights, ring.v + before * tile_bytes, t > 1);
        if (group == 0 || t + 1 < tiles) order_signal(group);
        ptx_wgmma_wait<1>(); // the scores are there, the sums go on
        leave(ring.k_empty + 8 * place);
        soften<false>(s, rows, shrink, 0);
        ptx_wgmma_wait<0>();
        leave(ring.v_empty + 8 * before);
        weights_pack(weights, s);
        group_shrink(o, shrink);
    }
    const int last = (tiles - 1) % stages;
    ptx_mbarrier_wait(ring.v_full + 8 * last, (tiles - 1) / stages % 2);
    group_values(o, weights, ring.v + last * tile_bytes, tiles > 1);
    ptx_wgmma_wait<0>();
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
