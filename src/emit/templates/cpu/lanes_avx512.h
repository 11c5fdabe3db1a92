/* Sixteen 32-bit lanes on AVX-512 (F, BW, DQ, VL).
 *
 * Instructions that GNU C has no operator for are one-line assembly: both compilers take it in every version,
 * and the intrinsics' header would cost more compile time than the kernel that uses it.
 */
typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef uint16_t vm;
typedef uint16_t vu16 __attribute__((vector_size(32)));
typedef int16_t vi16 __attribute__((vector_size(32)));
typedef uint8_t vu8 __attribute__((vector_size(16)));
typedef int8_t vi8 __attribute__((vector_size(16)));
#define HR_LANES 16

typedef uint8_t vb __attribute__((vector_size(64)));

static inline vf vf_of(float x) {
    return x - (vf){0};
}

static inline vi vi_of(int32_t x) {
    return x - (vi){0};
}

static inline vi vi_iota(void) {
    return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* ---- narrow whole numbers, widened: gcc 12 would do it in two halves ---- */

static inline vi vi_from_vu16(vu16 x) {
    vi r;
    __asm__("vpmovzxwd %1, %0" : "=v"(r) : "vm"(x));
    return r;
}

static inline vi vi_from_vi16(vi16 x) {
    vi r;
    __asm__("vpmovsxwd %1, %0" : "=v"(r) : "vm"(x));
    return r;
}

static inline vi vi_from_vu8(vu8 x) {
    vi r;
    __asm__("vpmovzxbd %1, %0" : "=v"(r) : "vm"(x));
    return r;
}

static inline vi vi_from_vi8(vi8 x) {
    vi r;
    __asm__("vpmovsxbd %1, %0" : "=v"(r) : "vm"(x));
    return r;
}

/* ---- masks ---- */

static inline vm vm_of(bool x) {
    return (vm)-x;
}

static inline vm vm_first(int count) {
    return (vm)(0xffffu >> (16 - count));
}

/* This lane alone; none where there is no such lane. */
static inline vm vm_at(int64_t lane) {
    return (vm)(lane >= 0 && lane < HR_LANES ? 1u << lane : 0);
}

static inline vm vm_and(vm a, vm b) {
    return a & b;
}

static inline vm vm_or(vm a, vm b) {
    return a | b;
}

static inline vm vm_not(vm a) {
    return (vm)~a;
}

static inline vm vm_select(vm m, vm a, vm b) {
    return (vm)((m & a) | (~m & b));
}

static inline vm vf_lt(vf a, vf b) {
    vm m;
    __asm__("vcmpltps %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vf_le(vf a, vf b) {
    vm m;
    __asm__("vcmpleps %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vf_eq(vf a, vf b) {
    vm m;
    __asm__("vcmpeqps %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vf_ne(vf a, vf b) {
    vm m;
    __asm__("vcmpneqps %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vi_lt(vi a, vi b) {
    vm m;
    __asm__("vpcmpgtd %1, %2, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vi_le(vi a, vi b) {
    vm m;
    __asm__("vpcmpled %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vi_eq(vi a, vi b) {
    vm m;
    __asm__("vpcmpeqd %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

static inline vm vi_ne(vi a, vi b) {
    vm m;
    __asm__("vpcmpneqd %2, %1, %0" : "=k"(m) : "v"(a), "v"(b));
    return m;
}

/* Not assembly: so the compiler may merge it into the operation before it. */
static inline vi vi_select(vm m, vi a, vi b) {
#if defined __clang__
    return __builtin_ia32_selectd_512(m, a, b);
#else
    return __builtin_ia32_blendmd_512_mask(b, a, m);
#endif
}

static inline vf vf_select(vm m, vf a, vf b) {
#if defined __clang__
    return __builtin_ia32_selectps_512(m, a, b);
#else
    return __builtin_ia32_blendmps_512_mask(b, a, m);
#endif
}

static inline vi vi_from_vm(vm m) {
    return vi_select(m, vi_of(1), vi_of(0));
}

static inline vi vi_max(vi a, vi b) {
    vi r;
    __asm__("vpmaxsd %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return r;
}

static inline vi vi_min(vi a, vi b) {
    vi r;
    __asm__("vpminsd %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return r;
}

/* ---- part of a vector: the first `count` lanes, 0 in the others; memory beyond them is not touched ---- */

static inline vf vf_load_part_f32(const float *p, int count) {
    vf r;
    __asm__("vmovups %1, %0%{%2%}%{z%}" : "=v"(r) : "m"(*(const char(*)[64])p), "Yk"(vm_first(count)));
    return r;
}

static inline vi vi_load_part_i32(const int32_t *p, int count) {
    vi r;
    __asm__("vmovdqu32 %1, %0%{%2%}%{z%}" : "=v"(r) : "m"(*(const char(*)[64])p), "Yk"(vm_first(count)));
    return r;
}

static inline vu16 vu16_load_part(const void *p, int count) {
    vu16 r;
    __asm__("vmovdqu16 %1, %0%{%2%}%{z%}" : "=v"(r) : "m"(*(const char(*)[32])p), "Yk"(vm_first(count)));
    return r;
}

static inline vu8 vu8_load_part(const void *p, int count) {
    vu8 r;
    if (__builtin_constant_p(count) && count == 8) { /* a plain load needs no mask */
        typedef int64_t half_loose __attribute__((aligned(1), may_alias));
        typedef int64_t halves __attribute__((vector_size(16)));
        return (vu8)(halves){*(const half_loose *)p, 0};
    }
    __asm__("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(r) : "m"(*(const char(*)[16])p), "Yk"(vm_first(count)));
    return r;
}

static inline void vf_store_part_f32(float *p, vf x, int count) {
    __asm__("vmovups %1, %0%{%2%}" : "+m"(*(char(*)[64])p) : "v"(x), "Yk"(vm_first(count)));
}

static inline void vi_store_part_i32(int32_t *p, vi x, int count) {
    __asm__("vmovdqu32 %1, %0%{%2%}" : "+m"(*(char(*)[64])p) : "v"(x), "Yk"(vm_first(count)));
}

static inline void vu16_store_part(void *p, vu16 x, int count) {
    __asm__("vmovdqu16 %1, %0%{%2%}" : "+m"(*(char(*)[32])p) : "v"(x), "Yk"(vm_first(count)));
}

static inline void vu8_store_part(void *p, vu8 x, int count) {
    __asm__("vmovdqu8 %1, %0%{%2%}" : "+m"(*(char(*)[16])p) : "v"(x), "Yk"(vm_first(count)));
}

/* ---- narrow formats ---- */

static inline vi16 vi16_saturate(vi x) {
    vi16 r;
    __asm__("vpmovsdw %1, %0" : "=v"(r) : "v"(x));
    return r;
}

static inline vi8 vi8_saturate(vi x) {
    vi8 r;
    __asm__("vpmovsdb %1, %0" : "=v"(r) : "v"(x));
    return r;
}

static inline vu8 vu8_saturate(vi x) {
    return __builtin_convertvector(vi_max(vi_min(x, vi_of(255)), vi_of(0)), vu8);
}

/* Of 0 and 1 */
static inline vu8 vu8_of_bools(vi x) {
    return __builtin_convertvector(x, vu8);
}

/* ---- arithmetic without an operator ---- */

static inline vf vf_fma(vf a, vf b, vf c) {
#if defined __clang__ && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#else
#if defined __clang__
    return __builtin_ia32_vfmaddps512_mask(a, b, c, (vm)-1, 4);
#else /* whose masks are signed */
    return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
#endif
#endif
}

/* b where either is NaN */
static inline vf vf_larger(vf a, vf b) {
    vf r;
    __asm__("vmaxps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return r;
}

/* b where either is NaN */
static inline vf vf_smaller(vf a, vf b) {
    vf r;
    __asm__("vminps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return r;
}

/* The comparison keeps a NaN in `a`; the instruction itself gives b where b is NaN. */
static inline vf vf_max(vf a, vf b) {
    vm ordered;
    __asm__("vcmpordps %1, %1, %0" : "=k"(ordered) : "v"(a));
    __asm__("vmaxps %1, %0, %0%{%2%}" : "+v"(a) : "v"(b), "Yk"(ordered));
    return a;
}

static inline vf vf_min(vf a, vf b) {
    vm ordered;
    __asm__("vcmpordps %1, %1, %0" : "=k"(ordered) : "v"(a));
    __asm__("vminps %1, %0, %0%{%2%}" : "+v"(a) : "v"(b), "Yk"(ordered));
    return a;
}

static inline vf vf_sqrt(vf x) {
    vf r;
    __asm__("vsqrtps %1, %0" : "=v"(r) : "v"(x));
    return r;
}

static inline vf vf_floor(vf x) {
    vf r;
    __asm__("vrndscaleps $9, %1, %0" : "=v"(r) : "v"(x));
    return r;
}

static inline vf vf_ceil(vf x) {
    vf r;
    __asm__("vrndscaleps $10, %1, %0" : "=v"(r) : "v"(x));
    return r;
}

static inline vf vf_round(vf x) {
    vf r;
    __asm__("vrndscaleps $8, %1, %0" : "=v"(r) : "v"(x));
    return r;
}

/* ---- shuffles ---- */

#if defined __clang__
#define HR_SHUFFLE(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define HR_SHUFFLE(x, ...) __builtin_shuffle(x, (vi){__VA_ARGS__})
#endif

/* Lane i gets lane i ^ n; n is 8, 4, 2 or 1. */
static inline vf vf_swap(vf x, int n) {
    return n == 8   ? HR_SHUFFLE(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
           : n == 4 ? HR_SHUFFLE(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
           : n == 2 ? HR_SHUFFLE(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
                    : HR_SHUFFLE(x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
}
