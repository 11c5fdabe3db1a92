/* What CUDA C has and C++ has not, for emitted source that a host compiler turns into an object for the
 * emulator.
 *
 * Included in front of the source (-include), with HR_EMULATED defined. No header of the system is used: the
 * source brings its own uint32_t and its kin. What waits, exchanges or is atomic goes to the emulator;
 * hr_emulated_* are the names that the emitted prelude asks for in place of its instructions.
 */
#pragma once

typedef __UINT64_TYPE__ emulated_word;

extern "C" {
unsigned emulated_thread_index(void) __attribute__((const, nothrow));
unsigned emulated_block_index(int axis) __attribute__((const, nothrow));
unsigned emulated_block_threads(void) __attribute__((const, nothrow));
unsigned emulated_grid_blocks(int axis) __attribute__((const, nothrow));
void *emulated_shared(void) __attribute__((const, nothrow));
int emulated_barrier(int value);
emulated_word emulated_warp(int kind, unsigned mask, emulated_word value, int argument, int width);
void emulated_cluster_arrive(void);
void emulated_cluster_wait(void);
unsigned emulated_cluster_rank(void);
unsigned emulated_cluster_size(void);
void *emulated_cluster_map(const void *shared, unsigned rank);
void emulated_access(const void *at, __SIZE_TYPE__ bytes, int write, int atomic);
void emulated_copy(void *to, const void *from, __SIZE_TYPE__ bytes, __SIZE_TYPE__ filled);
void emulated_copy_commit(void);
void emulated_copy_wait(int groups_left);
void emulated_fail(const char *sentence);
}

#define __global__
#define __device__
#define __host__
#define __host__
#define __constant__    static const
#define __shared__      static __attribute__((used)) /* all that lies in the object's .bss */
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define __CUDA_ARCH__ 900
#define memcpy        __builtin_memcpy
#define memset        __builtin_memset
#define EMULATED      static inline __attribute__((unused))
#define EMULATED_RAW  static __attribute__((unused, no_sanitize("thread"), noinline))

/* ---- places ---- */

struct emulated_thread_place {
    struct {
        operator unsigned() const { return emulated_thread_index(); }
    } x;
    struct {
        operator unsigned() const { return 0; }
    } y, z;
};
struct emulated_block_place {
    struct {
        operator unsigned() const { return emulated_block_index(0); }
    } x;
    struct {
        operator unsigned() const { return emulated_block_index(1); }
    } y;
    struct {
        operator unsigned() const { return emulated_block_index(2); }
    } z;
};
struct emulated_block_size {
    struct {
        operator unsigned() const { return emulated_block_threads(); }
    } x;
    struct {
        operator unsigned() const { return 1; }
    } y, z;
};
struct emulated_grid_size {
    struct {
        operator unsigned() const { return emulated_grid_blocks(0); }
    } x;
    struct {
        operator unsigned() const { return emulated_grid_blocks(1); }
    } y;
    struct {
        operator unsigned() const { return emulated_grid_blocks(2); }
    } z;
};
static const emulated_thread_place threadIdx = {};
static const emulated_block_place blockIdx = {};
static const emulated_block_size blockDim = {};
static const emulated_grid_size gridDim = {};
static const int warpSize = 32;

/* ---- vectors ---- */

#define EMULATED_VECTOR(type, name, bytes)                                                                   \
    struct __attribute__((aligned(2 * bytes))) name##2 {                                                     \
        type x, y;                                                                                           \
    };                                                                                                       \
    struct name##3 {                                                                                         \
        type x, y, z;                                                                                        \
    };                                                                                                       \
    struct __attribute__((aligned(4 * bytes > 16 ? 16 : 4 * bytes))) name##4 {                               \
        type x, y, z, w;                                                                                     \
    };                                                                                                       \
    EMULATED name##2 make_##name##2(type x, type y) {                                                        \
        return {x, y};                                                                                       \
    }                                                                                                        \
    EMULATED name##4 make_##name##4(type x, type y, type z, type w) {                                        \
        return {x, y, z, w};                                                                                 \
    }
