typedef struct launch {
    void *const *pointers;
    const double *scalars;
    const int64_t *extents, *strides;
    void *scratch;
    int64_t threads;
    const int64_t *tuning;
} launch;
