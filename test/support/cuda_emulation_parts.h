/* The emulator's parts: memory and its rules (cuda_emulation_memory.c), threads and their barriers
 * (cuda_emulation_threads.c), what is known to have happened (cuda_emulation_order.c), barriers in shared
 * memory (cuda_emulation_mbarrier.c), the copy engine (cuda_emulation_copy.c), tensor cores
 * (cuda_emulation_tensor.c), launches (cuda_emulation.c), objects (cuda_emulation_object.c). */
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
    SHARED_SPAN = 320 << 10,
    STATIC_BYTES = SHARED_SPAN - SHARED_BYTES, /* where static ones lie while another block runs */
    GLOBAL_BYTES = 64 << 20,
    ARRAYS_MAX = 64,
    COPIES_MAX = 256, /* asynchronous copies that one thread has under way */
    WARPGROUP = 128,
    GROUPS_MAX = BLOCK_THREADS / WARPGROUP,
    MBARRIERS_MAX = 64, /* of a block */
    STORERS_MAX = 16,   /* threads of a block that store in bulk */
    NAMED_BARRIERS = 16,
    FENCES_KEPT = 8,
    STORES_MAX = 256,                                 /* bulk stores of one thread that are not waited for */
    AGENTS = GROUPS_MAX + MBARRIERS_MAX + STORERS_MAX /* of a block: those that are no thread, see below */
};

/* ---- memory ---- */

/* Who touched a byte last and when. A thread's number is unique in its launch; readers that are several are
 * known by the smallest of warp, block and launch that holds them all, the warps of a block one by one. */
typedef struct cell {
    uint32_t writer, writer_time, reader, reader_time;
    uint32_t last_reader, first_time, reader_warps, reader_lanes; /* of several */
} cell;

/* When the tensor cores for each warpgroup, and the copy engine for a thread, began to read a byte. */
typedef struct async_cell {
    uint32_t groups[GROUPS_MAX], store, storer;
} async_cell;

typedef struct region {
    char *base;
    size_t size, used;
    uint8_t *state; /* a byte for each byte: cuda_access and what happened to it */
    cell *cells;
    async_cell *async_cells; /* of shared memory; NULL of global memory */
} region;

typedef struct named_array {
    const char *name;
    char *data;
    size_t bytes;
} named_array;

/* ---- order ---- */

/* What works without being a thread has a number from here on: the tensor cores for a warpgroup, the copies
 * that a barrier counts, the stores of a thread. */
#define AGENT_FIRST 0x3fff0000u

/* What happened before, whatever the order of fibers: all that a thread of block b did before block_time[b],
 * and what each thread and then each agent of the cluster did before its time. Not changed once a fiber has
 * it. */
typedef struct knowledge {
    uint32_t block_time[CLUSTER_BLOCKS];
    uint32_t time[];
} knowledge;

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
    FIBER_AT_PHASE, /* of a barrier in shared memory */
    FIBER_AT_NAMED,
    FIBER_AT_GROUP, /* waits for its warp or warpgroup to do the same */
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

struct fiber;

/* What the lanes of a warp or the threads of a warpgroup do together. */
typedef void (*group_action)(struct cuda_emulation *emulation, struct fiber *first);
typedef struct group_request {
    group_action action;
    int size; /* threads */
    void *arguments;
} group_request;

/* Bytes that the copy engine takes out of shared memory. */
typedef struct bulk_store {
    void (*act)(const struct bulk_store *store);
    char *to;
    uint32_t from;
    size_t bytes;
    const hr_tensor_map *map;
    int at[HR_MAP_RANK_MAX];
    bool add;
    int group;
    uint32_t time;
    bool done, read;
} bulk_store;

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
    const knowledge *known;       /* NULL: only what the block's barriers tell */
    uint32_t fences[FENCES_KEPT]; /* when it ordered its writes before the copy engine's reads, newest last */
    uint32_t init_fence;          /* and its barriers' beginnings */
    struct mbarrier *waiting;     /* for the phase of that parity */
    int waiting_parity;
    bool peeks; /* goes on without it where nothing else can */
    int waiting_named;
    group_request group;
    bulk_store *stores;                   /* STORES_MAX; NULL while it has none */
    int store_count, store_group, storer; /* storer: of the block, from 1 on */
    int registers;                        /* that setmaxnreg left it; 0: as at the launch */
} fiber;

/* ---- barriers in shared memory ---- */

/* Bytes on their way into the shared memory of a barrier's block. */
typedef struct bulk_load {
    void (*act)(const struct bulk_load *load);
    uint32_t to;
    const char *from;
    size_t bytes;
    const hr_tensor_map *map;
    int at[HR_MAP_RANK_MAX];
    uint32_t word;
} bulk_load;

