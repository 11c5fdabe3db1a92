/* Made-up inputs, fast: 512 MB in well under a second, the same for one seed whatever the threads.
 *
 * Element i comes from one 64-bit mix of seed and i. A normal number is the sum of its four 16-bit parts:
 * bell-shaped, variance 1, never beyond 3.5 - what a kernel's timing and rounding need, without a logarithm.
 * Dtypes of one or two bytes look their bits up by the top 16 bits of that sum.
 *
 * In: unbound tensors. Out: memory of the device, touched first by the threads that will use it.
 */
#include "run/fill.h"
#include "base/handle.h"
#include "device/team.h"

#include "base/dtype.h"
#include "device/device_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 65536 /* of a normal number in the narrow dtypes */
#define BLOCK  65536 /* elements a thread takes at a time */

static inline uint64_t mix(uint64_t seed, int64_t i) { /* splitmix64 */
    uint64_t x = seed + (uint64_t)i * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline int32_t bell(uint64_t x) { /* 0 .. 262140, mean 131070 */
    return (int32_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48));
}

static inline double normal(int32_t bell) { /* four uniforms have variance 1/3 */
    return ((double)bell - 131070) * (1.7320508075688772 / 65536);
}

static double level_value(int level, const hr_filling *filling) {
    double value = normal(4 * level) + filling->mean;
    return filling->magnitude ? fabs(value) : value;
}

/* ---- one block a dtype ---- */

static void fill_f32(float *out, int64_t from, int64_t to, const hr_filling *filling) {
    const float mean = (float)filling->mean;
    for (int64_t i = from; i < to; i++) {
        float value = (float)(bell(mix(filling->seed, i)) - 131070) * 0x1.bb67aep-16f + mean;
        out[i] = filling->magnitude ? fabsf(value) : value;
    }
}

static void fill_f64(double *out, int64_t from, int64_t to, const hr_filling *filling) {
    for (int64_t i = from; i < to; i++) {
        double value = normal(bell(mix(filling->seed, i))) + filling->mean;
        out[i] = filling->magnitude ? fabs(value) : value;
    }
}

static void fill_table16(uint16_t *out, int64_t from, int64_t to, uint64_t seed, const uint16_t *table) {
    for (int64_t i = from; i < to; i++)
        out[i] = table[bell(mix(seed, i)) >> 2];
}

static void fill_table8(uint8_t *out, int64_t from, int64_t to, uint64_t seed, const uint16_t *table) {
    for (int64_t i = from; i < to; i++)
        out[i] = (uint8_t)table[bell(mix(seed, i)) >> 2];
}

static void fill_levels(hr_dtype dtype, void *out, int64_t from, int64_t to, const hr_filling *filling) {
    for (int64_t i = from; i < to; i++)
        hr_dtype_store(dtype, out, (size_t)i, level_value(bell(mix(filling->seed, i)) >> 2, filling));
}

static inline int64_t whole(uint64_t x, uint64_t range, int64_t low) {
    uint64_t offset = range && range <= UINT32_MAX ? ((x >> 32) * range) >> 32 : range ? x % range : x;
    return low + (int64_t)offset;
}

/* Of places that are to be written once. */
static void fill_distinct(hr_dtype dtype, void *out, int64_t from, int64_t to, const hr_filling *filling) {
    const uint64_t range = (uint64_t)filling->high - (uint64_t)filling->low + 1;
    const uint64_t first = range ? filling->seed % range : 0;
    for (int64_t i = from; i < to; i++) {
        const uint64_t at = first + (uint64_t)i;
        hr_dtype_store_whole(dtype, out, (size_t)i, filling->low + (int64_t)(range ? at % range : at));
    }
}

