// The tensor cores multiply: one instruction of a warp is a product of 16 x 16 x 16, by the wmma instructions.
// Copies are plain again and rows lie in shared memory as they do in memory, so that the next steps change one thing each.
// A tensor core does 1024 multiply-adds of 16 bits a clock where the plain units do 128.

static __device__ inline void load_left(uint32_t (&r)[4], const uint16_t *from, int stride) {
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ptx_shared_address(from)), "r"(stride)
                 : "memory");
}

static __device__ inline void load_right(uint32_t (&r)[4], const uint16_t *from, int stride) {
    asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(ptx_shared_address(from)), "r"(stride)
                 : "memory");
}

static __device__ inline void multiply(float (&d)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
    asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]));
}

static __device__ inline void store_sums(float *to, const float (&d)[8]) {
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, 16;" ::"r"(
                     ptx_shared_address(to)),
                 "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7])
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ arguments args) {
    __shared__ __align__(128) uint16_t left[128][32], right[32][128];
    __shared__ __align__(128) float patch[8][16 * 16]; // where a warp's sums become rows again
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = warp % 4 * 32, column = warp / 4 * 64;
    const int64_t m = blockIdx.y * 128, n = blockIdx.x * 128;
    float sum[2][4][8] = {};
    for (int64_t from = 0; from < args.K; from += 32) {
#pragma unroll
        for (int i = t; i < 512; i += 256) {
            *(uint4 *)&left[i / 4][i % 4 * 8] = *(const uint4 *)(args.a + (m + i / 4) * args.K + from + i % 4 * 8);
            *(uint4 *)&right[i / 16][i % 16 * 8] = *(const uint4 *)(args.b + (from + i / 16) * args.N + n + i % 16 * 8);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            uint32_t a[2][4], b[4][4];
#pragma unroll
            for (int i = 0; i < 2; i++)
                load_left(a[i], &left[row + 16 * i][k], 32);
#pragma unroll
            for (int j = 0; j < 4; j++)
                load_right(b[j], &right[k][column + 16 * j], 128);
#pragma unroll
            for (int i = 0; i < 8; i++)
                multiply(sum[i / 4][i % 4], a[i / 4], b[i % 4]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        store_sums(patch[warp], sum[i / 4][i % 4]);
        __syncwarp();
        const float *x = &patch[warp][lane * 8];
        store_16(args.c + (m + row + i / 4 * 16 + lane / 2) * args.N + n + column + i % 4 * 16 + lane % 2 * 8,
                 bf16_pair(x[0], x[1]), bf16_pair(x[2], x[3]), bf16_pair(x[4], x[5]), bf16_pair(x[6], x[7]));
        __syncwarp();
    }
}
