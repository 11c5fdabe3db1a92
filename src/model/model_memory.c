/* Memory on both sides. In: a device. Out: places and copies. See model_memory.h. */
#include "model/model_memory.h"

#include "base/memory.h"
#include "device/device.h"

#include <stdlib.h>

#define ZEROS_BYTES ((size_t)1 << 20) /* that the host sends */

hr_status hr_model_memory_take(hr_device *device, size_t bytes, hr_model_memory *out) {
    void *on_device;
    HR_TRY(hr_device_allocate(device, bytes, &on_device));
    *out = (hr_model_memory){.host = on_device, .device = on_device, .bytes = bytes};
    if (hr_device_memory_is_host(device)) return HR_OK;
    void *on_host;
    const hr_status status = hr_device_allocate_pinned(device, bytes, &on_host);
    if (status == HR_OK)
        out->host = on_host;
    else
        hr_model_memory_release(device, out);
    return status;
}

void hr_model_memory_release(hr_device *device, hr_model_memory *memory) {
    if (memory->host != memory->device) hr_device_release_pinned(device, memory->host, memory->bytes);
    if (memory->device) hr_device_release(device, memory->device, memory->bytes);
    *memory = (hr_model_memory){0};
}

void *hr_model_memory_at(const hr_model_memory *memory, const void *host) {
    return memory->device + ((const char *)host - memory->host);
}

hr_status hr_model_memory_send(hr_device *device, const hr_model_memory *memory, const void *host,
                               size_t bytes) {
    if (memory->host == memory->device || bytes == 0) return HR_OK;
    void *to = hr_model_memory_at(memory, host);
    return device->ops->upload_queued ? device->ops->upload_queued(device, to, host, bytes)
                                      : hr_device_upload(device, to, host, bytes);
}

hr_status hr_model_memory_fetch(hr_device *device, const hr_model_memory *memory, void *host, size_t bytes) {
    if (memory->host == memory->device) return HR_OK;
    return hr_device_download(device, host, hr_model_memory_at(memory, host), bytes);
}

/* What is clear is copied behind itself, so that a cache of many gigabytes does not come over the link. */
static hr_status clear(hr_device *device, char *data, size_t bytes) {
    const size_t first = bytes < ZEROS_BYTES ? bytes : ZEROS_BYTES;
    void *zeros = hr_memory_zeros(first, 1);
    if (!zeros) return hr_fail(HR_OUT_OF_MEMORY, "no memory for %zu zeros", first);
    hr_status status = hr_device_upload(device, data, zeros, first);
    free(zeros);
    for (size_t done = first; done < bytes && status == HR_OK; done *= 2)
        status = device->ops->copy(device, data + done, data, bytes - done < done ? bytes - done : done);
    return status;
}

hr_status hr_model_zeros_take(hr_device *device, size_t bytes, void **out) {
    HR_TRY(hr_device_allocate(device, bytes, out));
    if (hr_device_memory_is_host(device)) return HR_OK; /* fresh pages, which the system clears */
    const hr_status status = clear(device, *out, bytes);
    if (status == HR_OK) return HR_OK;
    hr_device_release(device, *out, bytes);
    *out = NULL;
    return status;
}
