/* Arguments meet arrays: what is bound, which extents follow from it, and clear words where it does not fit.
 *
 * In: arrays, scalars, extents by name. Out: bindings, and the numbers of the extents.
 */
#include "run/kernel.h"

#include "base/dtype.h"
#include "ir/function_text.h"

#include <stdlib.h>
#include <string.h>

int64_t hr_shape_elements(int rank, const int64_t *shape) {
    int64_t count = 1;
    for (int axis = 0; axis < rank; axis++)
        count *= shape[axis];
    return count;
}

/* ---- words ---- */

/* "y of kernel layernorm is bf16[M, N], " and the rest of the sentence. */
static hr_status fail_bind(const hr_kernel *kernel, const hr_tensor *tensor, const char *rest) {
    hr_text type = {0};
    hr_tensor_append_type(kernel->function, tensor, &type);
    hr_status status = hr_fail(HR_BAD_INPUT, "`%s` of kernel %s is %s%s", tensor->name,
                               kernel->function->name, hr_text_data(&type), rest);
    hr_text_clear(&type);
    return status;
}

/* ---- one argument ---- */

hr_status hr_argument_find(const hr_kernel *kernel, const char *name, int *out) {
    hr_text names = {0};
    for (int i = 0; name && i < kernel->argument_count; i++)
        if (strcmp(hr_kernel_tensor(kernel, i)->name, name) == 0) {
            *out = i;
            return HR_OK;
        }
    for (int i = 0; i < kernel->argument_count; i++)
        hr_text_format(&names, "%s%s", i ? ", " : "", hr_kernel_tensor(kernel, i)->name);
    hr_status status = hr_fail(HR_BAD_INPUT, "kernel %s has no argument `%.64s`; it has %s",
                               kernel->function->name, name ? name : "(null)", hr_text_data(&names));
    hr_text_clear(&names);
    return status;
}

void hr_strides_dense(int rank, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        strides[axis] = stride;
        stride *= shape[axis] > 1 ? shape[axis] : 1;
    }
}

/* Axes of one element or none have no stride worth the name. */
static bool strides_are_dense(int rank, const int64_t *shape, const int64_t *strides) {
    int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (shape[axis] > 1 && strides[axis] != stride) return false;
        stride *= shape[axis] > 1 ? shape[axis] : 1;
    }
    return true;
}

bool hr_array_is_dense(const hr_array *array) {
    return !array->strides || hr_shape_elements(array->rank, array->shape) == 0 ||
           strides_are_dense(array->rank, array->shape, array->strides);
}

void hr_binding_span(const hr_tensor *tensor, const hr_binding *binding, int64_t *low, int64_t *high) {
    int64_t size = (int64_t)hr_dtype_size(tensor->dtype);
    *low = 0;
    *high = size;
    for (int axis = 0; axis < tensor->rank; axis++) {
        int64_t reach = (binding->shape[axis] - 1) * binding->strides[axis] * size;
        *(reach < 0 ? low : high) += reach;
    }
}

char *hr_binding_element(const hr_tensor *tensor, const hr_binding *binding, int64_t offset) {
    const hr_members *members = binding->members;
    char *data = binding->data;
    if (members) {
        data = members->data[offset / members->elements];
        offset %= members->elements;
    }
    return data + offset * (int64_t)hr_dtype_size(tensor->dtype);
}

void hr_binding_clear(hr_kernel *kernel, int i) {
    hr_binding *binding = &kernel->bindings[i];
    if (binding->owned) kernel->device->ops->release(kernel->device, binding->data, binding->owned_size);
    hr_list_destroy(binding->list);
    hr_members_destroy(kernel->device, binding->members);
    free(binding->shape);
    *binding = (hr_binding){.given = binding->given, .scalar = binding->scalar};
    kernel->current = NULL;
}

hr_status hr_binding_set(hr_kernel *kernel, int i, void *data, const int64_t *shape, const int64_t *strides) {
    int rank = hr_kernel_tensor(kernel, i)->rank;
    int64_t *copy = calloc((size_t)(2 * rank + 1), sizeof *copy);
    if (!copy) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a binding");
    for (int axis = 0; axis < rank; axis++)
        copy[axis] = shape[axis];
    bool dense = hr_array_is_dense(&(hr_array){.rank = rank, .shape = shape, .strides = strides});
    if (dense)
        hr_strides_dense(rank, copy, copy + rank);
    else
        memcpy(copy + rank, strides, (size_t)rank * sizeof *strides);
    hr_binding_clear(kernel, i);
    hr_binding *binding = &kernel->bindings[i];
    binding->bound = true;
    binding->data = data;
    binding->dtype = hr_kernel_tensor(kernel, i)->dtype;
    binding->shape = copy;
    binding->strides = copy + rank;
    binding->layout = dense ? HR_LAYOUT_DENSE : HR_LAYOUT_STRIDED;
    return HR_OK;
}

