/* The one function that is called: kernel tuning[0] on `threads` threads, each with a region of its own.
 *
 * In: tuning = kernel, bytes a thread, distance of the threads' regions, rounds; pointers = to, a, b. Out:
 * the bytes moved or operations done by all threads, as a double at `scratch`. Returns 1 where the machine
 * cannot do it.
 */
typedef struct launch {
    void *const *pointers;
    const double *scalars;
    const int64_t *extents;
    const int64_t *strides;
    void *scratch;
    int64_t threads;
    const int64_t *tuning;
} launch;

static double run(int kernel, char *to, const char *a, const char *b, int64_t bytes, int64_t rounds) {
    static const int streams_of[] = {[ROOF_READ] = 1, [ROOF_WRITE] = 1, [ROOF_COPY] = 2, [ROOF_TRIAD] = 3};
    double unit = 0;
    for (int64_t round = 0; round < rounds; round++)
        switch (kernel) {
#define CASE(name, operation, ...)                                                                           \
    case ROOF_##name:                                                                                        \
        name(to, a, b, bytes);                                                                               \
        unit = streams_of[ROOF_##operation];                                                                 \
        break;
            ROOF_STREAMS(CASE)
            CASE(copy_string, COPY)
            CASE(write_string, WRITE)
#undef CASE
#define CASE(name, ...)                                                                                      \
    case ROOF_##name:                                                                                        \
        return name(rounds);
            ROOF_UNITS(CASE)
        case ROOF_empty:
            return 1;
        default:
            return 0;
        }
    return unit * (double)bytes * (double)rounds;
}

/* Of whole pages side by side, however many of them a way takes */
#define PIECE_UNIT (24 * PAGE)

/* Threads take pieces of what all go through once, as they do in a kernel. What they go through again lies in
 * caches of their own, and each has its own units. */
static int64_t piece_bytes(int kernel, int64_t bytes, int64_t rounds) {
    if (kernel >= ROOF_fma_f32 || rounds != 1 || bytes < PIECE_UNIT) return bytes;
    return (bytes / WORK_PIECES + PIECE_UNIT - 1) / PIECE_UNIT * PIECE_UNIT;
}

/* `bytes` of each array, `at` from where it begins. */
static double run_at(const launch *l, int64_t at, int64_t bytes, int64_t rounds) {
    return run((int)l->tuning[0], (char *)l->pointers[0] + at, (char *)l->pointers[1] + at,
               (char *)l->pointers[2] + at, bytes, rounds);
}

static double run_pieces(const launch *l, int64_t part, work_share *shares, int64_t thread, int64_t threads) {
    const int64_t bytes = l->tuning[1], pieces = (bytes + part - 1) / part;
    double work = 0;
    for (int64_t piece, other = 0; (piece = work_piece(shares, pieces, thread, threads, &other)) >= 0;) {
        const int64_t from = piece % pieces * part;
        work += run_at(l, piece / pieces * l->tuning[2] + from, bytes - from < part ? bytes - from : part, 1);
    }
    return work;
}

static double run_own(const launch *l, int64_t thread) {
    return run_at(l, thread * l->tuning[2], l->tuning[1], l->tuning[3]);
}

/* What all threads share, and what each has done. */
typedef struct job {
    const launch *l;
    int64_t part;
    work_share *shares;
    double *work;
} job;

static void run_part(void *context, int64_t thread, int64_t threads) {
    const job *all = context;
    const launch *l = all->l;
    all->work[thread] = all->part < l->tuning[1] ? run_pieces(l, all->part, all->shares, thread, threads)
                                                 : run_own(l, thread);
}

int hr_entry(const launch *l, void *fault) {
    const int64_t part = piece_bytes((int)l->tuning[0], l->tuning[1], l->tuning[3]);
    double work = 0, works[l->threads];
    int missing = 0;
    work_share shares[l->threads];
    job all = {l, part, shares, works};
    memset(shares, 0, sizeof shares);
    for (int64_t thread = 0; thread < l->threads; thread++)
        works[thread] = -1; /* not run: the system gave fewer threads */
    (void)fault;
    hr_team->run(l->threads, run_part, &all);
    for (int64_t thread = 0; thread < l->threads; thread++) {
        if (works[thread] > 0) work += works[thread];
        missing += works[thread] == 0 && part == l->tuning[1];
    }
    *(double *)l->scratch = work;
    return missing != 0;
}
