/* Why the device stood idle, each moment of the counted steps once.
 *
 * In: joined works and calls, steps. Out: stretches of idle time with their cause, in order of time; the
 * account and the critical path both read them, so that they tell one story.
 *
 * Where work had been launched and did not begin, no host is to blame: it was queued behind the device,
 * behind another stream, an event, a peer, or work that was not recorded. Only the time in which nothing was
 * queued is the host's: its calls and the gaps between them, walked back from the call that ended the wait.
 */
#include "diagnose/analysis.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
    hr_analysis *analysis;
    int32_t call;
    int first; /* cause of this moment: they are found from the last one back */
} walk;

/* What follows a synchronisation until the device has work again is its doing. */
static void add_cause(walk *walk, int64_t from, int64_t to, hr_time_kind kind) {
    hr_analysis *analysis = walk->analysis;
    if (to <= from) return;
    if (kind == HR_TIME_SYNCHRONISATION)
        for (int i = walk->first; i < analysis->cause_count; i++)
            if (analysis->causes[i].kind == HR_TIME_LAUNCH)
                analysis->causes[i].kind = HR_TIME_SYNCHRONISATION;
    if (analysis->cause_count == analysis->cause_room) { /* what does not fit is one stretch with the last */
        analysis->causes[analysis->cause_count - 1].from = from;
        return;
    }
    analysis->causes[analysis->cause_count++] = (hr_cause){from, to, walk->call, (uint8_t)kind};
}

static void reverse(hr_analysis *analysis, int first) {
    for (int i = first, k = analysis->cause_count - 1; i < k; i++, k--) {
        hr_cause swap = analysis->causes[i];
        analysis->causes[i] = analysis->causes[k];
        analysis->causes[k] = swap;
    }
}