/* Every byte offset stays far from overflow. */
static bool strides_fit(const hr_array *array) {
    int64_t span = 0, step;
    for (int axis = 0; axis < array->rank; axis++) {
        int64_t stride = array->strides[axis];
        if (stride < -(INT64_MAX / 64) || stride > INT64_MAX / 64 ||
            __builtin_mul_overflow(stride < 0 ? -stride : stride, array->shape[axis], &step) ||
            __builtin_add_overflow(span, step, &span) || span > INT64_MAX / 64)
            return false;
    }
    return true;
}

/* The shape has numbers that mean memory, and they fit the declaration as far as it stands on its own. */
static hr_status shape_check(const hr_kernel *kernel, int i, const hr_array *array) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    char rest[160];
    int64_t elements = 1;
    for (int axis = 0; axis < array->rank; axis++) {
        int64_t size = array->shape[axis];
        if (size < 0) {
            snprintf(rest, sizeof rest, "; the array given has %lld elements on axis %d", (long long)size,
                     axis);
            return fail_bind(kernel, tensor, rest);
        }
        if (__builtin_mul_overflow(elements, size, &elements) || elements > INT64_MAX / 16) {
            snprintf(rest, sizeof rest, "; the array given has more elements than memory can hold");
            return fail_bind(kernel, tensor, rest);
        }
    }
    if (elements && array->strides && !strides_fit(array)) {
        snprintf(rest, sizeof rest, "; the strides given reach further than memory does");
        return fail_bind(kernel, tensor, rest);
    }
    if (elements && !array->data) return fail_bind(kernel, tensor, "; the array given has no data (NULL)");
    return HR_OK;
}

hr_status hr_array_check(const hr_kernel *kernel, int i, const hr_array *array) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    char rest[160];
    if (!array) return fail_bind(kernel, tensor, "; no array is given (NULL)");
    if (array->size < sizeof *array)
        return hr_fail(HR_BAD_INPUT,
                       "the array for `%s` does not say its size: begin it with "
                       "{.size = sizeof(hr_array)}",
                       tensor->name);
    if (hr_tensor_is_scalar(tensor))
        return fail_bind(kernel, tensor, ", a scalar: give it with hr_kernel_bind_scalar");
    HR_TRY(hr_binding_dtype_check(kernel, i, -1, array->dtype));
    if (array->rank != tensor->rank) {
        snprintf(rest, sizeof rest, ", %d %s; the array given has %d", tensor->rank,
                 tensor->rank == 1 ? "axis" : "axes", array->rank);
        return fail_bind(kernel, tensor, rest);
    }
    if (array->rank && !array->shape) return fail_bind(kernel, tensor, "; the array given has no shape");
    return shape_check(kernel, i, array);
}

/* What the array alone must agree with: literal extents and its own repetition of a name. */
static hr_status array_check_alone(const hr_kernel *kernel, int i, const hr_array *array) {
    int64_t extents[kernel->function->extent_count + 1];
    for (int e = 0; e < kernel->function->extent_count; e++)
        extents[e] = kernel->given[e];
    for (int pass = 0; pass < 2; pass++)
        for (int axis = 0; axis < array->rank; axis++)
            HR_TRY(hr_extent_solve(kernel->function, i, axis, array->shape[axis], extents));
    return HR_OK;
}

static bool same_numbers(int count, const int64_t *left, const int64_t *right) {
    return count == 0 || memcmp(left, right, (size_t)count * sizeof *left) == 0;
}

hr_status hr_kernel_bind(hr_kernel *kernel, const char *name, const hr_array *array) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    int i;
    HR_TRY(hr_argument_find(kernel, name, &i));
    HR_TRY(hr_array_check(kernel, i, array));
    const hr_binding *old = &kernel->bindings[i];
    if (old->bound && !old->owned && !old->list && !old->members &&
        hr_kernel_tensor(kernel, i)->dtype == array->dtype && old->dtype == array->dtype &&
        same_numbers(array->rank, old->shape, array->shape) &&
        (array->strides ? same_numbers(array->rank, old->strides, array->strides)
                        : old->layout == HR_LAYOUT_DENSE)) {
        if (old->data != array->data) kernel->current = NULL;
        kernel->bindings[i].data = array->data;
        return HR_OK;
    }
    HR_TRY(array_check_alone(kernel, i, array));
    HR_TRY(hr_kernel_follow(kernel, i, array->dtype));
    return hr_binding_set(kernel, i, array->data, array->shape, array->strides);
}

