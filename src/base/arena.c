/* One address-space reservation, filled from the front. In: sizes. Out: zeroed memory. */
#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct hr_arena {
    size_t capacity, used; /* of the whole mapping, this header included */
};

#define ARENA_ALIGN 16

static size_t round_up(size_t size) {
    return (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

hr_status hr_arena_create(size_t capacity, hr_arena **out) {
    capacity += round_up(sizeof(hr_arena));
    void *memory =
        mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return hr_fail(HR_OUT_OF_MEMORY, "cannot reserve %zu MB of address space", capacity >> 20);
    hr_arena *arena = memory;
    *arena = (hr_arena){.capacity = capacity, .used = round_up(sizeof(hr_arena))};
    *out = arena;
    return HR_OK;
}

void hr_arena_destroy(hr_arena *arena) {
    if (arena) munmap(arena, arena->capacity);
}

size_t hr_arena_room(const hr_arena *arena) {
    return arena->capacity - arena->used;
}

size_t hr_arena_mark(const hr_arena *arena) {
    return arena->used;
}

/* Whole pages are given back, and read as zeros when they are touched again; what lies beside them is
 * cleared. */
void hr_arena_release(hr_arena *arena, size_t mark) {
    const uintptr_t page = 4096;
    char *first = (char *)arena + mark, *last = (char *)arena + arena->used;
    char *pages = (char *)(((uintptr_t)first + page - 1) & ~(page - 1)),
         *end = (char *)((uintptr_t)last & ~(page - 1));
    assert(mark <= arena->used);
    arena->used = mark;
    if (pages >= end || madvise(pages, (size_t)(end - pages), MADV_DONTNEED) != 0)
        pages = end = last; /* a larger page, say: cleared by hand */
    memset(first, 0, (size_t)(pages - first));
    memset(end, 0, (size_t)(last - end));
}

void *hr_arena_alloc(hr_arena *arena, size_t size) {
    size = round_up(size);
    assert(size <= hr_arena_room(arena));
    void *memory = (char *)arena + arena->used;
    arena->used += size;
    return memory;
}

char *hr_arena_copy(hr_arena *arena, const char *text, size_t length) {
    char *copy = hr_arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

char *hr_arena_format(hr_arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = hr_arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
