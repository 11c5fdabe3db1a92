/* The emulated device's memory: what may be touched, what was, and by whom.
 *
 * In: every access of the compiled source, through the hooks that its compiler puts in front of loads and
 * stores
 * (-fsanitize=thread; the hooks are this file's, not the sanitizer's). Out: nothing, or the end of the
 * launch.
 */
#include "support/cuda_emulation_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STORED = 16 };
enum { RED_ZONE = 512, POISON = 0xff };

/* Numbers of cells: 1 + block * BLOCK_THREADS + thread, or a group that holds it. */
#define GROUP_WARP   0x80000000u
#define GROUP_BLOCK  0x40000000u
#define GROUP_LAUNCH (GROUP_WARP | GROUP_BLOCK)

/* ---- regions ---- */

static void *reserve(size_t size) {
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? NULL : data;
}

hr_status region_create(region *region, size_t size, bool asynchronous) {
    *region = (struct region){.size = size};
    region->base = reserve(size);
    region->state = reserve(size);
    region->cells = reserve(size * sizeof(cell));
    if (asynchronous) region->async_cells = reserve(size * sizeof(async_cell));
    if (region->base && region->state && region->cells && (!asynchronous || region->async_cells))
        return HR_OK;
    region_destroy(region);
    return hr_fail(HR_OUT_OF_MEMORY, "no address space for the emulated device's memory");
}

void region_destroy(region *region) {
    if (region->base) munmap(region->base, region->size);
    if (region->state) munmap(region->state, region->size);
    if (region->cells) munmap(region->cells, region->size * sizeof(cell));
    if (region->async_cells) munmap(region->async_cells, region->size * sizeof(async_cell));
    *region = (struct region){0};
}

/* Pages that are given up read as zero again. */
void region_clear(region *region) {
    madvise(region->base, region->size, MADV_DONTNEED);
    madvise(region->state, region->size, MADV_DONTNEED);
    madvise(region->cells, region->size * sizeof(cell), MADV_DONTNEED);
    region->used = 0;
}

/* ---- arrays ---- */

void *cuda_emulation_array(cuda_emulation *emulation, const char *name, size_t bytes, size_t offset,
                           unsigned access) {
    region *global = &emulation->global;
    size_t start = (global->used + RED_ZONE + 255) / 256 * 256 + offset;
    if (bytes > global->size || start + bytes + RED_ZONE > global->size ||
        emulation->array_count == ARRAYS_MAX)
        return NULL;
    global->used = start + bytes;
    char *data = global->base + start;
    memset(data, POISON, bytes);
    emulation->arrays[emulation->array_count++] = (named_array){name, data, bytes};
    cuda_emulation_allow(emulation, data, bytes, access);
    return data;
}

void cuda_emulation_allow(cuda_emulation *emulation, void *data, size_t bytes, unsigned access) {
    memset(emulation->global.state + ((char *)data - emulation->global.base), (int)access, bytes);
}

bool cuda_emulation_written(const cuda_emulation *emulation, const void *data, size_t bytes) {
    const uint8_t *state = emulation->global.state + ((uintptr_t)data - (uintptr_t)emulation->global.base);
    for (size_t i = 0; i < bytes; i++)
        if (!(state[i] & STORED)) return false;
    return true;
}

void cuda_emulation_traffic(const cuda_emulation *emulation, int64_t *read, int64_t *written) {
    *read = emulation->bytes_read;
    *written = emulation->bytes_written;
}

const char *emulation_place(const void *address) {
    static char text[160];
    const cuda_emulation *emulation = emulation_now;
    const char *at = address;
    uintptr_t shared = (uintptr_t)at - (uintptr_t)emulation->shared.base;
    if (shared < emulation->shared.size) {
        snprintf(text, sizeof text, "shared memory of block %lld + %zu",
                 (long long)emulation->blocks[shared / SHARED_SPAN].index, shared % SHARED_SPAN);
        return text;
    }
    for (int i = 0; i < emulation->array_count; i++) {
        const named_array *array = &emulation->arrays[i];
        if (at + RED_ZONE < array->data || at >= array->data + array->bytes + RED_ZONE) continue;
        long long offset = at - array->data;
        snprintf(text, sizeof text, "%s %c %lld bytes, of %zu", array->name, offset < 0 ? '-' : '+',
                 offset < 0 ? -offset : offset, array->bytes);
        if (offset >= 0 && offset < (long long)array->bytes) return text;
    }
    if ((uintptr_t)at - (uintptr_t)emulation->global.base >= emulation->global.size)
        snprintf(text, sizeof text, "no array of the launch (%p)", address);
    return text;
}

