/* Barriers in shared memory, named barriers, and registers moved between warpgroups.
 *
 * In: the calls of emulated threads. Out: phases that end when all arrivals and bytes are there, and what
 * waiting threads know then; or the sentence that says what is missing.
 */
#undef _FORTIFY_SOURCE /* longjmp goes from stack to stack here */
#include "support/cuda_emulation_parts.h"

#include <stdlib.h>
#include <string.h>

#define EMULATED __attribute__((visibility("default")))

enum { RANK_SHIFT = 24, OFFSET_MASK = (1 << RANK_SHIFT) - 1, BARRIER_BYTES = 8, REGISTERS = 65536 };

/* ---- addresses: the block's rank and 1 above, the place in its shared memory below ---- */

EMULATED uint32_t emulated_shared_address(const void *place) {
    const cuda_emulation *emulation = emulation_now;
    uintptr_t dynamic = (uintptr_t)place - (uintptr_t)emulation->shared.base;
    uintptr_t statics = (uintptr_t)place - (uintptr_t)emulation->object->shared;
    uint32_t rank = (uint32_t)(emulation->fiber->block + 1) << RANK_SHIFT;
    if (statics < emulation->object->shared_bytes) return rank | (uint32_t)(SHARED_BYTES + statics);
    if (dynamic / SHARED_SPAN != (uintptr_t)emulation->fiber->block)
        emulation_fail("asks for the address of %p, which is not in this block's shared memory", place);
    return rank | (uint32_t)(dynamic % SHARED_SPAN);
}

EMULATED uint32_t emulated_cluster_address(uint32_t address, int rank) {
    if (rank < 0 || rank >= emulation_now->cluster)
        emulation_fail("maps an address to block %d of its cluster of %d", rank, emulation_now->cluster);
    return (uint32_t)(rank + 1) << RANK_SHIFT | (address & OFFSET_MASK);
}

static int block_of(uint32_t address) {
    int block = (int)(address >> RANK_SHIFT) - 1;
    if (block < 0 || block >= emulation_now->cluster || (address & OFFSET_MASK) >= SHARED_SPAN)
        emulation_fail("%#x is no address of shared memory", address);
    return block;
}

char *emulation_shared_pointer(uint32_t address) {
    const cuda_emulation *emulation = emulation_now;
    int block = block_of(address);
    size_t offset = address & OFFSET_MASK;
    if (offset >= SHARED_BYTES && block == emulation->active &&
        offset - SHARED_BYTES < emulation->object->shared_bytes)
        return emulation->object->shared + (offset - SHARED_BYTES);
    return emulation->shared.base + (size_t)block * SHARED_SPAN + offset;
}

EMULATED void *emulated_shared_pointer(uint32_t address) {
    return emulation_shared_pointer(address);
}

/* ---- phases ---- */

/* By its place in the block, whether that block's static variables are in place or not. */
static mbarrier *barrier_find(uint32_t address) {
    emulated_block *block = &emulation_now->blocks[block_of(address)];
    char *place = (char *)(uintptr_t)(address & OFFSET_MASK);
    for (int i = 0; i < block->mbarrier_count; i++)
        if (block->mbarriers[i].place == place) return &block->mbarriers[i];
    return NULL;
}

/* An access of the barrier's own: what began it must come before. */
static void barrier_touch(uint32_t address, bool begins) {
    if (address % BARRIER_BYTES) emulation_fail("has a barrier at %#x: misaligned", address);
    emulation_check(emulation_shared_pointer(address), BARRIER_BYTES, true, true, !begins);
}

mbarrier *emulation_mbarrier(uint32_t address) {
    mbarrier *barrier = barrier_find(address);
    if (!barrier)
        emulation_fail("uses a barrier at shared memory + %u that nobody began", address & OFFSET_MASK);
    barrier_touch(address, false);
    return barrier;
}

static bool has_ended(const mbarrier *barrier, int parity) {
    return (int)(barrier->phase & 1) != parity;
}

static uint32_t agent_of(const cuda_emulation *emulation, const mbarrier *barrier) {
    return emulation_agent(emulation, barrier->block, GROUPS_MAX + barrier->number);
}

static void phase_end(cuda_emulation *emulation, mbarrier *barrier) {
    if (barrier->pending > 0 || barrier->bytes != 0) return;
    barrier->phase++;
    barrier->pending = barrier->arrivals;
    barrier->told = barrier->gathered;
    barrier->gathered = emulation_knowledge(emulation, barrier->told);
    for (int b = 0; b < emulation->cluster; b++) {
        emulated_block *block = &emulation->blocks[b];
        for (int t = 0; t < block->threads; t++)
            if (block->fibers[t].state == FIBER_AT_PHASE && block->fibers[t].waiting == barrier &&
                has_ended(barrier, block->fibers[t].waiting_parity))
                block->fibers[t].state = FIBER_READY;
    }
}

