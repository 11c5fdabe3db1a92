/* The kernel against its own text: sampled elements in f64 from the operands as they are, and all elements
 * against those of a version that shares nothing with it but the text. docs/check.md says what each finds.
 *
 * In: a prepared kernel on its bound arrays. Out: how far the worst element is off, and where. The results
 * hold one execution afterwards, inout arrays as well.
 */
#define _GNU_SOURCE
#include "base/handle.h"
#include "run/check.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "run/check_compare.h"
#include "run/check_guard.h"
#include "run/check_sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_MOST     (32 << 20) /* bytes of inout arrays that are copied so that the kernel can run twice */
#define WINDOW_LEAST  (8 << 20)  /* bytes of the other version's results that are looked at together */
#define WINDOW_MOST   (16 << 20)
#define WINDOW_PART   4   /* of all results, else */
#define SUSPICIOUS    0.5 /* a score below is what rounding does */
#define SUSPECTS_MOST 24  /* a tensor, whose meaning is asked, the worst first */
#define JUDGE_SECONDS 1.0
#define ALL_SECONDS   60.0

/* Elements [from, to) of a tensor, and a copy of them. */
typedef struct window {
    int tensor;
    int64_t from, to;
    char *copy; /* memory of the device */
} window;

typedef struct suspect {
    double score, got;
    int64_t element;
} suspect;

typedef struct comparison {
    hr_kernel *kernel;
    const hr_checking *checking;
    hr_samples *samples;
    hr_check *check;
    hr_keeping keeping;
    char *buffer, *gathered; /* memory of the device; gathered: of one window of an array with gaps */
    size_t buffer_size;
    window *windows;   /* one a tensor */
    suspect *suspects; /* SUSPECTS_MOST a tensor, the worst first */
    double begun;
} comparison;

/* ---- one execution ---- */

static hr_status launch(hr_kernel *kernel, const hr_prepared *prepared) {
    HR_TRY(hr_launch_refresh(kernel, prepared));
    HR_TRY(hr_guard_poison(kernel));
    return hr_launch_once(kernel, prepared);
}

static hr_status restore(comparison *c) {
    return hr_keeping_restore(c->kernel, &c->keeping, c->checking->restore, c->checking->restore_context);
}

/* ---- which elements ---- */

/* How many of the tensor's elements, from its first on, both versions make. */
static int64_t elements_of(const comparison *c, int i) {
    const hr_function *function = c->kernel->function;
    const hr_tensor *tensor = hr_kernel_tensor(c->kernel, i);
    const hr_binding *binding = &c->kernel->bindings[i];
    bool part = false, cut = false;
    int64_t elements = 1;
    for (int e = 0; e < function->extent_count; e++)
        part |= c->checking->other->extents[e] != c->checking->prepared->extents[e];
    if (!hr_kernel_writes(c->kernel, i)) return 0;
    if (!hr_device_memory_is_host(c->kernel->device) && !hr_binding_is_dense(tensor, binding)) return 0;
    for (int axis = 0; axis < tensor->rank; axis++) {
        int64_t size = 0;
        if (hr_extent_value(function, tensor->shape[axis], c->checking->other->extents, &size) != HR_OK)
            return 0;
        cut |= size != binding->shape[axis];
        elements *= size;
    }
    return part && !cut ? 0 : elements; /* a sum over a part is another one */
}

static size_t size_of(const comparison *c, int i) {
    return hr_dtype_size(hr_kernel_tensor(c->kernel, i)->dtype);
}

static void subscripts_of(const comparison *c, int i, int64_t element, int64_t *subscripts) {
    const hr_binding *binding = &c->kernel->bindings[i];
    for (int axis = hr_kernel_tensor(c->kernel, i)->rank; axis-- > 0; element /= binding->shape[axis])
        subscripts[axis] = element % binding->shape[axis];
}

