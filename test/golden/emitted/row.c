typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_M;
    int64_t n_N;
    const uint16_t *t_x;
    uint16_t *t_y;
    fault_record *fault;
} arguments;

static inline int64_t thread_number(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static inline int64_t thread_count(void) {
#ifdef _OPENMP
    return omp_get_num_threads();
#else
    return 1;
#endif
}

static inline void barrier(void) {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

/* row over n, a task for each m
 * peak_1, total_2 need the whole row over n: 3 passes, a row stays in cache between them */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const uint16_t *const restrict t_x = a->t_x;
    uint16_t *const restrict t_y = a->t_y;
    (void)a;
    char *const area = work + thread * (1 * (((n_N) * 4 + 1152) / 64 * 64) + 0);
    float *const kept_0 = (float *)(area + 0 * (((n_N) * 4 + 1152) / 64 * 64));
    const int64_t tasks = n_M;
    for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; task++) {
        const int64_t i_m = task;
        const uint16_t *const p1 = t_x + i_m * n_N;
        vf a0[4] = {vf_of(-INFINITY), vf_of(-INFINITY), vf_of(-INFINITY), vf_of(-INFINITY)};
        {
            float *const k0 = kept_0;
            int64_t i = 0;
            for (; i + 4 * HR_LANES <= n_N;) {
                prefetch_read(p1 + n_N + (0 * (n_N) + i) / 4);
#pragma GCC unroll 4
                for (int way = 0; way < 4; way++, i += HR_LANES) {
                    a0[way] = vf_max(a0[way], vf_load_turn_bf16(p1 + i, way));
                }
            }
            for (; i + HR_LANES <= n_N; i += HR_LANES) {
                prefetch_read(p1 + n_N + (0 * (n_N) + i) / 4);
                a0[0] = vf_max(a0[0], vf_load_bf16(p1 + i));
            }
            if (i < n_N) {
                const int lanes = (int)(n_N - i);
                prefetch_read(p1 + n_N + (0 * (n_N) + i) / 4);
                a0[0] = vf_max(a0[0], vf_select(vm_first(lanes), vf_load_part_bf16(p1 + i, lanes), vf_of(-INFINITY)));
            }
        }
        const float s0_peak_1 = vf_fold_max(vf_max((vf_max((a0[0]), (a0[1]))), (vf_max((a0[2]), (a0[3])))));
        vf a1[4] = {vf_of(0), vf_of(0), vf_of(0), vf_of(0)};
        {
            float *const k0 = kept_0;
            int64_t i = 0;
            for (; i + 4 * HR_LANES <= n_N;) {
                prefetch_read(p1 + n_N + (1 * (n_N) + i) / 4);
#pragma GCC unroll 4
                for (int way = 0; way < 4; way++, i += HR_LANES) {
                    const vf r2 = vf_exp((vf_load_bf16(p1 + i) - s0_peak_1));
                    vf_store_f32(k0 + i, r2);
                    a1[way] = a1[way] + r2;
                }
            }
            for (; i + HR_LANES <= n_N; i += HR_LANES) {
                prefetch_read(p1 + n_N + (1 * (n_N) + i) / 4);
                const vf r3 = vf_exp((vf_load_bf16(p1 + i) - s0_peak_1));
                vf_store_f32(k0 + i, r3);
                a1[0] = a1[0] + r3;
            }
            if (i < n_N) {
                const int lanes = (int)(n_N - i);
                prefetch_read(p1 + n_N + (1 * (n_N) + i) / 4);
                const vf r4 = vf_exp((vf_load_part_bf16(p1 + i, lanes) - s0_peak_1));
                vf_store_f32(k0 + i, r4);
                a1[0] = a1[0] + vf_select(vm_first(lanes), r4, vf_of(0));
            }
        }
        const float s1_total_2 = vf_fold_sum(((a1[0]) + (a1[1])) + ((a1[2]) + (a1[3])));
        const float r5 = f32_div(1.0f, s1_total_2);
        {
            uint16_t *const q2 = t_y + i_m * n_N;
            float *const k0 = kept_0;
            int64_t i = 0;
            const int64_t head = stream_head(q2 + i, 2, 2);
            const int64_t begin = n_N - i < head ? n_N : i + head;
            while (i < begin) {
                const int lanes = begin - i < HR_LANES ? (int)(begin - i) : HR_LANES;
                prefetch_read(p1 + n_N + (2 * (n_N) + 2 * i) / 4);
                const vf r6 = vf_load_f32(k0 + i);
                vf_store_part_bf16(q2 + i, (r6 * r5), lanes);
                i += lanes;
            }
            const bool aligned_2 = stream_aligned(q2 + i, 2, 2);
            for (; i + 2 * HR_LANES <= n_N;) {
                prefetch_read(p1 + n_N + (2 * (n_N) + 2 * i) / 4);
                vf w2[2];
#pragma GCC unroll 2
                for (int way = 0; way < 2; way++, i += HR_LANES) {
                    const vf r7 = vf_load_f32(k0 + i);
                    w2[way] = (r7 * r5);
                }
                vf_stream_pair_bf16(q2 + i - 2 * HR_LANES, w2[0], w2[1], aligned_2);
            }
            for (; i + HR_LANES <= n_N; i += HR_LANES) {
                prefetch_read(p1 + n_N + (2 * (n_N) + 2 * i) / 4);
                const vf r8 = vf_load_f32(k0 + i);
                vf_stream_bf16(q2 + i, (r8 * r5), aligned_2);
            }
            if (i < n_N) {
                const int lanes = (int)(n_N - i);
                prefetch_read(p1 + n_N + (2 * (n_N) + 2 * i) / 4);
                const vf r9 = vf_load_f32(k0 + i);
                vf_store_part_bf16(q2 + i, (r9 * r5), lanes);
            }
        }
    }
    stream_end();
}

int64_t kernel_k_scratch(int64_t n_M, int64_t n_N, int threads) {
    (void)n_M;
    (void)n_N;
    int64_t work = 0;
    const int64_t stage_0 = threads * (1 * (((n_N) * 4 + 1152) / 64 * 64) + 0);
    if (stage_0 > work) work = stage_0;
    return work;
}

static void run(arguments a, char *scratch, int threads) {
    char *work = scratch;
    (void)threads; /* unused without OpenMP */
    #ifdef _OPENMP
    #pragma omp parallel num_threads(threads)
    #endif
    {
        const int64_t thread = thread_number(), count = thread_count();
        stage_0(&a, thread, count, work);
        barrier();
    }
}

int kernel_k(int64_t n_M, int64_t n_N, const uint16_t *t_x, uint16_t *t_y, void *scratch, int threads) {
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_y = t_y;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}
