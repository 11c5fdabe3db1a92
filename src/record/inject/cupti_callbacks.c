/* Calls whose arguments matter: CUDA events, waits and allocations. In: CUPTI's callbacks before and after
 * each of them. Out: records in the log of the calling thread.
 *
 * CUPTI would report the same as activities, but with those switched on every launch costs half as much
 * again. */
#include "record/inject/recorder.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum role {
    ROLE_NONE,
    ROLE_RECORD,
    ROLE_STREAM_WAIT,
    ROLE_STREAM,
    ROLE_EVENT,
    ROLE_DEVICE,
    ROLE_ALLOCATE,
    ROLE_LAUNCH, /* of the driver: the runtime's launches end there */
    ROLE_LAUNCH_EXTENDED
};

static const struct {
    const char *name;
    enum role role;
} telling[] = {
    {"cudaEventRecord", ROLE_RECORD},
    {"cudaEventRecordWithFlags", ROLE_RECORD},
    {"cuEventRecord", ROLE_RECORD},
    {"cuEventRecordWithFlags", ROLE_RECORD},
    {"cudaStreamWaitEvent", ROLE_STREAM_WAIT},
    {"cuStreamWaitEvent", ROLE_STREAM_WAIT},
    {"cudaStreamSynchronize", ROLE_STREAM},
    {"cuStreamSynchronize", ROLE_STREAM},
    {"cudaEventSynchronize", ROLE_EVENT},
    {"cuEventSynchronize", ROLE_EVENT},
    {"cudaDeviceSynchronize", ROLE_DEVICE},
    {"cuCtxSynchronize", ROLE_DEVICE},
    {"cudaMalloc", ROLE_ALLOCATE},
    {"cuMemAlloc", ROLE_ALLOCATE},
    {"cuLaunchKernel", ROLE_LAUNCH},
    {"cuLaunchCooperativeKernel", ROLE_LAUNCH},
    {"cuLaunchKernelEx", ROLE_LAUNCH_EXTENDED},
};

#define CALL_MOST 2048

static const cupti_library *cupti;
static void *subscriber;
static uint8_t roles[3][CALL_MOST];  /* enum role, by domain and callback */
static atomic_bool wanted, switched; /* the window is open; the callbacks are on */
static atomic_bool has_streams;      /* the program has made one */

/* A call of the runtime makes calls of the driver: the outermost one is what the program did. */
static __thread int depth;
static __thread int64_t entered;

/* ---- which calls ---- */

/* "cudaEventRecord_ptsz_v7000" is cudaEventRecord; "cuMemAlloc_v2" is cuMemAlloc. */
static bool is_called(const char *name, const char *plain) {
    size_t length = strlen(plain);
    return strncmp(name, plain, length) == 0 && (!name[length] || name[length] == '_');
}

static enum role role_of(const char *name) {
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
        if (is_called(name, telling[i].name)) return telling[i].role;
    return ROLE_NONE;
}

void callbacks_start(const cupti_library *library, void *handle) {
    cupti = library;
    subscriber = handle;
    for (int domain = CUPTI_DOMAIN_DRIVER; domain <= CUPTI_DOMAIN_RUNTIME; domain++)
        for (uint32_t callback = 1; callback < CALL_MOST; callback++) {
            const char *name = NULL;
            if (cupti->callback_name(domain, callback, &name) == CUPTI_OK && name)
                roles[domain][callback] = (uint8_t)role_of(name);
        }
    cupti->enable_callback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_STREAM_CREATED);
    cupti->enable_callback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_CONTEXT_CREATED);
}

static bool is_launch(enum role role) {
    return role == ROLE_LAUNCH || role == ROLE_LAUNCH_EXTENDED;
}

void callbacks_watch_launches(void) {
    for (uint32_t callback = 1; callback < CALL_MOST; callback++)
        if (is_launch(roles[CUPTI_DOMAIN_DRIVER][callback]))
            cupti->enable_callback(1, subscriber, CUPTI_DOMAIN_DRIVER, callback);
}

void callbacks_follow(void) {
    bool on = wanted && has_streams;
    if (atomic_exchange(&switched, on) == on) return;
    for (int domain = CUPTI_DOMAIN_DRIVER; domain <= CUPTI_DOMAIN_RUNTIME; domain++)
        for (uint32_t callback = 1; callback < CALL_MOST; callback++)
            if (roles[domain][callback] && !is_launch(roles[domain][callback]))
                cupti->enable_callback(on, subscriber, domain, callback);
}

