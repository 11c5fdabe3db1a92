/* malloc, calloc and realloc, which count their failures.
 *
 * A pass that gets no memory may go on without: it takes a slower way, or leaves a schedule untried. Its
 * result may then lack a part. So whoever returns the whole result compares the count at its end with that at
 * its beginning, and fails where they differ. Each thread has a count of its own.
 */
#ifndef HR_BASE_MEMORY_H
#define HR_BASE_MEMORY_H

#include "base/status.h"
#include <stddef.h>

/* As malloc, calloc and realloc; what they return is freed by free(). */
void *hr_memory_take(size_t size);
void *hr_memory_zeros(size_t count, size_t size);
void *hr_memory_resize(void *data, size_t size);

/* Counts a failure in memory of another library's. */
void hr_memory_note_want(void);
/* Failures in this thread so far. */
long hr_memory_wants(void);
/* HR_OUT_OF_MEMORY where there were any since `before`; `doing` ends the sentence: "planning kernel softmax".
 */
hr_status hr_memory_status(long before, const char *doing);

#endif
