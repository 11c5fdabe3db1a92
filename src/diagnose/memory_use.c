/* Allocations -> categories, a peak, a curve.
 *
 * A first pass over the events pairs what was taken with what was given back, by address, and notes in which
 * phase each happened: the loader's, the backward pass, the optimizer, or else. A second pass adds the bytes
 * up by category.
 */
#include "diagnose/memory_use.h"

#include "diagnose/analysis.h"
#include <string.h>

#define DEPTH      256  /* of ranges around an allocation; deeper ones are not looked at */
#define KNOWN      128u /* beside the bits of hr_range_class */
#define USABLE     0.95 /* of the device's memory: the rest is the context's and the libraries' */
#define LEAST_PART 0.02 /* of the peak that grows with the batch, for a factor to say anything */

typedef enum phase { OTHER_PHASE, LOADING, BACKWARD, OPTIMIZER } phase;

/* One piece of memory; `event` numbers are those of the trace. */
typedef struct piece {
    int64_t address, bytes, taken, given_back; /* given_back: INT64_MAX = not within the trace */
    int32_t event;
    uint8_t phase, phase_back;
} piece;

/* A change of the total, in order of time. */
typedef struct change {
    int64_t bytes;
    int32_t event, piece; /* piece: -1 = of memory from before the trace, or without an address */
} change;

typedef struct open_range {
    int64_t end;
    unsigned bits;
} open_range;

typedef struct open_ranges {
    open_range items[DEPTH];
    int depth;
    bool goes_back; /* a thread of the backward pass: between its ranges it gives back what they used */
} open_ranges;

typedef struct memory {
    const hr_analysis *analysis;
    piece *pieces;
    change *changes;
    int32_t *
        slots; /* address -> piece + 1, open addressing; a piece given back keeps its slot until taken anew */
    int64_t piece_count, change_count;
    uint64_t mask;
    open_ranges *open; /* a thread */
    uint8_t *bits;     /* of a name: hr_range_class and KNOWN */
    bool of_driver;
} memory;

/* ---- which allocations ---- */

static const hr_allocation *allocation_of(const hr_analysis *analysis, const hr_event *event) {
    const hr_trace *trace = analysis->trace;
    if (event->kind != HR_EVENT_ALLOCATION || event->detail < 0) return NULL;
    if (trace->tracks.items[event->track].rank != analysis->rank) return NULL;
    const hr_allocation *allocation = &trace->allocations.items[event->detail];
    bool ours = allocation->memory == HR_MEMORY_DEVICE &&
                (allocation->device == analysis->device || allocation->device < 0 || analysis->device < 0);
    return ours && allocation->bytes ? allocation : NULL;
}

/* ---- phases ---- */

static void range_open(memory *of, int thread, const hr_event *event) {
    open_ranges *open = &of->open[thread];
    while (open->depth && open->items[open->depth - 1].end <= event->start)
        open->depth--;
    if (open->depth == DEPTH) return;
    unsigned around = open->depth ? open->items[open->depth - 1].bits : 0;
    unsigned own = event->name >= 0 ? of->bits[event->name] : 0;
    if (event->name >= 0 && !(own & KNOWN)) /* each name is looked up once */
        own = of->bits[event->name] =
            (uint8_t)(KNOWN | hr_classify_range(hr_trace_string(of->analysis->trace, event->name)));
    if ((own & HR_RANGE_BACKWARD) && event->track != of->analysis->step_track) open->goes_back = true;
    open->items[open->depth++] = (open_range){event->start + event->duration, around | own};
}

static phase phase_at(memory *of, int thread, int64_t time) {
    if (thread < 0) return OTHER_PHASE;
    open_ranges *open = &of->open[thread];
    while (open->depth && open->items[open->depth - 1].end <= time)
        open->depth--;
    unsigned bits = open->depth ? open->items[open->depth - 1].bits : 0;
    return bits & HR_RANGE_LOADER                          ? LOADING
           : bits & HR_RANGE_OPTIMIZER                     ? OPTIMIZER
           : (bits & HR_RANGE_BACKWARD) || open->goes_back ? BACKWARD
                                                           : OTHER_PHASE;
}

/* ---- pieces ---- */

static int32_t *slot_of(memory *of, int64_t address) {
    uint64_t slot = ((uint64_t)address >> 8) * 0x9e3779b97f4a7c15u >> 20 & of->mask;
    while (of->slots[slot] && of->pieces[of->slots[slot] - 1].address != address)
        slot = (slot + 1) & of->mask;
    return &of->slots[slot];
}

