/* XPlane files of XLA's profiler: what JAX writes beside its JSON, .xplane.pb, plain or gzip.
 *
 * In: one message in protocol buffers' wire format: planes (a device, the host), their lines (streams,
 * threads), on those events whose names and attributes stand in tables of the plane. Out: events of the
 * model. The file is held in memory whole, as its tables stand behind what refers to them; a bound says no to
 * what is larger.
 */
#include "trace/protobuf.h"
#include "trace/trace_readers.h"
#include "trace/trace_state.h"
#include "trace/xla_names.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MAX    ((size_t)1 << 30)
#define CHUNK       ((size_t)4 << 20)
#define EPOCH_LEAST INT64_C(1000000000000000000) /* ns: later than 2001 must count from the epoch */

/* Numbers of fields, as xplane.proto gives them. */
enum { SPACE_PLANE = 1 };
enum { PLANE_NAME = 2, PLANE_LINE = 3, PLANE_EVENT_NAMES = 4, PLANE_STAT_NAMES = 5, PLANE_STAT = 6 };
enum { LINE_ID = 1, LINE_NAME = 2, LINE_TIME = 3, LINE_EVENT = 4, LINE_SHOWN_NAME = 11 };
enum { EVENT_NAME = 1, EVENT_OFFSET = 2, EVENT_DURATION = 3, EVENT_STAT = 4 };
enum { STAT_NAME = 1, STAT_UNSIGNED = 3, STAT_SIGNED = 4, STAT_TEXT = 5, STAT_REFERENCE = 7 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, METADATA_NAME = 2 };

typedef struct plane_name {
    int64_t id;
    int32_t name; /* into strings */
} plane_name;

typedef HR_TABLE(plane_name) name_table;

typedef struct xplane {
    hr_trace_build *build;
    const char *path;
    name_table events, stats;     /* of the plane being read, sorted by id */
    int32_t plane_number, device; /* device: -1 = a host */
    bool has_streams, damaged, failed;
    int64_t added, first_time;
} xplane;

/* ---- tables of names ---- */

static int compare_names(const void *left, const void *right) {
    int64_t a = ((const plane_name *)left)->id, b = ((const plane_name *)right)->id;
    return (a > b) - (a < b);
}

static int32_t name_find(const name_table *names, uint64_t id) {
    plane_name key = {.id = (int64_t)id};
    const plane_name *found =
        names->count ? bsearch(&key, names->items, (size_t)names->count, sizeof key, compare_names) : NULL;
    return found ? found->name : -1;
}

static int32_t text_intern(xplane *x, const hr_proto *bytes) {
    return hr_trace_build_string(x->build, (const char *)bytes->at, hr_proto_length(bytes));
}

/* An entry of a map: a number, and a message of which the name counts. */
static void name_add(xplane *x, name_table *names, hr_proto entry) {
    plane_name added = {.name = -1};
    hr_proto_field field, inner;
    while (hr_proto_next(&entry, &field)) {
        if (field.number == ENTRY_KEY && field.kind == HR_PROTO_WHOLE) added.id = (int64_t)field.whole;
        if (field.number != ENTRY_VALUE || field.kind != HR_PROTO_BYTES) continue;
        while (hr_proto_next(&field.bytes, &inner))
            if (inner.number == METADATA_NAME && inner.kind == HR_PROTO_BYTES)
                added.name = text_intern(x, &inner.bytes);
    }
    plane_name *items = hr_table_grow(names->items, names->count, &names->capacity, sizeof *items);
    if (!items) {
        x->failed = true;
        return;
    }
    names->items = items;
    items[names->count++] = added;
}

static void names_sort(name_table *names) {
    if (names->count) qsort(names->items, (size_t)names->count, sizeof *names->items, compare_names);
}

/* ---- attributes ---- */

typedef struct stat {
    const char *name;
    int64_t whole;
    int32_t text; /* into strings, -1 = none */
} stat;

static stat stat_read(xplane *x, hr_proto message) {
    stat out = {.name = "", .text = -1};
    hr_proto_field field;
    while (hr_proto_next(&message, &field)) {
        if (field.number == STAT_NAME && field.kind == HR_PROTO_WHOLE)
            out.name = hr_trace_build_text(x->build, name_find(&x->stats, field.whole));
        else if ((field.number == STAT_UNSIGNED || field.number == STAT_SIGNED) &&
                 field.kind == HR_PROTO_WHOLE)
            out.whole = (int64_t)field.whole;
        else if (field.number == STAT_TEXT && field.kind == HR_PROTO_BYTES)
            out.text = text_intern(x, &field.bytes);
        else if (field.number == STAT_REFERENCE && field.kind == HR_PROTO_WHOLE)
            out.text = name_find(&x->stats, field.whole);
    }
    return out;
}

static int32_t small_of(int64_t value) {
    return value > 0 && value <= INT32_MAX ? (int32_t)value : 0;
}

