/* The emulated device's threads: fibers, and what makes them wait for each other.
 *
 * In: the blocks of one cluster. Out: all of them ended, or the sentence that says who waits for whom in
 * vain. A fiber runs until it waits; which one goes on then is a matter of the seed.
 */
#undef _FORTIFY_SOURCE /* longjmp goes from stack to stack here */
#include "support/cuda_emulation_parts.h"

#include <string.h>

#define EMULATED __attribute__((visibility("default")))

/* ---- switching ---- */

void emulation_leave(cuda_emulation *emulation) {
    fiber *self = emulation->fiber;
    if (_setjmp(self->context) == 0) _longjmp(emulation->scheduler, 1);
}

static void copies_do(fiber *self, int groups_left);
static void warp_complete(cuda_emulation *emulation, fiber *one);

static void fiber_body(void) {
    for (;;) {
        cuda_emulation *emulation = emulation_now;
        emulation->call(emulation->parameters);
        fiber *self = emulation->fiber;
        copies_do(self, 0);
        emulation_stores_end(emulation, self);
        self->state = FIBER_DONE;
        emulated_block *block = &emulation->blocks[self->block];
        block->done++;
        emulation->now++;
        for (int t = self->index - self->lane; t < block->threads && t < self->index - self->lane + WARP; t++)
            if (block->fibers[t].state == FIBER_AT_WARP) warp_complete(emulation, &block->fibers[t]);
        emulation_leave(emulation);
    }
}

static void resume(cuda_emulation *emulation, fiber *fiber) {
    emulation->fiber = fiber;
    if (_setjmp(emulation->scheduler) == 0) {
        if (fiber->made) _longjmp(fiber->context, 1);
        fiber->made = true;
        getcontext(&fiber->start);
        fiber->start.uc_stack.ss_sp = emulation->stacks + (fiber - emulation->fibers) * STACK_BYTES;
        fiber->start.uc_stack.ss_size = STACK_BYTES;
        makecontext(&fiber->start, fiber_body, 0);
        setcontext(&fiber->start);
    }
    emulation->fiber = NULL;
}

/* ---- a warp ---- */

static bool is_shuffle(int kind) {
    return kind == WARP_FROM || kind == WARP_XOR || kind == WARP_UP || kind == WARP_DOWN;
}

/* The lane that a shuffle reads. */
static int source_lane(const warp_request *request, int lane) {
    int first = lane & ~(request->width - 1), last = first + request->width - 1, from = lane;
    switch (request->kind) {
    case WARP_FROM:
        return first | (request->argument & (request->width - 1));
    case WARP_XOR:
        from = lane ^ request->argument;
        return from > last ? lane : from;
    case WARP_UP:
        from = lane - request->argument;
        return from < first ? lane : from;
    default:
        from = lane + request->argument;
        return from > last ? lane : from;
    }
}

static uint64_t reduced(const fiber *warp, uint32_t present, const warp_request *request) {
    uint64_t all = 0;
    bool first = true;
    for (int lane = 0; lane < WARP; lane++) {
        if (!(present >> lane & 1)) continue;
        uint64_t value = warp[lane].request.value;
        int64_t a = request->argument ? (int32_t)all : (int64_t)all,
                b = request->argument ? (int32_t)value : (int64_t)value;
        if (request->kind == WARP_BALLOT)
            all |= (uint64_t)(value != 0) << lane;
        else if (request->kind == WARP_ADD)
            all += value;
        else if (first || (request->kind == WARP_MIN ? b < a : b > a))
            all = value;
        first = false;
    }
    return all;
}

