/* Of the program that loads this: parts that run at the same time, and where they wait for each other. */
typedef struct team_calls {
    void (*run)(int64_t parts, void (*work)(void *context, int64_t part, int64_t parts), void *context);
    void (*wait)(void);
} team_calls;

__attribute__((visibility("default"))) const team_calls *hr_team;

static inline void thread_barrier(void) {
    hr_team->wait();
}