EMULATED_VECTOR(int, int, 4)
EMULATED_VECTOR(unsigned, uint, 4)
EMULATED_VECTOR(float, float, 4)
EMULATED_VECTOR(double, double, 8)
EMULATED_VECTOR(short, short, 2)
EMULATED_VECTOR(unsigned short, ushort, 2)
EMULATED_VECTOR(signed char, char, 1)
EMULATED_VECTOR(unsigned char, uchar, 1)
EMULATED_VECTOR(long long, longlong, 8)
EMULATED_VECTOR(unsigned long long, ulonglong, 8)

/* ---- bits ---- */

template <class To, class From> EMULATED To emulated_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits of one size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
EMULATED unsigned __float_as_uint(float x) {
    return emulated_bits<unsigned>(x);
}
EMULATED int __float_as_int(float x) {
    return emulated_bits<int>(x);
}
EMULATED float __uint_as_float(unsigned x) {
    return emulated_bits<float>(x);
}
EMULATED float __int_as_float(int x) {
    return emulated_bits<float>(x);
}
EMULATED long long __double_as_longlong(double x) {
    return emulated_bits<long long>(x);
}
EMULATED double __longlong_as_double(long long x) {
    return emulated_bits<double>(x);
}
/* The host may have no instruction for it, and its compiler's library is not linked. */
EMULATED int __popc(unsigned x) {
    int count = 0;
    for (; x; x &= x - 1)
        count++;
    return count;
}
EMULATED int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
EMULATED int __ffs(int x) {
    return __builtin_ffs(x);
}
EMULATED unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((emulated_word)a * b >> 32);
}
EMULATED unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    emulated_word both = (emulated_word)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}

/* ---- arithmetic ---- */

/* Of one argument, and of two; each for float, with an f at the end, and for double. */
#define EMULATED_FUNCTIONS(ONE, TWO)                                                                         \
    ONE(exp)                                                                                                 \
    ONE(exp2)                                                                                                \
    ONE(expm1)                                                                                               \
    ONE(log)                                                                                                 \
    ONE(log2)                                                                                                \
    ONE(log1p)                                                                                               \
    ONE(sqrt)                                                                                                \
    ONE(sin)                                                                                                 \
    ONE(cos)                                                                                                 \
    ONE(tanh)                                                                                                \
    ONE(erf)                                                                                                 \
    ONE(erfc)                                                                                                \
    ONE(fabs)                                                                                                \
    ONE(floor)                                                                                               \
    ONE(ceil)                                                                                                \
    ONE(rint)                                                                                                \
    ONE(trunc)                                                                                               \
    ONE(nearbyint)                                                                                           \
    TWO(pow)                                                                                                 \
    TWO(fmin)                                                                                                \
    TWO(fmax)                                                                                                \
    TWO(fmod)                                                                                                \
    TWO(copysign)
#define EMULATED_ONE(name)                                                                                   \
    EMULATED float name##f(float x) {                                                                        \
        return __builtin_##name##f(x);                                                                       \
    }                                                                                                        \
    EMULATED double name(double x) {                                                                         \
        return __builtin_##name(x);                                                                          \
    }
#define EMULATED_TWO(name)                                                                                   \
    EMULATED float name##f(float x, float y) {                                                               \
        return __builtin_##name##f(x, y);                                                                    \
    }                                                                                                        \
    EMULATED double name(double x, double y) {                                                               \
        return __builtin_##name(x, y);                                                                       \
    }
EMULATED_FUNCTIONS(EMULATED_ONE, EMULATED_TWO)

