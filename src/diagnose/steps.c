/* Where the steps of a program are.
 *
 * In: joined works and calls. Out: steps, one after the other without gap. Tried in this order: ranges that
 * the profiler or the program marks, the optimizer's ranges, repetition of the sequence of kernels, the whole
 * trace.
 *
 * The host runs ahead of the device, so a step has two beginnings. On the device it begins when the host
 * began it and all that was launched before has ended: then durations are those of the device where it is the
 * slower one, and those of the host where the device waits for it.
 */
#include "diagnose/analysis.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- groups of ranges ---- */

/* Ranges of one thread whose names differ in their last number only. */
typedef struct group {
    uint64_t key; /* 0 = free */
    int64_t total, first, last_end;
    int32_t name, count, track;
    bool overlaps;
    int rank; /* how surely it is a step: 4 the profiler's, 3 by its name, 2 any range, 1 the optimizer's, 0
                 not */
} group;

#define GROUP_SLOTS 4096

static size_t stem_length(const char *name) {
    size_t length = strlen(name);
    while (length && (isdigit((unsigned char)name[length - 1]) || strchr("# _:=./[]()", name[length - 1])))
        length--;
    return length;
}

static bool starts_word(const char *name, const char *word) {
    size_t length = strlen(word);
    for (const char *at = name; *at; at++)
        if (strncasecmp(at, word, length) == 0 && (at == name || !isalpha((unsigned char)at[-1])))
            return true;
    return false;
}

static int group_rank(const hr_event *event, const char *name, unsigned bits) {
    static const char *const words[] = {"step", "iter", "batch", "train", "frame", "epoch_step", NULL};
    if (strncmp(name, "ProfilerStep", 12) == 0) return 4;
    if (bits & HR_RANGE_OPTIMIZER) return strstr(name, "zero_grad") ? 0 : 1;
    if (event->kind != HR_EVENT_RANGE || (bits & HR_RANGE_LOADER) || strncmp(name, "nccl:", 5) == 0) return 0;
    for (int i = 0; words[i]; i++)
        if (starts_word(name, words[i])) return 3;
    return 2;
}

static group *group_find(group *groups, uint64_t key) {
    for (uint64_t slot = key % GROUP_SLOTS, tries = 0; tries < 64; slot = (slot + 1) % GROUP_SLOTS, tries++)
        if (!groups[slot].key || groups[slot].key == key) return &groups[slot];
    return NULL;
}

static uint64_t group_key(const char *name, int32_t track) {
    uint64_t key = 1469598103934665603u ^ (uint64_t)track;
    for (size_t i = 0, length = stem_length(name); i < length; i++)
        key = (key ^ (unsigned char)name[i]) * 1099511628211u;
    return key | 1;
}

static bool is_candidate(const hr_analysis *analysis, const hr_event *event) {
    const hr_trace *trace = analysis->trace;
    if (event->kind != HR_EVENT_RANGE && event->kind != HR_EVENT_OPERATOR) return false;
    if (event->duration <= 0 || event->track < 0 || event->track >= trace->tracks.count) return false;
    const hr_track *track = &trace->tracks.items[event->track];
    return track->rank == analysis->rank && !track->is_stream;
}

static void groups_collect(const hr_analysis *analysis, group *groups) {
    const hr_trace *trace = analysis->trace;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (!is_candidate(analysis, event)) continue;
        const char *name = hr_trace_string(trace, event->name);
        if (event->kind == HR_EVENT_OPERATOR && name[0] != 'P' && name[0] != 'O') continue;
        int rank = group_rank(event, name, hr_classify_range(name));
        if (rank == 0 || (event->kind == HR_EVENT_OPERATOR && rank != 4 && rank != 1)) continue;
        group *group = group_find(groups, group_key(name, event->track));
        if (!group) continue;
        if (!group->key)
            *group = (struct group){.key = group_key(name, event->track),
                                    .first = event->start,
                                    .last_end = event->start,
                                    .name = event->name,
                                    .track = event->track,
                                    .rank = rank};
        if (event->start < group->last_end) group->overlaps = true;
        group->last_end = event->start + event->duration;
        group->total += event->duration;
        group->count++;
    }
}

/* The part of the device's work that was launched between two times. */
static double launched_between(const hr_analysis *analysis, int64_t from, int64_t to) {
    int64_t inside = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        int64_t launched = work->call >= 0 ? analysis->calls[work->call].start : work->start;
        inside += launched >= from && launched < to;
    }
    return analysis->work_count ? (double)inside / analysis->work_count : 1;
}

/* The surest group; of equals the one whose ranges are longest. Ranges that are no step by name must cover
 * most of the time in which the device was given work. */
