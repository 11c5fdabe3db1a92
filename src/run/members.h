/* A tensor bound to arrays that lie apart, one a step of its first axis: what is kept of them, and the table
 * by which emitted code finds them (HR_LAYOUT_MEMBERS). */
#ifndef HR_RUN_MEMBERS_H
#define HR_RUN_MEMBERS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct hr_array;
struct hr_device;
struct hr_kernel;

/* Members without gaps, all of one shape. */
typedef struct hr_members {
    int64_t count, elements; /* of one */
    void **data;
    void *base;      /* what the table counts from */
    int64_t *places; /* elements from there; as `table` has them */
    void *table;     /* in the device's memory; NULL = none is needed, or none is there yet */
    bool changed;    /* since the table was written */
} hr_members;

/* hr_kernel_bind_list() of argument `i`, a tensor of two axes or more. */
hr_status hr_members_bind(struct hr_kernel *kernel, int i, const struct hr_array *arrays, int count);
void hr_members_destroy(struct hr_device *device, hr_members *members);
bool hr_kernel_has_members(const struct hr_kernel *kernel);
/* Brings the tables up to date, and the launch's pointer and stride words with them. */
hr_status hr_members_refresh(struct hr_kernel *kernel);

#endif
