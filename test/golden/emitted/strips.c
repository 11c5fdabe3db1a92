typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_M;
    int64_t n_N;
    const uint16_t *t_dy;
    const float *t_r;
    float *t_dw;
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

/* column over n, a task for each m
 * dw adds up over all tasks, a strip of columns at a time */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const uint16_t *const restrict t_dy = a->t_dy;
    const float *const restrict t_r = a->t_r;
    float *const restrict t_dw = a->t_dw;
    char *const area = work + thread * (1 * (((32768) * 4 + 1152) / 64 * 64) + 1 * (((32768) * 8 + 1152) / 64 * 64) + 64);
    float *const column_0 = (float *)(area + 0 * (((32768) * 4 + 1152) / 64 * 64));
    double *const total_of_0 = (double *)(area + 1 * (((32768) * 4 + 1152) / 64 * 64) + 0 * (((32768) * 8 + 1152) / 64 * 64));
    const int64_t end = n_M;
    const int64_t lines = (n_N + 63) / 64;
    const int64_t share = lines * (thread + 1) / threads * 64, columns = share < n_N ? share : n_N;
    for (int64_t first = lines * thread / threads * 64; first < columns; first += 32768) {
        const int64_t last = columns - first < 32768 ? columns : first + 32768;
        for (int64_t j = 0; j < last - first; j++)
            column_0[j] = 0;
        int64_t chained = 0, folds = 0;
        int64_t group = 0;
        for (; group + 4 <= end; group += 4) {
            int64_t i = first;
            for (; i + 4 * HR_LANES <= last; i += 4 * HR_LANES) {
                vf s0[4] = {vf_load_f32(column_0 + i - first + 0 * HR_LANES), vf_load_f32(column_0 + i - first + 1 * HR_LANES), vf_load_f32(column_0 + i - first + 2 * HR_LANES), vf_load_f32(column_0 + i - first + 3 * HR_LANES)};
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++) {
                    const int64_t task = group + t;
                    const int64_t i_m = task;
                    const uint16_t *const p1 = t_dy + i_m * n_N;
                    const float r2 = t_r[i_m];
                    prefetch_read(p1 + 4 * n_N + i);
                    prefetch_read(p1 + 4 * n_N + i + 32);
                    const int64_t lane = i;
#pragma GCC unroll 4
                    for (int way = 0; way < 4; way++) {
                        const int64_t i = lane + way * HR_LANES;
                        s0[way] = s0[way] + (vf_load_bf16(p1 + i) * r2);
                    }
                }
                vf_store_f32(column_0 + i - first + 0 * HR_LANES, s0[0]);
                vf_store_f32(column_0 + i - first + 1 * HR_LANES, s0[1]);
                vf_store_f32(column_0 + i - first + 2 * HR_LANES, s0[2]);
                vf_store_f32(column_0 + i - first + 3 * HR_LANES, s0[3]);
            }
            for (; i < last; i += HR_LANES) {
                const int lanes = last - i < HR_LANES ? (int)(last - i) : HR_LANES;
                vf s0[1] = {vf_load_part_f32(column_0 + i - first + 0 * HR_LANES, lanes)};
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++) {
                    const int64_t task = group + t;
                    const int64_t i_m = task;
                    const uint16_t *const p3 = t_dy + i_m * n_N;
                    const float r4 = t_r[i_m];
                    prefetch_read(p3 + 4 * n_N + i);
                    s0[0] = s0[0] + (vf_load_part_bf16(p3 + i, lanes) * r4);
                }
                vf_store_part_f32(column_0 + i - first + 0 * HR_LANES, s0[0], lanes);
            }
            chained += 4;
            if (chained >= 128) {
                f32_fold(column_0, total_of_0, last - first, folds);
                chained = 0, folds++;
            }
        }
        if (group < end) {
            int64_t i = first;
            for (; i + 4 * HR_LANES <= last; i += 4 * HR_LANES) {
                vf s0[4] = {vf_load_f32(column_0 + i - first + 0 * HR_LANES), vf_load_f32(column_0 + i - first + 1 * HR_LANES), vf_load_f32(column_0 + i - first + 2 * HR_LANES), vf_load_f32(column_0 + i - first + 3 * HR_LANES)};
                for (int64_t task = group; task < end; task++) {
                    const int64_t i_m = task;
                    const uint16_t *const p5 = t_dy + i_m * n_N;
                    const float r6 = t_r[i_m];
                    prefetch_read(p5 + 4 * n_N + i);
                    prefetch_read(p5 + 4 * n_N + i + 32);
                    const int64_t lane = i;
#pragma GCC unroll 4
                    for (int way = 0; way < 4; way++) {
                        const int64_t i = lane + way * HR_LANES;
                        s0[way] = s0[way] + (vf_load_bf16(p5 + i) * r6);
                    }
                }
                vf_store_f32(column_0 + i - first + 0 * HR_LANES, s0[0]);
                vf_store_f32(column_0 + i - first + 1 * HR_LANES, s0[1]);
                vf_store_f32(column_0 + i - first + 2 * HR_LANES, s0[2]);
                vf_store_f32(column_0 + i - first + 3 * HR_LANES, s0[3]);
            }
            for (; i < last; i += HR_LANES) {
                const int lanes = last - i < HR_LANES ? (int)(last - i) : HR_LANES;
                vf s0[1] = {vf_load_part_f32(column_0 + i - first + 0 * HR_LANES, lanes)};
                for (int64_t task = group; task < end; task++) {
                    const int64_t i_m = task;
                    const uint16_t *const p7 = t_dy + i_m * n_N;
                    const float r8 = t_r[i_m];
                    prefetch_read(p7 + 4 * n_N + i);
                    s0[0] = s0[0] + (vf_load_part_bf16(p7 + i, lanes) * r8);
                }
                vf_store_part_f32(column_0 + i - first + 0 * HR_LANES, s0[0], lanes);
            }
        }
        for (int64_t i = first; i < last; i++) {
            t_dw[i] = (folds ? (float)(total_of_0[i - first] + column_0[i - first]) : column_0[i - first]);
        }
    }
}

int64_t kernel_k_scratch(int64_t n_M, int64_t n_N, int threads) {
    (void)n_M;
    (void)n_N;
    if (!extents_hold(n_M, n_N)) return -1;
    int64_t work = 0;
    const int64_t stage_0 = threads * (1 * (((32768) * 4 + 1152) / 64 * 64) + 1 * (((32768) * 8 + 1152) / 64 * 64) + 64);
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

int kernel_k(int64_t n_M, int64_t n_N, const uint16_t *t_dy, const float *t_r, float *t_dw, void *scratch, int threads) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (threads < 1) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_dy = t_dy;
    a.t_r = t_r;
    a.t_dw = t_dw;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 0 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_M, int64_t n_N, const uint16_t *t_dy, const float *t_r, float *t_dw, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_dy = t_dy;
    a.t_r = t_r;
    a.t_dw = t_dw;
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
