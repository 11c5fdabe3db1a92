/* Whether arrays share memory. A written array must not share an element with any other, nor two of its own
 * places one element; interleaved views (the columns of q, k and v in one array) share none and are welcome.
 *
 * In: the arrays. Out: good, or a sentence.
 */
#include "run/kernel.h"

#include "base/dtype.h"

#include <stdlib.h>

#define TERMS_MAX 64
#define STEPS_MAX 100000

/* The places of an array: low + sum of step[k] * x[k] bytes, 0 <= x[k] <= last[k], every step positive. */
typedef struct places {
    int64_t low, high; /* bytes; high is past the last */
    int64_t element;
    int count;
    int64_t step[TERMS_MAX / 2], last[TERMS_MAX / 2];
} places;

static bool places_of(const hr_kernel *kernel, int i, const hr_placed *array, places *out) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    out->element = (int64_t)hr_dtype_size(tensor->dtype);
    out->count = 0;
    if (hr_tensor_is_scalar(tensor) || !array->shape || tensor->rank > TERMS_MAX / 2 ||
        hr_shape_elements(tensor->rank, array->shape) == 0)
        return false;
    out->low = (int64_t)(intptr_t)array->data;
    out->high = out->low + out->element;
    for (int axis = 0; axis < tensor->rank; axis++) {
        int64_t last = array->shape[axis] - 1, step = array->strides[axis] * out->element;
        if (last == 0) continue;
        if (step < 0)
            out->low += step * last;
        else
            out->high += step * last;
        out->step[out->count] = step < 0 ? -step : step;
        out->last[out->count++] = last;
    }
    return true;
}

/* ---- sum of step[k] * x[k] in [low, high], for whole x[k] in [0, last[k]] ---- */

typedef struct equation {
    int count, steps; /* steps: how much was tried */
    int64_t step[TERMS_MAX], last[TERMS_MAX],
        rest[TERMS_MAX + 1]; /* rest[k]: the largest sum of terms from k */
} equation;

static void term_add(equation *equation, int64_t step, int64_t last) {
    int k = 0;
    while (k < equation->count && equation->step[k] > step)
        k++;
    if (k < equation->count && equation->step[k] == step) {
        equation->last[k] += last;
        return;
    }
    for (int l = equation->count++; l > k; l--) {
        equation->step[l] = equation->step[l - 1];
        equation->last[l] = equation->last[l - 1];
    }
    equation->step[k] = step;
    equation->last[k] = last;
}

/* Large steps first, so that few values are left to try; true as well when that took too long to tell. */
static bool solvable(equation *equation, int k, int64_t low, int64_t high) {
    if (low <= 0 && high >= 0) return true;
    if (k == equation->count || high < 0 || low > equation->rest[k]) return false;
    int64_t step = equation->step[k], need = low - equation->rest[k + 1];
    int64_t first = need > 0 ? (need + step - 1) / step : 0;
    int64_t last = high / step < equation->last[k] ? high / step : equation->last[k];
    for (int64_t x = first; x <= last; x++)
        if (++equation->steps > STEPS_MAX || solvable(equation, k + 1, low - x * step, high - x * step))
            return true;
    return false;
}

/* left.low + sum - (right.low + sum) in (-left.element, right.element), with right's x turned round. */
static bool places_meet(const places *left, const places *right) {
    if (left->high <= right->low || right->high <= left->low) return false;
    equation equation = {0};
    int64_t right_top = right->high - right->element;
    for (int k = 0; k < left->count; k++)
        if (left->step[k]) term_add(&equation, left->step[k], left->last[k]);
    for (int k = 0; k < right->count; k++)
        if (right->step[k]) term_add(&equation, right->step[k], right->last[k]);
    for (int k = equation.count - 1; k >= 0; k--)
        equation.rest[k] = equation.rest[k + 1] + equation.step[k] * equation.last[k];
    int64_t offset = right_top - left->low;
    return solvable(&equation, 0, offset - left->element + 1, offset + right->element - 1);
}

