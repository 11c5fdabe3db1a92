/* From tables on the clocks of files to a trace: one zero, sorted, nested. */
#include "trace/trace_state.h"

#include <stdlib.h>
#include <string.h>

#define LATEST       (INT64_C(1) << 60) /* ns after the zero, 36 years: sums of a start and a duration fit */
#define ROUNDING_NS  1000               /* writers cut times off to whole microseconds */
#define DIGIT_BITS   11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* ---- one zero ---- */

typedef struct span {
    int64_t first, last; /* on the file's clock */
} span;

static span *spans_of_files(const hr_trace_build *build, const int32_t *file_of_rank) {
    span *spans = malloc((size_t)(build->files.count + 1) * sizeof *spans);
    if (!spans) return NULL;
    for (int64_t i = 0; i < build->files.count; i++)
        spans[i] = (span){INT64_MAX, INT64_MIN};
    for (int64_t i = 0; i < build->trace->events.count; i++) {
        const hr_event *event = &build->trace->events.items[i];
        span *of = &spans[file_of_rank[build->trace->tracks.items[event->track].rank]];
        if (event->start < of->first) of->first = event->start;
        if (event->start + event->duration > of->last) of->last = event->start + event->duration;
    }
    for (int64_t i = 0; i < build->files.count; i++)
        if (spans[i].first > spans[i].last) spans[i] = (span){0, 0};
    return spans;
}

/* Files whose clocks count from the epoch and that overlap in time keep their places to each other. */
static bool files_side_by_side(const hr_trace_build *build, const span *spans) {
    int64_t latest_first = INT64_MIN, earliest_last = INT64_MAX;
    for (int64_t i = 0; i < build->files.count; i++) {
        const hr_trace_file *file = &build->files.items[i];
        if (!file->clock_known || file->epoch > HR_TIME_MAX - 1 || file->epoch < 0) return false;
        if (spans[i].first < -file->epoch || spans[i].last > HR_TIME_MAX) return false;
        if (spans[i].first + file->epoch > latest_first) latest_first = spans[i].first + file->epoch;
        if (spans[i].last + file->epoch < earliest_last) earliest_last = spans[i].last + file->epoch;
    }
    return latest_first < earliest_last;
}

/* What each file's times lose, and its ranks' zeros. */
static void zeros_choose(hr_trace_build *build, const span *spans, int64_t *zeros) {
    int64_t earliest = INT64_MAX;
    bool together = build->files.count > 1 && files_side_by_side(build, spans);
    for (int64_t i = 0; together && i < build->files.count; i++)
        if (spans[i].first + build->files.items[i].epoch < earliest)
            earliest = spans[i].first + build->files.items[i].epoch;
    for (int64_t i = 0; i < build->files.count; i++) {
        const hr_trace_file *file = &build->files.items[i];
        zeros[i] = together ? earliest - file->epoch : spans[i].first;
        bool known = file->clock_known && file->epoch < HR_TIME_MAX && file->epoch > -HR_TIME_MAX;
        for (int32_t rank = file->first_rank; rank < file->rank_end; rank++)
            build->trace->ranks.items[rank].zero = known ? file->epoch + zeros[i] : 0;
    }
}

static int64_t clamped(int64_t time) {
    return time > LATEST ? LATEST : time;
}

static void times_shift(hr_trace_build *build, const int64_t *zeros, const int32_t *file_of_rank) {
    hr_trace *trace = build->trace;
    for (int64_t i = 0; i < trace->events.count; i++) {
        hr_event *event = &trace->events.items[i];
        int64_t zero = zeros[file_of_rank[trace->tracks.items[event->track].rank]];
        int64_t start = event->start - zero;
        if (start > LATEST || event->duration > LATEST)
            hr_trace_build_skip(build, "times beyond 36 years, cut off there", -1);
        event->start = clamped(start);
        event->duration = clamped(event->duration);
        if (event->kind != HR_EVENT_KERNEL || event->detail < 0) continue;
        hr_kernel_work *work = &trace->kernels.items[event->detail];
        int64_t *times[] = {&work->queued, &work->submitted};
        for (int k = 0; k < 2; k++) /* from before the zero or from nowhere: not known */
            *times[k] = *times[k] > zero ? clamped(*times[k] - zero) : 0;
    }
}

