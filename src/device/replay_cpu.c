/* A list of launches and copies as one job of a team: its threads go through all items, each its part.
 *
 * Threads meet only before an item that begins behind one of those since they met last. What takes one thread
 * is the first one's alone, or each does it for itself, on memory of its own: that saves a meeting.
 *
 * In: executions, copies, an order between them. Out: all of them, done.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "device/device_cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct item {
    const hr_module *module; /* NULL: a copy, or nothing */
    hr_execution execution;
    void *tables; /* what the execution points to */
    size_t table_bytes;
    hr_work_share *shares; /* of its threads; NULL: none */
    int64_t share_count;
    void *to; /* of a copy */
    const void *from;
    size_t size;
    bool each; /* thread does it for itself */
    int after;
    int met;        /* the first item since the threads have met before this one; itself: they meet here */
    hr_fault fault; /* of the last run */
} item;

struct hr_replay {
    struct hr_device *device;
    item *items;
    int count;
    int64_t threads; /* of the item that has most */
    bool ordered;    /* `met` and `threads` are as the items are */
    const char *own; /* what each thread has of its own: */
    size_t own_size; /* the next one's is so many bytes behind it */
    /* A run: */
    const hr_replay_watch *watch;
    hr_replay_run *result;
    int last;            /* item that the first thread came to, */
    double begun;        /* and when */
    atomic_int unwanted; /* the item at which the watch wanted no more; `count`: none */
};

/* ---- making ---- */

static void replay_destroy(hr_replay *replay) {
    if (!replay) return;
    for (int i = 0; i < replay->count; i++) {
        free(replay->items[i].tables);
        free(replay->items[i].shares);
    }
    free(replay->items);
    free(replay);
}

static hr_status replay_create(struct hr_device *device, int count, hr_replay **out) {
    hr_replay *replay = hr_memory_zeros(1, sizeof *replay);
    if (replay) replay->items = hr_memory_zeros((size_t)count + 1, sizeof *replay->items);
    if (!replay || !replay->items) {
        free(replay);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a list of %d launches", count);
    }
    replay->device = device;
    replay->count = count;
    for (int i = 0; i < count; i++)
        replay->items[i].after = HR_REPLAY_NOTHING;
    *out = replay;
    return HR_OK;
}

/* ---- what an item does ---- */

static hr_status shares_make(item *item, int64_t count) {
    hr_work_share *shares = NULL;
    if (count == item->share_count) return HR_OK;
    if (count > 0) {
        shares = aligned_alloc(_Alignof(hr_work_share), (size_t)count * sizeof *shares);
        if (!shares) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a launch on several threads");
        memset(shares, 0, (size_t)count * sizeof *shares);
    }
    free(item->shares);
    item->shares = shares;
    item->share_count = count;
    return HR_OK;
}

static const void *table_add(char **at, const void *table, int64_t count) {
    const void *copy = *at;
    if (count) memcpy(*at, table, (size_t)count * sizeof(int64_t));
    *at += (size_t)count * sizeof(int64_t);
    return copy;
}

/* The emitted code reads four tables. */
static hr_status replay_set_launches(hr_replay *replay, int i, struct hr_module *module,
                                     const hr_execution *execution) {
    item *item = &replay->items[i];
    const int64_t words = 2 * execution->count + execution->extent_count + execution->stride_count;
    const size_t bytes = (size_t)(words + 1) * sizeof(int64_t);
    if (bytes > item->table_bytes) {
        void *tables = hr_memory_resize(item->tables, bytes);
        if (!tables) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a launch");
        item->tables = tables;
        item->table_bytes = bytes;
    }
    HR_TRY(shares_make(item, module->shares * execution->threads));
    char *at = item->tables;
    item->execution = *execution;
    item->execution.pointers = table_add(&at, execution->pointers, execution->count);
    item->execution.scalars = table_add(&at, execution->scalars, execution->count);
    item->execution.extents = table_add(&at, execution->extents, execution->extent_count);
    item->execution.strides = table_add(&at, execution->strides, execution->stride_count);
    item->module = module;
    replay->ordered = false;
    return HR_OK;
}

static hr_status replay_set_copy(hr_replay *replay, int i, void *to, const void *from, size_t size) {
    item *item = &replay->items[i];
    item->module = NULL;
    item->to = to;
    item->from = from;
    item->size = size;
    replay->ordered = false;
    return HR_OK;
}

static void replay_set_after(hr_replay *replay, int i, int after) {
    replay->items[i].after = after;
    replay->ordered = false;
}

static void replay_set_each(hr_replay *replay, int i, bool each) {
    replay->items[i].each = each;
}

static void replay_set_own(hr_replay *replay, const void *own, size_t size) {
    replay->own = own;
    replay->own_size = size;
}

/* ---- a part of a run ---- */

static int64_t threads_of(const item *item) {
    return item->module ? item->execution.threads : 1;
}

/* Part `part` of `parts`, by a thread of the run that has its own of what each has. Stages of the code have
 * their shares one behind the other, as many as it is told of threads: one, where a thread does all. */
static void launch_run(const hr_replay *replay, item *item, int64_t thread, hr_work_share *shares,
                       int64_t part, int64_t parts) {
    hr_execution execution = item->execution;
    execution.threads = parts;
    char *pointers[execution.count + 1];
    for (int64_t i = 0; i < execution.count; i++) {
        pointers[i] = execution.pointers[i];
        if ((uintptr_t)pointers[i] - (uintptr_t)replay->own < replay->own_size)
            pointers[i] += (size_t)thread * replay->own_size;
    }
    execution.pointers = (void *const *)pointers;
    item->module->part(&execution, &item->fault, shares, part, parts);
}

