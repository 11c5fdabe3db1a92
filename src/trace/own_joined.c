/* Records of our own recorder that wait for the end of the file. In: all of them. Out: events. See
 * own_reader.h. */
#include "trace/own_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- waits and calls ---- */

static int by_correlation(const void *a, const void *b) {
    const hr_own_call *left = a, *right = b;
    int64_t x = left->record.correlation, y = right->record.correlation;
    return x < y ? -1 : x > y;
}

static hr_own_call *find_call(hr_own_reader *reader, int64_t correlation) {
    hr_own_call key = {.record.correlation = correlation};
    if (!reader->calls.count) return NULL;
    return bsearch(&key, reader->calls.items, (size_t)reader->calls.count, sizeof key, by_correlation);
}

/* Records of CUDA events, once they know when they were called. */
typedef struct own_record {
    int64_t event, time;
    int32_t stream;
} own_record;

static int by_event(const void *a, const void *b) {
    const own_record *left = a, *right = b;
    if (left->event != right->event) return left->event < right->event ? -1 : 1;
    return left->time < right->time ? -1 : left->time > right->time;
}

/* CUPTI counts events from 0; in the model 0 is none. */
static int64_t event_identity(int64_t event) {
    return event >= 0 && event < INT64_MAX ? event + 1 : 0;
}

/* The stream on which the event was recorded last before `time`, -1 = never. */
static int32_t recorded_on(const own_record *records, int64_t count, int64_t event, int64_t time) {
    int64_t low = 0, high = count;
    while (low < high) { /* the first one after it */
        int64_t middle = low + (high - low) / 2;
        bool after =
            records[middle].event > event || (records[middle].event == event && records[middle].time > time);
        if (after)
            high = middle;
        else
            low = middle + 1;
    }
    return low > 0 && records[low - 1].event == event ? records[low - 1].stream : -1;
}

static int64_t join_records(hr_own_reader *reader, own_record *out) {
    int64_t count = 0;
    for (int64_t i = 0; i < reader->records.count; i++) {
        const hr_record_event_record *at = &reader->records.items[i];
        hr_own_call *call = find_call(reader, at->correlation);
        if (!call) continue;
        call->event = event_identity(at->event);
        call->stream = hr_own_stream(reader, at->context, at->stream);
        out[count++] = (own_record){call->event, call->record.start, call->stream};
    }
    qsort(out, (size_t)count, sizeof *out, by_event);
    return count;
}

static void add_wait(hr_own_reader *reader, const hr_record_wait *at, const own_record *records,
                     int64_t count) {
    static const hr_wait_kind kinds[] = {HR_WAIT_EVENT, HR_WAIT_EVENT, HR_WAIT_STREAM_EVENT, HR_WAIT_STREAM,
                                         HR_WAIT_CONTEXT};
    static const char *const names[] = {"", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    if (at->wait_kind < 1 || at->wait_kind > 4) return;
    hr_own_call *call = find_call(reader, at->correlation);
    bool on_stream = at->wait_kind == 2;
    hr_wait wait = {.kind = kinds[at->wait_kind], .stream = -1};
    if (at->wait_kind <= 2) wait.event = event_identity(at->event);
    if (wait.event) wait.stream = recorded_on(records, count, wait.event, at->start);
    if (at->wait_kind == 3) wait.stream = hr_own_stream(reader, at->context, at->stream);
    if (call && wait.event && !call->event) {
        call->event = wait.event;
        if (on_stream) call->stream = hr_own_stream(reader, at->context, at->stream);
    }
    const char *name = names[at->wait_kind];
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = hr_trace_build_string(reader->build, name, strlen(name)),
                      .track = on_stream ? hr_own_stream(reader, at->context, at->stream)
                                         : hr_own_thread(reader, call ? call->record.thread : 0),
                      .kind = HR_EVENT_SYNCHRONISE,
                      .correlation = at->correlation};
    hr_own_add(reader, event, &wait);
}

