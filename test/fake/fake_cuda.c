/* See fake_cuda.h. Entry points have the names and parameters of cuda.h and nvrtc.h. */
#include "fake_graph.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE      (1 << 20)
#define LARGE_COPY (64 << 20)

SHOWN fake_cuda_t fake_cuda = {.device_count = 1,
                               .compute = 90,
                               .multiprocessors = 132,
                               .version = 13000,
                               .l2_bytes = 1 << 20,
                               .shared_bytes = 232448,
                               .milliseconds = 2};

/* ---- calls ---- */

/* Candidates are compiled and loaded by several threads. */
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER;

void fake_live(int *count, int more) {
    __atomic_fetch_add(count, more, __ATOMIC_RELAXED);
}

static void write_call(const char *symbol) {
    size_t used = strlen(fake_cuda.calls), length = strlen(symbol) + 1;
    if (used + length + 1 > FAKE_CALLS) {
        memmove(fake_cuda.calls, fake_cuda.calls + used / 2, used - used / 2 + 1);
        used = strlen(fake_cuda.calls);
    }
    snprintf(fake_cuda.calls + used, FAKE_CALLS - used, "%s ", symbol);
}

int fake_called(const char *symbol) {
    int result = 0;
    pthread_mutex_lock(&calling);
    write_call(symbol);
    if (fake_cuda.fail_symbol && strcmp(fake_cuda.fail_symbol, symbol) == 0)
        result = --fake_cuda.fail_at == 0 ? fake_cuda.fail_result : 0;
    pthread_mutex_unlock(&calling);
    return result;
}

/* ---- the driver ---- */

/* What a process that lost its context cannot give back is no leak of ours: it stays in reach. */
static void *volatile kept[1 << 16];
static int kept_count;

static void *keep(void *data) {
    if (kept_count < (int)(sizeof kept / sizeof *kept)) kept[kept_count++] = data;
    return data;
}

typedef struct fake_module {
    char *image;
} fake_module;

static int context_a, context_b;
static _Thread_local void *current;

SHOWN int cuInit(unsigned flags) {
    (void)flags;
    CALLED("cuInit");
    return 0;
}

SHOWN int cuDriverGetVersion(int *version) {
    CALLED("cuDriverGetVersion");
    *version = fake_cuda.version;
    return 0;
}

SHOWN int cuGetErrorName(int result, const char **name) {
    *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                            : "CUDA_ERROR_FAKE";
    return 0;
}

SHOWN int cuGetErrorString(int result, const char **text) {
    (void)result;
    *text = "as the test wants it";
    return 0;
}

SHOWN int cuDeviceGetCount(int *count) {
    CALLED("cuDeviceGetCount");
    *count = fake_cuda.device_count;
    return 0;
}

SHOWN int cuDeviceGet(int *device, int ordinal) {
    CALLED("cuDeviceGet");
    *device = ordinal;
    return 0;
}

SHOWN int cuDeviceGetName(char *name, int length, int device) {
    CALLED("cuDeviceGetName");
    snprintf(name, (size_t)length, "Fake %d", device);
    return 0;
}

SHOWN int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    CALLED("cuDeviceGetAttribute");
    *value = attribute == 16   ? fake_cuda.multiprocessors
             : attribute == 38 ? fake_cuda.l2_bytes
             : attribute == 75 ? fake_cuda.compute / 10
             : attribute == 76 ? fake_cuda.compute % 10
             : attribute == 81 ? fake_cuda.shared_bytes + 1024
             : attribute == 97 ? fake_cuda.shared_bytes
                               : -1;
    return 0;
}

SHOWN int cuDevicePrimaryCtxRetain(void **context, int device) {
    CALLED("cuDevicePrimaryCtxRetain");
    *context = device ? &context_b : &context_a;
    fake_live(&fake_cuda.contexts, 1);
    return 0;
}

SHOWN int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    fake_live(&fake_cuda.contexts, -1);
    CALLED("cuDevicePrimaryCtxRelease_v2");
    return 0;
}

