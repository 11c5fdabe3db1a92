/* The growing tables of a trace. In: what readers found. Out: tables, unsorted, on the clocks of the files.
 */
#include "trace/trace_state.h"

#include "base/text.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_LIMIT (INT64_C(8) << 20)

/* An event of a profiler's trace takes 15 to 30 bytes in gzip (7 in files of headroom record), and 150 to 400
 * in memory. */
#define PACKED_EVENT       4
#define PACKED_LIMIT_LEAST (INT64_C(1) << 20)
#define DEVICE_MAX         4096
#define SKIPPED_MAX        64 /* reasons: some hold words of the file */

/* ---- tables ---- */

void *hr_table_grow(void *items, int64_t count, int64_t *capacity, size_t item_size) {
    if (count < *capacity) return items;
    if (count >= INT32_MAX / 2) return NULL; /* places in tables are of 32 bits */
    int64_t more = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(items, (size_t)more * item_size);
    if (grown) *capacity = more;
    return grown;
}

/* Appends `item` to a table of the trace and gives its place; -1 and `failed` without memory. An expression's
 * worth of typing for each table, so written once. */
#define DEFINE_PUSH(NAME, TABLE, TYPE)                                                                       \
    static int32_t push_##TABLE(hr_trace_build *build, const TYPE *item) {                                   \
        hr_trace *trace = build->trace;                                                                      \
        TYPE *items =                                                                                        \
            hr_table_grow(trace->TABLE.items, trace->TABLE.count, &trace->TABLE.capacity, sizeof *items);    \
        if (!items) {                                                                                        \
            build->failed = true;                                                                            \
            return -1;                                                                                       \
        }                                                                                                    \
        trace->TABLE.items = items;                                                                          \
        items[trace->TABLE.count] = *item;                                                                   \
        return (int32_t)trace->TABLE.count++;                                                                \
    }
HR_TRACE_DETAILS(DEFINE_PUSH)
DEFINE_PUSH(EVENT, events, hr_event)
DEFINE_PUSH(TRACK, tracks, hr_track)
DEFINE_PUSH(COLLECTIVE, collectives, hr_collective)
DEFINE_PUSH(COUNTERS, counters, hr_counters)
DEFINE_PUSH(DEVICE, devices, hr_trace_device)
DEFINE_PUSH(RANK, ranks, hr_rank)
DEFINE_PUSH(SKIPPED, skipped, hr_skipped)

static int32_t push_detail(hr_trace_build *build, uint32_t kind, const void *detail) {
    switch ((hr_event_kind)kind) {
#define PUSH_CASE(NAME, TABLE, TYPE)                                                                         \
    case HR_EVENT_##NAME:                                                                                    \
        return push_##TABLE(build, detail);
        HR_TRACE_DETAILS(PUSH_CASE)
    case HR_EVENT_FILL:
        return push_copies(build, detail);
    default:
        return -1;
    }
}

/* ---- beginning and end ---- */

hr_status hr_trace_build_create(const hr_trace_options *options, int files, hr_trace_build **out) {
    hr_trace_build *build = calloc(1, sizeof *build);
    hr_trace *trace = calloc(1, sizeof *trace);
    int32_t *slots = calloc(2 * HR_TRACK_MAX, sizeof *slots);
    if (build && trace && slots) {
        *build = (hr_trace_build){.trace = trace, .track_slots = slots, .last_track = -1};
        if (options) build->options = *options;
        build->file_count = files > 0 ? files : 1;
        if (build->options.event_limit > INT32_MAX) build->options.event_limit = INT32_MAX;
        trace->event_limit = build->options.event_limit > 0 ? build->options.event_limit : EVENT_LIMIT;
        if (hr_strings_create(&trace->strings) == HR_OK) {
            *out = build;
            return HR_OK;
        }
    }
    free(build);
    free(trace);
    free(slots);
    return hr_fail(HR_OUT_OF_MEMORY, "no memory to read a trace");
}

void hr_trace_destroy(hr_trace *trace) {
    if (!trace) return;
#define FREE_TABLE(NAME, TABLE, TYPE) free(trace->TABLE.items);
    HR_TRACE_DETAILS(FREE_TABLE)
    free(trace->events.items);
    free(trace->tracks.items);
    free(trace->collectives.items);
    free(trace->counters.items);
    free(trace->devices.items);
    free(trace->ranks.items);
    free(trace->skipped.items);
    hr_strings_destroy(trace->strings);
    free(trace);
}

void hr_trace_build_destroy(hr_trace_build *build) {
    if (!build) return;
    hr_trace_destroy(build->trace);
    free(build->files.items);
    free(build->track_slots);
    free(build);
}

/* ---- files and ranks ---- */

