/* Where the host meets the device: what a launch costs either of them, and the links between memories.
 *
 * In: a device. Out: seconds of launches, bytes a second of the links.
 */
#define _GNU_SOURCE
#include "device/cuda_text.h"
#include "device/roof_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LAUNCHES    200 /* that are queued before the device is waited for: fewer than its queue holds */
#define BATCHES     15
#define EMPTY_WORDS 38 /* hr_empty_words: 8 pointers, 8 scalars, 4 extents, 16 strides, scratch, fault */
#define HUGE_PAGE   ((size_t)2 << 20)
#define NODES       128
#define LINK_BYTES  ((size_t)256 << 20)
#define LINK_RUNS   5

/* ---- launches ---- */

typedef struct empty {
    hr_device_cuda *cuda;
    hr_module *module; /* its one grid does nothing */
    hr_launch launch;
    hr_execution execution;
    hr_cu_graph_exec graph;
} empty;

static hr_status queue_empty(void *context) {
    const empty *empty = context;
    return hr_launch_cuda_queue(empty->cuda, empty->module, &empty->execution);
}

static hr_status queue_graph(void *context) {
    const empty *empty = context;
    hr_cu_result result = empty->cuda->driver.graph_launch(empty->graph, empty->cuda->stream);
    return result ? hr_cuda_fail(&empty->cuda->driver, result, "launching a graph") : HR_OK;
}

static hr_status device_median(hr_device_cuda *cuda, hr_cuda_queue_fn queue, void *context, double *seconds) {
    double samples[BATCHES];
    HR_TRY(hr_time_cuda_queue(cuda, false, queue, context, &samples[0]));
    for (int i = 0; i < BATCHES; i++)
        HR_TRY(hr_time_cuda_queue(cuda, false, queue, context, &samples[i]));
    *seconds = hr_median(samples, BATCHES);
    return HR_OK;
}

static hr_status graph_measure(empty *empty, double *seconds) {
    const hr_cuda_driver *driver = &empty->cuda->driver;
    hr_cu_graph graph = NULL;
    hr_status status = HR_OK;
    hr_cu_result result = driver->capture_begin(empty->cuda->stream, HR_CU_CAPTURE_RELAXED);
    for (int i = 0; i < NODES && !result && status == HR_OK; i++)
        status = queue_empty(empty);
    if (!result) result = driver->capture_end(empty->cuda->stream, &graph);
    if (!result && status == HR_OK) result = driver->graph_instantiate(&empty->graph, graph, 0);
    if (!result && status == HR_OK) status = device_median(empty->cuda, queue_graph, empty, seconds);
    if (empty->graph) driver->graph_exec_destroy(empty->graph);
    if (graph) driver->graph_destroy(graph);
    *seconds /= NODES;
    return result ? hr_cuda_fail(driver, result, "making a graph") : status;
}

/* Host seconds of one launch: through the device's table as hr_kernel_launch does, or the driver's call
 * alone.
 */
static hr_status host_measure(empty *empty, bool driver_alone, double *seconds) {
    const hr_cuda_driver *driver = &empty->cuda->driver;
    hr_cu_launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = empty->cuda->stream};
    int64_t words[EMPTY_WORDS] = {0};
    double samples[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        double begun = hr_clock_seconds();
        for (int i = 0; i < LAUNCHES; i++) {
            if (driver_alone) {
                hr_cu_result result =
                    driver->launch(&config, empty->module->functions[0].handle, (void *[]){words}, NULL);
                if (result) return hr_cuda_fail(driver, result, "launching an empty kernel");
            } else
                HR_TRY(hr_launch_cuda(&empty->cuda->base, empty->module, &empty->execution, NULL));
        }
        samples[batch] = (hr_clock_seconds() - begun) / LAUNCHES;
        hr_cu_result result = driver->stream_wait(empty->cuda->stream);
        if (result) return hr_cuda_fail(driver, result, "launching empty kernels");
    }
    *seconds = hr_median(samples, BATCHES);
    return HR_OK;
}

static hr_status launches_measure(hr_roof_cuda *roof) {
    empty empty = {.cuda = roof->cuda,
                   .launch = {.entry = "hr_empty", .grid = {1, 1, 1}, .threads = 1, .cluster = 1}};
    void *pointers[8] = {0};
    double scalars[8] = {0};
    int64_t numbers[24] = {0};
    empty.execution = (hr_execution){.pointers = pointers,
                                     .scalars = scalars,
                                     .extents = numbers,
                                     .strides = numbers,
                                     .launches = &empty.launch,
                                     .launch_count = 1,
                                     .count = 8,
                                     .extent_count = 4,
                                     .stride_count = 16};
    HR_TRY(hr_roof_cuda_compile(roof, hr_cuda_timing_kernels_text, &empty.module));
    hr_status status = hr_module_cuda_launches(&roof->cuda->base, empty.module, &empty.launch, 1);
    if (status == HR_OK) status = device_median(roof->cuda, queue_empty, &empty, &roof->roof->launch);
    if (status == HR_OK) status = host_measure(&empty, true, &roof->roof->launch_driver);
    if (status == HR_OK) status = host_measure(&empty, false, &roof->roof->launch_host);
    if (status == HR_OK) status = graph_measure(&empty, &roof->roof->launch_graph);
    hr_module_cuda_unload(&roof->cuda->base, empty.module);
    return status;
}

