/* row over n, a task for each m
 * sum_1 needs the whole row over n: 2 passes, a row stays in cache between them */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const float *const __restrict__ t_x = a.t_x;
    const float *const __restrict__ t_w = a.t_w;
    float *const __restrict__ t_y = a.t_y;
    float *const __restrict__ t_r = a.t_r;
    __shared__ float slots_0[8];
    const int lane = (int)threadIdx.x;
    const int64_t task = (int64_t)blockIdx.x;
    const int64_t i_m = task;
    float a0 = 0;
    const float *const p1 = t_x + i_m * n_N;
    group<float, 4> x2_x[4];
    group<float, 4> x3_w[4];
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 4 + u * 1024;
        x2_x[u] = load_group<ALIGNED, 4>(p1 + pos, stay::in_l2);
        x3_w[u] = load_group<ALIGNED, 4>(t_w + pos, stay::plain);
    }
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 4 + u * 1024;
        #pragma unroll
        for (int v = 0; v < 4; v++) {
            const int64_t i = pos + v;
            const float r4 = element_of(x2_x[u], v);
            const float e0 = f32_powi(r4, 2);
            a0 += e0;
        }
    }
    leave_share<256, reduce_sum>(a0, slots_0);
    __syncthreads();
    a0 = take_shares<256, reduce_sum>(slots_0);
    const float s0_sum_1 = (float)a0;
    const float r5 = f32_rsqrt(f32_div(s0_sum_1, (float)n_N));
    const float s1_r = r5;
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 4 + u * 1024;
        float y2[4];
        #pragma unroll
        for (int v = 0; v < 4; v++) {
            const int64_t i = pos + v;
            const float r6 = element_of(x2_x[u], v);
            const float r7 = element_of(x3_w[u], v);
            const float e2 = ((r6 * s1_r) * r7);
            y2[v] = e2;
        }
        store_group<ALIGNED>(t_y + task * 4096 + pos, group_of(y2));
    }
    if (lane == 0) {
        if (t_r) t_r[i_m] = s1_r;
    }
}

static __global__ void __launch_bounds__(256)
stage_0(const __grid_constant__ arguments a) {
    stage_0_work<true>(a);
}

static __global__ void __launch_bounds__(256)
stage_0_unaligned(const __grid_constant__ arguments a) {
    stage_0_work<false>(a);
}

static int64_t scratch_bytes(int64_t n_M, int64_t n_N) {
    (void)n_M;
    (void)n_N;
    return 0;
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
    if (n_N != 4096) return false;
    if (!extents_hold(n_M, n_N)) return false;
    if (n_M > 2147483647) return false;
    return true;
}

static int launch(void *stream, int64_t n_M, int64_t n_N, const float *t_x, const float *t_w, float *t_y, float *t_r, void *scratch, void *fault) {
    arguments a = {};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_w = t_w;
    a.t_y = t_y;
    a.t_r = t_r;
    a.scratch = (char *)scratch;
    a.fault = (fault_record *)fault;
    const bool aligned = (((uint64_t)a.t_x | (uint64_t)a.t_w | (uint64_t)a.t_y | (uint64_t)a.t_r) & 15) == 0;
    int64_t blocks;
    const auto stage_0_for = aligned ? stage_0 : stage_0_unaligned;
    blocks = blocks_of(n_M, 1, 0, 2147483647) * 1;
    if (blocks) stage_0_for<<<(unsigned)blocks, 256, 0, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_65536_4096_fast

extern "C" int64_t kernel_k_scratch(int64_t n_M, int64_t n_N) {
    if (kernel_k_65536_4096_fast::holds(n_M, n_N)) return kernel_k_65536_4096_fast::scratch_bytes(n_M, n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_M, int64_t n_N, const float *t_x, const float *t_w, float *t_y, float *t_r, void *scratch, void *fault) {
    if (kernel_k_65536_4096_fast::holds(n_M, n_N)) return kernel_k_65536_4096_fast::launch(stream, n_M, n_N, t_x, t_w, t_y, t_r, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
