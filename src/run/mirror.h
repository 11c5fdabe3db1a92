/* The host's copy of an array in the device's memory, brought over piece by piece as it is read.
 *
 * In: what is bound. Out: host addresses whose bytes are there once they were asked for. A device whose
 * memory the host uses in place has no copies: every call is free.
 */
#ifndef HR_RUN_MIRROR_H
#define HR_RUN_MIRROR_H

#include "run/kernel.h"

typedef struct hr_mirror {
    hr_device *device;
    const char *data;          /* where the host finds the array's first element */
    const char *device_data;   /* where the device does */
    size_t element;            /* bytes of one */
    const hr_members *members; /* NULL: the array is one; else `map` has them side by side */
    char *map;                 /* NULL: the array is used in place */
    const char *device_map;    /* what `map` is a copy of */
    size_t bytes;
    unsigned char *present; /* one a chunk */
    hr_status status;       /* the first failure of a copy */
    char sentence[512];
} hr_mirror;

/* One an argument of the kernel; scalars, unbound and empty arrays have none. */
hr_status hr_mirrors_create(const hr_kernel *kernel, hr_mirror **out);
void hr_mirrors_destroy(const hr_kernel *kernel, hr_mirror *mirrors);
/* hr_operand.need: elements data[base + i * step], 0 <= i < count. */
void hr_mirror_need(void *mirror, int64_t base, int64_t step, int64_t count);
/* The first failure of all copies so far. */
hr_status hr_mirrors_status(const hr_kernel *kernel, const hr_mirror *mirrors);

#endif
