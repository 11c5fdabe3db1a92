typedef struct fault_record {
    int64_t access, value; /* the first subscript that left its axis; access 0: none did */
} fault_record;

typedef struct arguments {
    int64_t n_M;
    int64_t n_N;
    const float *t_x;
    const float *t_w;
    float *t_y;
    float *t_r;
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
 * sum_1 needs the whole row over n: 2 passes, a row stays in cache between them */
typedef struct stage_0_row {
    int64_t task;
    vf a0[4];
    double folded_0[1];
    float s0_sum_1;
    float s1_r;
} stage_0_row;

static void stage_0_enter_0(const arguments *a, stage_0_row *row) {
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    row->a0[0] = vf_of(0);
    row->a0[1] = vf_of(0);
    row->a0[2] = vf_of(0);
    row->a0[3] = vf_of(0);
    row->folded_0[0] = 0;
}

static inline __attribute__((always_inline)) void stage_0_lanes_0(const arguments *a, stage_0_row *row, int64_t i, int from) {
    const int64_t n_N = a->n_N;
    const float *const restrict t_x = a->t_x;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    vf *const a0 = row->a0;
    const float *const p1 = t_x + i_m * n_N;
    prefetch_read(p1 + i + 4096);
    prefetch_near(p1 + i + 512);
#pragma GCC unroll 1
    for (int way = from; way < from + 1; way++, i += HR_LANES) {
        a0[way] = a0[way] + vf_powi(vf_load_f32(p1 + i), 2);
    }
}

static void stage_0_pass_0(const arguments *a, stage_0_row *row, int64_t first, int64_t last) {
    const int64_t n_N = a->n_N;
    const float *const restrict t_x = a->t_x;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    const float *const p2 = t_x + i_m * n_N;
    vf a0[4] = {row->a0[0], row->a0[1], row->a0[2], row->a0[3]};
    double folded_0[1] = {row->folded_0[0]};
    {
        for (int64_t chain = first, chain_end; chain < last; chain = chain_end) {
            chain_end = last - chain < 512 * HR_LANES ? last : chain + 512 * HR_LANES;
            int64_t i = chain;
            for (; i + 4 * HR_LANES <= chain_end;) {
                prefetch_read(p2 + i + 4096);
                prefetch_near(p2 + i + 512);
                prefetch_read(p2 + i + 4096 + 16);
                prefetch_near(p2 + i + 528);
                prefetch_read(p2 + i + 4096 + 32);
                prefetch_near(p2 + i + 544);
                prefetch_read(p2 + i + 4096 + 48);
                prefetch_near(p2 + i + 560);
#pragma GCC unroll 4
                for (int way = 0; way < 4; way++, i += HR_LANES) {
                    a0[way] = a0[way] + vf_powi(vf_load_f32(p2 + i), 2);
                }
            }
            for (; i + HR_LANES <= chain_end; i += HR_LANES) {
                prefetch_read(p2 + i + 4096);
                prefetch_near(p2 + i + 512);
                a0[0] = a0[0] + vf_powi(vf_load_f32(p2 + i), 2);
            }
            if (i < chain_end) {
                const int lanes = (int)(chain_end - i);
                prefetch_read(p2 + i + 4096);
                prefetch_near(p2 + i + 512);
                a0[0] = a0[0] + vf_select(vm_first(lanes), vf_powi(vf_load_part_f32(p2 + i, lanes), 2), vf_of(0));
            }
            if (chain_end == last) break;
            folded_0[0] += vf_fold_sum(((a0[0]) + (a0[1])) + ((a0[2]) + (a0[3])));
            a0[0] = vf_of(0);
            a0[1] = vf_of(0);
            a0[2] = vf_of(0);
            a0[3] = vf_of(0);
        }
    }
    row->a0[0] = a0[0];
    row->a0[1] = a0[1];
    row->a0[2] = a0[2];
    row->a0[3] = a0[3];
    row->folded_0[0] = folded_0[0];
}

static void stage_0_enter_1(const arguments *a, stage_0_row *row) {
    const int64_t n_N = a->n_N;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    const vf *const a0 = row->a0;
    const double *const folded_0 = row->folded_0;
    const float s0_sum_1 = (float)(folded_0[0] + vf_fold_sum(((a0[0]) + (a0[1])) + ((a0[2]) + (a0[3]))));
    row->s0_sum_1 = s0_sum_1;
    const float r3 = f32_rsqrt(f32_div(s0_sum_1, (float)n_N));
    const float s1_r = r3;
    row->s1_r = s1_r;
}

static inline __attribute__((always_inline)) void stage_0_lanes_1(const arguments *a, stage_0_row *row, int64_t i, int from, bool aligned) {
    const int64_t n_N = a->n_N;
    const float *const restrict t_x = a->t_x;
    const float *const restrict t_w = a->t_w;
    float *const restrict t_y = a->t_y;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    const float s1_r = row->s1_r;
    const float *const p4 = t_x + i_m * n_N;
    float *const q2 = t_y + i_m * n_N;
    const bool aligned_2 = aligned || stream_aligned(q2 + i, 4, 1);
    vf_stream_f32(q2 + i, ((vf_load_f32(p4 + i) * s1_r) * vf_load_f32(t_w + i)), aligned_2);
}

static void stage_0_pass_1(const arguments *a, stage_0_row *row, int64_t first, int64_t last, collector *lines) {
    const int64_t n_N = a->n_N;
    const float *const restrict t_x = a->t_x;
    const float *const restrict t_w = a->t_w;
    float *const restrict t_y = a->t_y;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    const float s1_r = row->s1_r;
    const float *const p5 = t_x + i_m * n_N;
    {
        float *const q2 = t_y + i_m * n_N;
        const int64_t shift = stream_head(q2, 4, 1);
        const int64_t start = first ? first + shift : 0, stop = last + shift < n_N ? last + shift : n_N;
        int64_t i = start;
        const int64_t begin = stream_begin(q2, 4, 1, i, stop);
        if (!first) stream_prefetch_end(q2 + n_N, 4, 1);
        while (i < begin) {
            const int lanes = begin - i < HR_LANES ? (int)(begin - i) : HR_LANES;
            const vf r6 = ((vf_load_part_f32(p5 + i, lanes) * s1_r) * vf_load_part_f32(t_w + i, lanes));
            vf_store_part_f32(q2 + i, r6, lanes);
            i += lanes;
        }
        for (; i + HR_LANES <= stop; i += HR_LANES) {
            vf_stream_f32(q2 + i, ((vf_load_f32(p5 + i) * s1_r) * vf_load_f32(t_w + i)), true);
        }
        if (i < stop) {
            const int lanes = (int)(stop - i);
            const vf r7 = ((vf_load_part_f32(p5 + i, lanes) * s1_r) * vf_load_part_f32(t_w + i, lanes));
            vf_store_part_f32(q2 + i, r7, lanes);
        }
    }
}

static bool stage_0_aligned_1(const arguments *a, stage_0_row *row, int64_t i) {
    const int64_t n_N = a->n_N;
    float *const restrict t_y = a->t_y;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    float *const q2 = t_y + i_m * n_N;
    return stream_aligned(q2 + i, 4, 1);
}

static int64_t stage_0_shift(const arguments *a, stage_0_row *row) {
    const int64_t n_N = a->n_N;
    float *const restrict t_y = a->t_y;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    float *const q2 = t_y + i_m * n_N;
    return stream_head(q2, 4, 1);
}

static void stage_0_leave(const arguments *a, stage_0_row *row, collector *lines) {
    float *const restrict t_r = a->t_r;
    const int64_t task = row->task;
    const int64_t i_m = task;
    (void)i_m;
    const float s1_r = row->s1_r;
    if (t_r) {
        *(float *)collector_place(&lines[0]) = s1_r;
        collector_leave(&lines[0], 4);
    }
}

static void stage_0_together(const arguments *a, stage_0_row *const *live, int64_t shift, int64_t first, int64_t last) {
    const arguments copy = *a;
    stage_0_row row_0;
    row_0.task = live[0]->task;
    row_0.a0[0] = live[0]->a0[0];
    row_0.a0[1] = live[0]->a0[1];
    row_0.a0[2] = live[0]->a0[2];
    row_0.a0[3] = live[0]->a0[3];
    row_0.folded_0[0] = live[0]->folded_0[0];
    stage_0_row row_1;
    row_1.task = live[1]->task;
    row_1.s0_sum_1 = live[1]->s0_sum_1;
    row_1.s1_r = live[1]->s1_r;
    if (stage_0_aligned_1(&copy, live[1], first + shift)) {
        for (int64_t chain = first, chain_end; chain < last; chain = chain_end) {
            const int64_t stop = chain - chain % (512 * HR_LANES) + 512 * HR_LANES;
            chain_end = stop < last ? stop : last;
            for (int64_t i = chain; i < chain_end; i += 4 * HR_LANES) {
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 1 * HR_LANES + shift, 0, true);
                stage_0_lanes_0(&copy, &row_0, i + 0 * HR_LANES, 0);
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 2 * HR_LANES + shift, 0, true);
                stage_0_lanes_0(&copy, &row_0, i + 1 * HR_LANES, 1);
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 3 * HR_LANES + shift, 0, true);
                stage_0_lanes_0(&copy, &row_0, i + 2 * HR_LANES, 2);
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 4 * HR_LANES + shift, 0, true);
                stage_0_lanes_0(&copy, &row_0, i + 3 * HR_LANES, 3);
            }
            if (chain_end < stop) break;
            row_0.folded_0[0] += vf_fold_sum(((row_0.a0[0]) + (row_0.a0[1])) + ((row_0.a0[2]) + (row_0.a0[3])));
            row_0.a0[0] = vf_of(0);
            row_0.a0[1] = vf_of(0);
            row_0.a0[2] = vf_of(0);
            row_0.a0[3] = vf_of(0);
        }
    } else {
        for (int64_t chain = first, chain_end; chain < last; chain = chain_end) {
            const int64_t stop = chain - chain % (512 * HR_LANES) + 512 * HR_LANES;
            chain_end = stop < last ? stop : last;
            for (int64_t i = chain; i < chain_end; i += 4 * HR_LANES) {
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 1 * HR_LANES + shift, 0, false);
                stage_0_lanes_0(&copy, &row_0, i + 0 * HR_LANES, 0);
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 2 * HR_LANES + shift, 0, false);
                stage_0_lanes_0(&copy, &row_0, i + 1 * HR_LANES, 1);
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 3 * HR_LANES + shift, 0, false);
                stage_0_lanes_0(&copy, &row_0, i + 2 * HR_LANES, 2);
                stage_0_lanes_1(&copy, &row_1, last - (i - first) - 4 * HR_LANES + shift, 0, false);
                stage_0_lanes_0(&copy, &row_0, i + 3 * HR_LANES, 3);
            }
            if (chain_end < stop) break;
            row_0.folded_0[0] += vf_fold_sum(((row_0.a0[0]) + (row_0.a0[1])) + ((row_0.a0[2]) + (row_0.a0[3])));
            row_0.a0[0] = vf_of(0);
            row_0.a0[1] = vf_of(0);
            row_0.a0[2] = vf_of(0);
            row_0.a0[3] = vf_of(0);
        }
    }
    live[0]->a0[0] = row_0.a0[0];
    live[0]->a0[1] = row_0.a0[1];
    live[0]->a0[2] = row_0.a0[2];
    live[0]->a0[3] = row_0.a0[3];
    live[0]->folded_0[0] = row_0.folded_0[0];
}

