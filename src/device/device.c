/* Opening a device by name, and what is public of it. In: "cpu", "cuda", "cuda:1" or NULL. Out: a device. */
#include "device/device.h"

#include <string.h>

hr_status hr_device_open(const char *name, hr_device **out) {
    if (!name || strcmp(name, "cpu") == 0) return hr_device_cpu_open(out);
    if (strcmp(name, "cuda") == 0 || strncmp(name, "cuda:", 5) == 0)
        return hr_fail(HR_NOT_AVAILABLE, "this build has no cuda device yet: use --device cpu");
    return hr_fail(HR_BAD_INPUT, "'%.40s' is no device: use cpu, cuda or cuda:I", name);
}

void hr_device_destroy(hr_device *device) {
    if (device) device->ops->destroy(device);
}

const char *hr_device_kind(const hr_device *device) {
    return device->ops->kind;
}

const char *hr_device_name(const hr_device *device) {
    return device->name;
}