static void device_stat_take(xplane *x, const stat *of) {
    hr_trace_device *device = hr_trace_build_device(x->build, x->device);
    if (!device) return;
    if (strcmp(of->name, "core_count") == 0) device->multiprocessors = small_of(of->whole);
    if (strcmp(of->name, "compute_cap_major") == 0) device->compute += 10 * (small_of(of->whole) % 1000);
    if (strcmp(of->name, "compute_cap_minor") == 0) device->compute += small_of(of->whole) % 10;
    if (strcmp(of->name, "memory_size") == 0 && of->whole > 0) device->memory_bytes = (double)of->whole;
    if (strcmp(of->name, "memory_bandwidth") == 0 && of->whole > 0) device->bandwidth = (double)of->whole;
    if (strcmp(of->name, "device_type_string") == 0 && of->text >= 0)
        snprintf(device->name, sizeof device->name, "%.95s", hr_trace_build_text(x->build, of->text));
}

/* ---- events ---- */

typedef struct line {
    int64_t id, time; /* time: ns */
    const char *title;
    int32_t title_name, track;
    bool work; /* its events are a device's work */
} line;

static void event_finish(xplane *x, const line *of, hr_event event, int32_t details) {
    const char *name = hr_trace_build_text(x->build, event.name);
    const char *words = hr_trace_build_text(x->build, details);
    event.track = of->track;
    event.kind = x->device >= 0         ? HR_EVENT_DEVICE_RANGE
                 : hr_xla_is_call(name) ? HR_EVENT_CALL
                                        : HR_EVENT_RANGE;
    if (of->work) event.kind = hr_xla_work_kind(name);
    if (event.kind == HR_EVENT_KERNEL) {
        hr_kernel_work work = hr_xla_kernel(words);
        hr_trace_build_event(x->build, event, &work);
    } else if (event.kind == HR_EVENT_COPY || event.kind == HR_EVENT_FILL) {
        hr_copy copy = hr_xla_copy(name, words);
        hr_trace_build_event(x->build, event, &copy);
    } else
        hr_trace_build_event(x->build, event, NULL);
    if (x->added++ == 0) x->first_time = event.start;
}

static void event_take(xplane *x, const line *of, hr_proto message) {
    hr_event event = {.name = -1};
    int32_t details = -1;
    uint64_t offset = 0, duration = 0; /* ps */
    hr_proto_field field;
    while (hr_proto_next(&message, &field)) {
        if (field.number == EVENT_STAT && field.kind == HR_PROTO_BYTES) {
            stat found = stat_read(x, field.bytes);
            if (strcmp(found.name, "correlation_id") == 0) event.correlation = found.whole;
            if (strstr(found.name, "_details")) details = found.text;
        }
        if (field.kind != HR_PROTO_WHOLE) continue;
        if (field.number == EVENT_NAME) event.name = name_find(&x->events, field.whole);
        if (field.number == EVENT_OFFSET) offset = field.whole;
        if (field.number == EVENT_DURATION) duration = field.whole;
    }
    x->damaged |= message.bad;
    event.duration = (int64_t)(duration / 1000);
    if (__builtin_add_overflow(of->time, (int64_t)(offset / 1000), &event.start)) event.duration = -1;
    event_finish(x, of, event, details);
}

static line line_begin(xplane *x, hr_proto message) {
    line out = {.title = "", .title_name = -1};
    hr_proto_field field;
    while (hr_proto_next(&message, &field)) {
        if (field.number == LINE_ID && field.kind == HR_PROTO_WHOLE) out.id = (int64_t)field.whole;
        if (field.number == LINE_TIME && field.kind == HR_PROTO_WHOLE) out.time = (int64_t)field.whole;
        if (field.kind != HR_PROTO_BYTES) continue;
        bool shown = field.number == LINE_SHOWN_NAME || (field.number == LINE_NAME && out.title_name < 0);
        if (shown) out.title_name = text_intern(x, &field.bytes);
    }
    x->damaged |= message.bad;
    out.title = hr_trace_build_text(x->build, out.title_name);
    return out;
}

static void line_take(xplane *x, hr_proto message) {
    line of = line_begin(x, message);
    int64_t stream = hr_xla_stream(of.title);
    of.work = x->device >= 0 && (x->has_streams ? stream >= 0 : hr_xla_is_work_line(of.title));
    of.track = x->device >= 0 ? hr_trace_build_stream(x->build, x->device, stream >= 0 ? stream : of.id)
                              : hr_trace_build_thread(x->build, x->plane_number, of.id);
    hr_track *track = hr_trace_build_track(x->build, of.track);
    if (track && !track->is_stream) track->name = of.title_name;
    hr_proto_field field;
    while (hr_proto_next(&message, &field))
        if (field.number == LINE_EVENT && field.kind == HR_PROTO_BYTES) event_take(x, &of, field.bytes);
}

/* ---- planes ---- */