/* The copies that are under way arrive. */
static void loads_do(cuda_emulation *emulation, mbarrier *barrier) {
    int count = barrier->load_count;
    int64_t bytes = 0;
    barrier->load_count = 0;
    for (int i = 0; i < count; i++) {
        barrier->loads[i].act(&barrier->loads[i]);
        bytes += (int64_t)barrier->loads[i].bytes;
    }
    if (count == 0) return;
    barrier->gathered->time[agent_of(emulation, barrier) - AGENT_FIRST] = ++emulation->now;
    barrier->bytes -= bytes;
    phase_end(emulation, barrier);
}

void emulation_mbarrier_load(cuda_emulation *emulation, mbarrier *barrier, const bulk_load *load,
                             int64_t bytes) {
    if (emulation->blocks[barrier->block].done == emulation->launch->threads)
        emulation_fail("copies into a block that has ended");
    if (barrier->maker->init_fence < barrier->init_time)
        emulation_fail("gives a barrier to the copy engine without fence.mbarrier_init after its beginning");
    if (barrier->load_count == barrier->load_room) {
        barrier->load_room = barrier->load_room ? 2 * barrier->load_room : 16;
        barrier->loads = realloc(barrier->loads, (size_t)barrier->load_room * sizeof *load);
        if (!barrier->loads) emulation_fail("no memory for copies");
    }
    bulk_load *kept = &barrier->loads[barrier->load_count++];
    *kept = *load;
    kept->bytes = (size_t)bytes;
    if (!emulation->late) loads_do(emulation, barrier);
}

void emulation_mbarrier_describe(const mbarrier *barrier, int parity, char *out, size_t size) {
    snprintf(out, size,
             "waits for parity %d of the barrier at shared memory + %zu, in its phase %u with %d arrivals "
             "and %lld bytes missing",
             parity, (size_t)(uintptr_t)barrier->place, barrier->phase, barrier->pending,
             (long long)barrier->bytes);
}

/* ---- the calls ---- */

EMULATED void emulated_mbarrier_init(uint32_t address, int arrivals) {
    cuda_emulation *emulation = emulation_now;
    emulated_block *block = &emulation->blocks[block_of(address)];
    mbarrier *barrier = barrier_find(address);
    if (block->fibers != emulation->blocks[emulation->fiber->block].fibers)
        emulation_fail("begins a barrier of another block");
    if (arrivals < 1 || arrivals >= 1 << 20) emulation_fail("begins a barrier of %d arrivals", arrivals);
    barrier_touch(address, true);
    if (!barrier) {
        if (block->mbarrier_count == MBARRIERS_MAX)
            emulation_fail("has more than %d barriers", MBARRIERS_MAX);
        barrier = &block->mbarriers[block->mbarrier_count];
        *barrier = (mbarrier){.loads = barrier->loads, .load_room = barrier->load_room};
        barrier->number = block->mbarrier_count++;
        barrier->place = (char *)(uintptr_t)(address & OFFSET_MASK);
        barrier->block = emulation->fiber->block;
    }
    barrier->arrivals = barrier->pending = arrivals;
    barrier->bytes = 0;
    barrier->phase = 0;
    barrier->maker = emulation->fiber;
    barrier->init_time = ++emulation->now;
    barrier->told = NULL;
    barrier->gathered = emulation_knowledge(emulation, NULL);
}

EMULATED void emulated_fence_mbarrier_init(void) {
    emulation_now->fiber->init_fence = ++emulation_now->now;
}

EMULATED void emulated_mbarrier_arrive(uint32_t address, int bytes) {
    cuda_emulation *emulation = emulation_now;
    mbarrier *barrier = emulation_mbarrier(address);
    if (barrier->block != emulation->fiber->block && bytes)
        emulation_fail("expects bytes at the barrier of another block");
    if (emulation->blocks[barrier->block].done == emulation->launch->threads)
        emulation_fail("arrives at a barrier of a block that has ended");
    if (--barrier->pending < 0)
        emulation_fail("arrives at a barrier that has all its %d arrivals", barrier->arrivals);
    barrier->bytes += bytes;
    emulation_release(emulation, emulation->fiber, barrier->gathered);
    phase_end(emulation, barrier);
}

