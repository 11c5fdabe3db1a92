/* Launching: words packed on the stack, one driver call a grid, nothing else on the way.
 *
 * In: a module whose grids are ready, and arguments. Out: queued work, or its completion and its fault word.
 */
#include "device/device_cuda.h"

#include <string.h>

#define WORDS_MAX 512 /* 4096 bytes: what every architecture takes as parameters */

/* ---- parameters ---- */

typedef struct words {
    int64_t list[WORDS_MAX];
    int64_t count;
} words;

static void words_add(words *words, const void *data, int64_t count) {
    if (count > 0) memcpy(words->list + words->count, data, (size_t)count * sizeof *words->list);
    words->count += count;
}

static hr_status words_pack(const hr_module *module, const hr_launch *launch, words *words) {
    words->count = 0;
    if (2 * launch->count + launch->extent_count + launch->stride_count + 2 > WORDS_MAX)
        return hr_fail(
            HR_BAD_INPUT,
            "a kernel with %lld arguments of %lld axes has more parameters than a launch can carry "
            "(%d words): pass fewer tensors",
            (long long)launch->count, (long long)launch->stride_count, WORDS_MAX);
    words_add(words, launch->pointers, launch->count);
    words_add(words, launch->scalars, launch->count);
    words_add(words, launch->extents, launch->extent_count);
    words_add(words, launch->strides, launch->stride_count);
    words_add(words, &launch->scratch, 1);
    words_add(words, &module->fault, 1);
    return HR_OK;
}

/* ---- one grid ---- */

static hr_cu_result grid_launch(const hr_device_cuda *cuda, const hr_cuda_function *function,
                                const hr_grid *grid, void *parameters) {
    hr_cu_launch_attribute attributes[2];
    hr_cu_launch_config config = {.grid = {(unsigned)grid->blocks, 1, 1},
                                  .block = {(unsigned)grid->threads, 1, 1},
                                  .shared_bytes = (unsigned)grid->shared,
                                  .stream = cuda->stream,
                                  .attributes = attributes};
    if (grid->cluster > 1) {
        hr_cu_launch_attribute *cluster = &attributes[config.attribute_count++];
        cluster->id = HR_CU_LAUNCH_CLUSTER;
        cluster->value.cluster[0] = (unsigned)grid->cluster;
        cluster->value.cluster[1] = cluster->value.cluster[2] = 1;
    }
    if (grid->overlaps) {
        attributes[config.attribute_count].id = HR_CU_LAUNCH_OVERLAPS;
        attributes[config.attribute_count++].value.overlaps = 1;
    }
    return cuda->driver.launch(&config, function->handle, (void *[]){parameters}, NULL);
}

hr_status hr_launch_cuda_queue(const hr_device_cuda *cuda, const hr_module *module, const hr_launch *launch) {
    words words;
    if (launch->grid_count != module->function_count)
        return hr_fail(HR_INTERNAL, "%lld grids are launched of a module that was prepared for %d",
                       (long long)launch->grid_count, module->function_count);
    HR_TRY(words_pack(module, launch, &words));
    bool aligned =
        !launch->aligned || hr_tensors_are_aligned(launch->aligned, launch->pointers, launch->count);
    for (int64_t i = 0; i < launch->grid_count; i++) {
        const hr_grid *grid = &launch->grids[i];
        bool apart = !aligned && grid->unaligned[0];
        const hr_cuda_function *function = &module->functions[apart ? launch->grid_count + i : i];
        if (grid->blocks == 0) continue;
        if (function->parameter_bytes && function->parameter_bytes != (size_t)words.count * 8)
            return hr_fail(HR_INTERNAL, "kernel %s takes %zu bytes of parameters and is given %lld",
                           grid->entry, function->parameter_bytes, (long long)words.count * 8);
        hr_cu_result result = grid_launch(cuda, function, grid, words.list);
        if (result) return hr_cuda_fail(&cuda->driver, result, "launching kernel %s", grid->entry);
    }
    return HR_OK;
}

/* ---- a launch ---- */

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

static hr_status launch_and_wait(const hr_device_cuda *cuda, hr_module *module, const hr_launch *launch,
                                 hr_fault *fault) {
    hr_cu_result result =
        cuda->driver.stream_wait(cuda->stream); /* no earlier fault is taken for this one's */
    if (result) return hr_cuda_fail(&cuda->driver, result, "an earlier launch");
    *module->fault = (hr_fault){0};
    HR_TRY(hr_launch_cuda_queue(cuda, module, launch));
    if ((result = cuda->driver.stream_wait(cuda->stream)))
        return hr_cuda_fail(&cuda->driver, result, "kernel %s",
                            launch->grid_count ? launch->grids[launch->grid_count - 1].entry : "");
    hr_launch_cuda_fault(NULL, module, fault);
    return fault->access ? fault_status(fault->value) : HR_OK;
}

hr_status hr_launch_cuda(struct hr_device *device, hr_module *module, const hr_launch *launch,
                         hr_fault *fault) {
    const hr_device_cuda *cuda = (const hr_device_cuda *)device;
    bool pushed;
    const volatile hr_fault *word = module->fault;
    if (!fault && word->access) return fault_status(word->value);
    HR_TRY(hr_cuda_enter(cuda, &pushed));
    hr_status status =
        fault ? launch_and_wait(cuda, module, launch, fault) : hr_launch_cuda_queue(cuda, module, launch);
    hr_cuda_leave(cuda, pushed);
    return status;
}