static void lanes_release(cuda_emulation *emulation, fiber *warp, uint32_t present,
                          const warp_request *request) {
    uint64_t all = is_shuffle(request->kind) ? 0 : reduced(warp, present, request);
    if (request->kind == WARP_SYNC) {
        emulation->now++;
        emulation_share(emulation, warp, WARP, present);
    }
    for (int lane = 0; lane < WARP; lane++) {
        if (!(present >> lane & 1)) continue;
        fiber *one = &warp[lane];
        one->request.result = all;
        one->state = FIBER_READY;
        if (is_shuffle(request->kind)) {
            int from = source_lane(&one->request, lane);
            if (!(present >> from & 1))
                emulation_fail("a shuffle with mask %08x reads lane %d, which takes no part", request->mask,
                               from);
            one->request.result = warp[from].request.value;
        }
        if (request->kind != WARP_SYNC) continue;
        *(request->mask == UINT32_MAX ? &one->warp_time : &one->sync_time) = emulation->now;
        if (request->mask != UINT32_MAX) one->sync_mask = request->mask;
    }
}

/* Where all living lanes of the mask have come, they get their results and go on. */
static void warp_complete(cuda_emulation *emulation, fiber *one) {
    fiber *warp = one - one->lane;
    const emulated_block *block = &emulation->blocks[one->block];
    int lanes = block->threads - warp->index < WARP ? block->threads - warp->index : WARP;
    warp_request request = one->request;
    uint32_t present = 0;
    for (int lane = 0; lane < lanes; lane++) {
        if (!(request.mask >> lane & 1) || warp[lane].state == FIBER_DONE) continue;
        const warp_request *other = &warp[lane].request;
        if (warp[lane].state != FIBER_AT_WARP || other->mask != request.mask || other->kind != request.kind)
            return;
        present |= 1u << lane;
    }
    lanes_release(emulation, warp, present, &request);
}

EMULATED uint64_t emulated_warp(int kind, uint32_t mask, uint64_t value, int argument, int width) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    if (!(mask >> self->lane & 1)) emulation_fail("lane %d is not in its own mask %08x", self->lane, mask);
    self->request =
        (warp_request){.kind = kind, .argument = argument, .width = width, .mask = mask, .value = value};
    self->state = FIBER_AT_WARP;
    warp_complete(emulation, self);
    if (self->state != FIBER_READY) emulation_leave(emulation);
    return self->request.result;
}

/* ---- a block ---- */

EMULATED int emulated_barrier(int value) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    emulated_block *block = &emulation->blocks[self->block];
    block->barrier.sum += value != 0;
    self->state = FIBER_AT_BARRIER;
    if (++block->barrier.arrived < block->threads) {
        emulation_leave(emulation);
        return block->barrier.last_sum;
    }
    block->barrier = (block_barrier){.last_sum = block->barrier.sum};
    block->sync_time = ++emulation->now;
    emulation_share(emulation, block->fibers, block->threads, UINT32_MAX);
    for (int t = 0; t < block->threads; t++)
        block->fibers[t].state = FIBER_READY;
    return block->barrier.last_sum;
}

/* ---- a cluster ---- */

static void share_in_cluster(cuda_emulation *emulation) {
    fiber all = {.known = NULL};
    for (int b = 0; b < emulation->cluster; b++)
        for (int t = 0; t < emulation->blocks[b].threads; t++)
            emulation_acquire(emulation, &all, emulation->blocks[b].fibers[t].known);
    for (int b = 0; b < emulation->cluster; b++)
        for (int t = 0; t < emulation->blocks[b].threads; t++)
            emulation->blocks[b].fibers[t].known = all.known;
}

EMULATED void emulated_cluster_arrive(void) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    if (self->cluster_phase == emulation->cluster_phase + 1)
        emulation_fail("arrives at the cluster's barrier twice without waiting");
    self->cluster_phase = emulation->cluster_phase + 1;
    if (++emulation->cluster_arrived < emulation->cluster * emulation->launch->threads) return;
    emulation->cluster_arrived = 0;
    emulation->cluster_phase++;
    emulation->cluster_time = ++emulation->now;
    share_in_cluster(emulation);
    for (int b = 0; b < emulation->cluster; b++) {
        emulated_block *block = &emulation->blocks[b];
        block->sync_time = emulation->now;
        for (int t = 0; t < block->threads; t++)
            if (block->fibers[t].state == FIBER_AT_CLUSTER) block->fibers[t].state = FIBER_READY;
    }
}

