/* One execution on arrays given by position, from any number of threads at once.
 *
 * In: a kernel, arrays in the order of its arguments. Out: one execution. A call keeps all that is its own on
 * its stack; what several share is found in the kernel's hr_shape_cache, and made there by one of them. The
 * bindings of the kernel are neither used nor changed, but for scalars and extents that the arrays do not
 * give.
 */
#include "run/kernel.h"

#include "base/dtype.h"
#include "base/range.h"
#include "ir/without_results.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct call {
    hr_kernel *kernel;
    const hr_array *arrays;
    void *stream;
    hr_dtype dtypes[HR_EXECUTE_ARGUMENTS]; /* of scalars and of what is left out: those of the text */
    bool left_out[HR_EXECUTE_ARGUMENTS];
    bool dense[HR_EXECUTE_ARGUMENTS];
    hr_shape_key key;
    /* By the instance's arguments: */
    void *pointers[HR_EXECUTE_ARGUMENTS];
    double scalars[HR_EXECUTE_ARGUMENTS];
    int64_t strides[HR_EXECUTE_WORDS];
    hr_placed placed[HR_EXECUTE_ARGUMENTS];
} call;

static const int64_t no_shape[1]; /* of a tensor without axes: not NULL */

/* ---- what is given ---- */

/* A result without memory is not wanted; an empty one needs none. */
static bool is_left_out(const hr_tensor *tensor, const hr_array *array) {
    if (tensor->role != HR_ROLE_RESULT || array->data) return false;
    return !array->shape || array->rank != tensor->rank || hr_shape_elements(array->rank, array->shape) != 0;
}

static hr_status scalar_check(const hr_kernel *kernel, int i, const hr_array *array) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    if (array->size < sizeof *array)
        return hr_fail(HR_BAD_INPUT,
                       "the array for `%s` does not say its size: begin it with {.size = sizeof(hr_array)}",
                       tensor->name);
    if (!array->data && (kernel->bindings[i].bound || tensor->has_default)) return HR_OK;
    if (!array->data)
        return hr_fail(HR_BAD_INPUT,
                       "`%s` of kernel %s is a scalar without a default, and no value of it is given (NULL)",
                       tensor->name, kernel->function->name);
    if (array->rank != 0 || (unsigned)array->dtype >= HR_DTYPE_COUNT)
        return hr_fail(
            HR_BAD_INPUT,
            "`%s` of kernel %s is a scalar: its array has rank 0, a dtype, and the value at `data`",
            tensor->name, kernel->function->name);
    return HR_OK;
}

static void key_add(hr_shape_key *key, int64_t word) {
    key->words[key->count++] = word;
}

static hr_status argument_note(call *call, int i) {
    const hr_kernel *kernel = call->kernel;
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    const hr_array *array = &call->arrays[i];
    call->dtypes[i] = tensor->dtype;
    call->left_out[i] = false;
    if (hr_tensor_is_scalar(tensor)) return scalar_check(kernel, i, array);
    call->left_out[i] = is_left_out(tensor, array);
    if (call->left_out[i]) {
        key_add(&call->key, -1);
        return HR_OK;
    }
    HR_TRY(hr_array_check(kernel, i, array));
    call->dtypes[i] = array->dtype;
    call->dense[i] = hr_array_is_dense(array);
    key_add(&call->key, (int64_t)array->dtype << 1 | call->dense[i]);
    for (int axis = 0; axis < array->rank; axis++)
        key_add(&call->key, array->shape[axis]);
    return HR_OK;
}

static hr_status call_begin(call *call, hr_kernel *kernel, const hr_array *arrays, int count, void *stream) {
    const hr_function *function = kernel->function;
    call->kernel = kernel;
    call->arrays = arrays;
    call->stream = stream;
    call->key.count = 0;
    if (count != kernel->argument_count)
        return hr_fail(HR_BAD_INPUT,
                       "kernel %s has %d arguments, parameters and results, and %d arrays are given",
                       function->name, kernel->argument_count, count);
    if (count > HR_EXECUTE_ARGUMENTS ||
        kernel->stride_count + count + function->extent_count + 1 > HR_EXECUTE_WORDS)
        return hr_fail(HR_BAD_INPUT,
                       "kernel %s has more arguments than hr_kernel_execute takes (%d): bind them",
                       function->name, HR_EXECUTE_ARGUMENTS);
    key_add(&call->key, (int64_t)kernel->threads << 1 | kernel->unfused);
    for (int e = 0; e < function->extent_count; e++)
        key_add(&call->key, kernel->given[e]);
    for (int i = 0; i < count; i++)
        HR_TRY(argument_note(call, i));
    call->key.hash = XXH3_64bits(call->key.words, (size_t)call->key.count * sizeof *call->key.words);
    return HR_OK;
}

