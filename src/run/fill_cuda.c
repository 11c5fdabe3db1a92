/* The device fills its own memory: what fill.c does on the host, by a kernel.
 *
 * In: an array in the device's memory and what it shall hold. Out: the array, filled.
 */
#include "run/kernel.h"

#include "base/dtype.h"
#include "device/cuda_text.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES (65536 * sizeof(uint16_t))
#define THREADS     256
#define MAGNITUDE   16
#define DISTINCT    32

/* In the order of words in hr_fill_words (src/device/cuda/fill_kernels.cuh), after the pointer and a scalar.
 */
enum { WORD_COUNT, WORD_SEED, WORD_LOW, WORD_HIGH, WORD_WAY, WORDS };

static void entry_name(hr_dtype dtype, char *out, size_t size) {
    int bytes = (int)hr_dtype_size(dtype);
    if (dtype == HR_F32 || dtype == HR_F64)
        snprintf(out, size, "hr_fill_%s", dtype == HR_F32 ? "f32" : "f64");
    else
        snprintf(out, size, "hr_fill_%s%d", hr_dtype_is_float(dtype) ? "table" : "whole", bytes);
}

static hr_status filler_get(hr_kernel *kernel) {
    const char *source = (const char *)hr_cuda_fill_kernels_text;
    if (kernel->filler) return HR_OK;
    return kernel->device->ops->compile(kernel->device, source, strlen(source), 0, &kernel->filler);
}

static hr_status table_upload(hr_kernel *kernel, hr_dtype dtype, const hr_filling *filling, void **out) {
    const hr_device_ops *ops = kernel->device->ops;
    uint16_t *table = hr_fill_table(dtype, filling);
    if (!table) return hr_fail(HR_OUT_OF_MEMORY, "no memory to fill an array");
    hr_status status = ops->allocate(kernel->device, TABLE_BYTES, out);
    if (status == HR_OK) status = ops->upload(kernel->device, *out, table, TABLE_BYTES);
    free(table);
    return status;
}

static hr_status fill(hr_kernel *kernel, hr_dtype dtype, void *data, int64_t count, const hr_filling *filling,
                      void *table) {
    const hr_device_ops *ops = kernel->device->ops;
    int64_t side = 16 / (int64_t)hr_dtype_size(dtype), most = kernel->device->limits.threads * 8;
    int64_t blocks = (count + side * THREADS - 1) / (side * THREADS);
    int64_t words[WORDS] = {count, (int64_t)filling->seed, filling->low, filling->high,
                            (filling->magnitude ? MAGNITUDE : 0) | (filling->distinct ? DISTINCT : 0)};
    double mean = filling->mean;
    hr_launch launch = {.grid = {blocks < most ? blocks : most, 1, 1}, .threads = THREADS, .cluster = 1};
    hr_execution execution = {.pointers = &data,
                              .scalars = &mean,
                              .extents = words,
                              .scratch = table,
                              .threads = 1,
                              .launches = &launch,
                              .launch_count = 1,
                              .count = 1,
                              .extent_count = WORDS};
    hr_fault fault;
    entry_name(dtype, launch.entry, sizeof launch.entry);
    HR_TRY(ops->launches(kernel->device, kernel->filler, &launch, 1));
    return ops->launch(kernel->device, kernel->filler, &execution, &fault);
}

hr_status hr_fill_cuda(hr_kernel *kernel, hr_dtype dtype, void *data, int64_t count,
                       const hr_filling *filling) {
    void *table = NULL;
    bool narrow = hr_dtype_is_float(dtype) && hr_dtype_size(dtype) <= 2;
    if (count == 0) return HR_OK;
    HR_TRY(filler_get(kernel));
    hr_status status = narrow ? table_upload(kernel, dtype, filling, &table) : HR_OK;
    if (status == HR_OK) status = fill(kernel, dtype, data, count, filling, table);
    if (table) kernel->device->ops->release(kernel->device, table, TABLE_BYTES);
    return status;
}
