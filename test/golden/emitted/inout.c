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

/* map over i
 * no reduction: one pass over the elements */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_N = a->n_N;
    float *const restrict t_p = a->t_p;
    const uint16_t *const restrict t_g = a->t_g;
    const float t_lr = a->t_lr;
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

/* Where locals are; returns what is behind them. */
static char *place_locals(arguments *a, char *work) {
    (void)a;
    return work;
}

static void run_thread(const arguments *a, char *work, work_share *shares, int64_t threads, int64_t thread,
                       int64_t count) {
    const int64_t n_N = a->n_N;
    const int64_t pieces_0 = work_pieces_of(1 * n_N, threads);
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

int kernel_k(int64_t n_N, float *t_p, const uint16_t *t_g, float t_lr, void *scratch, int threads) {
    if (!extents_hold(n_N)) return -1;
    if (threads < 1) return -1;
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

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 1 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_N, float *t_p, const uint16_t *t_g, float t_lr, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_N)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_N = n_N;
    a.t_p = t_p;
    a.t_g = t_g;
    a.t_lr = t_lr;
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
