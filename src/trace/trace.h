/* What a program did, whoever recorded it: the one model that all readers fill and the diagnosis reads.
 *
 * In: files of our recorder, PyTorch/Kineto JSON, Nsight Systems SQLite, Nsight Compute CSV. Out: events on
 * tracks, sorted by start, with details in a table a kind. Times are ns from the trace's own zero; several
 * ranks lie side by side in one model, each with its own zero aligned where the files allow it. What could
 * not be read is counted.
 */
#ifndef HR_TRACE_TRACE_H
#define HR_TRACE_TRACE_H

#include "base/status.h"

typedef enum hr_event_kind {
    HR_EVENT_RANGE,        /* host: NVTX, user_annotation, ProfilerStep#; a track of a thread */
    HR_EVENT_OPERATOR,     /* host: cpu_op, python_function; detail: hr_operator or none */
    HR_EVENT_CALL,         /* host: runtime or driver call; name is cudaX/cuX; detail: hr_call or none */
    HR_EVENT_KERNEL,       /* device; detail: hr_kernel_work */
    HR_EVENT_COPY,         /* device; detail: hr_copy */
    HR_EVENT_FILL,         /* device memset; detail: hr_copy */
    HR_EVENT_SYNCHRONISE,  /* a wait: on a thread (host waits) or a stream (stream waits); detail: hr_wait */
    HR_EVENT_DEVICE_RANGE, /* a range as seen on a stream */
    HR_EVENT_GRAPH,        /* a whole CUDA graph as one piece of device work, where kernels are not listed */
    HR_EVENT_OVERHEAD,     /* of the profiler or the driver: lazy loading, buffer flushes; detail none */
    HR_EVENT_ALLOCATION,   /* instant: detail: hr_allocation */
    HR_EVENT_COUNTER,      /* instant sample: detail: hr_sample */
    HR_EVENT_KIND_COUNT
} hr_event_kind;

typedef struct hr_event {
    int64_t start, duration; /* ns; duration 0 for instants */
    int32_t name;            /* into strings */
    int32_t track;           /* into tracks */
    int32_t detail;          /* into the table of its kind, -1 = none */
    uint32_t kind;           /* hr_event_kind */
    int64_t correlation;     /* joins a call to the device work it started, unique within a rank; 0 = none */
    int64_t external;        /* joins an operator to its calls where the file says so; 0 = none */
} hr_event;

/* A thread of the host or a stream of a device. */
typedef struct hr_track {
    int32_t rank;   /* into ranks */
    bool is_stream; /* else a thread */
    int32_t device; /* streams */
    int64_t process, id;
    int32_t name;     /* into strings, -1 = none */
    bool overlapping; /* its slices need not nest: ranges that begin and end on different threads */
} hr_track;

typedef struct hr_kernel_work {
    int32_t grid[3], block[3];
    int32_t registers; /* a thread, 0 = not known */
    int32_t shared_static, shared_dynamic;
    int32_t cluster;           /* blocks, 0 = not known */
    float occupancy;           /* achieved, fraction; < 0 = not known */
    int64_t graph, graph_node; /* 0 = not of a graph */
    int32_t collective;        /* into collectives, -1 = none */
    int32_t counters;          /* into counters, -1 = none */
    int64_t queued, submitted; /* ns, 0 = not known */
} hr_kernel_work;

typedef enum hr_memory_kind {
    HR_MEMORY_UNKNOWN,
    HR_MEMORY_PAGEABLE,
    HR_MEMORY_PINNED,
    HR_MEMORY_DEVICE,
    HR_MEMORY_MANAGED,
    HR_MEMORY_PEER
} hr_memory_kind;

typedef struct hr_copy {
    int64_t bytes;
    uint8_t from, to;  /* hr_memory_kind */
    bool asynchronous; /* by its call's name or flag */
    int64_t graph;
} hr_copy;

typedef enum hr_wait_kind {
    HR_WAIT_EVENT,
    HR_WAIT_STREAM_EVENT,
    HR_WAIT_STREAM,
    HR_WAIT_CONTEXT
} hr_wait_kind;

typedef struct hr_wait {
    hr_wait_kind kind;
    int32_t stream; /* track waited for or that waits, -1 = not known */
    int64_t event;  /* identity of the CUDA event, 0 = not known */
    int64_t record; /* correlation of the call that recorded the event, 0 = not known */
} hr_wait;

typedef struct hr_operator {
    int32_t shapes;   /* "[[64, 1024], [1024]]" as in the file, into strings, -1 = none */
    int32_t dtypes;   /* "[\"c10::BFloat16\", ...]", into strings, -1 = none */
    int64_t sequence; /* joins forward and backward; -1 = none */
    bool is_python;
} hr_operator;

typedef struct hr_call {
    int32_t result; /* 0 = success */
    int64_t event;  /* of event records and waits; 0 = none */
    int32_t stream; /* track, -1 = not known */
} hr_call;

