/* What our own recorder wrote (base/trace_file.h) -> events.
 *
 * In: a file, plain or gzip, whole or cut anywhere. Out: events in the build; a chunk whose hash is wrong is
 * left out and counted, and a file that breaks off gives what came before.
 *
 * Chunks are found by their mark and believed by their hash. Most records become events at once. Four kinds
 * wait for the end of the file, because CUPTI reports the halves of one thing apart: waits get their thread
 * from the call of the same correlation, calls on CUDA events get the event and its stream, and launches that
 * were counted get their time from their counters. */
#include "base/trace_file.h"
#include "trace/trace_readers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX   4096      /* bytes; later versions may append to it */
#define STRING_MOST  (1 << 24) /* ids beyond are damage */
#define CONTEXT_MOST 65536
#define OPEN_MOST    4096 /* ranges at once */

typedef struct own_range {
    int64_t time, id, domain;
    int32_t name, track;
} own_range;

/* A call whose event or thread somebody waits for. */
typedef struct own_call {
    hr_record_call record;
    int64_t event;
    int32_t stream; /* track */
} own_call;

typedef struct own_reader {
    hr_trace_build *build;
    hr_trace_input *input;
    uint8_t *data; /* bytes of the file from `offset` on */
    size_t length, capacity;
    int64_t offset, process, last_time;
    bool ended, failed;
    HR_TABLE(int32_t) strings;  /* of the trace, by the file's ids; -1 = not there */
    HR_TABLE(int32_t) devices;  /* by context */
    HR_TABLE(own_range) ranges; /* open ones of all threads */
    HR_TABLE(own_call) calls;
    HR_TABLE(hr_record_wait) waits;
    HR_TABLE(hr_record_event_record) records;
    HR_TABLE(hr_record_kernel) counted; /* launches without times of their own */
    HR_TABLE(hr_record_counters) counters;
} own_reader;

/* ---- growing tables ---- */

/* Room for one more item of a table; false, remembered, without memory. */
static bool grow(own_reader *reader, void *items, int64_t count, int64_t *capacity, size_t size) {
    if (count < *capacity) return true;
    int64_t more = *capacity ? 2 * *capacity : 256;
    void *grown = realloc(*(void **)items, (size_t)more * size);
    if (!grown) {
        reader->failed = true;
        return false;
    }
    *(void **)items = grown;
    *capacity = more;
    return true;
}

#define APPEND(reader, table, value)                                                                         \
    (grow(reader, &(reader)->table.items, (reader)->table.count, &(reader)->table.capacity,                  \
          sizeof *(reader)->table.items)                                                                     \
         ? (void)((reader)->table.items[(reader)->table.count++] = (value))                                  \
         : (void)0)

static void set_string(own_reader *reader, int64_t id, int32_t string) {
    if (id < 0 || id >= STRING_MOST) return;
    while (reader->strings.count <= id && !reader->failed)
        APPEND(reader, strings, -1);
    if (!reader->failed) reader->strings.items[id] = string;
}

static int32_t string_of(const own_reader *reader, int64_t id) {
    return id >= 0 && id < reader->strings.count ? reader->strings.items[id] : -1;
}

static void set_device(own_reader *reader, int64_t context, int64_t device) {
    if (context < 0 || context >= CONTEXT_MOST) return;
    while (reader->devices.count <= context && !reader->failed)
        APPEND(reader, devices, -1);
    if (!reader->failed) reader->devices.items[context] = (int32_t)device;
}

/* ---- tracks and names ---- */

static int32_t thread_track(own_reader *reader, int64_t thread) {
    return hr_trace_build_thread(reader->build, reader->process, thread ? thread : reader->process);
}

/* A stream of a context; one device where the context was never seen. */
static int32_t stream_track(own_reader *reader, int64_t context, int64_t stream) {
    bool known = context >= 0 && context < reader->devices.count && reader->devices.items[context] >= 0;
    return hr_trace_build_stream(reader->build, known ? reader->devices.items[context] : 0, stream);
}

static const char *const memory_words[] = {"Unknown", "Pageable", "Pinned", "Device",
                                           "Array",   "Managed",  "Device", "Managed"};

static hr_memory_kind memory_kind(int64_t kind) {
    static const hr_memory_kind kinds[] = {HR_MEMORY_UNKNOWN, HR_MEMORY_PAGEABLE, HR_MEMORY_PINNED,
                                           HR_MEMORY_DEVICE,  HR_MEMORY_DEVICE,   HR_MEMORY_MANAGED,
                                           HR_MEMORY_DEVICE,  HR_MEMORY_MANAGED};
    return kind >= 0 && kind < 8 ? kinds[kind] : HR_MEMORY_UNKNOWN;
}