static void allocation_add(memory *of, const hr_event *event, int32_t number, const hr_allocation *allocation,
                           phase phase) {
    change added = {.bytes = allocation->bytes, .event = number, .piece = -1};
    int32_t *slot = allocation->address ? slot_of(of, allocation->address) : NULL;
    if (slot && allocation->bytes > 0) {
        *slot = (int32_t)of->piece_count + 1;
        added.piece = (int32_t)of->piece_count;
        of->pieces[of->piece_count++] =
            (piece){allocation->address, allocation->bytes, event->start, INT64_MAX, number,
                    (uint8_t)phase,      OTHER_PHASE};
    } else if (slot && *slot && of->pieces[*slot - 1].given_back == INT64_MAX) {
        added.piece = *slot - 1;
        of->pieces[*slot - 1].given_back = event->start;
        of->pieces[*slot - 1].phase_back = (uint8_t)phase;
        added.bytes = -of->pieces[*slot - 1].bytes;
    }
    of->changes[of->change_count++] = added;
}

static void allocations_collect(memory *of) {
    const hr_analysis *analysis = of->analysis;
    const hr_trace *trace = analysis->trace;
    for (int32_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        int thread = analysis->thread_of[event->track];
        bool slice = event->kind == HR_EVENT_RANGE || event->kind == HR_EVENT_OPERATOR;
        if (slice && thread >= 0) range_open(of, thread, event);
        const hr_allocation *allocation = allocation_of(analysis, event);
        if (allocation) allocation_add(of, event, i, allocation, phase_at(of, thread, event->start));
    }
}

/* ---- categories ---- */

/* The host's step at a moment: -1 before the first one. */
static int step_at(const hr_steps *steps, int64_t time) {
    int low = 0, high = steps->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (steps->items[middle].host_start <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

static hr_memory_category category_of(const memory *of, const piece *piece) {
    const hr_steps *steps = &of->analysis->steps;
    int step = step_at(steps, piece->taken);
    bool kept = piece->given_back == INT64_MAX;
    bool last = step == steps->count - 1; /* its memory is given back behind the trace's end */
    if (of->of_driver) return kept ? HR_MEMORY_STATE_USE : HR_MEMORY_TEMPORARY_USE; /* pools, not tensors */
    if (piece->phase == LOADING) return HR_MEMORY_INPUTS_USE;
    if (piece->phase == OPTIMIZER) return kept ? HR_MEMORY_STATE_USE : HR_MEMORY_TEMPORARY_USE;
    if (piece->phase == BACKWARD)
        return kept || piece->phase_back != BACKWARD || step_at(steps, piece->given_back) != step
                   ? HR_MEMORY_GRADIENTS_USE
                   : HR_MEMORY_TEMPORARY_USE;
    if (kept) return last && steps->count > 1 ? HR_MEMORY_ACTIVATIONS_USE : HR_MEMORY_STATE_USE;
    return piece->phase_back == BACKWARD || step_at(steps, piece->given_back) != step
               ? HR_MEMORY_ACTIVATIONS_USE
               : HR_MEMORY_TEMPORARY_USE;
}

/* What was there before: by the first total that the file names, else by what is given back unseen. */
static int64_t bytes_before(const memory *of) {
    const hr_trace *trace = of->analysis->trace;
    int64_t sum = 0, least = 0;
    for (int64_t i = 0; i < of->change_count; i++) {
        const hr_allocation *allocation =
            &trace->allocations.items[trace->events.items[of->changes[i].event].detail];
        if (allocation->total > 0) return allocation->total - sum - of->changes[i].bytes;
        sum += of->changes[i].bytes;
        if (sum < least) least = sum;
    }
    return -least;
}

/* ---- the curve ---- */

static hr_memory_category change_category(const memory *of, const uint8_t *categories, const change *change) {
    if (change->piece >= 0) return (hr_memory_category)categories[change->piece];
    const hr_trace *trace = of->analysis->trace;
    bool known = trace->allocations.items[trace->events.items[change->event].detail].address != 0;
    return known ? HR_MEMORY_BEFORE_USE : HR_MEMORY_UNTOLD_USE;
}

static int64_t total_of(const int64_t *bytes) {
    int64_t sum = 0;
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++)
        sum += bytes[i];
    return sum;
}

static void curve_make(const memory *of, const uint8_t *categories, hr_arena *keep, hr_memory_use *out) {
    const hr_event *events = of->analysis->trace->events.items;
    hr_memory_point *points = hr_arena_alloc(keep, HR_MEMORY_POINTS * sizeof *points);
    int64_t now[HR_MEMORY_USE_COUNT] = {0}, from = of->analysis->start, length = of->analysis->end - from + 1;
    int last = -1;
    now[HR_MEMORY_BEFORE_USE] = bytes_before(of);
    for (int64_t i = 0; i < of->change_count; i++) {
        const change *change = &of->changes[i];
        now[change_category(of, categories, change)] += change->bytes;
        int64_t total = total_of(now), time = events[change->event].start;
        if (total > out->peak) {
            out->peak = total;
            out->peak_time = time;
            out->peak_event = change->event;
            memcpy(out->at_peak, now, sizeof now);
        }
        int place = (int)((double)(time - from) / (double)length * HR_MEMORY_POINTS);
        if (place != last || total > total_of(points[out->point_count - 1].bytes)) {
            if (place != last) out->point_count++;
            hr_memory_point *point = &points[out->point_count - 1];
            point->time = time;
            memcpy(point->bytes, now, sizeof now);
            last = place;
        }
    }
    out->points = points;
}

/* What the caching allocator had taken, and the most of it that nobody used. */
static void reserve_find(const memory *of, hr_memory_use *out) {
    const hr_trace *trace = of->analysis->trace;
    for (int64_t i = 0; i < of->change_count; i++) {
        const hr_allocation *allocation =
            &trace->allocations.items[trace->events.items[of->changes[i].event].detail];
        if (allocation->reserved <= 0) continue;
        if (allocation->reserved >=
            out->reserved) { /* at its most: idle then is what grows past what is needed */
            int64_t idle = allocation->reserved - allocation->total;
            if (allocation->reserved > out->reserved || idle < out->idle_reserved) out->idle_reserved = idle;
            out->reserved = allocation->reserved;
        }
    }
}

static void batch_find(const hr_analysis *analysis, hr_memory_use *out) {
    static const bool grows[HR_MEMORY_USE_COUNT] = {
#define HR_MEMORY_GROWS(id, name, words, grows) grows,
        HR_MEMORY_USES(HR_MEMORY_GROWS)
#undef HR_MEMORY_GROWS
    };
    double growing = 0;
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++)
        growing += grows[i] ? (double)out->at_peak[i] : 0;
    for (int64_t i = 0; i < analysis->trace->devices.count; i++) {
        const hr_trace_device *device = &analysis->trace->devices.items[i];
        if (device->rank == analysis->rank && device->id == analysis->device)
            out->capacity = device->memory_bytes;
    }
    double room = USABLE * out->capacity - ((double)out->peak - growing);
    if (!out->of_driver && out->capacity > 0 && growing > LEAST_PART * (double)out->peak && room > growing)
        out->batch_factor = room / growing;
}

