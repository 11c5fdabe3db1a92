/* CUPTI's activities. In: the window's opening and closing, CUPTI's buffers. Out: records. */
#include "record/inject/recorder.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (4 << 20)
#define BUFFER_MOST  96 /* beyond that CUPTI drops records: better than taking the program's memory */
#define CALL_MOST    2048

#define DEMANGLE_NO_MEMORY (-1) /* of __cxa_demangle() */

typedef struct activity {
    cupti_library cupti;
    void *subscriber;
    bool running, devices_known;
    atomic_bool enabled;
    atomic_int buffers; /* that CUPTI has or that wait to be decoded */
    int64_t dropped;
    int64_t call_names[3][CALL_MOST]; /* string + 1 of a domain's callback; 0 = not asked yet */
    char *(*demangle)(const char *, char *, size_t *, int *);
} activity;

static activity state;
static pthread_mutex_t switch_lock = PTHREAD_MUTEX_INITIALIZER;

/* Rare and needed to understand the rest: recorded outside of the window too. */
static const int standing_kinds[] = {CUPTI_KIND_CONTEXT};

static const int kinds[] = {CUPTI_KIND_COPY,     CUPTI_KIND_COPY_PEER, CUPTI_KIND_FILL,
                            CUPTI_KIND_OVERHEAD, CUPTI_KIND_EXTERNAL,  CUPTI_KIND_CONCURRENT_KERNEL};

/* Calls that start work, wait, allocate or load code, by how their names begin. Thousands of others only ask
 * or set something on the host; recording those too would cost each launch several times what the launch
 * itself does. */
static const char *const telling_calls[] = {"cudaLaunch",
                                            "cudaGraphLaunch",
                                            "cudaGraphInstantiate",
                                            "cudaMemcpy",
                                            "cudaMemset",
                                            "cudaMemPrefetch",
                                            "cudaMalloc",
                                            "cudaFree",
                                            "cudaHostAlloc",
                                            "cudaHostRegister",
                                            "cudaHostUnregister",
                                            "cudaDeviceSynchronize",
                                            "cudaDeviceReset",
                                            "cudaThreadSynchronize",
                                            "cudaStreamSynchronize",
                                            "cudaStreamWaitEvent",
                                            "cudaStreamCreate",
                                            "cudaStreamDestroy",
                                            "cudaStreamBeginCapture",
                                            "cudaStreamEndCapture",
                                            "cudaEventRecord",
                                            "cudaEventSynchronize",
                                            "cudaLibraryLoad",
                                            "cudaIpcOpen",
                                            "cuLaunch",
                                            "cuGraphLaunch",
                                            "cuGraphInstantiate",
                                            "cuMemcpy",
                                            "cuMemset",
                                            "cuMemPrefetch",
                                            "cuMemAlloc",
                                            "cuMemFree",
                                            "cuMemHostAlloc",
                                            "cuMemHostRegister",
                                            "cuMemHostUnregister",
                                            "cuMemCreate",
                                            "cuMemMap",
                                            "cuMemUnmap",
                                            "cuMemRelease",
                                            "cuMemSetAccess",
                                            "cuCtxSynchronize",
                                            "cuCtxCreate",
                                            "cuCtxDestroy",
                                            "cuDevicePrimaryCtxRe",
                                            "cuStreamSynchronize",
                                            "cuStreamWaitEvent",
                                            "cuStreamCreate",
                                            "cuStreamDestroy",
                                            "cuEventRecord",
                                            "cuEventSynchronize",
                                            "cuModuleLoad",
                                            "cuModuleUnload",
                                            "cuLibraryLoad",
                                            "cuLinkComplete",
                                            "cuInit"};

/* ---- names ---- */

static bool is_telling(const char *name) {
    for (size_t i = 0; i < sizeof telling_calls / sizeof *telling_calls; i++)
        if (strncmp(name, telling_calls[i], strlen(telling_calls[i])) == 0) return true;
    return false;
}

/* "cudaLaunchKernel_v7000" is cudaLaunchKernel to everyone; "cuMemcpyHtoDAsync_v2" keeps nothing either. */
static size_t plain_length(const char *name) {
    const char *version = strstr(name, "_v");
    return version && version[2] >= '0' && version[2] <= '9' ? (size_t)(version - name) : strlen(name);
}

static int64_t call_name(int domain, uint32_t callback) {
    int64_t *kept = callback < CALL_MOST ? &state.call_names[domain][callback] : NULL;
    if (kept && *kept) return *kept - 1;
    const char *name = NULL;
    if (state.cupti.callback_name(domain, callback, &name) != CUPTI_OK || !name) name = "?";
    int64_t id = record_string(name, plain_length(name));
    if (kept) *kept = id + 1;
    return id;
}