/* Conservative: true only where each axis steps over all that the finer ones span. */
static bool places_are_distinct(const places *places) {
    int64_t span = places->element;
    bool used[TERMS_MAX / 2] = {0};
    for (int done = 0; done < places->count; done++) {
        int finest = -1;
        for (int k = 0; k < places->count; k++)
            if (!used[k] && (finest < 0 || places->step[k] < places->step[finest])) finest = k;
        if (places->step[finest] < span) return false;
        span += places->step[finest] * places->last[finest];
        used[finest] = true;
    }
    return true;
}

static hr_status check_written(const hr_kernel *kernel, const hr_placed *arrays, int i) {
    const hr_tensor *written = hr_kernel_tensor(kernel, i);
    places own, other;
    if (written->role == HR_ROLE_INPUT || !places_of(kernel, i, &arrays[i], &own)) return HR_OK;
    if (!places_are_distinct(&own))
        return hr_fail(HR_BAD_INPUT,
                       "the array bound to `%s` has several of its elements in one place, and kernel %s "
                       "writes it: give it strides that keep them apart",
                       written->name, kernel->function->name);
    for (int j = 0; j < kernel->argument_count; j++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, j);
        if (j == i || (j < i && tensor->role != HR_ROLE_INPUT) || !places_of(kernel, j, &arrays[j], &other))
            continue;
        if (places_meet(&own, &other))
            return hr_fail(HR_BAD_INPUT,
                           "the arrays bound to `%s` and `%s` share memory, and kernel %s writes `%s`: give "
                           "them memory of their own, or declare one inout tensor",
                           written->name, tensor->name, kernel->function->name, written->name);
    }
    return HR_OK;
}

/* Where member `k` of tensor `i` lies; false where it has no elements. */
static bool member_places(const hr_kernel *kernel, int i, int64_t k, places *out) {
    const hr_members *members = kernel->bindings[i].members;
    const int64_t size = (int64_t)hr_dtype_size(hr_kernel_tensor(kernel, i)->dtype),
                  low = (int64_t)(intptr_t)members->data[k];
    *out = (places){.count = members->elements > 1,
                    .element = size,
                    .low = low,
                    .high = low + members->elements * size,
                    .step = {size},
                    .last = {members->elements - 1}};
    return members->elements > 0;
}

/* Members of tensor `i` beside a whole array. */
static hr_status members_meet(const hr_kernel *kernel, int i, int j, const hr_placed *array) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i), *whole = hr_kernel_tensor(kernel, j);
    places own, other;
    if ((tensor->role == HR_ROLE_INPUT && whole->role == HR_ROLE_INPUT) ||
        !places_of(kernel, j, array, &other))
        return HR_OK;
    for (int64_t k = 0; k < kernel->bindings[i].members->count; k++)
        if (member_places(kernel, i, k, &own) && places_meet(&own, &other))
            return hr_fail(HR_BAD_INPUT,
                           "array %lld of `%s` and `%s` share memory, and kernel %s writes there",
                           (long long)k, tensor->name, whole->name, kernel->function->name);
    return HR_OK;
}

static hr_status members_check(const hr_kernel *kernel, const hr_placed *arrays) {
    if (!hr_kernel_has_members(kernel)) return HR_OK;
    for (int i = 0; i < kernel->argument_count; i++)
        for (int j = 0; kernel->bindings[i].members && j < kernel->argument_count; j++)
            HR_TRY(members_meet(kernel, i, j, &arrays[j]));
    return hr_lists_overlap(kernel);
}

hr_status hr_overlap_check_arrays(const hr_kernel *kernel, const hr_placed *arrays) {
    for (int i = 0; i < kernel->argument_count; i++)
        HR_TRY(check_written(kernel, arrays, i));
    return HR_OK;
}

hr_status hr_overlap_check(const hr_kernel *kernel) {
    if (hr_kernel_has_lists(kernel)) return hr_lists_overlap(kernel);
    hr_placed *arrays = calloc((size_t)kernel->argument_count + 1, sizeof *arrays);
    if (!arrays)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to compare the arrays of kernel %s",
                       kernel->function->name);
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_binding *binding = &kernel->bindings[i];
        if (!binding->members) arrays[i] = (hr_placed){binding->data, binding->shape, binding->strides};
    }
    hr_status status = hr_overlap_check_arrays(kernel, arrays);
    if (status == HR_OK) status = members_check(kernel, arrays);
    free(arrays);
    return status;
}
