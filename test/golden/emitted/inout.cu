/* map over i
 * no reduction: one pass over the elements */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const int64_t n_N = a.n_N;
    float *const __restrict__ t_p = a.t_p;
    const uint16_t *const __restrict__ t_g = a.t_g;
    const float t_lr = (float)a.t_lr_value;
    const int total = (int)(n_N);
    for (int base = (int)blockIdx.x * 512; base * 4 < total; base += (int)gridDim.x * 512) {
        group<float, 4> x1_p[1];
        group<uint16_t, 4> x2_g[1];
        #pragma unroll
        for (int u = 0; u < 1; u++) {
            const int pos = (base + u * 512 + (int)threadIdx.x) * 4;
            if (pos >= total) continue;
            const bool inside = pos + 4 <= total;
            x1_p[u] = inside ? load_group<ALIGNED, 4>(t_p + pos, stay::plain) : load_part<4>(t_p + pos, 0, total - pos);
            x2_g[u] = inside ? load_group<ALIGNED, 4>(t_g + pos, stay::plain) : load_part<4>(t_g + pos, 0, total - pos);
        }
        #pragma unroll
        for (int u = 0; u < 1; u++) {
            const int pos = (base + u * 512 + (int)threadIdx.x) * 4;
            if (pos >= total) continue;
            const bool inside = pos + 4 <= total;
            float y0[4] = {};
            #pragma unroll
            for (int v = 0; v < 4; v++) {
                const int64_t i = pos + v;
                const float r3 = element_of(x1_p[u], v);
                const float r4 = f32_from_bf16(element_of(x2_g[u], v));
                const float e0 = (r3 - (t_lr * r4));
                y0[v] = e0;
            }
            if (inside)
                store_group<ALIGNED>(t_p + pos, group_of(y0));
            else
                store_part(t_p + pos, group_of(y0), 0, total - pos);
        }
    }
}

static __global__ void __launch_bounds__(512)
stage_0(const __grid_constant__ arguments a) {
    if ((((uint64_t)a.t_p | (uint64_t)a.t_g) & 15) == 0)
        stage_0_work<true>(a);
    else
        stage_0_work<false>(a);
}

static int64_t scratch_bytes(int64_t n_N) {
    (void)n_N;
    return 0;
}

static int64_t blocks_of(int64_t total, int64_t run, int64_t least, int64_t limit) {
    int64_t blocks = total / run + (total % run > 0);
    return blocks < least ? least : blocks > limit ? limit : blocks;
}

static bool extents_hold(int64_t n_N) {
    if (n_N < 0) return false;
    return true;
}

static bool holds(int64_t n_N) {
    if (!extents_hold(n_N)) return false;
    if (n_N > 1073741823) return false;
    return true;
}

static int launch(void *stream, int64_t n_N, float *t_p, const uint16_t *t_g, float t_lr, void *scratch, void *fault) {
    arguments a = {};
    a.n_N = n_N;
    a.t_p = t_p;
    a.t_g = t_g;
    a.t_lr_value = (double)t_lr;
    a.scratch = (char *)scratch;
    a.fault = (fault_record *)fault;
    int64_t blocks;
    blocks = blocks_of(n_N, 2048, 0, 2147483647) * 1;
    if (blocks) stage_0<<<(unsigned)blocks, 512, 0, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_1000_fast

extern "C" int64_t kernel_k_scratch(int64_t n_N) {
    if (kernel_k_1000_fast::holds(n_N)) return kernel_k_1000_fast::scratch_bytes(n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_N, float *t_p, const uint16_t *t_g, float t_lr, void *scratch, void *fault) {
    if (kernel_k_1000_fast::holds(n_N)) return kernel_k_1000_fast::launch(stream, n_N, t_p, t_g, t_lr, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