void emulation_shared_begin(cuda_emulation *emulation, int block) {
    region *shared = &emulation->shared;
    size_t start = (size_t)block * SHARED_SPAN, dynamic = (size_t)emulation->launch->shared;
    memset(shared->base + start, POISON, dynamic);
    memset(shared->state + start, 0, SHARED_SPAN);
    memset(shared->state + start, CUDA_READ | CUDA_WRITE, dynamic);
    memset(shared->cells + start, 0, dynamic * sizeof(cell));
    if (emulation->blocks[block].reads_async)
        madvise(shared->async_cells + start, SHARED_SPAN * sizeof(async_cell), MADV_DONTNEED);
    start += SHARED_BYTES;
    memset(shared->base + start, POISON, emulation->object->shared_bytes);
    memset(shared->state + start, CUDA_READ | CUDA_WRITE, emulation->object->shared_bytes);
    memset(shared->cells + start, 0, emulation->object->shared_bytes * sizeof(cell));
}

/* ---- races ---- */

static uint32_t index_of(uint32_t number) {
    return (number & ~GROUP_LAUNCH) - 1;
}

/* Whether all threads of a group come before what this thread does now: those lanes of these warps of a
 * block, or of one warp. */
static bool is_group_ordered(const cuda_emulation *emulation, const fiber *self, uint32_t group,
                             const cell *cell) {
    uint32_t first = index_of(cell->reader), threads = (uint32_t)emulation->launch->threads;
    uint32_t block = first / BLOCK_THREADS * BLOCK_THREADS, warps = cell->reader_warps;
    if (group == GROUP_LAUNCH) return false;
    if (group == GROUP_WARP) warps = 1u << first % BLOCK_THREADS / WARP;
    for (uint32_t t = 0; t < threads; t++)
        if (warps >> t / WARP & 1 && cell->reader_lanes >> t % WARP & 1 &&
            !emulation_knows(emulation, self, 1 + block + t, cell->first_time))
            return false;
    return emulation_knows(emulation, self, cell->last_reader, cell->reader_time);
}

/* Whether what `number` did at `time` comes before what this thread does now, whatever the order of fibers.
 */
static bool is_writer_ordered(const cuda_emulation *emulation, const fiber *self, const cell *cell) {
    if (cell->writer == 0 || cell->writer_time < emulation->launch_time) return true;
    return emulation_knows(emulation, self, cell->writer, cell->writer_time);
}

static bool is_reader_ordered(const cuda_emulation *emulation, const fiber *self, const cell *cell) {
    if (cell->reader == 0 || cell->reader_time < emulation->launch_time) return true;
    uint32_t group = cell->reader & GROUP_LAUNCH;
    if (cell->reader >= AGENT_FIRST && group == 0)
        return emulation_knows(emulation, self, cell->reader, cell->reader_time);
    return group ? is_group_ordered(emulation, self, group, cell)
                 : emulation_knows(emulation, self, cell->reader, cell->reader_time);
}

static uint32_t group_of(uint32_t number, uint32_t self) {
    uint32_t other = index_of(number), own = index_of(self), group = number & GROUP_LAUNCH;
    if (group == 0 && other / WARP == own / WARP) return GROUP_WARP | self;
    if (group == GROUP_WARP && other / WARP == own / WARP) return GROUP_WARP | self;
    if (group != GROUP_LAUNCH && other / BLOCK_THREADS == own / BLOCK_THREADS) return GROUP_BLOCK | self;
    return GROUP_LAUNCH | self;
}