/* Names, tables, whether a line is a stream: what its lines need. */
static void plane_begin(xplane *x, hr_proto message) {
    const char *name = "";
    hr_proto_field field;
    x->events.count = x->stats.count = 0;
    x->has_streams = false;
    while (hr_proto_next(&message, &field)) {
        if (field.kind != HR_PROTO_BYTES) continue;
        if (field.number == PLANE_NAME) name = hr_trace_build_text(x->build, text_intern(x, &field.bytes));
        if (field.number == PLANE_EVENT_NAMES) name_add(x, &x->events, field.bytes);
        if (field.number == PLANE_STAT_NAMES) name_add(x, &x->stats, field.bytes);
        if (field.number == PLANE_LINE && hr_xla_stream(line_begin(x, field.bytes).title) >= 0)
            x->has_streams = true;
    }
    x->damaged |= message.bad;
    x->device = hr_xla_device(name);
    names_sort(&x->events);
    names_sort(&x->stats);
}

static void plane_take(xplane *x, hr_proto message) {
    hr_proto_field field;
    plane_begin(x, message);
    while (hr_proto_next(&message, &field)) {
        if (field.kind != HR_PROTO_BYTES) continue;
        if (field.number == PLANE_LINE) line_take(x, field.bytes);
        if (field.number != PLANE_STAT || x->device < 0) continue;
        stat of = stat_read(x, field.bytes);
        device_stat_take(x, &of);
    }
    x->plane_number++;
}

/* ---- the file ---- */

static hr_status file_load(xplane *x, hr_trace_input *input, uint8_t **out, size_t *length) {
    size_t capacity = 0, got = CHUNK;
    *length = 0;
    while (got == CHUNK) {
        if (*length + CHUNK > capacity) {
            capacity = capacity ? 2 * capacity : CHUNK;
            uint8_t *grown = capacity > FILE_MAX + CHUNK ? NULL : realloc(*out, capacity);
            if (!grown)
                return hr_fail(HR_OUT_OF_MEMORY,
                               "%s: is larger than the %zu MB that are held in memory; profile fewer steps",
                               x->path, FILE_MAX >> 20);
            *out = grown;
        }
        HR_TRY(hr_trace_input_read(input, (char *)*out + *length, CHUNK, &got));
        *length += got;
        HR_TRY(hr_trace_build_progress(x->build, hr_trace_input_done(input), hr_trace_input_size(input)));
    }
    return HR_OK;
}

static hr_status space_read(xplane *x, hr_trace_input *input, uint8_t **bytes) {
    size_t length = 0;
    HR_TRY(file_load(x, input, bytes, &length));
    hr_proto space = {.at = *bytes, .end = *bytes + length};
    hr_proto_field field;
    while (hr_proto_next(&space, &field) && !x->failed)
        if (field.number == SPACE_PLANE && field.kind == HR_PROTO_BYTES) plane_take(x, field.bytes);
    if (x->failed) return hr_fail(HR_OUT_OF_MEMORY, "%s: not enough memory to read it", x->path);
    if (!x->added)
        return hr_fail(HR_BAD_INPUT, "%s: byte %lld: an XPlane file without a single event", x->path,
                       (long long)(space.at - *bytes));
    if (space.bad || x->damaged || hr_trace_input_damaged(input)) {
        hr_trace_build_rank(x->build)->truncated = true;
        hr_trace_build_skip(x->build, "files that break off; what came before is kept", space.at - *bytes);
    }
    if (x->first_time >= EPOCH_LEAST) hr_trace_build_clock(x->build, 0);
    return HR_OK;
}

hr_status hr_trace_read_xplane(hr_trace_build *build, const char *path) {
    xplane x = {.build = build, .path = path};
    hr_trace_input *input = NULL;
    uint8_t *bytes = NULL;
    hr_trace_build_file_begin(build, path, "jax");
    hr_status status = hr_trace_input_open(path, &input);
    if (status == HR_OK) status = space_read(&x, input, &bytes);
    hr_trace_build_file_end(build);
    hr_trace_input_close(input);
    free(bytes);
    free(x.events.items);
    free(x.stats.items);
    return status;
}

bool hr_trace_is_xplane(const char *bytes, size_t length) {
    hr_proto space = {.at = (const uint8_t *)bytes, .end = (const uint8_t *)bytes + length};
    if (length < 4 || *space.at != (SPACE_PLANE << 3 | 2)) return false;
    for (space.at++; space.at < space.end && *space.at >= 0x80; space.at++) /* the plane's length */
        continue;
    space.at++;
    hr_proto_field field;
    for (int i = 0; i < 3 && hr_proto_next(&space, &field); i++) {
        if (field.number != PLANE_NAME || field.kind != HR_PROTO_BYTES || !hr_proto_length(&field.bytes))
            continue;
        const char *name = (const char *)field.bytes.at;
        return *name == '/' || *name == 'T'; /* "/device:GPU:0", "/host:CPU", "Task Environment" */
    }
    return false;
}
