typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_T;
    int64_t n_C;
    int64_t n_V;
    const int32_t *t_at;
    const uint16_t *t_dy;
    float *t_d;
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

static bool extents_hold(int64_t n_T, int64_t n_C, int64_t n_V) {
    if (n_T < 0) return false;
    if (n_C < 0) return false;
    if (n_V < 0) return false;
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

/* scatter over c, a task for each t, scalar lanes
 * several elements may add into one place: each thread owns its share of the places and goes through them in order */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_T = a->n_T;
    const int64_t n_C = a->n_C;
    const int64_t n_V = a->n_V;
    const int32_t *const restrict t_at = a->t_at;
    const uint16_t *const restrict t_dy = a->t_dy;
    float *const restrict t_d = a->t_d;
    fault_record *const fault = a->fault;
    (void)a;
    const int64_t tasks = n_T;
    for (int64_t begin = 0; begin < tasks; begin += 1048576) {
        const int64_t end = tasks - begin < 1048576 ? tasks : begin + 1048576;
        if (begin) barrier(); /* other threads may still go through the tasks before */
        task_order order = task_order_of(work, end - begin, n_V, thread, threads);
        for (int counted = 0; counted < 2; counted++) {
            for (int64_t task = begin; task < end; task++) {
                const int64_t i_t = task;
                const int32_t r1 = t_at[i_t];
                if (!(in_range(r1, n_V, 257, fault))) continue;
                task_order_add(&order, task, r1, counted);
            }
            if (!counted) task_order_begin(&order);
        }
        const int64_t row = n_C * 4, ahead = row < 1 || row > 8192 ? 1 : 8192 / row;
        for (int64_t n = 0; n < order.count; n++) {
            const int64_t task = order.tasks[n];
            const int64_t next = order.tasks[n + ahead < order.count ? n + ahead : n];
            const int64_t i_t = task;
            const int32_t r2 = t_at[i_t];
            const int64_t place = r2 * n_C;
            const float *const n3 = t_d + (t_at[next]) * n_C;
            const uint16_t *const n4 = t_dy + next * n_C;
            const uint16_t *const p5 = t_dy + i_t * n_C;
            for (int64_t block = 0; block < n_C; block += 32) {
                prefetch_read(n3 + block);
                prefetch_read(n3 + block + 16);
                prefetch_read(n4 + block);
                const int64_t stop = n_C - block < 32 ? n_C : block + 32;
#pragma omp simd
                for (int64_t i = block; i < stop; i++) {
                    t_d[place + i] += f32_from_bf16(p5[i]);
                }
            }
        }
    }
}

int64_t kernel_k_scratch(int64_t n_T, int64_t n_C, int64_t n_V, int threads) {
    (void)n_T;
    (void)n_C;
    (void)n_V;
    if (!extents_hold(n_T, n_C, n_V)) return -1;
    int64_t work = 0;
    const int64_t stage_0 = 128 * threads + 16 * (n_T < 1048576 ? n_T : 1048576);
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

int kernel_k(int64_t n_T, int64_t n_C, int64_t n_V, const int32_t *t_at, const uint16_t *t_dy, float *t_d, void *scratch, int threads) {
    if (!extents_hold(n_T, n_C, n_V)) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_T = n_T;
    a.n_C = n_C;
    a.n_V = n_V;
    a.t_at = t_at;
    a.t_dy = t_dy;
    a.t_d = t_d;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}
