/* Records of our own recorder that become events at once. In: a record. Out: an event. See own_reader.h. */
#include "base/saturate.h"
#include "trace/own_reader.h"

#include <stdlib.h>
#include <string.h>

#define STRING_MOST  (1 << 24) /* ids beyond are damage */
#define CONTEXT_MOST 65536
#define OPEN_MOST    4096 /* ranges at once */

/* ---- growing tables ---- */

bool hr_own_grow(hr_own_reader *reader, void *items, int64_t count, int64_t *capacity, size_t size) {
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

void hr_own_set_string(hr_own_reader *reader, int64_t id, int32_t string) {
    if (id < 0 || id >= STRING_MOST) return;
    while (reader->strings.count <= id && !reader->failed)
        HR_OWN_APPEND(reader, strings, -1);
    if (!reader->failed) reader->strings.items[id] = string;
}

int32_t hr_own_string(const hr_own_reader *reader, int64_t id) {
    return id >= 0 && id < reader->strings.count ? reader->strings.items[id] : -1;
}

void hr_own_set_device(hr_own_reader *reader, int64_t context, int64_t device) {
    if (context < 0 || context >= CONTEXT_MOST) return;
    while (reader->devices.count <= context && !reader->failed)
        HR_OWN_APPEND(reader, devices, -1);
    if (!reader->failed) reader->devices.items[context] = (int32_t)device;
}

/* ---- tracks and names ---- */

int32_t hr_own_thread(hr_own_reader *reader, int64_t thread) {
    return hr_trace_build_thread(reader->build, reader->process, thread ? thread : reader->process);
}

/* A stream of a context; one device where the context was never seen. */
int32_t hr_own_stream(hr_own_reader *reader, int64_t context, int64_t stream) {
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

static int32_t copy_name(hr_own_reader *reader, const hr_record_copy *copy) {
    static const char *const directions[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                             "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    char text[96];
    bool known = copy->direction > 0 && copy->direction < 11;
    int length =
        snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", known ? directions[copy->direction] : "?",
                 memory_words[copy->from & 7], memory_words[copy->to & 7]);
    return hr_trace_build_string(reader->build, text, (size_t)length);
}

static int32_t fill_name(hr_own_reader *reader, const hr_record_fill *fill) {
    char text[64];
    int length = snprintf(text, sizeof text, "Memset (%s)", memory_words[fill->to & 7]);
    return hr_trace_build_string(reader->build, text, (size_t)length);
}

/* ---- events ---- */

void hr_own_add(hr_own_reader *reader, hr_event event, const void *detail) {
    int64_t end;
    if (!__builtin_add_overflow(event.start, event.duration, &end) && end > reader->last_time)
        reader->last_time = end;
    hr_trace_build_event(reader->build, event, detail);
}

void hr_own_add_kernel(hr_own_reader *reader, const hr_record_kernel *at, int32_t counters) {
    hr_kernel_work work = {
        .grid = {hr_saturate_int(at->grid_x), hr_saturate_int(at->grid_y), hr_saturate_int(at->grid_z)},
        .block = {hr_saturate_int(at->block_x), hr_saturate_int(at->block_y), hr_saturate_int(at->block_z)},
        .registers = hr_saturate_int(at->registers),
        .shared_static = hr_saturate_int(at->shared_static),
        .shared_dynamic = hr_saturate_int(at->shared_dynamic),
        .cluster = hr_saturate_int(at->cluster),
        .occupancy = -1,
        .graph = at->graph,
        .graph_node = at->graph_node,
        .collective = -1,
        .counters = counters,
    };
    hr_own_set_device(reader, at->context, at->device);
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = hr_own_string(reader, at->name),
                      .track = hr_trace_build_stream(reader->build, hr_saturate_int(at->device), at->stream),
                      .kind = HR_EVENT_KERNEL,
                      .correlation = at->correlation};
    hr_own_add(reader, event, &work);
}

void hr_own_add_copy(hr_own_reader *reader, const hr_record_copy *at) {
    hr_copy copy = {.bytes = at->bytes,
                    .from = (uint8_t)memory_kind(at->from),
                    .to = (uint8_t)memory_kind(at->to),
                    .asynchronous = at->asynchronous != 0,
                    .graph = at->graph};
    if (at->peer) copy.to = HR_MEMORY_PEER;
    hr_own_set_device(reader, at->context, at->device);
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = copy_name(reader, at),
                      .track = hr_trace_build_stream(reader->build, hr_saturate_int(at->device), at->stream),
                      .kind = HR_EVENT_COPY,
                      .correlation = at->correlation};
    hr_own_add(reader, event, &copy);
}

void hr_own_add_fill(hr_own_reader *reader, const hr_record_fill *at) {
    hr_copy fill = {.bytes = at->bytes,
                    .to = (uint8_t)memory_kind(at->to),
                    .asynchronous = at->asynchronous != 0,
                    .graph = at->graph};
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = fill_name(reader, at),
                      .track = hr_trace_build_stream(reader->build, hr_saturate_int(at->device), at->stream),
                      .kind = HR_EVENT_FILL,
                      .correlation = at->correlation};
    hr_own_add(reader, event, &fill);
}

void hr_own_add_call(hr_own_reader *reader, const hr_own_call *at) {
    hr_call call = {.result = hr_saturate_int(at->record.result), .event = at->event, .stream = at->stream};
    hr_event event = {.start = at->record.start,
                      .duration = at->record.duration,
                      .name = hr_own_string(reader, at->record.name),
                      .track = hr_own_thread(reader, at->record.thread),
                      .kind = HR_EVENT_CALL,
                      .correlation = at->record.correlation};
    hr_own_add(reader, event, &call);
}

