/* A CUDA GPU as a device: its context and memory.
 *
 * In: an ordinal. Out: a device whose kernels run on one stream of the primary context, so that memory of the
 * CUDA runtime's or PyTorch's can be bound as it is.
 */
#include "device/device_cuda.h"

#include <stdlib.h>

#define COMPUTE_LEAST 80

/* ---- the context ---- */

hr_status hr_cuda_enter(const hr_device_cuda *cuda, bool *pushed) {
    hr_cu_context current = NULL;
    *pushed = false;
    hr_cu_result result = cuda->driver.context_current(&current);
    if (!result && current != cuda->context) {
        result = cuda->driver.context_push(cuda->context);
        *pushed = result == 0;
    }
    return result ? hr_cuda_fail(&cuda->driver, result, "entering the context of %s", cuda->base.name)
                  : HR_OK;
}

void hr_cuda_leave(const hr_device_cuda *cuda, bool pushed) {
    hr_cu_context popped;
    if (pushed) cuda->driver.context_pop(&popped);
}

/* ---- memory ---- */

static hr_status allocate(hr_device_cuda *cuda, size_t size, void **out) {
    hr_cu_address address = 0;
    size_t least = size ? size : 1, free_bytes = 0, total = 0;
    hr_cu_result result = cuda->driver.allocate(&address, least);
    if (result == HR_CU_OUT_OF_MEMORY) {
        cuda->driver.memory_info(&free_bytes, &total);
        return hr_fail(HR_OUT_OF_MEMORY,
                       "%.1f MB of memory of %s are asked for and %.1f of its %.0f MB are free: use smaller "
                       "extents",
                       (double)size * 1e-6, cuda->base.name, (double)free_bytes * 1e-6, (double)total * 1e-6);
    }
    if (result)
        return hr_cuda_fail(&cuda->driver, result, "allocating %.1f MB on %s", (double)size * 1e-6,
                            cuda->base.name);
    *out = (void *)(uintptr_t)address;
    return HR_OK;
}

/* Memory is in no stream's order: it may come and go while somebody captures one. */
static hr_status cuda_allocate(struct hr_device *device, size_t size, void **out) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    int mode = HR_CU_CAPTURE_RELAXED;
    bool pushed;
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    cuda->driver.capture_mode(&mode);
    hr_status status = allocate(cuda, size, out);
    cuda->driver.capture_mode(&mode);
    hr_cuda_leave(cuda, pushed);
    return status;
}

static void cuda_release(struct hr_device *device, void *data, size_t size) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    int mode = HR_CU_CAPTURE_RELAXED;
    bool pushed;
    (void)size;
    if (!data || hr_cuda_enter(cuda, &pushed) != HR_OK) return;
    cuda->driver.capture_mode(&mode);
    cuda->driver.release((hr_cu_address)(uintptr_t)data);
    cuda->driver.capture_mode(&mode);
    hr_cuda_leave(cuda, pushed);
}

/* ---- order ---- */

static hr_status cuda_synchronise(struct hr_device *device) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed;
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    hr_cu_result result = cuda->driver.stream_wait(cuda->stream);
    hr_cuda_leave(cuda, pushed);
    return result ? hr_cuda_fail(&cuda->driver, result, "waiting for %s", cuda->base.name) : HR_OK;
}

static void cuda_stream(struct hr_device *device, void *stream) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    cuda->stream = stream ? (hr_cu_stream)stream : cuda->own_stream;
}

static uint64_t cuda_capture(struct hr_device *device, void *stream) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    uint64_t id = 0;
    int state = 0;
    bool pushed;
    if (hr_cuda_enter(cuda, &pushed) != HR_OK) return 0;
    hr_cu_result result = cuda->driver.capture_info(stream ? (hr_cu_stream)stream : cuda->stream, &state, &id,
                                                    NULL, NULL, NULL);
    hr_cuda_leave(cuda, pushed);
    return !result && state == HR_CU_CAPTURE_ACTIVE ? id : 0;
}

/* ---- opening ---- */

static void cuda_destroy(struct hr_device *device) {
    hr_device_cuda *cuda = (hr_device_cuda *)device;
    bool pushed = false;
    if (cuda->context) { /* a context that is lost still leaves memory of the host's to free */
        hr_cuda_enter(cuda, &pushed);
        hr_time_cuda_free(cuda);
        hr_copy_cuda_free(cuda);
        hr_module_cuda_unload(device, cuda->support);
        hr_module_cuda_faults_free(cuda);
        if (cuda->own_stream) cuda->driver.stream_destroy(cuda->own_stream);
        hr_cuda_leave(cuda, pushed);
    }
    if (cuda->context) cuda->driver.context_release(cuda->handle);
    hr_cuda_compiler_destroy(&cuda->compiler);
    pthread_mutex_destroy(&cuda->lock);
    pthread_mutex_destroy(&cuda->stage_lock);
    pthread_mutex_destroy(&device->kernels_lock);
    hr_handle_free(cuda);
}

