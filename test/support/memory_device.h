/* A device that has memory and nothing else, for tests of what happens before code exists. `allocated` counts
 * the allocations that live, so that a test can end with 0. */
#ifndef TEST_SUPPORT_MEMORY_DEVICE_H
#define TEST_SUPPORT_MEMORY_DEVICE_H

#include "device/device.h"

#include <stdlib.h>

static int allocated;

static hr_status memory_allocate(struct hr_device *device, size_t size, void **out) {
    (void)device;
    *out = aligned_alloc(64, (size + 63) / 64 * 64);
    allocated++;
    return *out ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "out of memory");
}

static void memory_release(struct hr_device *device, void *data, size_t size) {
    (void)device;
    (void)size;
    free(data);
    allocated--;
}

static const hr_device_ops memory_ops = {
    .kind = "memory", .allocate = memory_allocate, .release = memory_release};
static struct hr_device memory = {.ops = &memory_ops, .name = "memory", .limits = {.threads = 1}};

#endif
