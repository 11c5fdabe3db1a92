typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_N;
    const float *t_x;
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

typedef struct interval {
    int64_t low, high; /* both are reached, or may be */
    bool known;
} interval;

static inline interval interval_unknown(void) {
    const interval unknown = {0, 0, false};
    return unknown;
}

static inline interval interval_of(int64_t low, int64_t high) {
    const int64_t limit = (int64_t)1 << 30;
    const interval of = {low, high, true};
    return low <= -limit || high >= limit ? interval_unknown() : of;
}

static inline interval interval_number(int64_t number) {
    return interval_of(number, number);
}

/* The values of an index of this extent. */
static inline interval interval_index(interval extent) {
    if (!extent.known) return extent;
    return interval_of(0, extent.high > 0 ? extent.high - 1 : 0);
}

static bool extents_hold(int64_t n_N) {
    if (n_N < 0) return false;
    if (!interval_index(interval_number(n_N)).known) return false;
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
    const float *const restrict t_x = a->t_x;
    float *const restrict t_y = a->t_y;
    fault_record *const fault = a->fault;
    const int64_t lines = (n_N + 63) / 64, share_end = lines * (thread + 1) / threads * 64;
    const int64_t end = share_end < n_N ? share_end : n_N;
    for (int64_t first = lines * thread / threads * 64; first < end; first += 65536) {
        const int64_t last = first + 65536 < end ? first + 65536 : end;
        {
            int64_t inside_from = 0, inside_to = INT64_MAX;
            lanes_inside(true, (0 - 1), n_N, &inside_from, &inside_to);
            float *const q0 = t_y;
            int64_t i = first;
            const int64_t begin = stream_begin(q0, 4, 1, i, last);
            while (i < begin) {
                const int lanes = begin - i < HR_LANES ? (int)(begin - i) : HR_LANES;
                const vi r1 = (vi_iota() + (int32_t)i);
                const vm r2 = vi_gt(r1, vi_of((int32_t)0));
                vf g3;
                if (row_inside((0 - 1), i, HR_LANES, n_N)) {
                    g3 = vf_load_f32(t_x + (0 - 1) + i);
                } else {
                    const row_lanes there = lanes_there(true, (0 - 1), i, lanes, n_N);
                    if (lanes_missing(r2, there, lanes)) {
                        _Alignas(64) float lanes_3[HR_LANES] = {0};
                        const int64_t from_3 = i;
                        for (int lane = 0; lane < lanes; lane++) {
                            const int64_t i = from_3 + lane;
                            const bool ok4 = (i > 0) && in_range((i - 1), n_N, 225, fault);
                            const float r5 = (ok4 ? t_x[(i - 1)] : 0);
                            lanes_3[lane] = r5;
                        }
                        g3 = vf_load_f32(lanes_3);
                    } else {
                        _Alignas(64) float row_3[HR_LANES] = {0};
                        for (int lane = there.from; lane < there.to; lane++)
                            row_3[lane] = (t_x + (0 - 1) + i)[lane];
                        g3 = vf_load_f32(row_3);
                    }
                }
                const vf r6 = g3;
                vf_store_part_f32(q0 + i, vf_select(r2, r6, vf_of(0.0f)), lanes);
                i += lanes;
            }
            for (; i + HR_LANES <= last; i += HR_LANES) {
                if (i >= inside_from && i + 1 * HR_LANES <= inside_to) {
                    const vi r7 = (vi_iota() + (int32_t)i);
                    const vm r8 = vi_gt(r7, vi_of((int32_t)0));
                    vf g9;
                    g9 = vf_load_f32(t_x + (0 - 1) + i);
                    const vf r10 = g9;
                    vf_stream_f32(q0 + i, vf_select(r8, r10, vf_of(0.0f)), true);
                } else {
                    const vi r11 = (vi_iota() + (int32_t)i);
                    const vm r12 = vi_gt(r11, vi_of((int32_t)0));
                    vf g13;
                    if (row_inside((0 - 1), i, HR_LANES, n_N)) {
                        g13 = vf_load_f32(t_x + (0 - 1) + i);
                    } else {
                        const row_lanes there = lanes_there(true, (0 - 1), i, HR_LANES, n_N);
                        if (lanes_missing(r12, there, HR_LANES)) {
                            _Alignas(64) float lanes_13[HR_LANES];
                            const int64_t from_13 = i;
                            for (int lane = 0; lane < HR_LANES; lane++) {
                                const int64_t i = from_13 + lane;
                                const bool ok14 = (i > 0) && in_range((i - 1), n_N, 225, fault);
                                const float r15 = (ok14 ? t_x[(i - 1)] : 0);
                                lanes_13[lane] = r15;
                            }
                            g13 = vf_load_f32(lanes_13);
                        } else {
                            _Alignas(64) float row_13[HR_LANES] = {0};
                            for (int lane = there.from; lane < there.to; lane++)
                                row_13[lane] = (t_x + (0 - 1) + i)[lane];
                            g13 = vf_load_f32(row_13);
                        }
                    }
                    const vf r16 = g13;
                    vf_stream_f32(q0 + i, vf_select(r12, r16, vf_of(0.0f)), true);
                }
            }
            if (i < last) {
                const int lanes = (int)(last - i);
                const vi r17 = (vi_iota() + (int32_t)i);
                const vm r18 = vi_gt(r17, vi_of((int32_t)0));
                vf g19;
                if (row_inside((0 - 1), i, HR_LANES, n_N)) {
                    g19 = vf_load_f32(t_x + (0 - 1) + i);
                } else {
                    const row_lanes there = lanes_there(true, (0 - 1), i, lanes, n_N);
                    if (lanes_missing(r18, there, lanes)) {
                        _Alignas(64) float lanes_19[HR_LANES] = {0};
                        const int64_t from_19 = i;
                        for (int lane = 0; lane < lanes; lane++) {
                            const int64_t i = from_19 + lane;
                            const bool ok20 = (i > 0) && in_range((i - 1), n_N, 225, fault);
                            const float r21 = (ok20 ? t_x[(i - 1)] : 0);
                            lanes_19[lane] = r21;
                        }
                        g19 = vf_load_f32(lanes_19);
                    } else {
                        _Alignas(64) float row_19[HR_LANES] = {0};
                        for (int lane = there.from; lane < there.to; lane++)
                            row_19[lane] = (t_x + (0 - 1) + i)[lane];
                        g19 = vf_load_f32(row_19);
                    }
                }
                const vf r22 = g19;
                vf_store_part_f32(q0 + i, vf_select(r18, r22, vf_of(0.0f)), lanes);
            }
        }
    }
    stream_end();
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

int kernel_k(int64_t n_N, const float *t_x, float *t_y, void *scratch, int threads) {
    if (!extents_hold(n_N)) return -1;
    if (threads < 1) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
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

int kernel_k_part(int64_t n_N, const float *t_x, float *t_y, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_N)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
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