static void fill_whole(hr_dtype dtype, void *out, int64_t from, int64_t to, const hr_filling *filling) {
    uint64_t range = (uint64_t)filling->high - (uint64_t)filling->low + 1, seed = filling->seed;
    int64_t low = filling->low;
    switch (hr_dtype_size(dtype)) {
    case 1:
        for (int64_t i = from; i < to; i++)
            ((uint8_t *)out)[i] = (uint8_t)whole(mix(seed, i), range, low);
        break;
    case 2:
        for (int64_t i = from; i < to; i++)
            ((int16_t *)out)[i] = (int16_t)whole(mix(seed, i), range, low);
        break;
    case 4:
        for (int64_t i = from; i < to; i++)
            ((int32_t *)out)[i] = (int32_t)whole(mix(seed, i), range, low);
        break;
    default:
        for (int64_t i = from; i < to; i++)
            ((int64_t *)out)[i] = whole(mix(seed, i), range, low);
    }
}

static void fill_block(hr_dtype dtype, void *out, int64_t from, int64_t to, const hr_filling *filling,
                       const uint16_t *table) {
    if (!hr_dtype_is_float(dtype) && filling->distinct)
        fill_distinct(dtype, out, from, to, filling);
    else if (!hr_dtype_is_float(dtype))
        fill_whole(dtype, out, from, to, filling);
    else if (dtype == HR_F32)
        fill_f32(out, from, to, filling);
    else if (dtype == HR_F64)
        fill_f64(out, from, to, filling);
    else if (!table)
        fill_levels(dtype, out, from, to, filling);
    else if (hr_dtype_size(dtype) == 2)
        fill_table16(out, from, to, filling->seed, table);
    else
        fill_table8(out, from, to, filling->seed, table);
}

uint16_t *hr_fill_table(hr_dtype dtype, const hr_filling *filling) {
    uint16_t *table = calloc(LEVELS, sizeof *table);
    for (int level = 0; table && level < LEVELS; level++) {
        unsigned char bits[2] = {0};
        hr_dtype_store(dtype, bits, 0, level_value(level, filling));
        memcpy(&table[level], bits,
               hr_dtype_size(dtype)); /* a one-byte dtype: little-endian, as f8 arrays are */
    }
    return table;
}

/* NULL where the array is too small to earn a table, too. */
static uint16_t *table_make(hr_dtype dtype, int64_t count, const hr_filling *filling) {
    bool earned = hr_dtype_is_float(dtype) && hr_dtype_size(dtype) <= 2 && count >= 2 * LEVELS;
    return earned ? hr_fill_table(dtype, filling) : NULL;
}

typedef struct fill_job {
    hr_dtype dtype;
    void *data;
    int64_t count;
    const hr_filling *filling;
    const uint16_t *table;
} fill_job;

static void fill_part(void *context, int64_t part, int64_t parts) {
    const fill_job *job = context;
    const int64_t blocks = (job->count + BLOCK - 1) / BLOCK;
    for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; block++) {
        int64_t from = block * BLOCK, to = from + BLOCK < job->count ? from + BLOCK : job->count;
        fill_block(job->dtype, job->data, from, to, job->filling, job->table);
    }
}

void hr_fill_array(hr_dtype dtype, void *data, int64_t count, const hr_filling *filling) {
    uint16_t *table = table_make(dtype, count, filling);
    fill_job job = {dtype, data, count, filling, table};
    hr_team_run(count > BLOCK ? 0 : 1, fill_part, &job);
    free(table);
}

hr_status hr_fill_binding(hr_kernel *kernel, int i) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    const hr_binding *binding = &kernel->bindings[i];
    int64_t count = hr_shape_elements(tensor->rank, binding->shape);
    if (!hr_device_memory_is_host(kernel->device))
        return hr_fill_cuda(kernel, tensor->dtype, binding->data, count, &binding->filling);
    hr_fill_array(tensor->dtype, binding->data, count, &binding->filling);
    return HR_OK;
}

/* ---- every unbound tensor ---- */

static hr_status extents_choose(hr_kernel *kernel, int64_t *extents) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->bindings[i].owned) hr_binding_clear(kernel, i);
    for (int e = 0; e < kernel->function->extent_count; e++)
        kernel->defaults[e] = HR_EXTENT_UNKNOWN;
    HR_TRY(hr_kernel_solve(kernel, extents));
    HR_TRY(hr_extent_default(kernel->function, extents));
    HR_TRY(hr_extent_check(kernel->function, extents));
    for (int e = 0; e < kernel->function->extent_count; e++)
        kernel->defaults[e] = extents[e];
    return HR_OK;
}