/* The next windows of all tensors, as many as the buffer holds; false where all have been looked at. */
static bool windows_next(comparison *c) {
    size_t used = 0;
    for (int i = 0; i < c->kernel->argument_count; i++) {
        window *w = &c->windows[i];
        const int64_t all = elements_of(c, i), size = (int64_t)size_of(c, i);
        w->from = w->to;
        int64_t room = (int64_t)((c->buffer_size - used) / (size_t)size) / 64 * 64;
        w->to = all - w->from < room ? all : w->from + room;
        w->copy = c->buffer + used;
        used += ((size_t)(w->to - w->from) * (size_t)size + 255) / 256 * 256;
        if (used > c->buffer_size) used = c->buffer_size;
    }
    return used > 0;
}

/* ---- copying ---- */

/* The elements of a window out of an array with gaps. */
static void gather(const comparison *c, const window *w, char *out) {
    const hr_tensor *tensor = hr_kernel_tensor(c->kernel, w->tensor);
    const hr_binding *binding = &c->kernel->bindings[w->tensor];
    const size_t size = size_of(c, w->tensor);
    int64_t subscripts[HR_RANK_MAX] = {0};
    subscripts_of(c, w->tensor, w->from, subscripts);
    for (int64_t e = w->from; e < w->to; e++, out += size) {
        int64_t offset = 0;
        for (int axis = 0; axis < tensor->rank; axis++)
            offset += subscripts[axis] * binding->strides[axis];
        memcpy(out, hr_binding_element(tensor, binding, offset), size);
        for (int axis = tensor->rank; axis-- > 0;) {
            if (++subscripts[axis] < binding->shape[axis]) break;
            subscripts[axis] = 0;
        }
    }
}

static bool is_dense(const comparison *c, int i) {
    return hr_binding_is_dense(hr_kernel_tensor(c->kernel, i), &c->kernel->bindings[i]);
}

static hr_status windows_save(comparison *c) {
    const hr_device_ops *ops = c->kernel->device->ops;
    for (int i = 0; i < c->kernel->argument_count; i++) {
        const window *w = &c->windows[i];
        const size_t size = size_of(c, i), bytes = (size_t)(w->to - w->from) * size;
        const char *data = (const char *)c->kernel->bindings[i].data + w->from * (int64_t)size;
        if (!bytes) continue;
        if (!is_dense(c, i))
            gather(c, w, w->copy);
        else if (ops->copy)
            HR_TRY(ops->copy(c->kernel->device, w->copy, data, bytes));
        else
            memcpy(w->copy, data, bytes);
    }
    return HR_OK;
}

/* ---- comparing ---- */

static void suspect_add(comparison *c, int tensor, suspect one) {
    suspect *list = &c->suspects[tensor * SUSPECTS_MOST];
    int place = SUSPECTS_MOST;
    while (place > 0 && one.score > list[place - 1].score)
        place--;
    if (place == SUSPECTS_MOST) return;
    memmove(list + place + 1, list + place, (size_t)(SUSPECTS_MOST - 1 - place) * sizeof *list);
    list[place] = one;
}

static hr_status window_compare(comparison *c, int i) {
    const window *w = &c->windows[i];
    const hr_dtype dtype = hr_kernel_tensor(c->kernel, i)->dtype;
    const size_t size = size_of(c, i);
    hr_comparing comparing = {.dtype = dtype,
                              .got = (const char *)c->kernel->bindings[i].data + w->from * (int64_t)size,
                              .expected = w->copy,
                              .count = w->to - w->from,
                              .error = hr_samples_error(c->samples, i)};
    hr_suspect worst[HR_COMPARE_BLOCKS] = {{0}};
    if (comparing.count == 0) return HR_OK;
    if (!is_dense(c, i)) {
        gather(c, w, c->gathered);
        comparing.got = c->gathered;
    }
    if (hr_device_memory_is_host(c->kernel->device))
        hr_compare_host(&comparing, worst);
    else
        HR_TRY(hr_compare_cuda(c->kernel, &comparing, worst));
    for (int b = 0; b < HR_COMPARE_BLOCKS; b++) {
        uint64_t bits = 0;
        if (!(worst[b].score > SUSPICIOUS)) continue;
        HR_TRY(hr_device_download(c->kernel->device, &bits,
                                  (const char *)comparing.got + worst[b].at * (int64_t)size, size));
        suspect_add(c, i, (suspect){worst[b].score, hr_dtype_load(dtype, &bits, 0), w->from + worst[b].at});
    }
    c->check->compared += comparing.count;
    return HR_OK;
}

