/* A CUPTI without a GPU: the functions that the recorder uses, over a device that exists in numbers only.
 *
 * In: fake_launch() and its kin from the program under test; FAKE_CUPTI_RIVAL, FAKE_CUPTI_CODE: what
 * cuptiSubscribe says; FAKE_CUPTI_DROP: records said to be dropped. Out: records in the recorder's buffers,
 * as CUPTI would fill them. */
#include "support/fake_cupti.h"
#include "fake/fake_cupti_parts.h"
#include "record/inject/cupti_abi.h"
#include "record/inject/cupti_counters_abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, launch_lock = PTHREAD_MUTEX_INITIALIZER;
static cupti_buffer_request request;
static cupti_buffer_complete complete;
static cupti_clock now;
static bool enabled[64], silent[3][8], called_back[4][8], has_context;
static cupti_callback callback;
static uint8_t *buffer;
static size_t size, used;
static uint32_t correlations;
static uint64_t busy_until;

/* Callbacks 1.. of each domain; the third of the runtime is one that the recorder has no use for. */
static const char *const driver_names[] = {"", "cuLaunchKernel", "cuMemcpyHtoD_v2"};
static const char *const runtime_names[] = {"",
                                            "cudaLaunchKernel_v7000",
                                            "cudaMemcpy_v3020",
                                            "cudaGetDevice_v3020",
                                            "cudaEventRecord_v3020",
                                            "cudaStreamWaitEvent_v3020",
                                            "cudaStreamSynchronize_v3020",
                                            "cudaMalloc_v3020"};
enum { DRIVER_LAUNCH = 1 };
enum { LAUNCH = 1, COPY, GET_DEVICE, EVENT_RECORD, STREAM_WAIT, STREAM_SYNCHRONIZE, ALLOCATE };

/* Of fake_cupti_counters.c; a CUPTI that is too old for counters is built without. */
__attribute__((weak)) bool fake_counts(void) {
    return false;
}

uint64_t fake_now(void) {
    return now ? now() : 0;
}

static void hand_over(void) {
    if (buffer) complete(NULL, 0, buffer, size, used);
    buffer = NULL;
    used = size = 0;
}

static void emit(const void *record, size_t length) {
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    if (!request || !enabled[kind]) return;
    if (used + length > size) hand_over();
    if (!buffer) {
        size_t limit;
        request(&buffer, &size, &limit);
    }
    if (!buffer) return;
    memcpy(buffer + used, record, length);
    used += length;
}

static uint32_t emit_call(uint32_t callback, uint64_t start) {
    cupti_call call = {.kind = CUPTI_KIND_RUNTIME,
                       .callback = callback,
                       .start = start,
                       .end = now ? now() : 0,
                       .process = (uint32_t)getpid(),
                       .thread = (uint32_t)syscall(SYS_gettid),
                       .correlation = ++correlations};
    if (!silent[CUPTI_DOMAIN_RUNTIME][callback]) emit(&call, sizeof call);
    return call.correlation;
}

static uint64_t run_on_device(uint64_t nanoseconds) {
    uint64_t start = now ? now() : 0;
    if (start < busy_until) start = busy_until;
    busy_until = start + nanoseconds;
    return start;
}

/* ---- what the program calls ---- */

/* What the driver's callback says around a launch; CUPTI's lock is not held meanwhile. */
static void tell_launch(const char *name, uint32_t stream, int site, uint32_t correlation) {
    cuda_launch launch = {.function = (void *)(uintptr_t)name,
                          .shape = {{132, 2, 1}, {256, 1, 1}, 2048, (void *)(uintptr_t)stream}};
    cupti_callback_data data = {.site = site,
                                .arguments = &launch,
                                .symbol = name,
                                .context = &lock,
                                .context_id = 1,
                                .correlation = correlation};
    if (callback && called_back[CUPTI_DOMAIN_DRIVER][DRIVER_LAUNCH])
        callback(NULL, CUPTI_DOMAIN_DRIVER, DRIVER_LAUNCH, &data);
}

static void make_context(void) {
    cupti_resource_data data = {&lock, NULL};
    if (has_context) return;
    has_context = true;
    if (callback && called_back[CUPTI_DOMAIN_RESOURCE][CUPTI_CONTEXT_CREATED])
        callback(NULL, CUPTI_DOMAIN_RESOURCE, CUPTI_CONTEXT_CREATED, &data);
}

