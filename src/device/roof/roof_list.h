/* What is measured, by name: shared by the code that measures (src/device/roof_cpu.c) and by the text that is
 * compiled for the machine at hand (roof_entry.h). A later name of a row may differ only in how it does the
 * same work.
 */

/* name, operation, lines a step, pages side by side, bytes that are prefetched ahead, the cache that they are
 * asked into (3 = first, 2 = second, as __builtin_prefetch counts), past the caches */
#define ROOF_STREAMS(X)                                                                                      \
    X(read_4, READ, 4, 1, 0, 3, 0)                                                                           \
    X(read_8, READ, 8, 1, 0, 3, 0)                                                                           \
    X(read_4_1k, READ, 4, 1, 1024, 3, 0)                                                                     \
    X(read_1_1536_second, READ, 1, 1, 1536, 2, 0)                                                            \
    X(read_1_2k_second, READ, 1, 1, 2048, 2, 0)                                                              \
    X(read_1_3k_second, READ, 1, 1, 3072, 2, 0)                                                              \
    X(read_1_8k_second, READ, 1, 1, 8192, 2, 0)                                                              \
    X(read_2_1k_second, READ, 2, 1, 1024, 2, 0)                                                              \
    X(read_4_4_pages, READ, 4, 4, 0, 3, 0)                                                                   \
    X(read_1_8_pages, READ, 1, 8, 0, 3, 0)                                                                   \
    X(write_4, WRITE, 4, 1, 0, 3, 0)                                                                         \
    X(write_8, WRITE, 8, 1, 0, 3, 0)                                                                         \
    X(write_past_1_1_pages, WRITE, 1, 1, 0, 3, 1)                                                            \
    X(write_past_4_1_pages, WRITE, 4, 1, 0, 3, 1)                                                            \
    X(write_past_4_2_pages, WRITE, 4, 2, 0, 3, 1)                                                            \
    X(write_past_4_8_pages, WRITE, 4, 8, 0, 3, 1)                                                            \
    X(copy_4, COPY, 4, 1, 0, 3, 0)                                                                           \
    X(copy_8, COPY, 8, 1, 0, 3, 0)                                                                           \
    X(copy_4_1k, COPY, 4, 1, 1024, 3, 0)                                                                     \
    X(copy_past_4, COPY, 4, 1, 0, 3, 1)                                                                      \
    X(copy_past_4_1k, COPY, 4, 1, 1024, 3, 1)                                                                \
    X(copy_past_1_2k, COPY, 1, 1, 2048, 3, 1)                                                                \
    X(copy_past_1_1k_second, COPY, 1, 1, 1024, 2, 1)                                                         \
    X(copy_past_1_2k_second, COPY, 1, 1, 2048, 2, 1)                                                         \
    X(copy_past_1_4k_second, COPY, 1, 1, 4096, 2, 1)                                                         \
    X(copy_past_1_8k_second, COPY, 1, 1, 8192, 2, 1)                                                         \
    X(copy_past_1_16k_second, COPY, 1, 1, 16384, 2, 1)                                                       \
    X(copy_past_2_2k_second, COPY, 2, 1, 2048, 2, 1)                                                         \
    X(copy_past_8_2_pages, COPY, 8, 2, 0, 3, 1)                                                              \
    X(copy_past_1_3_pages, COPY, 1, 3, 0, 3, 1)                                                              \
    X(copy_past_1_4_pages, COPY, 1, 4, 0, 3, 1)                                                              \
    X(copy_past_4_4_pages, COPY, 4, 4, 0, 3, 1)                                                              \
    X(copy_past_1_6_pages, COPY, 1, 6, 0, 3, 1)                                                              \
    X(triad_4, TRIAD, 4, 1, 0, 3, 0)                                                                         \
    X(triad_8, TRIAD, 8, 1, 0, 3, 0)                                                                         \
    X(triad_past_4, TRIAD, 4, 1, 0, 3, 1)                                                                    \
    X(triad_past_2_1k, TRIAD, 2, 1, 1024, 3, 1)                                                              \
    X(triad_past_8_768, TRIAD, 8, 1, 768, 3, 1)                                                              \
    X(triad_past_1_2k_second, TRIAD, 1, 1, 2048, 2, 1)                                                       \
    X(triad_past_1_3k_second, TRIAD, 1, 1, 3072, 2, 1)                                                       \
    X(triad_past_1_4k_second, TRIAD, 1, 1, 4096, 2, 1)                                                       \
    X(triad_past_4_1k_second, TRIAD, 4, 1, 1024, 2, 1)                                                       \
    X(triad_past_4_4_pages, TRIAD, 4, 4, 0, 3, 1)

/* name, unit of the roof: each runs tuning[3] rounds on registers alone */
#define ROOF_UNITS(X)                                                                                        \
    X(fma_f32, F32)                                                                                          \
    X(fma_f64, F64)                                                                                          \
    X(fma_f16, F16)                                                                                          \
    X(dot_bf16, BF16)                                                                                        \
    X(multiply_add_i32, I32)                                                                                 \
    X(add_i32, I32)                                                                                          \
    X(dot_i8, I8)                                                                                            \
    X(add_i8, I8)                                                                                            \
    X(tile_bf16, TILE_BF16)                                                                                  \
    X(tile_i8, TILE_I8)

enum roof_kernel {
#define ROOF_NAME(name, ...) ROOF_##name,
    ROOF_STREAMS(ROOF_NAME) ROOF_UNITS(ROOF_NAME)
#undef ROOF_NAME
        ROOF_copy_string,
    ROOF_write_string,
    ROOF_empty,
    ROOF_KERNELS
};

enum roof_operation { ROOF_READ, ROOF_WRITE, ROOF_COPY, ROOF_TRIAD, ROOF_OPERATIONS };
