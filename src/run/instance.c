/* A kernel with dtype variables becomes one of their dtypes.
 *
 * In: dtypes given by name, arrays bound. Out: kernel->function, in which every dtype is known; what was
 * prepared and filled for other dtypes is gone. Nothing below reads a variable.
 */
#include "run/kernel.h"

#include "base/dtype.h"
#include "ir/function_text.h"

#include <string.h>

const hr_function *hr_kernel_loaded(const hr_kernel *kernel) {
    const hr_program *program = kernel->instance ? kernel->instance : kernel->program;
    return &kernel->program->functions[kernel->function - program->functions];
}

static const char *dtype_words(hr_dtype dtype) {
    return (unsigned)dtype < HR_DTYPE_COUNT ? hr_dtype_name(dtype) : "no dtype";
}

static int variable_of(const hr_kernel *kernel, int i) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    return tensor->variable ? (int)(tensor->variable - kernel->function->variables) : -1;
}

/* ---- another instance ---- */

/* A scalar of a variable's dtype is rounded anew; HR_BAD_INPUT where it is no number of that dtype. */
static hr_status scalars_round(hr_kernel *kernel, const hr_function *to) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = &to->tensors[i];
        const hr_binding *binding = &kernel->bindings[i];
        if (!hr_tensor_is_scalar(tensor) || !tensor->variable || hr_dtype_is_float(tensor->dtype)) continue;
        if (hr_dtype_round(tensor->dtype, binding->given) != binding->given)
            return hr_fail(HR_BAD_INPUT, "the scalar `%s` of kernel %s is %.15g, which no %s is",
                           tensor->name, to->name, binding->given, hr_dtype_name(tensor->dtype));
    }
    for (int i = 0; i < kernel->argument_count; i++)
        if (hr_tensor_is_scalar(&to->tensors[i]))
            kernel->scalars[i] = kernel->bindings[i].scalar =
                hr_dtype_round(to->tensors[i].dtype, kernel->bindings[i].given);
    return HR_OK;
}

static hr_status become(hr_kernel *kernel, int variable, hr_dtype dtype) {
    hr_dtype dtypes[HR_DTYPE_VARIABLE_MAX];
    const hr_function *old = kernel->function, *made;
    hr_program *program;
    if (old->variables[variable].dtype == dtype) return HR_OK;
    for (int v = 0; v < old->variable_count; v++)
        dtypes[v] = v == variable ? dtype : old->variables[v].dtype;
    HR_TRY(hr_function_instantiate(hr_kernel_loaded(kernel), dtypes, &program, &made));
    hr_status status = scalars_round(kernel, made);
    if (status != HR_OK) {
        hr_program_destroy(program);
        return status;
    }
    while (kernel->prepared)
        hr_prepared_drop(kernel, kernel->prepared);
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->bindings[i].owned && kernel->bindings[i].dtype != made->tensors[i].dtype)
            hr_binding_clear(kernel, i);
    hr_program_destroy(kernel->instance);
    kernel->instance = program;
    kernel->function = made;
    kernel->current = NULL;
    return HR_OK;
}

/* ---- by arrays ---- */

hr_status hr_binding_dtype_check(const hr_kernel *kernel, int i, int member, hr_dtype dtype) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    int variable = variable_of(kernel, i);
    if (dtype == tensor->dtype) return HR_OK;
    if (variable >= 0 && kernel->given_dtypes[variable] == HR_DTYPE_COUNT)
        return hr_dtype_variable_check(kernel->function, variable, dtype);
    hr_text type = {0}, array = {0};
    hr_tensor_append_type(kernel->function, tensor, &type);
    hr_text_format(&array, member < 0 ? "the array given" : "array %d of the list", member);
    if (variable >= 0)
        hr_text_format(&type, " with %s = %s as it was given", tensor->variable->name,
                       hr_dtype_name(tensor->dtype));
    hr_status status =
        hr_fail(HR_BAD_INPUT, "`%s` of kernel %s is %s; %s is %s: convert it first", tensor->name,
                kernel->function->name, hr_text_data(&type), hr_text_data(&array), dtype_words(dtype));
    hr_text_clear(&type);
    hr_text_clear(&array);
    return status;
}

hr_status hr_kernel_follow(hr_kernel *kernel, int i, hr_dtype dtype) {
    int variable = variable_of(kernel, i);
    return variable < 0 ? HR_OK : become(kernel, variable, dtype);
}

hr_status hr_kernel_dtypes_agree(const hr_kernel *kernel) {
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_binding *binding = &kernel->bindings[i];
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        if (!binding->bound || hr_tensor_is_scalar(tensor) || binding->dtype == tensor->dtype) continue;
        return hr_fail(
            HR_BAD_INPUT,
            "`%s` of kernel %s is bound to an array of %s, and %s, its dtype, is %s by what was given or "
            "bound since: bind arrays of one dtype",
            tensor->name, kernel->function->name, hr_dtype_name(binding->dtype), tensor->variable->name,
            hr_dtype_name(tensor->dtype));
    }
    return HR_OK;
}

/* ---- by name ---- */

hr_status hr_kernel_bind_dtype(hr_kernel *kernel, const char *name, hr_dtype dtype) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    hr_text names = {0};
    const hr_function *function = kernel->function;
    int variable = name ? hr_function_variable(function, name) : -1;
    if (variable >= 0) {
        HR_TRY(hr_dtype_variable_check(function, variable, dtype));
        HR_TRY(become(kernel, variable, dtype));
        kernel->given_dtypes[variable] = dtype;
        return HR_OK;
    }
    for (int v = 0; v < function->variable_count; v++)
        hr_text_format(&names, "%s%s", v ? ", " : "", function->variables[v].name);
    hr_status status = hr_fail(HR_BAD_INPUT, "kernel %s has no dtype variable `%.64s`; it has %s",
                               function->name, name ? name : "(null)", names.length ? names.data : "none");
    hr_text_clear(&names);
    return status;
}

int hr_kernel_dtype_count(const hr_kernel *kernel) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return 0;
    return kernel->function->variable_count;
}

const char *hr_kernel_dtype_name(const hr_kernel *kernel, int i) {
    if (hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__) != HR_OK) return NULL;
    return i >= 0 && i < hr_kernel_dtype_count(kernel) ? hr_kernel_loaded(kernel)->variables[i].name : NULL;
}

hr_status hr_kernel_dtype(const hr_kernel *kernel, int i, const char **name, hr_dtype *dtype) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    if (i < 0 || i >= kernel->function->variable_count)
        return hr_fail(HR_BAD_INPUT, "kernel %s has %d dtype variables; there is no number %d",
                       kernel->function->name, kernel->function->variable_count, i);
    if (name) *name = hr_kernel_dtype_name(kernel, i);
    if (dtype) *dtype = kernel->function->variables[i].dtype;
    return HR_OK;
}
