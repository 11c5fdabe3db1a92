/* Steps that no range marks: the sequence of kernels repeats.
 *
 * In: works of the chosen device in order. Out: boundaries where each repetition was launched, or none: a
 * pass of a model repeats its layers too, and those are no steps.
 */
#include "diagnose/analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- layers ---- */

typedef struct repeats {
    const hr_analysis *analysis;
    const sequence *sequence;
    const int32_t *places; /* in the sequence, where each begins */
    int count;
} repeats;

/* One call started kernels of several repetitions: they lie inside of one graph. */
static bool are_in_one_launch(const repeats *repeats) {
    const hr_work *works = repeats->analysis->works;
    int shared = 0;
    for (int i = 1; i < repeats->count; i++) {
        int32_t call = works[repeats->sequence->works[repeats->places[i]]].call;
        shared += call >= 0 && call == works[repeats->sequence->works[repeats->places[i - 1]]].call;
    }
    return 2 * shared > repeats->count;
}

typedef struct edges {
    const repeats *repeats;
    const uint8_t *repeated; /* names that occur among the repetitions */
    int64_t near;            /* ns of the host that two repetitions take */
} edges;

/* Whether kernels of [from, to) that no repetition has were launched next to a time. */
static bool has_own_kernels(const edges *edges, int from, int to, int64_t time) {
    const sequence *sequence = edges->repeats->sequence;
    for (int i = from; i < to; i++) {
        int64_t launched = edges->repeats->analysis->works[sequence->works[i]].launched;
        int64_t apart = launched > time ? launched - time : time - launched;
        if (!edges->repeated[sequence->names[i]] && apart <= edges->near) return true;
    }
    return false;
}

/* The part of the device's time in kernels that no repetition has. */
static double own_part(const edges *edges) {
    const sequence *sequence = edges->repeats->sequence;
    int64_t all = 0, own = 0;
    for (int i = 0; i < sequence->count; i++) {
        const hr_work *work = &edges->repeats->analysis->works[sequence->works[i]];
        all += work->end - work->start;
        if (!edges->repeated[sequence->names[i]]) own += work->end - work->start;
    }
    return all ? (double)own / (double)all : 0;
}

/* The host waits for the device or gives it input in most of the repetitions: then they are turns of a loop.
 */
static bool waits_in_most(const hr_analysis *analysis, const hr_bounds *bounds) {
    int waiting = 0, seen = -1;
    for (int i = hr_call_after(analysis, bounds->times[0]); i < analysis->call_count; i++) {
        const hr_host_call *call = &analysis->calls[i];
        if (call->kind != HR_CALL_SYNCHRONISE && call->kind != HR_CALL_COPY) continue;
        int repetition = hr_time_after(bounds->times, bounds->count, call->start);
        waiting += repetition != seen;
        seen = repetition;
    }
    return 2 * waiting > bounds->count;
}

/* A pass has an embedding before its layers and a head behind them, or much work beside them; a loop has
 * neither. */
static bool are_parts_of_a_pass(const repeats *repeats, const hr_bounds *bounds, int name_count, int length) {
    const sequence *sequence = repeats->sequence;
    uint8_t *repeated = hr_arena_alloc(repeats->analysis->arena, (size_t)name_count);
    int first = repeats->places[0], last = repeats->places[repeats->count - 1] + length;
    int64_t begin = bounds->times[0], end = bounds->times[bounds->count - 1];
    edges edges = {repeats, repeated, 2 * (end - begin) / (bounds->count - 1)};
    if (last > sequence->count) last = sequence->count;
    for (int i = first; i < last; i++)
        repeated[sequence->names[i]] = 1;
    if (waits_in_most(repeats->analysis, bounds)) return false;
    if (own_part(&edges) > 0.15) return true;
    int before = first > length ? first - length : 0, behind = last + length;
    return has_own_kernels(&edges, before, first, begin) &&
           has_own_kernels(&edges, last, behind < sequence->count ? behind : sequence->count, end);
}

/* A module or an operator of a framework that launched several repetitions: of the boundaries. */
static bool are_in_one_module(const hr_analysis *analysis, const hr_bounds *bounds) {
    const hr_trace *trace = analysis->trace;
    int several = bounds->count < 3 ? 2 : 3;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind != HR_EVENT_OPERATOR || trace->tracks.items[event->track].rank != analysis->rank)
            continue;
        int first = hr_time_after(bounds->times, bounds->count, event->start);
        int inside = hr_time_after(bounds->times, bounds->count, event->start + event->duration) - first;
        if (inside < several) continue;
        const char *name = hr_trace_string(trace, event->name);
        if (strncmp(name, "nn.Module", 9) == 0 || strstr(name, "::")) return true;
    }
    return false;
}

/* ---- bounds ---- */

static int take_sequence(const hr_analysis *analysis, int32_t *names, int32_t *works, int *name_count) {
    int count = 0;
    for (int32_t i = 0; i < analysis->work_count; i++) {
        const hr_event *event = &analysis->trace->events.items[analysis->works[i].event];
        if (event->kind != HR_EVENT_KERNEL || analysis->works[i].device != analysis->device ||
            event->name < 0 || analysis->works[i].launched == HR_BEFORE_TRACE)
            continue;
        if (event->name >= *name_count) *name_count = event->name + 1;
        names[count] = event->name;
        works[count++] = i;
    }
    return count;
}

bool hr_repeated_steps(const hr_analysis *analysis, hr_bounds *out) {
    hr_arena *arena = analysis->arena;
    size_t works = (size_t)analysis->work_count;
    int32_t *names = hr_arena_alloc(arena, works * sizeof *names);
    int32_t *places = hr_arena_alloc(arena, works * sizeof *places);
    int32_t *order = hr_arena_alloc(arena, works * sizeof *order);
    int name_count = 0, count = take_sequence(analysis, names, order, &name_count), seen = 0;
    sequence sequence = {names, order, count};
    if (count < 4) return false;
    period period = find_period(arena, &sequence, name_count);
    if (!period.length) return false;
    repeats repeats = {.analysis = analysis, .sequence = &sequence, .places = places};
    int64_t last = INT64_MIN;
    *out = (hr_bounds){.track = -1, .found_by = "repetition of the kernels"};
    out->times = hr_arena_alloc(arena, works * sizeof *out->times);
    for (int i = 0; i < count; i++) {
        if (names[i] != period.name || seen++ % period.every) continue;
        int64_t launched = analysis->works[order[i]].launched;
        places[repeats.count++] = i;
        if (launched > last) out->times[out->count++] = last = launched;
    }
    if (out->count < 3 || are_in_one_launch(&repeats) || are_in_one_module(analysis, out) ||
        are_parts_of_a_pass(&repeats, out, name_count, period.length))
        return false;
    return --out->count >= 2;
}