SHOWN int cuCtxGetCurrent(void **context) {
    CALLED("cuCtxGetCurrent");
    *context = current;
    return 0;
}

SHOWN int cuCtxPushCurrent_v2(void *context) {
    CALLED("cuCtxPushCurrent_v2");
    current = context;
    fake_live(&fake_cuda.pushed, 1);
    return 0;
}

SHOWN int cuCtxPopCurrent_v2(void **context) {
    CALLED("cuCtxPopCurrent_v2");
    *context = current;
    current = NULL;
    fake_live(&fake_cuda.pushed, -1);
    return 0;
}

/* Work without a context is a fault of ours. */
static int outside(void) {
    return current ? 0 : 201;
}

SHOWN int cuMemGetInfo_v2(size_t *available, size_t *total) {
    CALLED("cuMemGetInfo_v2");
    *available = 1000 << 20;
    *total = 2000 << 20;
    return outside();
}

/* Memory comes and goes during a capture only where the thread says that it knows what it does. */
static _Thread_local int capture_mode;

static int spoils_capture(void) {
    return fake_cuda.capture && capture_mode != 2 ? 900 : 0; /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */
}

SHOWN int cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = capture_mode;
    CALLED("cuThreadExchangeStreamCaptureMode");
    capture_mode = *mode;
    *mode = before;
    return 0;
}

static void *memory_take(size_t size, size_t alignment) {
    if (fake_cuda.allocate) return fake_cuda.allocate(size);
    return keep(aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
}

static void memory_give(void *data) {
    if (!fake_cuda.allocate) free(data);
}

SHOWN int cuMemAlloc_v2(unsigned long long *address, size_t size) {
    CALLED("cuMemAlloc_v2");
    if (outside() || spoils_capture()) return outside() ? outside() : spoils_capture();
    void *data = memory_take(size, 256);
    if (!data) return 2;
    if (!fake_cuda.allocate) memset(data, 0xcd, size < LARGE ? size : LARGE);
    *address = (unsigned long long)(uintptr_t)data;
    fake_live(&fake_cuda.allocations, 1);
    return 0;
}

SHOWN int cuMemFree_v2(unsigned long long address) {
    if (outside()) return outside();
    memory_give((void *)(uintptr_t)address);
    fake_live(&fake_cuda.allocations, -1);
    CALLED("cuMemFree_v2");
    return 0;
}

SHOWN int cuMemHostAlloc(void **data, size_t size, unsigned flags) {
    (void)flags;
    CALLED("cuMemHostAlloc");
    if (outside()) return outside();
    *data = memory_take(size, 4096);
    if (!*data) return 2;
    fake_live(&fake_cuda.host_allocations, 1);
    return 0;
}

SHOWN int cuMemFreeHost(void *data) {
    memory_give(data);
    fake_live(&fake_cuda.host_allocations, -1);
    CALLED("cuMemFreeHost");
    return 0;
}

/* Memory that is not the driver's has no type. */
SHOWN int cuPointerGetAttributes(unsigned count, int *attributes, void **values, unsigned long long pointer) {
    (void)pointer;
    CALLED("cuPointerGetAttributes");
    for (unsigned i = 0; i < count; i++)
        if (attributes[i] == 2) *(unsigned *)values[i] = fake_cuda.pinned;
    return outside();
}

SHOWN int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t size, void *stream) {
    (void)stream;
    CALLED("cuMemcpyHtoDAsync_v2");
    memcpy((void *)(uintptr_t)to, from, size < LARGE_COPY ? size : LARGE_COPY);
    return outside();
}

SHOWN int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t size, void *stream) {
    (void)stream;
    CALLED("cuMemcpyDtoHAsync_v2");
    memcpy(to, (void *)(uintptr_t)from, size < LARGE_COPY ? size : LARGE_COPY);
    return outside();
}

SHOWN int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size, void *stream) {
    (void)stream;
    CALLED("cuMemcpyDtoDAsync_v2");
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    return outside();
}

