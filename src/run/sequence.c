/* A sequence: kernels in order over buffers that live only as long as they are needed, and copies beside
 * them.
 *
 * In: calls, each a kernel with arrays: memory of the caller's, or named buffers of the sequence. Out: one
 * arena in which buffers that are never needed at once share their place, and launches that allocate nothing.
 * Sizes and places may grow with one number, the step's: a cache's length, say. A launch is one graph of the
 * device, or one job of its threads: sequence_replay.c.
 */
#include "run/sequence_parts.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT   256 /* a line of every cache */
#define POINTS      64  /* of a call that are checked, where nobody says how many */
#define SMALL       ((size_t)64 << 10)
#define SMALL_APART 12                /* calls: more than threads run without a meeting */
#define BUFFER_MOST ((size_t)1 << 48) /* bytes, so that sums of sizes do not overflow */

/* ---- building ---- */

static hr_status grow(void **items, int count, int *room, size_t size) {
    if (count < *room) return HR_OK;
    int more = *room ? 2 * *room : 64;
    void *grown = hr_memory_resize(*items, (size_t)more * size);
    if (!grown) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a sequence of more than %d calls", count);
    *items = grown;
    *room = more;
    return HR_OK;
}

hr_status hr_sequence_create(hr_device *device, hr_sequence **out) {
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sequence *sequence = hr_memory_zeros(1, sizeof *sequence);
    if (!sequence) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a sequence");
    sequence->handle.kind = HR_HANDLE_SEQUENCE;
    sequence->device = device;
    *out = sequence;
    return HR_OK;
}

void hr_sequence_destroy(hr_sequence *sequence) {
    if (!sequence || hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) != HR_OK) return;
    hr_sequence_replay_drop(sequence);
    for (int i = 0; i < sequence->buffer_count; i++)
        free(sequence->buffers[i].name);
    if (sequence->scratch) hr_device_release(sequence->device, sequence->scratch, sequence->scratch_size);
    if (sequence->arena) hr_device_release(sequence->device, sequence->arena, sequence->arena_size);
    if (sequence->own) hr_device_release(sequence->device, sequence->own, sequence->own_room);
    free(sequence->buffers);
    free(sequence->items);
    free(sequence->arrays);
    hr_handle_free(sequence);
}

hr_status hr_sequence_buffer(hr_sequence *sequence, const char *name, size_t bytes, int *out) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_pointer_check(name, "name", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (bytes > BUFFER_MOST)
        return hr_fail(HR_BAD_INPUT, "buffer %s of %zu bytes is larger than any memory", name, bytes);
    HR_TRY(grow((void **)&sequence->buffers, sequence->buffer_count, &sequence->buffer_room,
                sizeof *sequence->buffers));
    char *copy = strdup(name);
    if (!copy) return hr_fail(HR_OUT_OF_MEMORY, "no memory for buffer %s", name);
    sequence->buffers[sequence->buffer_count] = (hr_sequence_place){.name = copy, .size = bytes, .first = -1};
    sequence->planned = false;
    *out = sequence->buffer_count++;
    return HR_OK;
}

/* `name` of `owner`: "`x` of kernel norm". */
static hr_status array_check(const hr_sequence *sequence, const char *name, const char *owner,
                             const hr_sequence_array *array) {
    if (array->size < sizeof *array)
        return hr_fail(HR_BAD_INPUT, "the array for `%s` of %s does not say its size", name, owner);
    if (array->buffer >= sequence->buffer_count)
        return hr_fail(HR_BAD_INPUT, "`%s` of %s is given buffer %d; the sequence has %d", name, owner,
                       array->buffer, sequence->buffer_count);
    if (array->rank < 0 || array->rank > HR_SEQUENCE_RANK || (unsigned)array->dtype >= HR_DTYPE_COUNT)
        return hr_fail(HR_BAD_INPUT,
                       "the array for `%s` of %s has %d axes, or no dtype; up to %d are possible", name,
                       owner, array->rank, HR_SEQUENCE_RANK);
    return HR_OK;
}

