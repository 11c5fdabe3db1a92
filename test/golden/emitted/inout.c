typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_N;
    float *t_p;
    const uint16_t *t_g;
    float t_lr;
    fault_record *fault;
} arguments;

static bool extents_hold(int64_t n_N) {
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

/* map over i
 * no reduction: one pass over the elements */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_N = a->n_N;
    float *const restrict t_p = a->t_p;
    const uint16_t *const restrict t_g = a->t_g;
    const float t_lr = a->t_lr;
    (void)a;
    (void)work;
    const int64_t lines = (n_N + 63) / 64, share_end = lines * (thread + 1) / threads * 64;
    const int64_t end = share_end < n_N ? share_end : n_N;
    for (int64_t first = lines * thread / threads * 64; first < end; first += 65536) {
        const int64_t last = first + 65536 < end ? first + 65536 : end;
        {
            float *const q0 = t_p;
            int64_t i = first;
            for (; i + HR_LANES <= last; i += HR_LANES) {
                prefetch_read(t_p + i + 1024);
                prefetch_read(t_g + i + 2048);
                vf_store_f32(q0 + i, (vf_load_f32(t_p + i) - (t_lr * vf_load_bf16(t_g + i))));
            }
            if (i < last) {
                const int lanes = (int)(last - i);
                prefetch_read(t_p + i + 1024);
                prefetch_read(t_g + i + 2048);
                const vf r1 = (vf_load_part_f32(t_p + i, lanes) - (t_lr * vf_load_part_bf16(t_g + i, lanes)));
                vf_store_part_f32(q0 + i, r1, lanes);
            }
        }
    }
}

int64_t kernel_k_scratch(int64_t n_N, int threads) {
    (void)n_N;
    if (!extents_hold(n_N)) return -1;
    int64_t work = 0;
    (void)threads;
    return work;
}

static void run(arguments a, char *scratch, int threads) {
    const int64_t n_N = a.n_N;
    char *work = scratch;
    const int64_t pieces_0 = work_pieces_of(1 * n_N, threads);
    work_share shares_0[threads];
    memset(shares_0, 0, sizeof shares_0);
    (void)threads; /* unused without OpenMP */
    #ifdef _OPENMP
    #pragma omp parallel num_threads(threads)
    #endif
    {
        const int64_t thread = thread_number(), count = thread_count();
        for (int64_t piece, other = 0; (piece = work_piece(shares_0, pieces_0, thread, count, &other)) >= 0;)
            stage_0(&a, piece, count * pieces_0, work);
        barrier();
    }
}

int kernel_k(int64_t n_N, float *t_p, const uint16_t *t_g, float t_lr, void *scratch, int threads) {
    if (!extents_hold(n_N)) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_N = n_N;
    a.t_p = t_p;
    a.t_g = t_g;
    a.t_lr = t_lr;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}
