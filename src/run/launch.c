/* The launch itself: tables for the emitted code, scratch, and a sentence for a subscript that left its axis.
 *
 * In: bindings and a prepared state. Out: one execution.
 */
#include "run/kernel.h"

#include "base/dtype.h"
#include "ir/visit.h"

#include <stdlib.h>
#include <string.h>

static hr_status scratch_grow(hr_kernel *kernel, size_t size) {
    if (size <= kernel->scratch_size) return HR_OK;
    void *scratch = NULL;
    hr_launch_trim(kernel, NULL);
    hr_status status = kernel->device->ops->allocate(kernel->device, size, &scratch);
    if (status != HR_OK)
        return hr_fail_context(status, "kernel %s needs %.0f MB for locals that exist in memory",
                               kernel->function->name, (double)size / (1 << 20));
    kernel->scratch = scratch;
    kernel->scratch_size = size;
    return HR_OK;
}

void hr_launch_trim(hr_kernel *kernel, const hr_prepared *prepared) {
    if (!kernel->scratch || (prepared && (size_t)prepared->scratch_size >= kernel->scratch_size)) return;
    kernel->device->ops->release(kernel->device, kernel->scratch, kernel->scratch_size);
    kernel->scratch = NULL;
    kernel->scratch_size = 0;
    kernel->current = NULL;
}

/* From the first to past the last byte; 0 where the data does not begin with the first. */
static int64_t bytes_spanned(const hr_tensor *tensor, const hr_binding *binding) {
    int64_t span = 1;
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (binding->shape[axis] == 0) return 0;
        int64_t stride = binding->strides[axis];
        if (stride < 0 && binding->shape[axis] > 1) return 0;
        span += (binding->shape[axis] - 1) * stride;
    }
    return span * (int64_t)hr_dtype_size(tensor->dtype);
}

hr_status hr_launch_refresh(hr_kernel *kernel, const hr_prepared *prepared) {
    int64_t *stride = kernel->strides;
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        const hr_binding *binding = &kernel->bindings[i];
        bool scalar = hr_tensor_is_scalar(tensor);
        kernel->pointers[i] = scalar ? NULL : binding->data;
        kernel->scalars[i] = scalar ? binding->scalar : 0;
        kernel->bytes[i] = scalar ? 0 : bytes_spanned(tensor, binding);
        for (int axis = 0; axis < tensor->rank; axis++)
            *stride++ = binding->strides[axis];
    }
    HR_TRY(hr_members_refresh(kernel));
    HR_TRY(hr_lists_refresh(kernel, prepared->piece));
    hr_lists_cover(kernel, prepared->launches, prepared->launch_count);
    return scratch_grow(kernel, (size_t)prepared->scratch_size);
}

void hr_launch_make(const hr_kernel *kernel, const hr_prepared *prepared, hr_execution *out) {
    *out = (hr_execution){
        .pointers = kernel->pointers,
        .scalars = kernel->scalars,
        .extents = prepared->extents,
        .strides = kernel->strides,
        .scratch = kernel->scratch,
        .scratch_bytes = (int64_t)kernel->scratch_size,
        .threads = prepared->launch_threads,
        .launches = prepared->launches,
        .launch_count = prepared->launch_count,
        .aligned = &prepared->aligned,
        .count = kernel->argument_count,
        .bytes = hr_kernel_has_lists(kernel) || hr_kernel_has_members(kernel) ? NULL : kernel->bytes,
        .extent_count = kernel->function->extent_count,
        .stride_count = kernel->stride_count};
}

/* ---- a subscript that left its axis ---- */

static bool is_sum(const hr_expr *expr) {
    return expr->op == HR_OP_ADD || expr->op == HR_OP_SUB || expr->op == HR_OP_MUL || expr->op == HR_OP_NEG;
}

static bool is_known(const hr_expr *expr) {
    return expr->op == HR_OP_INDEX || expr->op == HR_OP_EXTENT || expr->op == HR_OP_NUMBER;
}

static hr_visit exceeds_sums(const hr_expr *expr, const void *context) {
    (void)context;
    return hr_visit_until(!is_known(expr) && !is_sum(expr));
}

/* What is no plain sum of indices is compared with its axis as the kernel runs. */
static bool is_compared(const hr_expr *expr) {
    return hr_expr_find(expr, exceeds_sums, NULL);
}

static hr_visit is_access(const hr_expr *expr, const void *access) {
    const hr_access *of = access;
    return hr_visit_until(expr->op == HR_OP_ELEMENT && expr->tensor == of->tensor &&
                          is_compared(expr->args[of->axis]));
}

/* The first subscript of this axis in the text that is compared; NULL where there is none. */
static const hr_expr *subscript_find(const hr_expr *expr, const hr_access *access) {
    const hr_expr *element = hr_expr_find(expr, is_access, access);
    return element ? element->args[access->axis] : NULL;
}

/* Where the text says it, for an access whose place was lost on the way through the plan, where tensors may
 * have other numbers. */