/* The other version's elements, then those of one more execution: window after window. */
static hr_status windows_compare(comparison *c) {
    bool first = true;
    while (windows_next(c)) {
        if (!first && hr_clock_seconds() - c->begun > ALL_SECONDS) return HR_OK;
        if (c->checking->progress && !c->checking->progress(c->checking->progress_context, "comparing", 0, 0))
            return hr_fail(HR_CANCELLED, "checking was stopped");
        HR_TRY(restore(c));
        if (launch(c->kernel, c->checking->other) != HR_OK) return restore(c); /* of a part: see run.c */
        HR_TRY(windows_save(c));
        HR_TRY(restore(c));
        HR_TRY(launch(c->kernel, c->checking->prepared));
        for (int i = 0; i < c->kernel->argument_count; i++)
            HR_TRY(window_compare(c, i));
        first = false;
    }
    return HR_OK;
}

/* ---- judging ---- */

static hr_status suspects_judge(comparison *c) {
    double begun = hr_clock_seconds();
    for (int rank = 0; rank < SUSPECTS_MOST; rank++)
        for (int i = 0; i < c->kernel->argument_count; i++) {
            const suspect *one = &c->suspects[i * SUSPECTS_MOST + rank];
            int64_t subscripts[HR_RANK_MAX] = {0};
            if (!(one->score > 0)) continue;
            if (rank >= 4 && hr_clock_seconds() - begun > JUDGE_SECONDS) return HR_OK;
            subscripts_of(c, i, one->element, subscripts);
            HR_TRY(hr_samples_judge(c->samples, i, subscripts, one->got, c->check));
        }
    return HR_OK;
}

/* Old values where the meaning is asked, and then one more execution. */
static hr_status suspects_settle(comparison *c) {
    bool any = false;
    for (int i = 0; i < c->kernel->argument_count * SUSPECTS_MOST; i++)
        any |= c->suspects[i].score > 0;
    if (any) {
        HR_TRY(restore(c));
        HR_TRY(suspects_judge(c));
    }
    HR_TRY(restore(c));
    HR_TRY(launch(c->kernel, c->checking->prepared));
    return hr_samples_compare(c->samples, c->check);
}

/* ---- all elements ---- */

/* Whether the inout arrays can be brought back with little memory. */
static bool can_run_twice(const hr_kernel *kernel, const hr_checking *checking) {
    double bytes = 0;
    for (int i = 0; i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        if (tensor->role == HR_ROLE_INOUT && !kernel->bindings[i].owned && !checking->restore)
            bytes += (double)hr_shape_elements(tensor->rank, kernel->bindings[i].shape) *
                     (double)hr_dtype_size(tensor->dtype);
    }
    return bytes <= KEEP_MOST;
}

static hr_status comparison_begin(comparison *c) {
    const size_t count = (size_t)c->kernel->argument_count + 1;
    const hr_device_ops *ops = c->kernel->device->ops;
    double bytes = 256;
    c->begun = hr_clock_seconds();
    c->windows = calloc(count, sizeof *c->windows);
    c->suspects = calloc(count * SUSPECTS_MOST, sizeof *c->suspects);
    if (!c->windows || !c->suspects) return hr_fail(HR_OUT_OF_MEMORY, "no memory to compare all elements");
    bool gaps = false;
    for (int i = 0; i < c->kernel->argument_count; i++) {
        c->windows[i].tensor = i;
        bytes += (double)elements_of(c, i) * (double)size_of(c, i) + 512;
        gaps |= !is_dense(c, i);
    }
    const bool host = hr_device_memory_is_host(c->kernel->device);
    const double window = fmax(WINDOW_LEAST, fmin(WINDOW_MOST, bytes / WINDOW_PART));
    c->buffer_size = (size_t)fmin(bytes, host ? window : 1 << 30);
    HR_TRY(ops->allocate(c->kernel->device, c->buffer_size, (void **)&c->buffer));
    return gaps && host ? ops->allocate(c->kernel->device, c->buffer_size, (void **)&c->gathered) : HR_OK;
}

