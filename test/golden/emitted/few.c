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

/* map over n, a task for each m
 * no reduction: one pass over the elements */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const uint16_t *const restrict t_x = a->t_x;
    const float *const restrict t_b = a->t_b;
    uint16_t *const restrict t_y = a->t_y;
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
                stream_prefetch_end(q0 + n_N, 2, 2);
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

/* Where locals are; returns what is behind them. */
static char *place_locals(arguments *a, char *work) {
    (void)a;
    return work;
}

static void run_thread(const arguments *a, char *work, work_share *shares, int64_t threads, int64_t thread,
                       int64_t count) {
    (void)shares, (void)threads;
    stage_0(a, thread, count, work);
}

static void run(arguments a, char *scratch, int threads) {
    char *const work = place_locals(&a, scratch);
    work_share shares[0 * threads + 1];
    memset(shares, 0, sizeof shares);
    #ifdef _OPENMP
    #pragma omp parallel num_threads(threads)
    #endif
    run_thread(&a, work, shares, threads, thread_number(), thread_count());
}

int kernel_k(int64_t n_M, int64_t n_N, const uint16_t *t_x, const float *t_b, uint16_t *t_y, void *scratch, int threads) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (threads < 1) return -1;
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

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 0 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_M, int64_t n_N, const uint16_t *t_x, const float *t_b, uint16_t *t_y, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_b = t_b;
    a.t_y = t_y;
    a.fault = &((thread_team *)team)->fault;
    team_here = team;
    team_parts = parts;
    if (part == 0) {
        *a.fault = (fault_record){0, 0};
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