void hr_analysis_memory(const hr_analysis *analysis, hr_arena *keep, hr_memory_use *out) {
    const hr_trace *trace = analysis->trace;
    hr_arena *arena = analysis->arena;
    memory of = {.analysis = analysis, .mask = 63};
    size_t count = 0, names = 0;
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        count += allocation_of(analysis, event) != NULL;
        if (event->name >= 0 && (size_t)event->name >= names) names = (size_t)event->name + 1;
    }
    *out = (hr_memory_use){.allocations = (int64_t)count, .peak_event = -1};
    if (!count) return;
    of.of_driver = out->of_driver = strcmp(trace->ranks.items[analysis->rank].source, "kineto") != 0;
    while (of.mask + 1 < 2 * count)
        of.mask = 2 * of.mask + 1;
    of.pieces = hr_arena_alloc(arena, count * sizeof *of.pieces);
    of.changes = hr_arena_alloc(arena, count * sizeof *of.changes);
    of.slots = hr_arena_alloc(arena, (of.mask + 1) * sizeof *of.slots);
    of.bits = hr_arena_alloc(arena, names);
    of.open = hr_arena_alloc(arena, (size_t)analysis->thread_count * sizeof *of.open);
    allocations_collect(&of);
    uint8_t *categories = hr_arena_alloc(arena, count);
    for (int64_t i = 0; i < of.piece_count; i++)
        categories[i] = (uint8_t)category_of(&of, &of.pieces[i]);
    curve_make(&of, categories, keep, out);
    reserve_find(&of, out);
    batch_find(analysis, out);
}

const char *hr_memory_use_name(hr_memory_category category) {
    static const char *const names[] = {
#define HR_MEMORY_NAME(id, name, words, grows) name,
        HR_MEMORY_USES(HR_MEMORY_NAME)
#undef HR_MEMORY_NAME
    };
    return category < HR_MEMORY_USE_COUNT ? names[category] : "";
}

const char *hr_memory_use_words(hr_memory_category category) {
    static const char *const words[] = {
#define HR_MEMORY_WORDS(id, name, words, grows) words,
        HR_MEMORY_USES(HR_MEMORY_WORDS)
#undef HR_MEMORY_WORDS
    };
    return category < HR_MEMORY_USE_COUNT ? words[category] : "";
}
