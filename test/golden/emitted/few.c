typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_M;
    int64_t n_N;
    const uint16_t *t_x;
    const float *t_b;
    uint16_t *t_y;
    fault_record *fault;
} arguments;

static bool extents_hold(int64_t n_M, int64_t n_N) {
    if (n_M < 0) return false;
    if (n_N < 0) return false;
    return true;
}

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

/* map over n, a task for each m
 * no reduction: one pass over the elements */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const uint16_t *const restrict t_x = a->t_x;
    const float *const restrict t_b = a->t_b;
    uint16_t *const restrict t_y = a->t_y;
    (void)a;
    (void)work;
    const int64_t lines = (n_N + 63) / 64, first = lines * thread / threads * 64;
    const int64_t share = lines * (thread + 1) / threads * 64, last = share < n_N ? share : n_N;
    for (int64_t task = 0; task < n_M && first < last; task++) {
        const int64_t i_m = task;
        const uint16_t *const p1 = t_x + i_m * n_N;
        {
            const bool whole = n_N % (2 * HR_LANES) == 0 && stream_aligned(t_y, 2, 2);
            uint16_t *const q0 = t_y + i_m * n_N;
            if (whole) {
                for (int64_t i = first; i < last;) {
                    prefetch_read(p1 + i + 2048);
#pragma GCC unroll 2
                    for (int way = 0; way < 2; way++, i += HR_LANES) {
                        vf_stream_f16(q0 + i, (vf_load_f16(p1 + i) + vf_load_f32(t_b + i)), true);
                    }
                }
            } else {
                int64_t i = first;
                const int64_t begin = stream_begin(q0, 2, 2, i, last);
                stream_ask_end(q0 + n_N, 2, 2);
                while (i < begin) {
                    const int lanes = begin - i < HR_LANES ? (int)(begin - i) : HR_LANES;
                    prefetch_read(p1 + i + 2048);
                    vf_store_part_f16(q0 + i, (vf_load_part_f16(p1 + i, lanes) + vf_load_part_f32(t_b + i, lanes)), lanes);
                    i += lanes;
                }
                for (; i + 2 * HR_LANES <= last;) {
                    prefetch_read(p1 + i + 2048);
#pragma GCC unroll 2
                    for (int way = 0; way < 2; way++, i += HR_LANES) {
                        vf_stream_f16(q0 + i, (vf_load_f16(p1 + i) + vf_load_f32(t_b + i)), true);
                    }
                }
                for (; i + HR_LANES <= last; i += HR_LANES) {
                    prefetch_read(p1 + i + 2048);
                    vf_store_f16(q0 + i, (vf_load_f16(p1 + i) + vf_load_f32(t_b + i)));
                }
                if (i < last) {
                    const int lanes = (int)(last - i);
                    prefetch_read(p1 + i + 2048);
                    vf_store_part_f16(q0 + i, (vf_load_part_f16(p1 + i, lanes) + vf_load_part_f32(t_b + i, lanes)), lanes);
                }
            }
        }
    }
    stream_end();
}

int64_t kernel_k_scratch(int64_t n_M, int64_t n_N, int threads) {
    (void)n_M;
    (void)n_N;
    if (!extents_hold(n_M, n_N)) return -1;
    int64_t work = 0;
    (void)threads;
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

int kernel_k(int64_t n_M, int64_t n_N, const uint16_t *t_x, const float *t_b, uint16_t *t_y, void *scratch, int threads) {
    if (!extents_hold(n_M, n_N)) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_b = t_b;
    a.t_y = t_y;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}