_Noreturn static void fail_race(const char *does, const char *did, uint32_t number, const void *address) {
    uint32_t other = index_of(number);
    char who[64] = "several threads";
    if (number >= AGENT_FIRST && !(number & GROUP_LAUNCH))
        snprintf(who, sizeof who, "a copy that a barrier counts");
    else if (!(number & GROUP_LAUNCH))
        snprintf(who, sizeof who, "block %u, thread %u", other / BLOCK_THREADS, other % BLOCK_THREADS);
    emulation_fail("%s %s, which %s %s with nothing in between", does, emulation_place(address), who, did);
}

static uint32_t warp_bit(uint32_t number) {
    return 1u << index_of(number) % BLOCK_THREADS / WARP;
}

static uint32_t lane_bit(uint32_t number) {
    return 1u << index_of(number) % WARP;
}

static void note_write(cell *cell, const char *at) {
    const cuda_emulation *emulation = emulation_now;
    const fiber *self = emulation->fiber;
    if (!is_writer_ordered(emulation, self, cell)) fail_race("writes", "wrote", cell->writer, at);
    if (!is_reader_ordered(emulation, self, cell)) fail_race("writes", "read", cell->reader, at);
    cell->writer = emulation->agent ? emulation->agent : self->number;
    cell->writer_time = emulation->now;
}

static void note_read(cell *cell, const char *at) {
    const cuda_emulation *emulation = emulation_now;
    const fiber *self = emulation->fiber;
    if (!is_writer_ordered(emulation, self, cell)) fail_race("reads", "wrote", cell->writer, at);
    if (is_reader_ordered(emulation, self, cell)) {
        cell->reader = self->number;
        cell->first_time = emulation->now;
        cell->reader_warps = warp_bit(self->number);
        cell->reader_lanes = lane_bit(self->number);
    } else {
        cell->reader = group_of(cell->reader, self->number);
        cell->reader_warps |= warp_bit(self->number);
        cell->reader_lanes |= lane_bit(self->number);
    }
    cell->last_reader = self->number;
    cell->reader_time = emulation->now;
}

/* ---- rights ---- */

static void check_rights(const uint8_t *state, const char *at, size_t bytes, bool write, bool atomic) {
    for (size_t i = 0; i < bytes; i++) {
        if (!(state[i] & (write ? CUDA_WRITE : CUDA_READ)))
            emulation_fail("%s %zu bytes at %s: out of range%s", write ? "writes" : "reads", bytes,
                           emulation_place(at + i), state[i] ? ", or not for this" : "");
        if ((!write || atomic) && !(state[i] & CUDA_FILLED))
            emulation_fail("reads %s, which nobody wrote", emulation_place(at + i));
        if (write && !atomic && (state[i] & CUDA_ONCE) && (state[i] & STORED))
            emulation_fail("writes %s a second time", emulation_place(at + i));
    }
}

/* ---- readers that are no threads ---- */

static uint32_t agent_of(const cuda_emulation *emulation, size_t offset, int agent) {
    return emulation_agent(emulation, (int)(offset / SHARED_SPAN), agent);
}

/* A write waits for the tensor cores and the copy engine to have read. */
static void check_async_readers(const cuda_emulation *emulation, size_t offset, const char *at) {
    const async_cell *cell = &emulation->shared.async_cells[offset];
    if (!emulation->blocks[offset / SHARED_SPAN].reads_async) return;
    for (int g = 0; g < GROUPS_MAX; g++)
        if (cell->groups[g] &&
            !emulation_knows(emulation, emulation->fiber, agent_of(emulation, offset, g), cell->groups[g]))
            emulation_fail("writes %s, which the tensor cores may still read for warpgroup %d",
                           emulation_place(at), g);
    if (cell->store && !emulation_knows(emulation, emulation->fiber, cell->storer, cell->store))
        emulation_fail("writes %s, which a bulk store may still read", emulation_place(at));
}

