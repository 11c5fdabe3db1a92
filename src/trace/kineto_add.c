/* What an event of a Chrome trace means. In: its fields. Out: events of the model.
 *
 * Category names are those of PyTorch since 1.8; older writers capitalise them. What has no category that is
 * known here is a range of its thread, so that other writers' Chrome traces show something as well.
 */
#define _GNU_SOURCE /* memmem */
#include "trace/kineto.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NAME_MAX_COUNT 65536
#define EPOCH_LEAST    INT64_C(1000000000000000) /* us: later than 2001 must count from the epoch */

enum { LEFT_OUT = -1, MEMORY = HR_EVENT_KIND_COUNT };

/* Of PyTorch on any device; a row names its runtime where the category does. */
static const struct {
    const char *text;
    size_t length;
    int kind;
    const char *runtime;
} categories[] = {
#define CATEGORY(text, kind, runtime)                                                                        \
    { text, sizeof text - 1, kind, runtime }
    CATEGORY("kernel", HR_EVENT_KERNEL, NULL),
    CATEGORY("Kernel", HR_EVENT_KERNEL, NULL),
    CATEGORY("cpu_op", HR_EVENT_OPERATOR, NULL),
    CATEGORY("Operator", HR_EVENT_OPERATOR, NULL),
    CATEGORY("python_function", HR_EVENT_OPERATOR, NULL),
    CATEGORY("cuda_runtime", HR_EVENT_CALL, NULL),
    CATEGORY("cuda_driver", HR_EVENT_CALL, NULL),
    CATEGORY("Runtime", HR_EVENT_CALL, NULL),
    CATEGORY("gpu_memcpy", HR_EVENT_COPY, NULL),
    CATEGORY("Memcpy", HR_EVENT_COPY, NULL),
    CATEGORY("gpu_memset", HR_EVENT_FILL, NULL),
    CATEGORY("Memset", HR_EVENT_FILL, NULL),
    CATEGORY("user_annotation", HR_EVENT_RANGE, NULL),
    CATEGORY("gpu_user_annotation", HR_EVENT_DEVICE_RANGE, NULL),
    CATEGORY("cuda_sync", HR_EVENT_SYNCHRONISE, NULL),
    CATEGORY("overhead", HR_EVENT_OVERHEAD, NULL),
    CATEGORY("cpu_instant_event", MEMORY, NULL),
    CATEGORY("xpu_runtime", HR_EVENT_CALL, "xpu"),
    CATEGORY("xpu_driver", HR_EVENT_CALL, "xpu"),
    CATEGORY("hip_runtime", HR_EVENT_CALL, "hip"),
    CATEGORY("mtia_runtime", HR_EVENT_CALL, "mtia"),
    CATEGORY("mtia_ccp_events", HR_EVENT_KERNEL, "mtia"),
    CATEGORY("mtia_workloadd", HR_EVENT_OVERHEAD, "mtia"),
    CATEGORY("hpu_op", HR_EVENT_KERNEL, "hpu"),
    CATEGORY("hpu_runtime", HR_EVENT_CALL, "hpu"),
    CATEGORY("privateuse1_runtime", HR_EVENT_CALL, "privateuse1"),
    CATEGORY("privateuse1_driver", HR_EVENT_CALL, "privateuse1"),
    CATEGORY("glow_runtime", HR_EVENT_CALL, "glow"),
    CATEGORY("collective_comm", HR_EVENT_RANGE, NULL),
    CATEGORY("cuda_profiler_range", LEFT_OUT, NULL),
    CATEGORY("cuda_event", LEFT_OUT, NULL), /* records of events: correlations say the same */
    CATEGORY("mtia_counters", LEFT_OUT, "mtia"),
    CATEGORY("Trace", LEFT_OUT, NULL),
#undef CATEGORY
};

/* ---- values of fields ---- */

