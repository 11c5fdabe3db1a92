/* A sequence: kernels in order over buffers that live only as long as they are needed.
 *
 * In: calls, each a kernel with arrays: memory of the caller's, or named buffers of the sequence. Out: one
 * arena in which buffers that are never needed at once share their place, and launches that allocate nothing.
 * Sizes and places may grow with one number, the step's: a cache's length, say.
 */
#include "run/sequence.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/handle.h"
#include "base/memory.h"
#include "run/kernel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT   64
#define BUFFER_MOST ((size_t)1 << 48) /* bytes, so that sums of sizes do not overflow */

typedef struct buffer {
    char *name;
    size_t size, offset; /* bytes; offset: in the arena */
    int first, last;     /* calls that use it; first = -1: none yet */
} buffer;

typedef struct sequence_call {
    hr_kernel *kernel;
    int first, count; /* its arrays */
    bool ran;         /* before: its kernel is compiled */
    double seconds;   /* of all launches */
    int64_t launches;
} sequence_call;

struct hr_sequence {
    hr_handle handle;
    hr_device *device;
    buffer *buffers;
    sequence_call *calls;
    hr_sequence_array *arrays;
    int buffer_count, call_count, array_count;
    int buffer_room, call_room, array_room;
    void *arena;
    size_t arena_size;
    bool planned;
    int64_t step; /* of the last launch */
    hr_progress_fn progress;
    void *progress_context;
};

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
    for (int i = 0; i < sequence->buffer_count; i++)
        free(sequence->buffers[i].name);
    if (sequence->arena) hr_device_release(sequence->device, sequence->arena, sequence->arena_size);
    free(sequence->buffers);
    free(sequence->calls);
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
    sequence->buffers[sequence->buffer_count] = (buffer){.name = copy, .size = bytes, .first = -1};
    sequence->planned = false;
    *out = sequence->buffer_count++;
    return HR_OK;
}

static hr_status array_check(const hr_sequence *sequence, const hr_kernel *kernel, int i,
                             const hr_sequence_array *array) {
    const char *name = hr_kernel_tensor(kernel, i)->name;
    if (array->size < sizeof *array)
        return hr_fail(HR_BAD_INPUT, "the array for `%s` of kernel %s does not say its size", name,
                       kernel->function->name);
    if (array->buffer >= sequence->buffer_count)
        return hr_fail(HR_BAD_INPUT, "`%s` of kernel %s is given buffer %d; the sequence has %d", name,
                       kernel->function->name, array->buffer, sequence->buffer_count);
    if (array->rank < 0 || array->rank > HR_SEQUENCE_RANK || (unsigned)array->dtype >= HR_DTYPE_COUNT)
        return hr_fail(HR_BAD_INPUT,
                       "the array for `%s` of kernel %s has %d axes, or no dtype; up to %d are possible",
                       name, kernel->function->name, array->rank, HR_SEQUENCE_RANK);
    return HR_OK;
}

hr_status hr_sequence_call(hr_sequence *sequence, hr_kernel *kernel, const hr_sequence_array *arrays,
                           int count) {
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
    HR_TRY(
        grow((void **)&sequence->calls, sequence->call_count, &sequence->call_room, sizeof *sequence->calls));
    int first = sequence->array_count;
    for (int i = 0; i < count; i++) {
        HR_TRY(array_check(sequence, kernel, i, &arrays[i]));
        HR_TRY(grow((void **)&sequence->arrays, first + i, &sequence->array_room, sizeof *sequence->arrays));
        sequence->arrays[first + i] = arrays[i];
    }
    for (int i = 0; i < count; i++) {
        if (arrays[i].buffer < 0) continue;
        buffer *used = &sequence->buffers[arrays[i].buffer];
        if (used->first < 0) used->first = sequence->call_count;
        used->last = sequence->call_count;
    }
    sequence->array_count += count;
    sequence->calls[sequence->call_count++] =
        (sequence_call){.kernel = kernel, .first = first, .count = count};
    sequence->planned = false;
    return HR_OK;
}

/* ---- places ---- */

