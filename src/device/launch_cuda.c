/* Launching: words packed on the stack, one driver call a launch, nothing else on the way.
 *
 * In: a module whose launches are ready, and arguments. Out: queued work, or its completion and its fault
 * word.
 */
#include "device/device_cuda.h"

#include <string.h>

/* ---- parameters ---- */

typedef struct words {
    int64_t list[HR_CUDA_WORDS_MAX];
    int64_t count;
} words;

static void words_add(words *words, const void *data, int64_t count) {
    if (count > 0) memcpy(words->list + words->count, data, (size_t)count * sizeof *words->list);
    words->count += count;
}

static hr_status words_pack(const hr_module *module, const hr_execution *execution, words *words) {
    words->count = 0;
    if (2 * execution->count + execution->extent_count + execution->stride_count + 2 > HR_CUDA_WORDS_MAX)
        return hr_fail(
            HR_BAD_INPUT,
            "a kernel with %lld arguments of %lld axes has more parameters than a launch can carry "
            "(%d words): pass fewer tensors",
            (long long)execution->count, (long long)execution->stride_count, HR_CUDA_WORDS_MAX);
    words_add(words, execution->pointers, execution->count);
    words_add(words, execution->scalars, execution->count);
    words_add(words, execution->extents, execution->extent_count);
    words_add(words, execution->strides, execution->stride_count);
    words_add(words, &execution->scratch, 1);
    words_add(words, &module->fault, 1);
    return HR_OK;
}

/* ---- one grid ---- */

/* The maps of this launch for the arrays as they lie now. */
static hr_status maps_refresh(const hr_device_cuda *cuda, const hr_cuda_function *function,
                              const hr_launch *launch, const hr_execution *execution) {
    for (int i = 0; i < function->map_count; i++) {
        const hr_tensor_map *map = &launch->maps[i];
        const void *base =
            map->tensor == HR_MAP_SCRATCH ? execution->scratch : execution->pointers[map->tensor];
        HR_TRY(hr_cuda_map_refresh(&cuda->driver, map, launch->entry, base, &function->maps[i]));
    }
    return HR_OK;
}

static hr_status parameters_check(const hr_cuda_function *function, const hr_launch *launch,
                                  const words *words) {
    if (words->count * 8 + function->map_count * HR_MAP_BYTES > HR_CUDA_WORDS_MAX * 8)
        return hr_fail(HR_BAD_INPUT,
                       "kernel %s has more parameters than a launch can carry: pass fewer tensors",
                       launch->entry);
    if (function->parameter_bytes && function->parameter_bytes != (size_t)words->count * 8)
        return hr_fail(HR_INTERNAL, "kernel %s takes %zu bytes of parameters and is given %lld",
                       launch->entry, function->parameter_bytes, (long long)words->count * 8);
    return HR_OK;
}

void hr_launch_cuda_parameters(const hr_cuda_grid *grid, void **out) {
    for (int i = 0; i < grid->map_count; i++)
        out[i] = (void *)(uintptr_t)&grid->maps[i].value; /* the driver reads them */
    out[grid->map_count] = (void *)(uintptr_t)grid->words;
}

hr_status hr_launch_cuda_grid(const hr_device_cuda *cuda, const hr_cuda_grid *grid, hr_cu_stream stream) {
    hr_cu_launch_attribute attributes[2];
    void *parameters[HR_LAUNCH_MAPS_MAX + 1];
    hr_cu_launch_config config = {.grid = {grid->grid[0], grid->grid[1], grid->grid[2]},
                                  .block = {grid->threads, 1, 1},
                                  .shared_bytes = grid->shared_bytes,
                                  .stream = stream,
                                  .attributes = attributes};
    if (grid->cluster > 1) {
        hr_cu_launch_attribute *cluster = &attributes[config.attribute_count++];
        cluster->id = HR_CU_LAUNCH_CLUSTER;
        cluster->value.cluster[0] = grid->cluster;
        cluster->value.cluster[1] = cluster->value.cluster[2] = 1;
    }
    if (grid->overlaps) {
        attributes[config.attribute_count].id = HR_CU_LAUNCH_OVERLAPS;
        attributes[config.attribute_count++].value.overlaps = 1;
    }
    hr_launch_cuda_parameters(grid, parameters);
    hr_cu_result result = cuda->driver.launch(&config, grid->function, parameters, NULL);
    return result ? hr_cuda_fail(&cuda->driver, result, "launching kernel %s", grid->entry) : HR_OK;
}

