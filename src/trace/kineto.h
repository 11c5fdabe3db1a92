/* One event of a Chrome trace as PyTorch writes them. In: JSON. Out: fields as slices of it.
 *
 * Between the scanner (json_scan.h) and the model: read_kineto.c finds the events of a file, kineto_parse.c
 * takes one apart, kineto_add.c says what it means.
 */
#ifndef HR_TRACE_KINETO_H
#define HR_TRACE_KINETO_H

#include "trace/json_scan.h"
#include "trace/trace_build.h"

/* name, key in the file */
#define HR_KINETO_FIELDS(X)                                                                                  \
    X(PHASE, "ph")                                                                                           \
    X(CATEGORY, "cat")                                                                                       \
    X(NAME, "name")                                                                                          \
    X(PROCESS, "pid")                                                                                        \
    X(THREAD, "tid")                                                                                         \
    X(TIME, "ts")                                                                                            \
    X(DURATION, "dur")                                                                                       \
    X(ARGUMENTS, "args")

#define HR_KINETO_ARGUMENTS(X)                                                                               \
    X(EXTERNAL, "External id")                                                                               \
    X(EXTERNAL, "external id")                                                                               \
    X(CORRELATION, "correlation")                                                                            \
    X(CORRELATION, "correlation_id")                                                                         \
    X(KERNEL_DETAILS, "kernel_details")                                                                      \
    X(COPY_DETAILS, "memcpy_details")                                                                        \
    X(STREAM, "stream")                                                                                      \
    X(DEVICE, "device")                                                                                      \
    X(GRID, "grid")                                                                                          \
    X(BLOCK, "block")                                                                                        \
    X(REGISTERS, "registers per thread")                                                                     \
    X(SHARED, "shared memory")                                                                               \
    X(OCCUPANCY, "est. achieved occupancy %")                                                                \
    X(GRAPH, "graph id")                                                                                     \
    X(GRAPH_NODE, "graph node id")                                                                           \
    X(BYTES, "bytes")                                                                                        \
    X(BYTES, "Bytes")                                                                                        \
    X(BYTES, "size") /* of a copy of MTIA, with its direction */                                             \
    X(DIRECTION, "direction")                                                                                \
    X(SHAPES, "Input Dims")                                                                                  \
    X(SHAPES, "Input dims")                                                                                  \
    X(DTYPES, "Input type")                                                                                  \
    X(SEQUENCE, "Sequence number")                                                                           \
    X(COLLECTIVE, "Collective name")                                                                         \
    X(ELEMENTS_IN, "In msg nelems")                                                                          \
    X(ELEMENTS_OUT, "Out msg nelems")                                                                        \
    X(ELEMENT_TYPE, "dtype")                                                                                 \
    X(GROUP_SIZE, "Group size")                                                                              \
    X(GROUP, "Process Group Name")                                                                           \
    X(WAIT_KIND, "cuda_sync_kind")                                                                           \
    X(WAIT_STREAM, "wait_on_stream")                                                                         \
    X(WAIT_EVENT, "wait_on_cuda_event_id")                                                                   \
    X(WAIT_RECORD, "wait_on_cuda_event_record_corr_id")                                                      \
    X(ADDRESS, "Addr")                                                                                       \
    X(TOTAL, "Total Allocated")                                                                              \
    X(RESERVED, "Total Reserved")                                                                            \
    X(DEVICE_TYPE, "Device Type")                                                                            \
    X(DEVICE_ID, "Device Id")                                                                                \
    X(TRACK_NAME, "name")                                                                                    \
    X(OTHER, "") /* the last of another name, for counters */