static const group *groups_best(const hr_analysis *analysis, const group *groups, int least, int most) {
    const group *best = NULL;
    for (int i = 0; i < GROUP_SLOTS; i++) {
        const group *group = &groups[i];
        if (!group->key || group->rank < least || group->rank > most || group->overlaps) continue;
        if (group->count < 2 && group->rank < 4) continue;
        double window = (double)(group->last_end - group->first);
        if (group->rank < 4 && launched_between(analysis, group->first, group->last_end) < 0.5) continue;
        if (group->rank == 2 && (double)group->total < 0.6 * window) continue;
        if (group->rank == 3 && (double)group->total < 0.3 * window) continue;
        double mean = (double)group->total / group->count;
        if (!best || group->rank > best->rank ||
            (group->rank == best->rank && mean > (double)best->total / best->count))
            best = group;
    }
    return best;
}

/* Boundaries from the ranges of a group: their starts and the last one's end, or their ends for the
 * optimizer. */
static int group_bounds(const hr_analysis *analysis, const group *group, int64_t *bounds) {
    const hr_trace *trace = analysis->trace;
    int count = 0;
    bool ends = group->rank == 1;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->track != group->track || !is_candidate(analysis, event)) continue;
        const char *name = hr_trace_string(trace, event->name);
        if (group_key(name, event->track) != group->key) continue;
        if (count == group->count) break;
        bounds[count++] = event->start + (ends ? event->duration : 0);
    }
    if (!ends && count) {
        /* What lies between ranges belongs to the step before it; of the last one nobody knows. */
        double outside = 1 - (double)group->total / (double)(group->last_end - group->first);
        if (count < 3 || outside < 0.02) bounds[count++] = group->last_end;
    }
    return count - 1;
}

/* ---- repetition ---- */

typedef struct sequence {
    const int32_t *names, *works; /* kernels of the device in order */
    int count;
} sequence;

static double match_of(const sequence *sequence, int period) {
    int pairs = sequence->count - period, stride = pairs / 8192 + 1, same = 0, looked = 0;
    for (int i = 0; i < pairs; i += stride, looked++)
        same += sequence->names[i] == sequence->names[i + period];
    return looked ? (double)same / looked : 0;
}

typedef struct period {
    int32_t name, every; /* each `every`th launch of that kernel begins a step */
    int length;
    double match;
} period;

static int compare_counts(const void *left, const void *right) {
    const int32_t *a = left, *b = right; /* {count, name} */
    return a[0] != b[0] ? (a[0] < b[0] ? -1 : 1) : (a[1] > b[1]) - (a[1] < b[1]);
}

/* The shortest period that repeats as well as the best does. */
static period find_period(hr_arena *arena, const sequence *sequence, int name_count) {
    enum { CANDIDATES = 96 };
    int32_t *counts = hr_arena_alloc(arena, (size_t)name_count * 2 * sizeof *counts);
    int32_t *place = hr_arena_alloc(arena, (size_t)sequence->count * sizeof *place);
    period found[CANDIDATES * 4], best = {0};
    int found_count = 0, tried = 0;
    for (int i = 0; i < name_count; i++)
        counts[2 * i + 1] = i;
    for (int i = 0; i < sequence->count; i++)
        counts[2 * sequence->names[i]]++;
    qsort(counts, (size_t)name_count, 2 * sizeof *counts, compare_counts);
    for (int i = 0; i < name_count && tried < CANDIDATES; i++) {
        int32_t count = counts[2 * i], name = counts[2 * i + 1], at = 0;
        if (count < 2) continue;
        tried++;
        for (int k = 0; k < sequence->count; k++)
            if (sequence->names[k] == name) place[at++] = k;
        for (int every = 1; every <= 4 && every < count; every++) {
            int middle = (count - every) / 2, length = place[middle + every] - place[middle];
            double match = match_of(sequence, length);
            if (length < sequence->count && match > 0.85)
                found[found_count++] = (period){name, every, length, match};
        }
    }
    double most = 0;
    for (int i = 0; i < found_count; i++)
        most = fmax(most, found[i].match);
    for (int i = 0; i < found_count; i++)
        if (found[i].match >= most - 0.005 && (!best.length || found[i].length < best.length))
            best = found[i];
    return best;
}