static void note_async_read(cuda_emulation *emulation, size_t offset, uint32_t agent, const char *at) {
    const cell *cell = &emulation->shared.cells[offset];
    async_cell *async = &emulation->shared.async_cells[offset];
    int number = (int)(agent - agent_of(emulation, offset, 0));
    if (!is_writer_ordered(emulation, emulation->fiber, cell)) fail_race("reads", "wrote", cell->writer, at);
    if (cell->writer && cell->writer < AGENT_FIRST && cell->writer_time >= emulation->launch_time &&
        !emulation_knows_fence(emulation, emulation->fiber, cell->writer, cell->writer_time))
        emulation_fail("lets the tensor cores or the copy engine read %s, which thread %u wrote without "
                       "fence.proxy.async in between",
                       emulation_place(at), index_of(cell->writer) % BLOCK_THREADS);
    if (number < GROUPS_MAX) {
        async->groups[number] = emulation->now;
    } else {
        async->store = emulation->now;
        async->storer = agent;
    }
}

void emulation_check_agent(uint32_t agent, const void *address, size_t bytes, bool write) {
    cuda_emulation *emulation = emulation_now;
    uintptr_t at = (uintptr_t)address, offset = at - (uintptr_t)emulation->shared.base;
    uintptr_t statics = at - (uintptr_t)emulation->object->shared;
    if (statics < emulation->object->shared_bytes)
        offset = (size_t)emulation->active * SHARED_SPAN + SHARED_BYTES + statics;
    if (write) {
        emulation->agent = agent;
        emulation_check(address, bytes, true, false, false);
        emulation->agent = 0;
        return;
    }
    if (offset + bytes > emulation->shared.size)
        emulation_fail("lets the tensor cores or the copy engine read %s", emulation_place(address));
    emulation->blocks[offset / SHARED_SPAN].reads_async = true;
    check_rights(emulation->shared.state + offset, address, bytes, false, false);
    for (size_t i = 0; i < bytes; i++)
        note_async_read(emulation, offset + i, agent, (const char *)address + i);
}

/* ---- one access ---- */

static bool is_plain_input(const uint8_t *state, size_t bytes) {
    uint64_t all = 0x0505050505050505u, part = 0;
    if (bytes == 16 && (memcpy(&part, state + 8, 8), part != all)) return false;
    if (bytes >= 8) return memcpy(&part, state, 8), part == all;
    for (size_t i = 0; i < bytes; i++)
        if (state[i] != 5) return false;
    return true;
}

static void check_region(region *region, size_t offset, size_t bytes, bool write, bool atomic) {
    uint8_t *state = region->state + offset;
    const char *at = region->base + offset;
    if (offset + bytes > region->size)
        emulation_fail("%zu bytes at %p: out of range", bytes, (const void *)at);
    if (!write && bytes <= 16 && is_plain_input(state, bytes)) return;
    check_rights(state, at, bytes, write, atomic);
    for (size_t i = 0; i < bytes; i++) {
        cell *cell = &region->cells[offset + i];
        if (state[i] & CUDA_ANY) continue;
        if (write && region->async_cells) check_async_readers(emulation_now, offset + i, at + i);
        if (atomic) {
            if (!is_writer_ordered(emulation_now, emulation_now->fiber, cell))
                fail_race("adds to", "wrote", cell->writer, at + i);
        } else if (write) {
            note_write(cell, at + i);
            state[i] |= STORED | CUDA_FILLED;
        } else {
            note_read(cell, at + i);
        }
    }
}

static void check_shared(size_t offset, size_t bytes, bool write, bool atomic) {
    cuda_emulation *emulation = emulation_now;
    const emulated_block *owner = &emulation->blocks[offset / SHARED_SPAN];
    const char *at = emulation->shared.base + offset;
    if ((int)(offset / SHARED_SPAN) >= emulation->cluster)
        emulation_fail("shared memory of no block of the cluster: %p", (const void *)at);
    if (owner->done && (int)(offset / SHARED_SPAN) != emulation->fiber->block)
        emulation_fail("%s %s, a block with threads that have ended", write ? "writes" : "reads",
                       emulation_place(at));
    if ((int)(offset / SHARED_SPAN) != emulation->fiber->block &&
        emulation->cluster_time == emulation->launch_time)
        emulation_fail("%s %s before a barrier of the cluster: that block may not have started",
                       write ? "writes" : "reads", emulation_place(at));
    check_region(&emulation->shared, offset, bytes, write, atomic);
}