SHOWN int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size, void *stream) {
    CALLED("cuMemcpyAsync");
    if (outside()) return outside();
    if (!fake_capture_copy(to, from, size, stream))
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    return 0;
}

SHOWN int cuMemcpyPeerAsync(unsigned long long to, void *to_context, unsigned long long from,
                            void *from_context, size_t size, void *stream) {
    (void)to_context;
    (void)from_context;
    (void)stream;
    CALLED("cuMemcpyPeerAsync");
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    return outside();
}

SHOWN int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t size, void *stream) {
    (void)stream;
    CALLED("cuMemsetD8Async");
    memset((void *)(uintptr_t)to, value, size < LARGE ? size : LARGE); /* of more, nobody looks at all */
    return outside();
}

SHOWN int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    CALLED("cuStreamCreate");
    *stream = keep(malloc(1));
    fake_live(&fake_cuda.streams, 1);
    return outside();
}

SHOWN int cuStreamDestroy_v2(void *stream) {
    free(stream);
    fake_live(&fake_cuda.streams, -1);
    CALLED("cuStreamDestroy_v2");
    return 0;
}

SHOWN int cuStreamSynchronize(void *stream) {
    (void)stream;
    CALLED("cuStreamSynchronize");
    return outside();
}

SHOWN int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    CALLED("cuEventCreate");
    *event = keep(fake_event_make());
    fake_live(&fake_cuda.events, 1);
    return outside();
}

SHOWN int cuEventDestroy_v2(void *event) {
    free(event);
    fake_live(&fake_cuda.events, -1);
    CALLED("cuEventDestroy_v2");
    return 0;
}

SHOWN int cuEventRecord(void *event, void *stream) {
    CALLED("cuEventRecord");
    fake_capture_record(event, stream);
    return outside();
}

SHOWN int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)flags;
    CALLED("cuStreamWaitEvent");
    return outside() ? outside() : fake_capture_wait(stream, event);
}

SHOWN int cuEventSynchronize(void *event) {
    (void)event;
    CALLED("cuEventSynchronize");
    return 0;
}

SHOWN int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    (void)from;
    (void)to;
    CALLED("cuEventElapsedTime");
    *milliseconds = fake_cuda.milliseconds;
    return 0;
}

SHOWN int cuModuleLoadData(void **module, const void *image) {
    CALLED("cuModuleLoadData");
    if (outside()) return outside();
    if (memcmp(image, "FAKE", 4) != 0) return 200; /* CUDA_ERROR_INVALID_IMAGE */
    fake_module *made = keep(malloc(sizeof *made));
    made->image = keep(strdup(image));
    if (fake_cuda.load) fake_cuda.load(made->image);
    *module = made;
    fake_live(&fake_cuda.modules, 1);
    return 0;
}

SHOWN int cuModuleUnload(void *module) {
    if (fake_cuda.unload) fake_cuda.unload(((fake_module *)module)->image);
    free(((fake_module *)module)->image);
    free(module);
    fake_live(&fake_cuda.modules, -1);
    CALLED("cuModuleUnload");
    return 0;
}

/* Whether a function of the device is declared there, which may have the name of an entry. */
static int is_of_device(const char *image, const char *at) {
    static const char word[] = "__device__";
    const char *begin = at;
    while (begin > image && begin[-1] != '}' && begin[-1] != ';')
        begin--;
    const char *found = strstr(begin, word);
    return found && found < at;
}

/* Whether a name that stands here is that of a grid: a function of the device's is not one, nor its call. */
static int is_grid(const char *image, const char *at, size_t length) {
    static const char call[] = "return ";
    const size_t before = sizeof call - 1;
    if (is_of_device(image, at)) return 0;
    if (at >= image + before && strncmp(at - before, call, before) == 0) return 0;
    return at[length] == '(' || at[length] == ',';
}

/* A function is where its name stands in the source, before its parameters or in a macro that makes it. */
SHOWN int cuModuleGetFunction(void **function, void *module, const char *name) {
    CALLED("cuModuleGetFunction");
    char *image = ((fake_module *)module)->image, *at = image;
    do {
        at = strstr(at + 1, name);
    } while (at && !is_grid(image, at, strlen(name)));
    *function = at;
    return at ? 0 : 500;
}