static const hr_device_ops cuda_ops = {
    .kind = "cuda",
    .destroy = cuda_destroy,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .compile = hr_module_cuda_compile,
    .unload = hr_module_cuda_unload,
    .launch = hr_launch_cuda,
    .time = hr_time_cuda,
    .measure_roof = hr_roof_cuda_measure,
    .upload = hr_copy_cuda_upload,
    .upload_queued = hr_copy_cuda_upload_queued,
    .download = hr_copy_cuda_download,
    .copy = hr_copy_cuda_within,
    .synchronise = cuda_synchronise,
    .launches = hr_module_cuda_launches,
    .fault = hr_launch_cuda_fault,
    .stream = cuda_stream,
    .replay = &hr_replay_cuda_ops,
    .allocate_pinned = hr_copy_cuda_allocate_pinned,
    .release_pinned = hr_copy_cuda_release_pinned,
    .memory_kind = hr_copy_cuda_memory_kind,
    .capture = cuda_capture,
};

static hr_status device_find(hr_device_cuda *cuda, int ordinal) {
    const hr_cuda_driver *driver = &cuda->driver;
    int count = 0;
    hr_cu_result result = driver->device_count(&count);
    if (result) return hr_cuda_fail(driver, result, "counting devices");
    if (ordinal >= count)
        return hr_fail(HR_NOT_AVAILABLE, "there is no cuda:%d: the driver shows %d %s%s", ordinal, count,
                       count == 1 ? "device" : "devices", count ? ", counted from 0" : "; use --device cpu");
    result = driver->device_get(&cuda->handle, ordinal);
    if (!result) result = driver->device_name(cuda->base.name, sizeof cuda->base.name, cuda->handle);
    cuda->ordinal = ordinal;
    return result ? hr_cuda_fail(driver, result, "looking at cuda:%d", ordinal) : HR_OK;
}

static hr_status limits_read(hr_device_cuda *cuda) {
    static const int attributes[] = {
        HR_CU_MULTIPROCESSORS,          HR_CU_L2_BYTES,       HR_CU_COMPUTE_MAJOR, HR_CU_COMPUTE_MINOR,
        HR_CU_SHARED_OF_MULTIPROCESSOR, HR_CU_SHARED_OF_BLOCK};
    enum { COUNT = sizeof attributes / sizeof *attributes };
    int values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        hr_cu_result result = cuda->driver.device_attribute(&values[i], attributes[i], cuda->handle);
        if (result) return hr_cuda_fail(&cuda->driver, result, "asking %s what it has", cuda->base.name);
    }
    int compute = values[2] * 10 + values[3];
    if (compute < COMPUTE_LEAST)
        return hr_fail(HR_NOT_AVAILABLE,
                       "%s has compute capability %d.%d, and 8.0 (Ampere) is needed: use --device cpu",
                       cuda->base.name, values[2], values[3]);
    hr_device_limits *limits = &cuda->base.limits;
    *limits = (hr_device_limits){.threads = values[0],
                                 .vector_bytes = 16,
                                 .l1_bytes = values[4],
                                 .l2_bytes = values[1],
                                 .compute = compute,
                                 .shared_bytes = values[5],
                                 .cluster_blocks = hr_cuda_cluster_most(compute),
                                 .tensor_maps = compute >= 90 && cuda->driver.tensor_map};
    hr_cuda_arch_name(compute, cuda->arch, sizeof cuda->arch);
    snprintf(limits->isa, sizeof limits->isa, "%s", cuda->arch);
    return HR_OK;
}

static hr_status context_make(hr_device_cuda *cuda) {
    bool pushed;
    hr_cu_result result = cuda->driver.context_retain(&cuda->context, cuda->handle);
    if (result) return hr_cuda_fail(&cuda->driver, result, "making a context on %s", cuda->base.name);
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    result = cuda->driver.stream_create(&cuda->own_stream, HR_CU_STREAM_NON_BLOCKING);
    hr_cuda_leave(cuda, pushed);
    if (result) return hr_cuda_fail(&cuda->driver, result, "making a stream on %s", cuda->base.name);
    cuda->stream = cuda->own_stream;
    return HR_OK;
}

hr_status hr_device_cuda_open(int ordinal, struct hr_device **out) {
    hr_device_cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while opening a cuda device");
    cuda->base.handle.kind = HR_HANDLE_DEVICE;
    cuda->base.ops = &cuda_ops;
    pthread_mutex_init(&cuda->lock, NULL);
    pthread_mutex_init(&cuda->stage_lock, NULL);
    pthread_mutex_init(&cuda->base.kernels_lock, NULL);
    hr_cuda_compiler_create(&cuda->compiler);
    hr_status status = hr_cuda_driver_open(&cuda->driver);
    if (status == HR_OK) status = device_find(cuda, ordinal);
    if (status == HR_OK) status = limits_read(cuda);
    if (status == HR_OK) status = context_make(cuda);
    if (status == HR_OK)
        *out = &cuda->base;
    else
        cuda_destroy(&cuda->base);
    return status;
}