int64_t hr_kineto_whole(const hr_kineto_adder *adder, const hr_kineto_event *event, hr_kineto_field field,
                        int64_t otherwise) {
    int64_t value;
    if (!hr_kineto_has(event, field) || !hr_json_whole(&event->fields[field], &value)) return otherwise;
    if (value == INT64_MAX || value == INT64_MIN)
        hr_trace_build_skip(adder->build, "numbers beyond 64 bits, taken as the nearest one", event->offset);
    return value;
}

static int32_t small(const hr_kineto_adder *adder, const hr_kineto_event *event, hr_kineto_field field,
                     int32_t otherwise) {
    int64_t value = hr_kineto_whole(adder, event, field, otherwise);
    return value > INT32_MAX || value < INT32_MIN ? otherwise : (int32_t)value;
}

int32_t hr_kineto_string(hr_kineto_adder *adder, const hr_kineto_event *event, hr_kineto_field field) {
    if (!hr_kineto_has(event, field)) return -1;
    const hr_json_slice *slice = &event->fields[field];
    if (!slice->escaped) return hr_trace_build_string(adder->build, slice->text, slice->length);
    if (slice->length > adder->scratch_size) {
        char *scratch = realloc(adder->scratch, slice->length);
        if (!scratch) {
            adder->failed = true;
            return -1;
        }
        adder->scratch = scratch;
        adder->scratch_size = slice->length;
    }
    size_t length = hr_json_unescape(slice, adder->scratch);
    return hr_trace_build_string(adder->build, adder->scratch, length);
}

/* Three whole numbers in brackets. */
static void triple(const hr_kineto_event *event, hr_kineto_field field, int32_t out[3]) {
    out[0] = out[1] = out[2] = 0;
    if (!hr_kineto_has(event, field) || event->fields[field].kind != HR_JSON_ARRAY) return;
    const hr_json_slice *slice = &event->fields[field];
    hr_json json = {.at = slice->text + 1, .end = slice->text + slice->length};
    hr_json_slice element;
    for (int i = 0; i < 3 && hr_json_element(&json) && hr_json_take(&json, &element); i++) {
        int64_t value;
        if (hr_json_whole(&element, &value) && value >= 0 && value <= INT32_MAX) out[i] = (int32_t)value;
    }
}

int64_t hr_kineto_identity(const hr_kineto_event *event, hr_kineto_field field) {
    if (!hr_kineto_has(event, field)) return 0;
    hr_json_slice slice = event->fields[field];
    int64_t value;
    if (hr_json_whole(&slice, &value)) return value;
    if (slice.length > 7 && memcmp(slice.text, "stream ", 7) == 0) {
        slice.text += 7;
        slice.length -= 7;
        if (hr_json_whole(&slice, &value)) return value;
    }
    return (int64_t)(XXH3_64bits(slice.text, slice.length) >> 2);
}

static int32_t thread_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    return hr_trace_build_thread(adder->build, hr_kineto_identity(event, HR_KINETO_PROCESS),
                                 hr_kineto_identity(event, HR_KINETO_THREAD));
}

static int32_t stream_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    int64_t device =
        hr_kineto_whole(adder, event, HR_KINETO_DEVICE, hr_kineto_identity(event, HR_KINETO_PROCESS));
    int64_t stream =
        hr_kineto_whole(adder, event, HR_KINETO_STREAM, hr_kineto_identity(event, HR_KINETO_THREAD));
    return hr_trace_build_stream(adder->build, device > INT32_MAX || device < -1 ? -1 : (int32_t)device,
                                 stream);
}

static bool contains(const hr_json_slice *slice, const char *part) {
    return memmem(slice->text, slice->length, part, strlen(part)) != NULL;
}

/* ---- details ---- */

