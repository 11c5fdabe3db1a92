// Every access moves 16 bytes: eight elements from memory, four numbers from shared memory; results leave by 8 bytes.
// A thread's rows and columns are therefore neighbours by fours.
// The same bytes take an eighth of the load instructions, and the issue slots that are saved go to multiply-adds.

// Eight elements of memory as numbers.
static __device__ inline void eight_of(const uint16_t *from, float (&x)[8]) {
    const uint4 word = *(const uint4 *)from;
    const uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
        x[i] = f32_from_bf16((uint16_t)(words[i / 2] >> i % 2 * 16));
}

// Numbers 4 i to 4 i + 3 and 64 + 4 i to 64 + 4 i + 3 of a row.
static __device__ inline void two_fours(const float *row, int i, float (&x)[8]) {
    const float4 low = *(const float4 *)(row + 4 * i), high = *(const float4 *)(row + 64 + 4 * i);
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ arguments args) {
    __shared__ __align__(16) float left[16][132], right[16][128];
    const int t = threadIdx.x, row = t / 16, column = t % 16;
    const int64_t m = blockIdx.y * 128, n = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int64_t from = 0; from < args.K; from += 16) {
        float x[8];
        eight_of(args.a + (m + t / 2) * args.K + from + t % 2 * 8, x);
#pragma unroll
        for (int i = 0; i < 8; i++)
            left[t % 2 * 8 + i][t / 2] = x[i];
        eight_of(args.b + (from + row) * args.N + n + column * 8, x);
        *(float4 *)&right[row][column * 8] = make_float4(x[0], x[1], x[2], x[3]);
        *(float4 *)&right[row][column * 8 + 4] = make_float4(x[4], x[5], x[6], x[7]);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float a[8], b[8];
            two_fours(left[k], row, a);
            two_fours(right[k], column, b);
#pragma unroll
            for (int i = 0; i < 64; i++)
                sum[i / 8][i % 8] = fmaf(a[i / 8], b[i % 8], sum[i / 8][i % 8]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const float *four = &sum[i / 2][i % 2 * 4];
        const int64_t at = m + row * 4 + i / 8 * 64 + i / 2 % 4;
        *(uint2 *)(args.c + at * args.N + n + i % 2 * 64 + column * 4) = {bf16_pair(four[0], four[1]),
                                                                          bf16_pair(four[2], four[3])};
    }
}