EMULATED float fmaf(float x, float y, float z) {
    return __builtin_fmaf(x, y, z);
}
EMULATED double fma(double x, double y, double z) {
    return __builtin_fma(x, y, z);
}
EMULATED float ldexpf(float x, int n) {
    return __builtin_ldexpf(x, n);
}
EMULATED double ldexp(double x, int n) {
    return __builtin_ldexp(x, n);
}
EMULATED float rsqrtf(float x) {
    return (float)(1 / __builtin_sqrt((double)x));
}
EMULATED double rsqrt(double x) {
    return 1 / __builtin_sqrt(x);
}
EMULATED float normcdff(float x) {
    return (float)(0.5 * __builtin_erfc(-(double)x * 0.70710678118654752440));
}
EMULATED double normcdf(double x) {
    return 0.5 * __builtin_erfc(-x * 0.70710678118654752440);
}
EMULATED float __expf(float x) {
    return __builtin_expf(x);
}
EMULATED float __logf(float x) {
    return __builtin_logf(x);
}
EMULATED float __log2f(float x) {
    return __builtin_log2f(x);
}
EMULATED float __frcp_rn(float x) {
    return 1 / x;
}
EMULATED float __fsqrt_rn(float x) {
    return __builtin_sqrtf(x);
}
EMULATED float __fdiv_rn(float a, float b) {
    return a / b;
}
EMULATED float __fdividef(float a, float b) {
    return a / b;
}
EMULATED float __fmaf_rn(float x, float y, float z) {
    return __builtin_fmaf(x, y, z);
}
EMULATED float __fadd_rn(float a, float b) {
    return a + b;
}
EMULATED float __fmul_rn(float a, float b) {
    return a * b;
}
EMULATED float __saturatef(float x) {
    return x > 0 ? x < 1 ? x : 1 : 0;
}
EMULATED long long llrint(double x) {
    return __builtin_llrint(x);
}
#undef isnan
#undef isinf
EMULATED bool isnan(double x) {
    return x != x;
}
EMULATED bool isinf(double x) {
    return __builtin_isinf(x);
}
template <class T> EMULATED T min(T a, T b) {
    return b < a ? b : a;
}
template <class T> EMULATED T max(T a, T b) {
    return a < b ? b : a;
}

/* A float into a whole number saturates on the machine, NaN becomes 0. */
template <class To> EMULATED To emulated_whole(double x, double low, double high, To least, To most) {
    return x != x ? 0 : x <= low ? least : x >= high ? most : (To)x;
}
EMULATED int __float2int_rz(float x) {
    return emulated_whole<int>(x, -0x1p31, 0x1p31, -0x7fffffff - 1, 0x7fffffff);
}
EMULATED int __double2int_rz(double x) {
    return emulated_whole<int>(x, -0x1p31, 0x1p31, -0x7fffffff - 1, 0x7fffffff);
}
EMULATED int __float2int_rn(float x) {
    return __float2int_rz(__builtin_rintf(x));
}
EMULATED long long __float2ll_rz(float x) {
    return emulated_whole<long long>(x, -0x1p63, 0x1p63, -0x7fffffffffffffffLL - 1, 0x7fffffffffffffffLL);
}
EMULATED long long __double2ll_rz(double x) {
    return emulated_whole<long long>(x, -0x1p63, 0x1p63, -0x7fffffffffffffffLL - 1, 0x7fffffffffffffffLL);
}

/* ---- memory ---- */

template <class T> EMULATED T __ldg(const T *p) {
    return *p;
}
template <class T> EMULATED T __ldcg(const T *p) {
    return *p;
}
template <class T> EMULATED T __ldca(const T *p) {
    return *p;
}
template <class T> EMULATED T __ldcs(const T *p) {
    return *p;
}
template <class T> EMULATED T __ldlu(const T *p) {
    return *p;
}
template <class T> EMULATED void __stwb(T *p, T value) {
    *p = value;
}
template <class T> EMULATED void __stcg(T *p, T value) {
    *p = value;
}
template <class T> EMULATED void __stcs(T *p, T value) {
    *p = value;
}
template <class T> EMULATED void __stwt(T *p, T value) {
    *p = value;
}
EMULATED void __threadfence() {}
EMULATED void __threadfence_block() {}
EMULATED void __threadfence_system() {}