static int repetition_bounds(const hr_analysis *analysis, int64_t *bounds) {
    hr_arena *arena = analysis->arena;
    int32_t *names = hr_arena_alloc(arena, (size_t)analysis->work_count * sizeof *names);
    int32_t *works = hr_arena_alloc(arena, (size_t)analysis->work_count * sizeof *works);
    int count = 0, name_count = 0, steps = 0, seen = 0;
    for (int32_t i = 0; i < analysis->work_count; i++) {
        const hr_event *event = &analysis->trace->events.items[analysis->works[i].event];
        if (event->kind != HR_EVENT_KERNEL || analysis->works[i].device != analysis->device ||
            event->name < 0)
            continue;
        if (event->name >= name_count) name_count = event->name + 1;
        names[count] = event->name;
        works[count++] = i;
    }
    sequence sequence = {names, works, count};
    if (count < 4) return 0;
    period period = find_period(arena, &sequence, name_count);
    if (!period.length) return 0;
    int64_t last = INT64_MIN;
    for (int i = 0; i < count; i++) {
        if (names[i] != period.name || seen++ % period.every) continue;
        const hr_work *work = &analysis->works[works[i]];
        int64_t start = work->call >= 0 ? analysis->calls[work->call].start : work->start;
        if (start <= last) continue;
        bounds[steps++] = last = start;
    }
    return steps - 1;
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

static void summarise(hr_steps *steps, double *scratch) {
    while (steps->count - steps->first >= 3 &&
           steps->first < steps->halted + (steps->count - steps->halted) / 2 &&
           step_seconds(&steps->items[steps->first]) >
               1.5 * median_from(steps->items, steps->first + 1, steps->count, scratch))
        steps->first++;
    steps->median = median_from(steps->items, steps->first, steps->count, scratch);
    steps->min = scratch[0];
    steps->max = scratch[steps->count - steps->first - 1];
    for (int i = steps->count - 1; i >= steps->first; i--)
        if (step_seconds(&steps->items[i]) == steps->median) steps->chosen = i;
}

/* Gives works and calls their step, and the steps their beginning on the device. */
static void make_steps(hr_analysis *analysis, const int64_t *bounds, int count, const char *found_by) {
    hr_arena *arena = analysis->arena;
    hr_step *items = hr_arena_alloc(arena, (size_t)count * sizeof *items);
    int64_t *ends = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *ends);
    for (int i = 0; i <= count; i++)
        ends[i] = INT64_MIN;
    for (int i = 0; i < analysis->call_count; i++)
        analysis->calls[i].step = step_at(bounds, count, analysis->calls[i].start);
    for (int i = 0; i < analysis->work_count; i++) {
        hr_work *work = &analysis->works[i];
        int64_t launched = work->call >= 0 ? analysis->calls[work->call].start : work->start;
        work->step = step_at(bounds, count, launched);
        if (work->device != analysis->device || launched >= bounds[count]) continue;
        int after = work->step + 1; /* the first boundary after its launch; 0 for what comes before all */
        if (work->end > ends[after]) ends[after] = work->end;
    }
    int64_t device = INT64_MIN;
    for (int i = 0; i <= count; i++) {
        if (ends[i] > device) device = ends[i];
        int64_t begin = device > bounds[i] ? device : bounds[i];
        if (i < count)
            items[i] = (hr_step){.start = begin, .host_start = bounds[i], .host_end = bounds[i + 1]};
        if (i > 0) items[i - 1].end = begin;
    }
    int halted = halted_steps(analysis, bounds, count);
    analysis->steps =
        (hr_steps){.found_by = found_by, .items = items, .count = count, .first = halted, .halted = halted};
    summarise(&analysis->steps, hr_arena_alloc(arena, (size_t)(count + 1) * sizeof(double)));
    analysis->origin = bounds[0];
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

void hr_analysis_steps(hr_analysis *analysis) {
    choose_device(analysis);
    group *groups = hr_arena_alloc(analysis->arena, GROUP_SLOTS * sizeof *groups);
    groups_collect(analysis, groups);
    const group *marked = groups_best(analysis, groups, 2, 4),
                *optimizer = groups_best(analysis, groups, 1, 1);
    size_t room = 2 + (size_t)analysis->work_count;
    if (marked && (size_t)marked->count + 2 > room) room = (size_t)marked->count + 2;
    if (optimizer && (size_t)optimizer->count + 2 > room) room = (size_t)optimizer->count + 2;
    int64_t *bounds = hr_arena_alloc(analysis->arena, room * sizeof *bounds);
    int count = 0;
    const char *found_by = "the whole trace";
    analysis->step_track = -1;
    if (marked) {
        analysis->step_track = marked->track;
        count = group_bounds(analysis, marked, bounds);
        found_by = marked->rank == 4 ? "the profiler's steps" : "ranges of the program";
    }
    if (count < 1 && optimizer) {
        analysis->step_track = optimizer->track;
        count = group_bounds(analysis, optimizer, bounds);
        found_by = "the optimizer's ranges";
    }
    if (count < 1) {
        analysis->step_track = -1;
        count = repetition_bounds(analysis, bounds);
        if (count < 2) count = 0;
        found_by = "repetition of the kernels";
    }
    if (count < 1) {
        count = 1;
        found_by = "the whole trace";
        bounds[0] =
            analysis->work_count && analysis->call_count == 0 ? analysis->works[0].start : analysis->start;
        bounds[1] = analysis->end > bounds[0] ? analysis->end : bounds[0] + 1;
    }
    make_steps(analysis, bounds, count, found_by);
}

/* ---- finding one's way ---- */

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
