/* Loading a kernel from text, and what it is called with. In: text and a device. Out: the handle. */
#include "run/kernel.h"

#include "base/dtype.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREPARED_MOST 8
#define TEXT_MAX      (16u << 20)
#define EXTENTS_MAX   1024 /* numbers for them live on the stack, */
#define RANK_MAX      64   /* and a shape's, too */

static hr_status kernel_alloc(hr_kernel *kernel) {
    const hr_function *function = kernel->function;
    if (function->extent_count > EXTENTS_MAX)
        return hr_fail(HR_BAD_INPUT, "kernel %s has %d extents; at most %d can be bound", function->name,
                       function->extent_count, EXTENTS_MAX);
    kernel->argument_count = hr_function_arguments(function);
    kernel->prepared_most = PREPARED_MOST;
    HR_TRY(hr_shape_cache_create(&kernel->shapes));
    for (int i = 0; i < kernel->argument_count; i++)
        if (function->tensors[i].rank > RANK_MAX)
            return hr_fail(HR_BAD_INPUT, "`%s` of kernel %s has %d axes; at most %d can be bound",
                           function->tensors[i].name, function->name, function->tensors[i].rank, RANK_MAX);
    size_t extents = (size_t)function->extent_count + 1, strides = 1;
    size_t arguments = (size_t)kernel->argument_count + 1; /* never an empty allocation */
    for (int i = 0; i < kernel->argument_count; i++)
        strides += (size_t)function->tensors[i].rank;
    kernel->stride_count = (int64_t)strides - 1;
    kernel->bindings = calloc(arguments, sizeof *kernel->bindings);
    kernel->given = malloc(2 * extents * sizeof *kernel->given);
    kernel->pointers = calloc(arguments, sizeof *kernel->pointers);
    kernel->scalars = calloc(arguments, sizeof *kernel->scalars);
    kernel->strides = calloc(strides, sizeof *kernel->strides);
    kernel->bytes = calloc(arguments, sizeof *kernel->bytes);
    if (!kernel->bindings || !kernel->given || !kernel->pointers || !kernel->scalars || !kernel->strides ||
        !kernel->bytes)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for kernel %s", function->name);
    kernel->defaults = kernel->given + extents;
    for (size_t i = 0; i < 2 * extents; i++)
        kernel->given[i] = HR_EXTENT_UNKNOWN;
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = &function->tensors[i];
        if (!hr_tensor_is_scalar(tensor) || !tensor->has_default) continue;
        kernel->bindings[i].given = tensor->default_value;
        kernel->bindings[i].scalar = hr_dtype_round(tensor->dtype, tensor->default_value);
    }
    for (int i = 0; i < HR_DTYPE_VARIABLE_MAX; i++)
        kernel->given_dtypes[i] = HR_DTYPE_COUNT;
    return HR_OK;
}

/* A device whose launches are not complete on return knows its kernels, to name the one whose subscript left
 * its axis. */
static void kernel_register(hr_kernel *kernel) {
    if (!kernel->device->ops->synchronise) return;
    pthread_mutex_lock(&kernel->device->kernels_lock);
    kernel->next_on_device = kernel->device->kernels;
    kernel->device->kernels = kernel;
    pthread_mutex_unlock(&kernel->device->kernels_lock);
}

static void kernel_forget(hr_kernel *kernel) {
    if (!kernel->device->ops->synchronise) return;
    pthread_mutex_lock(&kernel->device->kernels_lock);
    hr_kernel **at = &kernel->device->kernels;
    while (*at && *at != kernel)
        at = &(*at)->next_on_device;
    if (*at) *at = kernel->next_on_device;
    pthread_mutex_unlock(&kernel->device->kernels_lock);
}

/* What a dtype variable stands for that nothing binds. */
static hr_dtype device_default(const hr_device *device) {
    return strcmp(hr_device_kind(device), "cuda") == 0 ? HR_BF16 : HR_F32;
}