EMULATED void emulated_cluster_wait(void) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    if (self->cluster_phase <= emulation->cluster_phase) return;
    self->state = FIBER_AT_CLUSTER;
    emulation_leave(emulation);
}

EMULATED unsigned emulated_cluster_rank(void) {
    return (unsigned)emulation_now->fiber->block;
}

EMULATED unsigned emulated_cluster_size(void) {
    return (unsigned)emulation_now->cluster;
}

EMULATED void *emulated_cluster_map(const void *shared, unsigned rank) {
    cuda_emulation *emulation = emulation_now;
    uintptr_t dynamic = (uintptr_t)shared - (uintptr_t)emulation->shared.base;
    uintptr_t statics = (uintptr_t)shared - (uintptr_t)emulation->object->shared;
    if (rank >= (unsigned)emulation->cluster)
        emulation_fail("maps shared memory of block %u of its cluster", rank);
    if (statics < emulation->object->shared_bytes)
        return (int)rank == emulation->active
                   ? (void *)(uintptr_t)shared
                   : emulation->shared.base + rank * SHARED_SPAN + SHARED_BYTES + statics;
    if (dynamic >= emulation->shared.size) emulation_fail("maps %p, which is not shared memory", shared);
    return emulation->shared.base + rank * SHARED_SPAN + dynamic % SHARED_SPAN;
}

/* ---- a warp or a warpgroup ---- */

void emulation_together(int size, group_action action, void *arguments) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber, *first = self - self->index % size;
    if (first->index + size > emulation->blocks[self->block].threads)
        emulation_fail("works with %d threads, of which some do not exist", size);
    self->group = (group_request){action, size, arguments};
    self->state = FIBER_AT_GROUP;
    for (int t = 0; t < size; t++)
        if (first[t].state != FIBER_AT_GROUP || first[t].group.action != action) {
            emulation_leave(emulation);
            return;
        }
    action(emulation, first);
    for (int t = 0; t < size; t++)
        first[t].state = FIBER_READY;
}

/* ---- places ---- */

EMULATED unsigned emulated_thread_index(void) {
    return (unsigned)emulation_now->fiber->index;
}

/* Blocks are counted along x first. */
EMULATED unsigned emulated_block_index(int axis) {
    const int64_t *grid = emulation_now->launch->grid;
    int64_t index = emulation_now->blocks[emulation_now->fiber->block].index;
    for (int i = 0; i < axis; i++)
        index /= grid[i];
    return (unsigned)(index % grid[axis]);
}

EMULATED unsigned emulated_block_threads(void) {
    return (unsigned)emulation_now->launch->threads;
}

EMULATED unsigned emulated_grid_blocks(int axis) {
    return (unsigned)emulation_now->launch->grid[axis];
}

EMULATED void *emulated_shared(void) {
    return emulation_now->shared.base + emulation_now->fiber->block * SHARED_SPAN;
}

EMULATED void emulated_access(const void *at, size_t bytes, int write, int atomic) {
    emulation_check(at, bytes, write, true, atomic);
}

EMULATED void emulated_fail(const char *sentence) {
    emulation_fail("%s", sentence);
}

/* ---- asynchronous copies ---- */

static void copy_now(const pending_copy *copy) {
    for (size_t i = 0; i < copy->bytes; i++)
        emulation_check((const char *)copy->from + i, 1, false, false, false);
    for (size_t i = 0; i < copy->filled; i++)
        emulation_check((char *)copy->to + i, 1, true, false, false);
    memcpy(copy->to, copy->from, copy->bytes);
    memset((char *)copy->to + copy->bytes, 0, copy->filled - copy->bytes);
}

