/* Arrays that lie apart as the steps of a tensor's first axis: binding them, and the table of their places.
 *
 * In: arrays of one shape, anywhere in the device's memory. Out: a binding whose strides are those of the
 * members side by side, and a table in the device's memory of where each of them is.
 *
 * Memory is one space of addresses: the code counts every member from one base, upwards. That is the lowest
 * address, so that the copy engine, which counts in steps of 16 bytes, finds all of them. Where any member is
 * not at whole 16 bytes the base is not either: then a launch takes its unaligned code, as with any such
 * array.
 */
#include "run/members.h"

#include "base/dtype.h"
#include "run/kernel.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16 };

void hr_members_destroy(hr_device *device, hr_members *members) {
    if (!members) return;
    if (members->table)
        device->ops->release(device, members->table, (size_t)members->count * sizeof(int64_t));
    free(members->data);
    free(members->places);
    free(members);
}

static hr_status members_create(int count, hr_members **out) {
    hr_members *members = calloc(1, sizeof *members);
    if (members) members->data = calloc((size_t)count + 1, sizeof *members->data);
    if (members) members->places = calloc((size_t)count + 1, sizeof *members->places);
    if (!members || !members->data || !members->places) {
        hr_members_destroy(NULL, members);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a list of %d arrays", count);
    }
    members->count = count;
    *out = members;
    return HR_OK;
}

/* ---- one array ---- */

static hr_status shape_refuse(const hr_kernel *kernel, int i, int member, const char *why) {
    return hr_fail(HR_BAD_INPUT, "array %d of the list for `%s` of kernel %s %s", member,
                   hr_kernel_tensor(kernel, i)->name, kernel->function->name, why);
}

/* HR_BAD_INPUT where the array is no member like the first one. */
static hr_status member_check(const hr_kernel *kernel, int i, const hr_array *arrays, int member) {
    const hr_array *array = &arrays[member], *first = &arrays[0];
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    char why[160];
    int64_t elements = 1;
    if (array->size < sizeof *array)
        return shape_refuse(kernel, i, member,
                            "does not say its size: begin it with {.size = sizeof(hr_array)}");
    HR_TRY(hr_binding_dtype_check(kernel, i, member, array->dtype));
    if (array->dtype != first->dtype) return shape_refuse(kernel, i, member, "is not of array 0's dtype");
    if (array->rank != tensor->rank - 1) {
        snprintf(why, sizeof why, "has %d axes: one step of the first of %d has %d", array->rank,
                 tensor->rank, tensor->rank - 1);
        return shape_refuse(kernel, i, member, why);
    }
    if (!array->shape) return shape_refuse(kernel, i, member, "has no shape");
    for (int axis = 0; axis < array->rank; axis++)
        if (array->shape[axis] < 0 || array->shape[axis] != first->shape[axis] ||
            __builtin_mul_overflow(elements, array->shape[axis], &elements) || elements > INT64_MAX / 64) {
            snprintf(why, sizeof why, "has %lld elements on axis %d, and array 0 has %lld",
                     (long long)array->shape[axis], axis, (long long)first->shape[axis]);
            return shape_refuse(kernel, i, member, why);
        }
    if (!hr_array_is_dense(array))
        return shape_refuse(kernel, i, member, "has gaps between its elements: a list takes arrays without");
    if (elements && !array->data) return shape_refuse(kernel, i, member, "has no data (NULL)");
    if (elements && (uintptr_t)array->data % hr_dtype_size(array->dtype))
        return shape_refuse(kernel, i, member, "is at an address that is no multiple of its element's bytes");
    return HR_OK;
}

/* ---- all of them ---- */

static void places_set(hr_members *members, size_t size) {
    uintptr_t base = members->count ? (uintptr_t)members->data[0] : 0, bits = 0;
    for (int64_t k = 0; k < members->count; k++) {
        const uintptr_t at = (uintptr_t)members->data[k];
        if (at < base) base = at;
        bits |= at;
    }
    if (bits % ALIGNMENT && base % ALIGNMENT == 0) base -= size;
    members->base = (void *)base;
    for (int64_t k = 0; k < members->count && members->elements; k++)
        members->places[k] = ((intptr_t)members->data[k] - (intptr_t)base) / (intptr_t)size;
    members->changed = true;
}

/* The table of an earlier list of as many serves again. */
static void table_keep(hr_members *old, hr_members *members) {
    if (!old || old->count != members->count) return;
    members->table = old->table;
    old->table = NULL;
}

hr_status hr_members_bind(hr_kernel *kernel, int i, const hr_array *arrays, int count) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    hr_members *members = NULL;
    int64_t shape[HR_RANK_MAX], elements;
    if (count < 1)
        return hr_fail(HR_BAD_INPUT,
                       "the list for `%s` of kernel %s is empty: nothing says how large a step of its first "
                       "axis is; bind an array of 0 steps",
                       tensor->name, kernel->function->name);
    for (int k = 0; k < count; k++)
        HR_TRY(member_check(kernel, i, arrays, k));
    shape[0] = count;
    for (int axis = 1; axis < tensor->rank; axis++)
        shape[axis] = arrays[0].shape[axis - 1];
    elements = hr_shape_elements(tensor->rank - 1, shape + 1);
    if (elements > INT64_MAX / 64 / count)
        return hr_fail(HR_BAD_INPUT, "the list for `%s` has more elements than memory can hold",
                       tensor->name);
    HR_TRY(members_create(count, &members));
    members->elements = elements;
    for (int k = 0; k < count; k++)
        members->data[k] = arrays[k].data;
    places_set(members, hr_dtype_size(arrays[0].dtype));
    hr_status status = hr_kernel_follow(kernel, i, arrays[0].dtype);
    if (status == HR_OK) {
        table_keep(kernel->bindings[i].members, members);
        status = hr_binding_set(kernel, i, members->base, shape, NULL);
    }
    if (status != HR_OK) {
        hr_members_destroy(kernel->device, members);
        return status;
    }
    kernel->bindings[i].layout = HR_LAYOUT_MEMBERS;
    kernel->bindings[i].members = members;
    return HR_OK;
}

bool hr_kernel_has_members(const hr_kernel *kernel) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->bindings[i].members) return true;
    return false;
}

static hr_status table_write(hr_kernel *kernel, hr_members *members) {
    const size_t size = (size_t)members->count * sizeof(int64_t);
    if (!members->table) {
        HR_TRY(kernel->device->ops->allocate(kernel->device, size, &members->table));
        members->changed = true;
    }
    if (members->changed) HR_TRY(hr_device_upload(kernel->device, members->table, members->places, size));
    members->changed = false;
    return HR_OK;
}

hr_status hr_members_refresh(hr_kernel *kernel) {
    int64_t *stride = kernel->strides;
    for (int i = 0; i < kernel->argument_count; stride += hr_kernel_tensor(kernel, i++)->rank) {
        hr_members *members = kernel->bindings[i].members;
        if (!members) continue;
        HR_TRY(table_write(kernel, members));
        *stride = (int64_t)(intptr_t)members->table;
        kernel->bytes[i] = 0;
    }
    return HR_OK;
}
