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

int hr_entry(const launch *l, void *fault) {
    double work = 0;
    int kernel = (int)l->tuning[0], missing = 0;
    (void)fault;
#pragma omp parallel num_threads((int)l->threads) reduction(+ : work, missing)
    {
        int64_t at = omp_get_thread_num() * l->tuning[2];
        double mine = run(kernel, (char *)l->pointers[0] + at, (char *)l->pointers[1] + at,
                          (char *)l->pointers[2] + at, l->tuning[1], l->tuning[3]);
        work += mine;
        missing += mine == 0;
    }
    *(double *)l->scratch = work;
    return missing != 0;
}