hr_status hr_kernel_load(hr_device *device, const char *path, const char *text, size_t length,
                         const char *name, hr_kernel **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (!text && length) return hr_fail(HR_BAD_INPUT, "hr_kernel_load got no text");
    if (!path) path = "<text>";
    hr_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel");
    kernel->handle.kind = HR_HANDLE_KERNEL;
    kernel->device = device;
    kernel->file = strdup(path);
    hr_status status = kernel->file ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel");
    hr_parse_options options = {.dtype_default = device_default(device)};
    if (status == HR_OK)
        status = hr_program_parse_for(path, text ? text : "", length, &options, &kernel->program);
    if (status == HR_OK) status = hr_program_find(kernel->program, name, &kernel->function);
    if (status == HR_OK) status = kernel_alloc(kernel);
    if (status == HR_OK) {
        kernel_register(kernel);
        *out = kernel;
    } else
        hr_kernel_destroy(kernel);
    return status;
}

/* The file's bytes; at most one more than a text may have, so that a device or a huge file cannot fill
 * memory. */
static hr_status file_read(const char *path, hr_text *out) {
    char buffer[16384];
    size_t count;
    FILE *file = fopen(path, "rb");
    if (!file)
        return hr_fail(errno == ENOMEM ? HR_OUT_OF_MEMORY : HR_IO, "cannot open %s: %s", path,
                       strerror(errno));
    while (out->length <= TEXT_MAX && (count = fread(buffer, 1, sizeof buffer, file)) > 0)
        hr_text_append(out, buffer, count);
    hr_status status =
        ferror(file) ? hr_fail(HR_IO, "cannot read %s: %s", path, strerror(errno)) : hr_text_status(out);
    fclose(file);
    return status;
}

hr_status hr_kernel_load_file(hr_device *device, const char *path, const char *name, hr_kernel **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(path, "path", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text text = {0};
    hr_status status = file_read(path, &text);
    if (status == HR_OK) status = hr_kernel_load(device, path, hr_text_data(&text), text.length, name, out);
    hr_text_clear(&text);
    return status;
}

void hr_kernel_destroy(hr_kernel *kernel) {
    if (!kernel || hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return;
    hr_shape_cache_destroy(kernel->device, kernel->shapes);
    kernel_forget(kernel);
    while (kernel->prepared)
        hr_prepared_drop(kernel, kernel->prepared);
    hr_launch_trim(kernel, NULL);
    hr_lists_release(kernel);
    if (kernel->filler) kernel->device->ops->unload(kernel->device, kernel->filler);
    if (kernel->comparer) kernel->device->ops->unload(kernel->device, kernel->comparer);
    for (int i = 0; kernel->bindings && i < kernel->argument_count; i++)
        hr_binding_clear(kernel, i);
    free(kernel->bindings);
    free(kernel->given);
    free(kernel->pointers);
    free(kernel->scalars);
    free(kernel->strides);
    free(kernel->bytes);
    hr_program_destroy(kernel->instance);
    hr_program_destroy(kernel->program);
    free(kernel->file);
    hr_handle_free(kernel);
}

const char *hr_kernel_name(const hr_kernel *kernel) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return NULL;
    return hr_kernel_loaded(kernel)->name;
}

const char *hr_kernel_symbol(const hr_kernel *kernel) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return NULL;
    return kernel->function->symbol;
}

int hr_kernel_argument_count(const hr_kernel *kernel) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return 0;
    return kernel->argument_count;
}

static hr_argument_role argument_role(hr_role role) {
    return role == HR_ROLE_INPUT   ? HR_ARGUMENT_INPUT
           : role == HR_ROLE_INOUT ? HR_ARGUMENT_INOUT
                                   : HR_ARGUMENT_RESULT;
}

hr_status hr_kernel_argument(const hr_kernel *kernel, int i, hr_argument *out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (i < 0 || i >= kernel->argument_count)
        return hr_fail(HR_BAD_INPUT, "kernel %s has %d arguments; there is no number %d",
                       kernel->function->name, kernel->argument_count, i);
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i), *loaded = &hr_kernel_loaded(kernel)->tensors[i];
    *out = (hr_argument){.name = loaded->name,
                         .role = argument_role(tensor->role),
                         .dtype = tensor->dtype,
                         .rank = tensor->rank,
                         .has_default = tensor->has_default,
                         .default_value = tensor->default_value,
                         .dtype_variable = loaded->variable ? loaded->variable->name : NULL,
                         .line = loaded->place.line,
                         .column = loaded->place.column};
    return HR_OK;
}

hr_status hr_threads_check(const hr_device *device, int threads) {
    const int most = device->limits.threads;
    if (threads >= 0 && threads <= most) return HR_OK;
    return hr_fail(HR_BAD_INPUT, "threads is %d; there are 1 to %d of them here, and 0 is all", threads,
                   most);
}
