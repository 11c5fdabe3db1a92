/* A sequence as it is launched: what of a launch changed with the step goes into its replay, no more.
 *
 * Calls whose arrays and scalars are what they were cost nothing. The others are looked up as by
 * hr_kernel_execute, and what serves them is held as long as the replay has its code. Scratch is one block
 * for all calls, of which one at a time uses it. Where a device queues its work copies run beside calls, on
 * the host calls beside calls, ordered by the bytes that both use.
 */
#include "run/sequence_parts.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

/* On the host: a launch is over when it returns. */
static bool is_run(const hr_sequence *sequence) {
    return sequence->device->ops->replay->run != NULL;
}

static hr_status replay_get(hr_sequence *sequence) {
    const size_t items = (size_t)sequence->item_count + 1, arrays = (size_t)sequence->array_count + 1;
    if (sequence->replay) return HR_OK;
    sequence->seconds = hr_memory_zeros(items, sizeof *sequence->seconds);
    sequence->scalars = hr_memory_zeros(arrays, sizeof *sequence->scalars);
    const bool ordered = sequence->copy_count || is_run(sequence);
    if (ordered) sequence->ranges = hr_memory_zeros(arrays, sizeof *sequence->ranges);
    if (!sequence->seconds || !sequence->scalars || (ordered && !sequence->ranges))
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a sequence of %d calls", sequence->item_count);
    return sequence->device->ops->replay->create(sequence->device, sequence->item_count, &sequence->replay);
}

void hr_sequence_replay_drop(hr_sequence *sequence) {
    if (sequence->replay) sequence->device->ops->replay->destroy(sequence->replay);
    sequence->replay = NULL;
    for (int i = 0; i < sequence->item_count; i++) {
        hr_sequence_item *item = &sequence->items[i];
        if (item->shapes) hr_shapes_release(item->kernel->shapes, item->shapes);
        item->shapes = NULL;
        item->set = item->each = false;
    }
    free(sequence->ranges);
    free(sequence->seconds);
    free(sequence->scalars);
    sequence->ranges = NULL;
    sequence->scalars = NULL;
    sequence->seconds = NULL;
}

/* ---- one item ---- */

/* What is queued may use the block that goes; calls that were set with it are set again. */
static hr_status scratch_grow(hr_sequence *sequence, size_t size) {
    const hr_device_ops *ops = sequence->device->ops;
    if (size <= sequence->scratch_size) return HR_OK;
    if (ops->synchronise) HR_TRY(ops->synchronise(sequence->device));
    if (sequence->scratch) ops->release(sequence->device, sequence->scratch, sequence->scratch_size);
    sequence->scratch = NULL;
    sequence->scratch_size = 0;
    HR_TRY(ops->allocate(sequence->device, size, &sequence->scratch));
    sequence->scratch_size = size;
    for (int i = 0; i < sequence->item_count; i++)
        if (sequence->items[i].shapes && sequence->items[i].shapes->scratch_size > 0)
            sequence->items[i].set = false;
    return HR_OK;
}

typedef struct setting {
    hr_sequence *sequence;
    int i;
} setting;

static hr_status execution_set(void *context, const hr_shapes *shapes, const hr_execution *execution) {
    const setting *setting = context;
    hr_sequence *sequence = setting->sequence;
    struct hr_device *device = sequence->device;
    hr_execution given = *execution;
    HR_TRY(scratch_grow(sequence, (size_t)shapes->scratch_size));
    given.scratch = sequence->scratch;
    pthread_mutex_lock(&device->kernels_lock); /* a module has one place for the maps of its launches */
    hr_status status =
        device->ops->replay->set_launches(sequence->replay, setting->i, shapes->state->module, &given);
    pthread_mutex_unlock(&device->kernels_lock);
    return status;
}

