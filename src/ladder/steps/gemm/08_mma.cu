// mma.sync in place of wmma: ldmatrix brings four blocks of 8 x 8 at once, and each warp has 64 x 32 results in registers.
// A load now serves two to four products, and the sums go from registers to memory without a detour.
// Rows are 128 bytes, so that the eight rows that ldmatrix reads at once lie in the same four banks: that costs more than the rest wins.

typedef rows_as_they_lie layout;

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ arguments args) {
    char *const tiles = staged_memory();
    const warp_place at = warp_place_of();
    const int64_t m = blockIdx.y * 128, n = blockIdx.x * 128;
    float sum[4][4][4] = {};
    for (int64_t k = 0; k < args.K; k += 64) {
        tile_load<layout, 128, 256>(tiles, args.a + m * args.K + k, args.K);
        tile_load<layout, 64, 256>(tiles + left_bytes, args.b + k * args.N + n, args.N);
        tile_load<layout, 64, 256>(tiles + left_bytes + right_bytes, args.b + k * args.N + n + 64, args.N);
        __syncthreads();
        warp_multiply<layout>(sum, ptx_shared_address(tiles), at);
        __syncthreads();
    }
    warp_store(args.c + m * args.N + n, args.N, sum, at);
}
