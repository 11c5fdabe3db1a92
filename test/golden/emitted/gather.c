typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_T;
    int64_t n_V;
    int64_t n_C;
    const int32_t *t_at;
    const uint16_t *t_table;
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

static bool extents_hold(int64_t n_T, int64_t n_V, int64_t n_C) {
    if (n_T < 0) return false;
    if (n_V < 0) return false;
    if (n_C < 0) return false;
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

/* map over c, a task for each t
 * no reduction: one pass over the elements */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_T = a->n_T;
    const int64_t n_V = a->n_V;
    const int64_t n_C = a->n_C;
    const int32_t *const restrict t_at = a->t_at;
    const uint16_t *const restrict t_table = a->t_table;
    float *const restrict t_y = a->t_y;
    fault_record *const fault = a->fault;
    (void)a;
    (void)work;
    _Alignas(64) float line_0[256];
    collector lines[] = {collector_of((char *)line_0, t_y + n_T * thread / threads * (n_C))};
    const int64_t tasks = n_T;
    for (int64_t task = tasks * thread / threads; task < tasks * (thread + 1) / threads; task++) {
        const int64_t i_t = task;
        const int64_t row = n_C * 2;
        const int64_t ahead = row < 1 || row > 16384 ? 1 : 16384 / row;
        const int64_t next = task + ahead < tasks ? task + ahead : task;
        const uint16_t *const n1 = t_table + (t_at[next]) * n_C;
        const int32_t r2 = t_at[i_t];
        const bool ok3 = in_range(r2, n_V, 225, fault);
        const uint16_t *const p4 = t_table + (ok3 ? r2 * n_C : 0);
        {
            const bool whole = n_C % (1 * HR_LANES) == 0 && stream_aligned(t_y, 4, 1);
            float *const q0 = t_y + i_t * n_C;
            if (whole) {
                for (int64_t i = 0; i < n_C; i += HR_LANES) {
                    prefetch_read(n1 + i);
                    const vf r5 = (ok3 ? vf_load_f16(p4 + i) : vf_of(0));
                    vf_stream_f32(q0 + i, r5, true);
                }
            } else {
                int64_t i = 0;
                const int64_t begin = stream_begin(q0, 4, 1, i, n_C);
                const bool joins = (uintptr_t)q0 % 4 == 0;
                const int64_t from_0 = i;
                float *const end_0 = joins ? (float *)collector_place(&lines[0]) - i : q0;
                while (i < begin) {
                    const int lanes = begin - i < HR_LANES ? (int)(begin - i) : HR_LANES;
                    prefetch_read(n1 + i);
                    const vf r6 = (ok3 ? vf_load_part_f16(p4 + i, lanes) : vf_of(0));
                    vf_store_part_f32(end_0 + i, r6, lanes);
                    i += lanes;
                }
                if (joins) collector_leave(&lines[0], (i - from_0) * 4);
                for (; i + HR_LANES <= n_C; i += HR_LANES) {
                    prefetch_read(n1 + i);
                    const vf r7 = (ok3 ? vf_load_f16(p4 + i) : vf_of(0));
                    vf_stream_f32(q0 + i, r7, true);
                }
                if (joins) collector_pass(&lines[0], q0 + i);
                {
                    const int64_t from_0 = i;
                    float *const end_0 = joins ? (float *)collector_place(&lines[0]) - i : q0;
                    if (i < n_C) {
                        const int lanes = (int)(n_C - i);
                        prefetch_read(n1 + i);
                        const vf r8 = (ok3 ? vf_load_part_f16(p4 + i, lanes) : vf_of(0));
                        vf_store_part_f32(end_0 + i, r8, lanes);
                        i = n_C;
                    }
                    if (joins) collector_leave(&lines[0], (i - from_0) * 4);
                }
            }
        }
    }
    collector_end(&lines[0]);
    stream_end();
}

int64_t kernel_k_scratch(int64_t n_T, int64_t n_V, int64_t n_C, int threads) {
    (void)n_T;
    (void)n_V;
    (void)n_C;
    if (!extents_hold(n_T, n_V, n_C)) return -1;
    int64_t work = 0;
    (void)threads;
    return work;
}

static void run(arguments a, char *scratch, int threads) {
    const int64_t n_T = a.n_T;
    const int64_t n_C = a.n_C;
    char *work = scratch;
    const int64_t pieces_0 = work_pieces_of(n_T * n_C, threads);
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

int kernel_k(int64_t n_T, int64_t n_V, int64_t n_C, const int32_t *t_at, const uint16_t *t_table, float *t_y, void *scratch, int threads) {
    if (!extents_hold(n_T, n_V, n_C)) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_T = n_T;
    a.n_V = n_V;
    a.n_C = n_C;
    a.t_at = t_at;
    a.t_table = t_table;
    a.t_y = t_y;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}