static int64_t kernel_name(const char *mangled) {
    if (!mangled) return -1;
    char *name = NULL;
    int code = -1;
    if (state.demangle && strncmp(mangled, "_Z", 2) == 0) {
        name = state.demangle(mangled, NULL, NULL, &code);
        if (code == DEMANGLE_NO_MEMORY) record_lacks_memory();
    }
    const char *shown = name && code == 0 ? name : mangled;
    int64_t id = record_string(shown, strlen(shown));
    free(name);
    return id;
}

/* Demangling is slow and the same few names come again and again: by their address, checked by content. */
static int64_t kernel_name_kept(const char *mangled) {
    enum { SLOTS = 1024 };
    static struct {
        const char *address;
        char *mangled;
        int64_t id;
    } kept[SLOTS];
    if (!mangled) return -1;
    size_t slot = ((uintptr_t)mangled >> 4 ^ (uintptr_t)mangled >> 14) % SLOTS;
    if (kept[slot].address == mangled && strcmp(kept[slot].mangled, mangled) == 0) return kept[slot].id;
    char *copy = strdup(mangled);
    int64_t id = kernel_name(mangled);
    if (!copy) return id;
    free(kept[slot].mangled);
    kept[slot].address = mangled;
    kept[slot].mangled = copy;
    kept[slot].id = id;
    return id;
}

static const char *overhead_name(uint32_t kind) {
    static const char *const names[] = {
        "CUPTI buffer flush",    "CUPTI instrumentation", "CUPTI resource",       "module loading",
        "lazy function loading", "command buffer full",   "CUPTI buffer request", "unified memory tracing"};
    if (kind == 1) return "driver compiler";
    uint32_t place = (kind >> 16) - 1;
    return place < sizeof names / sizeof *names ? names[place] : "overhead";
}

/* ---- records ---- */

static void put_kernel(const cupti_kernel *at) {
    hr_record_kernel record = {
        .start = (int64_t)at->start,
        .duration = (int64_t)(at->end - at->start),
        .device = at->device,
        .context = at->context,
        .stream = at->stream,
        .correlation = at->correlation,
        .name = kernel_name_kept(at->name),
        .grid_x = at->grid[0],
        .grid_y = at->grid[1],
        .grid_z = at->grid[2],
        .block_x = at->block[0],
        .block_y = at->block[1],
        .block_z = at->block[2],
        .registers = at->registers,
        .shared_static = at->shared_static,
        .shared_dynamic = at->shared_dynamic,
        .cluster = (int64_t)at->cluster[0] * at->cluster[1] * at->cluster[2],
        .graph = at->graph,
        .graph_node = (int64_t)at->graph_node,
    };
    record_put(HR_RECORD_kernel, &record);
}

static hr_record_copy copy_record(const cupti_copy *at) {
    return (hr_record_copy){.start = (int64_t)at->start,
                            .duration = (int64_t)(at->end - at->start),
                            .device = at->device,
                            .context = at->context,
                            .stream = at->stream,
                            .correlation = at->correlation,
                            .bytes = (int64_t)at->bytes,
                            .direction = at->direction,
                            .from = at->from,
                            .to = at->to,
                            .asynchronous = at->flags & 1,
                            .graph = at->graph};
}

static void put_copy(const cupti_copy *at) {
    hr_record_copy record = copy_record(at);
    record_put(HR_RECORD_copy, &record);
}

/* The same, with the devices of both sides in between. */
static void put_copy_peer(const cupti_copy_peer *at) {
    cupti_copy plain = {0};
    memcpy(&plain, at, offsetof(cupti_copy_peer, from_device));
    plain.correlation = at->correlation;
    plain.graph = at->graph;
    hr_record_copy record = copy_record(&plain);
    record.peer = 1;
    record_put(HR_RECORD_copy, &record);
}

static void put_fill(const cupti_fill *at) {
    hr_record_fill record = {.start = (int64_t)at->start,
                             .duration = (int64_t)(at->end - at->start),
                             .device = at->device,
                             .context = at->context,
                             .stream = at->stream,
                             .correlation = at->correlation,
                             .bytes = (int64_t)at->bytes,
                             .to = at->memory,
                             .asynchronous = at->flags & 1,
                             .graph = at->graph};
    record_put(HR_RECORD_fill, &record);
}

static void put_call(const cupti_call *at) {
    record_thread(at->thread);
    int domain = at->kind == CUPTI_KIND_DRIVER ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME;
    hr_record_call record = {.start = (int64_t)at->start,
                             .duration = (int64_t)(at->end - at->start),
                             .thread = at->thread,
                             .correlation = at->correlation,
                             .name = call_name(domain, at->callback),
                             .result = at->result};
    record_put(HR_RECORD_call, &record);
}

