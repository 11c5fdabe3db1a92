/* What the rows of Nsight Systems' tables mean. In: columns, NULL where a version has them not. Out: events.
 */
#include "trace/nsys.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NONE_32 INT64_C(4294967295) /* "no stream", "no event" */
#define UNNAMED INT64_MIN           /* the process of rows that name none */
#define WARNING 2                   /* severities of DIAGNOSTIC_EVENT: warnings and errors */
#define FAILURE 3

/* ---- values ---- */

static int64_t whole(hr_nsys_row row, int column, int64_t otherwise) {
    return sqlite3_column_type(row.statement, column) == SQLITE_NULL
               ? otherwise
               : sqlite3_column_int64(row.statement, column);
}

static int32_t small(hr_nsys_row row, int column, int32_t otherwise) {
    int64_t value = whole(row, column, otherwise);
    return value < INT32_MIN || value > INT32_MAX ? otherwise : (int32_t)value;
}

/* The bytes of a text column; NULL where it is none. */
static const char *text(hr_nsys_row row, int column, size_t *length) {
    if (sqlite3_column_type(row.statement, column) != SQLITE_TEXT) return NULL;
    const char *bytes = (const char *)sqlite3_column_text(row.statement, column);
    *length = (size_t)sqlite3_column_bytes(row.statement, column);
    return bytes;
}

static int compare_strings(const void *left, const void *right) {
    int64_t a = ((const hr_nsys_string *)left)->id, b = ((const hr_nsys_string *)right)->id;
    return (a > b) - (a < b);
}

void hr_nsys_names_sort(hr_nsys *n) {
    if (n->strings.count)
        qsort(n->strings.items, (size_t)n->strings.count, sizeof *n->strings.items, compare_strings);
}

static int32_t name_find(const hr_nsys *n, int64_t id) {
    hr_nsys_string key = {.id = id};
    const hr_nsys_string *found = n->strings.count ? bsearch(&key, n->strings.items, (size_t)n->strings.count,
                                                             sizeof *n->strings.items, compare_strings)
                                                   : NULL;
    return found ? found->name : -1;
}

/* The first of several columns of string numbers that has one. */
static int32_t name(hr_nsys_row row, int first, int count) {
    for (int i = first; i < first + count; i++) {
        int64_t id = whole(row, i, -1);
        int32_t found = id >= 0 ? name_find(row.of, id) : -1;
        if (found >= 0) return found;
    }
    return -1;
}

static int32_t name_of(hr_nsys *n, const char *text) {
    return hr_trace_build_string(n->build, text, strlen(text));
}

/* ---- processes, threads, streams ---- */

/* Rows that name no process belong to the first one; the first one named takes over what came before. */
static bool process_choose(hr_nsys *n, int64_t global) {
    if (global != UNNAMED) global &= ~INT64_C(0xffffff);
    if (global != UNNAMED && n->process_count && n->processes[0].global == UNNAMED)
        n->processes[0].global = global;
    if (global == UNNAMED && n->process_count) global = n->processes[0].global;
    for (int i = 0; i < n->process_count; i++)
        if (n->processes[i].global == global) {
            hr_trace_build_rank_choose(n->build, n->processes[i].rank);
            return true;
        }
    if (n->process_count == HR_NSYS_PROCESSES_MAX) {
        hr_trace_build_skip(n->build, "events of more than 1024 processes", -1);
        return false;
    }
    int32_t rank =
        n->process_count ? hr_trace_build_rank_add(n->build) : hr_trace_build_rank_chosen(n->build);
    n->processes[n->process_count++] = (hr_nsys_process){global, rank};
    hr_trace_build_rank_choose(n->build, rank);
    return true;
}

static int32_t thread(hr_nsys *n, int64_t global) {
    return hr_trace_build_thread(n->build, global >> 24 & 0xffffff, global & 0xffffff);
}

static void context_learn(hr_nsys *n, int64_t id, int32_t device) {
    int32_t rank = hr_trace_build_rank_chosen(n->build);
    for (int i = n->context_count; i-- > 0;)
        if (n->contexts[i].id == id && n->contexts[i].rank == rank) return;
    if (n->context_count < HR_NSYS_CONTEXTS_MAX)
        n->contexts[n->context_count++] = (hr_nsys_context){rank, device, id};
}