static hr_status zero_set(hr_trace_build *build) {
    hr_status status = HR_OK;
    size_t rank_count = (size_t)build->trace->ranks.count, file_count = (size_t)build->files.count;
    int32_t *file_of_rank = calloc(rank_count + 1, sizeof *file_of_rank);
    int64_t *zeros = calloc(file_count + 1, sizeof *zeros);
    for (size_t i = 0; file_of_rank && i < file_count; i++)
        for (int32_t rank = build->files.items[i].first_rank; rank < build->files.items[i].rank_end; rank++)
            file_of_rank[rank] = (int32_t)i;
    span *spans = file_of_rank ? spans_of_files(build, file_of_rank) : NULL;
    if (file_of_rank && zeros && spans) {
        zeros_choose(build, spans, zeros);
        times_shift(build, zeros, file_of_rank);
    } else
        status = hr_fail(HR_OUT_OF_MEMORY, "no memory to align the times of a trace");
    free(file_of_rank);
    free(zeros);
    free(spans);
    return status;
}

/* ---- sorted by start, longer first ---- */

/* A key is the start, counted from the first one, above the event's place: 64 bits hold both but for traces
 * of days with millions of events. Half of the memory of keys that keep them apart, which a large trace
 * feels. */
typedef struct sort_form {
    int64_t first;
    int place_bits, bits; /* bits: of the whole key */
} sort_form;

static int bits_of(uint64_t value) {
    return value ? 64 - __builtin_clzll(value) : 0;
}

static bool form_find(const hr_event *events, int64_t count, sort_form *out) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        if (events[i].start < first) first = events[i].start;
        if (events[i].start > last) last = events[i].start;
    }
    int place_bits = bits_of((uint64_t)count - 1);
    *out = (sort_form){first, place_bits, place_bits + bits_of((uint64_t)last - (uint64_t)first)};
    return out->bits <= 64;
}

/* By one digit, keeping the order of equals. */
static void sort_digit(const uint64_t *from, uint64_t *to, int64_t count, int shift) {
    int64_t ends[DIGIT_VALUES] = {0};
    for (int64_t i = 0; i < count; i++)
        ends[from[i] >> shift & (DIGIT_VALUES - 1)]++;
    for (int64_t value = 0, sum = 0; value < DIGIT_VALUES; value++) {
        int64_t of_value = ends[value];
        ends[value] = sum;
        sum += of_value;
    }
    for (int64_t i = 0; i < count; i++)
        to[ends[from[i] >> shift & (DIGIT_VALUES - 1)]++] = from[i];
}

static int compare_lengths(const void *left, const void *right) {
    const hr_event *a = left, *b = right;
    if (a->duration != b->duration) return a->duration < b->duration ? 1 : -1;
    return (a->external > b->external) - (a->external < b->external); /* any fixed order */
}

static int compare_starts(const void *left, const void *right) {
    const hr_event *a = left, *b = right;
    return a->start != b->start ? (a->start < b->start ? -1 : 1) : compare_lengths(left, right);
}

/* Among events of one start. Runs are short but for odd files, and those must not take for ever. */
static void sort_equals(hr_event *events, int64_t count) {
    for (int64_t first = 0; first < count;) {
        int64_t end = first + 1;
        bool sorted = true;
        for (; end < count && events[end].start == events[first].start; end++)
            sorted = sorted && events[end - 1].duration >= events[end].duration;
        if (!sorted) qsort(events + first, (size_t)(end - first), sizeof *events, compare_lengths);
        first = end;
    }
}

/* The keys in order of their starts; NULL without memory. */
static uint64_t *order_of_starts(const hr_event *events, int64_t count, const sort_form *form) {
    uint64_t *keys = malloc((size_t)count * sizeof *keys), *other = malloc((size_t)count * sizeof *other);
    for (int64_t i = 0; keys && other && i < count; i++)
        keys[i] = ((uint64_t)events[i].start - (uint64_t)form->first) << form->place_bits | (uint64_t)i;
    for (int shift = form->place_bits; keys && other && shift < form->bits; shift += DIGIT_BITS) {
        sort_digit(keys, other, count, shift);
        uint64_t *swap = keys;
        keys = other;
        other = swap;
    }
    if (!other) {
        free(keys);
        keys = NULL;
    }
    free(other);
    return keys;
}

/* Brings each event to its place within the table: a second one would double what a large trace takes. */
static void events_permute(hr_event *events, uint64_t *keys, int64_t count, const sort_form *form) {
    const uint64_t mask = (UINT64_C(1) << form->place_bits) - 1;
    for (int64_t i = 0; i < count; i++) {
        hr_event first = events[i];
        int64_t at = i, from;
        while ((from = (int64_t)(keys[at] & mask)) != i) {
            events[at] = events[from];
            keys[at] = (uint64_t)at;
            at = from;
        }
        events[at] = first;
        keys[at] = (uint64_t)at;
    }
}

