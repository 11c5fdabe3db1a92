/* What each emulated thread knows to have happened.
 *
 * In: threads that release what they did and acquire what others released (barriers of all kinds). Out:
 * whether an access came before another whatever the order in which fibers ran. Times count what orders
 * threads.
 */
#include "support/cuda_emulation_parts.h"

#include <string.h>
#include <sys/mman.h>

#define KNOWN_BYTES ((size_t)2 << 30) /* of address space */

static uint32_t later(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* ---- who is who ---- */

static int threads_of(const cuda_emulation *emulation) {
    return emulation->cluster * emulation->launch->threads;
}

static int slots_of(const cuda_emulation *emulation) {
    return threads_of(emulation) + emulation->cluster * AGENTS;
}

uint32_t emulation_agent(const cuda_emulation *emulation, int block, int agent) {
    return AGENT_FIRST + (uint32_t)(threads_of(emulation) + block * AGENTS + agent);
}

/* Of a thread of this cluster. */
static int slot_of(const cuda_emulation *emulation, uint32_t number) {
    uint32_t index = number - emulation->first_number;
    return (int)(index / BLOCK_THREADS) * emulation->launch->threads + (int)(index % BLOCK_THREADS);
}

/* ---- knowledge ---- */

void emulation_order_begin(cuda_emulation *emulation) {
    if (!emulation->known) {
        emulation->known = mmap(NULL, KNOWN_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (emulation->known == MAP_FAILED) {
            emulation->known = NULL;
            emulation_fail("no address space for what threads know");
        }
    } else if (emulation->known_used) {
        madvise(emulation->known, emulation->known_used, MADV_DONTNEED);
    }
    emulation->known_used = 0;
    memset(emulation->joined, 0, sizeof emulation->joined);
}

knowledge *emulation_knowledge(cuda_emulation *emulation, const knowledge *from) {
    size_t bytes = sizeof(knowledge) + (size_t)slots_of(emulation) * sizeof(uint32_t);
    if (emulation->known_used + bytes > KNOWN_BYTES)
        emulation_fail("too many barriers for the emulator's memory");
    knowledge *made = (knowledge *)(emulation->known + emulation->known_used);
    emulation->known_used += (bytes + 15) / 16 * 16;
    if (from) memcpy(made, from, bytes);
    return made;
}

static void add(const cuda_emulation *emulation, knowledge *into, const knowledge *from) {
    int slots = slots_of(emulation);
    if (!from) return;
    for (int b = 0; b < CLUSTER_BLOCKS; b++)
        into->block_time[b] = later(into->block_time[b], from->block_time[b]);
    for (int i = 0; i < slots; i++)
        into->time[i] = later(into->time[i], from->time[i]);
}

/* Threads that waited alike know alike: what was joined last is often joined again. */
static const knowledge *join(cuda_emulation *emulation, const knowledge *a, const knowledge *b) {
    if (a == b || !b) return a;
    if (!a) return b;
    if (emulation->joined[0] != a || emulation->joined[1] != b) {
        knowledge *both = emulation_knowledge(emulation, a);
        add(emulation, both, b);
        emulation->joined[0] = a, emulation->joined[1] = b, emulation->joined[2] = both;
    }
    return emulation->joined[2];
}

void emulation_release(cuda_emulation *emulation, const fiber *self, knowledge *into) {
    const emulated_block *block = &emulation->blocks[self->block];
    const fiber *warp = self - self->lane;
    uint32_t *time = into->time + slot_of(emulation, self->number) - self->lane;
    add(emulation, into, self->known);
    for (int b = 0; b < emulation->cluster; b++)
        into->block_time[b] = later(into->block_time[b], emulation->cluster_time);
    into->block_time[self->block] = later(into->block_time[self->block], block->sync_time);
    for (int lane = 0; lane < WARP && warp->index + lane < block->threads; lane++) {
        time[lane] = later(time[lane], self->warp_time);
        if (self->sync_mask >> lane & 1) time[lane] = later(time[lane], self->sync_time);
    }
    time[self->lane] = ++emulation->now;
}

void emulation_acquire(cuda_emulation *emulation, fiber *self, const knowledge *from) {
    self->known = join(emulation, self->known, from);
}

void emulation_share(cuda_emulation *emulation, fiber *first, int count, uint32_t mask) {
    const knowledge *all = NULL;
    for (int i = 0; i < count; i++)
        if (mask >> i % WARP & 1) all = join(emulation, all, first[i].known);
    for (int i = 0; i < count; i++)
        if (mask >> i % WARP & 1) first[i].known = all;
}

void emulation_learn(cuda_emulation *emulation, fiber *self, uint32_t agent, uint32_t time) {
    uint32_t slot = agent - AGENT_FIRST;
    if (self->known && self->known->time[slot] >= time) return;
    knowledge *made = emulation_knowledge(emulation, self->known);
    made->time[slot] = time;
    self->known = made;
}

/* ---- questions ---- */

/* All that the thread did before this comes before what the fiber does now. */
static uint32_t time_known(const cuda_emulation *emulation, const fiber *self, uint32_t number) {
    const knowledge *known = self->known;
    uint32_t index = number - emulation->first_number;
    int block = (int)(index / BLOCK_THREADS);
    if (number == self->number) return UINT32_MAX;
    if (number < emulation->first_number || block >= emulation->cluster) return 0;
    uint32_t time = emulation->cluster_time;
    if (block == self->block) {
        time = later(time, emulation->blocks[block].sync_time);
        uint32_t own = self->number - emulation->first_number;
        if (own / WARP == index / WARP) {
            time = later(time, self->warp_time);
            if (self->sync_mask >> index % WARP & 1) time = later(time, self->sync_time);
        }
    }
    if (known) time = later(time, later(known->block_time[block], known->time[slot_of(emulation, number)]));
    return time;
}

bool emulation_knows(const cuda_emulation *emulation, const fiber *self, uint32_t number, uint32_t time) {
    if (number >= AGENT_FIRST) return self->known && time < self->known->time[number - AGENT_FIRST];
    return time < time_known(emulation, self, number);
}

bool emulation_knows_fence(const cuda_emulation *emulation, const fiber *self, uint32_t writer,
                           uint32_t time) {
    uint32_t index = writer - emulation->first_number, known = time_known(emulation, self, writer);
    if (writer < emulation->first_number || index / BLOCK_THREADS >= (uint32_t)emulation->cluster)
        return true;
    const fiber *by = &emulation->blocks[index / BLOCK_THREADS].fibers[index % BLOCK_THREADS];
    if (by->fences[0] > time) return true; /* more fences than are kept: it may have been in time */
    for (int i = 0; i < FENCES_KEPT; i++)
        if (by->fences[i] > time && by->fences[i] <= known) return true;
    return false;
}
