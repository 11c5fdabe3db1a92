/* Work that a device does again and again in one order: calls of kernels, and copies that run beside them.
 *
 * In: for each item of the list what it does, and behind which earlier item it begins; what did not change
 * since the last time costs a comparison. Out: the whole list, queued by one call of the driver, or run by
 * one team of threads, which meet only where an item begins behind another.
 */
#ifndef HR_DEVICE_REPLAY_H
#define HR_DEVICE_REPLAY_H

#include "base/launch.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_replay hr_replay;
struct hr_device;
struct hr_module;
struct hr_execution;

#define HR_REPLAY_NOTHING (-1) /* an item that waits for none, or none at all */

typedef struct hr_replay_counts {
    int64_t captures, patches, replays; /* patches: launches of one kernel that were changed in place */
    int64_t plain;                      /* times that the list was queued item by item */
    const char *refusal;                /* why there is no graph at present; "" = nothing stands against it */
} hr_replay_counts;

/* Who is told of each item of a run, in their order, by the thread that asked for it. `begins` is false where
 * nothing more shall be done. */
typedef struct hr_replay_watch {
    bool (*begins)(void *context, int i);
    void (*ends)(void *context, int i);
    void *context;
} hr_replay_watch;

/* What came of a run. */
typedef struct hr_replay_run {
    int faulty;       /* the item that left its axis, or HR_REPLAY_NOTHING, */
    hr_fault fault;   /* and how */
    double *seconds;  /* of each item, with the time that others' parts of it took longer */
    int64_t meetings; /* how often all threads waited for each other */
} hr_replay_run;

typedef struct hr_replay_ops {
    hr_status (*create)(struct hr_device *device, int count, hr_replay **out);
    /* After all that was launched. */
    void (*destroy)(hr_replay *replay);
    /* Item `i` is this execution's launches from now on. What it points to is copied; the module stays as
     * long as the graph, or until the item is another's. */
    hr_status (*set_launches)(hr_replay *replay, int i, struct hr_module *module,
                              const struct hr_execution *execution);
    /* Item `i` copies; memory of the host is pinned. Copies run in their order, beside the kernels. */
    hr_status (*set_copy)(hr_replay *replay, int i, void *to, const void *from, size_t size);
    /* Item `i` begins when item `after`, one before it, has ended. A device that queues has launches in
     * order, and copies: `after` is a copy for launches, launches for a copy. One that runs has those of one
     * thread in order. */
    void (*set_after)(hr_replay *replay, int i, int after);
    /* A device that runs: each thread does item `i` for itself. */
    void (*set_each)(hr_replay *replay, int i, bool each);
    /* And what is given between `own` and `size` bytes behind it is the first thread's own; the next ones'
     * lies each `size` bytes behind that. */
    void (*set_own)(hr_replay *replay, const void *own, size_t size);
    /* Brings the graph up to date. It is captured when the same list of grids is to be queued a second time:
     * by then their code is loaded. Where the driver refuses, the list is queued item by item. */
    hr_status (*ready)(hr_replay *replay);
    /* Queues all of it on the device's stream. HR_OUT_OF_RANGE: a launch of earlier left its axis, that of
     * item *faulty's module; nothing is queued. */
    hr_status (*launch)(hr_replay *replay, int *faulty);
    /* The same, waited for: seconds of each item, one behind the other, by the device's clock. */
    hr_status (*time_items)(hr_replay *replay, double *seconds);
    /* The same, waited for: seconds of the whole, copies beside kernels. 0 where there is no graph: it was
     * queued item by item, and not waited for. */
    hr_status (*time_whole)(hr_replay *replay, double *seconds);
    void (*counts)(const hr_replay *replay, hr_replay_counts *out);
    /* A device that does not queue, in place of `ready` to `counts`: all of it, complete on return. Behind an
     * item that left its axis those that might have begun beside it are run, others are not. HR_CANCELLED:
     * the watch wanted no more. */
    hr_status (*run)(hr_replay *replay, const hr_replay_watch *watch, hr_replay_run *out);
} hr_replay_ops;

#endif