/* ---- instances: the kernel for these dtypes, without these results ---- */

/* What was given by name goes over; an extent that nothing is left of has no place in the instance. */
static hr_status instance_give(const call *call, hr_kernel *made) {
    const hr_kernel *kernel = call->kernel;
    made->prepared_most = INT_MAX; /* the cache decides how many */
    for (int v = 0; v < made->function->variable_count; v++) {
        const char *name = made->function->variables[v].name;
        int variable = hr_function_variable(kernel->function, name);
        if (variable >= 0 && kernel->given_dtypes[variable] != HR_DTYPE_COUNT)
            HR_TRY(hr_kernel_bind_dtype(made, name, kernel->given_dtypes[variable]));
    }
    return HR_OK;
}

static hr_status instance_load(const call *call, const char *text, size_t length, hr_kernel **out) {
    const hr_kernel *kernel = call->kernel;
    hr_kernel *made;
    HR_TRY(hr_kernel_load(kernel->device, kernel->file, text, length, kernel->function->name, &made));
    hr_shape_cache_destroy(kernel->device, made->shapes);
    made->shapes = NULL;
    hr_status status = instance_give(call, made);
    if (status == HR_OK)
        *out = made;
    else
        hr_kernel_destroy(made);
    return status;
}

/* The dtypes of what is given decide. */
static hr_status arrays_bind(const call *call, hr_kernel *made) {
    for (int i = 0; i < call->kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(call->kernel, i);
        if (hr_tensor_is_scalar(tensor) || call->left_out[i]) continue;
        HR_TRY(hr_kernel_bind(made, tensor->name, &call->arrays[i]));
    }
    return HR_OK;
}

static bool leaves_out(const call *call) {
    for (int i = 0; i < call->kernel->argument_count; i++)
        if (call->left_out[i]) return true;
    return false;
}

/* In place of a kernel with all results, which knows the dtypes by now. */
static hr_status results_leave_out(const call *call, hr_kernel **kernel) {
    hr_text text = {0};
    hr_kernel *made = NULL;
    hr_status status = hr_function_text_without((*kernel)->function, call->left_out, &text);
    if (status == HR_OK) status = instance_load(call, hr_text_data(&text), text.length, &made);
    if (status != HR_OK)
        status = hr_fail_context(status, "results without memory (NULL) cannot all be left out of kernel %s",
                                 call->kernel->function->name);
    hr_text_clear(&text);
    HR_TRY(status);
    hr_kernel_destroy(*kernel);
    *kernel = made;
    return HR_OK;
}

static bool instance_is(const call *call, const hr_instance *instance) {
    size_t count = (size_t)call->kernel->argument_count;
    return memcmp(instance->dtypes, call->dtypes, count * sizeof *call->dtypes) == 0 &&
           memcmp(instance->left_out, call->left_out, count * sizeof *call->left_out) == 0;
}

static hr_status instance_make(const call *call, hr_instance **out) {
    const hr_origin *origin = &call->kernel->program->origin;
    size_t count = (size_t)call->kernel->argument_count;
    hr_instance *made = calloc(1, sizeof *made);
    if (!made) return hr_fail(HR_OUT_OF_MEMORY, "no memory for kernel %s", call->kernel->function->name);
    memcpy(made->dtypes, call->dtypes, count * sizeof *call->dtypes);
    memcpy(made->left_out, call->left_out, count * sizeof *call->left_out);
    hr_status status = instance_load(call, origin->text, origin->length, &made->kernel);
    if (status == HR_OK) status = arrays_bind(call, made->kernel);
    if (status == HR_OK && leaves_out(call)) status = results_leave_out(call, &made->kernel);
    if (status == HR_OK) {
        *out = made;
        return HR_OK;
    }
    hr_kernel_destroy(made->kernel);
    free(made);
    return status;
}

static hr_status instance_get(const call *call, hr_instance **out) {
    hr_shape_cache *cache = call->kernel->shapes;
    hr_instance *found = cache->instances;
    while (found && !instance_is(call, found))
        found = found->next;
    if (!found) {
        HR_TRY(instance_make(call, &found));
        found->next = cache->instances;
        cache->instances = found;
    }
    *out = found;
    return HR_OK;
}

