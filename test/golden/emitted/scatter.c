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

/* scatter over c, a task for each t, scalar lanes
 * several elements may add into one place: each thread owns its share of the places */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_T = a->n_T;
    const int64_t n_C = a->n_C;
    const int64_t n_V = a->n_V;
    const int32_t *const restrict t_at = a->t_at;
    const uint16_t *const restrict t_dy = a->t_dy;
    float *const restrict t_d = a->t_d;
    fault_record *const fault = a->fault;
    const int64_t places = n_V * n_C, points = n_T * n_C;
    double near[2048];
    double *const totals = places <= 2048           ? near
                           : places <= points / 2 / 8 ? (double *)(void *)work
                                                      : NULL;
    for (int64_t k = 0; totals && k < places; k++)
        if (k / n_C % threads == thread) totals[k] = 0;
    place_slots slots = {0};
    if (!totals) slots = place_slots_of(work, n_T, n_C, thread, threads);
    for (int64_t task = 0; task < n_T; task++) {
        const int64_t i_t = task;
        const int32_t r1 = t_at[i_t];
        if (!(in_range(r1, n_V, 257, fault))) continue;
        const int64_t place = r1 * n_C;
        if (n_C < 1 || place / n_C % threads != thread) continue;
        double *const total = totals ? totals + place : place_total(&slots, t_d, place);
        if (total) {
            const uint16_t *const p2 = t_dy + i_t * n_C;
            #pragma omp simd
            for (int64_t i = 0; i < n_C; i++) {
                total[i] += f32_from_bf16(p2[i]);
            }
        } else {
            const uint16_t *const p3 = t_dy + i_t * n_C;
            #pragma omp simd
            for (int64_t i = 0; i < n_C; i++) {
                t_d[place + i] += f32_from_bf16(p3[i]);
            }
        }
    }
    for (int64_t k = 0; totals && k < places; k++)
        if (k / n_C % threads == thread) t_d[k] = (float)(t_d[k] + totals[k]);
    if (!totals) place_slots_end(&slots, t_d);
}

int64_t kernel_k_scratch(int64_t n_T, int64_t n_C, int64_t n_V, int threads) {
    (void)n_T;
    (void)n_C;
    (void)n_V;
    if (!extents_hold(n_T, n_C, n_V)) return -1;
    int64_t work = 0;
    const int64_t stage_0 = (8 * n_V * n_C < ((n_T * n_C) + 1) / 2 ? 8 * n_V * n_C : ((n_T * n_C) + 1) / 2) + 32 * (1 * n_C + 2) * threads;
    if (stage_0 > work) work = stage_0;
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

int kernel_k(int64_t n_T, int64_t n_C, int64_t n_V, const int32_t *t_at, const uint16_t *t_dy, float *t_d, void *scratch, int threads) {
    if (!extents_hold(n_T, n_C, n_V)) return -1;
    if (threads < 1) return -1;
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

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 0 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_T, int64_t n_C, int64_t n_V, const int32_t *t_at, const uint16_t *t_dy, float *t_d, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_T, n_C, n_V)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_T = n_T;
    a.n_C = n_C;
    a.n_V = n_V;
    a.t_at = t_at;
    a.t_dy = t_dy;
    a.t_d = t_d;
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
