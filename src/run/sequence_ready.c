/* Makes the kernels of a sequence ready side by side, before its first launch: a compiler works on one core.
 *
 * In: a sequence, a step. Out: what serves its calls is in the kernels' caches, as far as that went. A call
 * that cannot be made ready fails where it is set or run, which comes to the same cache: nothing is said of
 * it here.
 */
#include "run/sequence_parts.h"

#include "base/memory.h"
#include "device/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS_MOST = 16 };

/* Threads take kernels in turn: what one kernel is asked for at once it makes one after the other. */
typedef struct making {
    const hr_sequence *sequence;
    int64_t step;
    int *first; /* of each kernel: its first call */
    int count;
    atomic_int next;
    atomic_bool stop;
} making;

static void call_make(const making *making, const hr_sequence_item *item) {
    hr_sequence_arrays made;
    hr_shapes *shapes;
    if (hr_sequence_arrays_make(making->sequence, item, making->step, &made) != HR_OK) return;
    if (hr_kernel_execute_by(item->kernel, made.arrays, item->count, NULL, NULL, &shapes) == HR_OK)
        hr_shapes_release(item->kernel->shapes, shapes);
}

/* All calls of the next kernel. False where there is none left. */
static bool kernel_make(making *making) {
    const hr_sequence *sequence = making->sequence;
    const int at = atomic_fetch_add(&making->next, 1);
    if (at >= making->count) return false;
    for (int i = making->first[at]; i < sequence->item_count && !making->stop; i++)
        if (sequence->items[i].kernel == sequence->items[making->first[at]].kernel && !sequence->items[i].ran)
            call_make(making, &sequence->items[i]);
    return !making->stop;
}

static void *worker(void *context) {
    while (kernel_make(context)) {
    }
    return NULL;
}

/* First calls of kernels that have calls which never ran. */
static void kernels_find(making *making) {
    const hr_sequence *sequence = making->sequence;
    for (int i = 0; i < sequence->item_count; i++) {
        const hr_sequence_item *item = &sequence->items[i];
        int known = 0;
        if (!item->kernel || item->ran) continue;
        while (known < making->count && sequence->items[making->first[known]].kernel != item->kernel)
            known++;
        if (known == making->count) making->first[making->count++] = i;
    }
}

static int threads_of(const making *making) {
    const int processors = hr_team_processors(), most = processors < THREADS_MOST ? processors : THREADS_MOST;
    return making->count < most ? making->count : most;
}

static void kernels_make(making *making) {
    pthread_t threads[THREADS_MOST];
    const int wanted = threads_of(making);
    int started = 0;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, worker, making) == 0)
        started++;
    do { /* only the caller's thread tells progress */
        const int next = making->next;
        if (next < making->count && !hr_sequence_goes_on(making->sequence, making->first[next]))
            making->stop = true;
    } while (!making->stop && kernel_make(making));
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

hr_status hr_sequence_make_ready(hr_sequence *sequence, int64_t step) {
    making making = {.sequence = sequence, .step = step};
    making.first = hr_memory_take(((size_t)sequence->item_count + 1) * sizeof *making.first);
    if (!making.first) return hr_fail(HR_OUT_OF_MEMORY, "no memory to prepare a sequence");
    kernels_find(&making);
    if (making.count > 1) kernels_make(&making);
    free(making.first);
    return making.stop ? hr_fail(HR_CANCELLED, "a sequence's preparing was stopped") : HR_OK;
}
