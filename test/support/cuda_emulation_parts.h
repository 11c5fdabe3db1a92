/* The emulator's parts: memory and its rules (cuda_emulation_memory.c), threads and what orders them
 * (cuda_emulation_threads.c), launches (cuda_emulation.c), objects (cuda_emulation_object.c). */
#ifndef HR_TEST_CUDA_EMULATION_PARTS_H
#define HR_TEST_CUDA_EMULATION_PARTS_H

#include "support/cuda_emulation.h"

#include <setjmp.h>
#include <ucontext.h>

enum {
    WARP = 32,
    BLOCK_THREADS = 1024,
    CLUSTER_BLOCKS = 16,
    CUDA_ENTRIES_MAX = 64, /* of one object */
    STACK_BYTES = 128 << 10,
    SHARED_BYTES = 232448, /* of a block */
    SHARED_SPAN = 256 << 10,
    STATIC_BYTES = SHARED_SPAN - SHARED_BYTES, /* where static ones lie while another block runs */
    GLOBAL_BYTES = 64 << 20,
    ARRAYS_MAX = 64,
    COPIES_MAX = 64 /* asynchronous copies that one thread has under way */
};

/* ---- memory ---- */

/* Who touched a byte last and when. A thread's number is unique in its launch; readers that are several are
 * known by the smallest of warp, block and launch that holds them all. */
typedef struct cell {
    uint32_t writer, writer_time, reader, reader_time;
} cell;

typedef struct region {
    char *base;
    size_t size, used;
    uint8_t *state; /* a byte for each byte: cuda_access and what happened to it */
    cell *cells;
} region;

typedef struct named_array {
    const char *name;
    char *data;
    size_t bytes;
} named_array;

/* A tensor map as a kernel has it. */
typedef struct emulated_map {
    _Alignas(64) const hr_tensor_map *map;
    char *base; /* of the tensor */
    char padding[HR_MAP_BYTES - 2 * sizeof(void *)];
} emulated_map;

/* ---- threads ---- */

typedef enum fiber_state {
    FIBER_READY,
    FIBER_AT_WARP,
    FIBER_AT_BARRIER,
    FIBER_AT_CLUSTER,
    FIBER_DONE
} fiber_state;

typedef enum warp_kind {
    WARP_SYNC,
    WARP_FROM, /* shuffles: the lane of `argument`, or at this distance */
    WARP_XOR,
    WARP_UP,
    WARP_DOWN,
    WARP_BALLOT,
    WARP_ADD, /* __reduce_*_sync */
    WARP_MIN,
    WARP_MAX
} warp_kind;

typedef struct warp_request {
    int kind, argument, width;
    uint32_t mask;
    uint64_t value, result;
} warp_request;

typedef struct pending_copy {
    void *to;
    const void *from;
    size_t bytes, filled; /* the rest up to `filled` is zeroed */
    int group;
} pending_copy;

typedef struct fiber {
    jmp_buf context;
    ucontext_t start;
    bool made;
    int state;
    int block, lane, index; /* block of the cluster; lane of the warp; threadIdx.x */
    uint32_t number;        /* unique in the launch */
    warp_request request;
    uint32_t warp_time;            /* of the last __syncwarp of the whole warp */
    uint32_t sync_mask, sync_time; /* and of some of its lanes */
    uint32_t cluster_phase;        /* that it arrived in */
    pending_copy copies[COPIES_MAX];
    int copy_count, copy_group;
} fiber;

/* What the block's barrier has seen: how many came, and what they brought for __syncthreads_or and its kin.
 */
typedef struct block_barrier {
    int arrived, sum, last_sum;
} block_barrier;

typedef struct emulated_block {
    int64_t index; /* in the grid, along x first */
    int threads, done;
    block_barrier barrier;
    uint32_t sync_time;
    fiber *fibers;
} emulated_block;

struct cuda_object {
    void *handle;
    char *shared; /* static shared variables */
    size_t shared_bytes;
    char *low, *high; /* where its own data lies */
    char names[CUDA_ENTRIES_MAX][64];
    void (*calls[CUDA_ENTRIES_MAX])(const void *const *parameters);
    int count;
};

struct cuda_emulation {
    region global, shared; /* shared: SHARED_SPAN for each block of a cluster */
    named_array arrays[ARRAYS_MAX];
    int array_count;
    int64_t bytes_read, bytes_written;

    fiber *fibers; /* CLUSTER_BLOCKS * BLOCK_THREADS */
    char *stacks;
    emulated_block blocks[CLUSTER_BLOCKS];
    int cluster;         /* blocks of it */
    int cluster_arrived; /* threads */
    uint32_t cluster_phase, cluster_time;
    uint32_t now, launch_time; /* counts what orders threads */
    uint32_t first_number;     /* of this cluster's threads */

    const cuda_object *object;
    const hr_launch *launch; /* that runs */
    emulated_map maps[HR_LAUNCH_MAPS_MAX];
    const void *parameters[HR_LAUNCH_MAPS_MAX + 1]; /* the maps, then the words */
    void (*call)(const void *const *parameters);
    uint64_t seed;
    bool late;    /* asynchronous copies happen when they are waited for */
    int active;   /* the block whose static shared variables are in place */
    fiber *fiber; /* that runs */
    jmp_buf scheduler, failure;
    char message[1024];
};

extern cuda_emulation *emulation_now;

/* Ends the launch: the sentence gets the kernel, block and thread in front. */
_Noreturn void emulation_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs the blocks of one cluster to their ends. */
void emulation_run_cluster(cuda_emulation *emulation, int64_t first_block);
/* The one that is number `i` of `count` in the order of a seed; seed 0: as they are. */
int64_t emulation_order(uint64_t seed, int64_t i, int64_t count);
void emulation_check(const void *address, size_t bytes, bool write, bool aligned, bool atomic);
/* "y + 12 bytes", for sentences. */
const char *emulation_place(const void *address);
hr_status region_create(region *region, size_t size);
void region_destroy(region *region);
void region_clear(region *region);
/* A block's memory before it starts: nobody wrote to it. */
void emulation_shared_begin(cuda_emulation *emulation, int block);

#endif
