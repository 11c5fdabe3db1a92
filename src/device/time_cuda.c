/* Seconds of work on the device, without the host in them and with the L2 cold.
 *
 * On the stream: a kernel that reads three times the L2, one that holds the device until all else is queued,
 * an event, the work, an event. What the host needs to queue is hidden behind the held kernel.
 *
 * In: work to queue. Out: seconds between the events.
 */
#include "device/cuda_text.h"
#include "device/device_cuda.h"

#include <stdlib.h>
#include <string.h>

#define COLD_TIMES   3 /* of the L2's size: replacement is not strictly the oldest first */
#define COLD_LEAST   ((size_t)64 << 20)
#define HOLD_MOST    2000000000ull /* nanoseconds */
#define COOL_THREADS 512

/* ---- what is made once ---- */

static hr_status timing_make(hr_device_cuda *cuda) {
    const hr_cuda_driver *driver = &cuda->driver;
    const char *source = (const char *)hr_cuda_timing_kernels_text;
    size_t bytes = (size_t)cuda->base.limits.l2_bytes * COLD_TIMES;
    if (bytes < COLD_LEAST) bytes = COLD_LEAST;
    if (!cuda->support)
        HR_TRY(hr_module_cuda_compile(&cuda->base, source, strlen(source), 0, &cuda->support));
    if (!cuda->support->functions) {
        const hr_launch launches[] = {
            {.entry = "hr_hold", .grid = {1, 1, 1}, .threads = 1, .cluster = 1},
            {.entry = "hr_cool", .grid = {1, 1, 1}, .threads = COOL_THREADS, .cluster = 1}};
        HR_TRY(hr_module_cuda_launches(&cuda->base, cuda->support, launches, 2));
    }
    hr_cu_result result = 0;
    if (!cuda->gate)
        result = driver->host_allocate((void **)&cuda->gate, 64, HR_CU_HOST_PORTABLE | HR_CU_HOST_MAPPED);
    if (!result && !cuda->begin) result = driver->event_create(&cuda->begin, HR_CU_EVENT_DEFAULT);
    if (!result && !cuda->end) result = driver->event_create(&cuda->end, HR_CU_EVENT_DEFAULT);
    if (!result && !cuda->cold) {
        result = driver->allocate(&cuda->cold, bytes);
        if (!result) result = driver->fill_bytes(cuda->cold, 1, bytes, cuda->stream);
        cuda->cold_bytes = bytes;
    }
    return result ? hr_cuda_fail(driver, result, "preparing to measure") : HR_OK;
}

void hr_time_cuda_free(hr_device_cuda *cuda) {
    if (cuda->cold) cuda->driver.release(cuda->cold);
    if (cuda->gate) cuda->driver.host_release(cuda->gate);
    if (cuda->begin) cuda->driver.event_destroy(cuda->begin);
    if (cuda->end) cuda->driver.event_destroy(cuda->end);
    for (int i = 0; i <= HR_CUDA_PIECES; i++)
        if (cuda->pieces[i]) cuda->driver.event_destroy(cuda->pieces[i]);
}

/* ---- one measurement ---- */

static hr_cu_result cool(const hr_device_cuda *cuda) {
    unsigned long long count = cuda->cold_bytes / 16;
    hr_cu_address never = cuda->cold;
    hr_cu_launch_config config = {.grid = {(unsigned)cuda->base.limits.threads * 4, 1, 1},
                                  .block = {COOL_THREADS, 1, 1},
                                  .stream = cuda->stream};
    void *parameters[] = {(void *)&cuda->cold, &count, &never};
    return cuda->driver.launch(&config, cuda->support->functions[1].handle, parameters, NULL);
}

static hr_cu_result hold(const hr_device_cuda *cuda) {
    unsigned long long most = HOLD_MOST;
    hr_cu_launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = cuda->stream};
    void *parameters[] = {(void *)&cuda->gate, &most};
    *(volatile int *)cuda->gate = 0;
    return cuda->driver.launch(&config, cuda->support->functions[0].handle, parameters, NULL);
}

/* `headroom record --counters` lets each launch that it counts run by itself, and that would wait for the
 * gate: then what the host needs to queue is in the time. */
static bool is_counted(void) {
    const char *counters = getenv("HEADROOM_RECORD_COUNTERS");
    return counters && *counters && strcmp(counters, "sampled") != 0;
}

