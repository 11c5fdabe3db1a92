/* row over n, a task for each m
 * peak_1, total_2 need the whole row over n: 3 passes, a row stays in cache between them */
template <bool ALIGNED>
static __device__ __forceinline__ void stage_0_work(const arguments &a) {
    const int64_t n_M = a.n_M;
    const uint16_t *const __restrict__ t_x = a.t_x;
    uint16_t *const __restrict__ t_y = a.t_y;
    const int64_t tasks = n_M;
    uint16_t *const slot_0 = (uint16_t *)(staged_memory() + 0);
    __shared__ uint64_t arrived;
    int round = 0;
    if (threadIdx.x == 0) {
        begin_arrivals(&arrived, 1);
        ptx_fence_mbarrier_init();
    }
    __syncthreads();
    for (int64_t first = (int64_t)blockIdx.x * 32; first < tasks; first += (int64_t)gridDim.x * 32) {
        uint32_t thread = threadIdx.x;
        stay_inside(thread);
        const int lane = (int)(thread % 4);
        const int rows = tasks - first < 32 ? (int)(tasks - first) : 32;
        begin_rows<ALIGNED, 128>(slot_0, t_x + first * 100, rows * 100, &arrived, false);
        wait_for_arrivals(&arrived, round);
        if (!ALIGNED || rows < 32) __syncthreads();
        round ^= 1;
        const int row = (int)(thread / 4), place = row * 100;
        int64_t task = first + row;
        const bool live = task < tasks; /* the others have no row */
        task = live ? task : tasks - 1;
        const int64_t i_m = task;
        float stash_17[26];
        float a0 = -INFINITY;
        const uint16_t *const p1 = t_x + i_m * n_N;
        group<uint16_t, 2> x2_x[13] = {};
        if (live) {
            #pragma unroll
            for (int u = 0; u < 13; u++) {
                const int64_t pos = (int64_t)lane * 2 + u * 8;
                if (pos >= 100) continue;
                x2_x[u] = load_staged<2>(slot_0 + place + pos, false);
            }
        }
        #pragma unroll
        for (int u = 0; u < 13; u++) {
            const int64_t pos = (int64_t)lane * 2 + u * 8;
            if (pos >= 100) continue;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
                const int64_t i = pos + v;
                const float r3 = f32_from_bf16(element_of(x2_x[u], v));
                const float e0 = r3;
                a0 = reduce_max::of(a0, e0);
            }
        }
        a0 = reduce_row<4, reduce_max>(a0, &a0);
        const float s0_peak_1 = (float)a0;
        float a1 = 0;
        #pragma unroll
        for (int u = 0; u < 13; u++) {
            const int64_t pos = (int64_t)lane * 2 + u * 8;
            if (pos >= 100) continue;
            #pragma unroll
            for (int v = 0; v < 2; v++) {
                const int64_t i = pos + v;
                const float r4 = f32_from_bf16(element_of(x2_x[u], v));
                const float r5 = fast_exp((r4 - s0_peak_1));
                stash_17[u * 2 + v] = r5;
                const float e1 = r5;
                a1 += e1;
            }
        }
        a1 = reduce_row<4, reduce_sum>(a1, &a1);
        const float s1_total_2 = (float)a1;
        const float r6 = f32_div(1.0f, s1_total_2);
        #pragma unroll
        for (int u = 0; u < 13; u++) {
            const int64_t pos = (int64_t)lane * 2 + u * 8;
            if (pos >= 100) continue;
            float y2[2];
            #pragma unroll
            for (int v = 0; v < 2; v++) {
                const int64_t i = pos + v;
                const float r7 = stash_17[u * 2 + v];
                const float e2 = (r7 * r6);
                y2[v] = e2;
            }
            store_staged(slot_0 + place + pos, bf16_group_of(y2), false);
        }
        hand_over();
        return_rows<ALIGNED, 128>(t_y + first * 100, slot_0, rows * 100);
        ptx_bulk_commit();
        ptx_bulk_wait_read<0>();
        if (first + (int64_t)gridDim.x * 32 < tasks) __syncthreads();
    }
}

static __global__ void __launch_bounds__(128)
stage_0(const __grid_constant__ arguments a) {
    stage_0_work<true>(a);
}

static __global__ void __launch_bounds__(128)
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
    if (n_N != 100) return false;
    if (!extents_hold(n_M, n_N)) return false;
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
    blocks = blocks_of(n_M, 32, 0, 2147483647) * 1;
    cudaFuncSetAttribute(stage_0_for, cudaFuncAttributeMaxDynamicSharedMemorySize, 6400);
    if (blocks) stage_0_for<<<(unsigned)blocks, 128, 6400, (cudaStream_t)stream>>>(a);
    return (int)cudaGetLastError();
}
} // namespace kernel_k_64_100_fast

extern "C" int64_t kernel_k_scratch(int64_t n_M, int64_t n_N) {
    if (kernel_k_64_100_fast::holds(n_M, n_N)) return kernel_k_64_100_fast::scratch_bytes(n_M, n_N);
    return -1;
}

extern "C" int kernel_k(void *stream, int64_t n_M, int64_t n_N, const uint16_t *t_x, uint16_t *t_y, void *scratch, void *fault) {
    if (kernel_k_64_100_fast::holds(n_M, n_N)) return kernel_k_64_100_fast::launch(stream, n_M, n_N, t_x, t_y, scratch, fault);
    return (int)cudaErrorInvalidValue; /* none is for these extents */
}
