/* The emulated device: its parts made and given back, one launch. */
#undef _FORTIFY_SOURCE /* longjmp goes from stack to stack here */
#include "support/cuda_emulation_parts.h"

#include "device/tensor_map_cuda.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

cuda_emulation *emulation_now;

void emulation_fail(const char *format, ...) {
    cuda_emulation *emulation = emulation_now;
    const fiber *self = emulation->fiber;
    size_t at = 0, size = sizeof emulation->message;
    at += (size_t)snprintf(emulation->message, size, "%s", emulation->launch->entry);
    if (self)
        at += (size_t)snprintf(emulation->message + at, size - at, ", block %lld, thread %d",
                               (long long)emulation->blocks[self->block].index, self->index);
    at += (size_t)snprintf(emulation->message + at, size - at, ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(emulation->message + at, size - at, format, arguments);
    va_end(arguments);
    _longjmp(emulation->failure, 1);
}

hr_status cuda_emulation_create(cuda_emulation **out) {
    cuda_emulation *emulation = calloc(1, sizeof *emulation);
    size_t fibers = (size_t)CLUSTER_BLOCKS * BLOCK_THREADS;
    if (!emulation) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the emulated device");
    hr_status status = region_create(&emulation->global, GLOBAL_BYTES, false);
    if (status == HR_OK)
        status = region_create(&emulation->shared, (size_t)CLUSTER_BLOCKS * SHARED_SPAN, true);
    emulation->fibers = calloc(fibers, sizeof *emulation->fibers);
    emulation->stacks = mmap(NULL, fibers * STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (emulation->stacks == MAP_FAILED) emulation->stacks = NULL;
    if (status == HR_OK && (!emulation->fibers || !emulation->stacks))
        status = hr_fail(HR_OUT_OF_MEMORY, "no memory for the emulated device's threads");
    if (status != HR_OK) {
        cuda_emulation_destroy(emulation);
        return status;
    }
    emulation_now = *out = emulation;
    return HR_OK;
}

void cuda_emulation_destroy(cuda_emulation *emulation) {
    if (!emulation) return;
    region_destroy(&emulation->global);
    region_destroy(&emulation->shared);
    if (emulation->stacks) munmap(emulation->stacks, (size_t)CLUSTER_BLOCKS * BLOCK_THREADS * STACK_BYTES);
    free(emulation->fibers);
    if (emulation_now == emulation) emulation_now = NULL;
    free(emulation);
}

void cuda_emulation_clear(cuda_emulation *emulation) {
    region_clear(&emulation->global);
    emulation->array_count = 0;
    emulation->bytes_read = emulation->bytes_written = 0;
}

static int64_t launch_blocks(const hr_launch *launch) {
    return launch->grid[0] * launch->grid[1] * launch->grid[2];
}

static hr_status launch_find(const cuda_object *object, const hr_launch *launch,
                             void (**out)(const void *const *)) {
    if (launch->threads < 1 || launch->threads > BLOCK_THREADS || launch->cluster < 1 ||
        launch->cluster > CLUSTER_BLOCKS || launch->grid[0] % launch->cluster ||
        launch_blocks(launch) > 1 << 20)
        return hr_fail(HR_WRONG_RESULT,
                       "%s: %lld x %lld x %lld blocks in clusters of %d, with %d threads: no such grid",
                       launch->entry, (long long)launch->grid[0], (long long)launch->grid[1],
                       (long long)launch->grid[2], launch->cluster, launch->threads);
    /* Arrays with names are those of all kernels of the source; how many a kernel has itself the assembler
     * says. */
    if (launch->shared < 0 || launch->shared > SHARED_BYTES)
        return hr_fail(HR_WRONG_RESULT, "%s: %lld bytes of shared memory are more than a block can have",
                       launch->entry, (long long)launch->shared);
    for (int i = 0; i < object->count; i++)
        if (strcmp(object->names[i], launch->entry) == 0) {
            *out = object->calls[i];
            return HR_OK;
        }
    return hr_fail(HR_WRONG_RESULT, "%s: the source has no such function", launch->entry);
}

/* Pointers are the first words; scratch is the array of that name. */
static hr_status parameters_make(cuda_emulation *emulation, const hr_launch *launch, const void *words) {
    for (int i = 0; i < launch->map_count; i++) {
        const hr_tensor_map *map = &launch->maps[i];
        char *base = map->tensor == HR_MAP_SCRATCH ? NULL : ((char *const *)words)[map->tensor];
        for (int a = 0; map->tensor == HR_MAP_SCRATCH && a < emulation->array_count; a++)
            if (strcmp(emulation->arrays[a].name, "scratch") == 0) base = emulation->arrays[a].data;
        HR_TRY(hr_cuda_map_check(map, launch->entry));
        if (!base || (uintptr_t)(base + map->offset) % 16)
            return hr_fail(HR_WRONG_RESULT, "%s: the map of tensor %d begins at %p, no multiple of 16 bytes",
                           launch->entry, map->tensor, (void *)base);
        emulation->maps[i] = (emulated_map){.map = map, .base = base};
        emulation->parameters[i] = &emulation->maps[i];
    }
    emulation->parameters[launch->map_count] = words;
    return HR_OK;
}

static void fibers_forget(cuda_emulation *emulation) {
    for (int i = 0; i < CLUSTER_BLOCKS * BLOCK_THREADS; i++)
        emulation->fibers[i].made = false;
    emulation->fiber = NULL;
}

hr_status cuda_emulation_launch(cuda_emulation *emulation, const cuda_object *object, const hr_launch *launch,
                                const void *words, uint64_t seed) {
    HR_TRY(launch_find(object, launch, &emulation->call));
    emulation->object = object;
    emulation->launch = launch;
    HR_TRY(parameters_make(emulation, launch, words));
    emulation->seed = seed;
    emulation->late = seed % 2 == 0;
    emulation->cluster = launch->cluster;
    emulation->launch_time = ++emulation->now;
    if (_setjmp(emulation->failure)) {
        fibers_forget(emulation);
        return hr_fail(HR_WRONG_RESULT, "%s", emulation->message);
    }
    int64_t clusters = launch_blocks(launch) / launch->cluster;
    for (int64_t i = 0; i < clusters; i++)
        emulation_run_cluster(emulation, emulation_order(seed, i, clusters) * launch->cluster);
    return HR_OK;
}
