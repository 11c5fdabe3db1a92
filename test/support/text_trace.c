/* The text format of text_trace.h. In: lines. Out: a trace, through the builder that all readers use. */
#include "support/text_trace.h"

#include "trace/trace_build.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 40
#define WORD_SIZE 512

typedef struct line {
    char words[WORDS_MAX][WORD_SIZE]; /* quotes taken off */
    int count, number;
} line;

static const char *const kinds[HR_EVENT_KIND_COUNT] = {
    [HR_EVENT_RANGE] = "range",
    [HR_EVENT_OPERATOR] = "operator",
    [HR_EVENT_CALL] = "call",
    [HR_EVENT_KERNEL] = "kernel",
    [HR_EVENT_COPY] = "copy",
    [HR_EVENT_FILL] = "fill",
    [HR_EVENT_SYNCHRONISE] = "synchronise",
    [HR_EVENT_DEVICE_RANGE] = "device-range",
    [HR_EVENT_GRAPH] = "graph",
    [HR_EVENT_OVERHEAD] = "overhead",
    [HR_EVENT_ALLOCATION] = "allocation",
    [HR_EVENT_COUNTER] = "counter",
};

/* Splits at blanks; a quoted part keeps its blanks, and \" is a quote in it. False where it is too long. */
static bool line_split(const char *at, const char *end, line *out) {
    out->count = 0;
    while (at < end) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        if (at == end || (out->count == 0 && *at == '#')) break;
        if (out->count == WORDS_MAX) return false;
        size_t length = 0;
        bool quoted = false;
        for (; at < end && (quoted || !isspace((unsigned char)*at)); at++) {
            if (*at == '"') {
                quoted = !quoted;
                continue;
            }
            if (*at == '\\' && quoted && at + 1 < end) at++;
            if (length + 1 == WORD_SIZE) return false;
            out->words[out->count][length++] = *at;
        }
        out->words[out->count++][length] = 0;
    }
    return true;
}

/* The text behind KEY= or the first such word as it is ("asynchronous"); NULL where there is none. */
static const char *value(const line *from, const char *key) {
    size_t length = strlen(key);
    for (int i = 1; i < from->count; i++) {
        if (strncmp(from->words[i], key, length) != 0) continue;
        if (from->words[i][length] == '=') return from->words[i] + length + 1;
        if (from->words[i][length] == 0 && i > 4) return from->words[i];
    }
    return NULL;
}

static double number(const line *from, const char *key, double otherwise) {
    const char *text = value(from, key);
    return text ? strtod(text, NULL) : otherwise;
}

static int64_t whole(const line *from, const char *key, int64_t otherwise) {
    const char *text = value(from, key);
    return text ? (int64_t)strtod(text, NULL) : otherwise;
}

static int64_t nanoseconds(const char *text) {
    return (int64_t)llround(strtod(text, NULL) * 1000);
}

static int32_t string(hr_trace_build *build, const char *text) {
    return text ? hr_trace_build_string(build, text, strlen(text)) : -1;
}

static int32_t track(hr_trace_build *build, const char *text) {
    int device, length = 0;
    long long stream;
    if (!text) return -1;
    if (sscanf(text, "gpu%d:%lld%n", &device, &stream, &length) == 2 && !text[length])
        return hr_trace_build_stream(build, device, stream);
    int32_t name = string(build, text);
    int32_t thread = hr_trace_build_thread(build, 1, name);
    hr_trace_build_track(build, thread)->name = name;
    return thread;
}

static void triple(const char *text, int32_t out[3]) {
    out[0] = out[1] = out[2] = 1;
    if (text) sscanf(text, "%d,%d,%d", &out[0], &out[1], &out[2]);
}

static hr_memory_kind memory(const char *text) {
    static const char *const names[] = {"unknown", "pageable", "pinned", "device", "managed", "peer"};
    for (int i = 0; text && i < 6; i++)
        if (strcmp(names[i], text) == 0) return (hr_memory_kind)i;
    return HR_MEMORY_UNKNOWN;
}

static hr_wait_kind wait_kind(const char *text) {
    static const char *const names[] = {"event", "stream-event", "stream", "context"};
    for (int i = 0; text && i < 4; i++)
        if (strcmp(names[i], text) == 0) return (hr_wait_kind)i;
    return HR_WAIT_CONTEXT;
}

