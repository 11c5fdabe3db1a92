/* What follows from the lanes of either instruction set: casts, loads, stores, comparisons, folds.
 *
 * A load or store takes any address. The `_loose` types say so to the compiler, and that they may look at
 * memory of any type.
 */
typedef vf vf_loose __attribute__((aligned(1), may_alias));
typedef vi vi_loose __attribute__((aligned(1), may_alias));
typedef vu16 vu16_loose __attribute__((aligned(1), may_alias));
typedef vi16 vi16_loose __attribute__((aligned(1), may_alias));
typedef vu vu_loose __attribute__((aligned(1), may_alias));
typedef vu8 vu8_loose __attribute__((aligned(1), may_alias));
typedef vi8 vi8_loose __attribute__((aligned(1), may_alias));

static inline vi vf_bits(vf x) {
    return (vi)x;
}

static inline vf vf_of_bits(vi x) {
    return (vf)x;
}

/* As it is: no product that a sum could be fused with */
static inline vf vf_rounded(vf x) {
#if defined __AVX512F__
    __asm__("" : "+v"(x));
#elif defined __SSE2__
    __asm__("" : "+x"(x));
#endif
    return x;
}

/* ---- four bytes a lane ---- */

typedef vb vb_loose __attribute__((aligned(1), may_alias));

static inline vb vb_load(const uint8_t *p) {
    return *(const vb_loose *)p;
}

static inline void vb_store(uint8_t *p, vb x) {
    *(vb_loose *)p = x;
}

static inline vb vb_of(uint8_t x) {
    return x - (vb){0};
}

