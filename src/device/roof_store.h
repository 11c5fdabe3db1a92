/* A roof in the cache folder: measured once, read by every later run. */
#ifndef HR_DEVICE_ROOF_STORE_H
#define HR_DEVICE_ROOF_STORE_H

#include "device/device.h"

#include <jansson.h>

/* HR_NOT_AVAILABLE where this device's roof was not stored by this version, or cannot be read as one. */
hr_status hr_roof_store_read(const struct hr_device *device, hr_roof *out);
hr_status hr_roof_store_write(const struct hr_device *device, const hr_roof *roof);

/* What was measured alternately with a kernel; rates of 0: did not. */
typedef struct hr_roof_seen {
    double copy;          /* bytes a second */
    const char *copy_way; /* which copy that was, where another than the kept one was chosen; else NULL */
    int copy_threads;
    hr_special special;
    double special_rate; /* functions a second */
} hr_roof_seen;

/* The roof is the best that the machine does, but may have been measured while others used its memory and
 * cores. Where what was seen is clearly faster than in `roof`, which was kept for this device, its copy or
 * these functions' rate is raised, and a copy that was chosen anew takes the old one's place, here and in the
 * cache. No rate is raised by another's. False: all is as it was, also where another process measures the
 * roof right now. */
bool hr_roof_store_raise(const struct hr_device *device, const hr_roof_seen *seen, hr_roof *roof);

/* A number of threads in a roof's JSON, 0 where it has none of this name; false where it is none that a
 * machine has. */
bool hr_roof_threads_read(const json_t *object, const char *name, int *out);

/* Two processes that measure at once would measure each other. Waits until no other does, asking `progress`
 * meanwhile; `out` is given back with hr_roof_store_unlock. */
hr_status hr_roof_store_lock(hr_progress_fn progress, void *context, int *out);
void hr_roof_store_unlock(int lock);

#endif
