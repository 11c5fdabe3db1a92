/* The ceilings of a GPU: the list of what is measured, and how one kernel is timed.
 *
 * Rates are of kernels of ours (src/device/cuda/), long enough that starting them does not count, on data
 * that is not zero. The best of several ways counts, as the median of repeated runs of it.
 *
 * In: a device. Out: an hr_roof.
 */
#include "device/roof_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECONDS_TOTAL 6.0 /* of progress, about what it takes */
#define STREAM_MOST   ((size_t)1 << 30)

/* ---- what the parts use ---- */

hr_status hr_roof_cuda_advance(hr_roof_cuda *roof, const char *what, double seconds) {
    roof->done += seconds;
    if (roof->done > roof->total) roof->total = roof->done;
    if (roof->progress && !roof->progress(roof->progress_context, what, roof->done, roof->total))
        return hr_fail(HR_CANCELLED, "measuring the roof was stopped");
    return HR_OK;
}

hr_status hr_roof_cuda_compile(hr_roof_cuda *roof, const unsigned char *text, hr_module **out) {
    const char *source = (const char *)text;
    return hr_module_cuda_compile(&roof->cuda->base, source, strlen(source), 0, out);
}

bool hr_roof_cuda_function(hr_roof_cuda *roof, const hr_module *module, const char *name, size_t shared,
                           hr_cu_function *out) {
    hr_cuda_function function;
    hr_launch launch = {.cluster = 1, .shared = (int64_t)shared};
    if (hr_module_cuda_function(roof->cuda, module, name, &launch, 0, &function) != HR_OK) return false;
    *out = function.handle;
    return true;
}

typedef struct queued {
    const hr_device_cuda *cuda;
    const hr_roof_launch *launch;
} queued;

static hr_status queue_one(void *context) {
    const queued *queued = context;
    const hr_roof_launch *launch = queued->launch;
    hr_cu_launch_config config = {.grid = {(unsigned)launch->blocks, 1, 1},
                                  .block = {(unsigned)launch->threads, 1, 1},
                                  .shared_bytes = (unsigned)launch->shared,
                                  .stream = queued->cuda->stream};
    void *parameters[] = {launch->parameters};
    hr_cu_result result = queued->cuda->driver.launch(&config, launch->function, parameters, NULL);
    return result ? hr_cuda_fail(&queued->cuda->driver, result, "launching a kernel of the roof") : HR_OK;
}

hr_status hr_roof_cuda_time(hr_roof_cuda *roof, const hr_roof_launch *launch, double *seconds) {
    queued queued = {roof->cuda, launch};
    return hr_time_cuda_queue(roof->cuda, false, queue_one, &queued, seconds);
}

hr_status hr_roof_cuda_median(hr_roof_cuda *roof, const hr_roof_launch *launch, int count, double *seconds) {
    double samples[64], first;
    if (count > 64) count = 64;
    HR_TRY(hr_roof_cuda_time(roof, launch, &first));
    for (int i = 0; i < count; i++)
        HR_TRY(hr_roof_cuda_time(roof, launch, &samples[i]));
    *seconds = hr_median(samples, count);
    return HR_OK;
}

/* ---- the list ---- */

static hr_status streams_allocate(hr_roof_cuda *roof) {
    const hr_cuda_driver *driver = &roof->cuda->driver;
    size_t free_bytes = 0, total = 0;
    hr_cu_result result = driver->memory_info(&free_bytes, &total);
    roof->stream_bytes = free_bytes / 8 < STREAM_MOST ? free_bytes / 8 / 1048576 * 1048576 : STREAM_MOST;
    for (int i = 0; i < HR_ROOF_STREAMS && !result; i++) {
        result = driver->allocate(&roof->streams[i], roof->stream_bytes);
        if (!result)
            result = driver->fill_bytes(roof->streams[i], (unsigned char)(i * 61 + 17), roof->stream_bytes,
                                        roof->cuda->stream);
    }
    return result ? hr_cuda_fail(driver, result, "taking memory to measure the roof in") : HR_OK;
}

static hr_status measure(hr_roof_cuda *roof, const hr_roof_sources *sources) {
    HR_TRY(hr_roof_cuda_advance(roof, "memory", 0));
    HR_TRY(streams_allocate(roof));
    HR_TRY(hr_roof_cuda_memory(roof));
    HR_TRY(hr_roof_cuda_units(roof));
    if (sources && sources->products) HR_TRY(hr_roof_cuda_products(roof, sources->products));
    if (sources && sources->functions) HR_TRY(hr_roof_cuda_special(roof, sources->functions));
    return hr_roof_cuda_host(roof);
}

hr_status hr_roof_cuda_measure(struct hr_device *device, const hr_roof_sources *sources,
                               hr_progress_fn progress, void *context, hr_roof *out) {
    hr_roof found = {.threads = device->limits.threads,
                     .special_beside = true,
                     .traffic_mixed = true,
                     .measured_at = (double)time(NULL)};
    hr_roof_cuda roof = {.cuda = (hr_device_cuda *)device,
                         .roof = &found,
                         .progress = progress,
                         .progress_context = context,
                         .total = SECONDS_TOTAL};
    bool pushed;
    strcpy(found.cache[0].name, "shared");
    found.cache[0].bytes = (double)device->limits.l1_bytes;
    found.cache_count = 1;
    HR_TRY(hr_cuda_enter(roof.cuda, &pushed));
    hr_status status = measure(&roof, sources);
    for (int i = 0; i < HR_ROOF_STREAMS; i++)
        if (roof.streams[i]) roof.cuda->driver.release(roof.streams[i]);
    hr_cuda_leave(roof.cuda, pushed);
    if (status == HR_OK) *out = found;
    return status;
}
