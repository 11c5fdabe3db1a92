/* A CUDA driver and an NVRTC without a GPU, as one shared object that tests load through HEADROOM_LIBCUDA and
 * HEADROOM_NVRTC: device memory is host memory, code is its own source, kernels are a function of the test's.
 *
 * The test finds this structure under the symbol `fake_cuda`: it says what the device is like and which call
 * fails, and counts what lives. */
#ifndef TEST_FAKE_FAKE_CUDA_H
#define TEST_FAKE_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_WORDS    512
#define FAKE_LAUNCHES 64
#define FAKE_CALLS    4096
#define FAKE_MAPS     8

/* What cuTensorMapEncodeTiled was told; it leaves this in the map. */
typedef struct fake_map {
    int type, rank, interleave, swizzle, promotion, fill;
    uint64_t address;
    uint32_t dims[5], box[5], steps[5];
    uint64_t strides[4];
} fake_map;

typedef struct fake_launch {
    char name[64];
    unsigned grid[3], block[3], shared;
    unsigned cluster; /* 0 = no attribute */
    int overlaps;
    void *stream;
    const char *function; /* where the name stands in its module's image */
    int64_t words[FAKE_WORDS];
    fake_map maps[FAKE_MAPS]; /* the first parameters, map_count of them */
} fake_launch;

typedef struct fake_cuda {
    /* what the test says */
    int device_count, compute, multiprocessors, version;
    int l2_bytes, shared_bytes;
    const char *fail_symbol; /* its `fail_at`th call from now (1 = the next) returns fail_result */
    int fail_at, fail_result;
    unsigned long long capture; /* the graph that every stream is captured into; 0: none */
    unsigned pinned;            /* what cuPointerGetAttributes says of the host's memory: 1 = pinned */
    int parameter_bytes;        /* of every function; 0: cuFuncGetParamInfo fails */
    float milliseconds;         /* between any two events */
    const char *nvrtc_log;      /* what a compile says; with nvrtc_result */
    const char *log_of;         /* of sources that have this text alone; NULL = of all */
    int nvrtc_version;          /* 12080: 12.8; 0 = 13.0 */
    int nvrtc_result;
    int copies_of_graphs; /* when they run, among what may run: 0 = as captured, 1 = first, 2 = last */
    int map_count;        /* of every function: parameters in front of its words */
    void (*kernel)(const char *name, void *words); /* NULL: kernels do nothing */
    /* NULL, or in place of the host's memory and of `kernel`: memory of the device, what is loaded, and its
     * launches, each with as many maps as its text declares. The last gives a result of the driver's. */
    void *(*allocate)(size_t size);
    void (*load)(const char *image);
    void (*unload)(const char *image);
    int (*launch)(const fake_launch *launch);

    /* what the test reads */
    int compiles, launch_count;
    fake_launch launches[FAKE_LAUNCHES]; /* the first ones since launch_count was set to 0 */
    int allocations, host_allocations, modules, streams, events, graphs, contexts, pushed;
    char calls[FAKE_CALLS]; /* the last names, newest last, a space after each */
} fake_cuda_t;

#endif