static int stretch_after(const hr_stretch *stretches, int count, int64_t time) {
    int low = 0, high = count; /* the first one that ends after `time` */
    while (low < high) {
        int middle = (low + high) / 2;
        if (stretches[middle].end <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cut_first_use(walk *walk, const hr_thread *thread, int64_t from, int64_t to, hr_time_kind rest) {
    const hr_stretch *stretches = thread->first_use;
    for (int i = stretch_after(stretches, thread->first_use_count, from);
         i < thread->first_use_count && stretches[i].start < to && from < to; i++) {
        int64_t start = stretches[i].start > from ? stretches[i].start : from;
        int64_t end = stretches[i].end < to ? stretches[i].end : to;
        if (end <= from) continue;
        add_cause(walk, from, start, rest);
        add_cause(walk, start, end, HR_TIME_FIRST_USE);
        from = end;
    }
    add_cause(walk, from, to, rest);
}

/* Host time between calls: waiting for data, loading code, the rest. */
static void cut_gap(walk *walk, const hr_thread *thread, int64_t from, int64_t to, hr_time_kind rest) {
    const hr_stretch *stretches = thread->loader;
    int first = walk->analysis->cause_count;
    for (int i = stretch_after(stretches, thread->loader_count, from);
         i < thread->loader_count && stretches[i].start < to && from < to; i++) {
        int64_t start = stretches[i].start > from ? stretches[i].start : from;
        int64_t end = stretches[i].end < to ? stretches[i].end : to;
        if (end <= from) continue;
        cut_first_use(walk, thread, from, start, rest);
        add_cause(walk, start, end, HR_TIME_LOADER);
        from = end;
    }
    cut_first_use(walk, thread, from, to, rest);
    reverse(walk->analysis, first); /* from the last one back, as all causes of a moment */
}

/* The first launch of a kernel that takes this long loads or compiles its code. */
#define LOADING_LAUNCH_NS 500000
#define BLOCKING_NS       20000 /* a copy that holds the host longer waits for the device, or moves the bytes */

static hr_time_kind copy_cause(const hr_analysis *analysis, const hr_host_call *call, int64_t from) {
    if (call->work < 0) return call->end - call->start < BLOCKING_NS ? HR_TIME_LAUNCH : HR_TIME_UNRECORDED;
    const hr_work *work = &analysis->works[call->work];
    if (work->kind != HR_TIME_HOST_LINK || call->end - call->start < BLOCKING_NS) return HR_TIME_LAUNCH;
    return work->end <= from + 1 && work->end - work->start < 10000 ? HR_TIME_SYNCHRONISATION
                                                                    : HR_TIME_HOST_LINK;
}

bool hr_is_first_use(const hr_analysis *analysis, const hr_host_call *call) {
    if (call->kind == HR_CALL_FIRST_USE) return true;
    return call->kind == HR_CALL_LAUNCH && call->end - call->start > LOADING_LAUNCH_NS && call->work >= 0 &&
           (analysis->works[call->work].flags & HR_WORK_FIRST);
}

static hr_time_kind call_cause(const hr_analysis *analysis, const hr_host_call *call, int64_t from) {
    bool waits = call->kind == HR_CALL_SYNCHRONISE || call->kind == HR_CALL_COPY;
    if (waits && call->work < 0 && call->after_lost) return HR_TIME_UNRECORDED;
    if (call->within & HR_RANGE_LOADER) return HR_TIME_LOADER;
    if (hr_is_first_use(analysis, call)) return HR_TIME_FIRST_USE;
    switch (call->kind) {
    case HR_CALL_SYNCHRONISE:
        return HR_TIME_SYNCHRONISATION;
    case HR_CALL_ALLOCATE:
        return HR_TIME_ALLOCATION;
    case HR_CALL_COPY:
        return copy_cause(analysis, call, from);
    default:
        return HR_TIME_LAUNCH;
    }
}

/* Host time between two calls. */
static hr_time_kind gap_cause(const hr_host_call *call) {
    int64_t own = call->gap - call->gap_loader - call->gap_first_use;
    if (call->after_lost) return HR_TIME_UNRECORDED;
    return own > HR_LAUNCH_GAP_NS || call->previous < 0 ? HR_TIME_HOST : HR_TIME_LAUNCH;
}

/* Back from call `at`, whose launch ended the wait at `to`. */
static void walk_host(walk *walk, int32_t at, int64_t from, int64_t to) {
    const hr_analysis *analysis = walk->analysis;
    while (at >= 0 && to > from) {
        const hr_host_call *call = &analysis->calls[at];
        const hr_thread *thread = &analysis->threads[analysis->thread_of[call->track]];
        walk->call = at;
        if (to > call->end) { /* only behind the last call of all: nothing is launched any more */
            int64_t since = call->end > from ? call->end : from;
            hr_time_kind rest = call->lost || call->after_lost  ? HR_TIME_UNRECORDED
                                : to - since > HR_LAUNCH_GAP_NS ? HR_TIME_HOST
                                                                : HR_TIME_LAUNCH;
            cut_gap(walk, thread, since, to, rest);
        }
        int64_t start = call->start > from ? call->start : from, end = call->end < to ? call->end : to;
        add_cause(walk, start, end, call_cause(analysis, call, start));
        if (to > call->start) to = call->start;
        if (to <= from) return;
        int64_t before = call->previous >= 0 ? analysis->calls[call->previous].end : from;
        if (before < from) before = from;
        cut_gap(walk, thread, before, to, gap_cause(call));
        if (before < to) to = before;
        at = call->previous;
    }
    add_cause(walk, from, to, HR_TIME_HOST);
}

/* ---- one wait of the device ---- */

#define LONGEST_GAP_NS 100000 /* from a kernel to the next one that was launched ahead */
#define FEW            8      /* launches that reached an idle device: they do not tell what is usual */

/* When the host had done its part for a work: the call has ended, or the work has begun. */
static int64_t given_at(const hr_analysis *analysis, const hr_work *work) {
    if (work->call < 0) return work->launched;
    int64_t end = analysis->calls[work->call].end;
    return end < work->start ? end : work->start;
}

static void find_causes(void *context, const hr_moment *moment) {
    hr_analysis *analysis = context;
    walk walk = {.analysis = analysis, .call = -1, .first = analysis->cause_count};
    if (moment->work >= 0) return;
    int64_t to = moment->to;
    int32_t pending = moment->next >= 0 ? analysis->pending[moment->next] : -1, call;
    if (pending >= 0) {
        const hr_work *work = &analysis->works[pending];
        int64_t given = given_at(analysis, work), since = given > moment->from ? given : moment->from;
        call = walk.call = work->call;
        bool ahead = given <= moment->from; /* then the device takes it as soon as it is free */
        int64_t usual = ahead && analysis->queued_ns > LONGEST_GAP_NS ? LONGEST_GAP_NS : analysis->queued_ns;
        hr_time_kind kind = to - since > usual ? HR_TIME_QUEUED : ahead ? HR_TIME_GAP : HR_TIME_LAUNCH;
        add_cause(&walk, since, to, kind);
        if (since < to) to = since;
    } else {
        call = moment->next < 0 ? hr_call_after(analysis, moment->to) - 1 : -1;
    }
    if (call >= 0)
        walk_host(&walk, call, moment->from, to);
    else
        add_cause(&walk, moment->from, to,
                  to - moment->from > analysis->queued_ns ? HR_TIME_UNRECORDED : HR_TIME_LAUNCH);
    reverse(analysis, walk.first);
}

/* ---- all of them ---- */

static int compare_times(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Longer than a launch usually takes to reach an idle device of this trace. */
static int64_t usual_latency(const hr_analysis *analysis) {
    enum { SAMPLES = 4096 };
    const int64_t least = 20000;
    int64_t *samples = hr_arena_alloc(analysis->arena, SAMPLES * sizeof *samples), idle = INT64_MIN;
    int count = 0;
    for (int i = 0; i < analysis->work_count && count < SAMPLES; i++) {
        const hr_work *work = &analysis->works[i];
        if (work->device != analysis->device) continue;
        if (work->call >= 0 && work->launched >= idle && work->start >= work->launched)
            samples[count++] = work->start - work->launched;
        if (work->end > idle) idle = work->end;
    }
    if (!count) return least;
    qsort(samples, (size_t)count, sizeof *samples, compare_times);
    int64_t usual = 3 * samples[count / 4], most = count < FEW ? LONGEST_GAP_NS : HR_LAUNCH_GAP_NS;
    return usual < least ? least : usual > most ? most : usual;
}

/* Of each work and those that begin later the one that was launched first. */
static void find_pending(hr_analysis *analysis) {
    int32_t first = -1;
    analysis->pending = hr_arena_alloc(analysis->arena, ((size_t)analysis->work_count + 1) * sizeof(int32_t));
    for (int32_t i = analysis->work_count - 1; i >= 0; i--) {
        const hr_work *work = &analysis->works[i];
        bool known = work->device == analysis->device && (work->call >= 0 || work->launched < work->start);
        if (known && (first < 0 || given_at(analysis, work) <= given_at(analysis, &analysis->works[first])))
            first = i;
        analysis->pending[i] = first;
    }
}

void hr_analysis_idle(hr_analysis *analysis) {
    const hr_steps *steps = &analysis->steps;
    analysis->queued_ns = usual_latency(analysis);
    find_pending(analysis);
    int stretches = 0;
    for (int i = 0; i < analysis->thread_count; i++)
        stretches += analysis->threads[i].loader_count + analysis->threads[i].first_use_count;
    analysis->cause_room = 6 * (analysis->call_count + analysis->work_count + stretches) + 64;
    analysis->causes =
        hr_arena_alloc(analysis->arena, (size_t)analysis->cause_room * sizeof *analysis->causes);
    hr_sweep(analysis, steps->items[0].start, steps->items[steps->count - 1].end, find_causes, analysis);
}

int hr_cause_after(const hr_analysis *analysis, int64_t time) {
    int low = 0, high = analysis->cause_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (analysis->causes[middle].to <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