static bool live_at_once(const buffer *a, const buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place where none of those that are needed at the same time lies; the largest ones come first. */
static size_t place_find(const hr_sequence *sequence, const int *order, int placed, const buffer *wanted) {
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < placed; i++) {
            const buffer *other = &sequence->buffers[order[i]];
            bool over = at < other->offset + other->size && other->offset < at + wanted->size;
            if (!over || !live_at_once(other, wanted)) continue;
            at = (other->offset + other->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
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

hr_status hr_sequence_plan(hr_sequence *sequence) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    int *order = hr_memory_take((size_t)(sequence->buffer_count + 1) * sizeof *order), count = 0;
    if (!order) return hr_fail(HR_OUT_OF_MEMORY, "no memory to plan a sequence");
    for (int i = 0; i < sequence->buffer_count; i++)
        if (sequence->buffers[i].first >= 0) order[count++] = i;
    order_by_size(sequence, order, count);
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        buffer *placed = &sequence->buffers[order[i]];
        placed->offset = place_find(sequence, order, i, placed);
        if (placed->offset + placed->size > size) size = placed->offset + placed->size;
    }
    free(order);
    if (size > sequence->arena_size || !sequence->arena) {
        void *arena;
        HR_TRY(hr_device_allocate(sequence->device, size ? size : ALIGNMENT, &arena));
        if (sequence->arena) hr_device_release(sequence->device, sequence->arena, sequence->arena_size);
        sequence->arena = arena;
        sequence->arena_size = size ? size : ALIGNMENT;
    }
    sequence->planned = true;
    return HR_OK;
}

/* ---- launching ---- */

typedef struct call_arrays {
    hr_array arrays[HR_EXECUTE_ARGUMENTS];
    int64_t shapes[HR_EXECUTE_ARGUMENTS][HR_SEQUENCE_RANK];
} call_arrays;

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

static hr_status array_make(const hr_sequence *sequence, const sequence_call *call, int i, int64_t step,
                            int64_t *shape, hr_array *out) {
    const hr_sequence_array *from = &sequence->arrays[call->first + i];
    const size_t element = hr_dtype_size(from->dtype);
    int64_t offset;
    char *data = from->data;
    HR_TRY(value_at(&from->offset, step, &offset));
    for (int axis = 0; axis < from->rank; axis++)
        HR_TRY(value_at(&from->shape[axis], step, &shape[axis]));
    if (from->buffer >= 0) {
        const buffer *used = &sequence->buffers[from->buffer];
        if (!lies_within(from, shape, offset, used->size / element))
            return hr_fail(
                HR_BAD_INPUT,
                "`%s` of kernel %s is given an array that does not lie in the %zu bytes of buffer %s",
                hr_kernel_tensor(call->kernel, i)->name, call->kernel->function->name, used->size,
                used->name);
        data = (char *)sequence->arena + used->offset;
    }
    if (data) data += offset * (int64_t)element;
    *out =
        (hr_array){sizeof *out, data, from->dtype, from->rank, shape, from->strided ? from->strides : NULL};
    return HR_OK;
}

static hr_status arrays_make(const hr_sequence *sequence, const sequence_call *call, int64_t step,
                             call_arrays *out) {
    for (int i = 0; i < call->count; i++)
        HR_TRY(array_make(sequence, call, i, step, out->shapes[i], &out->arrays[i]));
    return HR_OK;
}

void hr_sequence_watch(hr_sequence *sequence, hr_progress_fn progress, void *context) {
    sequence->progress = progress;
    sequence->progress_context = context;
}

static bool goes_on(const hr_sequence *sequence, int i) {
    return !sequence->progress ||
           sequence->progress(sequence->progress_context, sequence->calls[i].ran ? "running" : "preparing", i,
                              sequence->call_count);
}

hr_status hr_sequence_launch(hr_sequence *sequence, int64_t step) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    if (!sequence->planned) HR_TRY(hr_sequence_plan(sequence));
    call_arrays made;
    double before = hr_clock_seconds();
    sequence->step = step;
    for (int i = 0; i < sequence->call_count; i++) {
        sequence_call *call = &sequence->calls[i];
        if (!goes_on(sequence, i)) return hr_fail(HR_CANCELLED, "a launch of a sequence was stopped");
        hr_status status = arrays_make(sequence, call, step, &made);
        if (status == HR_OK) status = hr_kernel_execute(call->kernel, made.arrays, call->count, NULL);
        if (status != HR_OK)
            return hr_fail_context(status, "call %d of the sequence, kernel %s", i,
                                   call->kernel->function->name);
        double now = hr_clock_seconds();
        call->seconds += now - before;
        call->launches++;
        call->ran = true;
        before = now;
    }
    return HR_OK;
}

/* ---- what it does ---- */

int hr_sequence_call_count(const hr_sequence *sequence) {
    return hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) == HR_OK ? sequence->call_count : 0;
}

int64_t hr_sequence_launches(const hr_sequence *sequence) {
    return sequence->call_count > 0 ? sequence->calls[sequence->call_count - 1].launches : 0;
}

size_t hr_sequence_memory(const hr_sequence *sequence) {
    return hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) == HR_OK ? sequence->arena_size : 0;
}

hr_status hr_sequence_call_info(const hr_sequence *sequence, int i, const hr_roof *roof, hr_call_info *out) {
    HR_TRY(hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (i < 0 || i >= sequence->call_count)
        return hr_fail(HR_BAD_INPUT, "the sequence has %d calls, and there is none of number %d",
                       sequence->call_count, i);
    const sequence_call *call = &sequence->calls[i];
    call_arrays made;
    hr_work work;
    HR_TRY(arrays_make(sequence, call, sequence->step, &made));
    hr_call_info info = {
        .kernel = call->kernel->function->name, .seconds = call->seconds, .launches = call->launches};
    HR_TRY(hr_kernel_execute_work(call->kernel, made.arrays, call->count, roof, &work, &info.floor));
    info.bytes = work.bytes_read + work.bytes_written;
    *out = info;
    return HR_OK;
}

void hr_sequence_times_clear(hr_sequence *sequence) {
    if (hr_handle_check(sequence, HR_HANDLE_SEQUENCE, __func__) != HR_OK) return;
    for (int i = 0; i < sequence->call_count; i++) {
        sequence->calls[i].seconds = 0;
        sequence->calls[i].launches = 0;
    }
}
