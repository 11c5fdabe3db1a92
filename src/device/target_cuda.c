/* An architecture without a device: kernels are planned and emitted for it, on any machine.
 *
 * In: "sm_90a". Out: a device with that architecture's limits (of the product that its code is tuned for)
 * whose running parts are errors with a sentence.
 */
#include "device/compiler_cuda.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct target {
    const char *product;
    hr_device_limits limits;
} target;

#define MB ((int64_t)1 << 20)
static const target targets[] = {
    {"A100",
     {.threads = 108, .compute = 80, .l2_bytes = 40 * MB, .l1_bytes = 167936, .shared_bytes = 166912}},
    {"H200",
     {.threads = 132, .compute = 90, .l2_bytes = 60 * MB, .l1_bytes = 233472, .shared_bytes = 232448}},
    {"B200",
     {.threads = 148, .compute = 100, .l2_bytes = 126 * MB, .l1_bytes = 233472, .shared_bytes = 232448}},
};

static hr_status unfit(const struct hr_device *device, const char *what) {
    return hr_fail(HR_NOT_AVAILABLE,
                   "%s is a target to plan and emit for, and has %s only on a GPU: use --device cuda",
                   device->limits.isa, what);
}

static hr_status target_allocate(struct hr_device *device, size_t size, void **out) {
    (void)size;
    (void)out;
    return unfit(device, "memory");
}

static void target_release(struct hr_device *device, void *data, size_t size) {
    (void)device;
    (void)data;
    (void)size;
}

static hr_status target_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                hr_module **out) {
    (void)source;
    (void)length;
    (void)flags;
    (void)out;
    return unfit(device, "launches");
}

static void target_unload(struct hr_device *device, hr_module *module) {
    (void)device;
    (void)module;
}

static hr_status target_roof(struct hr_device *device, const hr_roof_sources *sources,
                             hr_progress_fn progress, void *context, hr_roof *out) {
    (void)sources;
    (void)progress;
    (void)context;
    (void)out;
    return unfit(device, "a roof");
}

static hr_status target_copy(struct hr_device *device, void *to, const void *from, size_t size) {
    (void)to;
    (void)from;
    (void)size;
    return unfit(device, "memory");
}

static void target_destroy(struct hr_device *device) {
    hr_handle_free(device);
}

/* Without a module nobody gets as far as launching or timing one. */
static const hr_device_ops target_ops = {
    .kind = "cuda",
    .destroy = target_destroy,
    .allocate = target_allocate,
    .release = target_release,
    .compile = target_compile,
    .unload = target_unload,
    .measure_roof = target_roof,
    .upload = target_copy,
    .download = target_copy,
};

/* The "a" may be left away. */
static bool is_named(const char *name, const char *arch) {
    size_t length = strlen(name);
    return strcmp(arch, name) == 0 ||
           (name[length - 1] == 'a' && strlen(arch) == length - 1 && memcmp(arch, name, length - 1) == 0);
}

hr_status hr_device_target_open(const char *arch, struct hr_device **out) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char name[16];
        hr_cuda_arch_name(targets[i].limits.compute, name, sizeof name);
        if (!is_named(name, arch)) continue;
        struct hr_device *device = calloc(1, sizeof *device);
        if (!device) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while opening a target");
        device->handle.kind = HR_HANDLE_DEVICE;
        device->ops = &target_ops;
        device->limits = targets[i].limits;
        device->limits.vector_bytes = 16;
        device->limits.cluster_blocks = hr_cuda_cluster_most(device->limits.compute);
        device->limits.tensor_maps = device->limits.compute >= 90;
        snprintf(device->limits.isa, sizeof device->limits.isa, "%s", name);
        snprintf(device->name, sizeof device->name, "%s (%s, not run)", targets[i].product, name);
        *out = device;
        return HR_OK;
    }
    return hr_fail(HR_BAD_INPUT, "'cuda:%.40s' is no target: use cuda:sm_80, cuda:sm_90a or cuda:sm_100a",
                   arch);
}