typedef struct mbarrier {
    char *place;
    int block, number; /* of the block */
    int arrivals, pending;
    int64_t bytes; /* that are still expected; below 0: that came before they were */
    uint32_t phase, init_time;
    const fiber *maker;
    knowledge *gathered;   /* of those that arrived in this phase and before */
    const knowledge *told; /* to those that wait: as the last phase ended */
    bulk_load *loads;
    int load_count, load_room;
} mbarrier;

/* Barrier `id` of a block. */
typedef struct named_barrier {
    int expected, arrived;
    knowledge *gathered;
} named_barrier;

/* What a warpgroup's products did. */
typedef struct product_group {
    int count;              /* products since the launch began */
    int open;               /* products not committed yet */
    uint32_t committed[64]; /* when each group of products was committed, the last ones */
    int commits;
    bool fenced;
    struct product *waiting; /* that are not done yet, first first */
} product_group;

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
    mbarrier mbarriers[MBARRIERS_MAX];
    int mbarrier_count, storer_count;
    named_barrier named[NAMED_BARRIERS];
    product_group products[GROUPS_MAX];
    bool reads_async;
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

    char *known; /* room for what fibers know, and how much of it is in use */
    size_t known_used;
    const knowledge *joined[3]; /* the last join: of the first two came the third */
    uint32_t agent;             /* that accesses are made by; 0: by the fiber */

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
/* An access that an agent makes for the fiber that runs: it comes after what the fiber knows. Reads are of
 * shared memory, and ask for a fence after ordinary writes. */
void emulation_check_agent(uint32_t agent, const void *address, size_t bytes, bool write);
/* "y + 12 bytes", for sentences. */
const char *emulation_place(const void *address);
/* `asynchronous`: the tensor cores and the copy engine read it, too. */
hr_status region_create(region *region, size_t size, bool asynchronous);
void region_destroy(region *region);
void region_clear(region *region);
/* A block's memory before it starts: nobody wrote to it. */
void emulation_shared_begin(cuda_emulation *emulation, int block);
/* Leaves the running fiber until something makes it ready again. */
void emulation_leave(cuda_emulation *emulation);
/* All `size` threads around this one come here with their own arguments; `action` runs once, of the last one.
 */
void emulation_together(int size, group_action action, void *arguments);

/* ---- cuda_emulation_order.c ---- */

/* Before a cluster runs: nobody knows anything. */
void emulation_order_begin(cuda_emulation *emulation);
/* Whether what a thread or agent did at `time` comes before what this fiber does now. */
bool emulation_knows(const cuda_emulation *emulation, const fiber *self, uint32_t number, uint32_t time);
/* Whether `writer` made what it wrote at `time` seen by the copy engine before this fiber got to know of it.
 */
bool emulation_knows_fence(const cuda_emulation *emulation, const fiber *self, uint32_t writer,
                           uint32_t time);
uint32_t emulation_agent(const cuda_emulation *emulation, int block, int agent);
/* A new one to add to; NULL `from`: it knows nothing. */
knowledge *emulation_knowledge(cuda_emulation *emulation, const knowledge *from);
/* What the fiber did until now and knows is added to `into`. */
void emulation_release(cuda_emulation *emulation, const fiber *self, knowledge *into);
void emulation_acquire(cuda_emulation *emulation, fiber *self, const knowledge *from);
/* All these fibers know what one of them knows: after a barrier of all of them. */
void emulation_share(cuda_emulation *emulation, fiber *first, int count, uint32_t mask);
/* The fiber knows what the agent did before `time`. */
void emulation_learn(cuda_emulation *emulation, fiber *self, uint32_t agent, uint32_t time);

/* ---- cuda_emulation_mbarrier.c ---- */

/* The barrier at an address of the cluster, for the fiber that runs; fails where nobody began one. */
mbarrier *emulation_mbarrier(uint32_t address);
char *emulation_shared_pointer(uint32_t address);
/* Makes the copies that the barrier waits for. */
void emulation_mbarrier_load(cuda_emulation *emulation, mbarrier *barrier, const bulk_load *load,
                             int64_t bytes);
void emulation_mbarrier_describe(const mbarrier *barrier, int parity, char *out, size_t size);
/* The copies that somebody waits for arrive; whether there were any. */
bool emulation_mbarrier_flush(cuda_emulation *emulation);
/* Those that peek go on where nothing else does; whether there were any. */
bool emulation_mbarrier_peek(cuda_emulation *emulation);
/* A block's end: nothing is on its way into it, its registers were shared out as the machine allows. */
void emulation_block_end(cuda_emulation *emulation, emulated_block *block);

/* ---- cuda_emulation_copy.c ---- */

void emulation_stores_end(cuda_emulation *emulation, fiber *self);

/* ---- cuda_emulation_tensor.c ---- */

void emulation_products_end(cuda_emulation *emulation, emulated_block *block);

#endif
