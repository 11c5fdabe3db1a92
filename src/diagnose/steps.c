/* Where the steps of a program are.
 *
 * In: joined works and calls. Out: steps, one after the other without gap. Tried in this order: ranges that
 * the profiler or the program marks (steps_marked.c), the optimizer's ranges, repetition of the sequence of
 * kernels (steps_repeated.c), one range that holds the work, all of the work.
 *
 * The host runs ahead of the device, so a step has two beginnings. On the device it begins when the host
 * began it and all that was launched before has ended: then durations are those of the device where it is the
 * slower one, and those of the host where the device waits for it.
 *
 * Every figure of a step is a mean over the steps that count, so that they add up; how the steps differ
 * stands beside it.
 */
#include "diagnose/analysis.h"

#include <stdlib.h>
#include <string.h>

#define BEHIND_NS 1000000 /* no launch takes so long to reach an idle device */

/* ---- when work was launched ---- */

static int compare_times(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Work whose call is not in the file waited in its queue as long as the last work before it of which that is
 * known; where there is none, it was launched before the recording began. A trace without any calls knows
 * nothing better than the beginning of the work. */
static void set_launch_times(hr_analysis *analysis) {
    size_t tracks = (size_t)analysis->trace->tracks.count;
    int32_t *last = hr_arena_alloc(analysis->arena, tracks * sizeof *last);
    bool *known = hr_arena_alloc(analysis->arena, tracks * sizeof *known);
    for (size_t i = 0; i < tracks; i++)
        last[i] = -1;
    for (int i = 0; i < analysis->work_count; i++)
        known[analysis->works[i].stream] |= analysis->works[i].call >= 0;
    for (int i = 0; i < analysis->work_count; i++) {
        hr_work *work = &analysis->works[i];
        int32_t before = last[work->stream];
        if (work->call >= 0) {
            work->launched = analysis->calls[work->call].start;
            last[work->stream] = i;
        } else if (before >= 0)
            work->launched = work->start - (analysis->works[before].start - analysis->works[before].launched);
        else
            work->launched = known[work->stream] ? HR_BEFORE_TRACE : work->start;
    }
    analysis->launch_times =
        hr_arena_alloc(analysis->arena, (size_t)analysis->work_count * sizeof *analysis->launch_times);
    for (int i = 0; i < analysis->work_count; i++)
        analysis->launch_times[i] = analysis->works[i].launched;
    if (analysis->work_count)
        qsort(analysis->launch_times, (size_t)analysis->work_count, sizeof *analysis->launch_times,
              compare_times);
}

double hr_launched_part(const hr_analysis *analysis, int64_t from, int64_t to) {
    int count = analysis->work_count;
    if (!count) return 1;
    int first = hr_time_after(analysis->launch_times, count, from);
    return (double)(hr_time_after(analysis->launch_times, count, to) - first) / count;
}

/* ---- from boundaries to steps ---- */

static int step_at(const int64_t *bounds, int count, int64_t time) {
    int low = 0, high = count + 1; /* boundaries: count + 1 */
    while (low < high) {
        int middle = (low + high) / 2;
        if (bounds[middle] <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1 < count ? low - 1 : -1; /* before the first one: -1 */
}

static int compare_durations(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static double step_seconds(const hr_step *step) {
    return (double)(step->end - step->start) * 1e-9;
}

static double median_from(const hr_step *items, int first, int count, double *scratch) {
    for (int i = first; i < count; i++)
        scratch[i - first] = step_seconds(&items[i]);
    qsort(scratch, (size_t)(count - first), sizeof *scratch, compare_durations);
    return scratch[(count - first - 1) / 2];
}

/* The steps up to the last one in which the recorder read counters: while it does, the program stands still.
 * Two steps at least are left, else the measured times say nothing and all are kept. */
static int halted_steps(const hr_analysis *analysis, const int64_t *bounds, int count) {
    const hr_trace *trace = analysis->trace;
    int halted = 0;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind != HR_EVENT_OVERHEAD || event->track < 0 ||
            trace->tracks.items[event->track].rank != analysis->rank)
            continue;
        int step = step_at(bounds, count, event->start + event->duration);
        bool leaves = step + 1 <= count - 2 && step + 1 <= count - count / 4;
        if (leaves && step >= halted &&
            strcmp(hr_trace_string(trace, event->name), HR_OVERHEAD_COUNTERS) == 0)
            halted = step + 1;
    }
    return halted;
}

/* Steps of two lengths: the sorted durations fall apart at their widest gap above the median, and the longer
 * ones cost what a mean must show. */
static void split_modes(hr_steps *steps, const double *sorted, int count) {
    int split = -1;
    double widest = 0, slow = 0, usual = 0;
    for (int i = (count + 1) / 2; i < count; i++)
        if (sorted[i] - sorted[i - 1] > widest) {
            widest = sorted[i] - sorted[i - 1];
            split = i;
        }
    if (split < 0) return;
    for (int i = 0; i < count; i++)
        *(i < split ? &usual : &slow) += sorted[i] / (i < split ? split : count - split);
    bool apart = slow > 1.25 * usual && widest > 0.5 * (slow - usual);
    if (!apart || (slow - usual) * (count - split) < 0.03 * steps->mean * count) return;
    steps->slow_count = count - split;
    steps->slow = slow;
    steps->usual = usual;
}

static void summarise(hr_steps *steps, double *scratch) {
    while (steps->count - steps->first >= 3 &&
           steps->first < steps->halted + (steps->count - steps->halted) / 2 &&
           step_seconds(&steps->items[steps->first]) >
               1.5 * median_from(steps->items, steps->first + 1, steps->count, scratch))
        steps->first++;
    int counted = steps->count - steps->first;
    steps->median = median_from(steps->items, steps->first, steps->count, scratch);
    steps->min = scratch[0];
    steps->max = scratch[counted - 1];
    steps->mean =
        (double)(steps->items[steps->count - 1].end - steps->items[steps->first].start) * 1e-9 / counted;
    for (int i = steps->count - 1; i >= steps->first; i--)
        if (step_seconds(&steps->items[i]) == steps->median) steps->chosen = i;
    split_modes(steps, scratch, counted);
}

static bool launches_nothing(const hr_analysis *analysis, int64_t from, int64_t to) {
    for (int i = hr_call_after(analysis, from); i < analysis->call_count && analysis->calls[i].start < to;
         i++) {
        hr_call_class kind = (hr_call_class)analysis->calls[i].kind;
        if (kind == HR_CALL_LAUNCH || kind == HR_CALL_GRAPH_LAUNCH || kind == HR_CALL_COPY) return false;
    }
    return hr_launched_part(analysis, from, to) <= 0;
}

/* A profiler begins and stops with a step in which nothing is launched: one at either end counts for none. */
static void trim(const hr_analysis *analysis, hr_bounds *bounds) {
    if (!analysis->call_count) return;
    int last = bounds->count;
    if (last > 1 && launches_nothing(analysis, bounds->times[last - 1], bounds->times[last])) bounds->count--;
    if (bounds->count < 2 || !launches_nothing(analysis, bounds->times[0], bounds->times[1])) return;
    bounds->times++;
    bounds->count--;
}

/* The first work of a stream that was launched long before it began, while the device did next to nothing:
 * until then it ran what was launched before the recording, of which nothing is known. -1 = there is none. */
static int first_behind(const hr_analysis *analysis) {
    bool *begun = hr_arena_alloc(analysis->arena, (size_t)analysis->trace->tracks.count * sizeof *begun);
    int64_t busy = 0, first = INT64_MIN;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (work->device != analysis->device) continue;
        if (first == INT64_MIN) first = work->start;
        if (busy > (work->start - first) / 20) return -1;
        const hr_host_call *call = work->call < 0 ? NULL : &analysis->calls[work->call];
        /* of a graph others may have run before it that are not in the file */
        bool launched = call && call->kind != HR_CALL_GRAPH_LAUNCH && !begun[work->stream];
        if (launched && work->start - call->end > BEHIND_NS) return i;
        begun[work->stream] = true;
        busy += work->end - work->start;
    }
    return -1;
}

/* Gives works and calls their step, and the steps their beginning on the device. */
static void make_steps(hr_analysis *analysis, const hr_bounds *from) {
    hr_arena *arena = analysis->arena;
    const int64_t *bounds = from->times;
    int count = from->count;
    hr_step *items = hr_arena_alloc(arena, (size_t)count * sizeof *items);
    int64_t *ends = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *ends);
    for (int i = 0; i <= count; i++)
        ends[i] = INT64_MIN;
    for (int i = 0; i < analysis->call_count; i++)
        analysis->calls[i].step = step_at(bounds, count, analysis->calls[i].start);
    for (int i = 0; i < analysis->work_count; i++) {
        hr_work *work = &analysis->works[i];
        work->step = step_at(bounds, count, work->launched);
        if (work->device != analysis->device || work->launched >= bounds[count]) continue;
        int after = work->step + 1; /* the first boundary after its launch; 0 for what comes before all */
        if (work->end > ends[after]) ends[after] = work->end;
    }
    int behind = first_behind(analysis);
    int64_t device = behind < 0 ? INT64_MIN : analysis->works[behind].start;
    for (int i = 0; i <= count; i++) {
        if (ends[i] > device) device = ends[i];
        int64_t begin = device > bounds[i] ? device : bounds[i];
        if (i < count)
            items[i] = (hr_step){.start = begin, .host_start = bounds[i], .host_end = bounds[i + 1]};
        if (i > 0) items[i - 1].end = begin;
    }
    int halted = halted_steps(analysis, bounds, count);
    analysis->steps = (hr_steps){.found_by = from->found_by,
                                 .items = items,
                                 .count = count,
                                 .first = halted,
                                 .halted = halted,
                                 .behind = behind};
    summarise(&analysis->steps, hr_arena_alloc(arena, (size_t)(count + 1) * sizeof(double)));
    analysis->origin = bounds[0];
    analysis->step_track = from->track;
    hr_analysis_first_gaps(analysis);
}

