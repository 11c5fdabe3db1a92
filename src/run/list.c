/* Lists of arrays: binding them, and the tables that one launch over all of them reads.
 *
 * In: arrays of unequal length. Out: bindings, and base/pieces.h in the device's memory.
 */
#include "run/list.h"

#include "base/dtype.h"
#include "run/kernel.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is bound ---- */

void hr_list_destroy(hr_list *list) {
    if (!list) return;
    free(list->data);
    free(list->lengths);
    free(list);
}

static hr_status list_create(int count, hr_list **out) {
    hr_list *list = calloc(1, sizeof *list);
    if (list) list->data = calloc((size_t)count + 1, sizeof *list->data);
    if (list) list->lengths = calloc((size_t)count + 1, sizeof *list->lengths);
    if (!list || !list->data || !list->lengths) {
        hr_list_destroy(list);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a list of %d arrays", count);
    }
    list->count = count;
    *out = list;
    return HR_OK;
}

/* Elements of a member; HR_BAD_INPUT where it is no run of elements of this dtype. */
static hr_status member_length(const hr_kernel *kernel, int i, const hr_array *array, int member,
                               int64_t *out) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    int64_t length = 1, stride = 1;
    if (array->size < sizeof *array)
        return hr_fail(HR_BAD_INPUT,
                       "array %d of the list for `%s` does not say its size: begin it with "
                       "{.size = sizeof(hr_array)}",
                       member, tensor->name);
    HR_TRY(hr_binding_dtype_check(kernel, i, member, array->dtype));
    if (array->rank < 0 || (array->rank && !array->shape))
        return hr_fail(HR_BAD_INPUT, "array %d of the list for `%s` has no shape", member, tensor->name);
    for (int axis = 0; axis < array->rank; axis++)
        if (array->shape[axis] < 0 || __builtin_mul_overflow(length, array->shape[axis], &length) ||
            length > INT64_MAX / 64)
            return hr_fail(HR_BAD_INPUT, "array %d of the list for `%s` has %lld elements on axis %d", member,
                           tensor->name, (long long)array->shape[axis], axis);
    for (int axis = array->rank - 1; array->strides && length > 0 && axis >= 0; axis--) {
        if (array->shape[axis] > 1 && array->strides[axis] != stride)
            return hr_fail(HR_BAD_INPUT,
                           "array %d of the list for `%s` has gaps between its elements: a list takes arrays "
                           "without",
                           member, tensor->name);
        stride *= array->shape[axis];
    }
    if (length && !array->data)
        return hr_fail(HR_BAD_INPUT, "array %d of the list for `%s` has no data (NULL)", member,
                       tensor->name);
    *out = length;
    return HR_OK;
}

static hr_status list_fill(const hr_kernel *kernel, int i, const hr_array *arrays, hr_list *list,
                           int64_t *total) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    *total = 0;
    for (int k = 0; k < list->count; k++) {
        HR_TRY(member_length(kernel, i, &arrays[k], k, &list->lengths[k]));
        if (arrays[k].dtype != arrays[0].dtype)
            return hr_fail(HR_BAD_INPUT,
                           "array %d of the list for `%s` is %s and array 0 is %s: a list has one dtype", k,
                           tensor->name, hr_dtype_name(arrays[k].dtype), hr_dtype_name(arrays[0].dtype));
        list->data[k] = arrays[k].data;
        if (__builtin_add_overflow(*total, list->lengths[k], total) || *total > INT64_MAX / 64)
            return hr_fail(HR_BAD_INPUT, "the list for `%s` has more elements than memory can hold",
                           tensor->name);
    }
    return HR_OK;
}

static bool same_lengths(const hr_list *old, const hr_list *list) {
    return old && old->count == list->count &&
           memcmp(old->lengths, list->lengths, (size_t)list->count * sizeof *list->lengths) == 0;
}

hr_status hr_kernel_bind_list(hr_kernel *kernel, const char *name, const hr_array *arrays, int count) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    int i;
    int64_t total;
    hr_list *list = NULL;
    HR_TRY(hr_argument_find(kernel, name, &i));
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    if (tensor->rank < 1)
        return hr_fail(HR_BAD_INPUT,
                       "`%s` of kernel %s has no axes: a list of arrays stands for a tensor's first one",
                       tensor->name, kernel->function->name);
    if (count < 0 || (count && !arrays))
        return hr_fail(HR_BAD_INPUT, "the list for `%s` has %d arrays at %p", tensor->name, count,
                       (const void *)arrays);
    if (tensor->rank > 1) return hr_members_bind(kernel, i, arrays, count);
    HR_TRY(list_create(count, &list));
    hr_status status = list_fill(kernel, i, arrays, list, &total);
    if (status == HR_OK && count) status = hr_kernel_follow(kernel, i, arrays[0].dtype);
    bool same = status == HR_OK && same_lengths(kernel->bindings[i].list, list);
    if (status == HR_OK) status = hr_binding_set(kernel, i, NULL, &total, NULL);
    if (status != HR_OK) {
        hr_list_destroy(list);
        return status;
    }
    kernel->bindings[i].layout = HR_LAYOUT_LIST;
    kernel->bindings[i].list = list;
    if (!same) kernel->tables.piece_most = 0;
    return HR_OK;
}