hr_status hr_scalar_round(const hr_kernel *kernel, int i, double value, double *out) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    double kept = hr_dtype_round(tensor->dtype, value);
    if (!hr_dtype_is_float(tensor->dtype) && kept != value) {
        char number[32], rest[80];
        snprintf(number, sizeof number, "%.15g", value);
        if (strtod(number, NULL) != value) snprintf(number, sizeof number, "%.17g", value);
        snprintf(rest, sizeof rest, ", a scalar, and %s is no such number", number);
        return fail_bind(kernel, tensor, rest);
    }
    *out = kept;
    return HR_OK;
}

hr_status hr_kernel_bind_scalar(hr_kernel *kernel, const char *name, double value) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    int i;
    double kept;
    HR_TRY(hr_argument_find(kernel, name, &i));
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    if (!hr_tensor_is_scalar(tensor))
        return fail_bind(kernel, tensor, ", a tensor: give it an array with hr_kernel_bind");
    HR_TRY(hr_scalar_round(kernel, i, value, &kept));
    kernel->bindings[i].given = value;
    kernel->bindings[i].scalar = kept;
    kernel->bindings[i].bound = true;
    kernel->scalars[i] = kernel->bindings[i].scalar;
    return HR_OK;
}

hr_status hr_kernel_bind_extent(hr_kernel *kernel, const char *name, int64_t value) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    const hr_function *function = kernel->function;
    hr_text names = {0};
    for (int e = 0; name && e < function->extent_count; e++) {
        if (strcmp(function->extents[e], name) != 0) continue;
        if (value < 0)
            return hr_fail(HR_BAD_INPUT, "extent %s cannot be %lld: it is a whole number from 0", name,
                           (long long)value);
        if (kernel->given[e] != value) kernel->current = NULL;
        kernel->given[e] = value;
        return HR_OK;
    }
    for (int e = 0; e < function->extent_count; e++)
        hr_text_format(&names, "%s%s", e ? ", " : "", function->extents[e]);
    hr_status status = hr_fail(HR_BAD_INPUT, "kernel %s has no extent `%.64s`; it has %s", function->name,
                               name ? name : "(null)", names.length ? names.data : "none");
    hr_text_clear(&names);
    return status;
}

/* ---- all arguments together ---- */

static bool all_known(const hr_function *function, const int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++)
        if (extents[e] == HR_EXTENT_UNKNOWN) return false;
    return true;
}

/* One pass over the arrays that are the caller's (or those that are the kernel's own). */
static hr_status solve_pass(const hr_kernel *kernel, bool owned, int64_t *extents) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_binding *binding = &kernel->bindings[i];
        if (!binding->bound || binding->owned != owned || hr_tensor_is_scalar(hr_kernel_tensor(kernel, i)))
            continue;
        for (int axis = 0; axis < hr_kernel_tensor(kernel, i)->rank; axis++)
            HR_TRY(hr_extent_solve(kernel->function, i, axis, binding->shape[axis], extents));
    }
    return HR_OK;
}

/* An axis can be solved once the other extents in it are known: until nothing new is learnt. */
static hr_status solve_arrays(const hr_kernel *kernel, bool owned, int64_t *extents) {
    int64_t before[kernel->function->extent_count + 1];
    size_t size = (size_t)kernel->function->extent_count * sizeof *before;
    do {
        memcpy(before, extents, size);
        HR_TRY(solve_pass(kernel, owned, extents));
    } while (memcmp(before, extents, size) != 0);
    return HR_OK;
}

hr_status hr_kernel_solve(const hr_kernel *kernel, int64_t *extents) {
    const hr_function *function = kernel->function;
    for (int e = 0; e < function->extent_count; e++)
        extents[e] = kernel->given[e];
    HR_TRY(solve_arrays(kernel, false, extents));
    for (int e = 0; e < function->extent_count; e++)
        if (extents[e] == HR_EXTENT_UNKNOWN) extents[e] = kernel->defaults[e];
    hr_status status = solve_arrays(kernel, true, extents);
    if (status != HR_OK)
        return hr_fail_context(status, "an array filled earlier no longer fits (call hr_kernel_fill again)");
    return HR_OK;
}

