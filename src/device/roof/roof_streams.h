/* Streams through memory or a cache: the operation and how it is done are constants where it is used, so that
 * one function makes every loop. */
#include <stdint.h>
#include <string.h>

#if defined __AVX512F__
#define VECTOR_BYTES 64
#elif defined __AVX__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LINE      64
#define PAGE      4096
#define A_LINE    (LINE / VECTOR_BYTES)
#define LINES_MAX 8

#if defined __x86_64__ || defined __i386__
#define REGISTER "v"
#elif defined __aarch64__
#define REGISTER "w"
#else
#define REGISTER "m"
#endif
/* The value is needed here, whatever the compiler knows of it. */
#define USE(x) __asm__ volatile("" : "+" REGISTER(x))

#define ALWAYS static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(VECTOR_BYTES), may_alias));

ALWAYS void store_past(char *to, vec x) {
#if defined __AVX__
    __asm__ volatile("vmovntps %1, %0" : "=m"(*(vec *)to) : "v"(x));
#elif defined __SSE__
    __asm__ volatile("movntps %1, %0" : "=m"(*(vec *)to) : "x"(x));
#else
    *(vec *)to = x;
#endif
}

ALWAYS void store_end(void) {
#if defined __SSE2__
    __asm__ volatile("sfence" ::: "memory");
#endif
}

ALWAYS void ask(const char *p, const int locality) {
    if (locality == 3)
        __builtin_prefetch(p, 0, 3);
    else
        __builtin_prefetch(p, 0, 2);
}

ALWAYS void step(const int operation, char *to, const char *a, const char *b, const int lines,
                 const int ahead, const int locality, const int past) {
    vec x[LINES_MAX * A_LINE], scale = (vec){0} + 3;
    if (ahead && operation != ROOF_WRITE)
        for (int i = 0; i < lines; i++) {
            ask(a + ahead + i * LINE, locality);
            if (operation == ROOF_TRIAD) ask(b + ahead + i * LINE, locality);
        }
#pragma GCC unroll 32
    for (int i = 0; i < lines * A_LINE; i++) {
        vec one = scale;
        if (operation != ROOF_WRITE) one = *(const vec *)(a + i * VECTOR_BYTES);
        if (operation == ROOF_READ) USE(one);
        if (operation == ROOF_TRIAD) one += scale * *(const vec *)(b + i * VECTOR_BYTES);
        x[i] = one;
    }
    if (operation == ROOF_READ) return;
#pragma GCC unroll 32
    for (int i = 0; i < lines * A_LINE; i++)
        if (past)
            store_past(to + i * VECTOR_BYTES, x[i]);
        else
            *(vec *)(to + i * VECTOR_BYTES) = x[i];
}

ALWAYS void stream(const int operation, char *to, const char *a, const char *b, int64_t bytes,
                   const int lines, const int pages, const int ahead, const int locality, const int past) {
    if (pages == 1)
        for (int64_t i = 0; i < bytes; i += lines * LINE)
            step(operation, to + i, a + i, b + i, lines, ahead, locality, past);
    else
        for (int64_t block = 0; block < bytes; block += pages * PAGE)
            for (int64_t i = block; i < block + PAGE; i += lines * LINE)
                for (int page = 0; page < pages; page++) {
                    int64_t at = i + page * PAGE;
                    step(operation, to + at, a + at, b + at, lines, ahead, locality, past);
                }
    if (past) store_end();
}

#define STREAM(name, operation, lines, pages, ahead, locality, past)                                         \
    static void name(char *to, const char *a, const char *b, int64_t bytes) {                                \
        stream(ROOF_##operation, to, a, b, bytes, lines, pages, ahead, locality, past);                      \
    }
ROOF_STREAMS(STREAM)

static void copy_string(char *to, const char *a, const char *b, int64_t bytes) {
    (void)b;
#if defined __x86_64__
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(a), "+c"(bytes) : : "memory");
#else
    memcpy(to, a, (size_t)bytes);
#endif
}

static void write_string(char *to, const char *a, const char *b, int64_t bytes) {
    (void)a, (void)b;
#if defined __x86_64__
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(1) : "memory");
#else
    memset(to, 1, (size_t)bytes);
#endif
}
