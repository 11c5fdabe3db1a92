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

/* Kernels that occur before all of the repetitions only, or behind all of them only: of [from, to). */
static bool has_own_kernels(const repeats *repeats, const uint8_t *repeated, int from, int to) {
    for (int i = from; i < to; i++)
        if (!repeated[repeats->sequence->names[i]]) return true;
    return false;
}

/* A pass has an embedding before its layers and a head behind them; a loop has neither. */
static bool have_ends_of_their_own(const repeats *repeats, int name_count, int length) {
    const sequence *sequence = repeats->sequence;
    uint8_t *repeated = hr_arena_alloc(repeats->analysis->arena, (size_t)name_count);
    int first = repeats->places[0], last = repeats->places[repeats->count - 1] + length;
    for (int i = first; i < last && i < sequence->count; i++)
        repeated[sequence->names[i]] = 1;
    return has_own_kernels(repeats, repeated, 0, first) &&
           has_own_kernels(repeats, repeated, last < sequence->count ? last : sequence->count,
                           sequence->count);
}

/* A module or an operator of a framework that launched several repetitions. */
static bool are_in_one_module(const repeats *repeats) {
    const hr_analysis *analysis = repeats->analysis;
    const hr_trace *trace = analysis->trace;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind != HR_EVENT_OPERATOR || trace->tracks.items[event->track].rank != analysis->rank)
            continue;
        const char *name = hr_trace_string(trace, event->name);
        if (strncmp(name, "nn.Module", 9) != 0 && !strstr(name, "::")) continue;
        int inside = 0;
        for (int k = 0; k < repeats->count && inside < 3; k++) {
            int64_t launched = analysis->works[repeats->sequence->works[repeats->places[k]]].launched;
            inside += launched >= event->start && launched < event->start + event->duration;
        }
        if (inside == 3 || (inside == 2 && repeats->count == 2)) return true;
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
    if (repeats.count < 3 || are_in_one_launch(&repeats) ||
        have_ends_of_their_own(&repeats, name_count, period.length) || are_in_one_module(&repeats))
        return false;
    return --out->count >= 2;
}
