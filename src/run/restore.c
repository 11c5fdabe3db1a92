/* Old values of inout arrays, brought back after launches that only measured.
 *
 * In: the bound arrays. Out: copies of those that nobody else can bring back, and the way back.
 */
#include "run/kernel.h"

#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

/* Copies between an array and memory without gaps; the last axis in one piece where it lies so. */
static void elements_copy(const hr_array *array, int axis, char *array_at, char **dense, bool out) {
    size_t size = hr_dtype_size(array->dtype);
    bool flat =
        axis == array->rank || !array->strides || (axis == array->rank - 1 && array->strides[axis] == 1);
    if (flat) {
        size_t bytes = size * (size_t)hr_shape_elements(array->rank - axis, array->shape + axis);
        memcpy(out ? *dense : array_at, out ? array_at : *dense, bytes);
        *dense += bytes;
        return;
    }
    for (int64_t x = 0; x < array->shape[axis]; x++)
        elements_copy(array, axis + 1, array_at + x * array->strides[axis] * (int64_t)size, dense, out);
}

static size_t array_bytes(const hr_kernel *kernel, int i) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    return hr_dtype_size(tensor->dtype) * (size_t)hr_shape_elements(tensor->rank, kernel->bindings[i].shape);
}

static bool is_inout(const hr_kernel *kernel, int i) {
    return hr_kernel_tensor(kernel, i)->role == HR_ROLE_INOUT && kernel->bindings[i].bound &&
           array_bytes(kernel, i) > 0;
}

/* Member after member. */
static hr_status members_copy(const hr_kernel *kernel, int i, char *copy, bool out) {
    const hr_device_ops *ops = kernel->device->ops;
    const hr_members *members = kernel->bindings[i].members;
    const size_t bytes = (size_t)members->elements * hr_dtype_size(hr_kernel_tensor(kernel, i)->dtype);
    for (int64_t k = 0; k < members->count; k++, copy += bytes) {
        char *data = members->data[k];
        if (ops->copy)
            HR_TRY(ops->copy(kernel->device, out ? copy : data, out ? data : copy, bytes));
        else
            memcpy(out ? copy : data, out ? data : copy, bytes);
    }
    return HR_OK;
}

/* A device copies whole spans: what lies between the elements of a strided array holds old values as well,
 * and belongs to arrays that are brought back too, or to results. */
static hr_status array_copy(const hr_kernel *kernel, int i, char *copy, bool out) {
    const hr_device_ops *ops = kernel->device->ops;
    hr_array array;
    int64_t low, high;
    if (kernel->bindings[i].members) return members_copy(kernel, i, copy, out);
    hr_kernel_array_of(kernel, i, &array);
    if (!ops->copy) {
        elements_copy(&array, 0, array.data, &copy, out);
        return HR_OK;
    }
    hr_binding_span(hr_kernel_tensor(kernel, i), &kernel->bindings[i], &low, &high);
    char *data = (char *)array.data + low;
    return ops->copy(kernel->device, out ? copy : data, out ? data : copy, (size_t)(high - low));
}

static size_t copy_bytes(const hr_kernel *kernel, int i) {
    int64_t low, high;
    if (!kernel->device->ops->copy) return array_bytes(kernel, i);
    hr_binding_span(hr_kernel_tensor(kernel, i), &kernel->bindings[i], &low, &high);
    return (size_t)(high - low);
}

hr_status hr_keeping_begin(const hr_kernel *kernel, hr_restore_fn restore, hr_keeping *out) {
    const hr_device_ops *ops = kernel->device->ops;
    out->copies = calloc((size_t)kernel->argument_count + 1, sizeof *out->copies);
    if (!out->copies) return hr_fail(HR_OUT_OF_MEMORY, "no memory to keep inout arrays");
    for (int i = 0; i < kernel->argument_count; i++) {
        if (!is_inout(kernel, i) || kernel->bindings[i].owned || restore) continue;
        hr_status status = ops->allocate(kernel->device, copy_bytes(kernel, i), &out->copies[i]);
        if (status == HR_OK) status = array_copy(kernel, i, out->copies[i], true);
        if (status != HR_OK) {
            hr_keeping_end(kernel, out);
            return hr_fail_context(status, "while copying `%s`, whose old values tuning needs",
                                   hr_kernel_tensor(kernel, i)->name);
        }
    }
    return HR_OK;
}

hr_status hr_keeping_restore(hr_kernel *kernel, const hr_keeping *keeping, hr_restore_fn restore,
                             void *restore_context) {
    for (int i = 0; i < kernel->argument_count; i++) {
        hr_array array;
        if (!is_inout(kernel, i)) continue;
        char *copy = keeping->copies ? keeping->copies[i] : NULL;
        hr_kernel_array_of(kernel, i, &array);
        if (kernel->bindings[i].owned)
            HR_TRY(hr_fill_binding(kernel, i));
        else if (copy)
            HR_TRY(array_copy(kernel, i, copy, false));
        else if (restore)
            HR_TRY(restore(restore_context, hr_kernel_tensor(kernel, i)->name, &array));
    }
    return HR_OK;
}

void hr_keeping_end(const hr_kernel *kernel, hr_keeping *keeping) {
    for (int i = 0; keeping->copies && i < kernel->argument_count; i++)
        if (keeping->copies[i])
            kernel->device->ops->release(kernel->device, keeping->copies[i], copy_bytes(kernel, i));
    free(keeping->copies);
    keeping->copies = NULL;
}