/* ---- what serves these shapes ---- */

/* Extents as the arrays and the names given say; bound are the arrays of this call, for their shapes only. */
static hr_status extents_solve(const call *call, hr_kernel *made, int64_t *extents) {
    const hr_kernel *kernel = call->kernel;
    for (int e = 0; e < made->function->extent_count; e++) {
        made->given[e] = HR_EXTENT_UNKNOWN;
        for (int of = 0; of < kernel->function->extent_count; of++)
            if (strcmp(made->function->extents[e], kernel->function->extents[of]) == 0)
                made->given[e] = kernel->given[of];
    }
    HR_TRY(arrays_bind(call, made));
    for (int i = 0; i < made->argument_count; i++) /* the values are the call's own affair */
        if (hr_tensor_is_scalar(hr_kernel_tensor(made, i))) made->bindings[i].bound = true;
    return hr_kernel_resolve(made, extents);
}

static int magnitude(int64_t extent) {
    return extent > 0 ? 63 - __builtin_clzll((unsigned long long)extent) : -1;
}

/* The code may be right for other extents, which it says itself, but was chosen for these: within a factor of
 * two they are alike. */
static bool state_suits(const call *call, const hr_kernel *made, const hr_prepared *state,
                        const int64_t *extents) {
    if (state->threads != call->kernel->threads || state->unfused != call->kernel->unfused) return false;
    for (int e = 0; e < made->function->extent_count; e++)
        if (magnitude(state->extents[e]) != magnitude(extents[e])) return false;
    for (int i = 0; i < made->argument_count; i++)
        if (state->layouts[i] != made->bindings[i].layout) return false;
    return hr_emit_serves(state->plan, state->extents, extents);
}

static hr_prepared *state_find(const call *call, const hr_instance *instance, const int64_t *extents) {
    for (hr_prepared *state = instance->kernel->prepared; state; state = state->next)
        if (state->module && state_suits(call, instance->kernel, state, extents)) return state;
    return NULL;
}

/* `anew`: with code for just these extents. */
static hr_status shapes_make(const call *call, bool anew, hr_shapes **out) {
    hr_instance *instance;
    hr_prepared *state = NULL;
    HR_TRY(instance_get(call, &instance));
    hr_kernel *made = instance->kernel;
    int64_t extents[made->function->extent_count + 1];
    const hr_preparing preparing = {.tune = HR_TUNE_NONE,
                                    .unfused = call->kernel->unfused,
                                    .rows_alike = call->kernel->rows_alike,
                                    .threads = call->kernel->threads};
    HR_TRY(extents_solve(call, made, extents));
    if (!anew) state = state_find(call, instance, extents);
    if (state && hr_shapes_add(call->kernel->shapes, &call->key, instance, state, extents, out) == HR_OK)
        return HR_OK;
    HR_TRY(hr_kernel_ready_at(made, extents, &preparing, &state));
    return hr_shapes_add(call->kernel->shapes, &call->key, instance, state, extents, out);
}

static hr_status shapes_get(const call *call, hr_shapes **out) {
    hr_shape_cache *cache = call->kernel->shapes;
    hr_status status = HR_OK;
    *out = hr_shapes_find(cache, &call->key);
    if (*out) return HR_OK;
    pthread_mutex_lock(&cache->making);
    *out = hr_shapes_find(cache, &call->key); /* another may have made it while this one waited */
    if (!*out) status = shapes_make(call, false, out);
    pthread_mutex_unlock(&cache->making);
    return status;
}

/* ---- the execution ---- */

/* Without a value of its own it is the bound one, or the default. */
static hr_status scalar_take(call *call, const hr_kernel *made, int given, int i) {
    const hr_array *array = &call->arrays[given];
    double value =
        array->data ? hr_dtype_load(array->dtype, array->data, 0) : call->kernel->bindings[given].given;
    return hr_scalar_round(made, i, value, &call->scalars[i]);
}

/* The tables of the launch, which leave out what is left out. */
static hr_status tables_fill(call *call, const hr_kernel *made) {
    int64_t *stride = call->strides;
    for (int given = 0, i = 0; given < call->kernel->argument_count; given++) {
        if (call->left_out[given]) continue;
        const hr_array *array = &call->arrays[given];
        call->pointers[i] = NULL;
        call->scalars[i] = 0;
        call->placed[i] = (hr_placed){0};
        if (hr_tensor_is_scalar(hr_kernel_tensor(made, i)))
            HR_TRY(scalar_take(call, made, given, i));
        else {
            call->pointers[i] = array->data;
            if (call->dense[given])
                hr_strides_dense(array->rank, array->shape, stride);
            else
                memcpy(stride, array->strides, (size_t)array->rank * sizeof *stride);
            call->placed[i] = (hr_placed){array->data, array->rank ? array->shape : no_shape, stride};
            stride += array->rank;
        }
        i++;
    }
    return HR_OK;
}