static void put_overhead(const cupti_overhead *at) {
    const char *name = overhead_name(at->overhead);
    bool of_host = at->object_kind == 1 || at->object_kind == 2;
    hr_record_overhead record = {.start = (int64_t)at->start,
                                 .duration = (int64_t)(at->end - at->start),
                                 .thread = of_host ? at->object.host.thread : 0,
                                 .name = record_string(name, strlen(name))};
    record_put(HR_RECORD_overhead, &record);
}

static void put_context(const cupti_context *at) {
    record_put(HR_RECORD_context, &(hr_record_context){at->id, at->device});
}

static void put_external(const cupti_external *at) {
    record_put(HR_RECORD_external,
               &(hr_record_external){at->correlation, (int64_t)at->id, (int64_t)at->source});
}

static void put_any(const void *at) {
    switch (*(const uint32_t *)at) {
    case CUPTI_KIND_CONCURRENT_KERNEL:
        put_kernel(at);
        break;
    case CUPTI_KIND_COPY:
        put_copy(at);
        break;
    case CUPTI_KIND_COPY_PEER:
        put_copy_peer(at);
        break;
    case CUPTI_KIND_FILL:
        put_fill(at);
        break;
    case CUPTI_KIND_DRIVER:
    case CUPTI_KIND_RUNTIME:
        put_call(at);
        break;
    case CUPTI_KIND_OVERHEAD:
        put_overhead(at);
        break;
    case CUPTI_KIND_CONTEXT:
        put_context(at);
        break;
    case CUPTI_KIND_EXTERNAL:
        put_external(at);
        break;
    }
}

void activity_decode(uint8_t *buffer, size_t valid) {
    void *record = NULL;
    if (!state.devices_known) driver_put_devices(); /* by now the driver is up */
    state.devices_known = true;
    while (state.cupti.next_record(buffer, valid, &record) == CUPTI_OK && record)
        put_any(record);
    size_t dropped = 0;
    if (state.cupti.dropped(NULL, 0, &dropped) == CUPTI_OK && dropped)
        record_put(HR_RECORD_dropped, &(hr_record_dropped){(int64_t)dropped});
    atomic_fetch_sub(&state.buffers, 1);
}

/* ---- CUPTI's callbacks ---- */

static void request_buffer(uint8_t **buffer, size_t *size, size_t *record_limit) {
    *record_limit = 0;
    *buffer = NULL;
    *size = 0;
    bool may = atomic_fetch_add(&state.buffers, 1) < BUFFER_MOST;
    if (may) *buffer = aligned_alloc(64, BUFFER_BYTES);
    if (may && !*buffer) record_lacks_memory();
    if (*buffer)
        *size = BUFFER_BYTES;
    else
        atomic_fetch_sub(&state.buffers, 1);
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    recorder_take_buffer(buffer, valid);
}

/* ---- starting ---- */

const char *activity_code_words(int code) {
    switch (code) {
    case CUPTI_NOT_COMPATIBLE:
        return "this CUPTI does not fit the installed driver";
    case CUPTI_NO_PRIVILEGE:
    case CUPTI_VIRTUAL_NO_PRIVILEGE:
        return "the driver reserves profiling for administrators (RmProfilingAdminOnly in "
               "/proc/driver/nvidia/params): run as root or load the driver with "
               "NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_VIRTUAL_DEVICE:
        return "this virtual GPU does not allow profiling";
    case CUPTI_HARDWARE_BUSY:
        return "another program or profiler uses the counters (ncu, nsys, dcgm)";
    case CUPTI_CONFIDENTIAL:
        return "confidential computing forbids profiling";
    case CUPTI_MIG_DEVICE:
        return "this part of a divided GPU (MIG) does not allow profiling";
    }
    const char *text = NULL;
    if (code == CUPTI_NO_MEMORY) record_lacks_memory();
    if (state.cupti.result_text && state.cupti.result_text(code, &text) == CUPTI_OK && text) return text;
    return "CUPTI gives no reason";
}

static bool subscribe(void) {
    const cupti_library *cupti = &state.cupti;
    char rival[CUPTI_OLD_NAME] = "";
    cupti_subscriber_params params = {sizeof params, "headroom", rival, sizeof rival};
    int code = cupti->subscribe_named
                   ? cupti->subscribe_named(&state.subscriber, callbacks_call, NULL, &params)
                   : cupti->subscribe(&state.subscriber, callbacks_call, NULL);
    if (code == CUPTI_RIVAL) {
        const char *name = rival[0] ? rival : "nsys, ncu, cuda-gdb or torch.profiler";
        recorder_note("another profiler (%s) records this program already, and CUPTI serves one at a time: "
                      "run it without the other",
                      name);
    } else if (code != CUPTI_OK)
        recorder_note("CUDA was not recorded: %s (CUPTI's code %d, %s)", activity_code_words(code), code,
                      cupti->path);
    return code == CUPTI_OK;
}