static void choose_device(hr_analysis *analysis) {
    if (analysis->device >= 0) return;
    int64_t count = analysis->trace->tracks.count, most = 0;
    const hr_track *tracks = analysis->trace->tracks.items;
    int64_t *busy = hr_arena_alloc(analysis->arena, (size_t)count * sizeof *busy);
    for (int i = 0; i < analysis->work_count; i++)
        busy[analysis->works[i].stream] += analysis->works[i].end - analysis->works[i].start;
    for (int64_t i = 0; i < count; i++) { /* the first stream of a device takes what the others have */
        if (!busy[i]) continue;
        for (int64_t k = i + 1; k < count; k++) {
            if (!busy[k] || tracks[k].device != tracks[i].device) continue;
            busy[i] += busy[k];
            busy[k] = 0;
        }
        if (busy[i] <= most) continue;
        most = busy[i];
        analysis->device = tracks[i].device;
    }
}

/* From the first launch to the last one's: what lies before and behind is no work of a device. */
static void bound_work(hr_analysis *analysis, hr_bounds *out) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    *out = (hr_bounds){.count = 1, .track = -1, .found_by = "the whole trace"};
    out->times = hr_arena_alloc(analysis->arena, 2 * sizeof *out->times);
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (work->device != analysis->device) continue;
        int64_t begun = work->launched == HR_BEFORE_TRACE ? work->start : work->launched;
        int64_t ended = work->call >= 0 ? analysis->calls[work->call].end : work->start + 1;
        if (begun < first) first = begun;
        if (ended > last) last = ended;
    }
    out->times[0] = first < last ? first : analysis->start;
    out->times[1] = first < last ? last : analysis->end;
    if (out->times[1] <= out->times[0]) out->times[1] = out->times[0] + 1;
}

