/* The C library's memory, whose want is noted.
 *
 * Who can do without what it asked for goes on: it takes a slower way, or leaves a schedule untried. What
 * comes out may then lack a part, so who answers for the whole asks at its end whether memory was wanted
 * since its beginning. The note is the thread's own.
 */
#ifndef HR_BASE_MEMORY_H
#define HR_BASE_MEMORY_H

#include "base/status.h"
#include <stddef.h>

/* As malloc, calloc and realloc; what they return is freed by free(). */
void *hr_memory_take(size_t size);
void *hr_memory_zeros(size_t count, size_t size);
void *hr_memory_resize(void *data, size_t size);

/* Notes a want that another library told of. */
void hr_memory_note_want(void);
/* How often memory was wanted in this thread so far. */
long hr_memory_wants(void);
/* HR_OUT_OF_MEMORY where it was since `before`; `doing` ends the sentence: "planning kernel softmax". */
hr_status hr_memory_status(long before, const char *doing);

#endif
