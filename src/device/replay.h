/* Work that a device queues again and again in one order: calls of kernels, and copies that run beside them.
 *
 * In: for each item of the list what it does, and behind which item of the other kind it begins; what did not
 * change since the last time costs a comparison. Out: the whole list, queued by one call of the driver.
 */
#ifndef HR_DEVICE_REPLAY_H
#define HR_DEVICE_REPLAY_H

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
    /* Item `i` begins when item `after`, one before it, has ended: a copy for launches, launches for a copy.
     */
    void (*set_after)(hr_replay *replay, int i, int after);
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
} hr_replay_ops;

#endif
