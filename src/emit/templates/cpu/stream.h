/* Stores that leave past the cache, and prefetch. */

/* Where `aligned`, p is a multiple of the vector's size and the store goes past the cache; elsewhere it is an
 * ordinary one. The half-lines of 16-bit results meet in a write-combining buffer. */
static inline void vf_stream_f32(float *p, vf x, bool aligned) {
#if defined __AVX512F__ || defined __AVX2__
    if (aligned)
        __asm__("vmovntps %1, %0" : "=m"(*(vf_loose *)p) : "v"(x));
    else
        *(vf_loose *)p = x;
#elif defined __SSE2__
    if (aligned)
        __asm__("movntps %1, %0" : "=m"(*(vf_loose *)p) : "x"(x));
    else
        *(vf_loose *)p = x;
#else
    (void)aligned;
    *(vf_loose *)p = x;
#endif
}

static inline void vi_stream_i32(int32_t *p, vi x, bool aligned) {
    vf_stream_f32((float *)(void *)p, (vf)x, aligned);
}

static inline void vu16_stream(uint16_t *p, vu16 x, bool aligned) {
#if defined __AVX512F__ || defined __AVX2__
    if (aligned)
        __asm__("vmovntdq %1, %0" : "=m"(*(vu16_loose *)p) : "v"(x));
    else
        *(vu16_loose *)p = x;
#else
    (void)aligned;
    *(vu16_loose *)p = x;
#endif
}

static inline void vf_stream_bf16(uint16_t *p, vf x, bool aligned) {
    vu16_stream(p, vu16_bf16(x), aligned);
}

static inline void vf_stream_pair_bf16(uint16_t *p, vf low, vf high, bool tiny, bool long_nan, bool aligned) {
    vf_stream_f32((float *)(void *)p, (vf)vu_pair_bf16(low, high, tiny, long_nan), aligned);
}

static inline void vf_stream_even_odd_bf16(uint16_t *p, vf first, vf second, bool tiny, bool long_nan,
                                           bool aligned) {
    vf_stream_f32((float *)(void *)p, (vf)vu_even_odd_bf16(first, second, tiny, long_nan), aligned);
}

static inline void vf_stream_f16(uint16_t *p, vf x, bool aligned) {
    vu16_stream(p, vu16_f16(x), aligned);
}

/* Whole vectors of `bytes` in all leave a buffer. */
static inline void stream_late(void *to, const void *from, int64_t bytes, bool aligned) {
    for (int64_t i = 0; i < bytes; i += 4 * HR_LANES)
        vf_stream_f32((float *)(void *)((char *)to + i),
                      vf_load_f32((const float *)(const void *)((const char *)from + i)), aligned);
}

/* How many elements of `size` bytes stand before the next multiple of `vectors` vectors of them. */
static inline int64_t stream_head(const void *p, int size, int vectors) {
    return (int64_t)((-(uintptr_t)p & (uintptr_t)(vectors * HR_LANES * size - 1)) / (uintptr_t)size);
}

/* Where results from element i on begin to stand at multiples of `vectors` vectors: `last` where that is
 * beyond it, or never. */
static inline int64_t stream_begin(const void *p, int size, int vectors, int64_t i, int64_t last) {
    const char *at = (const char *)p + i * size;
    int64_t head = stream_head(at, size, vectors);
    return (uintptr_t)at % (uintptr_t)size || last - i < head ? last : i + head;
}

static inline bool stream_aligned(const void *p, int size, int vectors) {
    return ((uintptr_t)p & (uintptr_t)(vectors * HR_LANES * size - 1)) == 0;
}

/* Whether `bytes` from p on are whole cache lines: half a line that leaves alone is merged with what memory
 * holds. */
static inline bool stream_lines(const void *p, int64_t bytes) {
    return (((uintptr_t)p | (uintptr_t)bytes) & 63) == 0;
}

/* Orders streamed stores before whatever tells another thread of them. */
static inline void stream_end(void) {
#if defined __SSE2__
    __asm__ volatile("sfence" ::: "memory");
#endif
}

/* 0, once what p points at has been read: what is computed from it waits so long. */
static inline int64_t once_read(const void *p) {
#if defined __x86_64__
    int64_t zero;
    __asm__("movl %1, %k0\n\tandl $0, %k0" : "=r"(zero) : "m"(*(const char(*)[4])p) : "cc");
    return zero;
#else
    (void)p;
    return 0;
#endif
}

/* Into the second-level cache. Assembly, because gcc 12 drops calls of functions that do nothing but
 * prefetch. */
static inline void prefetch_read(const void *p) {
#if defined __SSE2__
    __asm__ volatile("prefetcht1 %0" ::"m"(*(const char *)p));
#else
    __builtin_prefetch(p, 0, 2);
#endif
}

/* How many rows after this one the first row is that lies so many elements ahead */
static inline int64_t rows_ahead(int64_t row, int64_t elements) {
    return row > 0 && row < elements ? (elements + row - 1) / row : 1;
}

/* Into the first-level cache. */
static inline void prefetch_near(const void *p) {
#if defined __SSE2__
    __asm__ volatile("prefetcht0 %0" ::"m"(*(const char *)p));
#else
    __builtin_prefetch(p, 0, 3);
#endif
}

/* To be written, into the first-level cache */
static inline void prefetch_write(const void *p) {
#if defined __SSE2__
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1, 3);
#endif
}

/* The line in which a row ends, unless it is whole, takes ordinary stores, each of which would hold up all
 * that come after it until the line is there. */
static inline void stream_prefetch_end(const void *end, int size, int vectors) {
    if (!stream_aligned(end, size, vectors)) prefetch_write(end);
}

/* Results that are put together in cache and leave past it in whole lines: `held` bytes from `from` on, of
 * which the first `before` are not ours. `to`: the line where they begin. */
typedef struct collector {
    char *from, *to;
    int64_t held, before;
} collector;

static inline collector collector_of(char *from, void *to) {
    const int64_t before = (int64_t)((uintptr_t)to & 63);
    return (collector){from, (char *)to - before, before, before};
}

/* Where the next results are put; 64 bytes beyond them are read. */
static inline void *collector_place(const collector *c) {
    return c->from + c->held;
}

/* So many bytes more are there: the whole lines leave. */
static inline void collector_leave(collector *c, int64_t bytes) {
    const int64_t held = c->held + bytes, lines = held / 64 * 64;
    const int64_t shared = c->before && lines ? 64 : 0;
    if (shared) {
        memcpy(c->to + c->before, c->from + c->before, (size_t)(64 - c->before));
        c->before = 0;
    }
    for (int64_t i = shared; i < lines; i += 4 * HR_LANES)
        vf_stream_f32((float *)(void *)(c->to + i), vf_load_f32((const float *)(const void *)(c->from + i)),
                      true);
    if (lines) memcpy(c->from, c->from + lines, 64);
    c->to += lines;
    c->held = held - lines;
}

/* The last line, of which we have a part. */
static inline void collector_end(const collector *c) {
    if (c->held > c->before) memcpy(c->to + c->before, c->from + c->before, (size_t)(c->held - c->before));
}

/* What has not left is stored; what comes next begins at `to`. */
static inline void collector_pass(collector *c, void *to) {
    collector_end(c);
    *c = collector_of(c->from, to);
}

/* Where the first element of an array would stand, of which the strip that begins `bytes` into it stands at
 * `area`. */
static inline void *strip_origin(char *area, int64_t bytes) {
    return (void *)((uintptr_t)area - (uintptr_t)bytes);
}