bool hr_kernel_has_lists(const hr_kernel *kernel) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->bindings[i].list) return true;
    return false;
}

static int first_list(const hr_kernel *kernel) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->bindings[i].list) return i;
    return -1;
}

hr_status hr_lists_agree(const hr_kernel *kernel) {
    int first = first_list(kernel);
    for (int i = first + 1; first >= 0 && i < kernel->argument_count; i++) {
        const hr_list *one = kernel->bindings[first].list, *other = kernel->bindings[i].list;
        const char *one_name = hr_kernel_tensor(kernel, first)->name,
                   *other_name = hr_kernel_tensor(kernel, i)->name;
        if (!other) continue;
        if (one->count != other->count)
            return hr_fail(HR_BAD_INPUT, "`%s` is bound to a list of %d arrays and `%s` to one of %d",
                           one_name, one->count, other_name, other->count);
        for (int k = 0; k < one->count; k++)
            if (one->lengths[k] != other->lengths[k])
                return hr_fail(HR_BAD_INPUT, "array %d of `%s` has %lld elements and that of `%s` %lld", k,
                               one_name, (long long)one->lengths[k], other_name,
                               (long long)other->lengths[k]);
    }
    return HR_OK;
}

/* ---- shared memory ---- */

typedef struct range {
    uintptr_t start, end;
    int argument, member;
    bool written;
} range;