/* Calls that CUPTI says more about in another record. */
static bool is_joined(const char *name) {
    return strstr(name, "Event") || strstr(name, "Synchronize") || strncmp(name, "cudaMemcpy", 10) == 0 ||
           strncmp(name, "cuMemcpy", 8) == 0 || strstr(name, "Free") || strstr(name, "Query");
}

void hr_own_take_call(hr_own_reader *reader, const hr_record_call *at) {
    hr_own_call call = {*at, 0, -1};
    if (is_joined(hr_trace_build_text(reader->build, hr_own_string(reader, at->name))))
        HR_OWN_APPEND(reader, calls, call);
    else
        hr_own_add_call(reader, &call);
}

void hr_own_add_allocation(hr_own_reader *reader, const hr_record_allocation *at) {
    hr_allocation allocation = {.bytes = at->bytes,
                                .address = at->address,
                                .memory = memory_kind(at->memory),
                                .device = hr_saturate_int(at->device)};
    const char *name = at->bytes < 0 ? "freed" : "allocated";
    hr_event event = {.start = at->time,
                      .name = hr_trace_build_string(reader->build, name, strlen(name)),
                      .track = hr_own_thread(reader, 0),
                      .kind = HR_EVENT_ALLOCATION};
    hr_own_add(reader, event, &allocation);
}

void hr_own_add_overhead(hr_own_reader *reader, const hr_record_overhead *at) {
    hr_event event = {.start = at->start,
                      .duration = at->duration,
                      .name = hr_own_string(reader, at->name),
                      .track = hr_own_thread(reader, at->thread),
                      .kind = HR_EVENT_OVERHEAD};
    hr_own_add(reader, event, NULL);
}

/* ---- ranges ---- */

/* PyTorch's emit_nvtx() writes "aten::mm, op_id = 7, sizes = [[64, 32], [32, 8]]": an operator with its
 * shapes. */
static bool add_operator(hr_own_reader *reader, hr_event event, const char *text) {
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
    hr_own_add(reader, event, &detail);
    return true;
}

/* A library's own ranges are no steps of the program: they count as its operators. */
static bool is_library(hr_own_reader *reader, int64_t domain) {
    static const char *const names[] = {"NCCL",  "CCCL",     "cuBLAS",   "CUBLAS", "cuDNN",
                                        "CUDNN", "TensorRT", "cuSPARSE", "cuFFT",  "cuSOLVER"};
    const char *name = hr_trace_build_text(reader->build, hr_own_string(reader, domain));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
    return false;
}

void hr_own_add_range(hr_own_reader *reader, const hr_own_range *range, int64_t end) {
    hr_event event = {
        .start = range->time, .name = range->name, .track = range->track, .kind = HR_EVENT_RANGE};
    if (__builtin_sub_overflow(end, range->time, &event.duration)) event.duration = -1; /* is skipped */
    if (add_operator(reader, event, hr_trace_build_text(reader->build, range->name))) return;
    hr_operator detail = {.shapes = -1, .dtypes = -1, .sequence = -1};
    if (is_library(reader, range->domain)) event.kind = HR_EVENT_OPERATOR;
    hr_own_add(reader, event, event.kind == HR_EVENT_OPERATOR ? &detail : NULL);
}

void hr_own_begin_range(hr_own_reader *reader, const hr_record_range_begin *at) {
    hr_own_range range = {at->time, at->id, at->domain, hr_own_string(reader, at->name),
                          hr_own_thread(reader, at->thread)};
    if (reader->ranges.count < OPEN_MOST)
        HR_OWN_APPEND(reader, ranges, range);
    else
        hr_trace_build_skip(reader->build, "ranges within too many others", reader->offset);
}

/* The innermost open range of its thread and domain, or the one of its number. */
void hr_own_end_range(hr_own_reader *reader, const hr_record_range_end *at) {
    int32_t track = hr_own_thread(reader, at->thread);
    for (int64_t i = reader->ranges.count; i-- > 0;) {
        hr_own_range *open = &reader->ranges.items[i];
        bool is_it =
            at->id ? open->id == at->id : open->id == 0 && open->track == track && open->domain == at->domain;
        if (!is_it) continue;
        hr_own_add_range(reader, open, at->time);
        memmove(open, open + 1, (size_t)(reader->ranges.count - 1 - i) * sizeof *open);
        reader->ranges.count--;
        return;
    }
    hr_trace_build_skip(reader->build, "ends of ranges that began before the recording", reader->offset);
}

void hr_own_add_mark(hr_own_reader *reader, const hr_record_mark *at) {
    hr_event event = {.start = at->time,
                      .name = hr_own_string(reader, at->name),
                      .track = hr_own_thread(reader, at->thread),
                      .kind = HR_EVENT_RANGE};
    hr_own_add(reader, event, NULL);
}

/* Over one interval: an event a kind. */
void hr_own_add_sample(hr_own_reader *reader, const hr_record_sample *at) {
    static const hr_sample_kind kinds[] = {HR_SAMPLE_SM_ACTIVE, HR_SAMPLE_TENSOR_ACTIVE,
                                           HR_SAMPLE_WARPS_ACTIVE, HR_SAMPLE_DRAM};
    const int64_t values[] = {at->sm_active, at->tensor_active, at->warps_active, at->dram_of_peak};
    for (int i = 0; i < 4; i++)
        if (values[i] >= 0)
            hr_trace_build_sample(reader->build, hr_saturate_int(at->device), at->time, at->duration,
                                  (hr_sample){(double)values[i] * 1e-6, kinds[i]}, -1);
}