static int32_t copy_name(own_reader *reader, const hr_record_copy *copy) {
    static const char *const directions[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                             "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    char text[96];
    bool known = copy->direction > 0 && copy->direction < 11;
    int length =
        snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", known ? directions[copy->direction] : "?",
                 memory_words[copy->from & 7], memory_words[copy->to & 7]);
    return hr_trace_build_string(reader->build, text, (size_t)length);
}

static int32_t fill_name(own_reader *reader, const hr_record_fill *fill) {
    char text[64];
    int length = snprintf(text, sizeof text, "Memset (%s)", memory_words[fill->to & 7]);
    return hr_trace_build_string(reader->build, text, (size_t)length);
}

/* ---- events ---- */

static void add(own_reader *reader, hr_event event, const void *detail) {
    int64_t end;
    if (!__builtin_add_overflow(event.start, event.duration, &end) && end > reader->last_time)
        reader->last_time = end;
    hr_trace_build_event(reader->build, event, detail);
}

static void add_kernel(own_reader *reader, const hr_record_kernel *at, int32_t counters) {
    hr_kernel_work work = {
        .grid = {(int32_t)at->grid_x, (int32_t)at->grid_y, (int32_t)at->grid_z},
        .block = {(int32_t)at->block_x, (int32_t)at->block_y, (int32_t)at->block_z},
        .registers = (int32_t)at->registers,
        .shared_static = (int32_t)at->shared_static,
        .shared_dynamic = (int32_t)at->shared_dynamic,
        .cluster = (int32_t)at->cluster,
        .occupancy = -1,
        .graph = at->graph,
        .graph_node = at->graph_node,
        .collective = -1,
        .counters = counters,
    };
    set_device(reader, at->context, at->device);
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = string_of(reader, at->name),
                      .track = hr_trace_build_stream(reader->build, (int32_t)at->device, at->stream),
                      .kind = HR_EVENT_KERNEL,
                      .correlation = at->correlation};
    add(reader, event, &work);
}

static void add_copy(own_reader *reader, const hr_record_copy *at) {
    hr_copy copy = {.bytes = at->bytes,
                    .from = (uint8_t)memory_kind(at->from),
                    .to = (uint8_t)memory_kind(at->to),
                    .asynchronous = at->asynchronous != 0,
                    .graph = at->graph};
    if (at->peer) copy.to = HR_MEMORY_PEER;
    set_device(reader, at->context, at->device);
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = copy_name(reader, at),
                      .track = hr_trace_build_stream(reader->build, (int32_t)at->device, at->stream),
                      .kind = HR_EVENT_COPY,
                      .correlation = at->correlation};
    add(reader, event, &copy);
}

static void add_fill(own_reader *reader, const hr_record_fill *at) {
    hr_copy fill = {.bytes = at->bytes,
                    .to = (uint8_t)memory_kind(at->to),
                    .asynchronous = at->asynchronous != 0,
                    .graph = at->graph};
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = fill_name(reader, at),
                      .track = hr_trace_build_stream(reader->build, (int32_t)at->device, at->stream),
                      .kind = HR_EVENT_FILL,
                      .correlation = at->correlation};
    add(reader, event, &fill);
}

static void add_call(own_reader *reader, const own_call *at) {
    hr_call call = {.result = (int32_t)at->record.result, .event = at->event, .stream = at->stream};
    hr_event event = {.start = at->record.start,
                      .duration = at->record.duration,
                      .name = string_of(reader, at->record.name),
                      .track = thread_track(reader, at->record.thread),
                      .kind = HR_EVENT_CALL,
                      .correlation = at->record.correlation};
    add(reader, event, &call);
}

/* Calls that CUPTI says more about in another record. */
static bool is_joined(const char *name) {
    return strstr(name, "Event") || strstr(name, "Synchronize") || strncmp(name, "cudaMemcpy", 10) == 0 ||
           strncmp(name, "cuMemcpy", 8) == 0 || strstr(name, "Free") || strstr(name, "Query");
}

static void take_call(own_reader *reader, const hr_record_call *at) {
    own_call call = {*at, 0, -1};
    if (is_joined(hr_trace_build_text(reader->build, string_of(reader, at->name))))
        APPEND(reader, calls, call);
    else
        add_call(reader, &call);
}

