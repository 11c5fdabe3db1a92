/* An allocator that fails, loaded in front of the C library's (LD_PRELOAD).
 *
 * In: HR_FAIL_AT, the number of the allocation that fails, 0 = none; HR_FAIL_FOR, how many fail from there
 * on, 1 where it is absent. Out: with HR_FAIL_COUNT, a line a process in that file, in the order in which
 * they ended: its number of allocations.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *data, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_long done, from = -1, until; /* from -1: the environment is not read yet */

/* getenv allocates nothing. */
static long number_of(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int fails(void) {
    if (atomic_load(&from) < 0) {
        const long first = number_of("HR_FAIL_AT", 0);
        atomic_store(&until, first + number_of("HR_FAIL_FOR", 1));
        atomic_store(&from, first);
    }
    const long number = atomic_fetch_add(&done, 1) + 1;
    if (number < atomic_load(&from) || number >= atomic_load(&until)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) {
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *data, size_t size) {
    return fails() ? NULL : __libc_realloc(data, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    void *data = fails() ? NULL : __libc_memalign(alignment, size);
    if (!data) return ENOMEM;
    *out = data;
    return 0;
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("HR_FAIL_COUNT");
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    char line[32];
    if (file < 0) return;
    const int length = snprintf(line, sizeof line, "%ld\n", atomic_load(&done));
    if (write(file, line, (size_t)length) != length) _exit(9);
    close(file);
}
