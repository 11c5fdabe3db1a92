/* The CPU as a device: memory, compile and load, launch, time, roof.
 *
 * In: generated C and arguments. Out: results and times. The threads are a team's
 * (team.h), or the caller's.
 */
#include "device/device_cpu.h"
#include "device/team.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOF_BATCHES 12
#define ROOF_SECONDS 15.0
#define PAGE         4096
#define HUGE_PAGE    ((size_t)2 << 20)
#define WALK_LEAST   ((size_t)32 << 20)

static size_t round_up(size_t size, size_t unit) {
    return (size + unit - 1) / unit * unit;
}

/* ---- memory ---- */

static size_t mapped_size(size_t size) {
    return round_up(size ? size : 1, size >= HUGE_PAGE ? HUGE_PAGE : PAGE);
}

/* Whole huge pages at a huge page's boundary, so that the kernel can use them from the first touch on. */
static hr_status cpu_allocate(struct hr_device *device, size_t size, void **out) {
    (void)device;
    if (size > SIZE_MAX - 2 * HUGE_PAGE || (int64_t)(size >> 1) > hr_machine_memory() / 2)
        return hr_fail(HR_OUT_OF_MEMORY,
                       "%.1f MB of memory are asked for and %.1f MB are free: use smaller extents",
                       (double)size * 1e-6, (double)hr_machine_memory() * 1e-6);
    size_t need = mapped_size(size), slack = need >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *base = mmap(NULL, need + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return hr_fail(HR_OUT_OF_MEMORY, "cannot have %.1f MB of memory: %s", (double)size * 1e-6,
                       strerror(errno));
    char *data = base;
    if (slack) {
        data = (char *)round_up((uintptr_t)base, slack);
        if (data > base) munmap(base, (size_t)(data - base));
        if (data < base + slack) munmap(data + need, (size_t)(base + slack - data));
        madvise(data, need, MADV_HUGEPAGE); /* a wish: without it the memory is as usable, only slower */
    }
    *out = data;
    return HR_OK;
}

static void cpu_release(struct hr_device *device, void *data, size_t size) {
    (void)device;
    if (data) munmap(data, mapped_size(size));
}

/* ---- launching ---- */

typedef struct launch_job {
    const hr_module *module;
    const hr_execution *execution;
    hr_fault *fault;
    hr_work_share *shares;
} launch_job;

static void launch_part(void *context, int64_t part, int64_t parts) {
    const launch_job *job = context;
    job->module->part(job->execution, job->fault, job->shares, part, parts);
}

void hr_device_cpu_parts(const struct hr_device *device, int64_t threads, hr_part_fn work, void *context) {
    const hr_team_host *before = hr_team_host_set(device->host.run ? &device->host : NULL);
    hr_team_run(threads, work, context);
    hr_team_host_set(before);
}

static bool cpu_fits(const hr_module *module, const hr_execution *execution) {
    hr_fault none = {0};
    return !module->part || module->part(execution, &none, NULL, 0, 0) == 0;
}

static int parts_call(const struct hr_device *device, const hr_module *module, const hr_execution *execution,
                      hr_fault *fault) {
    hr_work_share shares[module->shares * execution->threads + 1];
    if (!cpu_fits(module, execution)) return HR_FAULT_EXTENTS;
    memset(shares, 0, sizeof shares);
    hr_device_cpu_parts(device, execution->threads, launch_part,
                        &(launch_job){module, execution, fault, shares});
    return 0;
}

static int entry_call(const struct hr_device *device, const hr_module *module, const hr_execution *execution,
                      hr_fault *fault) {
    if (module->part) return parts_call(device, module, execution, fault);
    const hr_team_host *before = hr_team_host_set(device->host.run ? &device->host : NULL);
    const int result = module->entry(execution, fault);
    hr_team_host_set(before);
    return result;
}

static hr_status cpu_launch(struct hr_device *device, hr_module *module, const hr_execution *execution,
                            hr_fault *fault) {
    hr_fault first = {0};
    int result = entry_call(device, module, execution, &first);
    if (result < 0) first.access = HR_FAULT_EXTENTS;
    if (fault) *fault = first;
    if (result < 0) return hr_fail(HR_NOT_AVAILABLE, "the compiled kernel is not made for these extents");
    if (result) return hr_fail(HR_INTERNAL, "the compiled kernel returned %d, which it never should", result);
    if (first.access)
        return hr_fail(HR_OUT_OF_RANGE,
                       "a subscript that depends on data has the value %lld, outside its axis",
                       (long long)first.value);
    return HR_OK;
}

/* ---- timing ---- */

static hr_status walk_prepare(hr_device_cpu *cpu) {
    if (cpu->walk) return HR_OK;
    size_t size = (size_t)cpu->base.limits.l3_bytes * 2, most = (size_t)(hr_machine_memory() / 4);
    if (size < WALK_LEAST) size = WALK_LEAST;
    if (size > most) size = most;
    HR_TRY(cpu_allocate(&cpu->base, size, &cpu->walk));
    memset(cpu->walk, 1, size); /* untouched pages would all be the one page of zeros */
    cpu->walk_size = size;
    return HR_OK;
}

static hr_status cool(hr_device_cpu *cpu, const hr_execution *execution) {
    int threads = cpu->base.limits.threads;
    bool flushed = execution->bytes != NULL;
    for (int64_t i = 0; i < execution->count && flushed; i++)
        if (execution->pointers[i] && execution->bytes[i] > 0)
            flushed = hr_cold_flush(execution->pointers[i], (size_t)execution->bytes[i], threads);
    if (flushed) return HR_OK;
    HR_TRY(walk_prepare(cpu));
    hr_cold_walk(cpu->walk, cpu->walk_size, threads);
    return HR_OK;
}

static hr_status cpu_time(struct hr_device *device, hr_module *module, const hr_execution *execution,
                          double *seconds) {
    hr_fault fault = {0};
    HR_TRY(cool((hr_device_cpu *)device, execution));
    double start = hr_clock_seconds();
    int result = entry_call(device, module, execution, &fault);
    double end = hr_clock_seconds();
    if (result) return hr_fail(HR_INTERNAL, "the compiled kernel returned %d, which it never should", result);
    *seconds = end - start;
    return HR_OK;
}

/* ---- the table ---- */

static void cpu_destroy(struct hr_device *device) {
    hr_device_cpu *cpu = (hr_device_cpu *)device;
    hr_copy_cpu_destroy(device);
    hr_special_cpu_destroy(device);
    cpu_release(device, cpu->walk, cpu->walk_size);
    pthread_mutex_destroy(&cpu->finding);
    hr_handle_free(cpu);
}

static const hr_device_ops cpu_ops = {
    .kind = "cpu",
    .destroy = cpu_destroy,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .compile = hr_module_cpu_compile,
    .unload = hr_module_cpu_unload,
    .launch = cpu_launch,
    .fits = cpu_fits,
    .time = cpu_time,
    .measure_roof = hr_roof_cpu_measure,
    .time_copy = hr_copy_cpu_time,
    .choose_copy = hr_copy_cpu_choose,
    .special_rate = hr_special_cpu_rate,
    .replay = &hr_replay_cpu,
};

hr_status hr_device_cpu_open(struct hr_device **out) {
    hr_device_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return hr_fail(HR_OUT_OF_MEMORY, "out of memory while opening the cpu");
    cpu->base.handle.kind = HR_HANDLE_DEVICE;
    cpu->base.ops = &cpu_ops;
    cpu->compile_seconds = HR_COMPILER_SECONDS;
    cpu->roof_batches = ROOF_BATCHES;
    cpu->roof_seconds = ROOF_SECONDS;
    hr_machine_describe(cpu->base.name, sizeof cpu->base.name, &cpu->base.limits, cpu->machine);
    pthread_mutex_init(&cpu->finding, NULL); /* cannot fail without attributes */
    cpu->compiler_status = hr_compiler_find(&cpu->compiler);
    cpu->base.compiler = cpu->compiler.identity;
    *out = &cpu->base;
    return HR_OK;
}