static int64_t element_bytes(const hr_json_slice *type) {
    static const struct {
        const char *part;
        int64_t bytes;
    } types[] = {{"Double", 8}, {"Long", 8},   {"double", 8}, {"long", 8},  {"BFloat16", 2}, {"Half", 2},
                 {"half", 2},   {"Float8", 1}, {"Float", 4},  {"float", 4}, {"Int", 4},      {"int", 4},
                 {"Short", 2},  {"Byte", 1},   {"Char", 1},   {"Bool", 1},  {"bool", 1},     {"unsigned", 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (contains(type, types[i].part)) return types[i].bytes;
    return 0;
}

static int32_t collective_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    if (!hr_kineto_has(event, HR_KINETO_COLLECTIVE)) return -1;
    int64_t in = hr_kineto_whole(adder, event, HR_KINETO_ELEMENTS_IN, 0);
    int64_t out = hr_kineto_whole(adder, event, HR_KINETO_ELEMENTS_OUT, 0), bytes = in > out ? in : out;
    bool typed = hr_kineto_has(event, HR_KINETO_ELEMENT_TYPE);
    if (!typed || bytes < 0 ||
        __builtin_mul_overflow(bytes, element_bytes(&event->fields[HR_KINETO_ELEMENT_TYPE]), &bytes))
        bytes = 0;
    hr_collective collective = {.name = hr_kineto_string(adder, event, HR_KINETO_COLLECTIVE),
                                .group = hr_kineto_string(adder, event, HR_KINETO_GROUP),
                                .bytes = bytes,
                                .ranks = small(adder, event, HR_KINETO_GROUP_SIZE, 0)};
    return hr_trace_build_collective(adder->build, &collective);
}

static hr_kernel_work kernel_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    double occupancy;
    hr_kernel_work work = {.registers = small(adder, event, HR_KINETO_REGISTERS, 0),
                           .shared_dynamic = small(adder, event, HR_KINETO_SHARED, 0),
                           .occupancy = -1,
                           .graph = hr_kineto_whole(adder, event, HR_KINETO_GRAPH, 0),
                           .graph_node = hr_kineto_whole(adder, event, HR_KINETO_GRAPH_NODE, 0),
                           .collective = collective_of(adder, event),
                           .counters = -1};
    triple(event, HR_KINETO_GRID, work.grid);
    triple(event, HR_KINETO_BLOCK, work.block);
    if (hr_kineto_has(event, HR_KINETO_OCCUPANCY) &&
        hr_json_real(&event->fields[HR_KINETO_OCCUPANCY], &occupancy) && occupancy >= 0 && occupancy <= 100)
        work.occupancy = (float)(occupancy / 100);
    return work;
}

static hr_memory_kind memory_named(const char *text, size_t length) {
    static const struct {
        const char *name;
        hr_memory_kind kind;
    } names[] = {{"Pageable", HR_MEMORY_PAGEABLE}, {"Pinned", HR_MEMORY_PINNED}, {"Device", HR_MEMORY_DEVICE},
                 {"Managed", HR_MEMORY_MANAGED},   {"Array", HR_MEMORY_DEVICE},  {"Peer", HR_MEMORY_PEER}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memmem(text, length, names[i].name, strlen(names[i].name))) return names[i].kind;
    return HR_MEMORY_UNKNOWN;
}

/* "Memcpy HtoD (Pageable -> Device)" names both kinds of memory. */
static hr_copy copy_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    const hr_json_slice *name = &event->fields[HR_KINETO_NAME];
    hr_copy copy = {.bytes = hr_kineto_whole(adder, event, HR_KINETO_BYTES, 0),
                    .graph = hr_kineto_whole(adder, event, HR_KINETO_GRAPH, 0)};
    if (copy.bytes < 0) copy.bytes = 0;
    if (!hr_kineto_has(event, HR_KINETO_NAME)) return copy;
    const char *open = memchr(name->text, '(', name->length), *end = name->text + name->length;
    const char *arrow = open ? memmem(open, (size_t)(end - open), "->", 2) : NULL;
    if (arrow) {
        copy.from = (uint8_t)memory_named(open, (size_t)(arrow - open));
        copy.to = (uint8_t)memory_named(arrow, (size_t)(end - arrow));
    } else if (open)
        copy.to = (uint8_t)memory_named(open, (size_t)(end - open));
    if (hr_kineto_has(event, HR_KINETO_DIRECTION)) name = &event->fields[HR_KINETO_DIRECTION];
    /* ROCm writes (Host -> Device) or CopyHostToDevice, SYCL M2D and D2M, MTIA a direction: which end is the
     * device, not what the host's memory is */
    static const struct {
        const char *word;
        bool to_device;
    } ways[] = {{"HostToDevice", true},  {"M2D", true},  {"HOST_TO_DEVICE", true},
                {"DeviceToHost", false}, {"D2M", false}, {"DEVICE_TO_HOST", false}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (contains(name, ways[i].word)) *(ways[i].to_device ? &copy.to : &copy.from) = HR_MEMORY_DEVICE;
    return copy;
}