static void copies_do(fiber *self, int groups_left) {
    int kept = 0;
    for (int i = 0; i < self->copy_count; i++)
        if (self->copies[i].group < self->copy_group - groups_left)
            copy_now(&self->copies[i]);
        else
            self->copies[kept++] = self->copies[i];
    self->copy_count = kept;
}

/* cp.async: `bytes` of the `filled` come from memory, the rest are zeros. */
EMULATED void emulated_copy(void *to, const void *from, size_t bytes, size_t filled) {
    cuda_emulation *emulation = emulation_now;
    fiber *self = emulation->fiber;
    pending_copy copy = {to, from, bytes, filled, self->copy_group};
    if ((uintptr_t)to % filled || (uintptr_t)from % filled)
        emulation_fail("copies %zu bytes from %s: misaligned", filled, emulation_place(from));
    if (!emulation->late)
        copy_now(&copy);
    else if (self->copy_count == COPIES_MAX)
        emulation_fail("has more than %d asynchronous copies under way", COPIES_MAX);
    else
        self->copies[self->copy_count++] = copy;
}

EMULATED void emulated_copy_commit(void) {
    emulation_now->fiber->copy_group++;
}

EMULATED void emulated_copy_wait(int groups_left) {
    copies_do(emulation_now->fiber, groups_left);
}

/* ---- scheduling ---- */

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The one that is number `i` of `count` in the seed's order; seed 0: as they are. */
int64_t emulation_order(uint64_t seed, int64_t i, int64_t count) {
    if (seed == 0 || count < 2) return i;
    uint64_t random = mix(seed + (uint64_t)count), size = (uint64_t)count;
    uint64_t start = random % size, turned = (start + (uint64_t)i) % size;
    return (int64_t)(random >> 40 & 1 ? size - 1 - turned : turned);
}

/* An object has one copy of its static shared variables; a block's values are put there while it runs. */
static void block_activate(cuda_emulation *emulation, int block) {
    const cuda_object *object = emulation->object;
    char *away = emulation->shared.base + SHARED_BYTES;
    if (emulation->active == block) return;
    if (emulation->active >= 0)
        memcpy(away + (size_t)emulation->active * SHARED_SPAN, object->shared, object->shared_bytes);
    memcpy(object->shared, away + (size_t)block * SHARED_SPAN, object->shared_bytes);
    emulation->active = block;
}

static bool run_warp(cuda_emulation *emulation, emulated_block *block, int first) {
    int lanes = block->threads - first < WARP ? block->threads - first : WARP;
    bool progress = false, again = true;
    while (again) {
        again = false;
        for (int i = 0; i < lanes; i++) {
            fiber *fiber = &block->fibers[first + emulation_order(emulation->seed, i, lanes)];
            if (fiber->state != FIBER_READY) continue;
            resume(emulation, fiber);
            again = progress = true;
        }
    }
    return progress;
}

static bool run_block(cuda_emulation *emulation, int number) {
    emulated_block *block = &emulation->blocks[number];
    int warps = (block->threads + WARP - 1) / WARP;
    bool progress = false, again = true;
    block_activate(emulation, number);
    while (again) {
        again = false;
        for (int w = 0; w < warps; w++)
            again |= run_warp(emulation, block, (int)emulation_order(emulation->seed, w, warps) * WARP);
        progress |= again;
    }
    return progress;
}

/* What one thread waits for. */
static void describe_waiting(const fiber *one, char *out, size_t size) {
    static const char *const words[] = {[FIBER_READY] = "runs",
                                        [FIBER_AT_WARP] = "waits for lanes of its warp",
                                        [FIBER_AT_BARRIER] = "waits at a barrier of its block",
                                        [FIBER_AT_CLUSTER] = "waits at its cluster's barrier",
                                        [FIBER_AT_GROUP] = "waits for its warp or warpgroup to do the same",
                                        [FIBER_DONE] = "has ended"};
    if (one->state == FIBER_AT_PHASE)
        emulation_mbarrier_describe(one->waiting, one->waiting_parity, out, size);
    else if (one->state == FIBER_AT_NAMED)
        snprintf(out, size, "waits at barrier %d", one->waiting_named);
    else
        snprintf(out, size, "%s", words[one->state]);
}