typedef struct hr_collective {
    int32_t name, group; /* into strings */
    int64_t bytes;       /* of the message, 0 = not known */
    int32_t ranks;
} hr_collective;

typedef struct hr_allocation {
    int64_t bytes; /* negative: freed */
    int64_t address;
    hr_memory_kind memory;
    int32_t device;
    int64_t total,
        reserved; /* of the caching allocator behind it: given out, taken from the driver; 0 = not known */
} hr_allocation;

/* What a sample of a device is of; a part of 1 of what the hardware can. */
typedef enum hr_sample_kind {
    HR_SAMPLE_OTHER, /* as its name says, in any unit */
    HR_SAMPLE_SM_ACTIVE,
    HR_SAMPLE_TENSOR_ACTIVE,
    HR_SAMPLE_WARPS_ACTIVE,
    HR_SAMPLE_DRAM, /* both directions; else those one by one: */
    HR_SAMPLE_DRAM_READ,
    HR_SAMPLE_DRAM_WRITTEN,
    HR_SAMPLE_KIND_COUNT
} hr_sample_kind;
/* "SM active", "" for HR_SAMPLE_OTHER: the event's name. */
const char *hr_sample_kind_words(hr_sample_kind kind);

typedef struct hr_sample {
    double value;
    hr_sample_kind kind;
} hr_sample;

/* Samples of a device are events on a stream of this number, that has nothing else. */
#define HR_STREAM_OF_SAMPLES (-2)

/* The name of events HR_EVENT_OVERHEAD during which the recorder read counters of a launch: the program stood
 * still. */
#define HR_OVERHEAD_COUNTERS "reading hardware counters"

/* Hardware counters of one launch, or the mean of several of the same kernel; NAN = not recorded. Rates are
 * fractions of 1. */
typedef struct hr_counters {
    double seconds, dram_read, dram_written; /* bytes */
    double l1_hit, l2_hit, sectors_per_load, sectors_per_store;
    double tensor_instructions, vector_instructions, tensor_active, warps_active, dram_of_peak, sm_of_peak;
} hr_counters;

typedef struct hr_trace_device {
    int32_t rank, id;
    char name[96];
    int32_t multiprocessors, compute; /* 90; 0 = not known */
    int32_t warps_multiprocessor, registers_multiprocessor, threads_multiprocessor;
    int64_t shared_multiprocessor, shared_block;
    double memory_bytes, bandwidth; /* bytes a second as the file says; 0 = not known */
} hr_trace_device;

typedef struct hr_rank {
    int32_t rank, world; /* -1, 0 = the file does not say */
    char path[256];
    char source[24];  /* "headroom", "kineto", "nsys", "ncu", "jax" */
    char runtime[16]; /* "xpu", "mtia", "hip" where the file says so; "" = CUDA, or not known */
    int64_t zero;     /* ns since the epoch of time 0, 0 = not known */
    bool truncated;   /* the file ends early; what was read stands */
    bool killed;      /* own format: the program died while it was recorded */
} hr_rank;

/* What was left out, by reason: {"overlapping slices", 12}. */
typedef struct hr_skipped {
    char reason[160];
    int64_t count;
    int64_t offset; /* byte of the first one, -1 = not known */
} hr_skipped;

/* A growing table; tables of details are plain arrays. */
#define HR_TABLE(type)                                                                                       \
    struct {                                                                                                 \
        type *items;                                                                                         \
        int64_t count, capacity;                                                                             \
    }

typedef struct hr_trace {
    HR_TABLE(hr_event)
    events; /* sorted by start, longer first; ranges, operators and calls of a thread nest */
    HR_TABLE(hr_track) tracks;
    HR_TABLE(hr_kernel_work) kernels;
    HR_TABLE(hr_copy) copies;
    HR_TABLE(hr_wait) waits;
    HR_TABLE(hr_operator) operators;
    HR_TABLE(hr_call) calls;
    HR_TABLE(hr_collective) collectives;
    HR_TABLE(hr_allocation) allocations;
    HR_TABLE(hr_sample) samples;
    HR_TABLE(hr_counters) counters;
    HR_TABLE(hr_trace_device) devices;
    HR_TABLE(hr_rank) ranks;
    HR_TABLE(hr_skipped) skipped;
    struct hr_strings *strings; /* interned names */
    int64_t event_limit;        /* events beyond it are counted as skipped; the window kept is whole */
} hr_trace;

/* Reads `paths` into one trace, a rank each; the kind of each file is found from its content. HR_BAD_INPUT
 * with the byte offset where nothing can be read; a file that breaks off gives what came before and sets
 * `truncated`. */
typedef struct hr_trace_options {
    int64_t event_limit;     /* 0 = 8 million */
    hr_progress_fn progress; /* bytes done of total; may be NULL */
    void *progress_context;
} hr_trace_options;
hr_status hr_trace_read(const char *const *paths, int count, const hr_trace_options *options, hr_trace **out);
void hr_trace_destroy(hr_trace *trace);
const char *hr_trace_string(const hr_trace *trace, int32_t id); /* "" for -1 */

#endif