static int64_t stage_0_start(const arguments *a, stage_0_row **live, int64_t *shift, collector *lines) {
    const int64_t n_N = a->n_N;
    if (live[0]) stage_0_enter_0(a, live[0]);
    if (live[1]) stage_0_enter_1(a, live[1]);
    *shift = 0;
    for (int place = 0; place < 2; place++)
        if (!live[place]) return 0;
    const int64_t lanes = 4 * HR_LANES, ahead = stage_0_shift(a, live[1]);
    const int64_t done = ahead < n_N ? (n_N - ahead) / lanes * lanes : 0;
    if (done) *shift = ahead;
    if (*shift) stage_0_pass_1(a, live[1], 0, 0, lines);
    return done;
}

static void stage_0_finish(const arguments *a, stage_0_row **live, int64_t done, int64_t shift, collector *lines) {
    const int64_t n_N = a->n_N;
    if (live[1] && done + shift < n_N) stage_0_pass_1(a, live[1], done, n_N, lines);
    if (live[0] && done < n_N) stage_0_pass_0(a, live[0], done, n_N);
    if (live[1]) stage_0_leave(a, live[1], lines);
}

static void stage_0(const arguments *a, int64_t thread, int64_t threads, char *work) {
    const int64_t n_M = a->n_M;
    float *const restrict t_r = a->t_r;
    stage_0_row rows[2];
    const int64_t tasks = n_M;
    const int64_t begin = tasks * thread / threads, end = tasks * (thread + 1) / threads;
    _Alignas(64) float line_1[32];
    collector lines[] = {collector_of((char *)line_1, t_r + begin)};
    for (int64_t step = begin; begin < end && step < end + 1; step++) {
        stage_0_row *live[2];
        int64_t shift;
        for (int place = 0; place < 2; place++)
            live[place] = step - place >= begin && step - place < end ? &rows[(step - place) % 2] : NULL;
        if (live[0]) live[0]->task = step;
        const int64_t done = stage_0_start(a, live, &shift, lines);
        if (done) stage_0_together(a, live, shift, 0, done);
        stage_0_finish(a, live, done, shift, lines);
    }
    collector_end(&lines[0]);
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
    const int64_t n_M = a->n_M;
    const int64_t n_N = a->n_N;
    const int64_t pieces_0 = work_pieces_of(n_M * n_N, threads);
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

int kernel_k(int64_t n_M, int64_t n_N, const float *t_x, const float *t_w, float *t_y, float *t_r, void *scratch, int threads) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (threads < 1) return -1;
    fault_record fault = {0, 0};
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_w = t_w;
    a.t_y = t_y;
    a.t_r = t_r;
    a.fault = &fault;
    run(a, scratch, threads);
    return (int)fault.access;
}

int64_t kernel_k_team(int parts) {
    return (int64_t)sizeof(thread_team) + 1 * (int64_t)sizeof(work_share) * parts;
}

int kernel_k_part(int64_t n_M, int64_t n_N, const float *t_x, const float *t_w, float *t_y, float *t_r, void *scratch, void *team, int part, int parts) {
    if (!extents_hold(n_M, n_N)) return -1;
    if (part < 0 || part >= parts) return -1;
    work_share *const shares = (work_share *)(void *)((thread_team *)team + 1);
    arguments a = {0};
    a.n_M = n_M;
    a.n_N = n_N;
    a.t_x = t_x;
    a.t_w = t_w;
    a.t_y = t_y;
    a.t_r = t_r;
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