/* Devices that only queue have one place to remember what a kernel's launches need. */
static hr_status queue(const call *call, const hr_shapes *shapes, const hr_execution *execution) {
    struct hr_device *device = call->kernel->device;
    hr_fault fault = {0};
    pthread_mutex_lock(&device->kernels_lock);
    hr_status status = device->ops->launch(device, shapes->state->module, execution, NULL);
    if (status == HR_OUT_OF_RANGE) device->ops->fault(device, shapes->state->module, &fault);
    pthread_mutex_unlock(&device->kernels_lock);
    if (fault.access <= 0) return status;
    return hr_fail_context(
        hr_launch_fault_fail(shapes->instance->kernel, shapes->state, shapes->extents, &fault),
        "in an earlier launch");
}

/* `fits`: the code is right for these extents. */
static hr_status launch(const call *call, const hr_shapes *shapes, const hr_execution *execution,
                        bool *fits) {
    const struct hr_device *device = call->kernel->device;
    hr_fault fault = {0};
    *fits = true;
    if (device->ops->synchronise) return queue(call, shapes, execution);
    hr_status status = device->ops->launch(call->kernel->device, shapes->state->module, execution, &fault);
    *fits = fault.access != HR_FAULT_EXTENTS;
    if (fault.access <= 0) return status;
    return hr_launch_fault_fail(shapes->instance->kernel, shapes->state, shapes->extents, &fault);
}

/* A profiler sees it as a range; the roof, which that tells, is read under the lock. */
static hr_status launch_shown(const call *call, const hr_shapes *shapes, const hr_execution *execution,
                              bool *fits) {
    if (!hr_range_heard()) return launch(call, shapes, execution, fits);
    pthread_mutex_lock(&call->kernel->shapes->making);
    hr_annotate_begin(shapes->instance->kernel, shapes->state, shapes->extents);
    pthread_mutex_unlock(&call->kernel->shapes->making);
    hr_status status = launch(call, shapes, execution, fits);
    hr_annotate_end();
    return status;
}

/* All but scratch, which belongs to whoever launches. */
static hr_status execution_make(call *call, const hr_shapes *shapes, hr_execution *out) {
    const hr_kernel *made = shapes->instance->kernel;
    const hr_prepared *state = shapes->state;
    HR_TRY(tables_fill(call, made));
    HR_TRY(hr_overlap_check_arrays(made, call->placed));
    *out = (hr_execution){.pointers = call->pointers,
                          .scalars = call->scalars,
                          .extents = shapes->extents,
                          .strides = call->strides,
                          .scratch_bytes = shapes->scratch_size,
                          .threads = shapes->threads,
                          .launches = shapes->launches ? shapes->launches : state->launches,
                          .launch_count = state->launch_count,
                          .aligned = &state->aligned,
                          .count = made->argument_count,
                          .extent_count = made->function->extent_count,
                          .stride_count = made->stride_count,
                          .stream = call->stream};
    return HR_OK;
}

static hr_status call_run(call *call, const hr_shapes *shapes, bool *fits) {
    hr_scratch_block *scratch;
    hr_execution execution;
    HR_TRY(execution_make(call, shapes, &execution));
    HR_TRY(hr_scratch_take(call->kernel->device, call->kernel->shapes, (size_t)shapes->scratch_size,
                           call->stream, &scratch));
    execution.scratch = scratch ? scratch->data : NULL;
    hr_status status = launch_shown(call, shapes, &execution, fits);
    hr_scratch_give(call->kernel->shapes, scratch);
    return status;
}

/* The code that served the shapes said that it is not made for them: nothing has happened yet. */
static hr_status call_run_anew(call *call) {
    hr_shape_cache *cache = call->kernel->shapes;
    hr_shapes *shapes;
    bool fits;
    pthread_mutex_lock(&cache->making);
    hr_status status = shapes_make(call, true, &shapes);
    pthread_mutex_unlock(&cache->making);
    HR_TRY(status);
    status = call_run(call, shapes, &fits);
    hr_shapes_release(cache, shapes);
    return status;
}

