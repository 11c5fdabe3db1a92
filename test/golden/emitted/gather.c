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

/* The first of all threads is kept. */
static __attribute__((noinline, cold)) bool out_of_range(int64_t value, int64_t access, fault_record *fault) {
    int64_t none = 0;
    if (__atomic_compare_exchange_n(&fault->access, &none, access, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        fault->value = value;
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

/* What threads of the caller's share, who run parts of a call; zeros before the first one. */
typedef struct thread_team {
    int64_t arrived, round; /* at the barrier, and how often all have come */
    int64_t unused[6];
    fault_record fault;
    int64_t more[6];
} thread_team;

/* Of this thread, while it runs a part. */
static __thread thread_team *team_here;

static __thread int64_t team_parts;

/* A core waits a while before it lets another thread have its place. */
static inline void thread_wait(int64_t tries) {
#if defined __x86_64__ || defined __i386__
    if (tries < 1 << 12) {
        __builtin_ia32_pause();
        return;
    }
#endif
#if defined __unix__ || defined __APPLE__
    if (tries >= 1 << 12) sched_yield();
#else
    (void)tries;
#endif
}

static inline void team_barrier(thread_team *team) {
    const int64_t round = __atomic_load_n(&team->round, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == team_parts) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&team->round, round + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int64_t tries = 0; __atomic_load_n(&team->round, __ATOMIC_ACQUIRE) == round; tries++)
        thread_wait(tries);
}

static inline void thread_barrier(void) {
    if (team_here) {
        team_barrier(team_here);
        return;
    }
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

/* Where locals are; returns what is behind them. */
static char *place_locals(arguments *a, char *work) {
    (void)a;
    return work;
}

static void run_thread(const arguments *a, char *work, work_share *shares, int64_t threads, int64_t thread,
                       int64_t count) {
    const int64_t n_T = a->n_T;
    const int64_t n_C = a->n_C;
    const int64_t pieces_0 = work_pieces_of(n_T * n_C, threads);
    work_share *const shares_0 = shares + 0 * threads;
    for (int64_t piece, other = 0; (piece = work_piece(shares_0, pieces_0, thread, count, &other)) >= 0;)
        stage_0(a, piece, count * pieces_0, work);
}

static void run(arguments a, char *scratch, int threads) {
    char *const work = place_locals(&a, scratch);
    work_share shares[1 * threads + 1];
    memset(shares, 0, sizeof shares);
    #ifdef _OPENMP
    #pragma omp parallel num_threads(threads)
    #endif
    run_thread(&a, work, shares, threads, thread_number(), thread_count());
}

int kernel_k(int64_t n_T, int64_t n_V, int64_t n_C, const int32_t *t_at, const uint16_t *t_table, float *t_y, void *scratch, int threads) {
    if (!extents_hold(n_T, n_V, n_C)) return -1;
    if (threads < 1) return -1;
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

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 1 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_T, int64_t n_V, int64_t n_C, const int32_t *t_at, const uint16_t *t_table, float *t_y, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_T, n_V, n_C)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_T = n_T;
    a.n_V = n_V;
    a.n_C = n_C;
    a.t_at = t_at;
    a.t_table = t_table;
    a.t_y = t_y;
    a.fault = &((thread_team *)team)->fault;
    team_here = team;
    team_parts = parts;
    if (part == 0) {
        *a.fault = (fault_record){0, 0};
        memset(shares, 0, 1 * sizeof *shares * (size_t)parts);
    }
    thread_barrier();
    char *const work = place_locals(&a, scratch);
    run_thread(&a, work, shares, parts, part, parts);
    thread_barrier();
    const int code = (int)a.fault->access;
    thread_barrier();
    team_here = NULL;
    return code;
}