static int64_t file_limit(const hr_trace_build *build) {
    int64_t limit = build->trace->event_limit / build->file_count;
    int64_t packed = build->packed / PACKED_EVENT;
    if (packed < PACKED_LIMIT_LEAST) packed = PACKED_LIMIT_LEAST;
    if (build->packed > 0 && packed < limit) limit = packed;
    return limit > 1 ? limit : 1;
}

void hr_trace_build_packed(hr_trace_build *build, int64_t bytes) {
    build->packed = bytes;
}

void hr_trace_build_file_begin(hr_trace_build *build, const char *path, const char *source) {
    hr_trace_file *items = hr_table_grow(build->files.items, build->files.count, &build->files.capacity,
                                         sizeof *build->files.items);
    if (!items) {
        build->failed = true;
        return;
    }
    build->files.items = items;
    items[build->files.count++] = (hr_trace_file){.first_rank = (int32_t)build->trace->ranks.count,
                                                  .first_event = build->trace->events.count};
    build->window = (hr_trace_window){.limit = file_limit(build), .cut = INT64_MAX};
    build->path = path;
    build->source = source;
    hr_trace_build_rank_choose(build, hr_trace_build_rank_add(build));
}

static hr_trace_file *current_file(hr_trace_build *build) {
    return build->files.count ? &build->files.items[build->files.count - 1] : NULL;
}

void hr_trace_build_file_end(hr_trace_build *build) {
    hr_trace_file *file = current_file(build);
    if (!file) return;
    file->rank_end = (int32_t)build->trace->ranks.count;
    if (!build->failed && !hr_trace_join(build, file->first_event)) build->failed = true;
}

hr_status hr_trace_build_progress(hr_trace_build *build, int64_t done, int64_t total) {
    const hr_trace_options *options = &build->options;
    if (!options->progress) return HR_OK;
    char what[300];
    const char *name = build->path ? build->path : "";
    const char *slash = strrchr(name, '/');
    snprintf(what, sizeof what, "reading %s", slash ? slash + 1 : name);
    if (options->progress(options->progress_context, what, (double)done, (double)total)) return HR_OK;
    return hr_fail(HR_CANCELLED, "stopped while reading %s", name);
}

void hr_trace_build_clock(hr_trace_build *build, int64_t epoch) {
    hr_trace_file *file = current_file(build);
    if (!file) return;
    file->clock_known = true;
    file->epoch = epoch;
}

int32_t hr_trace_build_rank_add(hr_trace_build *build) {
    hr_rank rank = {.rank = -1};
    snprintf(rank.path, sizeof rank.path, "%s", build->path ? build->path : "");
    snprintf(rank.source, sizeof rank.source, "%s", build->source ? build->source : "");
    return push_ranks(build, &rank);
}

void hr_trace_build_rank_choose(hr_trace_build *build, int32_t rank) {
    build->rank = rank;
    build->last_track = -1;
}

int32_t hr_trace_build_rank_chosen(const hr_trace_build *build) {
    return build->rank;
}

hr_rank *hr_trace_build_rank(hr_trace_build *build) {
    static _Thread_local hr_rank nowhere; /* where memory ran out: written to, never read */
    return build->rank >= 0 && build->rank < build->trace->ranks.count
               ? &build->trace->ranks.items[build->rank]
               : &nowhere;
}

/* ---- strings ---- */

static bool is_plain(unsigned char byte) {
    return byte >= 0x20 && byte < 0x7f;
}

static int32_t string_cleaned(hr_trace_build *build, const char *bytes, size_t length) {
    char *clean = malloc(length + 1);
    if (!clean) return -1;
    size_t put = 0;
    for (size_t i = 0; i < length;) {
        size_t sequence;
        bool shown = hr_character_is_shown(bytes + i, length - i, &sequence);
        memcpy(clean + put, shown ? bytes + i : "?", shown ? sequence : 1);
        put += shown ? sequence : 1;
        i += sequence;
    }
    int32_t id = hr_strings_intern(build->trace->strings, clean, put);
    free(clean);
    return id;
}

int32_t hr_trace_build_string(hr_trace_build *build, const char *bytes, size_t length) {
    int32_t have = hr_strings_find(build->trace->strings, bytes, length);
    if (have >= 0) return have; /* what is kept is clean */
    unsigned odd = 0;
    for (size_t i = 0; i < length; i++)
        odd |= !is_plain((unsigned char)bytes[i]);
    int32_t id =
        odd ? string_cleaned(build, bytes, length) : hr_strings_intern(build->trace->strings, bytes, length);
    if (id < 0) hr_trace_build_skip(build, "names beyond 512 MB", -1);
    return id;
}