static bool array_varies(const hr_sequence_array *array) {
    bool varies = array->offset.scaled != 0;
    for (int axis = 0; axis < array->rank; axis++)
        varies |= array->shape[axis].scaled != 0;
    return varies;
}

/* Takes over an item whose arrays have been checked. */
static hr_status item_add(hr_sequence *sequence, hr_kernel *kernel, const hr_sequence_array *arrays,
                          int count) {
    const int first = sequence->array_count, number = sequence->item_count;
    hr_sequence_item item = {.kernel = kernel, .first = first, .count = count};
    HR_TRY(grow((void **)&sequence->items, number, &sequence->item_room, sizeof *sequence->items));
    for (int i = 0; i < count; i++) {
        HR_TRY(grow((void **)&sequence->arrays, first + i, &sequence->array_room, sizeof *sequence->arrays));
        sequence->arrays[first + i] = arrays[i];
        item.varies |= array_varies(&arrays[i]);
        item.has_scalars |= kernel && hr_tensor_is_scalar(hr_kernel_tensor(kernel, i));
    }
    for (int i = 0; i < count; i++) {
        if (arrays[i].buffer < 0) continue;
        hr_sequence_place *used = &sequence->buffers[arrays[i].buffer];
        if (used->first < 0) used->first = number;
        used->last = number;
    }
    sequence->array_count += count;
    sequence->items[sequence->item_count++] = item;
    sequence->planned = sequence->made_ready = false;
    return HR_OK;
}

hr_status hr_sequence_call(hr_sequence *sequence, hr_kernel *kernel, const hr_sequence_array *arrays,
                           int count) {
    char owner[HR_SYMBOL_MAX + 16];
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(arrays, "arrays", __func__));
    if (count != kernel->argument_count)
        return hr_fail(HR_BAD_INPUT,
                       "kernel %s has %d arguments, parameters and results, and %d arrays are given",
                       kernel->function->name, kernel->argument_count, count);
    if (count > HR_EXECUTE_ARGUMENTS)
        return hr_fail(HR_BAD_INPUT, "kernel %s has %d arguments; a call of a sequence takes %d",
                       kernel->function->name, count, HR_EXECUTE_ARGUMENTS);
    snprintf(owner, sizeof owner, "kernel %s", kernel->function->name);
    for (int i = 0; i < count; i++)
        HR_TRY(array_check(sequence, hr_kernel_tensor(kernel, i)->name, owner, &arrays[i]));
    return item_add(sequence, kernel, arrays, count);
}

/* Where the host uses the device's memory in place, all is the device's. */
static hr_memory_kind memory_kind(const hr_sequence *sequence, const hr_sequence_array *array) {
    struct hr_device *device = sequence->device;
    if (array->buffer >= 0 || !device->ops->memory_kind) return HR_MEMORY_DEVICE;
    return device->ops->memory_kind(device, array->data);
}

/* Memory that the device cannot copy to or from by itself would be waited for. */
static hr_status copy_side_check(const hr_sequence *sequence, const char *name,
                                 const hr_sequence_array *array) {
    HR_TRY(array_check(sequence, name, "a copy", array));
    if (array->strided) return hr_fail(HR_BAD_INPUT, "`%s` of a copy has strides; copies take none", name);
    if (array->buffer >= 0) return HR_OK;
    if (!array->data) return hr_fail(HR_BAD_INPUT, "`%s` of a copy has neither buffer nor memory", name);
    if (memory_kind(sequence, array) != HR_MEMORY_PAGEABLE) return HR_OK;
    return hr_fail(HR_BAD_INPUT,
                   "`%s` of a copy lies in memory of the host that %s cannot copy by itself: take it from "
                   "hr_device_allocate_pinned",
                   name, sequence->device->name);
}