hr_status hr_time_cuda_queue(hr_device_cuda *cuda, bool cold, hr_cuda_queue_fn queue, void *context,
                             double *seconds) {
    const hr_cuda_driver *driver = &cuda->driver;
    float milliseconds = 0;
    HR_TRY(timing_make(cuda));
    hr_cu_result result = driver->stream_wait(cuda->stream); /* the gate belongs to nobody else */
    if (!result && cold) result = cool(cuda);
    if (!result && !is_counted()) result = hold(cuda);
    if (!result) result = driver->event_record(cuda->begin, cuda->stream);
    hr_status status = result ? HR_OK : queue(context);
    if (!result) result = driver->event_record(cuda->end, cuda->stream);
    if (cuda->gate) *(volatile int *)cuda->gate = 1;
    if (!result) result = driver->event_wait(cuda->end);
    if (!result) result = driver->event_elapsed(&milliseconds, cuda->begin, cuda->end);
    if (status != HR_OK) return status;
    if (result) return hr_cuda_fail(driver, result, "measuring");
    *seconds = (double)milliseconds * 1e-3;
    return HR_OK;
}

/* ---- pieces of work, one behind the other ---- */

static hr_cu_result pieces_make(hr_device_cuda *cuda) {
    hr_cu_result result = 0;
    for (int i = 0; i <= HR_CUDA_PIECES && !result; i++)
        if (!cuda->pieces[i]) result = cuda->driver.event_create(&cuda->pieces[i], HR_CU_EVENT_DEFAULT);
    return result;
}

static hr_status pieces_queue(hr_device_cuda *cuda, int first, int count, hr_cuda_queue_piece_fn queue,
                              void *context) {
    const hr_cuda_driver *driver = &cuda->driver;
    hr_cu_result result = driver->event_record(cuda->pieces[0], cuda->stream);
    for (int i = 0; i < count && !result; i++) {
        HR_TRY(queue(context, first + i));
        result = driver->event_record(cuda->pieces[i + 1], cuda->stream);
    }
    return result ? hr_cuda_fail(driver, result, "measuring") : HR_OK;
}

static hr_status pieces_time(hr_device_cuda *cuda, int first, int count, hr_cuda_queue_piece_fn queue,
                             void *context, double *seconds) {
    const hr_cuda_driver *driver = &cuda->driver;
    float milliseconds = 0;
    hr_cu_result result = driver->stream_wait(cuda->stream); /* the gate belongs to nobody else */
    if (!result && !is_counted()) result = hold(cuda);
    hr_status status = result ? HR_OK : pieces_queue(cuda, first, count, queue, context);
    *(volatile int *)cuda->gate = 1;
    if (!result) result = driver->stream_wait(cuda->stream);
    HR_TRY(status);
    for (int i = 0; i < count && !result; i++) {
        result = driver->event_elapsed(&milliseconds, cuda->pieces[i], cuda->pieces[i + 1]);
        seconds[i] = (double)milliseconds * 1e-3;
    }
    return result ? hr_cuda_fail(driver, result, "measuring") : HR_OK;
}

hr_status hr_time_cuda_pieces(hr_device_cuda *cuda, int count, hr_cuda_queue_piece_fn queue, void *context,
                              double *seconds) {
    HR_TRY(timing_make(cuda));
    hr_cu_result result = pieces_make(cuda);
    if (result) return hr_cuda_fail(&cuda->driver, result, "preparing to measure");
    for (int first = 0; first < count; first += HR_CUDA_PIECES) {
        const int some = count - first < HR_CUDA_PIECES ? count - first : HR_CUDA_PIECES;
        HR_TRY(pieces_time(cuda, first, some, queue, context, seconds + first));
    }
    return HR_OK;
}

/* ---- one launch ---- */

typedef struct timed {
    const hr_device_cuda *cuda;
    const hr_module *module;
    const hr_execution *execution;
} timed;

static hr_status queue_launch(void *context) {
    const timed *timed = context;
    return hr_launch_cuda_queue(timed->cuda, timed->module, timed->execution);
}

hr_status hr_time_cuda(struct hr_device *device, hr_module *module, const hr_execution *execution,
                       double *seconds) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    timed timed = {cuda, module, execution};
    bool pushed;
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    hr_status status = hr_time_cuda_queue(cuda, true, queue_launch, &timed, seconds);
    hr_cuda_leave(cuda, pushed);
    return status;
}