static void add_allocation(own_reader *reader, const hr_record_allocation *at) {
    hr_allocation allocation = {.bytes = at->bytes,
                                .address = at->address,
                                .memory = memory_kind(at->memory),
                                .device = (int32_t)at->device};
    const char *name = at->bytes < 0 ? "freed" : "allocated";
    hr_event event = {.start = at->time,
                      .name = hr_trace_build_string(reader->build, name, strlen(name)),
                      .track = thread_track(reader, 0),
                      .kind = HR_EVENT_ALLOCATION};
    add(reader, event, &allocation);
}

static void add_overhead(own_reader *reader, const hr_record_overhead *at) {
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = string_of(reader, at->name),
                      .track = thread_track(reader, at->thread),
                      .kind = HR_EVENT_OVERHEAD};
    add(reader, event, NULL);
}

/* ---- ranges ---- */

/* PyTorch's emit_nvtx() writes "aten::mm, op_id = 7, sizes = [[64, 32], [32, 8]]": an operator with its
 * shapes. */
static bool add_operator(own_reader *reader, hr_event event, const char *text) {
    const char *end = strstr(text, ", op_id = ");
    const char *early = strstr(text, ", seq = ");
    if (!end && !early && strncmp(text, "aten::", 6) != 0) return false;
    if (early && (!end || early < end)) end = early;
    hr_operator detail = {.shapes = -1, .dtypes = -1, .sequence = -1};
    const char *sizes = strstr(text, "sizes = [");
    if (sizes) {
        sizes += strlen("sizes = ");
        const char *close = strstr(sizes, "]]");
        if (close) detail.shapes = hr_trace_build_string(reader->build, sizes, (size_t)(close + 2 - sizes));
    }
    if (early) detail.sequence = atoll(early + strlen(", seq = "));
    event.name = hr_trace_build_string(reader->build, text, end ? (size_t)(end - text) : strlen(text));
    event.kind = HR_EVENT_OPERATOR;
    add(reader, event, &detail);
    return true;
}