static hr_wait wait_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    hr_kineto_field field = hr_kineto_has(event, HR_KINETO_WAIT_KIND) ? HR_KINETO_WAIT_KIND : HR_KINETO_NAME;
    hr_json_slice none = {.text = ""};
    const hr_json_slice *kind = hr_kineto_has(event, field) ? &event->fields[field] : &none;
    int64_t stream = hr_kineto_whole(adder, event, HR_KINETO_STREAM, -1),
            device = hr_kineto_identity(event, HR_KINETO_PROCESS);
    hr_wait wait = {.kind = HR_WAIT_CONTEXT,
                    .stream = -1,
                    .event = hr_kineto_whole(adder, event, HR_KINETO_WAIT_EVENT, 0)};
    if (contains(kind, "Stream Wait")) {
        wait.kind = HR_WAIT_STREAM_EVENT;
        stream = hr_kineto_whole(adder, event, HR_KINETO_WAIT_STREAM, -1);
    } else if (contains(kind, "Stream"))
        wait.kind = HR_WAIT_STREAM;
    else if (contains(kind, "Event")) {
        wait.kind = HR_WAIT_EVENT;
        stream = hr_kineto_whole(adder, event, HR_KINETO_WAIT_STREAM, -1);
    }
    wait.record = hr_kineto_whole(adder, event, HR_KINETO_WAIT_RECORD, 0);
    if (wait.record < 0) wait.record = 0;
    device = hr_kineto_whole(adder, event, HR_KINETO_DEVICE, device);
    bool named = stream >= 0 && device >= 0 && device <= INT32_MAX;
    if (named) wait.stream = hr_trace_build_stream(adder->build, (int32_t)device, stream);
    return wait;
}

/* An instant "[memory]": what the framework's allocator gave out or took back. */
static void memory_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event) {
    if (!hr_kineto_has(fields, HR_KINETO_BYTES)) return;
    bool on_device = hr_kineto_whole(adder, fields, HR_KINETO_DEVICE_TYPE, 0) != 0;
    hr_allocation allocation = {.bytes = hr_kineto_whole(adder, fields, HR_KINETO_BYTES, 0),
                                .address = hr_kineto_whole(adder, fields, HR_KINETO_ADDRESS, 0),
                                .memory = on_device ? HR_MEMORY_DEVICE : HR_MEMORY_PAGEABLE,
                                .device = small(adder, fields, HR_KINETO_DEVICE_ID, -1),
                                .total = hr_kineto_whole(adder, fields, HR_KINETO_TOTAL, 0),
                                .reserved = hr_kineto_whole(adder, fields, HR_KINETO_RESERVED, 0)};
    event.kind = HR_EVENT_ALLOCATION;
    event.duration = 0;
    event.track = thread_of(adder, fields);
    event.name = hr_kineto_string(adder, fields, HR_KINETO_NAME);
    hr_trace_build_event(adder->build, event, &allocation);
    adder->added++;
}

/* ---- complete events ---- */

