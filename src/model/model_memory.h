/* Memory that the host writes and kernels read, or the other way round: one piece where the device's memory
 * is the host's, a copy on each side elsewhere.
 */
#ifndef HR_MODEL_MODEL_MEMORY_H
#define HR_MODEL_MODEL_MEMORY_H

#include "headroom.h"

typedef struct hr_model_memory {
    char *host, *device; /* the same where the device's memory is the host's */
    size_t bytes;
} hr_model_memory;

/* `bytes` on each side, cleared on neither; the host's are pinned. */
hr_status hr_model_memory_take(hr_device *device, size_t bytes, hr_model_memory *out);
/* Nothing where it was never taken. */
void hr_model_memory_release(hr_device *device, hr_model_memory *memory);
/* Where kernels find what the host has at `host`, which lies in it. */
void *hr_model_memory_at(const hr_model_memory *memory, const void *host);
/* `bytes` from `host` on for kernels that are launched from now on, which the host leaves as they are until
 * the device has been waited for; or, complete on return, from them. */
hr_status hr_model_memory_send(hr_device *device, const hr_model_memory *memory, const void *host,
                               size_t bytes);
hr_status hr_model_memory_fetch(hr_device *device, const hr_model_memory *memory, void *host, size_t bytes);

/* `bytes` of the device's memory that begin as zeros. hr_device_release. */
hr_status hr_model_zeros_take(hr_device *device, size_t bytes, void **out);

#endif