static int32_t context_device(const hr_nsys *n, int64_t id, int32_t otherwise) {
    int32_t rank = hr_trace_build_rank_chosen(n->build);
    for (int i = 0; i < n->context_count; i++)
        if (n->contexts[i].id == id && n->contexts[i].rank == rank) return n->contexts[i].device;
    return otherwise;
}

/* Columns start, end of a row as the times of an event; false where the process cannot be had. */
static bool event_begin(hr_nsys_row row, int start, int process, hr_event_kind kind, hr_event *out) {
    if (!process_choose(row.of, whole(row, process, UNNAMED))) return false;
    *out = (hr_event){.kind = kind, .name = -1, .start = whole(row, start, 0)};
    if (__builtin_sub_overflow(whole(row, start + 1, out->start), out->start, &out->duration))
        out->duration = -1;
    return true;
}

static void event_add(hr_nsys_row row, hr_event event, const void *detail) {
    hr_trace_build_event(row.of->build, event, detail);
    row.of->events++;
}

/* ---- the tables ---- */

static void string_take(hr_nsys_row row) {
    hr_nsys *n = row.of;
    size_t length;
    const char *bytes = text(row, 1, &length);
    if (!bytes) return;
    if (n->strings.count == n->strings.capacity) {
        int64_t capacity = n->strings.capacity ? n->strings.capacity * 2 : 256;
        hr_nsys_string *grown = realloc(n->strings.items, (size_t)capacity * sizeof *grown);
        if (!grown) {
            n->failed = true;
            return;
        }
        n->strings.items = grown;
        n->strings.capacity = capacity;
    }
    n->strings.items[n->strings.count++] =
        (hr_nsys_string){whole(row, 0, -1), hr_trace_build_string(n->build, bytes, length)};
}

static void clock_take(hr_nsys_row row) {
    int64_t epoch = whole(row, 0, 0);
    if (epoch > 0) hr_trace_build_clock(row.of->build, epoch);
}

/* Blocks of a cluster from its extents; 0 where they are not known. */
static int32_t cluster_of(hr_nsys_row row, int first) {
    int64_t blocks = 1;
    for (int i = first; i < first + 3; i++) {
        int64_t extent = whole(row, i, 0);
        if (extent < 1 || extent > 64) return 0;
        blocks *= extent;
    }
    return (int32_t)blocks;
}

static void kernel_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_KERNEL, &event)) return;
    event.track = hr_trace_build_stream(row.of->build, small(row, 3, 0), whole(row, 4, 0));
    event.correlation = whole(row, 5, 0);
    event.name = name(row, 6, 3);
    context_learn(row.of, whole(row, 23, -1), small(row, 3, 0));
    hr_kernel_work work = {.registers = small(row, 9, 0),
                           .grid = {small(row, 10, 0), small(row, 11, 0), small(row, 12, 0)},
                           .block = {small(row, 13, 0), small(row, 14, 0), small(row, 15, 0)},
                           .shared_static = small(row, 16, 0),
                           .shared_dynamic = small(row, 17, 0),
                           .graph = whole(row, 18, 0),
                           .graph_node = whole(row, 19, 0),
                           .cluster = cluster_of(row, 20),
                           .occupancy = -1,
                           .collective = -1,
                           .counters = -1};
    event_add(row, event, &work);
}

/* Of CUPTI's memory kinds: pageable, pinned, device, array, managed, device static, managed static. */
static uint8_t memory(int64_t kind) {
    static const uint8_t kinds[] = {HR_MEMORY_PAGEABLE, HR_MEMORY_PINNED, HR_MEMORY_DEVICE, HR_MEMORY_DEVICE,
                                    HR_MEMORY_MANAGED,  HR_MEMORY_DEVICE, HR_MEMORY_MANAGED};
    return kind >= 0 && kind < (int64_t)sizeof kinds ? kinds[kind] : HR_MEMORY_UNKNOWN;
}