static hr_status call_set(hr_sequence *sequence, int i, const hr_sequence_arrays *made) {
    hr_sequence_item *item = &sequence->items[i];
    setting setting = {sequence, i};
    hr_shapes *shapes;
    HR_TRY(hr_kernel_execute_by(item->kernel, made->arrays, item->count, execution_set, &setting, &shapes));
    if (item->shapes) hr_shapes_release(item->kernel->shapes, item->shapes);
    item->shapes = shapes;
    return HR_OK;
}

/* ---- which bytes an item uses ---- */

/* Whether the range is larger than it was. */
static bool range_note(const hr_array *array, hr_sequence_range *range) {
    const int64_t size = (int64_t)hr_dtype_size(array->dtype);
    const char *begin = array->data, *end = begin;
    int64_t dense = size;
    if (!begin || hr_shape_elements(array->rank, array->shape) == 0) return false;
    for (int axis = array->rank - 1; axis >= 0; axis--) {
        const int64_t way = (array->shape[axis] - 1) * (array->strides ? array->strides[axis] * size : dense);
        if (way < 0)
            begin += way;
        else
            end += way;
        dense *= array->shape[axis];
    }
    end += size;
    if (range->begin && range->begin <= begin && end <= range->end) return false;
    if (range->begin && range->begin < begin) begin = range->begin;
    if (range->begin && range->end > end) end = range->end;
    if (range->begin) end += end - begin; /* it grows with the step: not found anew at each */
    range->begin = begin;
    range->end = end;
    return true;
}

/* Whether one is larger than it was. */
static bool ranges_note(hr_sequence *sequence, const hr_sequence_item *item, const hr_sequence_arrays *made) {
    bool grown = false;
    for (int i = 0; i < item->count && sequence->ranges; i++) {
        hr_sequence_range *range = &sequence->ranges[item->first + i];
        if (item->kernel && hr_tensor_is_scalar(hr_kernel_tensor(item->kernel, i))) continue;
        range->written = hr_sequence_item_writes(item, i);
        grown |= range_note(&made->arrays[i], range);
    }
    return grown;
}

static int threads_of(const hr_sequence_item *item) {
    return item->shapes ? item->shapes->threads : 1;
}

static bool is_of_one(const hr_sequence_item *item) {
    return threads_of(item) == 1 && !item->each;
}

/* The device keeps their order itself. */
static bool are_in_order(const hr_sequence *sequence, const hr_sequence_item *a, const hr_sequence_item *b) {
    return is_run(sequence) ? is_of_one(a) && is_of_one(b) : !a->kernel == !b->kernel;
}

static bool has_scratch(const hr_sequence_item *item) {
    return item->shapes && item->shapes->scratch_size > 0;
}

static bool items_meet(const hr_sequence *sequence, const hr_sequence_item *a, const hr_sequence_item *b) {
    if (has_scratch(a) && has_scratch(b)) return true;
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < b->count; k++) {
            const hr_sequence_range *first = &sequence->ranges[a->first + i];
            const hr_sequence_range *second = &sequence->ranges[b->first + k];
            if (hr_sequence_is_own(sequence, a->first + i) || hr_sequence_is_own(sequence, b->first + k))
                continue;
            if ((first->written || second->written) && first->begin < second->end &&
                second->begin < first->end)
                return true;
        }
    return false;
}

/* The last one that an item meets, and that the device would not have before it anyhow, is all that it waits
 * for. Where threads wait, what is before it has ended for all that follow. */
static void order_find(const hr_sequence *sequence) {
    const hr_replay_ops *ops = sequence->device->ops->replay;
    for (int i = 0, ended = 0; i < sequence->item_count && sequence->ranges; i++) {
        const hr_sequence_item *item = &sequence->items[i];
        int after = i - 1;
        while (after >= ended && (are_in_order(sequence, item, &sequence->items[after]) ||
                                  !items_meet(sequence, item, &sequence->items[after])))
            after--;
        const bool waits = after >= ended;
        if (waits && is_run(sequence)) ended = i;
        ops->set_after(sequence->replay, i, waits ? after : HR_REPLAY_NOTHING);
    }
}

/* ---- all of them ---- */