const char *hr_trace_build_text(const hr_trace_build *build, int32_t id) {
    return hr_strings_text(build->trace->strings, id);
}

const char *hr_trace_string(const hr_trace *trace, int32_t id) {
    return hr_strings_text(trace->strings, id);
}

/* ---- tracks and devices ---- */

static bool track_is(const hr_track *track, const hr_track *key) {
    return track->rank == key->rank && track->is_stream == key->is_stream && track->device == key->device &&
           track->process == key->process && track->id == key->id;
}

static int32_t track_find(hr_trace_build *build, const hr_track *key) {
    const hr_track *tracks = build->trace->tracks.items;
    if (build->last_track >= 0 && track_is(&tracks[build->last_track], key)) return build->last_track;
    uint64_t hash = (uint64_t)key->id * 0x9e3779b97f4a7c15u ^ (uint64_t)key->process * 0xc2b2ae3d27d4eb4fu ^
                    (uint64_t)(uint32_t)key->device << 32 ^ (uint64_t)(uint32_t)key->rank << 1 ^
                    key->is_stream;
    hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15u;
    uint32_t slot = (uint32_t)(hash >> 40) & (2 * HR_TRACK_MAX - 1);
    for (; build->track_slots[slot]; slot = (slot + 1) & (2 * HR_TRACK_MAX - 1))
        if (track_is(&tracks[build->track_slots[slot] - 1], key))
            return build->last_track = build->track_slots[slot] - 1;
    if (build->trace->tracks.count >= HR_TRACK_MAX) return -1;
    int32_t track = push_tracks(build, key);
    if (track >= 0) build->track_slots[slot] = track + 1;
    return build->last_track = track;
}

int32_t hr_trace_build_thread(hr_trace_build *build, int64_t process, int64_t id) {
    hr_track key = {.rank = build->rank, .device = -1, .process = process, .id = id, .name = -1};
    return track_find(build, &key);
}

int32_t hr_trace_build_stream(hr_trace_build *build, int32_t device, int64_t id) {
    hr_track key = {.rank = build->rank, .is_stream = true, .device = device, .id = id, .name = -1};
    return track_find(build, &key);
}

hr_track *hr_trace_build_track(hr_trace_build *build, int32_t track) {
    return track >= 0 && track < build->trace->tracks.count ? &build->trace->tracks.items[track] : NULL;
}

hr_trace_device *hr_trace_build_device(hr_trace_build *build, int32_t id) {
    hr_trace *trace = build->trace;
    for (int64_t i = 0; i < trace->devices.count; i++)
        if (trace->devices.items[i].rank == build->rank && trace->devices.items[i].id == id)
            return &trace->devices.items[i];
    if (trace->devices.count >= DEVICE_MAX) return NULL;
    hr_trace_device device = {.rank = build->rank, .id = id};
    int32_t place = push_devices(build, &device);
    return place < 0 ? NULL : &trace->devices.items[place];
}

/* ---- events ---- */

void hr_trace_build_event(hr_trace_build *build, hr_event event, const void *detail) {
    if (event.track < 0) {
        hr_trace_build_skip(build, "events on more than 65536 threads and streams", -1);
        return;
    }
    if (event.duration < 0 || event.duration > HR_TIME_MAX || event.start > HR_TIME_MAX ||
        event.start < -HR_TIME_MAX) {
        hr_trace_build_skip(build, "events of negative or impossible times", -1);
        return;
    }
    if (!hr_trace_window_admits(build, event.start)) return;
    event.detail = detail ? push_detail(build, event.kind, detail) : -1;
    if (!build->failed) push_events(build, &event);
}

int32_t hr_trace_build_collective(hr_trace_build *build, const hr_collective *collective) {
    return push_collectives(build, collective);
}

int32_t hr_trace_build_counters(hr_trace_build *build, const hr_counters *counters) {
    return push_counters(build, counters);
}

void hr_trace_build_skip(hr_trace_build *build, const char *reason, int64_t offset) {
    hr_trace *trace = build->trace;
    for (int64_t i = 0; i < trace->skipped.count; i++)
        if (strncmp(trace->skipped.items[i].reason, reason, sizeof trace->skipped.items[i].reason - 1) == 0) {
            trace->skipped.items[i].count++;
            return;
        }
    if (trace->skipped.count == SKIPPED_MAX) reason = "things of more kinds than are told apart";
    if (trace->skipped.count > SKIPPED_MAX) {
        trace->skipped.items[SKIPPED_MAX].count++;
        return;
    }
    hr_skipped skipped = {.count = 1, .offset = offset};
    snprintf(skipped.reason, sizeof skipped.reason, "%s", reason);
    push_skipped(build, &skipped);
}
