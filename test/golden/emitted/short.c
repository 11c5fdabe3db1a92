typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_M;
    int64_t n_N;
    const uint16_t *t_x;
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

/* row over n, a task for each m
 * peak_1, total_2 need the whole row over n: 2 passes, a row stays in cache between them */
static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const uint16_t *const restrict t_x = a->t_x;
    uint16_t *const restrict t_y = a->t_y;
    char *const area = work;
    float *const stash_0 = (float *)(area + 0 * (((n_N) * 4 + 1152) / 64 * 64));
    const int64_t tasks = n_M;
    const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;
    collector collected_2 = collector_of(area + 8 * (((n_N) * 4 + 1152) / 64 * 64), t_y + begin * n_N);
    const int64_t ahead_0 = rows_ahead(n_N, 4096) * (n_N) + 0 * (n_N) / 8;
    const int64_t ahead_1 = rows_ahead(n_N, 4096) * (n_N) + 4 * (n_N) / 8;
    for (int64_t block = begin; block < end; block += 8) {
        const int rows = end - block < 8 ? (int)(end - block) : 8;
        float s0_peak_1_of[8];
        float s1_total_2_of[8];
        bool exact_of[8] = {false};
        for (bool again = true; again;) {
            again = false;
            for (int r = 0; r < rows; r++) {
                const int64_t task = block + r;
                const bool exact = exact_of[r];
                const int64_t i_m = task;
                const int64_t seen = exact || n_N < 64 ? n_N : 64;
                const uint16_t *const p1 = t_x + i_m * n_N;
                vf a0[1] = {vf_of(-INFINITY)};
                {
                    int64_t i = 0;
                    for (; i + HR_LANES <= seen; i += HR_LANES) {
                        a0[0] = vf_max(a0[0], vf_load_bf16(p1 + i));
                    }
                    if (i < seen) {
                        const int lanes = (int)(seen - i);
                        a0[0] = vf_max(a0[0], vf_select(vm_first(lanes), vf_load_part_bf16(p1 + i, lanes), vf_of(-INFINITY)));
                    }
                }
                const float s0_peak_1 = f32_estimate(vf_fold_max(a0[0]), exact);
                s0_peak_1_of[r] = s0_peak_1;
            }
            for (int r = 0; r < rows; r++) {
                const int64_t task = block + r;
                const bool exact = exact_of[r];
                const float s0_peak_1 = s0_peak_1_of[r];
                const int64_t i_m = task;
                const uint16_t *const p2 = t_x + i_m * n_N;
                for (int64_t i = 0; i < n_N * 4 / 8; i += 32)
                    prefetch_read(p2 + ahead_0 + i);
                vf a1[1] = {vf_of(0)};
                double folded_1[1] = {0};
                {
                    float *const k0 = stash_0 + r * (((n_N) * 4 + 1152) / 64 * 16);
                    for (int64_t chain = 0, chain_end; chain < n_N; chain = chain_end) {
                        chain_end = n_N - chain < 128 * HR_LANES ? n_N : chain + 128 * HR_LANES;
                        int64_t i = chain;
                        for (; i + HR_LANES <= chain_end; i += HR_LANES) {
                            const vf r3 = vf_exp_below(vf_load_bf16(p2 + i), s0_peak_1);
                            vf_store_f32(k0 + i, r3);
                            a1[0] = a1[0] + r3;
                        }
                        if (i < chain_end) {
                            const int lanes = (int)(chain_end - i);
                            const vf r4 = vf_exp_below(vf_load_part_bf16(p2 + i, lanes), s0_peak_1);
                            vf_store_f32(k0 + i, r4);
                            a1[0] = a1[0] + vf_select(vm_first(lanes), r4, vf_of(0));
                        }
                        if (chain_end == n_N) break;
                        folded_1[0] += vf_fold_sum(a1[0]);
                        a1[0] = vf_of(0);
                    }
                }
                const float s1_total_2 = (float)(folded_1[0] + vf_fold_sum(a1[0]));
                if (!exact && (!f32_is_settled(s1_total_2))) exact_of[r] = again = true;
                s1_total_2_of[r] = s1_total_2;
            }
        }
        for (int r = 0; r < rows; r++) {
            const int64_t task = block + r;
            const float s1_total_2 = s1_total_2_of[r];
            const int64_t i_m = task;
            const uint16_t *const p5 = t_x + i_m * n_N;
            const float r6 = f32_div(1.0f, s1_total_2);
            for (int64_t i = 0; i < n_N * 4 / 8; i += 32)
                prefetch_read(p5 + ahead_1 + i);
            {
                uint16_t *const q2 = (uint16_t *)collector_place(&collected_2) + r * n_N;
                float *const k0 = stash_0 + r * (((n_N) * 4 + 1152) / 64 * 16);
                int64_t i = 0;
                for (; i + 2 * HR_LANES <= n_N;) {
                    vf w2[2];
#pragma GCC unroll 2
                    for (int way = 0; way < 2; way++, i += HR_LANES) {
                        const vf r7 = vf_load_f32(k0 + i);
                        w2[way] = (r7 * r6);
                    }
                    vf_store_pair_bf16(q2 + i - 2 * HR_LANES, w2[0], w2[1], false, false);
                }
                for (; i + HR_LANES <= n_N; i += HR_LANES) {
                    const vf r8 = vf_load_f32(k0 + i);
                    vf_store_bf16(q2 + i, (r8 * r6));
                }
                if (i < n_N) {
                    const int lanes = (int)(n_N - i);
                    const vf r9 = vf_load_f32(k0 + i);
                    vf_store_part_bf16(q2 + i, (r9 * r6), lanes);
                }
            }
        }
        collector_leave(&collected_2, rows * n_N * 2);
    }
    collector_end(&collected_2);
    stream_end();
}

int64_t kernel_k_scratch(int64_t n_M, int64_t n_N, int threads) {
    (void)n_M;
    (void)n_N;
    if (!extents_hold(n_M, n_N)) return -1;
    int64_t work = 0;
    const int64_t stage_0 = threads * (16 * (((n_N) * 4 + 1152) / 64 * 64) + 0);
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
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const int64_t pieces_0 = work_pieces_of(n_M * n_N, threads);
    work_share *const shares_0 = shares + 0 * threads;
    for (int64_t piece, other = 0; (piece = work_piece(shares_0, pieces_0, thread, count, &other)) >= 0;)
        stage_0(a, piece, count * pieces_0, work + thread * (16 * (((n_N) * 4 + 1152) / 64 * 64) + 0));
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

int kernel_k(int64_t n_M, int64_t n_N, const uint16_t *t_x, uint16_t *t_y, void *scratch, int threads) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (threads < 1) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_y = t_y;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 1 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_M, int64_t n_N, const uint16_t *t_x, uint16_t *t_y, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
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
