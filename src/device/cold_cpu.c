/* Cold caches for an honest measurement.
 *
 * Flushing line by line empties every level, the shared last one too, and costs less than reading a buffer
 * larger than that level, which may be half a gigabyte and not keep to least-recently-used. In: memory. Out:
 * the same memory, in no cache.
 */
#include "device/device_cpu.h"

#include <stdint.h>

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

/* Thread i of `count` takes the i-th run of whole lines. */
static void share(size_t size, int i, int count, size_t *start, size_t *length) {
    size_t each = (size / (size_t)count / LINE + 1) * LINE;
    *start = (size_t)i * each < size ? (size_t)i * each : size;
    *length = size - *start < each ? size - *start : each;
}

bool hr_cold_flush(const void *data, size_t size, int threads) {
    if (!can_flush()) return false;
    if (size < SHARE_LEAST * 2) threads = 1;
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
    for (int i = 0; i < threads; i++) {
        size_t start, length;
        share(size, i, threads, &start, &length);
        flush((const char *)data + start, length);
    }
    return true;
}

void hr_cold_walk(const void *buffer, size_t size, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int i = 0; i < threads; i++) {
        size_t start, length;
        share(size, i, threads, &start, &length);
        const volatile char *bytes = (const volatile char *)buffer + start;
        for (size_t j = 0; j < length; j += LINE)
            (void)bytes[j];
    }
}
