/* The emulated copy engine: plain bulk copies, and boxes of a tensor by its map.
 *
 * In: what threads ask for. Out: bytes in shared memory, counted by a barrier, or in memory. Whether a copy
 * happens at once or as late as it may is a matter of the seed; its accesses are checked when it is asked
 * for.
 */
#undef _FORTIFY_SOURCE /* longjmp goes from stack to stack here */
#include "support/cuda_emulation_parts.h"

#include <stdlib.h>
#include <string.h>

#define EMULATED __attribute__((visibility("default")))

enum { BULK_ALIGNMENT = 16, TENSOR_ALIGNMENT = 128 };

static uint32_t agent_of(const cuda_emulation *emulation, const mbarrier *barrier) {
    return emulation_agent(emulation, barrier->block, GROUPS_MAX + barrier->number);
}

/* ---- boxes ---- */

/* What the hardware does to bits 4 to 6 of an address in shared memory. */
static uint32_t swizzled(uint32_t address, hr_map_swizzle swizzle) {
    static const uint32_t masks[] = {0, 1, 3, 7};
    return address ^ (address >> 7 & masks[swizzle]) << 4;
}

/* Element `i` of a box at `at`: its place in memory, NULL where it lies outside. */
static char *element_of(const hr_tensor_map *map, const char *base, const int *at, int64_t i) {
    const char *place = base + map->offset;
    bool inside = true;
    for (int axis = 0; axis < map->rank; axis++) {
        int64_t coordinate = at[axis] + i % map->box[axis];
        int64_t stride = axis ? map->strides[axis] : hr_map_type_bytes(map->type);
        i /= map->box[axis];
        inside &= coordinate >= 0 && coordinate < map->dims[axis];
        place += coordinate * stride;
    }
    return inside ? (char *)(uintptr_t)place : NULL;
}

static int64_t elements_of(const hr_tensor_map *map) {
    int64_t count = 1;
    for (int axis = 0; axis < map->rank; axis++)
        count *= map->box[axis];
    return count;
}

static char *shared_element(const hr_tensor_map *map, uint32_t box, int64_t i) {
    uint32_t address = box + (uint32_t)(i * hr_map_type_bytes(map->type));
    return emulation_shared_pointer(swizzled(address, map->swizzle));
}