static void detail_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event) {
    switch ((hr_event_kind)event.kind) {
    case HR_EVENT_OPERATOR: {
        hr_operator operation = {.shapes = hr_kineto_string(adder, fields, HR_KINETO_SHAPES),
                                 .dtypes = hr_kineto_string(adder, fields, HR_KINETO_DTYPES),
                                 .sequence = hr_kineto_whole(adder, fields, HR_KINETO_SEQUENCE, -1),
                                 .is_python = contains(&fields->fields[HR_KINETO_CATEGORY], "python")};
        hr_trace_build_event(adder->build, event, &operation);
        break;
    }
    case HR_EVENT_KERNEL: {
        hr_kernel_work work = kernel_of(adder, fields);
        hr_trace_build_event(adder->build, event, &work);
        break;
    }
    case HR_EVENT_COPY:
    case HR_EVENT_FILL: {
        hr_copy copy = copy_of(adder, fields);
        hr_trace_build_event(adder->build, event, &copy);
        break;
    }
    case HR_EVENT_SYNCHRONISE: {
        hr_wait wait = wait_of(adder, fields);
        hr_trace_build_event(adder->build, event, &wait);
        break;
    }
    default:
        hr_trace_build_event(adder->build, event, NULL);
    }
}

static bool starts_with(const hr_json_slice *slice, const char *prefix) {
    size_t length = strlen(prefix);
    return slice->length >= length && memcmp(slice->text, prefix, length) == 0;
}

static void unknown_category(hr_kineto_adder *adder, const hr_kineto_event *event) {
    char reason[160];
    const char *name = hr_trace_build_text(adder->build, hr_kineto_string(adder, event, HR_KINETO_CATEGORY));
    snprintf(reason, sizeof reason, "unknown categories of events, taken as ranges: %s", name);
    hr_trace_build_skip(adder->build, reason, event->offset);
}

/* What the queues of a device note beside its programs: there a wait is no work, and a copy is no kernel. */
static const struct {
    const char *category, *name;
    int kind;
} notes[] = {{"mtia_ccp_events", "event_wait", LEFT_OUT},
             {"mtia_ccp_events", "event_record", LEFT_OUT},
             {"mtia_ccp_events", "dma_request", HR_EVENT_COPY}};

static int kind_by_name(const hr_kineto_event *event, int kind) {
    if (!hr_kineto_has(event, HR_KINETO_NAME)) return kind;
    const hr_json_slice *name = &event->fields[HR_KINETO_NAME];
    /* before there was a category for them, steps were operators */
    if (kind == HR_EVENT_OPERATOR && starts_with(name, "ProfilerStep")) return HR_EVENT_RANGE;
    if (kind != HR_EVENT_KERNEL) return kind;
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (hr_json_is(name, notes[i].name) &&
            hr_json_is(&event->fields[HR_KINETO_CATEGORY], notes[i].category))
            return notes[i].kind;
    return kind;
}

static int kind_of(hr_kineto_adder *adder, const hr_kineto_event *event) {
    if (!hr_kineto_has(event, HR_KINETO_CATEGORY)) return HR_EVENT_RANGE;
    const hr_json_slice *category = &event->fields[HR_KINETO_CATEGORY];
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (category->length == categories[i].length && category->text[0] == categories[i].text[0] &&
            memcmp(category->text, categories[i].text, category->length) == 0) {
            if (categories[i].runtime)
                snprintf(hr_trace_build_rank(adder->build)->runtime, sizeof(hr_rank){0}.runtime, "%s",
                         categories[i].runtime);
            return kind_by_name(event, categories[i].kind);
        }
    if (category->length) unknown_category(adder, event);
    return HR_EVENT_RANGE;
}

static bool kind_is_of_device(int kind) {
    return kind == HR_EVENT_KERNEL || kind == HR_EVENT_COPY || kind == HR_EVENT_FILL ||
           kind == HR_EVENT_DEVICE_RANGE || kind == HR_EVENT_SYNCHRONISE;
}

