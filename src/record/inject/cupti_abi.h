/* The part of CUPTI's binary interface that the recorder uses, for CUDA 12 and 13. No CUDA header is needed
 * to build; test/unit/test_cupti_abi.c compares all of this with NVIDIA's headers where they are installed.
 *
 * CUPTI appends to its records from version to version, so what is declared here is the part that all
 * versions since 12.0 share; what came later is read only where cuptiGetVersion() says that it is there.
 */
#ifndef HR_RECORD_CUPTI_ABI_H
#define HR_RECORD_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CUPTI_PACKED __attribute__((__packed__)) __attribute__((aligned(8)))

enum cupti_code {
    CUPTI_OK = 0,
    CUPTI_NO_MEMORY = 8,
    CUPTI_END_OF_BUFFER = 12,
    CUPTI_NOT_COMPATIBLE = 14,
    CUPTI_METRIC_UNKNOWN = 17,
    CUPTI_HARDWARE_BUSY = 26,
    CUPTI_NOT_SUPPORTED = 27,
    CUPTI_VIRTUAL_DEVICE = 33,
    CUPTI_NO_PRIVILEGE = 35,
    CUPTI_RIVAL = 39,
    CUPTI_VIRTUAL_NO_PRIVILEGE = 40,
    CUPTI_CONFIDENTIAL = 41,
    CUPTI_MINING_DEVICE = 42,
    CUPTI_MIG_DEVICE = 43,
    CUPTI_SLI_DEVICE = 44,
    CUPTI_WSL_DEVICE = 45,
    CUPTI_CHIP_UNKNOWN = 46
};

/* Kinds of activity; a record begins with its kind. */
enum cupti_kind {
    CUPTI_KIND_COPY = 1,
    CUPTI_KIND_FILL = 2,
    CUPTI_KIND_DRIVER = 4,
    CUPTI_KIND_RUNTIME = 5,
    CUPTI_KIND_CONTEXT = 9,
    CUPTI_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_KIND_OVERHEAD = 17,
    CUPTI_KIND_COPY_PEER = 22,
    CUPTI_KIND_EXTERNAL = 39
};

enum cupti_domain { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2, CUPTI_DOMAIN_RESOURCE = 3 };
enum cupti_resource { CUPTI_CONTEXT_CREATED = 1, CUPTI_STREAM_CREATED = 3 };
enum cupti_site { CUPTI_SITE_ENTER = 0, CUPTI_SITE_EXIT = 1 };
/* As CUPTI numbers its synchronisations; the recorder's file does so too. */
enum cupti_wait_kind {
    CUPTI_WAIT_EVENT = 1,
    CUPTI_WAIT_STREAM_EVENT = 2,
    CUPTI_WAIT_STREAM = 3,
    CUPTI_WAIT_DEVICE = 4
};
enum cupti_thread_ids { CUPTI_THREAD_IDS_SYSTEM = 1 };
enum cupti_flush { CUPTI_FLUSH_FORCED = 1 };

/* Since CUDA 12.0; its CUPTI says 18. */
#define CUPTI_VERSION_LEAST 18

typedef struct CUPTI_PACKED cupti_kernel {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t cache_requested, cache_executed;
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t shared_static, shared_dynamic;
    uint32_t local_thread, local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_requested, carveout, padding;
    uint32_t shared_executed;
    uint64_t graph_node;
    uint32_t shared_limit, graph;
    void *access_policy;
    uint32_t channel, channel_type;
    uint32_t cluster[3];
} cupti_kernel;

typedef struct CUPTI_PACKED cupti_copy {
    uint32_t kind;
    uint8_t direction, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t correlation, runtime_correlation, padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} cupti_copy;

typedef struct CUPTI_PACKED cupti_copy_peer {
    uint32_t kind;
    uint8_t direction, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t from_device, from_context, to_device, to_context;
    uint32_t correlation;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} cupti_copy_peer;

typedef struct CUPTI_PACKED cupti_fill {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t correlation;
    uint16_t flags, memory;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
} cupti_fill;

typedef struct CUPTI_PACKED cupti_call {
    uint32_t kind, callback;
    uint64_t start, end;
    uint32_t process, thread;
    uint32_t correlation, result;
} cupti_call;