void callbacks_switch(bool on) {
    wanted = on;
    callbacks_follow();
}

/* ---- what they say ---- */

/* Arguments stand in their order, pointers and handles in eight bytes each. */
static void *argument(const cupti_callback_data *data, int place) {
    void *value;
    memcpy(&value, (const char *)data->arguments + 8 * place, sizeof value);
    return value;
}

static int64_t stream_id(const cupti_callback_data *data, void *stream) {
    uint32_t id;
    if (!data->context || cupti->stream_id(data->context, stream, &id) != CUPTI_OK) return -1;
    return id;
}

static void log_wait(const cupti_callback_data *data, int kind, int64_t stream, void *event) {
    hr_record_wait record = {.start = entered,
                             .duration = (int64_t)recorder_clock() - entered,
                             .wait_kind = kind,
                             .correlation = data->correlation,
                             .context = data->context_id,
                             .stream = stream,
                             .event = event ? (int64_t)(uintptr_t)event : -1};
    thread_log_append(HR_RECORD_wait, &record, sizeof record);
}

static void log_event_record(const cupti_callback_data *data) {
    hr_record_event_record record = {data->correlation, data->context_id, stream_id(data, argument(data, 1)),
                                     (int64_t)(uintptr_t)argument(data, 0)};
    thread_log_append(HR_RECORD_event_record, &record, sizeof record);
}

static void log_allocation(const cupti_callback_data *data) {
    void *const *place = argument(data, 0);
    hr_record_allocation record = {.time = entered,
                                   .bytes = (int64_t)(uintptr_t)argument(data, 1),
                                   .address = place ? (int64_t)(uintptr_t)*place : 0,
                                   .memory = 3};
    thread_log_append(HR_RECORD_allocation, &record, sizeof record);
}

static void log_call(enum role role, const cupti_callback_data *data) {
    switch (role) {
    case ROLE_RECORD:
        log_event_record(data);
        break;
    case ROLE_STREAM_WAIT:
        log_wait(data, CUPTI_WAIT_STREAM_EVENT, stream_id(data, argument(data, 0)), argument(data, 1));
        break;
    case ROLE_STREAM:
        log_wait(data, CUPTI_WAIT_STREAM, stream_id(data, argument(data, 0)), NULL);
        break;
    case ROLE_EVENT:
        log_wait(data, CUPTI_WAIT_EVENT, -1, argument(data, 0));
        break;
    case ROLE_DEVICE:
        log_wait(data, CUPTI_WAIT_DEVICE, -1, NULL);
        break;
    case ROLE_ALLOCATE:
        log_allocation(data);
        break;
    case ROLE_NONE:
    case ROLE_LAUNCH:
    case ROLE_LAUNCH_EXTENDED:
        break;
    }
}

static void tell_launch(enum role role, const cupti_callback_data *data) {
    if (data->site != CUPTI_SITE_ENTER) {
        kernel_counters_after(data);
    } else if (role == ROLE_LAUNCH) {
        const cuda_launch *launch = data->arguments;
        kernel_counters_before(data, launch->function, &launch->shape);
    } else {
        const cuda_launch_extended *launch = data->arguments;
        kernel_counters_before(data, launch->function, launch->shape);
    }
}

/* CUPTI is in the middle of something: the drain thread does the rest. */
static void note_resource(uint32_t callback, const cupti_resource_data *data) {
    if (callback == CUPTI_STREAM_CREATED) has_streams = true;
    if (callback == CUPTI_CONTEXT_CREATED && data) sampled_counters_context(data->context);
}

void callbacks_call(void *user, int domain, uint32_t callback, const void *about) {
    (void)user;
    const cupti_callback_data *data = about;
    if (domain == CUPTI_DOMAIN_RESOURCE) {
        note_resource(callback, about);
        return;
    }
    if (domain > CUPTI_DOMAIN_RUNTIME || callback >= CALL_MOST || !roles[domain][callback]) return;
    if (is_launch(roles[domain][callback])) {
        tell_launch(roles[domain][callback], data);
        return;
    }
    if (data->site == CUPTI_SITE_ENTER) {
        if (depth++ == 0) entered = (int64_t)recorder_clock();
    } else if (depth > 0 && --depth == 0 && recorder_is_open())
        log_call(roles[domain][callback], data);
}
