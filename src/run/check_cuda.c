/* Comparing arrays and digests by the device, in whose memory they are. In and out: see check_compare.h and
 * check_guard.h. */
#include "run/check_compare.h"
#include "run/check_guard.h"

#include "base/dtype.h"
#include "device/cuda_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define THREADS 128

static hr_status comparer_get(hr_kernel *kernel) {
    const char *source = (const char *)hr_cuda_check_kernels_text;
    if (kernel->comparer) return HR_OK;
    return kernel->device->ops->compile(kernel->device, source, strlen(source), 0, &kernel->comparer);
}

/* What src/device/cuda/check_kernels.cuh calls `format`. */
static int64_t format_of(hr_dtype dtype) {
    const int bits = (int)hr_dtype_size(dtype) * 8;
    if (!hr_dtype_is_float(dtype)) return 0;
    const int digits = (int)-log2(hr_dtype_rounding(dtype));
    return bits >= 32 ? digits : (bits - digits) * 16 + digits - 1;
}

/* A launch of HR_COMPARE_BLOCKS blocks that leave `size` bytes each in `out`. */
static hr_status execute(hr_kernel *kernel, const char *entry, hr_execution *execution, size_t size,
                         void *out) {
    const hr_device_ops *ops = kernel->device->ops;
    hr_launch launch = {.grid = {HR_COMPARE_BLOCKS, 1, 1}, .threads = THREADS, .cluster = 1};
    hr_fault fault;
    void *scratch = NULL;
    HR_TRY(comparer_get(kernel));
    snprintf(launch.entry, sizeof launch.entry, "%s", entry);
    execution->launches = &launch;
    execution->launch_count = 1;
    execution->threads = 1;
    HR_TRY(ops->launches(kernel->device, kernel->comparer, &launch, 1));
    HR_TRY(ops->allocate(kernel->device, size * HR_COMPARE_BLOCKS, &scratch));
    execution->scratch = scratch;
    hr_status status = ops->launch(kernel->device, kernel->comparer, execution, &fault);
    if (status == HR_OK) status = ops->download(kernel->device, out, scratch, size * HR_COMPARE_BLOCKS);
    ops->release(kernel->device, scratch, size * HR_COMPARE_BLOCKS);
    return status;
}

hr_status hr_compare_cuda(hr_kernel *kernel, const hr_comparing *comparing,
                          hr_suspect out[HR_COMPARE_BLOCKS]) {
    struct {
        double apart, allowed;
        int64_t at;
    } found[HR_COMPARE_BLOCKS]; /* hr_worst */
    char entry[32];
    void *pointers[] = {(void *)(uintptr_t)comparing->got, (void *)(uintptr_t)comparing->expected};
    double scalars[] = {comparing->error, 0};
    int64_t words[] = {comparing->count, format_of(comparing->dtype)};
    hr_execution made = {
        .pointers = pointers, .scalars = scalars, .extents = words, .count = 2, .extent_count = 2};
    snprintf(entry, sizeof entry, "hr_compare_%s", hr_dtype_name(comparing->dtype));
    HR_TRY(execute(kernel, entry, &made, sizeof *found, found));
    for (int block = 0; block < HR_COMPARE_BLOCKS; block++)
        out[block] = (hr_suspect){found[block].apart / found[block].allowed, found[block].at};
    return HR_OK;
}

hr_status hr_digest_cuda(hr_kernel *kernel, const void *data, int64_t bytes, uint64_t *out) {
    uint64_t parts[HR_COMPARE_BLOCKS];
    void *pointer = (void *)(uintptr_t)data;
    hr_execution made = {
        .pointers = &pointer, .scalars = &(double){0}, .extents = &bytes, .count = 1, .extent_count = 1};
    HR_TRY(execute(kernel, "hr_digest", &made, sizeof *parts, parts));
    *out = 0;
    for (int i = 0; i < HR_COMPARE_BLOCKS; i++)
        *out += parts[i];
    return HR_OK;
}