/* ---- links ---- */

/* Pinned memory's link is the driver's; ordinary memory's is what our copies make of it. */
static hr_status link_copy(hr_roof_cuda *roof, void *host, size_t bytes, bool up) {
    struct hr_device *device = &roof->cuda->base;
    void *there = (void *)(uintptr_t)roof->streams[0];
    return up ? hr_copy_cuda_upload(device, there, host, bytes)
              : hr_copy_cuda_download(device, host, there, bytes);
}

static hr_status link_measure(hr_roof_cuda *roof, void *host, size_t bytes, bool up, double *rate) {
    double samples[LINK_RUNS];
    for (int i = -1; i < LINK_RUNS; i++) {
        double begun = hr_clock_seconds();
        HR_TRY(link_copy(roof, host, bytes, up));
        if (i >= 0) samples[i] = hr_clock_seconds() - begun;
    }
    *rate = (double)bytes / hr_median(samples, LINK_RUNS);
    return hr_roof_cuda_advance(roof, "links", 0.1);
}

static hr_status links_measure(hr_roof_cuda *roof) {
    const hr_cuda_driver *driver = &roof->cuda->driver;
    size_t bytes = roof->stream_bytes < LINK_BYTES ? roof->stream_bytes : LINK_BYTES;
    void *pinned = NULL, *pageable = aligned_alloc(HUGE_PAGE, bytes / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE);
    hr_status status = HR_OK;
    if (!pageable) return hr_fail(HR_OUT_OF_MEMORY, "no memory to measure the host's link");
    madvise(pageable, bytes, MADV_HUGEPAGE); /* a wish: what large allocations of most programs get */
    memset(pageable, 1, bytes);
    hr_cu_result result = driver->host_allocate(&pinned, bytes, HR_CU_HOST_PORTABLE);
    if (result)
        status = hr_cuda_fail(driver, result, "pinning host memory");
    else
        memset(pinned, 1, bytes);
    if (status == HR_OK) status = link_measure(roof, pinned, bytes, true, &roof->roof->link_to);
    if (status == HR_OK) status = link_measure(roof, pinned, bytes, false, &roof->roof->link_from);
    if (status == HR_OK) status = link_measure(roof, pageable, bytes, true, &roof->roof->link_pageable_to);
    if (status == HR_OK) status = link_measure(roof, pageable, bytes, false, &roof->roof->link_pageable_from);
    if (pinned) driver->host_release(pinned);
    free(pageable);
    return status;
}

/* ---- another device ---- */

static hr_cu_result peer_copy(hr_roof_cuda *roof, hr_cu_context peer, hr_cu_address there, size_t bytes,
                              double *rate) {
    const hr_cuda_driver *driver = &roof->cuda->driver;
    double samples[LINK_RUNS];
    for (int i = -1; i < LINK_RUNS; i++) {
        double begun = hr_clock_seconds();
        hr_cu_result result =
            driver->peer_copy(there, peer, roof->streams[0], roof->cuda->context, bytes, roof->cuda->stream);
        if (!result) result = driver->stream_wait(roof->cuda->stream);
        if (result) return result;
        if (i >= 0) samples[i] = hr_clock_seconds() - begun;
    }
    *rate = (double)bytes / hr_median(samples, LINK_RUNS);
    return 0;
}

/* To the next device, where there is one that can be reached; nothing here is worth failing the roof. */
static void peer_measure(hr_roof_cuda *roof) {
    const hr_cuda_driver *driver = &roof->cuda->driver;
    int count = 0, possible = 0;
    hr_cu_device next;
    hr_cu_context peer = NULL, popped;
    hr_cu_address there = 0;
    if (driver->device_count(&count) || count < 2) return;
    if (driver->device_get(&next, (roof->cuda->ordinal + 1) % count) ||
        driver->peer_possible(&possible, roof->cuda->handle, next) || !possible ||
        driver->context_retain(&peer, next))
        return;
    if (!driver->context_push(peer)) {
        if (driver->allocate(&there, roof->stream_bytes)) there = 0;
        driver->context_pop(&popped);
    }
    hr_cu_result enabled = driver->peer_enable(peer, 0);
    if (there && (!enabled || enabled == HR_CU_PEER_ACCESS_ALREADY_ENABLED))
        peer_copy(roof, peer, there, roof->stream_bytes, &roof->roof->link_peer);
    if (there && !driver->context_push(peer)) {
        driver->release(there);
        driver->context_pop(&popped);
    }
    driver->context_release(next);
}

hr_status hr_roof_cuda_host(hr_roof_cuda *roof) {
    HR_TRY(hr_roof_cuda_advance(roof, "launches", 0.1));
    HR_TRY(launches_measure(roof));
    HR_TRY(links_measure(roof));
    peer_measure(roof);
    return HR_OK;
}