/* Atomic as fibers are: nothing runs in between. */
template <class T, class F> EMULATED_RAW T emulated_atomic(T *p, F change) {
    emulated_access(p, sizeof *p, 1, 1);
    T old = *p;
    *p = change(old);
    return old;
}
#define EMULATED_ATOMIC(name, expression)                                                                    \
    template <class T, class U> EMULATED T name(T *p, U given) {                                             \
        T value = (T)given;                                                                                  \
        return emulated_atomic(p, [=](T old) -> T { return expression; });                                   \
    }
EMULATED_ATOMIC(atomicAdd, old + value)
EMULATED_ATOMIC(atomicSub, old - value)
EMULATED_ATOMIC(atomicMin, value < old ? value : old)
EMULATED_ATOMIC(atomicMax, value > old ? value : old)
EMULATED_ATOMIC(atomicAnd, old &value)
EMULATED_ATOMIC(atomicOr, old | value)
EMULATED_ATOMIC(atomicXor, old ^ value)
EMULATED_ATOMIC(atomicExch, ((void)old, value))
template <class T, class U, class V> EMULATED T atomicCAS(T *p, U expected, V given) {
    T from = (T)expected, to = (T)given;
    return emulated_atomic(p, [=](T old) -> T { return old == from ? to : old; });
}

/* ---- threads ---- */

enum emulated_warp_kind {
    EMULATED_SYNC,
    EMULATED_FROM,
    EMULATED_XOR,
    EMULATED_UP,
    EMULATED_DOWN,
    EMULATED_BALLOT,
    EMULATED_ADD,
    EMULATED_MIN,
    EMULATED_MAX
};
template <class T> EMULATED T emulated_shuffle(int kind, unsigned mask, T value, int argument, int width) {
    emulated_word word = 0;
    __builtin_memcpy(&word, &value, sizeof value);
    word = emulated_warp(kind, mask, word, argument, width);
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
}
template <class T> EMULATED T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
    return emulated_shuffle(EMULATED_FROM, mask, value, lane, width);
}
template <class T> EMULATED T __shfl_xor_sync(unsigned mask, T value, int lane, int width = 32) {
    return emulated_shuffle(EMULATED_XOR, mask, value, lane, width);
}
template <class T> EMULATED T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    return emulated_shuffle(EMULATED_UP, mask, value, (int)by, width);
}
template <class T> EMULATED T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    return emulated_shuffle(EMULATED_DOWN, mask, value, (int)by, width);
}
EMULATED void __syncwarp(unsigned mask = 0xffffffffu) {
    emulated_warp(EMULATED_SYNC, mask, 0, 0, 32);
}
EMULATED unsigned __ballot_sync(unsigned mask, int value) {
    return (unsigned)emulated_warp(EMULATED_BALLOT, mask, value != 0, 0, 32);
}
EMULATED int __any_sync(unsigned mask, int value) {
    return __ballot_sync(mask, value) != 0;
}
EMULATED int __all_sync(unsigned mask, int value) {
    return __ballot_sync(mask, !value) == 0;
}
EMULATED unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    return (unsigned)emulated_warp(EMULATED_ADD, mask, value, 0, 32);
}
#define EMULATED_REDUCE(name, kind)                                                                          \
    EMULATED unsigned name(unsigned mask, unsigned value) {                                                  \
        return (unsigned)emulated_warp(kind, mask, value, 0, 32);                                            \
    }                                                                                                        \
    EMULATED int name(unsigned mask, int value) {                                                            \
        return (int)emulated_warp(kind, mask, (unsigned)value, 1, 32);                                       \
    }
EMULATED_REDUCE(__reduce_min_sync, EMULATED_MIN)
EMULATED_REDUCE(__reduce_max_sync, EMULATED_MAX)
EMULATED void __syncthreads() {
    emulated_barrier(0);
}
EMULATED int __syncthreads_count(int value) {
    return emulated_barrier(value);
}
EMULATED int __syncthreads_or(int value) {
    return emulated_barrier(value) != 0;
}
EMULATED int __syncthreads_and(int value) {
    return emulated_barrier(!value) == 0;
}