static const char stopped[] = "a launch of a sequence was stopped";

/* What is run is watched then. *other: what it waits for may be others than before. */
static hr_status item_set(hr_sequence *sequence, int i, int64_t step, bool *other) {
    hr_sequence_item *item = &sequence->items[i];
    const int threads = threads_of(item);
    const bool scratch = has_scratch(item);
    hr_sequence_arrays made;
    if ((!item->ran || !is_run(sequence)) && !hr_sequence_goes_on(sequence, i))
        return hr_fail(HR_CANCELLED, stopped);
    item->set = true; /* unless scratch grows in a later one */
    hr_status status = hr_sequence_arrays_make(sequence, item, step, &made);
    if (status == HR_OK) *other |= ranges_note(sequence, item, &made);
    if (status == HR_OK && item->kernel) status = call_set(sequence, i, &made);
    if (status == HR_OK && !item->kernel)
        status = sequence->device->ops->replay->set_copy(sequence->replay, i, made.arrays[0].data,
                                                         made.arrays[1].data,
                                                         hr_sequence_copy_bytes(&made.arrays[0]));
    *other |= threads_of(item) != threads || has_scratch(item) != scratch;
    item->set &= status == HR_OK;
    item->ran |= item->set;
    return hr_sequence_item_fail(sequence, i, status);
}

/* Takes the values over; true where one is another than it was. */
static bool scalars_change(hr_sequence *sequence, const hr_sequence_item *item) {
    bool changed = false;
    for (int i = 0; i < item->count && item->has_scalars; i++) {
        const hr_sequence_array *array = &sequence->arrays[item->first + i];
        double *kept = &sequence->scalars[item->first + i], value;
        if (!hr_tensor_is_scalar(hr_kernel_tensor(item->kernel, i))) continue;
        value = array->data ? hr_dtype_load(array->dtype, array->data, 0) : item->kernel->bindings[i].given;
        changed |= memcmp(kept, &value, sizeof value) != 0;
        *kept = value;
    }
    return changed;
}

/* Scratch only grows, so this ends. */
static hr_status items_set(hr_sequence *sequence, int64_t step) {
    bool again = true; /* what threads have of their own has other places when it is found */
    HR_TRY(replay_get(sequence));
    for (int i = 0; i < sequence->item_count; i++) {
        hr_sequence_item *item = &sequence->items[i];
        const bool other = scalars_change(sequence, item) || (item->varies && step != sequence->set_step);
        item->set &= !other;
    }
    sequence->set_step = step;
    while (again) {
        again = false;
        for (int i = 0; i < sequence->item_count; i++) {
            if (sequence->items[i].set) continue;
            HR_TRY(item_set(sequence, i, step, &sequence->unordered));
            again = true;
        }
        if (!again && sequence->unordered && is_run(sequence)) HR_TRY(hr_sequence_own_find(sequence, &again));
    }
    if (sequence->unordered) order_find(sequence);
    sequence->unordered = false;
    return HR_OK;
}

/* ---- launching, where a launch is queued ---- */

hr_status hr_sequence_replay_prepare(hr_sequence *sequence, int64_t step) {
    HR_TRY(items_set(sequence, step));
    return is_run(sequence) ? HR_OK : sequence->device->ops->replay->ready(sequence->replay);
}

/* The sentence for what an earlier launch left. */
static hr_status fault_fail(const hr_sequence *sequence, int i) {
    struct hr_device *device = sequence->device;
    const hr_sequence_item *item = &sequence->items[i];
    hr_fault fault = {0};
    pthread_mutex_lock(&device->kernels_lock);
    device->ops->fault(device, item->shapes->state->module, &fault);
    pthread_mutex_unlock(&device->kernels_lock);
    return hr_fail_context(hr_launch_fault_fail(item->shapes->instance->kernel, item->shapes->state,
                                                item->shapes->extents, &fault),
                           "in an earlier launch");
}

