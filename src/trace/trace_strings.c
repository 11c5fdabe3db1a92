/* A hash table with open addressing over strings in an arena. In: bytes. Out: numbers from 0. */
#include "trace/trace_strings.h"

#include "base/arena.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define ROOM       ((size_t)512 << 20) /* address space for text; what is touched counts */
#define FIRST_SIZE 1024

typedef struct entry {
    const char *text;
    uint32_t hash, length;
} entry;

struct hr_strings {
    hr_arena *arena;
    entry *entries;
    int32_t count, capacity;
    int32_t *slots; /* number + 1, 0 = free; a power of two, at most half full */
    uint32_t slot_count;
};

hr_status hr_strings_create(hr_strings **out) {
    hr_strings *strings = calloc(1, sizeof *strings);
    if (!strings) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the names of a trace");
    hr_status status = hr_arena_create(ROOM, &strings->arena);
    strings->slot_count = 2 * FIRST_SIZE;
    strings->capacity = FIRST_SIZE;
    strings->slots = calloc(strings->slot_count, sizeof *strings->slots);
    strings->entries = malloc((size_t)strings->capacity * sizeof *strings->entries);
    if (status == HR_OK && (!strings->slots || !strings->entries))
        status = hr_fail(HR_OUT_OF_MEMORY, "no memory for the names of a trace");
    if (status != HR_OK) {
        hr_strings_destroy(strings);
        return status;
    }
    *out = strings;
    return HR_OK;
}

void hr_strings_destroy(hr_strings *strings) {
    if (!strings) return;
    hr_arena_destroy(strings->arena);
    free(strings->entries);
    free(strings->slots);
    free(strings);
}

static bool strings_grow(hr_strings *strings) {
    if (strings->capacity > INT32_MAX / 4) return false;
    size_t capacity = (size_t)strings->capacity * 2, slot_count = capacity * 2;
    entry *entries = realloc(strings->entries, capacity * sizeof *entries);
    if (!entries) return false;
    strings->entries = entries;
    int32_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots) return false;
    for (int32_t i = 0; i < strings->count; i++) {
        size_t slot = entries[i].hash & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = i + 1;
    }
    free(strings->slots);
    strings->slots = slots;
    strings->slot_count = (uint32_t)slot_count;
    strings->capacity = (int32_t)capacity;
    return true;
}

static uint32_t slot_find(const hr_strings *strings, const char *bytes, size_t length, uint32_t hash) {
    uint32_t slot = hash & (strings->slot_count - 1);
    for (; strings->slots[slot]; slot = (slot + 1) & (strings->slot_count - 1)) {
        const entry *have = &strings->entries[strings->slots[slot] - 1];
        if (have->hash == hash && have->length == length && memcmp(have->text, bytes, length) == 0) break;
    }
    return slot;
}

int32_t hr_strings_find(const hr_strings *strings, const char *bytes, size_t length) {
    return strings->slots[slot_find(strings, bytes, length, (uint32_t)XXH3_64bits(bytes, length))] - 1;
}

int32_t hr_strings_intern(hr_strings *strings, const char *bytes, size_t length) {
    if (length > ROOM) return -1;
    uint32_t hash = (uint32_t)XXH3_64bits(bytes, length), slot = slot_find(strings, bytes, length, hash);
    if (strings->slots[slot]) return strings->slots[slot] - 1;
    if (hr_arena_room(strings->arena) < length + 64) return -1;
    if (strings->count == strings->capacity) {
        if (!strings_grow(strings)) return -1;
        slot = hash & (strings->slot_count - 1);
        while (strings->slots[slot])
            slot = (slot + 1) & (strings->slot_count - 1);
    }
    const char *text = hr_arena_copy(strings->arena, bytes, length);
    strings->entries[strings->count] = (entry){text, hash, (uint32_t)length};
    strings->slots[slot] = ++strings->count;
    return strings->count - 1;
}

const char *hr_strings_text(const hr_strings *strings, int32_t id) {
    return id >= 0 && id < strings->count ? strings->entries[id].text : "";
}
