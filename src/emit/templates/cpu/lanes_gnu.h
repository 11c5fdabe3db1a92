/* 32-bit lanes in GNU vectors: eight with AVX2, FMA and F16C, four on everything else.
 *
 * A mask is a vector of 0 and -1.
 */
#if defined __AVX2__ && defined __FMA__ && defined __F16C__
#define HR_AVX2  1
#define HR_LANES 8
#else
#define HR_AVX2  0
#define HR_LANES 4
#endif
typedef float vf __attribute__((vector_size(4 * HR_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * HR_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * HR_LANES)));
typedef vi vm;
typedef uint16_t vu16 __attribute__((vector_size(2 * HR_LANES)));
typedef int16_t vi16 __attribute__((vector_size(2 * HR_LANES)));
typedef uint8_t vu8 __attribute__((vector_size(HR_LANES)));
typedef int8_t vi8 __attribute__((vector_size(HR_LANES)));

typedef uint8_t vb __attribute__((vector_size(4 * HR_LANES)));

static inline vf vf_of(float x) {
    return x - (vf){0};
}

static inline vi vi_of(int32_t x) {
    return x - (vi){0};
}

static inline vi vi_iota(void) {
#if HR_AVX2
    return (vi){0, 1, 2, 3, 4, 5, 6, 7};
#else
    return (vi){0, 1, 2, 3};
#endif
}

/* ---- narrow whole numbers, widened: gcc 12 would do it in two halves ---- */

static inline vi vi_from_vu16(vu16 x) {
#if HR_AVX2
    vi r;
    __asm__("vpmovzxwd %1, %0" : "=x"(r) : "xm"(x));
    return r;
#else
    return __builtin_convertvector(x, vi);
#endif
}

static inline vi vi_from_vi16(vi16 x) {
#if HR_AVX2
    vi r;
    __asm__("vpmovsxwd %1, %0" : "=x"(r) : "xm"(x));
    return r;
#else
    return __builtin_convertvector(x, vi);
#endif
}

static inline vi vi_from_vu8(vu8 x) {
#if HR_AVX2
    vi r;
    __asm__("vpmovzxbd %1, %0" : "=x"(r) : "xm"(x));
    return r;
#else
    return __builtin_convertvector(x, vi);
#endif
}

static inline vi vi_from_vi8(vi8 x) {
#if HR_AVX2
    vi r;
    __asm__("vpmovsxbd %1, %0" : "=x"(r) : "xm"(x));
    return r;
#else
    return __builtin_convertvector(x, vi);
#endif
}

/* ---- masks ---- */

static inline vm vm_of(bool x) {
    return vi_of(-x);
}

static inline vm vm_first(int count) {
    return vi_iota() < vi_of(count);
}

/* This lane alone; none where there is no such lane. */
static inline vm vm_at(int64_t lane) {
    return vi_iota() == vi_of(lane >= 0 && lane < HR_LANES ? (int32_t)lane : -1);
}

static inline vm vm_and(vm a, vm b) {
    return a & b;
}

static inline vm vm_or(vm a, vm b) {
    return a | b;
}

static inline vm vm_not(vm a) {
    return ~a;
}

static inline vm vm_select(vm m, vm a, vm b) {
    return (m & a) | (~m & b);
}

static inline vm vf_lt(vf a, vf b) {
    return a < b;
}

static inline vm vf_le(vf a, vf b) {
    return a <= b;
}

static inline vm vf_eq(vf a, vf b) {
    return a == b;
}

static inline vm vf_ne(vf a, vf b) {
    return a != b;
}

static inline vm vi_lt(vi a, vi b) {
    return a < b;
}

static inline vm vi_le(vi a, vi b) {
    return a <= b;
}

static inline vm vi_eq(vi a, vi b) {
    return a == b;
}

static inline vm vi_ne(vi a, vi b) {
    return a != b;
}

static inline vi vi_select(vm m, vi a, vi b) {
#if HR_AVX2
    vi r;
    __asm__("vblendvps %3, %2, %1, %0" : "=x"(r) : "x"(b), "x"(a), "x"(m));
    return r;
#else
    return (m & a) | (~m & b);
#endif
}

static inline vf vf_select(vm m, vf a, vf b) {
    return (vf)vi_select(m, (vi)a, (vi)b);
}

static inline vi vi_from_vm(vm m) {
    return m & vi_of(1);
}