static hr_sample_kind sample_kind(const line *from) {
    static const char *const names[HR_SAMPLE_KIND_COUNT] = {"other", "sm",        "tensor",      "warps",
                                                            "dram",  "dram-read", "dram-written"};
    const char *text = value(from, "of");
    for (int i = 0; text && i < HR_SAMPLE_KIND_COUNT; i++)
        if (strcmp(names[i], text) == 0) return (hr_sample_kind)i;
    return HR_SAMPLE_OTHER;
}

static int32_t counters_of(hr_trace_build *build, const line *from) {
    hr_counters counters = {
        .seconds = number(from, "seconds", NAN),
        .dram_read = number(from, "dram_read", NAN),
        .dram_written = number(from, "dram_written", NAN),
        .l1_hit = number(from, "l1_hit", NAN),
        .l2_hit = number(from, "l2_hit", NAN),
        .sectors_per_load = number(from, "sectors_per_load", NAN),
        .sectors_per_store = number(from, "sectors_per_store", NAN),
        .tensor_instructions = number(from, "tensor", NAN),
        .vector_instructions = number(from, "vector", NAN),
        .tensor_active = number(from, "tensor_active", NAN),
        .warps_active = number(from, "warps_active", NAN),
        .dram_of_peak = number(from, "dram_of_peak", NAN),
        .sm_of_peak = number(from, "sm_of_peak", NAN),
    };
    bool any = false;
    for (size_t i = 0; i < sizeof counters / sizeof(double); i++)
        any = any || !isnan(((double *)(void *)&counters)[i]);
    return any ? hr_trace_build_counters(build, &counters) : -1;
}

static hr_kernel_work kernel_of(hr_trace_build *build, const line *from) {
    hr_kernel_work work = {
        .registers = (int32_t)whole(from, "registers", 0),
        .shared_dynamic = (int32_t)whole(from, "shared", 0),
        .shared_static = (int32_t)whole(from, "shared_static", 0),
        .cluster = (int32_t)whole(from, "cluster", 0),
        .occupancy = (float)number(from, "occupancy", -1),
        .graph = whole(from, "graph", 0),
        .graph_node = whole(from, "node", 0),
        .collective = -1,
        .counters = counters_of(build, from),
        .queued = value(from, "queued") ? nanoseconds(value(from, "queued")) : 0,
        .submitted = value(from, "submitted") ? nanoseconds(value(from, "submitted")) : 0,
    };
    triple(value(from, "grid"), work.grid);
    triple(value(from, "block"), work.block);
    if (value(from, "collective")) {
        hr_collective collective = {.name = string(build, value(from, "collective")),
                                    .group = string(build, value(from, "group")),
                                    .bytes = whole(from, "bytes", 0),
                                    .ranks = (int32_t)whole(from, "ranks", 0)};
        work.collective = hr_trace_build_collective(build, &collective);
    }
    return work;
}

static void event_add(hr_trace_build *build, const line *from, hr_event event) {
    switch ((hr_event_kind)event.kind) {
    case HR_EVENT_OPERATOR:
        hr_trace_build_event(build, event,
                             &(hr_operator){.shapes = string(build, value(from, "shapes")),
                                            .dtypes = string(build, value(from, "dtypes")),
                                            .sequence = whole(from, "sequence", -1),
                                            .is_python = value(from, "python") != NULL});
        break;
    case HR_EVENT_CALL:
        hr_trace_build_event(build, event,
                             &(hr_call){.result = (int32_t)whole(from, "result", 0),
                                        .event = whole(from, "event", 0),
                                        .stream = track(build, value(from, "stream"))});
        break;
    case HR_EVENT_KERNEL: {
        hr_kernel_work work = kernel_of(build, from);
        hr_trace_build_event(build, event, &work);
        break;
    }
    case HR_EVENT_COPY:
    case HR_EVENT_FILL:
        hr_trace_build_event(build, event,
                             &(hr_copy){.bytes = whole(from, "bytes", 0),
                                        .from = (uint8_t)memory(value(from, "from")),
                                        .to = (uint8_t)memory(value(from, "to")),
                                        .asynchronous = value(from, "asynchronous") != NULL,
                                        .graph = whole(from, "graph", 0)});
        break;
    case HR_EVENT_SYNCHRONISE:
        hr_trace_build_event(build, event,
                             &(hr_wait){.kind = wait_kind(value(from, "wait")),
                                        .stream = track(build, value(from, "stream")),
                                        .event = whole(from, "event", 0)});
        break;
    case HR_EVENT_ALLOCATION:
        hr_trace_build_event(build, event,
                             &(hr_allocation){.bytes = whole(from, "bytes", 0),
                                              .address = whole(from, "address", 0),
                                              .memory = memory(value(from, "memory")),
                                              .device = (int32_t)whole(from, "device", 0),
                                              .total = whole(from, "total", 0),
                                              .reserved = whole(from, "reserved", 0)});
        break;
    case HR_EVENT_COUNTER:
        hr_trace_build_event(build, event,
                             &(hr_sample){.value = number(from, "value", 0), .kind = sample_kind(from)});
        break;
    default:
        hr_trace_build_event(build, event, NULL);
    }
}