static hr_status events_sort(hr_trace *trace) {
    hr_event *events = trace->events.items;
    int64_t count = trace->events.count;
    sort_form form;
    if (count < 2) return HR_OK;
    if (!form_find(events, count, &form)) {
        qsort(events, (size_t)count, sizeof *events, compare_starts);
        return HR_OK;
    }
    uint64_t *keys = order_of_starts(events, count, &form);
    if (!keys) return hr_fail(HR_OUT_OF_MEMORY, "no memory to sort %lld events", (long long)count);
    events_permute(events, keys, count, &form);
    free(keys);
    sort_equals(events, count);
    return HR_OK;
}

/* ---- nested ---- */

typedef HR_TABLE(int64_t) open_stack; /* places of the slices that are open on a track */

static int64_t end_of(const hr_trace *trace, int64_t place) {
    return trace->events.items[place].start + trace->events.items[place].duration;
}

static bool is_python(const hr_trace *trace, const hr_event *event) {
    return event->kind == HR_EVENT_OPERATOR && event->detail >= 0 &&
           trace->operators.items[event->detail].is_python;
}

/* Ranges begin and end inside of the Python functions that make them (`profiler.step()`, `__enter__`), so
 * that the two overlap in each trace with stacks: the frames give way, what they did is cut off where the
 * range begins. */
static void frames_yield(hr_trace *trace, int64_t place, open_stack *open) {
    const hr_event *event = &trace->events.items[place];
    if (is_python(trace, event)) return;
    while (open->count && end_of(trace, open->items[open->count - 1]) < end_of(trace, place)) {
        hr_event *frame = &trace->events.items[open->items[open->count - 1]];
        if (!is_python(trace, frame)) return;
        frame->duration = event->start - frame->start;
        open->count--;
    }
}

/* Cuts the event where the slice around it ends. */
static hr_status event_nest(hr_trace_build *build, int64_t place, open_stack *open) {
    hr_trace *trace = build->trace;
    hr_event *event = &trace->events.items[place];
    while (open->count && end_of(trace, open->items[open->count - 1]) <= event->start)
        open->count--;
    frames_yield(trace, place, open);
    int64_t around = open->count ? end_of(trace, open->items[open->count - 1]) : INT64_MAX;
    if (end_of(trace, place) > around) {
        if (end_of(trace, place) - around > ROUNDING_NS && !is_python(trace, event))
            hr_trace_build_skip(build, "ends of overlapping slices, cut off where the one around ends", -1);
        event->duration = around - event->start;
    }
    int64_t *items = hr_table_grow(open->items, open->count, &open->capacity, sizeof *items);
    if (!items) return hr_fail(HR_OUT_OF_MEMORY, "no memory for deeply nested slices");
    open->items = items;
    items[open->count++] = place;
    return HR_OK;
}

static hr_status slices_nest(hr_trace_build *build) {
    hr_trace *trace = build->trace;
    hr_status status = HR_OK;
    open_stack *open = calloc((size_t)trace->tracks.count + 1, sizeof *open);
    if (!open) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the slices of threads");
    for (int64_t i = 0; i < trace->events.count && status == HR_OK; i++) {
        const hr_event *event = &trace->events.items[i];
        const hr_track *track = &trace->tracks.items[event->track];
        bool nests =
            event->kind == HR_EVENT_RANGE || event->kind == HR_EVENT_OPERATOR || event->kind == HR_EVENT_CALL;
        if (nests && !track->is_stream && !track->overlapping)
            status = event_nest(build, i, &open[event->track]);
    }
    for (int64_t i = 0; i < trace->tracks.count; i++)
        free(open[i].items);
    free(open);
    return status;
}

hr_status hr_trace_build_finish(hr_trace_build *build, hr_trace **out) {
    hr_status status = HR_OK;
    if (build->failed) status = hr_fail(HR_OUT_OF_MEMORY, "not enough memory for the events of the trace");
    if (status == HR_OK) status = zero_set(build);
    if (status == HR_OK) status = events_sort(build->trace);
    if (status == HR_OK) status = slices_nest(build);
    if (status == HR_OK) {
        *out = build->trace;
        build->trace = NULL;
    }
    hr_trace_build_destroy(build);
    return status;
}