hr_status hr_launch_cuda_each(const hr_device_cuda *cuda, const hr_module *module,
                              const hr_execution *execution, hr_cuda_grid_fn each, void *context) {
    words words;
    if (execution->launch_count != module->function_count)
        return hr_fail(HR_INTERNAL, "%lld launches are asked of a module that was prepared for %d",
                       (long long)execution->launch_count, module->function_count);
    HR_TRY(words_pack(module, execution, &words));
    bool aligned = !execution->aligned ||
                   hr_tensors_are_aligned(execution->aligned, execution->pointers, execution->count);
    for (int64_t i = 0; i < execution->launch_count; i++) {
        const hr_launch *launch = &execution->launches[i];
        bool apart = !aligned && launch->unaligned[0];
        const hr_cuda_function *function = &module->functions[apart ? execution->launch_count + i : i];
        if (hr_launch_is_empty(launch)) continue;
        HR_TRY(maps_refresh(cuda, function, launch, execution));
        HR_TRY(parameters_check(function, launch, &words));
        const hr_cuda_grid grid = {
            .entry = launch->entry,
            .function = function->handle,
            .grid = {(unsigned)launch->grid[0], (unsigned)launch->grid[1], (unsigned)launch->grid[2]},
            .threads = (unsigned)launch->threads,
            .shared_bytes = (unsigned)launch->shared,
            .cluster = (unsigned)launch->cluster,
            .overlaps = launch->overlaps,
            .map_count = function->map_count,
            .maps = function->maps,
            .words = words.list,
            .word_count = words.count};
        HR_TRY(each(context, &grid));
    }
    return HR_OK;
}

typedef struct queueing {
    const hr_device_cuda *cuda;
    hr_cu_stream stream;
} queueing;

static hr_status grid_queue(void *context, const hr_cuda_grid *grid) {
    const queueing *queueing = context;
    return hr_launch_cuda_grid(queueing->cuda, grid, queueing->stream);
}

hr_status hr_launch_cuda_queue(const hr_device_cuda *cuda, const hr_module *module,
                               const hr_execution *execution) {
    queueing queueing = {cuda, execution->stream ? (hr_cu_stream)execution->stream : cuda->stream};
    return hr_launch_cuda_each(cuda, module, execution, grid_queue, &queueing);
}

/* ---- an execution ---- */

void hr_launch_cuda_fault(struct hr_device *device, hr_module *module, hr_fault *out) {
    volatile hr_fault *word = module->fault;
    (void)device;
    out->access = word->access;
    out->value = word->value;
    word->access = word->value = 0;
}

static hr_status fault_status(int64_t value) {
    return hr_fail(HR_OUT_OF_RANGE, "a subscript that depends on data has the value %lld, outside its axis",
                   (long long)value);
}

static hr_status launch_and_wait(const hr_device_cuda *cuda, hr_module *module, const hr_execution *execution,
                                 hr_fault *fault) {
    hr_cu_result result =
        cuda->driver.stream_wait(cuda->stream); /* no earlier fault is taken for this one's */
    if (result) return hr_cuda_fail(&cuda->driver, result, "an earlier launch");
    *module->fault = (hr_fault){0};
    HR_TRY(hr_launch_cuda_queue(cuda, module, execution));
    if ((result = cuda->driver.stream_wait(cuda->stream)))
        return hr_cuda_fail(&cuda->driver, result, "kernel %s",
                            execution->launch_count ? execution->launches[execution->launch_count - 1].entry
                                                    : "");
    hr_launch_cuda_fault(NULL, module, fault);
    return fault->access ? fault_status(fault->value) : HR_OK;
}

hr_status hr_launch_cuda(struct hr_device *device, hr_module *module, const hr_execution *execution,
                         hr_fault *fault) {
    const hr_device_cuda *cuda = (const hr_device_cuda *)device;
    bool pushed;
    const volatile hr_fault *word = module->fault;
    if (!fault && word->access) return fault_status(word->value);
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    hr_status status = fault ? launch_and_wait(cuda, module, execution, fault)
                             : hr_launch_cuda_queue(cuda, module, execution);
    hr_cuda_leave(cuda, pushed);
    return status;
}