static hr_place place_find(const hr_function *function, const char *name, const hr_access *in_plan) {
    const hr_expr *found = NULL;
    hr_access access = *in_plan;
    for (int i = 0; i < function->tensor_count; i++)
        if (strcmp(function->tensors[i].name, name) == 0) access.tensor = i;
    if (access.tensor >= function->tensor_count || access.axis >= function->tensors[access.tensor].rank)
        return access.place;
    for (int s = 0; s < function->statement_count && !found; s++) {
        const hr_statement *statement = &function->statements[s];
        if (statement->tensor == access.tensor && is_compared(statement->subscripts[access.axis]))
            found = statement->subscripts[access.axis];
        for (int k = 0; k < statement->subscript_count && !found; k++)
            found = subscript_find(statement->subscripts[k], &access);
        if (!found) found = subscript_find(statement->value, &access);
    }
    return found ? found->place : access.place;
}

hr_status hr_launch_fault_fail(const hr_kernel *kernel, const hr_prepared *prepared, const int64_t *extents,
                               const hr_fault *fault) {
    hr_access access;
    size_t length = 0;
    int64_t extent = 0;
    const hr_function *normal = prepared->plan->normal;
    if (!hr_plan_access(prepared->plan, fault->access, &access))
        return hr_fail(HR_OUT_OF_RANGE, "a subscript of kernel %s had the value %lld and left its axis",
                       kernel->function->name, (long long)fault->value);
    const hr_tensor *tensor = &normal->tensors[access.tensor];
    if (!access.place.line) access.place = place_find(kernel->function, tensor->name, &access);
    hr_status status = hr_extent_value(normal, tensor->shape[access.axis], extents, &extent);
    if (status != HR_OK) return status;
    const char *line = hr_program_line(kernel->program, access.place.line, &length);
    int number = access.place.line;
    const hr_source *source = hr_origin_source(&kernel->program->origin, number);
    if (source) number -= source->first_line - 1;
    int shown = line && length < 200 ? (int)length : 0;
    return hr_fail(HR_OUT_OF_RANGE,
                   "%s:%d:%d: a subscript of `%s` had the value %lld; its axis %d has %lld elements (0 to "
                   "%lld). Nothing was read or written there%s%.*s",
                   source ? source->path : kernel->file, number, access.place.column, tensor->name,
                   (long long)fault->value, hr_plan_source_axis(prepared->plan, access.tensor, access.axis),
                   (long long)extent, (long long)extent - 1, shown ? "\n" : "", shown, shown ? line : "");
}

hr_status hr_launch_once(hr_kernel *kernel, const hr_prepared *prepared) {
    hr_execution execution;
    hr_fault fault = {0};
    hr_launch_make(kernel, prepared, &execution);
    hr_annotate_begin(kernel, prepared, prepared->extents);
    hr_status status = kernel->device->ops->launch(kernel->device, prepared->module, &execution, &fault);
    hr_annotate_end();
    return fault.access > 0 ? hr_launch_fault_fail(kernel, prepared, prepared->extents, &fault) : status;
}

/* What launches that nobody waited for have left behind. */
static hr_status fault_collect(const hr_kernel *kernel, const hr_prepared *prepared) {
    hr_fault fault = {0};
    if (prepared->module) kernel->device->ops->fault(kernel->device, prepared->module, &fault);
    return fault.access ? hr_launch_fault_fail(kernel, prepared, prepared->extents, &fault) : HR_OK;
}

static hr_status launch_queue(hr_kernel *kernel, const hr_prepared *prepared) {
    hr_execution execution;
    hr_launch_make(kernel, prepared, &execution);
    hr_annotate_begin(kernel, prepared, prepared->extents);
    hr_status status = kernel->device->ops->launch(kernel->device, prepared->module, &execution, NULL);
    hr_annotate_end();
    if (status != HR_OUT_OF_RANGE) return status;
    return hr_fail_context(fault_collect(kernel, prepared), "in an earlier launch");
}

hr_status hr_kernel_launch(hr_kernel *kernel) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    if (!kernel->current) {
        hr_preparing preparing = {
            .tune = HR_TUNE_NONE, .unfused = kernel->unfused, .threads = kernel->threads};
        hr_prepared *prepared;
        HR_TRY(hr_kernel_ready(kernel, &preparing, &prepared));
        kernel->current = prepared;
    }
    return kernel->device->ops->synchronise ? launch_queue(kernel, kernel->current)
                                            : hr_launch_once(kernel, kernel->current);
}

hr_status hr_device_synchronise(hr_device *device) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    if (!device->ops->synchronise) return HR_OK;
    HR_TRY(device->ops->synchronise(device));
    hr_status status = HR_OK;
    pthread_mutex_lock(&device->kernels_lock);
    for (hr_kernel *kernel = device->kernels; kernel && status == HR_OK; kernel = kernel->next_on_device)
        for (hr_prepared *state = kernel->prepared; state && status == HR_OK; state = state->next)
            status = fault_collect(kernel, state);
    pthread_mutex_unlock(&device->kernels_lock);
    return status;
}