/* Each launch but those of another thread meanwhile has the next correlation. */
static void launch(const char *name, uint32_t stream, uint64_t nanoseconds);

SHOWN void fake_launch(const char *name, uint32_t stream, uint64_t nanoseconds) {
    pthread_mutex_lock(&launch_lock);
    make_context();
    uint32_t correlation = correlations + 1;
    tell_launch(name, stream, CUPTI_SITE_ENTER, correlation);
    launch(name, stream, nanoseconds);
    tell_launch(name, stream, CUPTI_SITE_EXIT, correlation);
    pthread_mutex_unlock(&launch_lock);
}

static void launch(const char *name, uint32_t stream, uint64_t nanoseconds) {
    pthread_mutex_lock(&lock);
    uint64_t start = now ? now() : 0;
    uint32_t correlation = emit_call(LAUNCH, start);
    emit_call(GET_DEVICE, start);
    uint64_t begun = run_on_device(nanoseconds);
    bool counted = fake_counts();
    cupti_kernel kernel = {.kind = CUPTI_KIND_CONCURRENT_KERNEL,
                           .registers = 64,
                           .start = counted ? 0 : begun,
                           .end = counted ? 0 : begun + nanoseconds,
                           .context = 1,
                           .stream = stream,
                           .grid = {132, 2, 1},
                           .block = {256, 1, 1},
                           .shared_static = 1024,
                           .shared_dynamic = 2048,
                           .correlation = correlation,
                           .name = name,
                           .cluster = {2, 1, 1}};
    emit(&kernel, sizeof kernel);
    pthread_mutex_unlock(&lock);
}

SHOWN void fake_copy(uint64_t bytes) {
    pthread_mutex_lock(&lock);
    uint64_t start = now ? now() : 0;
    uint32_t correlation = emit_call(COPY, start);
    uint64_t begun = run_on_device(bytes / 10);
    cupti_copy copy = {.kind = CUPTI_KIND_COPY,
                       .direction = 1,
                       .from = 1,
                       .to = 3,
                       .bytes = bytes,
                       .start = begun,
                       .end = begun + bytes / 10,
                       .context = 1,
                       .stream = 7,
                       .correlation = correlation};
    emit(&copy, sizeof copy);
    pthread_mutex_unlock(&lock);
}

/* As a call of the runtime that makes one of the driver's: the callbacks of both, the outer one around. */
static void call_back(uint32_t number, void *const *arguments) {
    uint32_t correlation = correlations + 1;
    cupti_callback_data data = {
        .arguments = arguments, .context = &lock, .context_id = 1, .correlation = correlation};
    bool asked = callback && called_back[CUPTI_DOMAIN_RUNTIME][number];
    if (asked) callback(NULL, CUPTI_DOMAIN_RUNTIME, number, &data);
    uint64_t start = now ? now() : 0;
    usleep(20);
    data.site = CUPTI_SITE_EXIT;
    if (asked) callback(NULL, CUPTI_DOMAIN_RUNTIME, number, &data);
    emit_call(number, start);
}

SHOWN void fake_stream(void) {
    bool asked = callback && called_back[CUPTI_DOMAIN_RESOURCE][CUPTI_STREAM_CREATED];
    if (asked) callback(NULL, CUPTI_DOMAIN_RESOURCE, CUPTI_STREAM_CREATED, NULL);
}

SHOWN void fake_events(void) {
    void *event = &busy_until, *seven = (void *)(uintptr_t)7, *nine = (void *)(uintptr_t)9, *memory = event;
    pthread_mutex_lock(&lock);
    call_back(EVENT_RECORD, (void *[]){event, seven});
    call_back(STREAM_WAIT, (void *[]){nine, event});
    call_back(STREAM_SYNCHRONIZE, (void *[]){seven});
    call_back(ALLOCATE, (void *[]){&memory, (void *)(uintptr_t)4096});
    pthread_mutex_unlock(&lock);
}

/* ---- CUPTI's functions ---- */

SHOWN int cuptiGetVersion(uint32_t *version) {
    const char *given = getenv("FAKE_CUPTI_VERSION");
    *version = given ? (uint32_t)atoi(given) : 130001;
    return CUPTI_OK;
}