typedef struct lone {
    const hr_replay *replay;
    item *item;
    int64_t thread;
} lone;

static void lone_run(void *context, int64_t part, int64_t parts) {
    const lone *of = context;
    if (of->item->module) {
        hr_work_share shares[of->item->module->shares + 1];
        memset(shares, 0, sizeof shares);
        launch_run(of->replay, of->item, of->thread, shares, part, parts);
    } else if (of->item->size)
        memmove(of->item->to, of->item->from, of->item->size);
}

/* All threads have ended it: each puts its own shares back. */
static void shares_clear(const item *item, int64_t part) {
    const int64_t threads = threads_of(item);
    for (int64_t i = part; i < item->share_count && part < threads; i += threads)
        item->shares[i].taken = 0;
}

/* Whether something has happened in items `from` to `to` - 1, behind which nothing more shall be done. All
 * threads come to the same, for these have ended. */
static bool is_over(hr_replay *replay, int from, int to) {
    bool over = atomic_load_explicit(&replay->unwanted, memory_order_relaxed) < to;
    for (int i = from; i < to && !over; i++)
        over = replay->items[i].fault.access != 0;
    return over;
}

/* Before item `i`. False: it is not to be run. */
static bool threads_meet(hr_replay *replay, int i, int64_t part) {
    const int from = replay->items[i - 1].met;
    hr_team_wait();
    if (is_over(replay, from, i)) return false;
    for (int k = from; k < i; k++)
        shares_clear(&replay->items[k], part);
    return true;
}

static void last_ends(hr_replay *replay, double now) {
    if (replay->last == HR_REPLAY_NOTHING) return;
    replay->result->seconds[replay->last] = now - replay->begun;
    replay->watch->ends(replay->watch->context, replay->last);
}

/* By the first thread, which has run what was before it. */
static void item_begins(hr_replay *replay, int i) {
    const double now = hr_clock_seconds();
    last_ends(replay, now);
    replay->last = i;
    replay->begun = now;
    if (!replay->watch->begins(replay->watch->context, i) && atomic_load(&replay->unwanted) == replay->count)
        atomic_store(&replay->unwanted, i);
}

/* What is the first thread's alone is a job of one part: others do not come to where its parts would meet. */
static void run_part(void *context, int64_t part, int64_t parts) {
    hr_replay *replay = context;
    for (int i = 0; i < replay->count; i++) {
        item *item = &replay->items[i];
        if (i > 0 && item->met == i && !threads_meet(replay, i, part)) return;
        if (part == 0) item_begins(replay, i);
        if (parts == 1 && is_over(replay, i > 0 ? i - 1 : 0, i + 1)) return;
        if (threads_of(item) >= parts && parts > 1 && !item->each)
            launch_run(replay, item, part, item->shares, part, parts);
        else if (part == 0 || item->each)
            hr_team_run(1, lone_run, &(lone){replay, item, part});
    }
}

/* ---- a run ---- */

static void order(hr_replay *replay) {
    int met = 0;
    replay->threads = 1;
    for (int i = 0; i < replay->count; i++) {
        item *item = &replay->items[i];
        if (item->after >= met) met = i;
        item->met = met;
        if (!item->each && threads_of(item) > replay->threads) replay->threads = threads_of(item);
    }
    replay->ordered = true;
}

static hr_status result_take(hr_replay *replay, hr_replay_run *out) {
    for (int i = 0; i < replay->count; i++) {
        const item *item = &replay->items[i];
        out->meetings += i > 0 && item->met == i && replay->threads > 1;
        if (!item->fault.access || out->faulty != HR_REPLAY_NOTHING) continue;
        out->faulty = i;
        out->fault = item->fault;
    }
    if (out->faulty != HR_REPLAY_NOTHING)
        return hr_fail(HR_OUT_OF_RANGE, "a subscript of a launch left its axis");
    return atomic_load(&replay->unwanted) < replay->count ? hr_fail(HR_CANCELLED, "a list was stopped")
                                                          : HR_OK;
}

static hr_status replay_run(hr_replay *replay, const hr_replay_watch *watch, hr_replay_run *out) {
    if (!replay->ordered) order(replay);
    for (int i = 0; i < replay->count; i++)
        replay->items[i].fault = (hr_fault){0};
    *out = (hr_replay_run){.faulty = HR_REPLAY_NOTHING, .seconds = out->seconds};
    replay->watch = watch;
    replay->result = out;
    replay->last = HR_REPLAY_NOTHING;
    atomic_store(&replay->unwanted, replay->count);
    hr_device_cpu_parts(replay->device, replay->threads, run_part, replay);
    last_ends(replay, hr_clock_seconds());
    for (int i = replay->last; i >= 0 && i >= replay->items[replay->last].met; i--)
        for (int64_t part = 0; part < threads_of(&replay->items[i]); part++)
            shares_clear(&replay->items[i], part);
    return result_take(replay, out);
}

const hr_replay_ops hr_replay_cpu = {
    .create = replay_create,
    .destroy = replay_destroy,
    .set_launches = replay_set_launches,
    .set_copy = replay_set_copy,
    .set_after = replay_set_after,
    .set_each = replay_set_each,
    .set_own = replay_set_own,
    .run = replay_run,
};