static const char *const copy_names[] = {
    "Memcpy",      "Memcpy HtoD",         "Memcpy DtoH",         "Memcpy HtoA",        "Memcpy AtoH",
    "Memcpy AtoA", "Memcpy AtoD",         "Memcpy DtoA",         "Memcpy DtoD",        "Memcpy HtoH",
    "Memcpy PtoP", "Memcpy unified HtoD", "Memcpy unified DtoH", "Memcpy unified DtoD"};

static void copy_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_COPY, &event)) return;
    event.track = hr_trace_build_stream(row.of->build, small(row, 3, 0), whole(row, 4, 0));
    event.correlation = whole(row, 5, 0);
    int64_t kind = whole(row, 7, 0), bytes = whole(row, 6, 0);
    bool known = kind >= 0 && kind < (int64_t)(sizeof copy_names / sizeof *copy_names);
    event.name = name_of(row.of, copy_names[known ? kind : 0]);
    hr_copy copy = {.bytes = bytes > 0 ? bytes : 0,
                    .from = memory(whole(row, 8, -1)),
                    .to = memory(whole(row, 9, -1)),
                    .graph = whole(row, 10, 0) != 0};
    context_learn(row.of, whole(row, 11, -1), small(row, 3, 0));
    bool peers = kind == 10;
    if (peers) copy.from = copy.to = HR_MEMORY_PEER;
    event_add(row, event, &copy);
}

static void fill_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_FILL, &event)) return;
    event.track = hr_trace_build_stream(row.of->build, small(row, 3, 0), whole(row, 4, 0));
    event.correlation = whole(row, 5, 0);
    event.name = name_of(row.of, "Memset");
    int64_t bytes = whole(row, 6, 0);
    hr_copy copy = {.bytes = bytes > 0 ? bytes : 0, .to = memory(whole(row, 7, -1))};
    event_add(row, event, &copy);
}

/* "cudaLaunchKernel_ptsz_v7000" is cudaLaunchKernel: the toolkit's version is of no use here. */
static int32_t call_name(hr_nsys *n, int32_t id) {
    const char *full = hr_trace_build_text(n->build, id);
    size_t length = strlen(full), end = length;
    while (end && full[end - 1] >= '0' && full[end - 1] <= '9')
        end--;
    if (length - end >= 4 && end >= 2 && memcmp(full + end - 2, "_v", 2) == 0) length = end - 2;
    static const char *const streams[] = {"_ptsz", "_ptds"};
    for (int i = 0; i < 2; i++)
        if (length > 5 && memcmp(full + length - 5, streams[i], 5) == 0) length -= 5;
    return full[length] ? hr_trace_build_string(n->build, full, length) : id;
}

static void call_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_CALL, &event)) return;
    event.track = thread(row.of, whole(row, 2, 0));
    event.correlation = whole(row, 3, 0);
    event.name = call_name(row.of, name(row, 4, 1));
    hr_call call = {.result = small(row, 5, 0), .stream = -1};
    event_add(row, event, &call);
}

static void wait_take(hr_nsys_row row) {
    static const char *const names[] = {"Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    static const hr_wait_kind kinds[] = {HR_WAIT_EVENT, HR_WAIT_STREAM_EVENT, HR_WAIT_STREAM,
                                         HR_WAIT_CONTEXT};
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_SYNCHRONISE, &event)) return;
    int64_t stream = whole(row, 4, NONE_32), cuda_event = whole(row, 6, NONE_32), type = whole(row, 7, 0);
    if (type < 1 || type > 4) {
        hr_trace_build_skip(row.of->build, "synchronisations of an unknown kind", -1);
        return;
    }
    /* some versions number a wait for a stream as a wait of one, which has an event */
    if (type == 2 && cuda_event == NONE_32) type = 3;
    bool on_stream = stream >= 0 && stream != NONE_32;
    int32_t device = context_device(row.of, whole(row, 8, -1), small(row, 3, 0));
    int32_t track = hr_trace_build_stream(row.of->build, device, on_stream ? stream : -1);
    hr_wait wait = {.kind = kinds[type - 1],
                    .stream = on_stream && type == 3 ? track : -1,
                    .event = cuda_event == NONE_32 ? 0 : cuda_event};
    event.track = track;
    event.correlation = whole(row, 5, 0);
    event.name = name_of(row.of, names[type - 1]);
    event_add(row, event, &wait);
}