static hr_status tensor_fill(hr_kernel *kernel, int i, const int64_t *extents, const hr_filling *filling) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    int64_t shape[tensor->rank + 1], elements = 1;
    void *data = NULL;
    for (int axis = 0; axis < tensor->rank; axis++) {
        HR_TRY(hr_extent_value(kernel->function, tensor->shape[axis], extents, &shape[axis]));
        if (__builtin_mul_overflow(elements, shape[axis], &elements) || elements > INT64_MAX / 16)
            return hr_fail(HR_OUT_OF_MEMORY,
                           "`%s` has more elements than memory can hold: make its extents "
                           "smaller",
                           tensor->name);
    }
    size_t size = (size_t)elements * hr_dtype_size(tensor->dtype);
    if (size < 64) size = 64;
    hr_status status = kernel->device->ops->allocate(kernel->device, size, &data);
    if (status != HR_OK) return hr_fail_context(status, "while making `%s`", tensor->name);
    if ((status = hr_binding_set(kernel, i, data, shape, NULL)) != HR_OK) {
        kernel->device->ops->release(kernel->device, data, size);
        return status;
    }
    kernel->bindings[i].owned = true;
    kernel->bindings[i].owned_size = size;
    kernel->bindings[i].filling = *filling;
    return tensor->role == HR_ROLE_RESULT ? HR_OK : hr_fill_binding(kernel, i);
}

/* All arrays together: a result's memory is taken only when it is written, too late for a sentence. */
static hr_status arrays_fit(const hr_kernel *kernel, const int64_t *extents) {
    double bytes = 0, most = (double)hr_machine_memory();
    if (!hr_device_memory_is_host(kernel->device)) return HR_OK;
    for (int i = 0; i < kernel->argument_count; i++)
        if (!kernel->bindings[i].bound && !hr_tensor_is_scalar(hr_kernel_tensor(kernel, i)))
            bytes += hr_extent_bytes(kernel->function, hr_kernel_tensor(kernel, i), extents);
    if (bytes <= most) return HR_OK;
    return hr_fail(
        HR_OUT_OF_MEMORY,
        "the arrays of kernel %s need %.1f MB of memory, and %.1f MB are free: use smaller extents",
        kernel->function->name, bytes * 1e-6, most * 1e-6);
}

hr_status hr_kernel_fill(hr_kernel *kernel, uint64_t seed) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    return hr_kernel_fill_as(kernel, seed, HR_VALUES_MEAN_0);
}

hr_status hr_kernel_fill_as(hr_kernel *kernel, uint64_t seed, hr_values values) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    int64_t extents[kernel->function->extent_count + 1];
    HR_TRY(hr_kernel_scalars_known(kernel));
    HR_TRY(hr_kernel_dtypes_agree(kernel));
    HR_TRY(extents_choose(kernel, extents));
    HR_TRY(arrays_fit(kernel, extents));
    hr_filling *fillings = calloc((size_t)kernel->argument_count + 1, sizeof *fillings);
    if (!fillings) return hr_fail(HR_OUT_OF_MEMORY, "no memory to fill kernel %s", kernel->function->name);
    hr_status status = hr_fill_ranges(kernel->function, extents, kernel->argument_count, fillings);
    for (int i = 0; i < kernel->argument_count && status == HR_OK; i++) {
        if (kernel->bindings[i].bound || hr_tensor_is_scalar(hr_kernel_tensor(kernel, i))) continue;
        fillings[i].seed = mix(seed, i + 1);
        if (values == HR_VALUES_MEAN_1) fillings[i].mean = 1;
        if (values == HR_VALUES_POSITIVE) fillings[i].magnitude = true;
        status = tensor_fill(kernel, i, extents, &fillings[i]);
    }
    free(fillings);
    return status;
}
