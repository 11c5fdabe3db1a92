// What the copying warpgroup does: the queries, then tile after tile of keys and values, from the last that the block
// sees to the first, each as soon as its place is empty.
static __device__ inline void produce(const attention_ring &ring, const void *q, const void *k, const void *v, int m,
                                      int tiles) {
    rows_fetch(ring.q, q, m, ring.q_full);
    for (int t = 0; t < tiles; t++) {
        const int place = t % stages, parity = t / stages % 2 ^ 1; // the first round finds all places empty
        const int row = (tiles - 1 - t) * 128;
        ptx_mbarrier_wait(ring.k_empty + 8 * place, parity);
        rows_fetch(ring.k + place * tile_bytes, k, row, ring.k_full + 8 * place);
        ptx_mbarrier_wait(ring.v_empty + 8 * place, parity);
        rows_fetch(ring.v + place * tile_bytes, v, row, ring.v_full + 8 * place);
    }
}

// All of a warp have read the place.
static __device__ inline void leave(uint32_t empty) {
    if (threadIdx.x % 32 == 0) ptx_mbarrier_arrive(empty);
}