static void overhead_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_OVERHEAD, &event)) return;
    event.track = thread(row.of, whole(row, 2, 0));
    event.name = name(row, 3, 1);
    event_add(row, event, NULL);
}

static void graph_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_GRAPH, &event)) return;
    event.track = hr_trace_build_stream(row.of->build, small(row, 3, 0), whole(row, 4, 0));
    event.correlation = whole(row, 5, 0);
    char title[40];
    snprintf(title, sizeof title, "graph %lld", (long long)whole(row, 6, 0));
    event.name = name_of(row.of, title);
    event_add(row, event, NULL);
}

/* ", key = value" of the names that PyTorch's emit_nvtx makes; NULL where it is absent. */
static const char *emitted(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? at + strlen(key) : NULL;
}

/* "aten::mm, seq = 12, op_id = 7, sizes = [[64, 32], [32, 64]]" is an operator. */
static bool operator_add(hr_nsys_row row, hr_event event, const char *text) {
    const char *id = emitted(text, ", op_id = "), *sequence = emitted(text, ", seq = ");
    const char *sizes = emitted(text, ", sizes = ");
    if (!id && !sequence && !sizes) return false;
    size_t length = strlen(text);
    const char *const parts[] = {id ? id - 10 : NULL, sequence ? sequence - 8 : NULL,
                                 sizes ? sizes - 10 : NULL};
    for (int i = 0; i < 3; i++)
        if (parts[i] && (size_t)(parts[i] - text) < length) length = (size_t)(parts[i] - text);
    hr_operator operation = {.shapes = -1, .dtypes = -1, .sequence = sequence ? atoll(sequence) : -1};
    if (sizes) {
        size_t count = strcspn(sizes, ",");
        const char *end = strstr(sizes, "]]");
        if (end) count = (size_t)(end + 2 - sizes);
        operation.shapes = hr_trace_build_string(row.of->build, sizes, count);
    }
    event.kind = HR_EVENT_OPERATOR;
    event.name = hr_trace_build_string(row.of->build, text, length);
    event_add(row, event, &operation);
    return true;
}

/* NVTX: a pushed range, a range with two ends, or a mark, by Nsight's numbers of them. */
static void range_take(hr_nsys_row row) {
    hr_event event;
    int64_t type = whole(row, 3, 0);
    bool pushed = type == 59 || type == 70, started = type == 60 || type == 71,
         mark = type == 34 || type == 65;
    if (!pushed && !started && !mark) return;
    if (!event_begin(row, 0, 2, HR_EVENT_RANGE, &event)) return;
    if (!mark && sqlite3_column_type(row.statement, 1) == SQLITE_NULL) {
        hr_trace_build_skip(row.of->build, "ranges that begin and never end", -1);
        return;
    }
    int64_t global = whole(row, 2, 0);
    event.track = thread(row.of, started ? (global & ~INT64_C(0xffffff)) | 0xffffff : global);
    if (started && event.track >= 0) hr_trace_build_track(row.of->build, event.track)->overlapping = true;
    size_t length;
    const char *bytes = text(row, 4, &length);
    event.name = bytes ? hr_trace_build_string(row.of->build, bytes, length) : name(row, 5, 1);
    if (pushed && operator_add(row, event, hr_trace_build_text(row.of->build, event.name))) return;
    event_add(row, event, NULL);
}

static void allocation_take(hr_nsys_row row) {
    hr_event event;
    if (!event_begin(row, 0, 2, HR_EVENT_ALLOCATION, &event)) return;
    event.duration = 0;
    event.track = thread(row.of, whole(row, 2, 0));
    int64_t bytes = whole(row, 5, 0);
    bool freed = whole(row, 6, 0) == 1;
    event.name = name_of(row.of, freed ? "free" : "allocate");
    hr_allocation allocation = {.bytes = freed && bytes > 0 ? -bytes : bytes,
                                .address = whole(row, 4, 0),
                                .device = small(row, 3, -1),
                                .memory = (hr_memory_kind)memory(whole(row, 7, -1))};
    event_add(row, event, &allocation);
}