hr_status hr_sequence_copy(hr_sequence *sequence, const hr_sequence_array *to,
                           const hr_sequence_array *from) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_pointer_check(to, "array to write", __func__));
    HR_TRY(hr_pointer_check(from, "array to read", __func__));
    HR_TRY(copy_side_check(sequence, "to", to));
    HR_TRY(copy_side_check(sequence, "from", from));
    const hr_sequence_array sides[] = {*to, *from};
    HR_TRY(item_add(sequence, NULL, sides, 2));
    sequence->copy_count++;
    return HR_OK;
}

/* ---- places ---- */

/* Threads that make small ones side by side do not wait for those who still read what lay there. */
static int apart(const hr_sequence *sequence, const hr_sequence_place *a, const hr_sequence_place *b) {
    return sequence->meets && a->size <= SMALL && b->size <= SMALL ? SMALL_APART : 0;
}

static bool live_at_once(const hr_sequence *sequence, const hr_sequence_place *a,
                         const hr_sequence_place *b) {
    const int more = apart(sequence, a, b);
    return a->first <= b->last + more && b->first <= a->last + more;
}

/* The lowest place where none of those that are needed at the same time lies; the largest ones come first. */
static size_t place_find(const hr_sequence *sequence, const int *order, int placed,
                         const hr_sequence_place *wanted) {
    const int kind = wanted->own;
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < placed; i++) {
            const hr_sequence_place *other = &sequence->buffers[order[i]];
            const size_t begin = other->at[kind], end = begin + other->size;
            if (at >= end || begin >= at + wanted->size || !live_at_once(sequence, other, wanted)) continue;
            at = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            moved = true;
        }
    }
    return at;
}

static void order_by_size(const hr_sequence *sequence, int *order, int count) {
    for (int i = 1; i < count; i++) {
        int moving = order[i], at = i;
        for (; at > 0 && sequence->buffers[order[at - 1]].size < sequence->buffers[moving].size; at--)
            order[at] = order[at - 1];
        order[at] = moving;
    }
}

hr_status hr_sequence_places_find(hr_sequence *sequence, bool own, size_t *size) {
    int *order = hr_memory_take((size_t)(sequence->buffer_count + 1) * sizeof *order), count = 0;
    if (!order) return hr_fail(HR_OUT_OF_MEMORY, "no memory to plan a sequence");
    for (int i = 0; i < sequence->buffer_count; i++)
        if (sequence->buffers[i].first >= 0 && sequence->buffers[i].own == own) order[count++] = i;
    order_by_size(sequence, order, count);
    *size = 0;
    for (int i = 0; i < count; i++) {
        hr_sequence_place *placed = &sequence->buffers[order[i]];
        placed->at[own] = place_find(sequence, order, i, placed);
        if (placed->at[own] + placed->size > *size) *size = placed->at[own] + placed->size;
    }
    free(order);
    return HR_OK;
}

hr_status hr_sequence_room(hr_sequence *sequence, size_t size, void **arena, size_t *room, bool *moved) {
    void *made;
    *moved = size > *room;
    if (!*moved) return HR_OK;
    HR_TRY(hr_device_allocate(sequence->device, size, &made));
    if (*arena) hr_device_release(sequence->device, *arena, *room);
    *arena = made;
    *room = size;
    return HR_OK;
}

/* What threads have of their own is known when the work of the items is. */
hr_status hr_sequence_plan(hr_sequence *sequence) {
    size_t size;
    bool moved;
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    hr_sequence_replay_drop(sequence);
    sequence->meets = false;
    for (int i = 0; i < sequence->buffer_count; i++)
        sequence->buffers[i].own = false;
    HR_TRY(hr_sequence_places_find(sequence, false, &size));
    HR_TRY(
        hr_sequence_room(sequence, size ? size : ALIGNMENT, &sequence->arena, &sequence->arena_size, &moved));
    sequence->planned = true;
    return HR_OK;
}

/* ---- arrays at a step ---- */

static hr_status value_at(const hr_step_size *size, int64_t step, int64_t *out) {
    bool beyond = __builtin_mul_overflow(size->scaled, step, out);
    beyond |= __builtin_add_overflow(*out, size->fixed, out);
    return beyond ? hr_fail(HR_BAD_INPUT, "a size at step %" PRId64 " is larger than any memory", step)
                  : HR_OK;
}

