/* A region of memory that is filled from the front and freed at once.
 *
 * The whole capacity is reserved when the arena is made (address space only; pages come as they are touched),
 * so creation is the one call that can fail. Whoever consumes unbounded input asks hr_arena_room() at each
 * step and turns a full arena into an error of its own; an allocation beyond capacity is a bug of ours.
 */
#ifndef HR_BASE_ARENA_H
#define HR_BASE_ARENA_H

#include "base/status.h"
#include <stddef.h>

typedef struct hr_arena hr_arena;

hr_status hr_arena_create(size_t capacity, hr_arena **out);
void hr_arena_destroy(hr_arena *arena);
size_t hr_arena_room(const hr_arena *arena);
/* What is allocated behind a mark and released together: its memory goes back to the system. */
size_t hr_arena_mark(const hr_arena *arena);
void hr_arena_release(hr_arena *arena, size_t mark);
/* Zeroed, aligned to 16 bytes. */
void *hr_arena_alloc(hr_arena *arena, size_t size);
char *hr_arena_copy(hr_arena *arena, const char *text, size_t length);
char *hr_arena_format(hr_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
