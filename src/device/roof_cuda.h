/* What the files of the CUDA roof share: the device in use, how one kernel is timed, where results go. */
#ifndef HR_DEVICE_ROOF_CUDA_H
#define HR_DEVICE_ROOF_CUDA_H

#include "base/clock.h"
#include "device/device_cuda.h"

#define HR_ROOF_STREAMS 3

typedef struct hr_roof_cuda {
    hr_device_cuda *cuda;
    hr_roof *roof;
    hr_progress_fn progress;
    void *progress_context;
    double done, total;
    hr_cu_address streams[HR_ROOF_STREAMS];
    size_t stream_bytes;
} hr_roof_cuda;

/* One kernel of ours as it is measured: not an emitted one, so with parameters of its own. */
typedef struct hr_roof_launch {
    hr_cu_function function;
    int64_t blocks;
    int threads;
    size_t shared;
    void *parameters;
} hr_roof_launch;

/* HR_CANCELLED where progress says so. */
hr_status hr_roof_cuda_advance(hr_roof_cuda *roof, const char *what, double seconds);
/* Compiles a text of src/device/cuda/, for hr_module_cuda_unload. */
hr_status hr_roof_cuda_compile(hr_roof_cuda *roof, const unsigned char *text, hr_module **out);
/* False where the module has no such function. */
bool hr_roof_cuda_function(hr_roof_cuda *roof, const hr_module *module, const char *name, size_t shared,
                           hr_cu_function *out);
/* Seconds of one launch, what is in the caches left alone. */
hr_status hr_roof_cuda_time(hr_roof_cuda *roof, const hr_roof_launch *launch, double *seconds);
/* The median of `count` of them, after one that is not counted. */
hr_status hr_roof_cuda_median(hr_roof_cuda *roof, const hr_roof_launch *launch, int count, double *seconds);

/* ---- the parts, one a file ---- */

hr_status hr_roof_cuda_memory(hr_roof_cuda *roof); /* roof_cuda_memory.c: HBM, L2 */
hr_status hr_roof_cuda_units(hr_roof_cuda *roof);  /* roof_cuda_units.c: shared memory, arithmetic */
hr_status hr_roof_cuda_products(hr_roof_cuda *roof, const char *source); /* likewise: of tensor cores */
hr_status hr_roof_cuda_special(hr_roof_cuda *roof, const char *source);  /* likewise: functions as emitted */
hr_status hr_roof_cuda_host(hr_roof_cuda *roof); /* roof_cuda_host.c: launches, links */

#endif
