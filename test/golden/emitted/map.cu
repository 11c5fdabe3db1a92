/* map over m, n
 * no reduction: one pass over the elements */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const int64_t n_M = a.n_M;
    const float *const __restrict__ t_x = a.t_x;
    const float *const __restrict__ t_b = a.t_b;
    uint16_t *const __restrict__ t_y = a.t_y;
    const int total = (int)(n_M * n_N);
    for (int base = (int)blockIdx.x * 512; base * 4 < total; base += (int)gridDim.x * 512) {
        group<float, 4> x1_x[2];
        group<float, 4> x2_b[2];
        #pragma unroll
        for (int u = 0; u < 2; u++) {
            const int pos = (base + u * 256 + (int)threadIdx.x) * 4;
            if (pos >= total) continue;
            const int64_t start = (uint32_t)pos % (uint32_t)n_N;
            const uint32_t rest_1 = (uint32_t)pos / (uint32_t)n_N;
            const int64_t i_m = rest_1;
            const float *const p3 = t_x + i_m * n_N;
            x1_x[u] = load_group<ALIGNED, 4>(p3 + start, stay::plain);
            x2_b[u] = load_group<ALIGNED, 4>(t_b + start, stay::plain);
        }
        #pragma unroll
        for (int u = 0; u < 2; u++) {
            const int pos = (base + u * 256 + (int)threadIdx.x) * 4;
            if (pos >= total) continue;
            const int64_t start = (uint32_t)pos % (uint32_t)n_N;
            const uint32_t rest_1 = (uint32_t)pos / (uint32_t)n_N;
            const int64_t i_m = rest_1;
            const float *const p4 = t_x + i_m * n_N;
            float y0[4];
            #pragma unroll
            for (int v = 0; v < 4; v++) {
                const int64_t i = start + v;
                const float r5 = element_of(x1_x[u], v);
                const float r6 = element_of(x2_b[u], v);
                const float e0 = f32_gelu((r5 + r6));
                y0[v] = e0;
            }
            store_group<ALIGNED>(t_y + i_m * n_N + start, bf16_group_of(y0));
        }
    }
}

static __global__ void __launch_bounds__(256)
stage_0(const __grid_constant__ arguments a) {
    if ((((uint64_t)a.t_x | (uint64_t)a.t_b | (uint64_t)a.t_y) & 15) == 0)
        stage_0_work<true>(a);
    else
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
    if (n_M * n_N > 1073741823) return false;
    return true;
}

static int launch(void *stream, int64_t n_M, int64_t n_N, const float *t_x, const float *t_b, uint16_t *t_y, void *scratch, void *fault) {
    arguments a = {};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_b = t_b;
    a.t_y = t_y;
    a.scratch = (char *)scratch;
    a.fault = (fault_record *)fault;
    int64_t blocks;
    blocks = blocks_of(n_M * n_N, 2048, 0, 2147483647) * 1;
    if (blocks) stage_0<<<(unsigned)blocks, 256, 0, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_64_1000_fast

extern "C" int64_t kernel_k_scratch(int64_t n_M, int64_t n_N) {
    if (kernel_k_64_1000_fast::holds(n_M, n_N)) return kernel_k_64_1000_fast::scratch_bytes(n_M, n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_M, int64_t n_N, const float *t_x, const float *t_b, uint16_t *t_y, void *scratch, void *fault) {
    if (kernel_k_64_1000_fast::holds(n_M, n_N)) return kernel_k_64_1000_fast::launch(stream, n_M, n_N, t_x, t_b, t_y, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
