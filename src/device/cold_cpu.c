/* Cold caches for an honest measurement.
 *
 * Flushing line by line empties every level, the shared last one too, and costs less than reading a buffer
 * larger than that level, which may be half a gigabyte and not keep to least-recently-used. In: memory. Out:
 * the same memory, in no cache.
 */
#include "device/device_cpu.h"
#include "device/team.h"

#include <stdint.h>
#include <string.h>

#define LINE        64
#define SHARE_LEAST (256 * 1024) /* bytes a thread: less is not worth starting one for */

#if defined(__x86_64__)
#include <immintrin.h>

static bool can_flush(void) {
    unsigned a = 7, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return b >> 23 & 1; /* clflushopt: not ordered among themselves, so many are under way at once */
}

__attribute__((target("clflushopt"))) static void flush(const char *data, size_t size) {
    for (size_t i = 0; i < size; i += LINE)
        _mm_clflushopt((void *)(uintptr_t)(data + i));
    if (size) _mm_clflushopt((void *)(uintptr_t)(data + size - 1));
    _mm_mfence();
}
#elif defined(__aarch64__)
static bool can_flush(void) {
    return true;
}

static void flush(const char *data, size_t size) {
    for (size_t i = 0; i < size; i += LINE)
        __asm__ volatile("dc civac, %0" : : "r"(data + i) : "memory");
    if (size) __asm__ volatile("dc civac, %0" : : "r"(data + size - 1) : "memory");
    __asm__ volatile("dsb ish" : : : "memory");
}
#else
static bool can_flush(void) {
    return false;
}

static void flush(const char *data, size_t size) {
    (void)data, (void)size;
}
#endif

/* ---- first touch ---- */

typedef struct touched {
    char *const *buffers;
    int count, threads;
    int64_t each;
} touched;

static void touch_part(void *context, int64_t part, int64_t parts) {
    const touched *all = context;
    for (int64_t thread = part; thread < all->threads; thread += parts)
        for (int i = 0; i < all->count; i++)
            memset(all->buffers[i] + thread * all->each, 1, (size_t)all->each);
}

void hr_touch_near(char *const *buffers, int count, int64_t each, int threads) {
    touched all = {buffers, count, threads, each};
    hr_team_run(threads, touch_part, &all);
}

/* ---- cold caches ---- */

/* Thread i of `count` takes the i-th run of whole lines. */
static void share(size_t size, int64_t i, int64_t count, size_t *start, size_t *length) {
    size_t each = (size / (size_t)count / LINE + 1) * LINE;
    *start = (size_t)i * each < size ? (size_t)i * each : size;
    *length = size - *start < each ? size - *start : each;
}

typedef struct run_of_bytes {
    const char *data;
    size_t size;
} run_of_bytes;

static void flush_part(void *context, int64_t part, int64_t parts) {
    const run_of_bytes *all = context;
    size_t start, length;
    share(all->size, part, parts, &start, &length);
    flush(all->data + start, length);
}

bool hr_cold_flush(const void *data, size_t size, int threads) {
    if (!can_flush()) return false;
    run_of_bytes all = {data, size};
    hr_team_run(size < SHARE_LEAST * 2 ? 1 : threads, flush_part, &all);
    return true;
}

static void walk_part(void *context, int64_t part, int64_t parts) {
    const run_of_bytes *all = context;
    size_t start, length;
    share(all->size, part, parts, &start, &length);
    const volatile char *bytes = all->data + start;
    for (size_t i = 0; i < length; i += LINE)
        (void)bytes[i];
}

void hr_cold_walk(const void *buffer, size_t size, int threads) {
    run_of_bytes all = {buffer, size};
    hr_team_run(threads, walk_part, &all);
}
