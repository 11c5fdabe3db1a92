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
