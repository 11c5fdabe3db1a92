/* The launch itself: tables for the emitted code, scratch, and a sentence for a subscript that left its axis.
 *
 * In: bindings and a prepared state. Out: one execution.
 */
#include "run/kernel.h"

#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

static hr_status scratch_grow(hr_kernel *kernel, size_t size) {
    if (size <= kernel->scratch_size) return HR_OK;
    void *scratch = NULL;
    hr_launch_trim(kernel, NULL);
    hr_status status = kernel->device->ops->allocate(kernel->device, size, &scratch);
    if (status != HR_OK)
        return hr_fail_context(status, "kernel %s needs %.0f MB for locals that exist in memory",
                               kernel->function->name, (double)size / (1 << 20));
    kernel->scratch = scratch;
    kernel->scratch_size = size;
    return HR_OK;
}

void hr_launch_trim(hr_kernel *kernel, const hr_prepared *prepared) {
    if (!kernel->scratch || (prepared && (size_t)prepared->scratch_size >= kernel->scratch_size)) return;
    kernel->device->ops->release(kernel->device, kernel->scratch, kernel->scratch_size);
    kernel->scratch = NULL;
    kernel->scratch_size = 0;
    kernel->current = NULL;
}

/* From the first to past the last byte; 0 where the data does not begin with the first. */
static int64_t bytes_spanned(const hr_tensor *tensor, const hr_binding *binding) {
    int64_t span = 1;
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (binding->shape[axis] == 0) return 0;
        int64_t stride = binding->strides[axis];
        if (stride < 0 && binding->shape[axis] > 1) return 0;
        span += (binding->shape[axis] - 1) * stride;
    }
    return span * (int64_t)hr_dtype_size(tensor->dtype);
}

hr_status hr_launch_refresh(hr_kernel *kernel, const hr_prepared *prepared) {
    int64_t *stride = kernel->strides;
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        const hr_binding *binding = &kernel->bindings[i];
        bool scalar = hr_tensor_is_scalar(tensor);
        kernel->pointers[i] = scalar ? NULL : binding->data;
        kernel->scalars[i] = scalar ? binding->scalar : 0;
        kernel->bytes[i] = scalar ? 0 : bytes_spanned(tensor, binding);
        for (int axis = 0; axis < tensor->rank; axis++)
            *stride++ = binding->strides[axis];
    }
    return scratch_grow(kernel, (size_t)prepared->scratch_size);
}

void hr_launch_make(const hr_kernel *kernel, const hr_prepared *prepared, hr_launch *out) {
    *out = (hr_launch){.pointers = kernel->pointers,
                       .scalars = kernel->scalars,
                       .extents = prepared->extents,
                       .strides = kernel->strides,
                       .scratch = kernel->scratch,
                       .threads = prepared->launch_threads,
                       .tuning = prepared->tuning,
                       .count = kernel->argument_count,
                       .bytes = kernel->bytes};
}

/* ---- a subscript that left its axis ---- */

static hr_status fault_fail(const hr_kernel *kernel, const hr_prepared *prepared, const hr_fault *fault) {
    hr_access access;
    size_t length = 0;
    int64_t extent = 0;
    const hr_function *normal = prepared->plan->normal;
    if (!hr_plan_access(prepared->plan, fault->access - 1, &access))
        return hr_fail(HR_OUT_OF_RANGE, "a subscript of kernel %s had the value %lld and left its axis",
                       kernel->function->name, (long long)fault->value);
    const hr_tensor *tensor = &normal->tensors[access.tensor];
    hr_status status = hr_extent_value(normal, tensor->shape[access.axis], prepared->extents, &extent);
    if (status != HR_OK) return status;
    const char *line = hr_program_line(kernel->program, access.place.line, &length);
    int shown = line && length < 200 ? (int)length : 0;
    return hr_fail(HR_OUT_OF_RANGE,
                   "%s:%d:%d: a subscript of `%s` had the value %lld; its axis %d has %lld elements (0 to "
                   "%lld). Nothing was read or written there%s%.*s",
                   kernel->file, access.place.line, access.place.column, tensor->name,
                   (long long)fault->value, access.axis, (long long)extent, (long long)extent - 1,
                   shown ? "\n" : "", shown, shown ? line : "");
}

hr_status hr_launch_once(hr_kernel *kernel, const hr_prepared *prepared) {
    hr_launch launch;
    hr_fault fault = {0};
    hr_launch_make(kernel, prepared, &launch);
    hr_status status = kernel->device->ops->launch(kernel->device, prepared->module, &launch, &fault);
    return fault.access ? fault_fail(kernel, prepared, &fault) : status;
}

hr_status hr_kernel_launch(hr_kernel *kernel) {
    if (!kernel->current) {
        hr_preparing preparing = {
            .tune = HR_TUNE_NONE, .unfused = kernel->unfused, .threads = kernel->threads};
        hr_prepared *prepared;
        HR_TRY(hr_kernel_ready(kernel, &preparing, &prepared));
        kernel->current = prepared;
    }
    return hr_launch_once(kernel, kernel->current);
}