static inline vi vi_max(vi a, vi b) {
#if HR_AVX2
    vi r;
    __asm__("vpmaxsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
#else
    return vi_select(a > b, a, b);
#endif
}

static inline vi vi_min(vi a, vi b) {
#if HR_AVX2
    vi r;
    __asm__("vpminsd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
#else
    return vi_select(a < b, a, b);
#endif
}

/* ---- part of a vector: the first `count` lanes, 0 in the others; memory beyond them is not touched ---- */

static inline vi vi_load_part_i32(const int32_t *p, int count) {
#if HR_AVX2
    vi r;
    __asm__("vpmaskmovd %1, %2, %0" : "=x"(r) : "m"(*(const char(*)[32])p), "x"(vm_first(count)));
    return r;
#else
    vi r = {0};
    memcpy(&r, p, 4 * (size_t)count);
    return r;
#endif
}

static inline vf vf_load_part_f32(const float *p, int count) {
    return (vf)vi_load_part_i32((const int32_t *)(const void *)p, count);
}

/* Up to 16 bytes by moves of fixed sizes: no call, and branches that go the same way for all rows. */
typedef uint64_t part_bytes __attribute__((vector_size(16)));

/* The last ones of `bytes`, fewer than 8 */
static inline uint64_t part_load_rest(const char *p, int bytes) {
    uint64_t r = bytes & 1 ? (uint8_t)p[bytes - 1] : 0;
    uint32_t four;
    uint16_t two;
    if (bytes & 2) {
        memcpy(&two, p + (bytes & 12), 2);
        r = r << 16 | two;
    }
    if (bytes & 4) {
        memcpy(&four, p + (bytes & 8), 4);
        r = r << 32 | four;
    }
    return r;
}

static inline part_bytes part_load(const char *p, int bytes) {
    part_bytes all;
    uint64_t first;
    if (bytes == 16) {
        memcpy(&all, p, 16);
        return all;
    }
    const uint64_t rest = part_load_rest(p, bytes);
    if (bytes < 8) return (part_bytes){rest, 0};
    memcpy(&first, p, 8);
    return (part_bytes){first, rest};
}

static inline void part_store(char *p, part_bytes x, int bytes) {
    uint64_t rest = x[0];
    if (bytes == 16) memcpy(p, &x, 16);
    if (bytes & 8) {
        memcpy(p, &rest, 8);
        rest = x[1], p += 8;
    }
    if (bytes & 4) {
        memcpy(p, &rest, 4);
        rest >>= 32, p += 4;
    }
    if (bytes & 2) {
        memcpy(p, &rest, 2);
        rest >>= 16, p += 2;
    }
    if (bytes & 1) *p = (char)rest;
}

static inline vu16 vu16_load_part(const void *p, int count) {
    const part_bytes bytes = part_load((const char *)p, 2 * count);
    vu16 r;
    memcpy(&r, &bytes, sizeof r);
    return r;
}

static inline vu8 vu8_load_part(const void *p, int count) {
    const part_bytes bytes = part_load((const char *)p, count);
    vu8 r;
    memcpy(&r, &bytes, sizeof r);
    return r;
}

#if defined __clang__ || __GNUC__ >= 12
#define HR_SHUFFLE(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define HR_SHUFFLE(x, ...) __builtin_shuffle(x, (vi){__VA_ARGS__})
#endif

/* No masked store: AMD's cores take twenty operations and more for one. */
static inline void vi_store_part_i32(int32_t *p, vi x, int count) {
    part_bytes bytes;
#if HR_AVX2
    if (count >= 4) {
        memcpy(p, &x, 16);
        x = HR_SHUFFLE(x, 4, 5, 6, 7, 4, 5, 6, 7);
        p += 4, count -= 4;
    }
#endif
    memcpy(&bytes, &x, sizeof bytes);
    part_store((char *)p, bytes, 4 * count);
}

static inline void vf_store_part_f32(float *p, vf x, int count) {
    vi_store_part_i32((int32_t *)(void *)p, (vi)x, count);
}

static inline void vu16_store_part(void *p, vu16 x, int count) {
    part_bytes bytes = {0};
    memcpy(&bytes, &x, sizeof x);
    part_store((char *)p, bytes, 2 * count);
}

static inline void vu8_store_part(void *p, vu8 x, int count) {
    part_bytes bytes = {0};
    memcpy(&bytes, &x, sizeof x);
    part_store((char *)p, bytes, count);
}

/* ---- narrow formats ---- */

/* The lanes as 16 bits, saturated. */
static inline vi16 vi16_saturate(vi x) {
#if HR_AVX2
    vi16 r, high;
    __asm__("vextracti128 $1, %1, %0" : "=x"(high) : "x"(x));
    __asm__("vpackssdw %2, %x1, %0" : "=x"(r) : "x"(x), "x"(high));
    return r;
#else
    return __builtin_convertvector(vi_max(vi_min(x, vi_of(32767)), vi_of(-32768)), vi16);
#endif
}

static inline vi8 vi8_saturate(vi x) {
#if HR_AVX2
    vi16 twice;
    vi8 r;
    __asm__("vpacksswb %1, %1, %0" : "=x"(twice) : "x"(vi16_saturate(x)));
    memcpy(&r, &twice, sizeof r);
    return r;
#else
    return __builtin_convertvector(vi_max(vi_min(x, vi_of(127)), vi_of(-128)), vi8);
#endif
}

static inline vu8 vu8_saturate(vi x) {
#if HR_AVX2
    vi16 twice;
    vu8 r;
    __asm__("vpackuswb %1, %1, %0" : "=x"(twice) : "x"(vi16_saturate(x)));
    memcpy(&r, &twice, sizeof r);
    return r;
#else
    return __builtin_convertvector(vi_max(vi_min(x, vi_of(255)), vi_of(0)), vu8);
#endif
}

/* Of 0 and 1 */
static inline vu8 vu8_of_bools(vi x) {
    return vu8_saturate(x);
}

/* ---- arithmetic without an operator ---- */

/* In one rounding where the machine can. */
static inline vf vf_fma(vf a, vf b, vf c) {
#if defined __clang__ && __has_builtin(__builtin_elementwise_fma) && HR_AVX2
    return __builtin_elementwise_fma(a, b, c);
#elif HR_AVX2
    return __builtin_ia32_vfmaddps256(a, b, c);
#else
    return a * b + c;
#endif
}

/* b where either is NaN */
static inline vf vf_larger(vf a, vf b) {
#if HR_AVX2
    vf r;
    __asm__("vmaxps %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
#else
    return vf_select(a > b, a, b);
#endif
}

/* b where either is NaN */
static inline vf vf_smaller(vf a, vf b) {
#if HR_AVX2
    vf r;
    __asm__("vminps %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
#else
    return vf_select(a < b, a, b);
#endif
}

static inline vf vf_max(vf a, vf b) {
    return vf_select(a == a, vf_larger(a, b), a);
}

static inline vf vf_min(vf a, vf b) {
    return vf_select(a == a, vf_smaller(a, b), a);
}

static inline vf vf_sqrt(vf x) {
#if HR_AVX2
    vf r;
    __asm__("vsqrtps %1, %0" : "=x"(r) : "x"(x));
    return r;
#else
    return (vf){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])};
#endif
}

/* Adding 2^23 leaves no room for a fraction; larger values have none. */
static inline vf vf_round(vf x) {
#if HR_AVX2
    vf r;
    __asm__("vroundps $8, %1, %0" : "=x"(r) : "x"(x));
    return r;
#else
    vi sign = (vi)x & INT32_MIN;
    vf magic = (vf)(sign | (vi)vf_of(0x1p23f));
    vf rounded = (vf)((vi)(x + magic - magic) | sign);
    return vf_select((vf)((vi)x & INT32_MAX) < 0x1p23f, rounded, x);
#endif
}

static inline vf vf_floor(vf x) {
#if HR_AVX2
    vf r;
    __asm__("vroundps $9, %1, %0" : "=x"(r) : "x"(x));
    return r;
#else
    vf r = vf_round(x);
    return r - (vf)((r > x) & (vi)vf_of(1));
#endif
}

static inline vf vf_ceil(vf x) {
#if HR_AVX2
    vf r;
    __asm__("vroundps $10, %1, %0" : "=x"(r) : "x"(x));
    return r;
#else
    vf r = vf_round(x);
    r += (vf)((r < x) & (vi)vf_of(1));
    return (vf)((vi)r | ((vi)x & INT32_MIN));
#endif
}

/* Lane i gets lane i ^ n; n is 4, 2 or 1. */
static inline vf vf_swap(vf x, int n) {
#if HR_AVX2
    return n == 4   ? HR_SHUFFLE(x, 4, 5, 6, 7, 0, 1, 2, 3)
           : n == 2 ? HR_SHUFFLE(x, 2, 3, 0, 1, 6, 7, 4, 5)
                    : HR_SHUFFLE(x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
    return n == 2 ? HR_SHUFFLE(x, 2, 3, 0, 1) : HR_SHUFFLE(x, 1, 0, 3, 2);
#endif
}