/* ---- what the emitted prelude asks for ---- */

EMULATED unsigned short hr_emulated_bf16(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
EMULATED float hr_emulated_f32_from_f16(unsigned short x) {
    unsigned exponent = x >> 10 & 31, fraction = x & 1023;
    float value = exponent == 31 ? (fraction ? __builtin_nanf("") : __builtin_inff())
                  : exponent     ? __builtin_ldexpf((float)(fraction + 1024), (int)exponent - 25)
                                 : __builtin_ldexpf((float)fraction, -24);
    return x & 0x8000 ? -value : value;
}
EMULATED unsigned short hr_emulated_f16(float x) {
    unsigned sign = __float_as_uint(x) >> 16 & 0x8000;
    float magnitude = __builtin_fabsf(x);
    if (x != x) return 0x7fff;
    if (magnitude >= 65520) return (unsigned short)(sign | 0x7c00);
    if (magnitude < 0x1p-14f) return (unsigned short)(sign | (unsigned)__builtin_rintf(magnitude * 0x1p24f));
    unsigned bits = __float_as_uint(magnitude);
    bits += 0xfff + (bits >> 13 & 1);
    return (unsigned short)(sign | ((bits >> 13) - (112 << 10)));
}
EMULATED int hr_emulated_cluster_rank() {
    return (int)emulated_cluster_rank();
}
EMULATED int hr_emulated_cluster_size() {
    return (int)emulated_cluster_size();
}
EMULATED void hr_emulated_cluster_arrive() {
    emulated_cluster_arrive();
}
EMULATED void hr_emulated_cluster_wait() {
    emulated_cluster_wait();
}
EMULATED void hr_emulated_cluster_barrier() {
    emulated_cluster_arrive();
    emulated_cluster_wait();
}
EMULATED_RAW void hr_emulated_cluster_store(void *place, int rank, const void *value, __SIZE_TYPE__ bytes) {
    void *there = emulated_cluster_map(place, (unsigned)rank);
    emulated_access(there, bytes, 1, 0);
    __builtin_memcpy(there, value, bytes);
}
EMULATED_RAW void hr_emulated_cluster_load(void *value, const void *place, int rank, __SIZE_TYPE__ bytes) {
    const void *there = emulated_cluster_map(place, (unsigned)rank);
    emulated_access(there, bytes, 0, 0);
    __builtin_memcpy(value, there, bytes);
}
EMULATED void *hr_emulated_cluster_map(const void *place, int rank) {
    return emulated_cluster_map(place, (unsigned)rank);
}
EMULATED unsigned char *hr_emulated_shared() {
    return (unsigned char *)emulated_shared();
}
EMULATED void hr_emulated_copy_async(void *to, const void *from, int bytes, int filled) {
    emulated_copy(to, from, (__SIZE_TYPE__)bytes, (__SIZE_TYPE__)filled);
}
EMULATED void hr_emulated_copy_commit() {
    emulated_copy_commit();
}
EMULATED void hr_emulated_copy_wait(int groups_left) {
    emulated_copy_wait(groups_left);
}

#include "support/cuda_emulated_ptx.h"

/* ---- how the emulator calls a kernel ---- */

template <int... I> struct emulated_numbers {};
template <int N, int... I> struct emulated_count : emulated_count<N - 1, N - 1, I...> {};
template <int... I> struct emulated_count<0, I...> { typedef emulated_numbers<I...> numbers; };
template <class... Values, int... I>
EMULATED_RAW void emulated_call_with(void (*entry)(Values...), const void *const *parameters,
                                     emulated_numbers<I...>) {
    entry(*(const Values *)parameters[I]...);
}
template <class... Values>
EMULATED void emulated_call(void (*entry)(Values...), const void *const *parameters) {
    emulated_call_with(entry, parameters, typename emulated_count<sizeof...(Values)>::numbers());
}
