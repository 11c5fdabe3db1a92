/* Tensor maps as a CUDA driver makes them: what base/launch.h describes becomes the 128 bytes that a kernel
 * takes. */
#ifndef HR_DEVICE_TENSOR_MAP_CUDA_H
#define HR_DEVICE_TENSOR_MAP_CUDA_H

#include "base/launch.h"
#include "device/driver_cuda.h"

/* One map of a launch, and the address that it was made for. */
typedef struct hr_cuda_map {
    hr_cu_tensor_map value;
    uintptr_t base; /* 0: not made yet */
} hr_cuda_map;

/* Whether such a map can exist, wherever the tensor lies: HR_INTERNAL with a sentence that names `entry`. */
hr_status hr_cuda_map_check(const hr_tensor_map *map, const char *entry);
/* Makes it unless it was made for this base: the tensor's address. HR_BAD_INPUT where that is not aligned. */
hr_status hr_cuda_map_refresh(const hr_cuda_driver *driver, const hr_tensor_map *map, const char *entry,
                              const void *base, hr_cuda_map *out);

#endif