static uint32_t rounded_tf32(uint32_t bits) {
    if ((bits >> 23 & 255) == 255) return bits & ~0x1fffu;
    return (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
}

static void element_load(const hr_tensor_map *map, char *to, const char *from) {
    int bytes = hr_map_type_bytes(map->type);
    static const uint64_t nans[] = {[HR_MAP_F16] = 0x7e00,
                                    [HR_MAP_BF16] = 0x7fc0,
                                    [HR_MAP_F32] = 0x7fc00000,
                                    [HR_MAP_TF32] = 0x7fc00000,
                                    [HR_MAP_F64] = 0x7ff8000000000000};
    uint64_t value = map->fill == HR_MAP_NANS ? nans[map->type] : 0;
    if (from) memcpy(&value, from, (size_t)bytes);
    if (map->type == HR_MAP_TF32) value = rounded_tf32((uint32_t)value);
    memcpy(to, &value, (size_t)bytes);
}

static void load_tensor(const bulk_load *load) {
    for (int64_t i = 0; i < elements_of(load->map); i++)
        element_load(load->map, shared_element(load->map, load->to, i),
                     element_of(load->map, load->from, load->at, i));
}

static void load_plain(const bulk_load *load) {
    memcpy(emulation_shared_pointer(load->to), load->from, load->bytes);
}

static void load_word(const bulk_load *load) {
    memcpy(emulation_shared_pointer(load->to), &load->word, sizeof load->word);
}

/* ---- loads ---- */

static void check_box(uint32_t address) {
    if (address % TENSOR_ALIGNMENT)
        emulation_fail("a box at shared memory + %u: misaligned", address & 0xffffff);
}

EMULATED void emulated_bulk_load(uint32_t to, const void *from, int bytes, uint32_t address) {
    cuda_emulation *emulation = emulation_now;
    mbarrier *barrier = emulation_mbarrier(address);
    bulk_load load = {.act = load_plain, .to = to, .from = from};
    if (bytes < 0 || bytes % BULK_ALIGNMENT || (uintptr_t)from % BULK_ALIGNMENT || to % BULK_ALIGNMENT)
        emulation_fail("copies %d bytes from %s: misaligned", bytes, emulation_place(from));
    for (int i = 0; i < bytes; i += BULK_ALIGNMENT) {
        emulation_check(load.from + i, BULK_ALIGNMENT, false, true, false);
        emulation_check_agent(agent_of(emulation, barrier), emulation_shared_pointer(to + (uint32_t)i),
                              BULK_ALIGNMENT, true);
    }
    emulation_mbarrier_load(emulation, barrier, &load, bytes);
}

/* Who hears of the word knows what its sender knew: what the sender does before it, it has done. */
EMULATED void emulated_cluster_send(uint32_t to, uint32_t value, uint32_t address) {
    cuda_emulation *emulation = emulation_now;
    mbarrier *barrier = emulation_mbarrier(address);
    bulk_load load = {.act = load_word, .to = to, .word = value};
    emulation_check_agent(agent_of(emulation, barrier), emulation_shared_pointer(to), sizeof value, true);
    emulation_release(emulation, emulation->fiber, barrier->gathered);
    emulation_mbarrier_load(emulation, barrier, &load, sizeof value);
}

static void tensor_check_load(const bulk_load *load, uint32_t agent) {
    int bytes = hr_map_type_bytes(load->map->type);
    for (int64_t i = 0; i < elements_of(load->map); i++) {
        const char *from = element_of(load->map, load->from, load->at, i);
        if (from) emulation_check(from, (size_t)bytes, false, true, false);
        emulation_check_agent(agent, shared_element(load->map, load->to, i), (size_t)bytes, true);
    }
}

/* `blocks`: a bit for each block of the cluster; 0: the one of `to`. */
EMULATED void emulated_tensor_load(uint32_t to, const void *parameter, int rank, const int *at,
                                   uint32_t address, unsigned blocks) {
    cuda_emulation *emulation = emulation_now;
    const emulated_map *map = parameter;
    if (!map->map || map->map->rank != rank)
        emulation_fail("copies %d axes by a map of %d", rank, map->map ? map->map->rank : 0);
    for (int b = 0; b < emulation->cluster || b == 0; b++) {
        if (blocks ? !(blocks >> b & 1) : b > 0) continue;
        uint32_t there = blocks ? (uint32_t)(b + 1) << 24 | (to & 0xffffff) : to;
        mbarrier *barrier =
            emulation_mbarrier(blocks ? (uint32_t)(b + 1) << 24 | (address & 0xffffff) : address);
        bulk_load load = {.act = load_tensor, .to = there, .from = map->base, .map = map->map};
        memcpy(load.at, at, (size_t)rank * sizeof *at);
        check_box(load.to);
        tensor_check_load(&load, agent_of(emulation, barrier));
        emulation_mbarrier_load(emulation, barrier, &load,
                                elements_of(map->map) * hr_map_type_bytes(map->map->type));
    }
    if (blocks >> emulation->cluster)
        emulation_fail("multicasts to blocks %#x of a cluster of %d", blocks, emulation->cluster);
}

/* ---- stores ---- */

static void store_plain(const bulk_store *store) {
    const char *from = emulation_shared_pointer(store->from);
    for (size_t i = 0; store->add && i < store->bytes; i += sizeof(float)) {
        float sum, more;
        memcpy(&sum, store->to + i, sizeof sum);
        memcpy(&more, from + i, sizeof more);
        sum += more;
        memcpy(store->to + i, &sum, sizeof sum);
    }
    if (!store->add) memcpy(store->to, from, store->bytes);
}

static float f32_of(hr_map_type type, const char *place) {
    uint32_t bits = 0;
    float value;
    memcpy(&bits, place, type == HR_MAP_BF16 ? 2 : 4);
    if (type == HR_MAP_BF16) bits <<= 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Of f32 and bf16: what products add to. */
static void element_add(hr_map_type type, char *to, const char *from) {
    float sum = f32_of(type, to) + f32_of(type, from);
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (type != HR_MAP_F32 && type != HR_MAP_BF16)
        emulation_fail("adds in a type that the emulator does not know");
    if (type == HR_MAP_BF16) bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    memcpy(to, &bits, type == HR_MAP_BF16 ? 2 : 4);
}

static void store_tensor(const bulk_store *store) {
    const hr_tensor_map *map = store->map;
    for (int64_t i = 0; i < elements_of(map); i++) {
        char *to = element_of(map, store->to, store->at, i), *from = shared_element(map, store->from, i);
        if (to && store->add)
            element_add(map->type, to, from);
        else if (to)
            memcpy(to, from, (size_t)hr_map_type_bytes(map->type));
    }
}

static uint32_t storer_agent(cuda_emulation *emulation, fiber *self) {
    emulated_block *block = &emulation->blocks[self->block];
    if (!self->storer) {
        if (block->storer_count == STORERS_MAX)
            emulation_fail("has more than %d threads that store in bulk", STORERS_MAX);
        self->storer = ++block->storer_count;
    }
    return emulation_agent(emulation, self->block, GROUPS_MAX + MBARRIERS_MAX + self->storer - 1);
}

static void store_begin(cuda_emulation *emulation, bulk_store *store) {
    fiber *self = emulation->fiber;
    if (!self->stores) self->stores = calloc(STORES_MAX, sizeof *self->stores);
    if (!self->stores || self->store_count == STORES_MAX)
        emulation_fail("has more than %d bulk stores that nobody waited for", STORES_MAX);
    store->group = self->store_group;
    store->time = ++emulation->now;
    if (!emulation->late) {
        store->act(store);
        store->done = true;
    }
    self->stores[self->store_count++] = *store;
}

EMULATED void emulated_bulk_store(void *to, uint32_t from, int bytes, int adds) {
    cuda_emulation *emulation = emulation_now;
    bulk_store store = {.act = store_plain, .to = to, .from = from, .bytes = (size_t)bytes, .add = adds};
    uint32_t agent = storer_agent(emulation, emulation->fiber);
    if (bytes < 0 || bytes % BULK_ALIGNMENT || (uintptr_t)to % BULK_ALIGNMENT || from % BULK_ALIGNMENT)
        emulation_fail("copies %d bytes to %s: misaligned", bytes, emulation_place(to));
    for (int i = 0; i < bytes; i += BULK_ALIGNMENT) {
        emulation_check_agent(agent, emulation_shared_pointer(from + (uint32_t)i), BULK_ALIGNMENT, false);
        emulation_check(store.to + i, BULK_ALIGNMENT, true, true, adds);
    }
    store_begin(emulation, &store);
}

EMULATED void emulated_tensor_store(const void *parameter, int rank, const int *at, uint32_t from, int adds) {
    cuda_emulation *emulation = emulation_now;
    const emulated_map *map = parameter;
    uint32_t agent = storer_agent(emulation, emulation->fiber);
    if (!map->map || map->map->rank != rank)
        emulation_fail("copies %d axes by a map of %d", rank, map->map ? map->map->rank : 0);
    size_t bytes = (size_t)hr_map_type_bytes(map->map->type);
    bulk_store store = {.act = store_tensor, .to = map->base, .from = from, .map = map->map, .add = adds};
    memcpy(store.at, at, (size_t)rank * sizeof *at);
    check_box(from);
    for (int64_t i = 0; i < elements_of(map->map); i++) {
        char *to = element_of(map->map, map->base, at, i);
        emulation_check_agent(agent, shared_element(map->map, store.from, i), bytes, false);
        if (to) emulation_check(to, bytes, true, true, adds);
    }
    store_begin(emulation, &store);
}

EMULATED void emulated_bulk_commit(void) {
    emulation_now->fiber->store_group++;
}

/* All groups but the last `left` have read (`read`), or are done: then they need not be remembered. */
static void stores_wait(cuda_emulation *emulation, fiber *self, int left, bool read) {
    int kept = 0;
    uint32_t known = 0;
    for (int i = 0; i < self->store_count; i++) {
        bulk_store *store = &self->stores[i];
        if (store->group < self->store_group - left) {
            if (!store->done) store->act(store);
            store->done = true;
            if (!store->read) known = store->time + 1;
            store->read = true;
            if (!read) continue;
        }
        self->stores[kept++] = *store;
    }
    self->store_count = kept;
    if (known) emulation_learn(emulation, self, storer_agent(emulation, self), known);
}

EMULATED void emulated_bulk_wait(int left, int read) {
    stores_wait(emulation_now, emulation_now->fiber, left, read != 0);
}

void emulation_stores_end(cuda_emulation *emulation, fiber *self) {
    for (int i = 0; i < self->store_count; i++)
        if (!self->stores[i].read && emulation->fiber)
            emulation_fail("ends while its bulk stores may still read shared memory");
    self->store_count = 0;
}
