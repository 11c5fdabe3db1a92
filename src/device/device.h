/* One table of functions a device: memory, compile and load, launch, roof.
 *
 * Nothing above this folder knows which device it talks to. In: generated source and arguments. Out: time and
 * results.
 */
#ifndef HR_DEVICE_DEVICE_H
#define HR_DEVICE_DEVICE_H

#include "base/handle.h"
#include "base/launch.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/text.h"
#include "device/load.h"
#include "device/replay.h"
#include "device/team.h"

#include <pthread.h>

/* What the emitted code of one kernel is called with, on every device: arrays in the order of the function's
 * parameters and results. Scalars are passed as f64. `strides` holds rank entries a tensor, tensor after
 * tensor. */
typedef struct hr_execution { /* emitted C knows the fields up to `tuning` by their places: new ones go to the
                              end */
    void *const *pointers;    /* one a parameter or result; NULL for a scalar */
    const double *scalars;    /* one a parameter or result; 0 for a tensor */
    const int64_t *extents;   /* one an extent name */
    const int64_t *strides;
    void *scratch;   /* at least the plan's scratch bytes, aligned to 64; for locals that exist in memory */
    int64_t threads; /* > 0 */
    const int64_t *tuning; /* numbers for a measuring kernel; emitted kernels take none */
    /* Not for emitted code: what `time` puts out of the caches. */
    int64_t count; /* of pointers */
    const int64_t
        *bytes; /* one a pointer: from its first to past its last byte, 0 for a scalar; NULL = not known */
    int64_t scratch_bytes; /* how much is at `scratch`; 0 = not known. A baseline copy takes less */
    /* Devices with grids only. */
    const hr_launch *launches;
    int64_t launch_count;
    const hr_tensor_set *aligned;       /* decides between a grid's two functions; NULL where none has two */
    int64_t extent_count, stride_count; /* how many words the tables above are */
    void *stream;                       /* NULL: the one that the device has at present */
} hr_execution;

/* How many pieces of a thread's share of a stage are taken (templates/cpu/shares.h). */
typedef struct hr_work_share {
    _Alignas(64) int64_t taken;
} hr_work_share;

/* What is looked up in a compiled CPU module. An emitted kernel's is one part of an execution: `parts`, at
 * most its threads, run at the same time, may wait for each other by hr_team_wait(), and leave it when they
 * are done. `shares`: hr_shares a thread, all 0. Returns 0, or before anything has happened
 * HR_FAULT_EXTENTS; with 0 parts it only says which. */
typedef int (*hr_part_entry_fn)(const hr_execution *execution, hr_fault *fault, hr_work_share *shares,
                                int64_t part, int64_t parts);
#define HR_PART_NAME   "hr_part"
#define HR_SHARES_NAME "hr_shares" /* an int64_t */

/* Of programs that measure, in place of these: all of an execution. Returns 0, or what it says itself. */
typedef int (*hr_entry_fn)(const hr_execution *execution, hr_fault *fault);
#define HR_ENTRY_NAME "hr_entry"

typedef struct hr_module hr_module; /* compiled and loaded code */

/* Text that a roof is measured with. */
typedef struct hr_roof_sources {
    const char *functions; /* exp and its kin */
    const char *products;  /* of tensor cores; NULL on a CPU */
} hr_roof_sources;

/* As the driver numbers them. */
typedef enum hr_memory_kind { HR_MEMORY_PAGEABLE, HR_MEMORY_PINNED, HR_MEMORY_DEVICE } hr_memory_kind;