SHOWN int cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)attribute;
    (void)function;
    CALLED("cuFuncGetAttribute");
    *value = 0;
    return 0;
}

SHOWN int cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)function;
    (void)attribute;
    (void)value;
    CALLED("cuFuncSetAttribute");
    return 0;
}

SHOWN int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *size) {
    (void)function;
    CALLED("cuFuncGetParamInfo");
    if (!fake_cuda.parameter_bytes || index != (size_t)fake_cuda.map_count) return 1;
    *offset = 0;
    *size = (size_t)fake_cuda.parameter_bytes;
    return 0;
}

_Static_assert(sizeof(fake_map) <= 128, "a map has no room for what it was made of");

SHOWN int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, unsigned long long address,
                                 const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                 const uint32_t *steps, int interleave, int swizzle, int promotion,
                                 int fill) {
    CALLED("cuTensorMapEncodeTiled");
    if ((uintptr_t)map % 64 || address % 16 || rank < 1 || rank > 5) return 1;
    fake_map made = {type, (int)rank, interleave, swizzle, promotion, fill, address, {0}, {0}, {0}, {0}};
    for (uint32_t axis = 0; axis < rank; axis++) {
        made.dims[axis] = (uint32_t)dims[axis];
        made.box[axis] = box[axis];
        made.steps[axis] = steps[axis];
        if (axis > 0) made.strides[axis - 1] = strides[axis - 1];
    }
    memcpy(map, &made, sizeof made);
    return 0;
}