/* Whether all elements of an array that begins `offset` elements behind a buffer's beginning are among its
 * `count`. */
static bool lies_within(const hr_sequence_array *array, const int64_t *shape, int64_t offset, size_t count) {
    int64_t first = offset, last = offset, dense = 1;
    bool beyond = false;
    for (int axis = array->rank - 1; axis >= 0; axis--) {
        const int64_t stride = array->strided ? array->strides[axis] : dense;
        int64_t way, *end = stride < 0 ? &first : &last;
        if (shape[axis] <= 0) return shape[axis] == 0;
        beyond |= __builtin_mul_overflow(shape[axis] - 1, stride, &way);
        beyond |= __builtin_add_overflow(*end, way, end);
        beyond |= __builtin_mul_overflow(dense, shape[axis], &dense);
    }
    return !beyond && first >= 0 && (uint64_t)last < count;
}

static const char *array_name(const hr_sequence_item *item, int i) {
    return item->kernel ? hr_kernel_tensor(item->kernel, i)->name : i == 0 ? "to" : "from";
}

static hr_status array_make(const hr_sequence *sequence, const hr_sequence_item *item, int i, int64_t step,
                            int64_t *shape, hr_array *out) {
    const hr_sequence_array *from = &sequence->arrays[item->first + i];
    const size_t element = hr_dtype_size(from->dtype);
    int64_t offset;
    char *data = from->data;
    HR_TRY(value_at(&from->offset, step, &offset));
    for (int axis = 0; axis < from->rank; axis++)
        HR_TRY(value_at(&from->shape[axis], step, &shape[axis]));
    if (from->buffer >= 0) {
        const hr_sequence_place *used = &sequence->buffers[from->buffer];
        if (!lies_within(from, shape, offset, used->size / element))
            return hr_fail(HR_BAD_INPUT,
                           "`%s` is given an array that does not lie in the %zu bytes of buffer %s",
                           array_name(item, i), used->size, used->name);
        data = (char *)(used->own ? sequence->own : sequence->arena) + used->at[used->own];
    }
    if (data) data += offset * (int64_t)element;
    *out =
        (hr_array){sizeof *out, data, from->dtype, from->rank, shape, from->strided ? from->strides : NULL};
    return HR_OK;
}

size_t hr_sequence_copy_bytes(const hr_array *array) {
    return (size_t)hr_shape_elements(array->rank, array->shape) * hr_dtype_size(array->dtype);
}

hr_status hr_sequence_arrays_make(const hr_sequence *sequence, const hr_sequence_item *item, int64_t step,
                                  hr_sequence_arrays *out) {
    for (int i = 0; i < item->count; i++)
        HR_TRY(array_make(sequence, item, i, step, out->shapes[i], &out->arrays[i]));
    if (item->kernel) return HR_OK;
    const size_t to = hr_sequence_copy_bytes(&out->arrays[0]), from = hr_sequence_copy_bytes(&out->arrays[1]);
    return to == from ? HR_OK
                      : hr_fail(HR_BAD_INPUT, "a copy is given %zu bytes to read and %zu to write", from, to);
}

bool hr_sequence_item_writes(const hr_sequence_item *item, int i) {
    if (!item->kernel) return i == 0;
    return hr_kernel_tensor(item->kernel, i)->role != HR_ROLE_INPUT;
}

hr_status hr_sequence_item_fail(const hr_sequence *sequence, int i, hr_status status) {
    const hr_kernel *kernel = sequence->items[i].kernel;
    if (status == HR_OK) return status;
    return kernel ? hr_fail_context(status, "call %d of the sequence, kernel %s", i, kernel->function->name)
                  : hr_fail_context(status, "call %d of the sequence, a copy", i);
}

/* ---- launching ---- */