/* Local variables and the object's own data. */
static void check_elsewhere(const char *at) {
    const cuda_emulation *emulation = emulation_now;
    const char *stack = emulation->stacks + (emulation->fiber - emulation->fibers) * STACK_BYTES;
    if (at >= stack && at < stack + STACK_BYTES) return;
    if (at >= emulation->object->low && at < emulation->object->high) return;
    emulation_fail("touches %s", emulation_place(at));
}

void emulation_check(const void *address, size_t bytes, bool write, bool aligned, bool atomic) {
    cuda_emulation *emulation = emulation_now;
    if (!emulation || !emulation->fiber || bytes == 0) return;
    const cuda_object *object = emulation->object;
    uintptr_t at = (uintptr_t)address, global = at - (uintptr_t)emulation->global.base;
    uintptr_t shared = at - (uintptr_t)emulation->shared.base, statics = at - (uintptr_t)object->shared;
    if (statics < object->shared_bytes)
        shared = (size_t)emulation->active * SHARED_SPAN + SHARED_BYTES + statics;
    bool ours = global < emulation->global.size || shared < emulation->shared.size;
    if (!ours) {
        check_elsewhere(address);
        return;
    }
    if (aligned && at % bytes)
        emulation_fail("%s %zu bytes at %s: misaligned", write ? "writes" : "reads", bytes,
                       emulation_place(address));
    if (shared < emulation->shared.size) {
        check_shared(shared, bytes, write, atomic);
        return;
    }
    *(write ? &emulation->bytes_written : &emulation->bytes_read) += (int64_t)bytes;
    check_region(&emulation->global, global, bytes, write, atomic);
}

/* ---- hooks ---- */

#define HOOK __attribute__((visibility("default")))
#define HOOKS(size)                                                                                          \
    HOOK void __tsan_read##size(const void *at);                                                             \
    HOOK void __tsan_write##size(const void *at);                                                            \
    HOOK void __tsan_unaligned_read##size(const void *at);                                                   \
    HOOK void __tsan_unaligned_write##size(const void *at);                                                  \
    HOOK void __tsan_volatile_read##size(const void *at);                                                    \
    HOOK void __tsan_volatile_write##size(const void *at);                                                   \
    void __tsan_read##size(const void *at) {                                                                 \
        emulation_check(at, size, false, true, false);                                                       \
    }                                                                                                        \
    void __tsan_write##size(const void *at) {                                                                \
        emulation_check(at, size, true, true, false);                                                        \
    }                                                                                                        \
    void __tsan_unaligned_read##size(const void *at) {                                                       \
        emulation_check(at, size, false, true, false);                                                       \
    }                                                                                                        \
    void __tsan_unaligned_write##size(const void *at) {                                                      \
        emulation_check(at, size, true, true, false);                                                        \
    }                                                                                                        \
    void __tsan_volatile_read##size(const void *at) {                                                        \
        emulation_check(at, size, false, true, false);                                                       \
    }                                                                                                        \
    void __tsan_volatile_write##size(const void *at) {                                                       \
        emulation_check(at, size, true, true, false);                                                        \
    }

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

HOOK void __tsan_init(void);
HOOK void __tsan_func_entry(void *caller);
HOOK void __tsan_func_exit(void);
HOOK void __tsan_read_range(const void *at, size_t bytes);
HOOK void __tsan_write_range(const void *at, size_t bytes);

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) {
    (void)caller;
}
void __tsan_func_exit(void) {}
void __tsan_read_range(const void *at, size_t bytes) {
    emulation_check(at, bytes, false, false, false);
}
void __tsan_write_range(const void *at, size_t bytes) {
    emulation_check(at, bytes, true, false, false);
}