static void slice_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event) {
    if (adder->xla.processes.count && hr_kineto_xla_add(adder, fields, event)) return;
    int kind = kind_of(adder, fields);
    if (kind == LEFT_OUT) return;
    if (kind == MEMORY) kind = HR_EVENT_RANGE;
    if (hr_kineto_has(fields, HR_KINETO_DURATION) &&
        !hr_json_thousandths(&fields->fields[HR_KINETO_DURATION], &event.duration)) {
        hr_trace_build_skip(adder->build, "events whose duration is no number", fields->offset);
        return;
    }
    event.kind = (uint32_t)kind;
    event.name = hr_kineto_string(adder, fields, HR_KINETO_NAME);
    event.track = kind_is_of_device(kind) ? stream_of(adder, fields) : thread_of(adder, fields);
    event.correlation = hr_kineto_whole(adder, fields, HR_KINETO_CORRELATION, 0);
    event.external = hr_kineto_whole(adder, fields, HR_KINETO_EXTERNAL, 0);
    /* older writers repeat the correlation where they know of no operator */
    bool repeated = event.external == event.correlation && kind != HR_EVENT_OPERATOR;
    if (repeated) event.external = 0;
    detail_add(adder, fields, event);
    adder->added++;
}

/* ---- events that begin and end apart, counters, names ---- */

static bool open_room(hr_kineto_adder *adder, int32_t track) {
    if (track >= adder->open_tracks) {
        int32_t count = track + 64;
        int32_t *grown = realloc(adder->open_of_track, (size_t)count * sizeof *grown);
        if (!grown) return false;
        memset(grown + adder->open_tracks, 0, (size_t)(count - adder->open_tracks) * sizeof *grown);
        adder->open_of_track = grown;
        adder->open_tracks = count;
    }
    if (adder->opens.count < adder->opens.capacity) return true;
    int64_t capacity = adder->opens.capacity ? adder->opens.capacity * 2 : 64;
    if (capacity > INT32_MAX / 2) return false;
    hr_kineto_open *grown = realloc(adder->opens.items, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    adder->opens.items = grown;
    adder->opens.capacity = capacity;
    return true;
}

static void begin_add(hr_kineto_adder *adder, const hr_kineto_event *fields, int64_t time) {
    int32_t track = thread_of(adder, fields);
    if (track < 0) return;
    if (!open_room(adder, track)) {
        adder->failed = true;
        return;
    }
    adder->opens.items[adder->opens.count] =
        (hr_kineto_open){.start = time,
                         .name = hr_kineto_string(adder, fields, HR_KINETO_NAME),
                         .below = adder->open_of_track[track] - 1,
                         .used = true};
    adder->open_of_track[track] = (int32_t)++adder->opens.count;
}

static void end_add(hr_kineto_adder *adder, const hr_kineto_event *fields, int64_t time) {
    int32_t track = thread_of(adder, fields);
    if (track < 0 || track >= adder->open_tracks || !adder->open_of_track[track]) {
        hr_trace_build_skip(adder->build, "ends of ranges that never began", fields->offset);
        return;
    }
    int32_t number = adder->open_of_track[track] - 1;
    hr_kineto_open *open = &adder->opens.items[number];
    int64_t duration;
    bool beyond = __builtin_sub_overflow(time, open->start, &duration);
    hr_event event = {.kind = HR_EVENT_RANGE,
                      .start = open->start,
                      .duration = beyond || duration < 0 ? -1 : duration,
                      .name = open->name,
                      .track = track};
    open->used = false;
    adder->open_of_track[track] = open->below + 1;
    while (adder->opens.count && !adder->opens.items[adder->opens.count - 1].used)
        adder->opens.count--;
    hr_trace_build_event(adder->build, event, NULL);
    adder->added++;
}

static void counter_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event) {
    hr_sample sample = {.kind = HR_SAMPLE_OTHER};
    if (!hr_kineto_has(fields, HR_KINETO_OTHER) ||
        !hr_json_real(&fields->fields[HR_KINETO_OTHER], &sample.value))
        return;
    event.kind = HR_EVENT_COUNTER;
    event.track = thread_of(adder, fields);
    event.name = hr_kineto_string(adder, fields, HR_KINETO_NAME);
    hr_trace_build_event(adder->build, event, &sample);
    adder->added++;
}