hr_status hr_kernel_execute(hr_kernel *kernel, const hr_array *arrays, int count, void *stream) {
    call call;
    hr_shapes *shapes;
    bool fits = true;
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    if (count) HR_TRY(hr_pointer_check(arrays, "arrays", __func__));
    HR_TRY(call_begin(&call, kernel, arrays, count, stream));
    HR_TRY(shapes_get(&call, &shapes));
    hr_status status = call_run(&call, shapes, &fits);
    hr_shapes_release(kernel->shapes, shapes);
    return fits ? status : call_run_anew(&call);
}

/* As call_run_anew(): with code that is made for the shapes. */
static hr_status shapes_fit(const call *call, hr_execution *execution, hr_shapes **shapes) {
    const hr_device_ops *ops = call->kernel->device->ops;
    hr_shape_cache *cache = call->kernel->shapes;
    if (!ops->fits || ops->fits((*shapes)->state->module, execution)) return HR_OK;
    hr_shapes *made;
    pthread_mutex_lock(&cache->making);
    hr_status status = shapes_make(call, true, &made);
    pthread_mutex_unlock(&cache->making);
    HR_TRY(status);
    hr_shapes_release(cache, *shapes);
    *shapes = made;
    return HR_OK;
}

hr_status hr_kernel_execute_by(hr_kernel *kernel, const hr_array *arrays, int count, hr_execution_fn use,
                               void *context, hr_shapes **out) {
    call call;
    hr_shapes *shapes;
    hr_execution execution;
    HR_TRY(call_begin(&call, kernel, arrays, count, NULL));
    HR_TRY(shapes_get(&call, &shapes));
    hr_status status = execution_make(&call, shapes, &execution);
    if (status == HR_OK) status = shapes_fit(&call, &execution, &shapes);
    if (status == HR_OK) status = execution_make(&call, shapes, &execution);
    if (status == HR_OK && use) status = use(context, shapes, &execution);
    if (status == HR_OK)
        *out = shapes;
    else
        hr_shapes_release(kernel->shapes, shapes);
    return status;
}

/* The instance is bound to the arrays, with the values of scalars, as if it were the caller's own kernel. */
static hr_status call_check(call *call, hr_shapes *shapes, int64_t points, hr_check *out) {
    hr_kernel *made = shapes->instance->kernel;
    hr_prepared there = *shapes->state;
    const hr_checking checking = {.prepared = &there, .points = points};
    int64_t extents[made->function->extent_count + 1];
    HR_TRY(extents_solve(call, made, extents));
    HR_TRY(tables_fill(call, made));
    HR_TRY(hr_overlap_check_arrays(made, call->placed));
    for (int i = 0; i < made->argument_count; i++)
        if (hr_tensor_is_scalar(hr_kernel_tensor(made, i)))
            made->bindings[i].given = made->bindings[i].scalar = call->scalars[i];
    there.extents = shapes->extents;
    there.launch_threads = shapes->threads;
    there.scratch_size = shapes->scratch_size;
    if (shapes->launches) there.launches = shapes->launches;
    made->current = NULL;
    return hr_check_run(made, &checking, out);
}

hr_status hr_kernel_execute_check(hr_kernel *kernel, const hr_array *arrays, int count, int64_t points,
                                  hr_check *out) {
    call call;
    hr_shapes *shapes;
    HR_TRY(call_begin(&call, kernel, arrays, count, NULL));
    HR_TRY(shapes_get(&call, &shapes));
    pthread_mutex_lock(&kernel->shapes->making); /* of what the instance is bound to */
    hr_status status = call_check(&call, shapes, points, out);
    pthread_mutex_unlock(&kernel->shapes->making);
    hr_shapes_release(kernel->shapes, shapes);
    return status;
}

hr_status hr_kernel_execute_work(hr_kernel *kernel, const hr_array *arrays, int count, const hr_roof *roof,
                                 hr_work *work, hr_floor *floor) {
    call call;
    hr_shapes *shapes;
    HR_TRY(call_begin(&call, kernel, arrays, count, NULL));
    HR_TRY(shapes_get(&call, &shapes));
    const hr_function *function = shapes->instance->kernel->function;
    hr_status status = hr_work_count(function, shapes->extents, work);
    if (status == HR_OK && roof) hr_floor_of(function, work, roof, floor);
    hr_shapes_release(kernel->shapes, shapes);
    return status;
}
