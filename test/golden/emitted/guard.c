typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_N;
    const float *t_x;
    float *t_y;
    fault_record *fault;
} arguments;

static __attribute__((noinline, cold)) bool out_of_range(int64_t value, int64_t access, fault_record *fault) {
#ifdef _OPENMP
#pragma omp critical(headroom_fault)
#endif
    if (!fault->access) *fault = (fault_record){access, value};
    return false;
}

static inline bool in_range(int64_t value, int64_t extent, int64_t access, fault_record *fault) {
    return (uint64_t)value < (uint64_t)extent || out_of_range(value, access, fault);
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

/* map over i, scalar lanes
 * no reduction: one pass over the elements */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_N = a->n_N;
    const float *const restrict t_x = a->t_x;
    float *const restrict t_y = a->t_y;
    fault_record *const fault = a->fault;
    (void)a;
    (void)work;
    const int64_t lines = (n_N + 63) / 64, share_end = lines * (thread + 1) / threads * 64;
    const int64_t end = share_end < n_N ? share_end : n_N;
    for (int64_t first = lines * thread / threads * 64; first < end; first += 65536) {
        const int64_t last = first + 65536 < end ? first + 65536 : end;
        {
            float *const q0 = t_y;
            for (int64_t i = first; i < last; i++) {
                const bool r1 = (i > 0);
                const bool ok2 = r1 && in_range((i - 1), n_N, 225, fault);
                const float r3 = (ok2 ? t_x[(i - 1)] : 0);
                q0[i] = (r1 ? r3 : 0.0f);
            }
        }
    }
}

int64_t kernel_k_scratch(int64_t n_N, int threads) {
    (void)n_N;
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

int kernel_k(int64_t n_N, const float *t_x, float *t_y, void *scratch, int threads) {
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_y = t_y;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}
