/* The driver encodes tensor maps on the host: no call to the device, but enough work not to repeat it. */
#include "device/tensor_map_cuda.h"

enum { BOX_MAX = 256, MAP_ALIGNMENT = 16 };

/* ---- what a map must be ---- */

/* Bytes of a row of a box at most. */
static int64_t span_of(hr_map_swizzle swizzle) {
    return swizzle == HR_MAP_PLAIN ? INT64_MAX : 16 << swizzle;
}

/* NULL where the axis is as it must be. */
static const char *axis_fault(const hr_tensor_map *map, int axis) {
    if (map->dims[axis] < 1 || map->dims[axis] > (int64_t)1 << 32)
        return "has an extent below 1 or beyond 2^32";
    if (map->box[axis] < 1 || map->box[axis] > BOX_MAX) return "has a box below 1 or beyond 256";
    if (axis > 0 && (map->strides[axis] % MAP_ALIGNMENT || map->strides[axis] < 0 ||
                     map->strides[axis] >= (int64_t)1 << 40))
        return "has a stride that is no multiple of 16 bytes, or beyond 2^40";
    return NULL;
}

static hr_status map_refuse(const hr_tensor_map *map, const char *entry, int axis, const char *why) {
    return hr_fail(HR_INTERNAL,
                   "kernel %s: axis %d of the map of tensor %d %s (extent %lld, stride %lld, box %d)", entry,
                   axis, map->tensor, why, (long long)map->dims[axis], (long long)map->strides[axis],
                   map->box[axis]);
}

hr_status hr_cuda_map_check(const hr_tensor_map *map, const char *entry) {
    if (map->rank < 1 || map->rank > HR_MAP_RANK_MAX)
        return hr_fail(HR_INTERNAL, "kernel %s: a map of tensor %d has %d axes; 1 to %d are possible", entry,
                       map->tensor, map->rank, HR_MAP_RANK_MAX);
    for (int axis = 0; axis < map->rank; axis++) {
        const char *fault = axis_fault(map, axis);
        if (fault) return map_refuse(map, entry, axis, fault);
    }
    int64_t row = (int64_t)map->box[0] * hr_map_type_bytes(map->type);
    if (row % MAP_ALIGNMENT || row > span_of(map->swizzle))
        return map_refuse(map, entry, 0,
                          "has a box that is no multiple of 16 bytes, or longer than its swizzle");
    return HR_OK;
}

/* ---- encoding ---- */

static hr_status map_encode(const hr_cuda_driver *driver, const hr_tensor_map *map, const char *entry,
                            uintptr_t base, hr_cuda_map *out) {
    uint64_t dims[HR_MAP_RANK_MAX], strides[HR_MAP_RANK_MAX];
    uint32_t box[HR_MAP_RANK_MAX], steps[HR_MAP_RANK_MAX];
    for (int axis = 0; axis < map->rank; axis++) {
        dims[axis] = (uint64_t)map->dims[axis];
        strides[axis] = (uint64_t)map->strides[axis];
        box[axis] = (uint32_t)map->box[axis];
        steps[axis] = 1;
    }
    hr_cu_result result = driver->tensor_map(
        &out->value, map->type, (uint32_t)map->rank, (hr_cu_address)(base + (uintptr_t)map->offset), dims,
        strides + 1, box, steps, 0, map->swizzle, map->promotion, map->fill);
    if (result)
        return hr_cuda_fail(driver, result, "making the map of tensor %d for kernel %s", map->tensor, entry);
    out->base = base;
    return HR_OK;
}

hr_status hr_cuda_map_refresh(const hr_cuda_driver *driver, const hr_tensor_map *map, const char *entry,
                              const void *base, hr_cuda_map *out) {
    uintptr_t address = (uintptr_t)base;
    if (out->base == address && address) return HR_OK;
    if (address == 0 || (address + (uintptr_t)map->offset) % MAP_ALIGNMENT)
        return hr_fail(
            HR_BAD_INPUT,
            "kernel %s copies tensor %d by a map, which must begin at a multiple of %d bytes: it is "
            "at %p",
            entry, map->tensor, MAP_ALIGNMENT, base);
    return map_encode(driver, map, entry, address, out);
}