void hr_sequence_watch(hr_sequence *sequence, hr_progress_fn progress, void *context) {
    sequence->progress = progress;
    sequence->progress_context = context;
}

bool hr_sequence_goes_on(const hr_sequence *sequence, int i) {
    return !sequence->progress ||
           sequence->progress(sequence->progress_context, sequence->items[i].ran ? "running" : "preparing", i,
                              sequence->item_count);
}

/* Between any two places; complete on return. */
static hr_status copy_now(struct hr_device *device, void *to, const void *from, size_t bytes) {
    if (device->ops->copy) return device->ops->copy(device, to, from, bytes);
    if (bytes) memmove(to, from, bytes);
    return HR_OK;
}

static hr_status launch_begin(hr_sequence *sequence, int64_t step, const char *function) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, function));
    if (!sequence->device->ops->replay)
        return hr_fail(HR_NOT_AVAILABLE, "a sequence cannot be launched on %s", sequence->device->name);
    if (!sequence->planned) HR_TRY(hr_sequence_plan(sequence));
    sequence->step = step;
    if (sequence->made_ready) return HR_OK;
    HR_TRY(hr_sequence_make_ready(sequence, step));
    sequence->made_ready = true;
    return HR_OK;
}

hr_status hr_sequence_prepare(hr_sequence *sequence, int64_t step) {
    HR_TRY(launch_begin(sequence, step, __func__));
    return hr_sequence_replay_prepare(sequence, step);
}

hr_status hr_sequence_launch(hr_sequence *sequence, int64_t step) {
    HR_TRY(launch_begin(sequence, step, __func__));
    return hr_sequence_replay_launch(sequence, step);
}

hr_status hr_sequence_launch_timed(hr_sequence *sequence, int64_t step, hr_sequence_timing timing) {
    HR_TRY(launch_begin(sequence, step, __func__));
    if ((unsigned)timing > HR_TIMING_CALLS)
        return hr_fail(HR_BAD_INPUT, "a launch is timed as a whole or by its calls, not as %d", (int)timing);
    return hr_sequence_replay_time(sequence, step, timing);
}

/* ---- checking ---- */

/* What is wrong, or nearest to its tolerance, of all calls; elements are counted. */
static void check_join(const hr_sequence *sequence, int i, const hr_check *one, hr_check *all) {
    const double before = all->tolerance > 0 ? all->max_error / all->tolerance : -1;
    const double here = one->tolerance > 0 ? one->max_error / one->tolerance : 0;
    const int64_t points = all->points + one->points;
    const bool worse = all->ok != one->ok ? all->ok : here > before;
    if (worse) {
        *all = *one;
        snprintf(all->where, sizeof all->where, "call %d, kernel %s: %.100s", i,
                 sequence->items[i].kernel->function->name, one->where);
    }
    all->points = points;
}

static hr_status item_check(const hr_sequence *sequence, int i, int64_t step, int64_t points, hr_check *out) {
    const hr_sequence_item *item = &sequence->items[i];
    hr_sequence_arrays made;
    hr_check one;
    HR_TRY(hr_sequence_arrays_make(sequence, item, step, &made));
    if (!item->kernel)
        return copy_now(sequence->device, made.arrays[0].data, made.arrays[1].data,
                        hr_sequence_copy_bytes(&made.arrays[0]));
    HR_TRY(hr_kernel_execute_check(item->kernel, made.arrays, item->count, points, &one));
    check_join(sequence, i, &one, out);
    return HR_OK;
}

hr_status hr_sequence_check(hr_sequence *sequence, int64_t step, int64_t points, hr_check *out) {
    hr_check all = {.ok = true};
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    HR_TRY(launch_begin(sequence, step, __func__));
    if (points < 0) return hr_fail(HR_BAD_INPUT, "%" PRId64 " elements of a call cannot be checked", points);
    HR_TRY(hr_device_synchronise(sequence->device));
    for (int i = 0; i < sequence->item_count; i++) {
        if (!hr_sequence_goes_on(sequence, i)) return hr_fail(HR_CANCELLED, "a sequence's check was stopped");
        HR_TRY(hr_sequence_item_fail(sequence, i,
                                     item_check(sequence, i, step, points ? points : POINTS, &all)));
        sequence->items[i].ran = true;
    }
    *out = all;
    return HR_OK;
}