static void thread_name_take(hr_nsys_row row) {
    int64_t global = whole(row, 0, 0);
    for (int i = 0; i < row.of->process_count; i++) {
        if (row.of->processes[i].global != (global & ~INT64_C(0xffffff))) continue;
        hr_trace_build_rank_choose(row.of->build, row.of->processes[i].rank);
        hr_track *track = hr_trace_build_track(row.of->build, thread(row.of, global));
        if (track) track->name = name(row, 1, 1);
    }
}

static void device_take(hr_nsys_row row) {
    int32_t id = small(row, 0, small(row, 1, 0));
    for (int i = 0; i < row.of->process_count; i++) {
        hr_trace_build_rank_choose(row.of->build, row.of->processes[i].rank);
        hr_trace_device *device = hr_trace_build_device(row.of->build, id);
        if (!device) return;
        size_t length = 0;
        const char *bytes = text(row, 2, &length);
        for (size_t k = 0; bytes && k < length && k + 1 < sizeof device->name; k++)
            device->name[k] = (char)(bytes[k] >= 32 && bytes[k] < 127 ? bytes[k] : '?');
        device->multiprocessors = small(row, 3, 0);
        device->compute = 10 * (small(row, 4, 0) % 1000) + small(row, 5, 0) % 10;
        device->memory_bytes = (double)whole(row, 6, 0);
        device->bandwidth = (double)whole(row, 7, 0);
        device->warps_multiprocessor = small(row, 8, 0);
        device->threads_multiprocessor =
            device->warps_multiprocessor <= 64 ? device->warps_multiprocessor * 32 : 0;
        device->registers_multiprocessor = small(row, 9, 0);
        device->shared_multiprocessor = whole(row, 10, 0);
        device->shared_block = whole(row, 11, 0);
    }
}

/* ---- sampled metrics ---- */

/* "SMs Active [Throughput %]"; names differ a little from version to version, and several have averages of
 * other units beside them. */
static hr_sample_kind sample_kind(const char *name) {
    static const struct {
        const char *begins;
        hr_sample_kind kind;
    } known[] = {{"SMs Active", HR_SAMPLE_SM_ACTIVE},
                 {"SM Active", HR_SAMPLE_SM_ACTIVE},
                 {"Tensor Active", HR_SAMPLE_TENSOR_ACTIVE},
                 {"SM Tensor Active", HR_SAMPLE_TENSOR_ACTIVE},
                 {"Compute Warps in Flight", HR_SAMPLE_WARPS_ACTIVE},
                 {"DRAM Bandwidth", HR_SAMPLE_DRAM},
                 {"DRAM Read Bandwidth", HR_SAMPLE_DRAM_READ},
                 {"DRAM Read Throughput", HR_SAMPLE_DRAM_READ},
                 {"DRAM Write Bandwidth", HR_SAMPLE_DRAM_WRITTEN},
                 {"DRAM Write Throughput", HR_SAMPLE_DRAM_WRITTEN}};
    for (size_t i = 0; strstr(name, "%]") && i < sizeof known / sizeof *known; i++)
        if (strncasecmp(name, known[i].begins, strlen(known[i].begins)) == 0) return known[i].kind;
    return HR_SAMPLE_OTHER;
}

static void metric_take(hr_nsys_row row) {
    hr_nsys *n = row.of;
    size_t length;
    const char *bytes = text(row, 2, &length);
    if (!bytes || n->metric_count == HR_NSYS_METRICS_MAX) return;
    int32_t name = hr_trace_build_string(n->build, bytes, length);
    n->metrics[n->metric_count++] = (hr_nsys_metric){whole(row, 0, 0), whole(row, 1, 0),
                                                     sample_kind(hr_trace_build_text(n->build, name)), name};
}

/* The first process that used the GPU: the samples are of all that run there. */
static void sampled_rank_choose(hr_nsys *n, int32_t device) {
    if (n->process_count) hr_trace_build_rank_choose(n->build, n->processes[0].rank);
    for (int i = 0; i < n->context_count; i++)
        if (n->contexts[i].device == device) {
            hr_trace_build_rank_choose(n->build, n->contexts[i].rank);
            return;
        }
}