static bool configure(void) {
    const cupti_library *cupti = &state.cupti;
    cupti->thread_ids(CUPTI_THREAD_IDS_SYSTEM);
    int code = cupti->register_clock(recorder_clock);
    if (code == CUPTI_OK) code = cupti->register_buffers(request_buffer, complete_buffer);
    if (code != CUPTI_OK)
        recorder_note("CUDA was not recorded: %s (CUPTI's code %d, %s)", activity_code_words(code), code,
                      cupti->path);
    return code == CUPTI_OK;
}

static void enable_kinds(const int *wanted, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int code = state.cupti.enable(wanted[i]);
        if (code != CUPTI_OK)
            recorder_note("activity %d was not recorded: %s (CUPTI's code %d)", wanted[i],
                          activity_code_words(code), code);
    }
}

static void start_counters(void) {
    const char *wanted = getenv(RECORD_VARIABLE_COUNTERS);
    if (wanted && strcmp(wanted, "kernels") == 0) kernel_counters_start(&state.cupti, false);
    if (wanted && strcmp(wanted, "replayed") == 0) kernel_counters_start(&state.cupti, true);
    if (wanted && strcmp(wanted, "sampled") == 0) sampled_counters_start(&state.cupti);
}

/* A second recording of one process: CUPTI serves us already, though another profiler may have taken its
 * buffers since. */
static bool start_again(void) {
    state.devices_known = false;
    return configure();
}

bool activity_start(void) {
    char sentence[2048];
    if (state.running) return start_again();
    if (!cupti_open(&state.cupti, sentence, sizeof sentence)) {
        recorder_note("%s", sentence);
        return false;
    }
    *(void **)&state.demangle = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (!state.demangle) {
        void *library = library_open("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
        if (library) *(void **)&state.demangle = dlsym(library, "__cxa_demangle");
    }
    state.running = subscribe() && configure();
    if (!state.running) return false;
    callbacks_start(&state.cupti, state.subscriber);
    start_counters();
    enable_kinds(standing_kinds, sizeof standing_kinds / sizeof *standing_kinds);
    return true;
}

/* CUPTI records a call only while its whole domain is on, so the others are switched off one by one, where
 * this CUPTI can. */
static void switch_calls(int domain, int kind, int (*choose)(uint32_t, uint8_t), bool on) {
    if (!on) {
        state.cupti.disable(kind);
        return;
    }
    state.cupti.enable(kind);
    for (uint32_t callback = 1; choose && callback < CALL_MOST; callback++) {
        const char *name = NULL;
        if (state.cupti.callback_name(domain, callback, &name) != CUPTI_OK || !name) continue;
        if (!is_telling(name)) choose(callback, 0);
    }
}

static void switch_all_calls(bool on) {
    switch_calls(CUPTI_DOMAIN_DRIVER, CUPTI_KIND_DRIVER, state.cupti.enable_driver_call, on);
    switch_calls(CUPTI_DOMAIN_RUNTIME, CUPTI_KIND_RUNTIME, state.cupti.enable_runtime_call, on);
}

void activity_lock(void) {
    pthread_mutex_lock(&switch_lock);
}

void activity_unlock(void) {
    pthread_mutex_unlock(&switch_lock);
}

void activity_open(void) {
    if (!state.running || atomic_exchange(&state.enabled, true)) return;
    activity_lock();
    enable_kinds(kinds, sizeof kinds / sizeof *kinds);
    switch_all_calls(true);
    callbacks_switch(true);
    activity_unlock();
}

#define CUDA_ENDED 4 /* CUDA_ERROR_DEINITIALIZED */

/* What is under way would be lost: this one time the program waits for it. False where the driver has ended,
 * and CUPTI with it. */
static bool wait_for_device(void) {
    void *driver = library_open("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*synchronize)(void) = NULL;
    if (driver) *(void **)&synchronize = dlsym(driver, "cuCtxSynchronize");
    return !synchronize || synchronize() != CUDA_ENDED;
}

void activity_close(void) {
    if (!state.running || !atomic_exchange(&state.enabled, false)) return;
    if (!wait_for_device()) {
        state.running = false;
        return;
    }
    activity_lock();
    switch_all_calls(false);
    callbacks_switch(false);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        state.cupti.disable(kinds[i]);
    activity_unlock();
}

void activity_flush(bool all) {
    if (!state.running) return;
    activity_lock();
    state.cupti.flush(all ? CUPTI_FLUSH_FORCED : 0);
    activity_unlock();
}

void activity_forget(void) {
    pthread_mutex_init(&switch_lock, NULL);
    state.running = state.devices_known = false;
    atomic_store(&state.enabled, false);
}