/* Of the calls. */
static void times_take(hr_sequence *sequence) {
    for (int i = 0; i < sequence->item_count; i++) {
        sequence->items[i].seconds += sequence->seconds[i];
        sequence->items[i].timed++;
        sequence->calls_seconds += sequence->seconds[i];
    }
    sequence->timed_calls++;
}

static void launches_count(hr_sequence *sequence) {
    sequence->launches++;
    for (int i = 0; i < sequence->item_count; i++)
        sequence->items[i].launches++;
}

/* ---- and where it is run ---- */

/* A profiler sees a call as a range; the roof, which that tells, is read under the lock. */
static bool call_begins(void *context, int i) {
    const hr_sequence *sequence = context;
    const hr_sequence_item *item = &sequence->items[i];
    if (item->kernel && hr_range_heard()) {
        pthread_mutex_lock(&item->kernel->shapes->making);
        hr_annotate_begin(item->shapes->instance->kernel, item->shapes->state, item->shapes->extents);
        pthread_mutex_unlock(&item->kernel->shapes->making);
    }
    return hr_sequence_goes_on(sequence, i);
}

static void call_ends(void *context, int i) {
    const hr_sequence *sequence = context;
    if (sequence->items[i].kernel && hr_range_heard()) hr_annotate_end();
}

static hr_status run_fail(const hr_sequence *sequence, const hr_replay_run *run) {
    const hr_sequence_item *item = &sequence->items[run->faulty];
    return hr_sequence_item_fail(sequence, run->faulty,
                                 hr_launch_fault_fail(item->shapes->instance->kernel, item->shapes->state,
                                                      item->shapes->extents, &run->fault));
}

static hr_status all_run(hr_sequence *sequence) {
    const hr_replay_watch watch = {call_begins, call_ends, sequence};
    hr_replay_run run = {.seconds = sequence->seconds};
    const double begun = hr_clock_seconds();
    hr_status status = sequence->device->ops->replay->run(sequence->replay, &watch, &run);
    if (status == HR_OUT_OF_RANGE) return run_fail(sequence, &run);
    if (status == HR_CANCELLED) return hr_fail(HR_CANCELLED, stopped);
    HR_TRY(status);
    sequence->meetings = run.meetings;
    sequence->whole_seconds += hr_clock_seconds() - begun;
    sequence->timed_whole++;
    times_take(sequence);
    launches_count(sequence);
    return HR_OK;
}

/* ---- either ---- */

hr_status hr_sequence_replay_launch(hr_sequence *sequence, int64_t step) {
    int faulty;
    HR_TRY(items_set(sequence, step));
    if (is_run(sequence)) return all_run(sequence);
    hr_status status = sequence->device->ops->replay->launch(sequence->replay, &faulty);
    if (status == HR_OUT_OF_RANGE) return fault_fail(sequence, faulty);
    HR_TRY(status);
    launches_count(sequence);
    return HR_OK;
}

static hr_status calls_time(hr_sequence *sequence) {
    HR_TRY(sequence->device->ops->replay->time_items(sequence->replay, sequence->seconds));
    times_take(sequence);
    return HR_OK;
}

static hr_status whole_time(hr_sequence *sequence) {
    double seconds;
    HR_TRY(sequence->device->ops->replay->time_whole(sequence->replay, &seconds));
    if (!(seconds > 0)) return HR_OK;
    sequence->whole_seconds += seconds;
    sequence->timed_whole++;
    return HR_OK;
}

hr_status hr_sequence_replay_time(hr_sequence *sequence, int64_t step, hr_sequence_timing timing) {
    HR_TRY(items_set(sequence, step));
    if (is_run(sequence)) return all_run(sequence);
    HR_TRY(timing == HR_TIMING_CALLS ? calls_time(sequence) : whole_time(sequence));
    launches_count(sequence);
    return HR_OK;
}

void hr_sequence_replay_counts(const hr_sequence *sequence, hr_replay_counts *out) {
    if (sequence->replay && !is_run(sequence)) sequence->device->ops->replay->counts(sequence->replay, out);
}