static void sample_take(hr_nsys_row row) {
    hr_nsys *n = row.of;
    int64_t type = whole(row, 1, 0), id = whole(row, 2, 0);
    const hr_nsys_metric *metric = NULL;
    for (int i = 0; i < n->metric_count && !metric; i++)
        if (n->metrics[i].id == id && n->metrics[i].type == type) metric = &n->metrics[i];
    if (!metric) {
        hr_trace_build_skip(n->build, "samples of metrics without a name", -1);
        return;
    }
    int32_t device = (int32_t)(type & 0xff);
    hr_sample sample = {sqlite3_column_double(row.statement, 3), metric->kind};
    if (sample.kind != HR_SAMPLE_OTHER) sample.value *= 0.01;
    sampled_rank_choose(n, device);
    hr_trace_build_sample(n->build, device, whole(row, 0, 0), 0, sample, metric->name);
    n->events++;
}

/* What Nsight itself says went wrong, in its words. */
static void diagnostic_take(hr_nsys_row row) {
    hr_nsys *n = row.of;
    int64_t severity = whole(row, 1, 0);
    size_t length;
    const char *bytes = text(row, 0, &length);
    if (!bytes || (severity != WARNING && severity != FAILURE)) return;
    int32_t words = hr_trace_build_string(n->build, bytes, length);
    char reason[160];
    snprintf(reason, sizeof reason, "%s of Nsight Systems: %s", severity == FAILURE ? "errors" : "warnings",
             hr_trace_build_text(n->build, words));
    hr_trace_build_skip(n->build, reason, -1);
}

const hr_nsys_table hr_nsys_tables[] = {
    {"StringIds", {"id", "value"}, string_take},
    {"TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, clock_take},
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     {"start",
      "end",
      "globalPid",
      "deviceId",
      "streamId",
      "correlationId",
      "demangledName",
      "shortName",
      "mangledName",
      "registersPerThread",
      "gridX",
      "gridY",
      "gridZ",
      "blockX",
      "blockY",
      "blockZ",
      "staticSharedMemory",
      "dynamicSharedMemory",
      "graphId",
      "graphNodeId",
      "clusterX",
      "clusterY",
      "clusterZ",
      "contextId"},
     kernel_take},
    {"CUPTI_ACTIVITY_KIND_MEMCPY",
     {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes", "copyKind", "srcKind",
      "dstKind", "graphNodeId", "contextId"},
     copy_take},
    {"CUPTI_ACTIVITY_KIND_MEMSET",
     {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes", "memKind"},
     fill_take},
    {"CUPTI_ACTIVITY_KIND_RUNTIME",
     {"start", "end", "globalTid", "correlationId", "nameId", "returnValue"},
     call_take},
    {"CUPTI_ACTIVITY_KIND_DRIVER",
     {"start", "end", "globalTid", "correlationId", "nameId", "returnValue"},
     call_take},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
     {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "eventId", "syncType",
      "contextId"},
     wait_take},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
     {"start", "end", "globalPid", "deviceId", "streamId", "correlationId", "graphId"},
     graph_take},
    {"CUPTI_ACTIVITY_KIND_OVERHEAD", {"start", "end", "globalTid", "nameId"}, overhead_take},
    {"PROFILER_OVERHEAD", {"start", "end", "globalTid", "nameId"}, overhead_take},
    {"NVTX_EVENTS", {"start", "end", "globalTid", "eventType", "text", "textId"}, range_take},
    {"CUDA_GPU_MEMORY_USAGE_EVENTS",
     {"start", "start", "globalPid", "deviceId", "address", "bytes", "memoryOperationType", "memKind"},
     allocation_take},
    {"TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"}, metric_take},
    {"GPU_METRICS", {"timestamp", "typeId", "metricId", "value"}, sample_take},
    {"ThreadNames", {"globalTid", "nameId"}, thread_name_take},
    {"TARGET_INFO_GPU",
     {"cuDevice", "id", "name", "smCount", "computeMajor", "computeMinor", "totalMemory", "memoryBandwidth",
      "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm", "maxShmemPerBlockOptin"},
     device_take},
    {"DIAGNOSTIC_EVENT", {"text", "severity"}, diagnostic_take},
};
const int64_t hr_nsys_table_count = sizeof hr_nsys_tables / sizeof *hr_nsys_tables;
