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

hr_status hr_keeping_begin(const hr_kernel *kernel, hr_restore_fn restore, hr_keeping *out) {
    out->copies = calloc((size_t)kernel->argument_count + 1, sizeof *out->copies);
    if (!out->copies) return hr_fail(HR_OUT_OF_MEMORY, "no memory to keep inout arrays");
    for (int i = 0; i < kernel->argument_count; i++) {
        hr_array array;
        if (!is_inout(kernel, i) || kernel->bindings[i].owned || restore) continue;
        hr_status status =
            kernel->device->ops->allocate(kernel->device, array_bytes(kernel, i), &out->copies[i]);
        if (status != HR_OK) {
            hr_keeping_end(kernel, out);
            return hr_fail_context(status, "while copying `%s`, whose old values tuning needs",
                                   hr_kernel_tensor(kernel, i)->name);
        }
        hr_kernel_array_of(kernel, i, &array);
        char *dense = out->copies[i];
        elements_copy(&array, 0, array.data, &dense, true);
    }
    return HR_OK;
}

hr_status hr_keeping_restore(hr_kernel *kernel, const hr_keeping *keeping, hr_restore_fn restore,
                             void *restore_context) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_binding *binding = &kernel->bindings[i];
        hr_array array;
        if (!is_inout(kernel, i)) continue;
        hr_kernel_array_of(kernel, i, &array);
        char *dense = keeping->copies ? keeping->copies[i] : NULL;
        if (binding->owned)
            hr_fill_array(array.dtype, array.data, hr_shape_elements(array.rank, array.shape),
                          &binding->filling);
        else if (dense)
            elements_copy(&array, 0, array.data, &dense, false);
        else if (restore)
            HR_TRY(restore(restore_context, hr_kernel_tensor(kernel, i)->name, &array));
    }
    return HR_OK;
}

void hr_keeping_end(const hr_kernel *kernel, hr_keeping *keeping) {
    for (int i = 0; keeping->copies && i < kernel->argument_count; i++)
        if (keeping->copies[i])
            kernel->device->ops->release(kernel->device, keeping->copies[i], array_bytes(kernel, i));
    free(keeping->copies);
    keeping->copies = NULL;
}