static void rank_begin(hr_trace_build *build, const line *from, bool first) {
    if (!first) hr_trace_build_rank_choose(build, hr_trace_build_rank_add(build));
    hr_rank *rank = hr_trace_build_rank(build);
    rank->rank = atoi(from->words[1]);
    if (from->count == 4) rank->world = atoi(from->words[3]);
}

static void device_add(hr_trace_build *build, const line *from) {
    hr_trace_device *device = hr_trace_build_device(build, atoi(from->words[1]));
    snprintf(device->name, sizeof device->name, "%.95s", from->words[2]);
    device->multiprocessors = (int32_t)whole(from, "multiprocessors", 0);
    device->compute = (int32_t)whole(from, "compute", 0);
    device->bandwidth = number(from, "bandwidth", 0);
    device->memory_bytes = number(from, "memory", 0);
    device->warps_multiprocessor = (int32_t)whole(from, "warps", 0);
    device->threads_multiprocessor = (int32_t)whole(from, "threads", 0);
    device->registers_multiprocessor = (int32_t)whole(from, "registers", 0);
    device->shared_multiprocessor = whole(from, "shared", 0);
    device->shared_block = whole(from, "shared_block", 0);
}

static hr_status line_take(hr_trace_build *build, const line *from, int *ranks) {
    if (!from->count) return HR_OK;
    if (strcmp(from->words[0], "rank") == 0 && (from->count == 2 || from->count == 4)) {
        rank_begin(build, from, (*ranks)++ == 0);
        return HR_OK;
    }
    if (strcmp(from->words[0], "device") == 0 && from->count >= 3) {
        device_add(build, from);
        return HR_OK;
    }
    for (int kind = 0; kind < HR_EVENT_KIND_COUNT; kind++) {
        if (strcmp(from->words[0], kinds[kind]) != 0 || from->count < 5) continue;
        hr_event event = {.kind = (uint32_t)kind,
                          .track = track(build, from->words[1]),
                          .start = nanoseconds(from->words[2]),
                          .duration = nanoseconds(from->words[3]),
                          .name = string(build, from->words[4]),
                          .external = whole(from, "external", 0)};
        for (int i = 5; i < from->count; i++)
            if (from->words[i][0] == '#') event.correlation = atoll(from->words[i] + 1);
        event_add(build, from, event);
        return HR_OK;
    }
    return hr_fail(HR_BAD_INPUT, "text trace, line %d: cannot be understood: \"%s ...\"", from->number,
                   from->words[0]);
}

hr_status hr_text_trace(const char *text, hr_trace **out) {
    hr_trace_build *build;
    static line current; /* 20 KB */
    int ranks = 0;
    HR_TRY(hr_trace_build_create(NULL, 1, &build));
    hr_trace_build_file_begin(build, "text", "text");
    hr_status status = HR_OK;
    for (current.number = 1; *text && status == HR_OK; current.number++) {
        size_t length = strcspn(text, "\n");
        if (line_split(text, text + length, &current))
            status = line_take(build, &current, &ranks);
        else
            status = hr_fail(HR_BAD_INPUT, "text trace, line %d: too long", current.number);
        text += length + (text[length] == '\n');
    }
    hr_trace_build_file_end(build);
    if (status == HR_OK) return hr_trace_build_finish(build, out);
    hr_trace_build_destroy(build);
    return status;
}
