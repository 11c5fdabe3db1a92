/* column over n, a task for each m
 * dw add up over all tasks: partial sums a thread, combined at the end */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const int64_t n_M = a.n_M;
    const uint16_t *const __restrict__ t_dy = a.t_dy;
    const float *const __restrict__ t_r = a.t_r;
    float *const partial_0 = (float *)(a.scratch + 0) + (int64_t)blockIdx.x / 64 * 1048576;
    float column_0[32];
    #pragma unroll
    for (int k = 0; k < 32; k++)
        column_0[k] = 0;
    const int64_t tasks = n_M;
    const int lane = (int)threadIdx.x + (int)blockIdx.x % 64 * 512;
    int64_t ahead = (int64_t)blockIdx.x / 64; /* the row that is loaded next */
    group<uint16_t, 8> ahead_x1_dy[4];
    float ahead_6 = 0;
    if (ahead < tasks) {
        const int64_t task = ahead;
        const int64_t i_m = task;
        ahead_6 = t_r[i_m];
        const uint16_t *const p2 = t_dy + i_m * n_N;
        #pragma unroll
        for (int u = 0; u < 4; u++) {
            const int64_t pos = (int64_t)lane * 8 + u * 262144;
            ahead_x1_dy[u] = load_group<ALIGNED, 8>(p2 + pos, stay::plain);
        }
    }
    for (int64_t first = (int64_t)blockIdx.x / 64; first < tasks; first += (int64_t)gridDim.x / 64) {
        const int64_t task = first;
        ahead += (int64_t)gridDim.x / 64;
        group<uint16_t, 8> x1_dy[4];
        #pragma unroll
        for (int u = 0; u < 4; u++)
            x1_dy[u] = ahead_x1_dy[u];
        const float value_6 = ahead_6;
        if (ahead < tasks) {
            const int64_t task = ahead;
            const int64_t i_m = task;
            ahead_6 = t_r[i_m];
            const uint16_t *const p3 = t_dy + i_m * n_N;
            #pragma unroll
            for (int u = 0; u < 4; u++) {
                const int64_t pos = (int64_t)lane * 8 + u * 262144;
                ahead_x1_dy[u] = load_group<ALIGNED, 8>(p3 + pos, stay::plain);
            }
        }
        const int64_t i_m = task;
        const uint16_t *const p4 = t_dy + i_m * n_N;
        #pragma unroll
        for (int u = 0; u < 4; u++) {
            const int64_t pos = (int64_t)lane * 8 + u * 262144;
            #pragma unroll
            for (int v = 0; v < 8; v++) {
                const int64_t i = pos + v;
                const float r5 = f32_from_bf16(element_of(x1_dy[u], v));
                const float e0 = (r5 * value_6);
                column_0[u * 8 + v] += e0;
            }
        }
    }
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = ((int64_t)u * 32768 + lane) * 8;
        float part[8];
        #pragma unroll
        for (int v = 0; v < 8; v++)
            part[v] = column_0[u * 8 + v];
        if (pos < 1048576) store_group<true>(partial_0 + pos, group_of(part));
    }
}

static __global__ void __launch_bounds__(512, 2)
stage_0(const __grid_constant__ arguments a) {
    let_next_launch_start();
    stage_0_work<true>(a);
}

static __global__ void __launch_bounds__(512, 2)
stage_0_unaligned(const __grid_constant__ arguments a) {
    let_next_launch_start();
    stage_0_work<false>(a);
}

static __global__ void __launch_bounds__(512) stage_0_end(const __grid_constant__ arguments a) {
    const int64_t n_M = a.n_M;
    float *const __restrict__ t_dw = a.t_dw;
    wait_for_launch_before();
    int64_t parts = (n_M + 0) / 1;
    parts = parts < 1 ? 1 : parts > 2 ? 2 : parts;
    {
        __shared__ double sums[16][32];
        const float *const partial = (const float *)(a.scratch + 0);
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        const int64_t column = (int64_t)blockIdx.x * 32 + lane;
        double sum = 0;
        if (column < 1048576)
        #pragma unroll 8
            for (int64_t part = (int)threadIdx.x / 32; part < parts; part += 16)
                sum = reduce_sum::of(sum, (double)partial[part * 1048576 + column]);
        if (threadIdx.x % 32 < 32) sums[warp][lane] = sum;
        __syncthreads();
        if (threadIdx.x < 32 && column < 1048576) {
            for (int w = 1; w < 16; w++)
                sum = reduce_sum::of(sum, sums[w][lane]);
            const int64_t i_n = column;
            t_dw[i_n] = (float)sum;
        }
    }
}

static int64_t scratch_bytes(int64_t n_M, int64_t n_N) {
    (void)n_M;
    (void)n_N;
    return 8388608;
}

static int64_t blocks_of(int64_t total, int64_t run, int64_t least, int64_t limit) {
    int64_t blocks = total / run + (total % run > 0);
    return blocks < least ? least : blocks > limit ? limit : blocks;
}

static bool extents_hold(int64_t n_M, int64_t n_N) {
    if (n_M < 0) return false;
    if (n_N < 0) return false;
    return true;
}

static bool holds(int64_t n_M, int64_t n_N) {
    if (n_N != 1048576) return false;
    if (!extents_hold(n_M, n_N)) return false;
    return true;
}

static int launch(void *stream, int64_t n_M, int64_t n_N, const uint16_t *t_dy, const float *t_r, float *t_dw, void *scratch, void *fault) {
    arguments a = {};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_dy = t_dy;
    a.t_r = t_r;
    a.t_dw = t_dw;
    a.scratch = (char *)scratch;
    a.fault = (fault_record *)fault;
    const bool aligned = (((uint64_t)a.t_dy | (uint64_t)a.t_r | (uint64_t)a.t_dw) & 15) == 0;
    int64_t blocks;
    const auto stage_0_for = aligned ? stage_0 : stage_0_unaligned;
    blocks = blocks_of(n_M, 1, 1, 2) * 64;
    if (blocks) stage_0_for<<<(unsigned)blocks, 512, 0, (cudaStream_t)stream>>>(a);
    blocks = blocks_of(32768, 1, 0, 2147483647) * 1;
    if (blocks) stage_0_end<<<(unsigned)blocks, 512, 0, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_64_1048576_fast

extern "C" int64_t kernel_k_scratch(int64_t n_M, int64_t n_N) {
    if (kernel_k_64_1048576_fast::holds(n_M, n_N)) return kernel_k_64_1048576_fast::scratch_bytes(n_M, n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_M, int64_t n_N, const uint16_t *t_dy, const float *t_r, float *t_dw, void *scratch, void *fault) {
    if (kernel_k_64_1048576_fast::holds(n_M, n_N)) return kernel_k_64_1048576_fast::launch(stream, n_M, n_N, t_dy, t_r, t_dw, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