/* Threads that wait for the same are told together. */
_Noreturn static void fail_stuck(const emulated_block *block) {
    char text[900] = "", kinds[6][160];
    int examples[6], counts[6] = {0}, count = 0;
    for (int t = 0; t < block->threads; t++) {
        char words[160];
        int kind = 0;
        describe_waiting(&block->fibers[t], words, sizeof words);
        while (kind < count && strcmp(kinds[kind], words) != 0)
            kind++;
        if (kind == 6) continue;
        if (kind == count) {
            memcpy(kinds[kind], words, sizeof words);
            examples[kind] = t;
            count++;
        }
        counts[kind]++;
    }
    for (int kind = 0; kind < count; kind++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d threads (as %d) each %s",
                 kind ? ", " : "", counts[kind], examples[kind], kinds[kind]);
    emulation_fail("block %lld never ends: %s", (long long)block->index, text);
}

static void block_begin(cuda_emulation *emulation, int number, int64_t index) {
    emulated_block *block = &emulation->blocks[number];
    emulation_shared_begin(emulation, number);
    emulation_products_end(NULL, block); /* of a launch that failed */
    block->index = index;
    block->threads = emulation->launch->threads;
    block->done = block->mbarrier_count = block->storer_count = 0;
    block->barrier = (block_barrier){0};
    block->sync_time = 0;
    block->fibers = emulation->fibers + number * BLOCK_THREADS;
    memset(block->named, 0, sizeof block->named);
    block->reads_async = false;
    for (int t = 0; t < block->threads; t++) {
        fiber *fiber = &block->fibers[t];
        fiber->state = FIBER_READY;
        fiber->block = number;
        fiber->lane = t % WARP;
        fiber->index = t;
        fiber->number = (uint32_t)(1 + index * BLOCK_THREADS + t);
        fiber->warp_time = fiber->sync_time = fiber->sync_mask = 0;
        fiber->cluster_phase = emulation->cluster_phase;
        fiber->copy_count = fiber->copy_group = 0;
        fiber->known = NULL;
        memset(fiber->fences, 0, sizeof fiber->fences);
        fiber->init_fence = 0;
        fiber->store_count = fiber->store_group = fiber->storer = fiber->registers = 0;
    }
}

static void cluster_begin(cuda_emulation *emulation, int64_t first_block) {
    emulation->first_number = (uint32_t)(1 + first_block * BLOCK_THREADS);
    emulation->cluster_arrived = 0;
    emulation->cluster_time = emulation->launch_time;
    emulation->active = -1;
    emulation->agent = 0;
    emulation_order_begin(emulation);
    for (int b = 0; b < emulation->cluster; b++)
        block_begin(emulation, b, first_block + b);
}

void emulation_run_cluster(cuda_emulation *emulation, int64_t first_block) {
    bool progress = true;
    uint32_t peeked = 0; /* when those that peek went on in vain */
    cluster_begin(emulation, first_block);
    while (progress) {
        progress = false;
        for (int b = 0; b < emulation->cluster; b++)
            progress |= run_block(emulation, (int)emulation_order(emulation->seed, b, emulation->cluster));
        if (!progress && emulation_mbarrier_flush(emulation)) {
            progress = true;
            peeked = 0;
        }
        if (progress && peeked == 0) continue;
        progress = peeked != emulation->now && emulation_mbarrier_peek(emulation);
        peeked = progress ? emulation->now : 0;
    }
    for (int b = 0; b < emulation->cluster; b++)
        if (emulation->blocks[b].done < emulation->blocks[b].threads) fail_stuck(&emulation->blocks[b]);
    for (int b = 0; b < emulation->cluster; b++) {
        emulation_products_end(emulation, &emulation->blocks[b]);
        emulation_block_end(emulation, &emulation->blocks[b]);
    }
}
