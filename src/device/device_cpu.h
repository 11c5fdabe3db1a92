/* What the CPU device's files share: the device itself, its cached modules, its measuring. */
#ifndef HR_DEVICE_DEVICE_CPU_H
#define HR_DEVICE_DEVICE_CPU_H

#include "device/compiler.h"
#include "device/device.h"

#include <pthread.h>

typedef struct hr_device_cpu {
    struct hr_device base;
    hr_compiler compiler;
    hr_status compiler_status; /* of finding it; a device without a compiler still opens */
    pthread_mutex_t finding;   /* held while the two above are written: several threads compile at once */
    double compile_seconds;    /* longest time that one compile may take */
    char machine[40];          /* hash of the processor's model and features: part of a cache key */
    void *walk;                /* what is read to cool caches that cannot be flushed; NULL until needed */
    size_t walk_size;
    struct hr_copy_cpu *copy;       /* of time_copy; NULL until needed */
    bool copy_compared;             /* with all others, by choose_copy */
    struct hr_special_cpu *special; /* of special_rate; NULL until needed */
    int roof_batches;               /* how often the roof's probes have their turn */
    double roof_seconds; /* after which they have no further turn, and a disturbed one is not tried again */
    int64_t roof_stream_bytes; /* of each of three; 0 = by the caches' sizes */
} hr_device_cpu;

struct hr_module {
    void *handle;
    hr_part_entry_fn part; /* of an emitted kernel, */
    int64_t shares;        /* a thread */
    hr_entry_fn entry;     /* or of a program that measures */
};

/* Runs the parts of a job on the device's threads. */
void hr_device_cpu_parts(const struct hr_device *device, int64_t threads, hr_part_fn work, void *context);

/* replay_cpu.c */
extern const hr_replay_ops hr_replay_cpu;

/* machine.c: the processor's product name, sizes, features. */
/* What src/device/cores.def says of a core, of hr_core_fact; 0 where it has no row. */
unsigned hr_machine_core(const char *vendor, int family, int model);
void hr_machine_describe(char *name, size_t size, hr_device_limits *limits, char hash[33]);
/* Bytes that can be had now without swapping or meeting a container's limit; INT64_MAX where nobody tells. */
int64_t hr_machine_memory(void);

/* module_cpu.c */
hr_status hr_module_cpu_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                hr_module **out);
void hr_module_cpu_unload(struct hr_device *device, hr_module *module);

/* elf_object.c: whether the shared object `name` of a scratch folder has all that its headers name, and loads
 * in another process. */
hr_status hr_elf_object_check(const char *folder, const char *name);
/* The path of the loader of this program; NULL where it was linked with -static. */
const char *hr_elf_loader(void);

/* cold_cpu.c: puts these bytes out of every cache, with all threads. False where the processor has no
 * instruction for it. */
bool hr_cold_flush(const void *data, size_t size, int threads);
/* The same by reading so much else that nothing old stays. */
void hr_cold_walk(const void *buffer, size_t size, int threads);
/* Writes `each` bytes a thread into each buffer, thread by thread its own, so that they lie near it. */
void hr_touch_near(char *const *buffers, int count, int64_t each, int threads);

/* copy_cpu.c */
hr_status hr_copy_cpu_time(struct hr_device *device, const hr_roof *roof, const hr_execution *arrays,
                           double bytes, double *seconds);
hr_status hr_copy_cpu_choose(struct hr_device *device, const hr_execution *arrays, hr_roof *roof,
                             bool *chosen);
void hr_copy_cpu_destroy(struct hr_device *device);

/* Of the text of special functions (hr_device_ops.measure_roof): ways of a function, and what they write a
 * thread. */
enum { HR_SPECIAL_WAYS = 8, HR_SPECIAL_BYTES = 8192 };

/* special_cpu.c */
hr_status hr_special_cpu_rate(struct hr_device *device, const char *source, hr_special special, double *rate);
void hr_special_cpu_destroy(struct hr_device *device);

/* roof_cpu.c */
/* How much too low one of two rates must be: that of one thread, and that of all, which is no less and no
 * more than as many times as much. 0 where they agree, else the missing share. */
double hr_roof_shortfall(double alone, double together, int threads);
hr_status hr_roof_cpu_measure(struct hr_device *device, const hr_roof_sources *sources,
                              hr_progress_fn progress, void *context, hr_roof *out);

#endif