/* What a record is about: a process and thread, or a device, context and stream. */
typedef union cupti_object {
    struct {
        uint32_t process, thread;
    } host;
    struct {
        uint32_t device, context, stream;
    } device;
} cupti_object;

typedef struct CUPTI_PACKED cupti_overhead {
    uint32_t kind, overhead;
    uint32_t object_kind;
    cupti_object object;
    uint64_t start, end;
} cupti_overhead;

typedef struct CUPTI_PACKED cupti_external {
    uint32_t kind, source;
    uint64_t id;
    uint32_t correlation;
} cupti_external;

typedef struct CUPTI_PACKED cupti_context {
    uint32_t kind, id, device;
} cupti_context;

/* Before and after a call that a subscriber asked for. */
typedef struct cupti_callback_data {
    int site; /* enum cupti_site */
    const char *function;
    const void *arguments; /* a struct of them */
    void *returned;
    const char *symbol;
    void *context;
    uint32_t context_id;
    uint64_t *user;
    uint32_t correlation;
} cupti_callback_data;

/* What a callback about a resource is given. */
typedef struct cupti_resource_data {
    void *context, *descriptor;
} cupti_resource_data;

typedef struct cupti_subscriber_params {
    size_t size;
    const char *name;
    char *old_name;
    size_t old_size;
} cupti_subscriber_params;

#define CUPTI_OLD_NAME 64 /* bytes that old_name needs */

typedef void (*cupti_callback)(void *user, int domain, uint32_t callback, const void *data);
typedef void (*cupti_buffer_request)(uint8_t **buffer, size_t *size, size_t *record_limit);
typedef void (*cupti_buffer_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                      size_t valid);
typedef uint64_t (*cupti_clock)(void);

/* name of the member, CUPTI's name, 1 where the recorder cannot do without, parameters */
#define CUPTI_FUNCTIONS(X)                                                                                   \
    X(version, cuptiGetVersion, 1, (uint32_t *))                                                             \
    X(subscribe, cuptiSubscribe, 1, (void **, cupti_callback, void *))                                       \
    X(subscribe_named, cuptiSubscribe_v2, 0, (void **, cupti_callback, void *, cupti_subscriber_params *))   \
    X(unsubscribe, cuptiUnsubscribe, 1, (void *))                                                            \
    X(enable_callback, cuptiEnableCallback, 1, (uint32_t, void *, int, uint32_t))                            \
    X(stream_id, cuptiGetStreamId, 1, (void *, void *, uint32_t *))                                          \
    X(device_id, cuptiGetDeviceId, 1, (void *, uint32_t *))                                                  \
    X(enable, cuptiActivityEnable, 1, (int))                                                                 \
    X(disable, cuptiActivityDisable, 1, (int))                                                               \
    X(register_buffers, cuptiActivityRegisterCallbacks, 1, (cupti_buffer_request, cupti_buffer_complete))    \
    X(register_clock, cuptiActivityRegisterTimestampCallback, 1, (cupti_clock))                              \
    X(next_record, cuptiActivityGetNextRecord, 1, (uint8_t *, size_t, void **))                              \
    X(dropped, cuptiActivityGetNumDroppedRecords, 1, (void *, uint32_t, size_t *))                           \
    X(flush, cuptiActivityFlushAll, 1, (uint32_t))                                                           \
    X(thread_ids, cuptiSetThreadIdType, 1, (int))                                                            \
    X(callback_name, cuptiGetCallbackName, 1, (int, uint32_t, const char **))                                \
    X(enable_driver_call, cuptiActivityEnableDriverApi, 0, (uint32_t, uint8_t))                              \
    X(enable_runtime_call, cuptiActivityEnableRuntimeApi, 0, (uint32_t, uint8_t))                            \
    X(result_text, cuptiGetResultString, 0, (int, const char **))

typedef struct cupti_library {
    void *handle;
    char path[512];
    uint32_t api; /* as cuptiGetVersion() says */
#define CUPTI_MEMBER(member, symbol, needed, parameters) int(*member) parameters;
    CUPTI_FUNCTIONS(CUPTI_MEMBER)
#undef CUPTI_MEMBER
} cupti_library;

#endif
