/* row over n, a task for each m
 * peak_1, total_2 need the whole row over n: 3 passes, a row stays in cache between them */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const int64_t n_M = a.n_M;
    const uint16_t *const __restrict__ t_x = a.t_x;
    uint16_t *const __restrict__ t_y = a.t_y;
    const int64_t tasks = n_M;
    const int lane = (int)(threadIdx.x % 32);
    const int64_t task = (int64_t)blockIdx.x * 2 + threadIdx.x / 32;
    if (task >= tasks) return;
    const int64_t i_m = task;
    float stash_17[32];
    float a0 = -INFINITY;
    const uint16_t *const p1 = t_x + i_m * n_N;
    group<uint16_t, 8> x2_x[4];
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 8 + u * 256;
        if (pos >= 1000) continue;
        x2_x[u] = load_group<ALIGNED, 8>(p1 + pos, stay::plain);
    }
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 8 + u * 256;
        if (pos >= 1000) continue;
        #pragma unroll
        for (int v = 0; v < 8; v++) {
            const int64_t i = pos + v;
            const float r3 = f32_from_bf16(element_of(x2_x[u], v));
            const float e0 = r3;
            a0 = reduce_max::of(a0, e0);
        }
    }
    a0 = reduce_row<32, reduce_max>(a0, &a0);
    const float s0_peak_1 = (float)a0;
    float a1 = 0;
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 8 + u * 256;
        if (pos >= 1000) continue;
        #pragma unroll
        for (int v = 0; v < 8; v++) {
            const int64_t i = pos + v;
            const float r4 = f32_from_bf16(element_of(x2_x[u], v));
            const float r5 = fast_exp((r4 - s0_peak_1));
            stash_17[u * 8 + v] = r5;
            const float e1 = r5;
            a1 += e1;
        }
    }
    a1 = reduce_row<32, reduce_sum>(a1, &a1);
    const float s1_total_2 = (float)a1;
    const float r6 = f32_div(1.0f, s1_total_2);
    #pragma unroll
    for (int u = 0; u < 4; u++) {
        const int64_t pos = (int64_t)lane * 8 + u * 256;
        if (pos >= 1000) continue;
        float y2[8];
        #pragma unroll
        for (int v = 0; v < 8; v++) {
            const int64_t i = pos + v;
            const float r7 = stash_17[u * 8 + v];
            const float e2 = (r7 * r6);
            y2[v] = e2;
        }
        store_group<ALIGNED>(t_y + task * 1000 + pos, bf16_group_of(y2));
    }
}

static __global__ void __launch_bounds__(64)
stage_0(const __grid_constant__ arguments a) {
    stage_0_work<true>(a);
}

static __global__ void __launch_bounds__(64)
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
    if (n_N != 1000) return false;
    if (!extents_hold(n_M, n_N)) return false;
    if (n_M > 4294967294) return false;
    return true;
}

static int launch(void *stream, int64_t n_M, int64_t n_N, const uint16_t *t_x, uint16_t *t_y, void *scratch, void *fault) {
    arguments a = {};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_y = t_y;
    a.scratch = (char *)scratch;
    a.fault = (fault_record *)fault;
    const bool aligned = (((uint64_t)a.t_x | (uint64_t)a.t_y) & 15) == 0;
    int64_t blocks;
    const auto stage_0_for = aligned ? stage_0 : stage_0_unaligned;
    blocks = blocks_of(n_M, 2, 0, 2147483647) * 1;
    if (blocks) stage_0_for<<<(unsigned)blocks, 64, 0, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_64_1000_fast

extern "C" int64_t kernel_k_scratch(int64_t n_M, int64_t n_N) {
    if (kernel_k_64_1000_fast::holds(n_M, n_N)) return kernel_k_64_1000_fast::scratch_bytes(n_M, n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_M, int64_t n_N, const uint16_t *t_x, uint16_t *t_y, void *scratch, void *fault) {
    if (kernel_k_64_1000_fast::holds(n_M, n_N)) return kernel_k_64_1000_fast::launch(stream, n_M, n_N, t_x, t_y, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