void hr_own_add_joined(hr_own_reader *reader) {
    if (reader->calls.count)
        qsort(reader->calls.items, (size_t)reader->calls.count, sizeof *reader->calls.items, by_correlation);
    own_record *records = malloc((size_t)(reader->records.count + 1) * sizeof *records);
    if (!records) {
        reader->failed = true;
        return;
    }
    int64_t count = join_records(reader, records);
    for (int64_t i = 0; i < reader->waits.count; i++)
        add_wait(reader, &reader->waits.items[i], records, count);
    free(records);
    for (int64_t i = 0; i < reader->calls.count; i++)
        hr_own_add_call(reader, &reader->calls.items[i]);
    while (reader->ranges.count > 0) /* open when the recording ended */
        hr_own_add_range(reader, &reader->ranges.items[--reader->ranges.count], reader->last_time);
}

/* ---- launches that were counted ---- */

static int counters_by_correlation(const void *a, const void *b) {
    int64_t x = ((const hr_record_counters *)a)->correlation,
            y = ((const hr_record_counters *)b)->correlation;
    return (x > y) - (x < y);
}

/* A field of the record behind `known`; NAN where it was not read. */
static double counted(const hr_record_counters *at, const int64_t *field) {
    ptrdiff_t place = field - &at->nanoseconds;
    return at->known >> place & 1 ? (double)*field : NAN;
}

static double counted_ratio(double part, double whole) {
    return whole > 0 ? part / whole : NAN;
}

static hr_counters counters_of(const hr_record_counters *at) {
    double hits = counted(at, &at->l2_hits);
    return (hr_counters){
        .seconds = counted(at, &at->nanoseconds) * 1e-9,
        .dram_read = counted(at, &at->dram_read),
        .dram_written = counted(at, &at->dram_written),
        .l1_hit = counted(at, &at->l1_hit) * 1e-6,
        .l2_hit = counted_ratio(hits, hits + counted(at, &at->l2_misses)),
        .sectors_per_load = counted_ratio(counted(at, &at->load_sectors), counted(at, &at->load_requests)),
        .sectors_per_store = counted_ratio(counted(at, &at->store_sectors), counted(at, &at->store_requests)),
        .tensor_instructions = counted(at, &at->tensor),
        .vector_instructions = counted(at, &at->vector),
        .tensor_active = counted(at, &at->tensor_active) * 1e-6,
        .warps_active = counted(at, &at->warps_active) * 1e-6,
        .dram_of_peak = counted(at, &at->dram_of_peak) * 1e-6,
        .sm_of_peak = counted(at, &at->sm_of_peak) * 1e-6};
}

/* While it is counted a launch keeps its thread until it has run; when exactly it ran nobody says, but for
 * how long. */
static void add_launch(hr_own_reader *reader, hr_record_kernel launch) {
    hr_record_counters key = {.correlation = launch.correlation};
    const hr_record_counters *at = reader->counters.count
                                       ? bsearch(&key, reader->counters.items, (size_t)reader->counters.count,
                                                 sizeof key, counters_by_correlation)
                                       : NULL;
    int64_t end;
    if (!at || __builtin_add_overflow(at->time, at->duration, &end) ||
        __builtin_sub_overflow(end, at->nanoseconds, &launch.start)) {
        hr_trace_build_skip(reader->build, "launches without a time", -1);
        return;
    }
    launch.duration = at->nanoseconds;
    hr_counters counters = counters_of(at);
    hr_own_add_kernel(reader, &launch, hr_trace_build_counters(reader->build, &counters));
}

void hr_own_add_counted(hr_own_reader *reader) {
    if (reader->counters.count)
        qsort(reader->counters.items, (size_t)reader->counters.count, sizeof *reader->counters.items,
              counters_by_correlation);
    for (int64_t i = 0; i < reader->counted.count; i++)
        add_launch(reader, reader->counted.items[i]);
    for (int64_t i = 0; i < reader->counters.count; i++) {
        const hr_record_counters *at = &reader->counters.items[i];
        hr_event event = {
            .start = at->time,
            .duration = at->duration,
            .name = hr_trace_build_string(reader->build, HR_OVERHEAD_COUNTERS, strlen(HR_OVERHEAD_COUNTERS)),
            .track = hr_own_thread(reader, at->thread),
            .kind = HR_EVENT_OVERHEAD};
        hr_own_add(reader, event, NULL);
    }
    if (reader->counters.count) hr_trace_build_share_counters(reader->build);
}
