/* What the CUDA device's files share: the device itself, its modules, how kernels of its own are launched. */
#ifndef HR_DEVICE_DEVICE_CUDA_H
#define HR_DEVICE_DEVICE_CUDA_H

#include "device/compiler_cuda.h"
#include "device/device.h"
#include "device/driver_cuda.h"
#include "device/tensor_map_cuda.h"

#define HR_CUDA_FAULTS_A_PAGE 255
#define HR_CUDA_PIECES        32 /* that are timed while the device is held: fewer launches than its queue holds */

/* Fault words in host memory that the device can write: the host looks at them without waiting for it. */
typedef struct hr_cuda_faults {
    struct hr_cuda_faults *next;                       /* in the first slot's place */
    _Alignas(16) hr_fault list[HR_CUDA_FAULTS_A_PAGE]; /* emitted code stores both words at once */
} hr_cuda_faults;

typedef struct hr_device_cuda {
    struct hr_device base;
    hr_cuda_driver driver;
    hr_cuda_compiler compiler;
    char arch[16]; /* "sm_90a" */
    int ordinal;
    hr_cu_device handle;
    hr_cu_context context;           /* the primary one: what the CUDA runtime and PyTorch use, too */
    hr_cu_stream own_stream, stream; /* `stream`: where launches go, the own one unless the user gave his */
    pthread_mutex_t lock;            /* of the fault slots and of `support` */
    hr_cuda_faults *faults;
    hr_fault **free_faults;
    int free_fault_count, fault_count;
    hr_module *support; /* kernels of timing; NULL until needed */
    hr_cu_address cold; /* what is read to put all else out of the L2; 0 until needed */
    size_t cold_bytes;
    int *gate; /* in host memory: the spinning kernel ends when it is 1 */
    hr_cu_event begin, end;
    hr_cu_event pieces[HR_CUDA_PIECES + 1]; /* time_cuda.c: between pieces of work; NULL until needed */
    pthread_mutex_t stage_lock;             /* of the two below */
    char *stage;                            /* copy_cuda.c: two pieces of pinned memory; NULL until needed */
    hr_cu_event stage_events[2];
} hr_device_cuda;

typedef struct hr_cuda_function {
    hr_cu_function handle;
    size_t parameter_bytes; /* of its words; 0 = the driver cannot tell */
    int registers, local_bytes, shared_bytes;
    int map_count; /* parameters in front of the words */
    hr_cuda_map *maps;
} hr_cuda_function;

struct hr_module {
    hr_cu_module handle;
    hr_fault *fault;    /* of launches that have this module's code; access is 0 while none left its axis */
    int function_count; /* one a launch; as many for arrays that are not aligned follow, of which some are
                         * zeros
                         */
    hr_cuda_function *functions;
};

/* ---- the context ---- */

/* Makes the device's context the calling thread's; true where that has to be taken back. */
hr_status hr_cuda_enter(const hr_device_cuda *cuda, bool *pushed);
void hr_cuda_leave(const hr_device_cuda *cuda, bool pushed);

/* ---- copy_cuda.c: after all that was launched before; complete on return ---- */

hr_status hr_copy_cuda_upload(struct hr_device *device, void *to, const void *from, size_t size);
hr_status hr_copy_cuda_upload_queued(struct hr_device *device, void *to, const void *from, size_t size);
hr_status hr_copy_cuda_download(struct hr_device *device, void *to, const void *from, size_t size);
hr_status hr_copy_cuda_within(struct hr_device *device, void *to, const void *from, size_t size);
void hr_copy_cuda_free(hr_device_cuda *cuda);
hr_status hr_copy_cuda_allocate_pinned(struct hr_device *device, size_t size, void **out);
void hr_copy_cuda_release_pinned(struct hr_device *device, void *data);
hr_memory_kind hr_copy_cuda_memory_kind(struct hr_device *device, const void *data);

/* ---- module_cuda.c ---- */

hr_status hr_module_cuda_compile(struct hr_device *device, const char *source, size_t length, unsigned flags,
                                 hr_module **out);
void hr_module_cuda_unload(struct hr_device *device, hr_module *module);
hr_status hr_module_cuda_launches(struct hr_device *device, hr_module *module, const hr_launch *launches,
                                  int count);
/* Looks the function `name` up, reads its resources and makes it ready for that launch: its limit of dynamic
 * shared memory, its clusters, room for `map_count` of its maps. */
hr_status hr_module_cuda_function(const hr_device_cuda *cuda, const hr_module *module, const char *name,
                                  const hr_launch *launch, int map_count, hr_cuda_function *out);
void hr_module_cuda_faults_free(hr_device_cuda *cuda);

/* ---- launch_cuda.c ---- */

#define HR_CUDA_WORDS_MAX 512 /* 4096 bytes: what every architecture takes as parameters */

/* A grid as the driver takes it. Its parameters are the maps, then one block of words. */
typedef struct hr_cuda_grid {
    const char *entry;
    hr_cu_function function;
    unsigned grid[3], threads, shared_bytes, cluster;
    bool overlaps; /* starts while the grid before it ends */
    int map_count;
    const hr_cuda_map *maps;
    const int64_t *words;
    int64_t word_count;
} hr_cuda_grid;
typedef hr_status (*hr_cuda_grid_fn)(void *context, const hr_cuda_grid *grid);

/* Hands the grids of an execution to `each`, in their order, without those that are empty; what a grid points
 * to lasts as long as the call. */
hr_status hr_launch_cuda_each(const hr_device_cuda *cuda, const hr_module *module,
                              const hr_execution *execution, hr_cuda_grid_fn each, void *context);
hr_status hr_launch_cuda_grid(const hr_device_cuda *cuda, const hr_cuda_grid *grid, hr_cu_stream stream);
/* Room for map_count + 1 of them. */
void hr_launch_cuda_parameters(const hr_cuda_grid *grid, void **out);

hr_status hr_launch_cuda(struct hr_device *device, hr_module *module, const hr_execution *execution,
                         hr_fault *fault);
void hr_launch_cuda_fault(struct hr_device *device, hr_module *module, hr_fault *out);
/* Queues the grids, and no more: no look at the context, the fault or the stream's end. */
hr_status hr_launch_cuda_queue(const hr_device_cuda *cuda, const hr_module *module,
                               const hr_execution *execution);

/* ---- time_cuda.c ---- */

hr_status hr_time_cuda(struct hr_device *device, hr_module *module, const hr_execution *execution,
                       double *seconds);
/* Seconds on the device of what `queue` puts on the stream, caches cold where `cold`; the context is entered.
 */
typedef hr_status (*hr_cuda_queue_fn)(void *context);
hr_status hr_time_cuda_queue(hr_device_cuda *cuda, bool cold, hr_cuda_queue_fn queue, void *context,
                             double *seconds);
void hr_time_cuda_free(hr_device_cuda *cuda);

/* Seconds on the device of each of `count` pieces of work that `queue` puts on the stream, one after the
 * other; the context is entered. */
typedef hr_status (*hr_cuda_queue_piece_fn)(void *context, int i);
hr_status hr_time_cuda_pieces(hr_device_cuda *cuda, int count, hr_cuda_queue_piece_fn queue, void *context,
                              double *seconds);

/* ---- replay_cuda.c ---- */

extern const hr_replay_ops hr_replay_cuda_ops;

/* ---- roof_cuda.c ---- */

hr_status hr_roof_cuda_measure(struct hr_device *device, const hr_roof_sources *sources,
                               hr_progress_fn progress, void *context, hr_roof *out);

#endif