/* A library's own ranges are no steps of the program: they count as its operators. */
static bool is_library(own_reader *reader, int64_t domain) {
    static const char *const names[] = {"NCCL",  "CCCL",     "cuBLAS",   "CUBLAS", "cuDNN",
                                        "CUDNN", "TensorRT", "cuSPARSE", "cuFFT",  "cuSOLVER"};
    const char *name = hr_trace_build_text(reader->build, string_of(reader, domain));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static void add_range(own_reader *reader, const own_range *range, int64_t end) {
    hr_event event = {
        .start = range->time, .name = range->name, .track = range->track, .kind = HR_EVENT_RANGE};
    if (__builtin_sub_overflow(end, range->time, &event.duration)) event.duration = -1; /* is skipped */
    if (add_operator(reader, event, hr_trace_build_text(reader->build, range->name))) return;
    hr_operator detail = {.shapes = -1, .dtypes = -1, .sequence = -1};
    if (is_library(reader, range->domain)) event.kind = HR_EVENT_OPERATOR;
    add(reader, event, event.kind == HR_EVENT_OPERATOR ? &detail : NULL);
}

static void begin_range(own_reader *reader, const hr_record_range_begin *at) {
    own_range range = {at->time, at->id, at->domain, string_of(reader, at->name),
                       thread_track(reader, at->thread)};
    if (reader->ranges.count < OPEN_MOST)
        APPEND(reader, ranges, range);
    else
        hr_trace_build_skip(reader->build, "ranges within too many others", reader->offset);
}

/* The innermost open range of its thread and domain, or the one of its number. */
static void end_range(own_reader *reader, const hr_record_range_end *at) {
    int32_t track = thread_track(reader, at->thread);
    for (int64_t i = reader->ranges.count; i-- > 0;) {
        own_range *open = &reader->ranges.items[i];
        bool is_it =
            at->id ? open->id == at->id : open->id == 0 && open->track == track && open->domain == at->domain;
        if (!is_it) continue;
        add_range(reader, open, at->time);
        memmove(open, open + 1, (size_t)(reader->ranges.count - 1 - i) * sizeof *open);
        reader->ranges.count--;
        return;
    }
    hr_trace_build_skip(reader->build, "ends of ranges that began before the recording", reader->offset);
}

static void add_mark(own_reader *reader, const hr_record_mark *at) {
    hr_event event = {.start = at->time,
                      .name = string_of(reader, at->name),
                      .track = thread_track(reader, at->thread),
                      .kind = HR_EVENT_RANGE};
    add(reader, event, NULL);
}

/* ---- what waits for the end of the file ---- */

static int by_correlation(const void *a, const void *b) {
    const own_call *left = a, *right = b;
    int64_t x = left->record.correlation, y = right->record.correlation;
    return x < y ? -1 : x > y;
}

static own_call *find_call(own_reader *reader, int64_t correlation) {
    own_call key = {.record.correlation = correlation};
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

static int64_t join_records(own_reader *reader, own_record *out) {
    int64_t count = 0;
    for (int64_t i = 0; i < reader->records.count; i++) {
        const hr_record_event_record *at = &reader->records.items[i];
        own_call *call = find_call(reader, at->correlation);
        if (!call) continue;
        call->event = event_identity(at->event);
        call->stream = stream_track(reader, at->context, at->stream);
        out[count++] = (own_record){call->event, call->record.start, call->stream};
    }
    qsort(out, (size_t)count, sizeof *out, by_event);
    return count;
}

static void add_wait(own_reader *reader, const hr_record_wait *at, const own_record *records, int64_t count) {
    static const hr_wait_kind kinds[] = {HR_WAIT_EVENT, HR_WAIT_EVENT, HR_WAIT_STREAM_EVENT, HR_WAIT_STREAM,
                                         HR_WAIT_CONTEXT};
    static const char *const names[] = {"", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    if (at->wait_kind < 1 || at->wait_kind > 4) return;
    own_call *call = find_call(reader, at->correlation);
    bool on_stream = at->wait_kind == 2;
    hr_wait wait = {.kind = kinds[at->wait_kind], .stream = -1};
    if (at->wait_kind <= 2) wait.event = event_identity(at->event);
    if (wait.event) wait.stream = recorded_on(records, count, wait.event, at->start);
    if (at->wait_kind == 3) wait.stream = stream_track(reader, at->context, at->stream);
    if (call && wait.event && !call->event) {
        call->event = wait.event;
        if (on_stream) call->stream = stream_track(reader, at->context, at->stream);
    }
    const char *name = names[at->wait_kind];
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = hr_trace_build_string(reader->build, name, strlen(name)),
                      .track = on_stream ? stream_track(reader, at->context, at->stream)
                                         : thread_track(reader, call ? call->record.thread : 0),
                      .kind = HR_EVENT_SYNCHRONISE,
                      .correlation = at->correlation};
    add(reader, event, &wait);
}

static void add_joined(own_reader *reader) {
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
        add_call(reader, &reader->calls.items[i]);
    while (reader->ranges.count > 0) /* open when the recording ended */
        add_range(reader, &reader->ranges.items[--reader->ranges.count], reader->last_time);
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
static void add_counted(own_reader *reader, hr_record_kernel launch) {
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
    add_kernel(reader, &launch, hr_trace_build_counters(reader->build, &counters));
}

static void add_all_counted(own_reader *reader) {
    if (reader->counters.count)
        qsort(reader->counters.items, (size_t)reader->counters.count, sizeof *reader->counters.items,
              counters_by_correlation);
    for (int64_t i = 0; i < reader->counted.count; i++)
        add_counted(reader, reader->counted.items[i]);
    for (int64_t i = 0; i < reader->counters.count; i++) {
        const hr_record_counters *at = &reader->counters.items[i];
        hr_event event = {
            .start = at->time,
            .duration = at->duration,
            .name = hr_trace_build_string(reader->build, HR_OVERHEAD_COUNTERS, strlen(HR_OVERHEAD_COUNTERS)),
            .track = thread_track(reader, at->thread),
            .kind = HR_EVENT_OVERHEAD};
        add(reader, event, NULL);
    }
    if (reader->counters.count) hr_trace_build_share_counters(reader->build);
}

/* Over one interval: an event a kind. */
static void add_sample(own_reader *reader, const hr_record_sample *at) {
    static const hr_sample_kind kinds[] = {HR_SAMPLE_SM_ACTIVE, HR_SAMPLE_TENSOR_ACTIVE,
                                           HR_SAMPLE_WARPS_ACTIVE, HR_SAMPLE_DRAM};
    const int64_t values[] = {at->sm_active, at->tensor_active, at->warps_active, at->dram_of_peak};
    for (int i = 0; i < 4; i++)
        if (values[i] >= 0)
            hr_trace_build_sample(reader->build, (int32_t)at->device, at->time, at->duration,
                                  (hr_sample){(double)values[i] * 1e-6, kinds[i]}, -1);
}

/* ---- records ---- */

/* CUPTI gives no times of launches that its profiler counts. */
static void take_kernel(own_reader *reader, const hr_record_kernel *at) {
    if (at->start == 0 && at->duration == 0)
        APPEND(reader, counted, *at);
    else
        add_kernel(reader, at, -1);
}

static void take_device(own_reader *reader, const hr_record_device *at) {
    hr_trace_device *device = hr_trace_build_device(reader->build, (int32_t)at->id);
    if (!device) return;
    snprintf(device->name, sizeof device->name, "%s",
             hr_trace_build_text(reader->build, string_of(reader, at->name)));
    device->multiprocessors = (int32_t)at->multiprocessors;
    device->compute = (int32_t)at->compute;
    device->warps_multiprocessor = (int32_t)at->warps;
    device->registers_multiprocessor = (int32_t)at->registers;
    device->threads_multiprocessor = (int32_t)at->threads;
    device->shared_multiprocessor = at->shared;
    device->shared_block = at->shared_block;
    device->memory_bytes = (double)at->memory;
    device->bandwidth = (double)at->bandwidth;
}

static void name_thread(own_reader *reader, const hr_record_thread *at) {
    hr_track *track = hr_trace_build_track(reader->build, thread_track(reader, at->id));
    if (track) track->name = string_of(reader, at->name);
}

static void take_dropped(own_reader *reader, int64_t count) {
    for (int64_t i = 0; i < count && i < 1000000; i++)
        hr_trace_build_skip(reader->build, "records that the recorder had no room for", reader->offset);
}

static void take_record(own_reader *reader, const hr_trace_record *at) {
    switch (at->kind) {
    case HR_RECORD_kernel:
        take_kernel(reader, &at->kernel);
        break;
    case HR_RECORD_copy:
        add_copy(reader, &at->copy);
        break;
    case HR_RECORD_fill:
        add_fill(reader, &at->fill);
        break;
    case HR_RECORD_call:
        take_call(reader, &at->call);
        break;
    case HR_RECORD_wait:
        APPEND(reader, waits, at->wait);
        break;
    case HR_RECORD_event_record:
        APPEND(reader, records, at->event_record);
        break;
    case HR_RECORD_range_begin:
        begin_range(reader, &at->range_begin);
        break;
    case HR_RECORD_range_end:
        end_range(reader, &at->range_end);
        break;
    case HR_RECORD_mark:
        add_mark(reader, &at->mark);
        break;
    case HR_RECORD_overhead:
        add_overhead(reader, &at->overhead);
        break;
    case HR_RECORD_allocation:
        add_allocation(reader, &at->allocation);
        break;
    case HR_RECORD_device:
        take_device(reader, &at->device);
        break;
    case HR_RECORD_context:
        set_device(reader, at->context.id, at->context.device);
        break;
    case HR_RECORD_thread:
        name_thread(reader, &at->thread);
        break;
    case HR_RECORD_dropped:
        take_dropped(reader, at->dropped.count);
        break;
    case HR_RECORD_counters:
        APPEND(reader, counters, at->counters);
        break;
    case HR_RECORD_sample:
        add_sample(reader, &at->sample);
        break;
    case HR_RECORD_end:
        reader->ended = true;
        break;
    case HR_RECORD_string:
        set_string(reader, at->string.id,
                   hr_trace_build_string(reader->build, at->text, (size_t)at->string.length));
        break;
    default:
        break; /* notes, windows, programs: for people, or of a later version */
    }
}

/* ---- chunks ---- */

/* At least `wanted` bytes from the current place on, unless the file ends. */
static hr_status fill(own_reader *reader, size_t wanted) {
    if (reader->length >= wanted) return HR_OK;
    if (wanted > reader->capacity) {
        uint8_t *data = realloc(reader->data, wanted + 65536);
        if (!data) return hr_fail(HR_OUT_OF_MEMORY, "no memory to read a chunk of %zu bytes", wanted);
        reader->data = data;
        reader->capacity = wanted + 65536;
    }
    size_t got = 0;
    HR_TRY(hr_trace_input_read(reader->input, (char *)reader->data + reader->length,
                               reader->capacity - reader->length, &got));
    reader->length += got;
    return HR_OK;
}

static void skip_bytes(own_reader *reader, size_t count) {
    reader->length -= count;
    reader->offset += (int64_t)count;
    memmove(reader->data, reader->data + count, reader->length);
}

static void take_chunk(own_reader *reader, const uint8_t *payload, size_t length) {
    hr_trace_decoder decoder = {.data = payload, .length = length};
    hr_trace_record record;
    while (!reader->failed && hr_trace_decode(&decoder, &record))
        take_record(reader, &record);
    if (decoder.at < length) /* its hash is right, so a recorder of ours wrote it */
        hr_trace_build_skip(reader->build, "records of an unknown form",
                            reader->offset + (int64_t)decoder.at);
}

/* Behind a damaged chunk: the next place where a mark stands. */
static hr_status find_mark(own_reader *reader) {
    hr_trace_build_skip(reader->build, "damaged chunks", reader->offset);
    hr_trace_build_rank(reader->build)->truncated = true;
    size_t at = 1;
    for (;;) {
        uint32_t word;
        for (; at + sizeof word <= reader->length; at++) {
            memcpy(&word, reader->data + at, sizeof word);
            if (word != HR_TRACE_CHUNK_MARK) continue;
            skip_bytes(reader, at);
            return HR_OK;
        }
        size_t before = reader->length;
        skip_bytes(reader, at < before ? at : before);
        at = 0;
        before = reader->length;
        HR_TRY(fill(reader, before + sizeof word));
        if (reader->length == before) {
            skip_bytes(reader, before);
            return HR_OK;
        }
    }
}

static hr_status read_chunk(own_reader *reader) {
    hr_trace_chunk_header header;
    HR_TRY(fill(reader, sizeof header));
    if (reader->length == 0) return HR_OK;
    if (reader->length < sizeof header) {
        hr_trace_build_rank(reader->build)->truncated = true;
        skip_bytes(reader, reader->length);
        return HR_OK;
    }
    memcpy(&header, reader->data, sizeof header);
    if (header.mark != HR_TRACE_CHUNK_MARK || header.length > HR_TRACE_CHUNK_MAX) return find_mark(reader);
    HR_TRY(fill(reader, sizeof header + header.length));
    if (reader->length < sizeof header + header.length ||
        !hr_trace_chunk_check(&header, reader->data + sizeof header))
        return find_mark(reader);
    take_chunk(reader, reader->data + sizeof header, header.length);
    skip_bytes(reader, sizeof header + header.length);
    return hr_trace_build_progress(reader->build, hr_trace_input_done(reader->input),
                                   hr_trace_input_size(reader->input));
}

static hr_status read_header(own_reader *reader) {
    hr_trace_file_header header;
    HR_TRY(fill(reader, sizeof header));
    if (!hr_trace_header_check(reader->data, reader->length, &header) || header.bytes > HEADER_MAX)
        return hr_fail(
            HR_BAD_INPUT,
            "byte 0: the header is cut or of a version that this headroom does not read (it reads %d)",
            HR_TRACE_FILE_VERSION);
    HR_TRY(fill(reader, header.bytes));
    skip_bytes(reader, header.bytes < reader->length ? header.bytes : reader->length);
    hr_rank *rank = hr_trace_build_rank(reader->build);
    rank->rank = header.rank;
    rank->world = header.world;
    reader->process = header.process;
    hr_trace_build_clock(reader->build, header.epoch);
    return HR_OK;
}

static hr_status read_chunks(own_reader *reader) {
    HR_TRY(read_header(reader));
    for (;;) {
        HR_TRY(fill(reader, 1));
        if (reader->length == 0) break;
        HR_TRY(read_chunk(reader));
        if (reader->failed) break;
    }
    add_joined(reader);
    add_all_counted(reader);
    if (reader->failed) return hr_fail(HR_OUT_OF_MEMORY, "no memory for what it holds");
    hr_rank *rank = hr_trace_build_rank(reader->build);
    rank->killed = !reader->ended;
    rank->truncated |= hr_trace_input_damaged(reader->input);
    return HR_OK;
}

hr_status hr_trace_read_own(hr_trace_build *build, const char *path) {
    own_reader reader = {.build = build};
    HR_TRY(hr_trace_input_open(path, &reader.input));
    hr_trace_build_file_begin(build, path, "headroom");
    hr_status status = read_chunks(&reader);
    hr_trace_build_file_end(build);
    hr_trace_input_close(reader.input);
    free(reader.data);
    free(reader.strings.items);
    free(reader.devices.items);
    free(reader.ranges.items);
    free(reader.calls.items);
    free(reader.waits.items);
    free(reader.records.items);
    free(reader.counted.items);
    free(reader.counters.items);
    return status == HR_OK || status == HR_CANCELLED ? status : hr_fail_context(status, "%s", path);
}
