// Four pairs of tiles form a ring: while one is multiplied, cp.async fills the three that come next.
// One barrier for each 64 along k remains, and no thread holds an element that is on its way.
// A load takes 500 to 1000 clocks, a tile's products 500: only copies that began long before keep the tensor cores busy.

typedef rows_swizzled layout;
static const int stages = 4;

static __device__ inline void begin_copies(uint32_t ring, const arguments &args, int64_t m, int64_t n, int tile) {
    const uint32_t to = ring + tile % stages * both_bytes;
    const int64_t k = (int64_t)tile * 64;
    if (k < args.K) {
        tile_copy<layout, 128, 256>(to, args.a + m * args.K + k, args.K);
        tile_copy<layout, 64, 256>(to + left_bytes, args.b + k * args.N + n, args.N);
        tile_copy<layout, 64, 256>(to + left_bytes + right_bytes, args.b + k * args.N + n + 64, args.N);
    }
    ptx_copy_commit(); // a group for each tile, though it be empty
}

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ arguments args) {
    const uint32_t ring = ptx_shared_address(staged_memory());
    const warp_place at = warp_place_of();
    const int64_t m = blockIdx.y * 128, n = blockIdx.x * 128;
    float sum[4][4][4] = {};
    for (int tile = 0; tile < stages - 1; tile++)
        begin_copies(ring, args, m, n, tile);
    for (int tile = 0; (int64_t)tile * 64 < args.K; tile++) {
        ptx_copy_wait<stages - 2>();
        __syncthreads(); // the tile is there for all, and the one before has been read
        begin_copies(ring, args, m, n, tile + stages - 1);
        warp_multiply<layout>(sum, ring + tile % stages * both_bytes, at);
    }
    warp_store(args.c + m * args.N + n, args.N, sum, at);
}