SHOWN int cuptiSubscribe_v2(void **subscriber, cupti_callback called, void *user,
                            cupti_subscriber_params *params) {
    (void)user;
    callback = called;
    const char *rival = getenv("FAKE_CUPTI_RIVAL"), *code = getenv("FAKE_CUPTI_CODE");
    if (code) return atoi(code);
    if (rival) {
        strncpy(params->old_name, rival, params->old_size - 1);
        return CUPTI_RIVAL;
    }
    *subscriber = &lock;
    return CUPTI_OK;
}

SHOWN int cuptiSubscribe(void **subscriber, cupti_callback called, void *user) {
    cupti_subscriber_params params = {0};
    return cuptiSubscribe_v2(subscriber, called, user, &params);
}

SHOWN int cuptiUnsubscribe(void *subscriber) {
    return subscriber ? CUPTI_OK : 1;
}

SHOWN int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t number) {
    if (subscriber != &lock || number >= 8) return 1;
    pthread_mutex_lock(&lock);
    called_back[domain][number] = enable;
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

SHOWN int cuptiGetStreamId(void *context, void *stream, uint32_t *id) {
    *id = (uint32_t)(uintptr_t)stream;
    return context == &lock ? CUPTI_OK : 1;
}

SHOWN int cuptiGetDeviceId(void *context, uint32_t *device) {
    *device = 0;
    return context == &lock ? CUPTI_OK : 1;
}

SHOWN int cuptiActivityEnable(int kind) {
    if (kind < 0 || kind >= 64) return 21;
    pthread_mutex_lock(&lock);
    enabled[kind] = true;
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

SHOWN int cuptiActivityDisable(int kind) {
    pthread_mutex_lock(&lock);
    enabled[kind] = false;
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

SHOWN int cuptiActivityRegisterCallbacks(cupti_buffer_request asked, cupti_buffer_complete done) {
    request = asked;
    complete = done;
    return CUPTI_OK;
}

SHOWN int cuptiActivityRegisterTimestampCallback(cupti_clock clock) {
    now = clock;
    return CUPTI_OK;
}

static size_t record_size(const void *record) {
    switch (*(const uint32_t *)record) {
    case CUPTI_KIND_RUNTIME:
        return sizeof(cupti_call);
    case CUPTI_KIND_CONCURRENT_KERNEL:
        return sizeof(cupti_kernel);
    case CUPTI_KIND_COPY:
        return sizeof(cupti_copy);
    }
    abort();
}

SHOWN int cuptiActivityGetNextRecord(uint8_t *data, size_t valid, void **record) {
    uint8_t *next = *record ? (uint8_t *)*record + record_size(*record) : data;
    if (next >= data + valid) return CUPTI_END_OF_BUFFER;
    *record = next;
    return CUPTI_OK;
}

SHOWN int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    (void)context, (void)stream;
    const char *given = getenv("FAKE_CUPTI_DROP");
    *dropped = given ? (size_t)atoi(given) : 0;
    return CUPTI_OK;
}

SHOWN int cuptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    pthread_mutex_lock(&lock);
    hand_over();
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

SHOWN int cuptiSetThreadIdType(int type) {
    return type == CUPTI_THREAD_IDS_SYSTEM ? CUPTI_OK : 1;
}

SHOWN int cuptiGetCallbackName(int domain, uint32_t callback, const char **name) {
    bool driver = domain == CUPTI_DOMAIN_DRIVER;
    uint32_t count = (uint32_t)(driver ? sizeof driver_names / sizeof *driver_names
                                       : sizeof runtime_names / sizeof *runtime_names);
    if (callback >= count) return 1;
    *name = driver ? driver_names[callback] : runtime_names[callback];
    return CUPTI_OK;
}

SHOWN int cuptiActivityEnableRuntimeApi(uint32_t callback, uint8_t enable) {
    if (callback < 8) silent[CUPTI_DOMAIN_RUNTIME][callback] = !enable;
    return CUPTI_OK;
}

SHOWN int cuptiActivityEnableDriverApi(uint32_t callback, uint8_t enable) {
    if (callback < 8) silent[CUPTI_DOMAIN_DRIVER][callback] = !enable;
    return CUPTI_OK;
}