/* ---- what it does ---- */

int hr_sequence_call_count(const hr_sequence *sequence) {
    return hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) == HR_OK ? sequence->item_count : 0;
}

int64_t hr_sequence_launches(const hr_sequence *sequence) {
    return sequence->launches;
}

size_t hr_sequence_memory(const hr_sequence *sequence) {
    return hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) == HR_OK
               ? sequence->arena_size + sequence->own_room + sequence->scratch_size
               : 0;
}

static double mean(double seconds, int64_t times) {
    return times > 0 ? seconds / (double)times : 0;
}

hr_status hr_sequence_info_get(const hr_sequence *sequence, hr_sequence_info *out) {
    hr_replay_counts counts = {.refusal = ""};
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sequence_replay_counts(sequence, &counts);
    *out = (hr_sequence_info){.launches = sequence->launches,
                              .memory = hr_sequence_memory(sequence),
                              .seconds = mean(sequence->whole_seconds, sequence->timed_whole),
                              .calls_seconds = mean(sequence->calls_seconds, sequence->timed_calls),
                              .captures = counts.captures,
                              .patches = counts.patches,
                              .replays = counts.replays,
                              .meetings = sequence->meetings,
                              .refusal = counts.refusal};
    return HR_OK;
}

/* Bytes over the link where one side is the host's, else read and written in memory. */
static void copy_describe(const hr_sequence *sequence, const hr_sequence_item *item,
                          const hr_sequence_arrays *made, const hr_roof *roof, hr_call_info *out) {
    const double bytes = (double)hr_sequence_copy_bytes(&made->arrays[0]);
    const bool to_host = memory_kind(sequence, &sequence->arrays[item->first]) == HR_MEMORY_PINNED;
    const bool from_host = memory_kind(sequence, &sequence->arrays[item->first + 1]) == HR_MEMORY_PINNED;
    out->bytes = to_host || from_host ? bytes : 2 * bytes;
    if (!roof) return;
    const double rate = to_host ? roof->link_from : from_host ? roof->link_to : roof->copy;
    out->floor.bytes = out->bytes;
    out->floor.bound = to_host || from_host ? "link" : "memory";
    out->floor.seconds = out->floor.memory = rate > 0 ? out->bytes / rate : 0;
}

hr_status hr_sequence_call_info(const hr_sequence *sequence, int i, const hr_roof *roof, hr_call_info *out) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (i < 0 || i >= sequence->item_count)
        return hr_fail(HR_BAD_INPUT, "the sequence has %d calls, and there is none of number %d",
                       sequence->item_count, i);
    const hr_sequence_item *item = &sequence->items[i];
    hr_sequence_arrays made;
    hr_work work;
    HR_TRY(hr_sequence_arrays_make(sequence, item, sequence->step, &made));
    hr_call_info info = {.kernel = item->kernel ? item->kernel->function->name : "copy",
                         .seconds = mean(item->seconds, item->timed) * (double)item->launches,
                         .launches = item->launches};
    if (item->kernel) {
        HR_TRY(hr_kernel_execute_work(item->kernel, made.arrays, item->count, roof, &work, &info.floor));
        info.bytes = work.bytes_read + work.bytes_written;
    } else
        copy_describe(sequence, item, &made, roof, &info);
    *out = info;
    return HR_OK;
}

void hr_sequence_times_clear(hr_sequence *sequence) {
    if (hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) != HR_OK) return;
    sequence->launches = sequence->timed_whole = sequence->timed_calls = 0;
    sequence->whole_seconds = sequence->calls_seconds = 0;
    for (int i = 0; i < sequence->item_count; i++) {
        sequence->items[i].seconds = 0;
        sequence->items[i].launches = sequence->items[i].timed = 0;
    }
}
