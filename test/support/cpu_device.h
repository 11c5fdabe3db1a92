/* The CPU, opened once for all tests of a program: for its main's cmocka_run_group_tests. Its roof is given,
 * and kept in the cache under a name of its own. For tests only. */
#ifndef HR_TEST_SUPPORT_CPU_DEVICE_H
#define HR_TEST_SUPPORT_CPU_DEVICE_H

#include "device/device.h"
#include "support/given_roof.h"

#include <string.h>

static hr_device *device;
static hr_device_ops device_ops;

static int open_device(void **state) {
    (void)state;
    if (hr_device_open("cpu", &device) != HR_OK) return -1;
    device_ops = *device->ops;
    device_ops.measure_roof = given_roof;
    device->ops = &device_ops;
    strcpy(device->name, "the CPU of a test");
    device->limits.little_work = 0; /* small cases are to meet all threads, too */
    return 0;
}

static int close_device(void **state) {
    (void)state;
    hr_device_destroy(device);
    return 0;
}

/* The emitted source of the planned extents alone: without the part beside it that takes all others, each
 * name is as the templates have it. */
static inline hr_status planned_source(hr_kernel *kernel, const char **source) {
    const hr_emit_options options = {.size = sizeof options, .form = HR_SOURCE_THESE_EXTENTS};
    const char *header;
    return hr_kernel_emit(kernel, &options, source, &header);
}

#endif
