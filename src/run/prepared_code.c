/* A planned state -> its source, its launches, its loaded code.
 *
 * In: a state with a plan. Out: what prepare.c launches, and what tells one state's code from another's.
 */
#include "run/kernel.h"

#include "base/cache.h"

#include <stdlib.h>
#include <string.h>

#define GRIDS_A_STAGE 8

/* For the loader. */
static hr_status state_emit(const hr_prepared *state, hr_emitted *out) {
    if (out->source.length) return HR_OK;
    return hr_emit_loaded(state->plan, state->extents, out);
}

/* The launches of one execution, on devices with grids. */
static hr_status launches_emit(hr_prepared *state) {
    int most = GRIDS_A_STAGE * state->plan->stage_count;
    if (state->launches) return HR_OK;
    state->launches = calloc((size_t)most + 1, sizeof *state->launches);
    if (!state->launches) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel's launches");
    hr_emit_aligned(state->plan, &state->aligned);
    HR_TRY(hr_emit_launches(state->plan, state->extents, state->launches, most, &state->launch_count));
    if (state->launch_count) return HR_OK;
    free(state->launches);
    state->launches = NULL;
    return HR_OK;
}

/* The same, with the module's functions looked up for them. */
static hr_status state_launches(const hr_kernel *kernel, hr_prepared *state) {
    HR_TRY(launches_emit(state));
    if (!kernel->device->ops->launches) return HR_OK;
    return kernel->device->ops->launches(kernel->device, state->module, state->launches, state->launch_count);
}

hr_status hr_prepared_load(const hr_kernel *kernel, hr_prepared *state, unsigned flags) {
    hr_module *module;
    if (state->module) return HR_OK;
    HR_TRY(state_emit(state, &state->loadable));
    const hr_text *source = &state->loadable.source;
    HR_TRY(
        kernel->device->ops->compile(kernel->device, hr_text_data(source), source->length, flags, &module));
    state->module = module;
    hr_status status = state_launches(kernel, state);
    if (status == HR_OK) return HR_OK;
    kernel->device->ops->unload(kernel->device, module);
    state->module = NULL;
    return status;
}

static void map_identify(const hr_tensor_map *map, hr_text *text) {
    hr_text_format(text, "map %d %lld %d %d %d %d", map->tensor, (long long)map->offset, map->type,
                   map->swizzle, map->promotion, map->fill);
    for (int axis = 0; axis < map->rank; axis++)
        hr_text_format(text, " %lld %lld %d", (long long)map->dims[axis], (long long)map->strides[axis],
                       map->box[axis]);
    hr_text_format(text, "\n");
}

hr_status hr_prepared_identify(hr_prepared *state, char identity[33]) {
    hr_text text = {0};
    HR_TRY(state_emit(state, &state->loadable));
    HR_TRY(launches_emit(state));
    hr_text_format(&text, "threads %d scratch %lld\n", state->launch_threads, (long long)state->scratch_size);
    for (int i = 0; state->launches && i < state->launch_count; i++) {
        const hr_launch *launch = &state->launches[i];
        hr_text_format(&text, "%s %s %lld %lld %lld %d %d %lld %lld %d\n", launch->entry, launch->unaligned,
                       (long long)launch->grid[0], (long long)launch->grid[1], (long long)launch->grid[2],
                       launch->threads, launch->cluster, (long long)launch->shared, (long long)launch->pieces,
                       launch->overlaps);
        for (int m = 0; m < launch->map_count; m++)
            map_identify(&launch->maps[m], &text);
    }
    hr_text_append(&text, hr_text_data(&state->loadable.source), state->loadable.source.length);
    hr_status status = hr_text_status(&text);
    if (status == HR_OK) hr_cache_hash(text.data, text.length, identity);
    hr_text_clear(&text);
    return status;
}
