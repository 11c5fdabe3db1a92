/* map over i, scalar lanes
 * no reduction: one pass over the elements */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const int64_t n_N = a.n_N;
    const float *const __restrict__ t_x = a.t_x;
    float *const __restrict__ t_y = a.t_y;
    fault_record *const fault = a.fault;
    const int total = (int)(n_N);
    for (int base = (int)blockIdx.x * 1024; base * 4 < total; base += (int)gridDim.x * 1024) {
        #pragma unroll
        for (int u = 0; u < 4; u++) {
            const int pos = (base + u * 256 + (int)threadIdx.x) * 4;
            if (pos >= total) continue;
            const bool inside = pos + 4 <= total;
            float y0[4] = {};
            #pragma unroll
            for (int v = 0; v < 4; v++) {
                if (inside || pos + v < total) {
                    const int64_t i = pos + v;
                    const bool r1 = (i > 0);
                    const bool ok2 = r1 && in_range((i - 1), n_N, 225, fault);
                    const float r3 = (ok2 ? t_x[(i - 1)] : 0);
                    const float e0 = (r1 ? r3 : 0.0f);
                    y0[v] = e0;
                }
            }
            if (inside)
                store_group<ALIGNED>(t_y + pos, group_of(y0));
            else
                store_part(t_y + pos, group_of(y0), 0, total - pos);
        }
    }
}

static __global__ void __launch_bounds__(256)
stage_0(const __grid_constant__ arguments a) {
    if ((((uint64_t)a.t_x | (uint64_t)a.t_y) & 15) == 0)
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

static int launch(void *stream, int64_t n_N, const float *t_x, float *t_y, void *scratch, void *fault) {
    arguments a = {};
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_y = t_y;
    a.scratch = (char *)scratch;
    a.fault = (fault_record *)fault;
    int64_t blocks;
    blocks = blocks_of(n_N, 4096, 0, 2147483647) * 1;
    if (blocks) stage_0<<<(unsigned)blocks, 256, 0, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_1000_fast

extern "C" int64_t kernel_k_scratch(int64_t n_N) {
    if (kernel_k_1000_fast::holds(n_N)) return kernel_k_1000_fast::scratch_bytes(n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_N, const float *t_x, float *t_y, void *scratch, void *fault) {
    if (kernel_k_1000_fast::holds(n_N)) return kernel_k_1000_fast::launch(stream, n_N, t_x, t_y, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
