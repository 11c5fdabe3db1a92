// A cluster of four blocks shares a row, 32 elements a thread; each block finds its own peak and sum.
// Through the shared memory of the others the four pairs are joined: sums are scaled to the peak of all.
// At this length the exchange costs what the smaller blocks win; rows that no block's registers hold have no other way to be read once.

static const int blocks = 4, threads = 256;

extern "C" __global__ void __launch_bounds__(256) softmax(const __grid_constant__ arguments args) {
    __shared__ float parts[2][threads / 32], peaks[blocks], totals[blocks];
    const int rank = ptx_cluster_rank();
    const int64_t m = blockIdx.x / blocks;
    kept_row<4, threads> row;
    row.first = (int64_t)rank * 4 * threads * 8 + threadIdx.x * 8;
    row.end = args.N;
    row.load(args.x + m * args.N);
    const float own = block_max<threads>(row.peak(), parts[0]);
    const float sum = own == -INFINITY ? 0 : block_sum<threads>(row.total(own), parts[1]);
    ptx_cluster_arrive(); // all blocks have started
    ptx_cluster_wait();
    if (threadIdx.x < blocks) {
        ptx_cluster_store_4(ptx_cluster_address(ptx_shared_address(&peaks[rank]), threadIdx.x), __float_as_uint(own));
        ptx_cluster_store_4(ptx_cluster_address(ptx_shared_address(&totals[rank]), threadIdx.x), __float_as_uint(sum));
    }
    ptx_cluster_arrive(); // all pairs are there
    ptx_cluster_wait();
    float peak = -INFINITY, total = 0;
#pragma unroll
    for (int b = 0; b < blocks; b++)
        peak = fmaxf(peak, peaks[b]);
#pragma unroll
    for (int b = 0; b < blocks; b++)
        total += totals[b] * exponential(peaks[b] - peak);
    row.leave(args.y + m * args.N, peak, 1 / total);
}
