// Chunk c of row r stands in the place of chunk c XOR (r mod 8): one line of the layout is all that changed.
// The eight rows that ldmatrix reads at once then lie in 32 different banks, and so does what is written.
// Shared memory serves 128 bytes a clock only where no two threads want the same bank: an eighth of it before.

typedef rows_swizzled layout;

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