/* To each lane its products of two numbers of 16 bits: low with low, high with high. */
static inline vi vi_add_pairs(vi sum, vi a, vi b) {
#if HR_LANES == 16
    vi r;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return sum + r;
#elif HR_LANES == 8
    vi r;
    __asm__("vpmaddwd %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return sum + r;
#else
    return sum + ((vi)((vu)a << 16) >> 16) * ((vi)((vu)b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

static inline int32_t word_pair(int32_t low, int32_t high) {
    return (low & 0xffff) | (int32_t)((uint32_t)high << 16);
}

/* To each lane the products of its four bytes with those of a word, which are signed. Exact in all cases:
 * what AVX2 has for bytes saturates. */
static inline vi vi_dot_bytes(vi sum, vb bytes, const int8_t *word) {
#if defined __AVX512VNNI__ && HR_LANES == 16
    int32_t four;
    memcpy(&four, word, sizeof four);
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(vi_of(four)));
    return sum;
#else
    const vi even = (vi)bytes & 0x00ff00ff, odd = (vi)((vu)bytes >> 8) & 0x00ff00ff,
             even_words = vi_of(word_pair(word[0], word[2])), odd_words = vi_of(word_pair(word[1], word[3]));
    return vi_add_pairs(vi_add_pairs(sum, even, even_words), odd, odd_words);
#endif
}

/* ---- masks ---- */

static inline vm vf_gt(vf a, vf b) {
    return vf_lt(b, a);
}

static inline vm vf_ge(vf a, vf b) {
    return vf_le(b, a);
}

static inline vm vi_gt(vi a, vi b) {
    return vi_lt(b, a);
}

static inline vm vi_ge(vi a, vi b) {
    return vi_le(b, a);
}

/* Whether the lane is one of those of the next vectors. */
static inline bool lane_near(int64_t lane, int vectors) {
    return __builtin_expect((uint64_t)lane < (uint64_t)(vectors * HR_LANES), 0);
}

static inline vm vm_from_vi(vi x) {
    return vi_ne(x, vi_of(0));
}

static inline vf vf_from_vm(vm m) {
    return vf_select(m, vf_of(1), vf_of(0));
}

/* The most vectors that a function is done for side by side */
#define HR_WAYS_MOST 8

/* ---- conversions ---- */

static inline vf vf_from_vi(vi x) {
    return __builtin_convertvector(x, vf);
}

/* Truncates and saturates, NaN gives 0. The largest float below 2^31 is 2^31 - 128. */
static inline vi vi_from_vf(vf x) {
    vf inside = vf_larger(vf_smaller(vf_of(2147483520), x), vf_of(-0x1p31f));
    inside = vf_select(vf_eq(x, x), inside, vf_of(0));
    return vi_select(vf_ge(x, vf_of(0x1p31f)), vi_of(INT32_MAX), __builtin_convertvector(inside, vi));
}

/* ---- loads ---- */

static inline vf vf_load_f32(const float *p) {
    return *(const vf_loose *)p;
}

static inline vi vi_load_i32(const int32_t *p) {
    return *(const vi_loose *)p;
}

static inline vi vi_load_i16(const int16_t *p) {
    return vi_from_vi16(*(const vi16_loose *)p);
}

static inline vi vi_load_i8(const int8_t *p) {
    return vi_from_vi8(*(const vi8_loose *)p);
}

static inline vi vi_load_u8(const uint8_t *p) {
    return vi_from_vu8(*(const vu8_loose *)p);
}

static inline vi vi_load_bool(const uint8_t *p) {
    return vi_min(vi_load_u8(p), vi_of(1));
}

static inline vi vi_load_part_i16(const int16_t *p, int count) {
    return vi_from_vi16((vi16)vu16_load_part(p, count));
}

static inline vi vi_load_part_i8(const int8_t *p, int count) {
    return vi_from_vi8((vi8)vu8_load_part(p, count));
}

static inline vi vi_load_part_u8(const uint8_t *p, int count) {
    return vi_from_vu8(vu8_load_part(p, count));
}

static inline vi vi_load_part_bool(const uint8_t *p, int count) {
    return vi_min(vi_load_part_u8(p, count), vi_of(1));
}

/* ---- stores ---- */

static inline void vf_store_f32(float *p, vf x) {
    *(vf_loose *)p = x;
}

static inline void vi_store_i32(int32_t *p, vi x) {
    *(vi_loose *)p = x;
}

static inline void vi_store_i16(int16_t *p, vi x) {
    *(vi16_loose *)p = vi16_saturate(x);
}

static inline void vi_store_i8(int8_t *p, vi x) {
    *(vi8_loose *)p = vi8_saturate(x);
}

static inline void vi_store_u8(uint8_t *p, vi x) {
    *(vu8_loose *)p = vu8_saturate(x);
}

static inline void vi_store_bool(uint8_t *p, vi x) {
    *(vu8_loose *)p = vu8_of_bools(x);
}

static inline void vi_store_part_i16(int16_t *p, vi x, int count) {
    vu16_store_part(p, (vu16)vi16_saturate(x), count);
}

static inline void vi_store_part_i8(int8_t *p, vi x, int count) {
    vu8_store_part(p, (vu8)vi8_saturate(x), count);
}

static inline void vi_store_part_u8(uint8_t *p, vi x, int count) {
    vu8_store_part(p, vu8_saturate(x), count);
}

static inline void vi_store_part_bool(uint8_t *p, vi x, int count) {
    vu8_store_part(p, vu8_of_bools(x), count);
}

static inline vi vi_round_i16(vi x) {
    return vi_max(vi_min(x, vi_of(32767)), vi_of(-32768));
}

static inline vi vi_round_i8(vi x) {
    return vi_max(vi_min(x, vi_of(127)), vi_of(-128));
}

static inline vi vi_round_u8(vi x) {
    return vi_max(vi_min(x, vi_of(255)), vi_of(0));
}

/* ---- folds ---- */

static inline float vf_fold_sum(vf x) {
    for (int n = HR_LANES / 2; n > 0; n /= 2)
        x += vf_swap(x, n);
    return x[0];
}

static inline float vf_fold_prod(vf x) {
    for (int n = HR_LANES / 2; n > 0; n /= 2)
        x *= vf_swap(x, n);
    return x[0];
}

static inline float vf_fold_max(vf x) {
    for (int n = HR_LANES / 2; n > 0; n /= 2)
        x = vf_max(x, vf_swap(x, n));
    return x[0];
}

static inline float vf_fold_min(vf x) {
    for (int n = HR_LANES / 2; n > 0; n /= 2)
        x = vf_min(x, vf_swap(x, n));
    return x[0];
}

static inline int32_t vi_fold_max(vi x) {
    for (int n = HR_LANES / 2; n > 0; n /= 2)
        x = vi_max(x, (vi)vf_swap((vf)x, n));
    return x[0];
}

static inline int32_t vi_fold_min(vi x) {
    for (int n = HR_LANES / 2; n > 0; n /= 2)
        x = vi_min(x, (vi)vf_swap((vf)x, n));
    return x[0];
}

static inline int64_t vi_fold_sum(vi x) {
    int64_t sum = 0;
    for (int lane = 0; lane < HR_LANES; lane++)
        sum += x[lane];
    return sum;
}

/* ---- rows that leave their axis ---- */

/* Whether the lanes i to i + count of a row that begins at `rest` are all on their axis. */
static inline bool row_inside(int64_t rest, int64_t i, int64_t count, int64_t size) {
    int64_t at;
    return !__builtin_add_overflow(rest, i, &at) && at >= 0 && at <= size - count;
}

/* Narrows the lanes between `from` and `to` to those at which such a row is on its axis; none where not
 * `others`. */
static inline void lanes_inside(bool others, int64_t rest, int64_t size, int64_t *from, int64_t *to) {
    int64_t low, high;
    if (!others || __builtin_sub_overflow(0, rest, &low) || __builtin_sub_overflow(size, rest, &high))
        low = high = -1;
    if (low > *from) *from = low;
    if (high < *to) *to = high;
}

typedef struct row_lanes {
    int from, to;
} row_lanes;

/* Those of `count` lanes from i on at which such a row is on its axis; none where not `others`. */
static inline row_lanes lanes_there(bool others, int64_t rest, int64_t i, int count, int64_t size) {
    int64_t at;
    if (!others || __builtin_add_overflow(rest, i, &at) || at <= -count || at >= size)
        return (row_lanes){0, 0};
    return (row_lanes){at < 0 ? (int)-at : 0, size - at < count ? (int)(size - at) : count};
}

static inline bool lanes_missing(vm wanted, row_lanes there, int count) {
    vm here = vm_and(vm_not(vm_first(there.from)), vm_first(there.to));
    return vi_fold_max(vi_from_vm(vm_and(vm_and(wanted, vm_first(count)), vm_not(here)))) != 0;
}

/* ---- squares of vectors ---- */

/* Lanes of the two in turn: the first halves, the second halves. */
#if HR_LANES == 16
#define HR_ZIP_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HR_ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif HR_LANES == 8
#define HR_ZIP_LOW  0, 8, 1, 9, 2, 10, 3, 11
#define HR_ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define HR_ZIP_LOW  0, 4, 1, 5
#define HR_ZIP_HIGH 2, 6, 3, 7
#endif

#if defined __clang__
#define HR_SHUFFLE_TWO(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define HR_SHUFFLE_TWO(x, y, ...) __builtin_shuffle(x, y, (vi){__VA_ARGS__})
#endif

/* Lane i gets lane i / times, a power of two. */
static inline vi vi_repeat(vi x, int times) {
    vi r = x;
#if HR_LANES == 16
    __asm__("vpermd %1, %2, %0" : "=v"(r) : "v"(x), "v"(vi_iota() / times));
#elif HR_LANES == 8
    __asm__("vpermd %1, %2, %0" : "=x"(r) : "x"(x), "x"(vi_iota() / times));
#else
    for (int lane = 0; lane < HR_LANES; lane++)
        r[lane] = x[lane / times];
#endif
    return r;
}

static inline vf vf_repeat(vf x, int times) {
    return (vf)vi_repeat((vi)x, times);
}

/* Lane i gets table[index of lane i % 16]; `table` is aligned and has 16 numbers. */
static inline vf vf_lookup(const float *table, vi index) {
    vf r;
#if HR_LANES == 16
    __asm__("vpermps %1, %2, %0" : "=v"(r) : "v"(*(const vf *)(const void *)table), "v"(index));
#elif HR_LANES == 8
    const vf *const half = (const vf *)(const void *)table;
    vf high;
    __asm__("vpermps %1, %2, %0" : "=x"(r) : "x"(half[0]), "x"(index));
    __asm__("vpermps %1, %2, %0" : "=x"(high) : "x"(half[1]), "x"(index));
    r = vf_select(vi_eq(index & 8, vi_of(0)), r, high);
#else
    for (int lane = 0; lane < HR_LANES; lane++)
        r[lane] = table[index[lane] & 15];
#endif
    return r;
}

/* Lane i of vector k gets lane k of vector i. */
static inline void vf_transpose(vf *square) {
#pragma GCC unroll 4
    for (int round = 1; round < HR_LANES; round *= 2) {
        vf next[HR_LANES];
#pragma GCC unroll 8
        for (int k = 0; k < HR_LANES / 2; k++) {
            next[2 * k] = HR_SHUFFLE_TWO(square[k], square[k + HR_LANES / 2], HR_ZIP_LOW);
            next[2 * k + 1] = HR_SHUFFLE_TWO(square[k], square[k + HR_LANES / 2], HR_ZIP_HIGH);
        }
#pragma GCC unroll 16
        for (int k = 0; k < HR_LANES; k++)
            square[k] = next[k];
    }
}
