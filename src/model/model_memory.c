/* Memory on both sides. In: a device. Out: places and copies. See model_memory.h. */
#include "model/model_memory.h"

#include "base/memory.h"

#include <stdlib.h>

hr_status hr_model_memory_take(hr_device *device, size_t bytes, hr_model_memory *out) {
    void *on_device;
    HR_TRY(hr_device_allocate(device, bytes, &on_device));
    *out = (hr_model_memory){.host = on_device, .device = on_device, .bytes = bytes};
    if (hr_device_memory_is_host(device)) return HR_OK;
    out->host = hr_memory_take(bytes);
    if (out->host) return HR_OK;
    hr_model_memory_release(device, out);
    return hr_fail(HR_OUT_OF_MEMORY, "no memory for a copy of %zu bytes of the device", bytes);
}

void hr_model_memory_release(hr_device *device, hr_model_memory *memory) {
    if (memory->host != memory->device) free(memory->host);
    if (memory->device) hr_device_release(device, memory->device, memory->bytes);
    *memory = (hr_model_memory){0};
}

void *hr_model_memory_at(const hr_model_memory *memory, const void *host) {
    return memory->device + ((const char *)host - memory->host);
}

hr_status hr_model_memory_send(hr_device *device, const hr_model_memory *memory, const void *host,
                               size_t bytes) {
    if (memory->host == memory->device) return HR_OK;
    return hr_device_upload(device, hr_model_memory_at(memory, host), host, bytes);
}

hr_status hr_model_memory_fetch(hr_device *device, const hr_model_memory *memory, void *host, size_t bytes) {
    if (memory->host == memory->device) return HR_OK;
    return hr_device_download(device, host, hr_model_memory_at(memory, host), bytes);
}