static void comparison_end(comparison *c) {
    const hr_device_ops *ops = c->kernel->device->ops;
    if (c->buffer) ops->release(c->kernel->device, c->buffer, c->buffer_size);
    if (c->gathered) ops->release(c->kernel->device, c->gathered, c->buffer_size);
    free(c->windows);
    free(c->suspects);
}

/* After a first execution, whose inout arrays `keeping` can bring back. */
static hr_status compare_all(comparison *c) {
    hr_status status = comparison_begin(c);
    if (status == HR_OK) status = windows_compare(c);
    if (status == HR_OK) status = suspects_settle(c);
    comparison_end(c);
    return status;
}

/* ---- all of it ---- */

static hr_status inputs_compare(hr_kernel *kernel, const uint64_t *before, uint64_t *after, hr_check *out) {
    HR_TRY(hr_guard_digest(kernel, after));
    for (int i = 0; i < kernel->argument_count; i++) {
        if (before[i] == after[i]) continue;
        out->ok = false;
        snprintf(out->where, sizeof out->where, "the kernel overwrites its input `%.64s`",
                 hr_kernel_tensor(kernel, i)->name);
    }
    return HR_OK;
}

static hr_status check(comparison *c, uint64_t *digests) {
    hr_kernel *kernel = c->kernel;
    const hr_checking *checking = c->checking;
    const bool twice = checking->other && can_run_twice(kernel, checking);
    HR_TRY(hr_launch_refresh(kernel, checking->prepared));
    if (twice) HR_TRY(hr_keeping_begin(kernel, checking->restore, &c->keeping));
    if (twice) HR_TRY(restore(c)); /* what hr_kernel_fill made is filled again */
    HR_TRY(hr_samples_create(kernel, checking->prepared, checking->points, checking->progress,
                             checking->progress_context, &c->samples));
    if (checking->other) HR_TRY(hr_guard_digest(kernel, digests));
    HR_TRY(hr_guard_poison(kernel));
    HR_TRY(hr_samples_poison(c->samples));
    HR_TRY(hr_launch_once(kernel, checking->prepared));
    HR_TRY(hr_samples_compare(c->samples, c->check));
    if (twice) HR_TRY(compare_all(c));
    if (checking->other) HR_TRY(inputs_compare(kernel, digests, digests + kernel->argument_count, c->check));
    return hr_samples_explain(c->samples, c->check);
}

hr_status hr_check_run(hr_kernel *kernel, const hr_checking *checking, hr_check *out) {
    hr_check made = {.ok = true};
    comparison c = {.kernel = kernel, .checking = checking, .check = &made};
    if (hr_kernel_has_lists(kernel))
        return hr_fail(HR_BAD_INPUT, "kernel %s is bound to lists of arrays: a check takes whole ones",
                       kernel->function->name);
    uint64_t *digests = calloc(2 * (size_t)kernel->argument_count + 1, sizeof *digests);
    if (!digests) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check kernel %s", kernel->function->name);
    hr_status status = check(&c, digests);
    hr_keeping_end(kernel, &c.keeping);
    hr_samples_destroy(c.samples);
    free(digests);
    if (status == HR_OK) *out = made;
    return status;
}

static hr_status kernel_check(hr_kernel *kernel, int64_t points, bool all, hr_check *out) {
    hr_preparing preparing = {.tune = HR_TUNE_NONE, .unfused = kernel->unfused, .threads = kernel->threads};
    hr_checking checking = {.points = points};
    hr_prepared *state, *other = NULL;
    if (all && hr_kernel_unfused(kernel, kernel->threads, &other) == HR_OK) checking.other = other;
    HR_TRY(hr_kernel_ready(kernel, &preparing, &state));
    checking.prepared = state;
    hr_status status = hr_check_run(kernel, &checking, out);
    kernel->current = state;
    return status;
}

hr_status hr_kernel_check(hr_kernel *kernel, int64_t points, hr_check *out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    return kernel_check(kernel, points, false, out);
}

hr_status hr_kernel_check_all(hr_kernel *kernel, hr_check *out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    return kernel_check(kernel, 0, true, out);
}