struct hr_device;
typedef struct hr_device_ops {
    const char *kind;
    void (*destroy)(struct hr_device *device);
    hr_status (*allocate)(struct hr_device *device, size_t size,
                          void **out); /* 64-byte aligned, huge pages where they pay, untouched */
    void (*release)(struct hr_device *device, void *data, size_t size);
    /* Source -> loaded module, through the on-disk cache. `flags` (HR_COMPILE_*) is a choice of the plan's,
     * never text of the user's. HR_NOT_AVAILABLE where there is no compiler, or HR_COMPILE_STRICT refuses. */
    hr_status (*compile)(struct hr_device *device, const char *source, size_t length, unsigned flags,
                         hr_module **out);
    void (*unload)(struct hr_device *device, hr_module *module);
    /* Complete on return, HR_OUT_OF_RANGE where `fault` names an access, HR_NOT_AVAILABLE where it says
     * HR_FAULT_EXTENTS. `fault` NULL: a device that has
     * `synchronise` only queues the launch, and fails with HR_OUT_OF_RANGE where an earlier one of this
     * module left its axis. Nothing is allocated, waited for or searched on that way. */
    hr_status (*launch)(struct hr_device *device, hr_module *module, const hr_execution *execution,
                        hr_fault *fault);
    /* Whether the code may be launched at these extents; NULL: that is decided before it is asked to. */
    bool (*fits)(const hr_module *module, const hr_execution *execution);
    /* Seconds of one launch with caches cold: the operands are flushed from all of them first. */
    hr_status (*time)(struct hr_device *device, hr_module *module, const hr_execution *execution,
                      double *seconds);
    /* `sources` come from the layer that prints, so that rates are those of the code that is emitted (this
     * folder knows no printer); NULL: what they would measure stays 0. On a CPU the entry of `functions` runs
     * function tuning[0] / 8, an hr_special, in way tuning[0] % 8, over tuning[1] bytes of f32 from
     * pointers[1] to pointers[0], each of `threads` threads tuning[2] bytes after the one before, tuning[3]
     * times; it leaves the number of functions done as a double at `scratch`, or returns 1 where it has no
     * such way. On a GPU each is a kernel (roof_cuda_units.c). */
    hr_status (*measure_roof)(struct hr_device *device, const hr_roof_sources *sources,
                              hr_progress_fn progress, void *context, hr_roof *out);
    /* Seconds that a copy of `bytes` bytes, half of them read and half written, takes now: the copy that
     * reached `roof`, cold, from the arrays of `launch`, where they are long, to a buffer of the device's
     * own. 0 where other programs had the processors all the time. NULL: the device offers none. */
    hr_status (*time_copy)(struct hr_device *device, const hr_roof *roof, const hr_execution *execution,
                           double bytes, double *seconds);
    /* Compares all copies, in some tenths of a second and once a device: the one that `roof` names may have
     * been the fastest in a busy moment alone. Where another is clearly faster now, `roof` names that and
     * `chosen` is true. Memory as for time_copy. NULL: there is only one. */
    hr_status (*choose_copy)(struct hr_device *device, const hr_execution *execution, hr_roof *roof,
                             bool *chosen);
    /* Functions of this kind a second, of all threads, now: what measure_roof measures of the same `source`,
     * within some milliseconds after the first call. NULL: the device's units are its own. */
    hr_status (*special_rate)(struct hr_device *device, const char *source, hr_special special, double *rate);

    /* ---- devices with memory of their own; NULL where the host uses the device's memory in place ---- */

    /* After all that was launched before; complete on return. */
    hr_status (*upload)(struct hr_device *device, void *to, const void *from, size_t size);
    /* The same from pinned memory, which stays as it is until the device has been waited for; NULL: upload.
     */
    hr_status (*upload_queued)(struct hr_device *device, void *to, const void *from, size_t size);
    hr_status (*download)(struct hr_device *device, void *to, const void *from, size_t size);
    /* Within the device's memory, and between it and pinned memory. */
    hr_status (*copy)(struct hr_device *device, void *to, const void *from, size_t size);
    /* Waits for all launches. */
    hr_status (*synchronise)(struct hr_device *device);

    /* ---- devices with grids ---- */

    /* Looks the entries up and makes them ready for these launches; hr_execution.launches are these, in this
     * order.
     */
    hr_status (*launches)(struct hr_device *device, hr_module *module, const hr_launch *launches, int count);
    /* What the launches of this module that have ended left in the fault word, which is 0 again. */
    void (*fault)(struct hr_device *device, hr_module *module, hr_fault *out);
    /* NULL: a stream of the device's own. */
    void (*stream)(struct hr_device *device, void *stream);
    /* Work that is done again and again; NULL: the device runs nothing. */
    const hr_replay_ops *replay;
    /* Memory of the host that the device copies to and from by itself, while it computes; NULL: any is. */
    hr_status (*allocate_pinned)(struct hr_device *device, size_t size, void **out);
    void (*release_pinned)(struct hr_device *device, void *data);
    hr_memory_kind (*memory_kind)(struct hr_device *device, const void *data);
    /* The graph that what is launched on the stream becomes part of; 0 = none: it runs. */
    uint64_t (*capture)(struct hr_device *device, void *stream);
} hr_device_ops;

struct hr_device {
    hr_handle handle;
    const hr_device_ops *ops;
    char name[128];
    hr_device_limits limits;
    struct hr_kernel *kernels; /* src/run: those whose launches nobody has waited for may be among these */
    pthread_mutex_t kernels_lock;
    hr_team_host host;   /* whose threads run its kernels; all zero: ours (a CPU) */
    hr_load_source load; /* all zero: this machine's own */
    hr_roof roof; /* what was measured last and not kept, since the machine was busy; threads = 0: none */
    const char *compiler; /* what it compiles with, exactly: a part of tuning keys; NULL where it has none */
};

#define HR_COMPILE_VECTOR_512 1u /* prefer 512-bit vectors where the machine has them */
/* A GPU: code is refused that spills registers, or whose tensor cores run one after the other. */
#define HR_COMPILE_STRICT 2u

/* device/device_cpu.c */
hr_status hr_device_cpu_open(struct hr_device **out);
/* device/device_cuda.c */
hr_status hr_device_cuda_open(int ordinal, struct hr_device **out);
/* device/target_cuda.c: "sm_90a" as something to plan and emit for; nothing runs on it. */
hr_status hr_device_target_open(const char *arch, struct hr_device **out);

/* Which copy reached the roof's rate, and on how many threads. */
void hr_roof_name_copy(hr_roof *roof, const char *way, int threads);

#endif
