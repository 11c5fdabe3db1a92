/* Host copies of device arrays in chunks: address space for all of it, bytes only for what is read.
 *
 * In: element offsets. Out: downloads of the chunks that hold them, each once.
 */
#define _GNU_SOURCE
#include "run/mirror.h"

#include "base/dtype.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK ((size_t)64 << 10)

/* ---- making ---- */

static hr_status mirror_make(const hr_kernel *kernel, int i, hr_mirror *out) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    const hr_binding *binding = &kernel->bindings[i];
    int64_t low, high;
    out->device = kernel->device;
    out->members = binding->members;
    out->data = out->device_data = binding->data;
    out->element = hr_dtype_size(tensor->dtype);
    if ((hr_device_memory_is_host(kernel->device) && !binding->members) || hr_tensor_is_scalar(tensor) ||
        !binding->bound || hr_shape_elements(tensor->rank, binding->shape) == 0)
        return HR_OK;
    hr_binding_span(tensor, binding, &low, &high);
    size_t bytes = (size_t)(high - low);
    out->present = calloc(bytes / CHUNK + 1, 1);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!out->present || map == MAP_FAILED) {
        if (map != MAP_FAILED) munmap(map, bytes);
        return hr_fail(HR_OUT_OF_MEMORY, "no room for a copy of `%s` on the host: %s", tensor->name,
                       strerror(errno));
    }
    out->map = map;
    out->bytes = bytes;
    out->device_map = out->device_data + low;
    out->data = map - low;
    return HR_OK;
}

hr_status hr_mirrors_create(const hr_kernel *kernel, hr_mirror **out) {
    hr_mirror *mirrors = calloc((size_t)kernel->argument_count + 1, sizeof *mirrors);
    hr_status status = mirrors ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "no memory to look at a kernel's arrays");
    for (int i = 0; i < kernel->argument_count && status == HR_OK; i++)
        status = mirror_make(kernel, i, &mirrors[i]);
    if (status == HR_OK)
        *out = mirrors;
    else
        hr_mirrors_destroy(kernel, mirrors);
    return status;
}

void hr_mirrors_destroy(const hr_kernel *kernel, hr_mirror *mirrors) {
    for (int i = 0; mirrors && i < kernel->argument_count; i++) {
        if (mirrors[i].map) munmap(mirrors[i].map, mirrors[i].bytes);
        free(mirrors[i].present);
    }
    free(mirrors);
}

/* ---- bringing ---- */

/* Out of the members that stand side by side in the copy. */
static hr_status members_bring(const hr_mirror *mirror, size_t at, size_t size) {
    const size_t each = (size_t)mirror->members->elements * mirror->element;
    while (size > 0) {
        const size_t within = at % each, part = each - within < size ? each - within : size;
        const char *from = mirror->members->data[at / each];
        HR_TRY(hr_device_download(mirror->device, mirror->map + at, from + within, part));
        at += part;
        size -= part;
    }
    return HR_OK;
}

static void chunk_bring(hr_mirror *mirror, size_t chunk) {
    size_t at = chunk * CHUNK, size = mirror->bytes - at < CHUNK ? mirror->bytes - at : CHUNK;
    if (mirror->present[chunk] || mirror->status != HR_OK) return;
    mirror->present[chunk] = 1;
    mirror->status =
        mirror->members ? members_bring(mirror, at, size)
                        : hr_device_download(mirror->device, mirror->map + at, mirror->device_map + at, size);
    if (mirror->status != HR_OK) snprintf(mirror->sentence, sizeof mirror->sentence, "%s", hr_last_error());
}

static void bytes_bring(hr_mirror *mirror, const char *first, size_t size) {
    size_t at = (size_t)(first - mirror->map);
    for (size_t chunk = at / CHUNK; chunk <= (at + size - 1) / CHUNK; chunk++)
        chunk_bring(mirror, chunk);
}

void hr_mirror_need(void *context, int64_t base, int64_t step, int64_t count) {
    hr_mirror *mirror = context;
    int64_t size = (int64_t)mirror->element, reach = step < 0 ? -step : step;
    if (!mirror->map || count <= 0) return;
    if (reach * size < (int64_t)CHUNK) { /* then no chunk between the ends is without an element */
        int64_t first = step < 0 ? base + (count - 1) * step : base;
        bytes_bring(mirror, mirror->data + first * size, (size_t)(((count - 1) * reach + 1) * size));
    } else
        for (int64_t i = 0; i < count; i++)
            bytes_bring(mirror, mirror->data + (base + i * step) * size, (size_t)size);
}

hr_status hr_mirrors_status(const hr_kernel *kernel, const hr_mirror *mirrors) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (mirrors[i].status != HR_OK) return hr_fail(mirrors[i].status, "%s", mirrors[i].sentence);
    return HR_OK;
}
