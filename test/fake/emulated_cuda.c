/* The fake driver whose kernels run in the emulator, for programs that take it for a GPU: give it as
 * HEADROOM_LIBCUDA and HEADROOM_NVRTC. A rule that a kernel breaks (support/cuda_emulation.h) is told on
 * standard error, and the launch fails.
 *
 * HR_EMULATED_SEED: the order of threads. Memory is never given back: a program has 60 MB in all.
 */
#define _GNU_SOURCE
#include "fake/fake_cuda.h"

#include "support/cuda_emulation.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY = 60 << 20, ALIGNMENT = 256, MODULES_MOST = 256, ENTRIES_MOST = 64, NAME_MOST = 64 };

extern fake_cuda_t fake_cuda;

typedef struct loaded {
    const char *image; /* NULL: it was unloaded */
    size_t length;
    cuda_object *object; /* of the first launch; NULL before */
} loaded;

static cuda_emulation *emulation;
static char *memory;
static size_t used;
static loaded modules[MODULES_MOST];
static int module_count;

/* ---- memory and modules ---- */

static void *keep_large(size_t size) {
    static void *volatile kept[64];
    static int count;
    if (count == 64) return NULL;
    return kept[count++] = malloc(size);
}

/* What is large only kernels that measure touch, which do not run here: it is the host's. */
static void *allocate(size_t size) {
    if (size > MEMORY / 2) return keep_large(size);
    const size_t at = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!memory || size > MEMORY || at > MEMORY - size) return NULL;
    used = at + size;
    return memory + at;
}

static void load(const char *image) {
    if (module_count == MODULES_MOST) abort();
    modules[module_count++] = (loaded){image, strlen(image), NULL};
}

static void unload(const char *image) {
    for (int i = 0; i < module_count; i++)
        if (modules[i].image == image) {
            cuda_object_destroy(modules[i].object);
            modules[i] = (loaded){0};
        }
}

/* The names of an image's __global__ functions. */
static int entries_find(const char *source, char (*names)[NAME_MOST]) {
    int count = 0;
    for (const char *at = source; (at = strstr(at, "__global__ void")) && count < ENTRIES_MOST;) {
        at += strlen("__global__ void");
        while (*at == ' ' || *at == '\n')
            at++;
        if (strncmp(at, "__launch_bounds__(", 18) == 0) at = strchr(at, ')') + 1;
        while (*at == ' ' || *at == '\n')
            at++;
        const size_t length = strcspn(at, "( ");
        if (length < NAME_MOST && at[length] == '(')
            snprintf(names[count++], NAME_MOST, "%.*s", (int)length, at);
    }
    return count;
}

static hr_status object_get(const char *function, const cuda_object **out) {
    static char names[ENTRIES_MOST][NAME_MOST];
    const char *entries[ENTRIES_MOST];
    loaded *of = NULL;
    for (int i = 0; i < module_count; i++)
        if (modules[i].image && function >= modules[i].image &&
            function < modules[i].image + modules[i].length)
            of = &modules[i];
    if (!of) return hr_fail(HR_INTERNAL, "a function of no module");
    const char *source = strchr(of->image, '\n') + 1; /* behind FAKE and the architecture */
    const int count = entries_find(source, names);
    for (int i = 0; i < count; i++)
        entries[i] = names[i];
    if (!of->object) HR_TRY(cuda_object_compile(source, entries, count, &of->object));
    *out = of->object;
    return HR_OK;
}

/* ---- launches ---- */

/* A map of the driver's, back as what it was made of: its base is that of the first pointer plus an offset.
 */
static void map_restore(const fake_map *from, const int64_t *words, hr_tensor_map *out) {
    *out = (hr_tensor_map){.tensor = 0,
                           .offset = (int64_t)from->address - words[0],
                           .type = (hr_map_type)from->type,
                           .rank = from->rank,
                           .swizzle = (hr_map_swizzle)from->swizzle,
                           .promotion = (hr_map_promotion)from->promotion,
                           .fill = (hr_map_fill)from->fill};
    for (int axis = 0; axis < from->rank; axis++) {
        out->dims[axis] = from->dims[axis];
        out->box[axis] = (int)from->box[axis];
        out->strides[axis] = axis ? (int64_t)from->strides[axis - 1] : hr_map_type_bytes(out->type);
    }
}

static hr_status launch_emulated(const fake_launch *launch) {
    const char *function = launch->function;
    const cuda_object *object = NULL;
    const char *seed = getenv("HR_EMULATED_SEED"), *end = strchr(function, ')');
    hr_launch made = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                      .threads = (int)launch->block[0],
                      .cluster = launch->cluster ? (int)launch->cluster : 1,
                      .shared = launch->shared,
                      .overlaps = launch->overlaps};
    HR_TRY(object_get(function, &object));
    snprintf(made.entry, sizeof made.entry, "%s", launch->name);
    for (const char *at = function; at < end; at++)
        made.map_count += *at == ',';
    for (int i = 0; i < made.map_count; i++)
        map_restore(&launch->maps[i], launch->words, &made.maps[i]);
    return cuda_emulation_launch(emulation, object, &made, launch->words,
                                 seed ? strtoull(seed, NULL, 10) : 1);
}

static int launch(const fake_launch *launch) {
    if (launch_emulated(launch) == HR_OK) return 0;
    fprintf(stderr, "emulated: %s\n", hr_last_error());
    return 719; /* CUDA_ERROR_LAUNCH_FAILED */
}

/* What kernels call is found by their objects in the program's names. */
__attribute__((constructor)) static void begin(void) {
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)&fake_cuda, &self) ||
        !dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) ||
        cuda_emulation_create(&emulation) != HR_OK)
        return;
    memory = cuda_emulation_array(emulation, "memory of the device", MEMORY, 0,
                                  CUDA_READ | CUDA_WRITE | CUDA_FILLED);
    fake_cuda.allocate = allocate;
    fake_cuda.load = load;
    fake_cuda.unload = unload;
    fake_cuda.launch = launch;
}