void hr_analysis_steps(hr_analysis *analysis) {
    hr_bounds bounds = {0};
    choose_device(analysis);
    set_launch_times(analysis);
    bool found = hr_marked_steps(analysis, HR_MARKS_STEPS, &bounds) ||
                 hr_marked_steps(analysis, HR_MARKS_OPTIMIZER, &bounds) ||
                 hr_repeated_steps(analysis, &bounds) || hr_marked_steps(analysis, HR_MARKS_ONCE, &bounds);
    if (!found) bound_work(analysis, &bounds);
    trim(analysis, &bounds);
    make_steps(analysis, &bounds);
    if (analysis->steps.items[analysis->steps.count - 1].end >
        analysis->steps.items[analysis->steps.first].start)
        return;
    bound_work(analysis, &bounds); /* no time passes in them: ids or times of the file are wrong */
    make_steps(analysis, &bounds);
}

/* ---- finding one's way ---- */

int hr_time_after(const int64_t *times, int count, int64_t time) {
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (times[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int hr_call_after(const hr_analysis *analysis, int64_t time) {
    int low = 0, high = analysis->call_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (analysis->calls[middle].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int hr_work_after(const hr_analysis *analysis, int64_t time) {
    int low = 0, high = analysis->work_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (analysis->works[middle].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
