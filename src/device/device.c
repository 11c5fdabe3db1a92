/* Opening a device by name, and what is public of it. In: "cpu", "cuda", "cuda:1", "cuda:sm_90a" or NULL.
 * Out: a device. */
#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hr_status cuda_open(const char *which, hr_device **out) {
    char *end;
    if (strncmp(which, "sm_", 3) == 0) return hr_device_target_open(which, out);
    long ordinal = strtol(which, &end, 10);
    if (!isdigit((unsigned char)*which) || *end || ordinal > 1023)
        return hr_fail(HR_BAD_INPUT, "'cuda:%.40s' is no device: use cuda:0, cuda:1, ...", which);
    return hr_device_cuda_open((int)ordinal, out);
}

hr_status hr_device_open(const char *name, hr_device **out) {
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (!name) return hr_device_cuda_open(0, out) == HR_OK ? HR_OK : hr_device_cpu_open(out);
    if (strcmp(name, "cpu") == 0) return hr_device_cpu_open(out);
    if (strcmp(name, "cuda") == 0) return hr_device_cuda_open(0, out);
    if (strncmp(name, "cuda:", 5) == 0) return cuda_open(name + 5, out);
    return hr_fail(HR_BAD_INPUT, "'%.40s' is no device: use cpu, cuda or cuda:I", name);
}

void hr_device_destroy(hr_device *device) {
    if (device && hr_handle_check(device, HR_HANDLE_DEVICE, __func__) == HR_OK) device->ops->destroy(device);
}

const char *hr_device_kind(const hr_device *device) {
    if (hr_handle_check(device, HR_HANDLE_DEVICE, __func__) != HR_OK) return NULL;
    return device->ops->kind;
}

const char *hr_device_name(const hr_device *device) {
    if (hr_handle_check(device, HR_HANDLE_DEVICE, __func__) != HR_OK) return NULL;
    return device->name;
}

hr_status hr_device_threads_set(hr_device *device, hr_parallel_fn run, void *context) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    if (strcmp(device->ops->kind, "cpu") != 0)
        return hr_fail(HR_NOT_AVAILABLE, "a device of kind %s runs on no threads of the program",
                       device->ops->kind);
    device->host = (hr_team_host){run, context};
    return HR_OK;
}

/* ---- memory ---- */

bool hr_device_memory_is_host(const hr_device *device) {
    if (hr_handle_check(device, HR_HANDLE_DEVICE, __func__) != HR_OK) return false;
    return !device->ops->upload;
}

hr_status hr_device_allocate(hr_device *device, size_t size, void **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    return device->ops->allocate(device, size, out);
}

void hr_device_release(hr_device *device, void *data, size_t size) {
    if (hr_handle_check(device, HR_HANDLE_DEVICE, __func__) != HR_OK) return;
    device->ops->release(device, data, size);
}

hr_status hr_device_allocate_pinned(hr_device *device, size_t size, void **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (device->ops->allocate_pinned) return device->ops->allocate_pinned(device, size, out);
    return device->ops->allocate(device, size, out);
}

void hr_device_release_pinned(hr_device *device, void *data, size_t size) {
    if (hr_handle_check(device, HR_HANDLE_DEVICE, __func__) != HR_OK) return;
    if (device->ops->release_pinned)
        device->ops->release_pinned(device, data);
    else
        device->ops->release(device, data, size);
}

hr_status hr_device_upload(hr_device *device, void *to, const void *from, size_t size) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    if (size) HR_TRY(hr_pointer_check(to, "memory to write", __func__));
    if (size) HR_TRY(hr_pointer_check(from, "memory to read", __func__));
    if (device->ops->upload) return device->ops->upload(device, to, from, size);
    if (size) memmove(to, from, size);
    return HR_OK;
}

hr_status hr_device_download(hr_device *device, void *to, const void *from, size_t size) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    if (size) HR_TRY(hr_pointer_check(to, "memory to write", __func__));
    if (size) HR_TRY(hr_pointer_check(from, "memory to read", __func__));
    if (device->ops->download) return device->ops->download(device, to, from, size);
    if (size) memmove(to, from, size);
    return HR_OK;
}

void hr_device_stream_set(hr_device *device, void *stream) {
    if (hr_handle_check(device, HR_HANDLE_DEVICE, __func__) != HR_OK) return;
    if (device->ops->stream) device->ops->stream(device, stream);
}

/* ---- roof ---- */

void hr_roof_name_copy(hr_roof *roof, const char *way, int threads) {
    char name[sizeof roof->copy_way] = {0}; /* roofs are compared byte by byte; `way` may be the roof's own */
    snprintf(name, sizeof name, "%s", way);
    memcpy(roof->copy_way, name, sizeof name);
    roof->copy_threads = threads;
}