typedef enum hr_kineto_field {
#define FIELD_ENUM(name, key) HR_KINETO_##name,
    HR_KINETO_FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        HR_KINETO_EXTERNAL,
    HR_KINETO_CORRELATION,
    HR_KINETO_KERNEL_DETAILS,
    HR_KINETO_COPY_DETAILS,
    HR_KINETO_STREAM,
    HR_KINETO_DEVICE,
    HR_KINETO_GRID,
    HR_KINETO_BLOCK,
    HR_KINETO_REGISTERS,
    HR_KINETO_SHARED,
    HR_KINETO_OCCUPANCY,
    HR_KINETO_GRAPH,
    HR_KINETO_GRAPH_NODE,
    HR_KINETO_BYTES,
    HR_KINETO_DIRECTION,
    HR_KINETO_SHAPES,
    HR_KINETO_DTYPES,
    HR_KINETO_SEQUENCE,
    HR_KINETO_COLLECTIVE,
    HR_KINETO_ELEMENTS_IN,
    HR_KINETO_ELEMENTS_OUT,
    HR_KINETO_ELEMENT_TYPE,
    HR_KINETO_GROUP_SIZE,
    HR_KINETO_GROUP,
    HR_KINETO_WAIT_KIND,
    HR_KINETO_WAIT_STREAM,
    HR_KINETO_WAIT_EVENT,
    HR_KINETO_WAIT_RECORD,
    HR_KINETO_ADDRESS,
    HR_KINETO_TOTAL,
    HR_KINETO_RESERVED,
    HR_KINETO_DEVICE_TYPE,
    HR_KINETO_DEVICE_ID,
    HR_KINETO_TRACK_NAME,
    HR_KINETO_OTHER,
    HR_KINETO_FIELD_COUNT
} hr_kineto_field;

typedef struct hr_kineto_event {
    uint64_t have; /* a bit a field */
    hr_json_slice fields[HR_KINETO_FIELD_COUNT];
    int64_t offset; /* of its first byte in the file */
} hr_kineto_event;

/* Keys by their length, so that a key is compared with two or three others. */
typedef struct hr_kineto_keys {
    uint8_t first[2][64], next[64]; /* number + 1; event and arguments */
} hr_kineto_keys;

void hr_kineto_keys_set(hr_kineto_keys *keys);
/* From behind the opening brace to behind the closing one. False with json->more or json->bad set. */
bool hr_kineto_parse(const hr_kineto_keys *keys, hr_json *json, hr_kineto_event *event);

static inline bool hr_kineto_has(const hr_kineto_event *event, hr_kineto_field field) {
    return event->have >> field & 1;
}

/* What is open on a thread, of events that begin and end apart. */
typedef struct hr_kineto_open {
    int64_t start;
    int32_t name, below; /* number of the one around it, -1 = none */
    bool used;
} hr_kineto_open;

typedef struct hr_kineto_name {
    int64_t process, thread;
    int32_t name;
} hr_kineto_name;

/* A process "/device:GPU:0" of a trace that XLA's profiler wrote: its threads are streams. */
typedef struct hr_kineto_xla_process {
    int64_t process;
    int32_t device;
    bool has_streams; /* else the operations of a TPU are its work */
} hr_kineto_xla_process;

typedef struct hr_kineto_xla {
    HR_TABLE(hr_kineto_xla_process) processes;
    int64_t last_name; /* into the names, where the last thread was found */
} hr_kineto_xla;

/* What is kept from one event to the next. */
typedef struct hr_kineto_adder {
    hr_trace_build *build;
    int64_t added;
    int64_t first_time; /* us, of the first event added */
    int32_t memory_name;
    HR_TABLE(hr_kineto_open) opens;
    HR_TABLE(hr_kineto_name) names;
    int32_t *open_of_track; /* number + 1 of the innermost */
    int32_t open_tracks;
    hr_kineto_xla xla;
    bool failed;
    char *scratch; /* for escapes */
    size_t scratch_size;
} hr_kineto_adder;

void hr_kineto_add(hr_kineto_adder *adder, const hr_kineto_event *event);

/* Values of fields. A process or thread is a number, a number in quotes, "stream 7", or a name, which is
 * hashed. */
int64_t hr_kineto_whole(const hr_kineto_adder *adder, const hr_kineto_event *event, hr_kineto_field field,
                        int64_t otherwise);
int32_t hr_kineto_string(hr_kineto_adder *adder, const hr_kineto_event *event, hr_kineto_field field);
int64_t hr_kineto_identity(const hr_kineto_event *event, hr_kineto_field field);

/* What JAX's profiler writes, kineto_xla.c. The name of a device's process: true where it is one. A slice of
 * a device or a call of the driver: true where it was one and is added; only once a process is known. */
bool hr_kineto_xla_name(hr_kineto_adder *adder, const hr_kineto_event *event);
bool hr_kineto_xla_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event);
/* Names threads, counts ranges that never ended, frees what the adder holds. */
hr_status hr_kineto_add_end(hr_kineto_adder *adder);

#endif