static int compare_ranges(const void *a, const void *b) {
    const range *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

/* Member `k`, or the whole array, which has no gaps. */
static range range_of(const hr_kernel *kernel, int i, int64_t k) {
    const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
    const hr_binding *binding = &kernel->bindings[i];
    const hr_list *list = binding->list;
    const hr_members *members = binding->members;
    const int64_t elements = list      ? list->lengths[k]
                             : members ? members->elements
                                       : hr_shape_elements(tensor->rank, binding->shape);
    const void *data = list ? list->data[k] : members ? members->data[k] : binding->data;
    return (range){(uintptr_t)data, (uintptr_t)data + (uintptr_t)elements * hr_dtype_size(tensor->dtype), i,
                   list || members ? (int)k : -1, tensor->role != HR_ROLE_INPUT};
}

/* Members of argument `i`; an array that is whole is one, beside lists. */
static int64_t ranges_of(const hr_kernel *kernel, int i) {
    const hr_binding *binding = &kernel->bindings[i];
    if (binding->list) return binding->list->count;
    if (binding->members) return binding->members->count;
    return hr_kernel_has_lists(kernel) && !hr_tensor_is_scalar(hr_kernel_tensor(kernel, i));
}

/* From the first to past the last byte of each. */
static int64_t ranges_collect(const hr_kernel *kernel, range *out) {
    int64_t count = 0;
    for (int i = 0; i < kernel->argument_count; i++)
        for (int64_t k = 0; k < ranges_of(kernel, i); k++) {
            const range range = range_of(kernel, i, k);
            if (range.end > range.start) out[count++] = range;
        }
    return count;
}

/* "array 3 of `p`", "`norm`" */
static void range_name(const hr_kernel *kernel, const range *range, char *out, size_t size) {
    const char *name = hr_kernel_tensor(kernel, range->argument)->name;
    if (range->member < 0)
        snprintf(out, size, "`%.60s`", name);
    else
        snprintf(out, size, "array %d of `%.60s`", range->member, name);
}

/* Of the sorted ranges, each is compared with the one that reaches furthest of those before it, and with the
 * written one that does. */
static hr_status ranges_check(const hr_kernel *kernel, const range *ranges, int64_t count) {
    const range *furthest = NULL, *furthest_written = NULL;
    for (int64_t r = 0; r < count; r++) {
        const range *now = &ranges[r], *other = now->written ? furthest : furthest_written;
        if (other && other->end > now->start) {
            char one[96], two[96];
            range_name(kernel, other, one, sizeof one);
            range_name(kernel, now, two, sizeof two);
            return hr_fail(HR_BAD_INPUT, "%s and %s share memory, and kernel %s writes there", one, two,
                           kernel->function->name);
        }
        if (!furthest || now->end > furthest->end) furthest = now;
        if (now->written && (!furthest_written || now->end > furthest_written->end)) furthest_written = now;
    }
    return HR_OK;
}

hr_status hr_lists_overlap(const hr_kernel *kernel) {
    int64_t most = 0;
    for (int i = 0; i < kernel->argument_count; i++)
        most += ranges_of(kernel, i);
    range *ranges = calloc((size_t)most + 1, sizeof *ranges);
    if (!ranges) return hr_fail(HR_OUT_OF_MEMORY, "no memory to compare lists of arrays");
    int64_t count = ranges_collect(kernel, ranges);
    qsort(ranges, (size_t)count, sizeof *ranges, compare_ranges);
    hr_status status = ranges_check(kernel, ranges, count);
    free(ranges);
    return status;
}

/* ---- the tables ---- */

static int64_t pieces_of(const hr_list *list, int64_t most) {
    int64_t count = 0;
    for (int k = 0; k < list->count; k++)
        count += (list->lengths[k] + most - 1) / most;
    return count;
}

static void pieces_write(const hr_list *list, int64_t most, hr_pieces *out) {
    out->count = 0;
    for (int k = 0; k < list->count; k++)
        for (int64_t start = 0; start < list->lengths[k]; start += most) {
            int64_t rest = list->lengths[k] - start;
            out->piece[out->count++] = (hr_piece){start, k, (int32_t)(rest < most ? rest : most)};
        }
}

static hr_status tables_room(hr_kernel *kernel, size_t size) {
    hr_list_tables *tables = &kernel->tables;
    if (size <= tables->size) return HR_OK;
    hr_lists_release(kernel);
    char *copy = malloc(size);
    if (!copy) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the tables of a list");
    hr_status status = kernel->device->ops->allocate(kernel->device, size, &tables->memory);
    if (status == HR_OK) {
        tables->copy = copy;
        tables->size = size;
    } else
        free(copy);
    return status;
}

static hr_status tables_write(hr_kernel *kernel, size_t offset, const void *data, size_t size) {
    hr_list_tables *tables = &kernel->tables;
    bool there = offset + size <= tables->written;
    if (there && memcmp(tables->copy + offset, data, size) == 0) return HR_OK;
    HR_TRY(hr_device_upload(kernel->device, (char *)tables->memory + offset, data, size));
    memcpy(tables->copy + offset, data, size);
    if (!there) tables->written = offset + size;
    return HR_OK;
}

static hr_status pieces_refresh(hr_kernel *kernel, const hr_list *list, int64_t most, size_t size) {
    hr_list_tables *tables = &kernel->tables;
    if (tables->piece_most == most) return HR_OK;
    hr_pieces *pieces = calloc(1, size);
    if (!pieces) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a list of %d arrays", list->count);
    pieces_write(list, most, pieces);
    hr_status status = tables_write(kernel, 0, pieces, size);
    if (status == HR_OK) tables->piece_most = most;
    tables->piece_count = pieces->count;
    free(pieces);
    return status;
}

hr_status hr_lists_refresh(hr_kernel *kernel, int64_t most) {
    int first = first_list(kernel), lists = 0;
    int64_t *stride = kernel->strides;
    if (first < 0) return HR_OK;
    const hr_list *model = kernel->bindings[first].list;
    size_t size = sizeof(hr_pieces) + (size_t)pieces_of(model, most) * sizeof(hr_piece);
    size_t addresses = (size_t)model->count * sizeof(void *);
    for (int i = 0; i < kernel->argument_count; i++)
        lists += kernel->bindings[i].list != NULL;
    HR_TRY(tables_room(kernel, size + (size_t)lists * addresses));
    HR_TRY(pieces_refresh(kernel, model, most, size));
    for (int i = 0; i < kernel->argument_count; stride += hr_kernel_tensor(kernel, i++)->rank) {
        const hr_list *list = kernel->bindings[i].list;
        if (!list) continue;
        if (addresses) HR_TRY(tables_write(kernel, size, list->data, addresses));
        kernel->pointers[i] = (char *)kernel->tables.memory + size;
        *stride = (int64_t)(intptr_t)kernel->tables.memory;
        size += addresses;
    }
    return HR_OK;
}

void hr_lists_cover(const hr_kernel *kernel, hr_launch *launches, int count) {
    int64_t pieces = kernel->tables.piece_count > 1 ? kernel->tables.piece_count : 1;
    for (int g = 0; g < count; g++)
        if (launches[g].pieces)
            launches[g].grid[0] = pieces < launches[g].pieces ? pieces : launches[g].pieces;
}

void hr_lists_release(hr_kernel *kernel) {
    if (kernel->tables.memory)
        kernel->device->ops->release(kernel->device, kernel->tables.memory, kernel->tables.size);
    free(kernel->tables.copy);
    kernel->tables = (hr_list_tables){0};
}