static void name_add(hr_kineto_adder *adder, const hr_kineto_event *fields) {
    if (hr_kineto_xla_name(adder, fields)) return;
    bool of_thread = hr_kineto_has(fields, HR_KINETO_NAME) &&
                     hr_json_is(&fields->fields[HR_KINETO_NAME], "thread_name") &&
                     hr_kineto_has(fields, HR_KINETO_TRACK_NAME);
    if (!of_thread || adder->names.count >= NAME_MAX_COUNT) return;
    if (adder->names.count == adder->names.capacity) {
        int64_t capacity = adder->names.capacity ? adder->names.capacity * 2 : 64;
        hr_kineto_name *grown = realloc(adder->names.items, (size_t)capacity * sizeof *grown);
        if (!grown) return;
        adder->names.items = grown;
        adder->names.capacity = capacity;
    }
    adder->names.items[adder->names.count++] =
        (hr_kineto_name){.process = hr_kineto_identity(fields, HR_KINETO_PROCESS),
                         .thread = hr_kineto_identity(fields, HR_KINETO_THREAD),
                         .name = hr_kineto_string(adder, fields, HR_KINETO_TRACK_NAME)};
}

void hr_kineto_add(hr_kineto_adder *adder, const hr_kineto_event *fields) {
    hr_event event = {.name = -1};
    bool has_phase = hr_kineto_has(fields, HR_KINETO_PHASE) && fields->fields[HR_KINETO_PHASE].length == 1;
    char phase = has_phase ? fields->fields[HR_KINETO_PHASE].text[0] : 0;
    if (phase == 's' || phase == 'f' || phase == 't') return; /* arrows */
    if (!fields->have) return;                                /* "{}": how JAX ends a list */
    if (phase == 'M') {
        name_add(adder, fields);
        return;
    }
    if (!phase || !strchr("XBEiIC", phase)) {
        hr_trace_build_skip(adder->build, "events of unknown kinds", fields->offset);
        return;
    }
    if (!hr_kineto_has(fields, HR_KINETO_TIME) ||
        !hr_json_thousandths(&fields->fields[HR_KINETO_TIME], &event.start)) {
        hr_trace_build_skip(adder->build, "events whose time is no number", fields->offset);
        return;
    }
    if (adder->added == 0) adder->first_time = event.start / 1000;
    switch (phase) {
    case 'X':
        slice_add(adder, fields, event);
        break;
    case 'B':
        begin_add(adder, fields, event.start);
        break;
    case 'E':
        end_add(adder, fields, event.start);
        break;
    case 'C':
        counter_add(adder, fields, event);
        break;
    default:
        memory_add(adder, fields, event);
    }
}

static int compare_names(const void *left, const void *right) {
    const hr_kineto_name *a = left, *b = right;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Only of threads that have events: names come for streams as well. */
static void threads_name(hr_kineto_adder *adder) {
    if (adder->names.count)
        qsort(adder->names.items, (size_t)adder->names.count, sizeof *adder->names.items, compare_names);
    hr_track *track;
    for (int32_t i = 0; adder->names.count && (track = hr_trace_build_track(adder->build, i)); i++) {
        hr_kineto_name key = {.process = track->process, .thread = track->id};
        if (track->is_stream || track->rank != hr_trace_build_rank_chosen(adder->build)) continue;
        const hr_kineto_name *name = bsearch(&key, adder->names.items, (size_t)adder->names.count,
                                             sizeof *adder->names.items, compare_names);
        if (name) track->name = name->name;
    }
}

hr_status hr_kineto_add_end(hr_kineto_adder *adder) {
    if (adder->added && adder->first_time >= EPOCH_LEAST) hr_trace_build_clock(adder->build, 0);
    threads_name(adder);
    for (int64_t i = 0; i < adder->opens.count; i++)
        if (adder->opens.items[i].used)
            hr_trace_build_skip(adder->build, "ranges that begin and never end", -1);
    free(adder->opens.items);
    free(adder->names.items);
    free(adder->xla.processes.items);
    free(adder->open_of_track);
    free(adder->scratch);
    return adder->failed ? hr_fail(HR_OUT_OF_MEMORY, "not enough memory to read the events") : HR_OK;
}
