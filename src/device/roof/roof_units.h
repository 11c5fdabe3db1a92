/* Arithmetic on registers alone: enough independent chains to hide the latency of the unit.
 *
 * Each function runs `rounds` rounds and returns the operations that it did, 0 where the machine has no such
 * unit.
 */
#if defined __x86_64__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined __AVX512F__ || defined __aarch64__
#define CHAINS 16
#else
#define CHAINS 12
#endif

#define UNIT(name, type, operations, with, by, STEP)                                                         \
    static double name(int64_t rounds) {                                                                     \
        type chain[CHAINS], x = (type){0} + (with), y = (type){0} + (by);                                    \
        USE(x);                                                                                              \
        USE(y);                                                                                              \
        _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) chain[i] = x;                              \
        for (int64_t round = 0; round < rounds; round++)                                                     \
            _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) {                                      \
                chain[i] = STEP;                                                                             \
                USE(chain[i]);                                                                               \
            }                                                                                                \
        return (double)rounds * CHAINS * (operations);                                                       \
    }

#define NO_UNIT(name)                                                                                        \
    static double name(int64_t rounds) {                                                                     \
        (void)rounds;                                                                                        \
        return 0;                                                                                            \
    }

typedef double vec_f64 __attribute__((vector_size(VECTOR_BYTES)));
UNIT(fma_f32, vec, 2 * VECTOR_BYTES / 4, 0.5f, 0.25f, chain[i] * x + y)
UNIT(fma_f64, vec_f64, 2 * VECTOR_BYTES / 8, 0.5, 0.25, chain[i] * x + y)

#if defined __AVX2__ || !(defined __x86_64__)
#define WHOLE_BYTES VECTOR_BYTES
#else
#define WHOLE_BYTES 16
#endif
typedef uint32_t vec_i32 __attribute__((vector_size(WHOLE_BYTES)));
typedef uint8_t vec_i8 __attribute__((vector_size(WHOLE_BYTES)));
UNIT(multiply_add_i32, vec_i32, 2 * WHOLE_BYTES / 4, 3, 7, chain[i] * x + y)
UNIT(add_i32, vec_i32, WHOLE_BYTES / 4, 3, 7, chain[i] + y)
#if defined __AVX512BW__ || !defined __AVX512F__
UNIT(add_i8, vec_i8, WHOLE_BYTES, 3, 7, chain[i] + y)
#else
NO_UNIT(add_i8)
#endif

#if defined __AVX512FP16__ || defined __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
typedef _Float16 vec_f16 __attribute__((vector_size(VECTOR_BYTES)));
UNIT(fma_f16, vec_f16, 2 * VECTOR_BYTES / 2, (_Float16)0.5f, (_Float16)0.25f, chain[i] * x + y)
#else
NO_UNIT(fma_f16)
#endif

#if defined __AVX512BF16__
#define DOT_BF16(c, x, y) (vec) _mm512_dpbf16_ps((__m512)(c), (__m512bh)(x), (__m512bh)(y))
UNIT(dot_bf16, vec, 4 * 16, 0.5f, 0.25f, DOT_BF16(chain[i], x, y))
#else
NO_UNIT(dot_bf16)
#endif

#if defined __AVX512VNNI__
#define DOT_I8(c, x, y) (vec_i32) _mm512_dpbusd_epi32((__m512i)(c), (__m512i)(x), (__m512i)(y))
UNIT(dot_i8, vec_i32, 8 * 16, 3, 7, DOT_I8(chain[i], x, y))
#elif defined __AVXVNNI__
#define DOT_I8(c, x, y) (vec_i32) _mm256_dpbusd_avx_epi32((__m256i)(c), (__m256i)(x), (__m256i)(y))
UNIT(dot_i8, vec_i32, 8 * 8, 3, 7, DOT_I8(chain[i], x, y))
#else
NO_UNIT(dot_i8)
#endif

/* clang 14 calls the features by other names. */
#if defined __AMXTILE__ && !defined __AMX_TILE__
#define __AMX_TILE__ 1
#endif
#if defined __AMXBF16__ && !defined __AMX_BF16__
#define __AMX_BF16__ 1
#endif
#if defined __AMXINT8__ && !defined __AMX_INT8__
#define __AMX_INT8__ 1
#endif
/* The tile unit: 2 x 2 tiles of sums from 2 + 2 tiles of operands, 16 x 64 bytes each. The system has to be
 * asked for its registers first. */
#if defined __AMX_TILE__
static int tiles_begin(void) {
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } layout = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    if (syscall(SYS_arch_prctl, 0x1023, 18)) return 0;
    _tile_loadconfig(&layout);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    return 1;
}
#define TILE_UNIT(name, PRODUCT, operations)                                                                 \
    static double name(int64_t rounds) {                                                                     \
        if (!tiles_begin()) return 0;                                                                        \
        for (int64_t round = 0; round < rounds; round++) {                                                   \
            PRODUCT(0, 4, 6);                                                                                \
            PRODUCT(1, 4, 7);                                                                                \
            PRODUCT(2, 5, 6);                                                                                \
            PRODUCT(3, 5, 7);                                                                                \
        }                                                                                                    \
        _tile_release();                                                                                     \
        return (double)rounds * 4 * (operations);                                                            \
    }
#endif
#if defined __AMX_BF16__ && defined __AMX_TILE__
TILE_UNIT(tile_bf16, _tile_dpbf16ps, 2 * 16 * 16 * 32)
#else
NO_UNIT(tile_bf16)
#endif
#if defined __AMX_INT8__ && defined __AMX_TILE__
TILE_UNIT(tile_i8, _tile_dpbssd, 2 * 16 * 16 * 64)
#else
NO_UNIT(tile_i8)
#endif