static hr_status extents_known(const hr_kernel *kernel, const int64_t *extents) {
    const hr_function *function = kernel->function;
    hr_text names = {0};
    if (all_known(function, extents)) return HR_OK;
    for (int e = 0; e < function->extent_count; e++)
        if (extents[e] == HR_EXTENT_UNKNOWN)
            hr_text_format(&names, "%s%s", names.length ? ", " : "", function->extents[e]);
    hr_status status =
        hr_fail(HR_BAD_INPUT,
                "the bound arrays do not say what %s of kernel %s is: bind an array that has it "
                "as an axis, or give it with hr_kernel_bind_extent",
                hr_text_data(&names), function->name);
    hr_text_clear(&names);
    return status;
}

/* The scalars (or the tensors) that have no value yet, as a list. */
static void missing_list(const hr_kernel *kernel, bool scalars, hr_text *out) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        if (hr_tensor_is_scalar(tensor) != scalars || kernel->bindings[i].bound || tensor->has_default)
            continue;
        hr_text_format(out, "%s%s", out->length ? ", " : "", tensor->name);
    }
}

static hr_status missing_fail(const hr_kernel *kernel, bool scalars, const char *sentence) {
    hr_text names = {0};
    hr_status status = HR_OK;
    missing_list(kernel, scalars, &names);
    if (names.length)
        status = hr_fail(HR_BAD_INPUT, "kernel %s has %s: %s; %s", kernel->function->name,
                         scalars ? "scalars with neither value nor default" : "tensors that are not bound",
                         names.data, sentence);
    hr_text_clear(&names);
    return status;
}

hr_status hr_kernel_scalars_known(const hr_kernel *kernel) {
    return missing_fail(kernel, true,
                        "give each a value (hr_kernel_bind_scalar, or NAME=VALUE on the command line)");
}

static hr_status tensors_bound(const hr_kernel *kernel) {
    return missing_fail(kernel, false, "bind each with hr_kernel_bind, or all with hr_kernel_fill");
}

hr_status hr_kernel_resolve(const hr_kernel *kernel, int64_t *extents) {
    HR_TRY(hr_kernel_solve(kernel, extents));
    HR_TRY(hr_kernel_scalars_known(kernel));
    HR_TRY(hr_kernel_dtypes_agree(kernel));
    HR_TRY(tensors_bound(kernel));
    HR_TRY(hr_lists_agree(kernel));
    HR_TRY(extents_known(kernel, extents));
    HR_TRY(solve_pass(kernel, false, extents)); /* now that all is known, every axis is compared */
    HR_TRY(solve_pass(kernel, true, extents));
    return hr_extent_check(kernel->function, extents);
}

/* ---- what is bound, for the caller ---- */

void hr_kernel_array_of(const hr_kernel *kernel, int i, hr_array *out) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    const hr_binding *binding = &kernel->bindings[i];
    *out = (hr_array){.size = sizeof *out,
                      .data = binding->data,
                      .dtype = binding->dtype,
                      .rank = tensor->rank,
                      .shape = binding->shape,
                      .strides = binding->layout == HR_LAYOUT_DENSE ? NULL : binding->strides};
}

hr_status hr_kernel_array(const hr_kernel *kernel, const char *name, hr_array *out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    int i;
    HR_TRY(hr_argument_find(kernel, name, &i));
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    if (hr_tensor_is_scalar(tensor)) return fail_bind(kernel, tensor, ", a scalar, and has no array");
    if (!kernel->bindings[i].bound) return fail_bind(kernel, tensor, " and not bound to an array yet");
    if (kernel->bindings[i].list || kernel->bindings[i].members)
        return fail_bind(kernel, tensor, " and bound to a list of arrays");
    hr_kernel_array_of(kernel, i, out);
    return HR_OK;
}

int hr_kernel_extent_count(const hr_kernel *kernel) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return 0;
    return kernel->function->extent_count;
}

const char *hr_kernel_extent_name(const hr_kernel *kernel, int i) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return NULL;
    return i >= 0 && i < kernel->function->extent_count ? hr_kernel_loaded(kernel)->extents[i] : NULL;
}

hr_status hr_kernel_extent(const hr_kernel *kernel, int i, const char **name, int64_t *value) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    const hr_function *function = kernel->function;
    int64_t extents[function->extent_count + 1];
    if (i < 0 || i >= function->extent_count)
        return hr_fail(HR_BAD_INPUT, "kernel %s has %d extents; there is no number %d", function->name,
                       function->extent_count, i);
    if (name) *name = hr_kernel_extent_name(kernel, i);
    HR_TRY(hr_kernel_solve(kernel, extents));
    if (extents[i] == HR_EXTENT_UNKNOWN)
        return hr_fail(HR_BAD_INPUT, "extent %s of kernel %s is not known yet", function->extents[i],
                       function->name);
    if (value) *value = extents[i];
    return HR_OK;
}
