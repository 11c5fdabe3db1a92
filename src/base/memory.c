/* Allocations that count their failures. In: sizes. Out: memory, or NULL. See memory.h. */
#include "base/memory.h"

#include <stdlib.h>

static _Thread_local long wants;

static void *noted(void *data, bool wanted) {
    if (!data && wanted) wants++;
    return data;
}

void *hr_memory_take(size_t size) {
    return noted(malloc(size), size > 0);
}

void *hr_memory_zeros(size_t count, size_t size) {
    return noted(calloc(count, size), count && size);
}

void *hr_memory_resize(void *data, size_t size) {
    return noted(realloc(data, size), size > 0);
}

void hr_memory_note_want(void) {
    wants++;
}

long hr_memory_wants(void) {
    return wants;
}

hr_status hr_memory_status(long before, const char *doing) {
    return wants == before ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "out of memory while %s", doing);
}
