/* A thread's tasks in the order of the places that they add to, those of one place in their own order, by
 * counting: the tasks of a place, or of a few where there are more places than tasks, stand together. All
 * tasks are added twice, first to be counted, then to be placed. */
typedef struct task_order {
    int64_t *ends, *tasks;   /* where the tasks of each group of places end so far; the thread's tasks */
    int64_t groups, own;     /* of places: all, the thread's */
    int64_t thread, threads; /* group g is that of thread g % threads */
    int64_t count, before;   /* of tasks: the thread's, those of the threads before it */
} task_order;

/* In `work`: the ends for each thread, lines of their own, then the tasks of one thread after the other. */
static inline task_order task_order_of(char *work, int64_t tasks, int64_t places, int64_t thread,
                                       int64_t threads) {
    const int64_t groups = places < tasks ? places : tasks, own = groups / threads + 1,
                  size = (own + 8) / 8 * 8;
    int64_t *const all = (int64_t *)(void *)work;
    task_order o = {all + thread * size, all + threads * size, groups, own, thread, threads, 0, 0};
    for (int64_t g = 0; g <= own; g++)
        o.ends[g] = 0;
    return o;
}

/* Without branches on whose task it is: they would be guessed wrong as often as right. */
static inline void task_order_add(task_order *o, int64_t task, int64_t place, bool counted) {
    const int64_t group = place < o->groups ? place : place % o->groups, g = group / o->threads;
    const int64_t owner = group - g * o->threads, mine = owner == o->thread;
    int64_t other;
    if (counted) {
        int64_t *const at = mine ? o->tasks + o->ends[g] : &other;
        *at = task;
        o->ends[g] += mine;
    } else {
        o->before += owner < o->thread;
        o->count += mine;
        o->ends[g + 1] += mine;
    }
}

/* Once all are counted: where each group begins, and the thread's tasks. */
static inline void task_order_begin(task_order *o) {
    for (int64_t g = 0; g < o->own; g++)
        o->ends[g + 1] += o->ends[g];
    o->tasks += o->before;
}
