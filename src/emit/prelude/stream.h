/* Stores that leave past the cache, and prefetch. */

/* p is aligned to the vector's size. */
static inline void vf_stream_f32(float *p, vf x) {
#if defined __AVX512F__ || defined __AVX2__
    __asm__("vmovntps %1, %0" : "=m"(*(vf_loose *)p) : "v"(x));
#elif defined __SSE2__
    __asm__("movntps %1, %0" : "=m"(*(vf_loose *)p) : "x"(x));
#else
    *(vf_loose *)p = x;
#endif
}

/* Orders streamed stores before whatever tells another thread of them. */
static inline void stream_end(void) {
#if defined __SSE2__
    __asm__ volatile("sfence" ::: "memory");
#endif
}

/* Copies from a buffer in L1 past the cache: whole 64-byte lines are streamed, ragged ends stored. */
static inline void stream_out(void *destination, const void *source, int64_t bytes) {
    char *to = (char *)destination;
    const char *from = (const char *)source;
    int64_t head = (int64_t)(-(uintptr_t)to & 63);
    if (head > bytes) head = bytes;
    memcpy(to, from, (size_t)head);
    int64_t i = head;
    for (; i + 64 <= bytes; i += 64)
        for (int part = 0; part < 64; part += (int)sizeof(vf))
            vf_stream_f32((float *)(void *)(to + i + part),
                          *(const vf_loose *)(const void *)(from + i + part));
    memcpy(to + i, from + i, (size_t)(bytes - i));
}

static inline void prefetch_read(const void *p) {
    __builtin_prefetch(p, 0, 3);
}

/* Into the first-level cache: for what is read within the next kilobytes. */
static inline void prefetch_near(const void *p) {
    __builtin_prefetch(p, 0, 3);
}
