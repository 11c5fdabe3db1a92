/* A thread's tasks in the order of the places that they use, those of one place in their own order, by
 * counting: first those of a group of neighbours, where there are more places than tasks, then those of each
 * place in it by sorting. All tasks are added twice, first to be counted, then to be placed. */
enum { TASK_BITS = 20 }; /* so many tasks at most are in order together */
typedef struct task_order {
    int64_t *ends, *tasks;   /* where the tasks of each group of places end so far; the thread's tasks */
    int64_t own;             /* groups of the thread's places */
    int64_t thread, threads; /* a place is that of thread place % threads */
    int64_t first;           /* of all tasks; until task_order_end a task stands as how far behind it is, */
    int64_t count, before;   /* of tasks: the thread's, those of the threads before it */
    int shift;               /* with its place in the group above: 2^shift places of a thread are one */
} task_order;

/* In `work`: the ends for each thread, lines of their own, then the tasks of one thread after the other. */
static inline task_order task_order_of(char *work, int64_t first, int64_t tasks, int64_t places,
                                       int64_t thread, int64_t threads) {
    const int64_t last = (places - 1) / threads, most = tasks / threads;
    int shift = 0;
    while (last >> shift >= (most > 1 ? most : 1))
        shift++;
    const int64_t own = (last >> shift) + 1, size = (own + 8) / 8 * 8;
    int64_t *const all = (int64_t *)(void *)work;
    task_order o = {all + thread * size, all + threads * size, own, thread, threads, first, 0, 0, shift};
    for (int64_t g = 0; g <= own; g++)
        o.ends[g] = 0;
    return o;
}

/* Without branches on whose task it is: they would be guessed wrong as often as right. */
static inline void task_order_add(task_order *o, int64_t task, int64_t place, bool counted) {
    const int64_t nth = place / o->threads, owner = place - nth * o->threads, g = nth >> o->shift;
    const int64_t mine = owner == o->thread;
    int64_t other;
    if (counted) {
        int64_t *const at = mine ? o->tasks + o->ends[g] : &other;
        *at = (nth - (g << o->shift)) << TASK_BITS | (task - o->first);
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

/* By gaps that shrink: the groups are short, but where neighbours have most tasks. */
static inline void task_order_sort(int64_t *tasks, int64_t count) {
    int64_t gap = 1;
    while (gap < count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t k = gap; k < count; k++) {
            const int64_t task = tasks[k];
            int64_t at = k;
            for (; at >= gap && tasks[at - gap] > task; at -= gap)
                tasks[at] = tasks[at - gap];
            tasks[at] = task;
        }
}

/* Once all are placed: `tasks` are tasks. */
static inline void task_order_end(task_order *o) {
    int64_t begin = 0; /* each group ends where the next one began */
    for (int64_t g = 0; g < o->own && o->shift; g++) {
        task_order_sort(o->tasks + begin, o->ends[g] - begin);
        begin = o->ends[g];
    }
    for (int64_t n = 0; n < o->count; n++)
        o->tasks[n] = o->first + (o->tasks[n] & ((1 << TASK_BITS) - 1));
}