EMULATED int emulated_mbarrier_wait(uint32_t address, int parity, int peeks) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    mbarrier *barrier = emulation_mbarrier(address);
    if (parity != 0 && parity != 1) emulation_fail("waits for parity %d", parity);
    if (!has_ended(barrier, parity)) {
        loads_do(emulation, barrier);
        if (!has_ended(barrier, parity)) {
            self->waiting = barrier;
            self->waiting_parity = parity;
            self->peeks = peeks;
            self->state = FIBER_AT_PHASE;
            emulation_leave(emulation);
        }
        if (!has_ended(barrier, parity)) return 0;
    }
    if (barrier->told) emulation_acquire(emulation, self, barrier->told);
    return 1;
}

bool emulation_mbarrier_flush(cuda_emulation *emulation) {
    bool any = false;
    for (int b = 0; b < emulation->cluster; b++)
        for (int t = 0; t < emulation->blocks[b].threads; t++) {
            const fiber *one = &emulation->blocks[b].fibers[t];
            if (one->state != FIBER_AT_PHASE || one->waiting->load_count == 0) continue;
            loads_do(emulation, one->waiting);
            any = true;
        }
    return any;
}

bool emulation_mbarrier_peek(cuda_emulation *emulation) {
    bool any = false;
    for (int b = 0; b < emulation->cluster; b++)
        for (int t = 0; t < emulation->blocks[b].threads; t++) {
            fiber *one = &emulation->blocks[b].fibers[t];
            if (one->state != FIBER_AT_PHASE || !one->peeks) continue;
            one->state = FIBER_READY;
            any = true;
        }
    return any;
}

/* ---- named barriers ---- */

EMULATED void emulated_named_barrier(int id, int threads, int waits) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    emulated_block *block = &emulation->blocks[self->block];
    if (id < 1 || id >= NAMED_BARRIERS) emulation_fail("barrier %d: those of a name are 1 to 15", id);
    if (threads % WARP || threads < WARP || threads > block->threads)
        emulation_fail("barrier %d of %d threads, in a block of %d", id, threads, block->threads);
    named_barrier *barrier = &block->named[id];
    if (barrier->arrived && barrier->expected != threads)
        emulation_fail("barrier %d of %d threads, of which others came for %d", id, threads,
                       barrier->expected);
    if (barrier->arrived++ == 0) barrier->gathered = emulation_knowledge(emulation, NULL);
    barrier->expected = threads;
    emulation_release(emulation, self, barrier->gathered);
    self->waiting_named = id;
    if (waits) self->state = FIBER_AT_NAMED;
    if (barrier->arrived < threads) {
        if (waits) emulation_leave(emulation);
        return;
    }
    barrier->arrived = 0;
    for (int t = 0; t < block->threads; t++) {
        fiber *one = &block->fibers[t];
        if (one->state != FIBER_AT_NAMED || one->waiting_named != id) continue;
        one->state = FIBER_READY;
        emulation_acquire(emulation, one, barrier->gathered);
    }
}

EMULATED void emulated_fence_proxy(void) {
    fiber *self = emulation_now->fiber;
    memmove(self->fences, self->fences + 1, (FENCES_KEPT - 1) * sizeof *self->fences);
    self->fences[FENCES_KEPT - 1] = ++emulation_now->now;
}

/* ---- registers ---- */

static int registers_at_launch(const emulated_block *block) {
    int registers = REGISTERS / block->threads / 8 * 8;
    return registers > 255 ? 255 : registers;
}

EMULATED void emulated_registers(int count, int gives) {
    fiber *self = emulation_now->fiber;
    int before = self->registers ? self->registers : registers_at_launch(&emulation_now->blocks[self->block]);
    if (count % 8 || count < 24 || count > 256 || (gives ? count > before : count < before))
        emulation_fail("%s registers from %d to %d", gives ? "gives up" : "takes", before, count);
    self->registers = count;
}

void emulation_block_end(cuda_emulation *emulation, emulated_block *block) {
    int64_t registers = 0, room = (int64_t)registers_at_launch(block) * block->threads;
    bool moved = false;
    emulation->fiber = NULL;
    for (int t = 0; t < block->threads; t++) {
        moved |= block->fibers[t].registers != 0;
        registers += block->fibers[t].registers ? block->fibers[t].registers : registers_at_launch(block);
    }
    if (moved && registers > room)
        emulation_fail("setmaxnreg asks for %lld registers of a block that has %lld", (long long)registers,
                       (long long)room);
    for (int i = 0; i < block->mbarrier_count; i++) {
        const mbarrier *barrier = &block->mbarriers[i];
        if (barrier->load_count || barrier->bytes)
            emulation_fail("block %lld ends while bytes are expected at the barrier at shared memory + %zu",
                           (long long)block->index, (size_t)(uintptr_t)barrier->place);
    }
    for (int id = 0; id < NAMED_BARRIERS; id++)
        if (block->named[id].arrived)
            emulation_fail("block %lld ends with %d threads counted at barrier %d", (long long)block->index,
                           block->named[id].arrived, id);
}