static void name_copy(const char *function, char *name, size_t size) {
    size_t length = strspn(function, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    snprintf(name, size, "%.*s", (int)length, function);
}

/* Whether its parameters are maps, then words; kernels that measure have others. */
static bool has_words(const char *name) {
    bool measures = strncmp(name, "hr_", 3) == 0 || strncmp(name, "special_", 8) == 0 ||
                    strncmp(name, "product_", 8) == 0;
    bool helps = strncmp(name, "hr_fill", 7) == 0 || strncmp(name, "hr_compare", 10) == 0 ||
                 strcmp(name, "hr_digest") == 0;
    return !measures || helps;
}

/* Parameters in front of the words. */
static int maps_of(const char *function) {
    int count = 0;
    if (!fake_cuda.launch) return fake_cuda.map_count;
    for (const char *at = function; *at && *at != ')'; at++)
        count += *at == ',';
    return count;
}

void fake_launch_read(const fake_config *config, const void *function, void **parameters, size_t words,
                      fake_launch *out) {
    *out = (fake_launch){.shared = config->shared, .stream = config->stream, .function = function};
    name_copy(function, out->name, sizeof out->name);
    memcpy(out->grid, config->grid, sizeof out->grid);
    memcpy(out->block, config->block, sizeof out->block);
    for (unsigned i = 0; i < config->attribute_count; i++)
        if (config->attributes[i].id == 4)
            out->cluster = config->attributes[i].value.cluster[0];
        else if (config->attributes[i].id == 6)
            out->overlaps = config->attributes[i].value.overlaps;
    if (!has_words(out->name) || !parameters || !parameters[0]) return;
    const int maps = maps_of(function);
    for (int i = 0; i < maps; i++)
        memcpy(&out->maps[i], parameters[i], sizeof out->maps[i]);
    memcpy(out->words, parameters[maps], (fake_cuda.launch ? FAKE_WORDS : words) * 8);
}

int fake_launch_run(const fake_launch *launch, void *words) {
    if (fake_cuda.launch) return has_words(launch->name) ? fake_cuda.launch(launch) : 0;
    if (fake_cuda.launch_count < FAKE_LAUNCHES) fake_cuda.launches[fake_cuda.launch_count++] = *launch;
    if (words && has_words(launch->name) && fake_cuda.kernel) fake_cuda.kernel(launch->name, words);
    return 0;
}

SHOWN int cuLaunchKernelEx(const fake_config *config, void *function, void **parameters, void **extra) {
    fake_launch launch;
    (void)extra;
    CALLED("cuLaunchKernelEx");
    if (outside()) return outside();
    if (fake_capture_launch(config, function, parameters)) return 0;
    fake_launch_read(config, function, parameters, 64, &launch);
    return fake_launch_run(&launch, parameters ? parameters[fake_cuda.map_count] : NULL);
}

SHOWN int cuDeviceCanAccessPeer(int *possible, int device, int peer) {
    (void)device;
    (void)peer;
    CALLED("cuDeviceCanAccessPeer");
    *possible = 1;
    return 0;
}

SHOWN int cuCtxEnablePeerAccess(void *peer, unsigned flags) {
    (void)peer;
    (void)flags;
    CALLED("cuCtxEnablePeerAccess");
    return 0;
}

/* ---- NVRTC: a cubin is "FAKE", the architecture and the source; all of them are in its own cache, which
 * says nothing and which 12.9 is the first to have ---- */

typedef struct program {
    char *source, *cubin;
    size_t size;
    bool is_from_cache;
} program;

static int nvrtc_version(void) {
    return fake_cuda.nvrtc_version ? fake_cuda.nvrtc_version : 13000;
}

SHOWN int nvrtcVersion(int *major, int *minor) {
    *major = nvrtc_version() / 1000;
    *minor = nvrtc_version() % 1000 / 10;
    return 0;
}

SHOWN int nvrtcCreateProgram(program **out, const char *source, const char *name, int count,
                             const char *const *headers, const char *const *names) {
    (void)name;
    (void)count;
    (void)headers;
    (void)names;
    CALLED("nvrtcCreateProgram");
    *out = calloc(1, sizeof **out);
    (*out)->source = strdup(source);
    return 0;
}

SHOWN int nvrtcDestroyProgram(program **at) {
    free((*at)->source);
    free((*at)->cubin);
    free(*at);
    *at = NULL;
    return 0;
}

SHOWN int nvrtcCompileProgram(program *program, int count, const char *const *options) {
    __atomic_fetch_add(&fake_cuda.compiles, 1, __ATOMIC_RELAXED);
    CALLED("nvrtcCompileProgram");
    const bool has_cache = nvrtc_version() >= 12090;
    program->is_from_cache = has_cache;
    for (int i = 0; i < count; i++) {
        if (strcmp(options[i], "--no-cache") != 0) continue;
        if (!has_cache) return 5; /* an option that it does not know */
        program->is_from_cache = false;
    }
    size_t size = strlen(program->source) + 256;
    program->cubin = malloc(size);
    program->size =
        1 + (size_t)snprintf(program->cubin, size, "FAKE %s\n%s", count ? options[0] : "", program->source);
    return fake_cuda.nvrtc_result;
}

static const char *log_of(const program *program) {
    const char *of = fake_cuda.log_of;
    if (program->is_from_cache) return "";
    return fake_cuda.nvrtc_log && (!of || strstr(program->source, of)) ? fake_cuda.nvrtc_log : "";
}

SHOWN int nvrtcGetProgramLogSize(program *program, size_t *size) {
    *size = strlen(log_of(program)) + 1;
    return 0;
}

SHOWN int nvrtcGetProgramLog(program *program, char *log) {
    strcpy(log, log_of(program));
    return 0;
}

SHOWN int nvrtcGetCUBINSize(program *program, size_t *size) {
    CALLED("nvrtcGetCUBINSize");
    *size = program->size;
    return 0;
}

SHOWN int nvrtcGetCUBIN(program *program, char *cubin) {
    CALLED("nvrtcGetCUBIN");
    memcpy(cubin, program->cubin, program->size);
    return 0;
}

/* ---- for callers that do not read the structure ---- */

/* Of the last launch. */
SHOWN void *fake_stream(void) {
    return fake_cuda.launch_count ? fake_cuda.launches[fake_cuda.launch_count - 1].stream : NULL;
}
