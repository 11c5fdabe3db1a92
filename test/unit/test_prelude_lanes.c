/* The emitted code's loads, stores, conversions, masks and folds against the scalar meaning of each dtype.
 *
 * Compiled as plain C, with AVX2 and for the host; each 8- and 16-bit code is loaded, and stores are fed each
 * code's value, the midpoints between codes and what lies next to them.
 */
#include "prelude_all.h"

#include "base/dtype.h"
#include "unit/prelude_host.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define CODES 65536

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static bool same(double a, double b) {
    return a != a ? b != b : a == b && signbit(a) == signbit(b);
}

/* ---- loads ---- */

typedef struct float_format {
    const char *name;
    hr_dtype dtype;
    vf (*load)(const void *p);
    vf (*load_part)(const void *p, int count);
    void (*store)(void *p, vf x);
    void (*store_part)(void *p, vf x, int count);
    vf (*round)(vf x);
    float (*from)(const void *p);
    void (*to)(void *p, float x);
    void (*from_f64)(void *p, double x);
    void (*from_i64)(void *p, int64_t x);
} float_format;

#define FLOAT_FORMAT(S, T)                                                                                   \
    static vf load_##S(const void *p) {                                                                      \
        return vf_load_##S((const T *)p);                                                                    \
    }                                                                                                        \
    static vf load_part_##S(const void *p, int count) {                                                      \
        return vf_load_part_##S((const T *)p, count);                                                        \
    }                                                                                                        \
    static void store_##S(void *p, vf x) {                                                                   \
        vf_store_##S((T *)p, x);                                                                             \
    }                                                                                                        \
    static void store_part_##S(void *p, vf x, int count) {                                                   \
        vf_store_part_##S((T *)p, x, count);                                                                 \
    }                                                                                                        \
    static vf round_##S(vf x) {                                                                              \
        return vf_round_##S(x);                                                                              \
    }                                                                                                        \
    static float from_##S(const void *p) {                                                                   \
        return f32_from_##S(*(const T *)p);                                                                  \
    }                                                                                                        \
    static void to_##S(void *p, float x) {                                                                   \
        *(T *)p = S##_from_f32(x);                                                                           \
    }                                                                                                        \
    static void from_f64_##S(void *p, double x) {                                                            \
        *(T *)p = S##_from_f64(x);                                                                           \
    }                                                                                                        \
    static void from_i64_##S(void *p, int64_t x) {                                                           \
        *(T *)p = S##_from_i64(x);                                                                           \
    }
FLOAT_FORMAT(f16, uint16_t)
FLOAT_FORMAT(bf16, uint16_t)
FLOAT_FORMAT(f8e4m3, uint8_t)
FLOAT_FORMAT(f8e5m2, uint8_t)

#define FLOAT_ROW(S, D)                                                                                      \
    {                                                                                                        \
#S, D, load_##S, load_part_##S, store_##S, store_part_##S, round_##S, from_##S, to_##S,              \
            from_f64_##S, from_i64_##S                                                                       \
    }
static const float_format float_formats[] = {FLOAT_ROW(f16, HR_F16), FLOAT_ROW(bf16, HR_BF16),
                                             FLOAT_ROW(f8e4m3, HR_F8E4M3), FLOAT_ROW(f8e5m2, HR_F8E5M2)};
#define FLOAT_FORMATS (sizeof float_formats / sizeof *float_formats)

static uint32_t code_at(hr_dtype dtype, const void *data, size_t i) {
    return hr_dtype_size(dtype) == 2 ? ((const uint16_t *)data)[i] : ((const uint8_t *)data)[i];
}

static void loads_of_every_code(void **state) {
    (void)state;
    static uint16_t wide[CODES];
    static uint8_t narrow[CODES];
    for (int i = 0; i < CODES; i++)
        wide[i] = (uint16_t)i, narrow[i] = (uint8_t)i;
    for (size_t f = 0; f < FLOAT_FORMATS; f++) {
        const float_format *format = &float_formats[f];
        size_t size = hr_dtype_size(format->dtype);
        const char *data = size == 2 ? (const char *)wide : (const char *)narrow;
        for (int i = 0; i < CODES; i += HR_LANES) {
            int count = i / HR_LANES % (HR_LANES + 1);
            vf whole = format->load(data + size * i), part = format->load_part(data + size * i, count);
            for (int lane = 0; lane < HR_LANES; lane++) {
                double expected = hr_dtype_load(format->dtype, data, (size_t)(i + lane));
                if (!same(whole[lane], expected)) fail_msg("%s load of code %d", format->name, i + lane);
                if (!same(part[lane], lane < count ? expected : 0))
                    fail_msg("%s load of %d lanes at code %d", format->name, count, i + lane);
                if (!same(format->from(data + size * (i + lane)), expected))
                    fail_msg("%s scalar load of code %d", format->name, i + lane);
            }
        }
    }
}

/* ---- stores ---- */

static void check_store(const float_format *format, const float *x) {
    uint64_t room[2 * HR_LANES], expected[2 * HR_LANES];
    memset(room, 0xa5, sizeof room);
    memset(expected, 0xa5, sizeof expected);
    vf v = vf_load_f32(x), rounded = format->round(v);
    format->store(room, v);
    for (int lane = 0; lane < HR_LANES; lane++) {
        uint16_t scalar = 0;
        hr_dtype_store(format->dtype, expected, (size_t)lane, x[lane]);
        format->to(&scalar, x[lane]);
        double want = hr_dtype_load(format->dtype, expected, (size_t)lane);
        double got = hr_dtype_load(format->dtype, room, (size_t)lane);
        if (!same(got, want)) fail_msg("%s store of %a gives %a, not %a", format->name, x[lane], got, want);
        if (!same(rounded[lane], want))
            fail_msg("%s rounding of %a gives %a", format->name, x[lane], rounded[lane]);
        if (!same(hr_dtype_load(format->dtype, &scalar, 0), want))
            fail_msg("%s scalar store of %a gives code %x", format->name, x[lane], scalar);
    }
    size_t bytes = HR_LANES * hr_dtype_size(format->dtype);
    assert_memory_equal((char *)room + bytes, (char *)expected + bytes, sizeof room - bytes);
}

static void stores_around_every_code(void **state) {
    (void)state;
    for (size_t f = 0; f < FLOAT_FORMATS; f++) {
        const float_format *format = &float_formats[f];
        uint32_t codes = hr_dtype_size(format->dtype) == 2 ? 65536 : 256;
        float x[HR_LANES];
        int filled = 0;
        for (uint32_t code = 0; code < codes; code++) {
            uint16_t here = (uint16_t)code, next = (uint16_t)(code + 1);
            float a = (float)hr_dtype_load(format->dtype, &here, 0);
            float b = (float)hr_dtype_load(format->dtype, &next, 0);
            float middle = a / 2 + b / 2;
            float candidates[4] = {a, middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY)};
            for (int i = 0; i < 4; i++) {
                x[filled++] = candidates[i];
                if (filled == HR_LANES) check_store(format, x), filled = 0;
            }
        }
    }
}

static void stores_of_any_float(void **state) {
    (void)state;
    const float special[16] = {0.0f,      -0.0f,      INFINITY,        -INFINITY, NAN,     -NAN,
                               0x1p-149f, -0x1p-149f, 448.f,           464.001f,  57344.f, 61440.f,
                               65519.f,   65520.f,    0x1.fffffep127f, 3e38f};
    for (size_t f = 0; f < FLOAT_FORMATS; f++) {
        for (int i = 0; i < 16; i += HR_LANES)
            check_store(&float_formats[f], special + i);
        uint32_t bits = 12345;
        for (int i = 0; i < 20000; i++) {
            float x[HR_LANES];
            for (int lane = 0; lane < HR_LANES; lane++)
                x[lane] = float_of(bits = bits * 1664525 + 1013904223);
            check_store(&float_formats[f], x);
        }
    }
}

static void part_stores_leave_the_rest(void **state) {
    (void)state;
    for (size_t f = 0; f < FLOAT_FORMATS; f++)
        for (int count = 0; count <= HR_LANES; count++) {
            uint8_t room[2 * HR_LANES];
            memset(room, 0xa5, sizeof room);
            float_formats[f].store_part(room, vf_from_vi(vi_iota()), count);
            for (int lane = 0; lane < HR_LANES; lane++) {
                double got = hr_dtype_load(float_formats[f].dtype, room, (size_t)lane);
                uint32_t code = code_at(float_formats[f].dtype, room, (size_t)lane);
                if (lane < count)
                    assert_true(got == hr_dtype_round(float_formats[f].dtype, lane));
                else
                    assert_int_equal(code & 0xff, 0xa5);
            }
        }
}

/* An f64 and an i64 are rounded once: values next to a midpoint by less than f32 can show. */
static void wide_scalars_round_once(void **state) {
    (void)state;
    for (size_t f = 0; f < FLOAT_FORMATS; f++) {
        const float_format *format = &float_formats[f];
        uint32_t codes = hr_dtype_size(format->dtype) == 2 ? 65536 : 256;
        for (uint32_t code = 0; code + 1 < codes; code++) {
            uint16_t here = (uint16_t)code, next = (uint16_t)(code + 1), got = 0, want = 0;
            double a = hr_dtype_load(format->dtype, &here, 0), b = hr_dtype_load(format->dtype, &next, 0);
            if (a - a != 0 || b - b != 0) continue;
            double middle = (a + b) / 2;
            double candidates[3] = {middle, nextafter(middle, INFINITY), nextafter(middle, -INFINITY)};
            for (int i = 0; i < 3; i++) {
                format->from_f64(&got, candidates[i]);
                hr_dtype_store(format->dtype, &want, 0, candidates[i]);
                if (got != want)
                    fail_msg("%s of %a gives code %x, not %x", format->name, candidates[i], got, want);
            }
        }
        uint64_t bits = 99;
        for (int i = 0; i < 100000; i++) {
            bits = bits * 6364136223846793005u + 1442695040888963407u;
            int64_t x = (int64_t)bits >> (i % 64);
            if (i % 3 == 0) x = (x & ~INT64_C(0xffffffffff)) + (i % 5) - 2;
            uint16_t got = 0, want = 0;
            format->from_i64(&got, x);
            hr_dtype_store_whole(format->dtype, &want, 0, x);
            if (got != want)
                fail_msg("%s of %lld gives code %x, not %x", format->name, (long long)x, got, want);
        }
    }
}

/* ---- whole numbers ---- */

#define CHECK_WHOLE(S, T, D)                                                                                 \
    for (int i = 0; i < 4096; i++) {                                                                         \
        int32_t x[HR_LANES];                                                                                 \
        T got[HR_LANES + 1], want[HR_LANES + 1];                                                             \
        for (int lane = 0; lane < HR_LANES; lane++) {                                                        \
            bits = bits * 1664525 + 1013904223;                                                              \
            x[lane] = (int32_t)bits >> bits % 29;                                                            \
        }                                                                                                    \
        int count = i % (HR_LANES + 1);                                                                      \
        memset(got, 0x5a, sizeof got);                                                                       \
        memset(want, 0x5a, sizeof want);                                                                     \
        vi v = vi_load_i32(x);                                                                               \
        vi_store_##S(got, v);                                                                                \
        for (int lane = 0; lane < HR_LANES; lane++) {                                                        \
            hr_dtype_store_whole(D, want, (size_t)lane, x[lane]);                                            \
            assert_int_equal(S##_from_i32(x[lane]), want[lane]);                                             \
            assert_int_equal(vi_round_##S(v)[lane], want[lane]);                                             \
        }                                                                                                    \
        assert_memory_equal(got, want, sizeof got);                                                          \
        vi whole = vi_load_##S(want), part = vi_load_part_##S(want, count);                                  \
        for (int lane = 0; lane < HR_LANES; lane++) {                                                        \
            assert_int_equal(whole[lane], want[lane]);                                                       \
            assert_int_equal(part[lane], lane < count ? want[lane] : 0);                                     \
        }                                                                                                    \
        memset(got, 0x5a, sizeof got);                                                                       \
        vi_store_part_##S(got, v, count);                                                                    \
        assert_memory_equal(got, want, (size_t)count * sizeof(T));                                           \
        for (int lane = count; lane <= HR_LANES; lane++)                                                     \
            assert_memory_equal(&got[lane], &want[HR_LANES], sizeof(T));                                     \
    }

static vi vi_round_i32(vi x) {
    return x;
}

static void whole_loads_and_stores(void **state) {
    (void)state;
    uint32_t bits = 7;
    CHECK_WHOLE(i32, int32_t, HR_I32)
    CHECK_WHOLE(i16, int16_t, HR_I16)
    CHECK_WHOLE(i8, int8_t, HR_I8)
    CHECK_WHOLE(u8, uint8_t, HR_U8)
}

static void f32_parts(void **state) {
    (void)state;
    for (int count = 0; count <= HR_LANES; count++) {
        float x[HR_LANES], y[HR_LANES];
        for (int lane = 0; lane < HR_LANES; lane++)
            x[lane] = 1.5f + (float)lane, y[lane] = -1;
        vf part = vf_load_part_f32(x, count);
        vf_store_part_f32(y, vf_load_f32(x), count);
        for (int lane = 0; lane < HR_LANES; lane++) {
            assert_true(part[lane] == (lane < count ? x[lane] : 0));
            assert_true(y[lane] == (lane < count ? x[lane] : -1));
        }
    }
}

static void bools(void **state) {
    (void)state;
    uint8_t x[HR_LANES], y[HR_LANES + 1];
    for (int lane = 0; lane < HR_LANES; lane++)
        x[lane] = lane % 3 == 1 ? 1 : lane % 3 == 2 ? 255 : 0;
    for (int count = 0; count <= HR_LANES; count++) {
        memset(y, 9, sizeof y);
        vi all = vi_load_bool(x), part = vi_load_part_bool(x, count);
        vi_store_part_bool(y, all, count);
        for (int lane = 0; lane < HR_LANES; lane++) {
            assert_int_equal(all[lane], x[lane] != 0);
            assert_int_equal(part[lane], lane < count && x[lane] != 0);
            assert_int_equal(y[lane], lane < count ? x[lane] != 0 : 9);
        }
        vi_store_bool(y, all);
        assert_int_equal(y[HR_LANES - 1], x[HR_LANES - 1] != 0);
        assert_int_equal(y[HR_LANES], 9);
    }
}

static void floats_to_whole(void **state) {
    (void)state;
    const float special[16] = {NAN,         -NAN,     INFINITY,      -INFINITY,      0x1p31f, -0x1p31f,
                               2147483520., -0x1p32f, 0.99f,         -0.99f,         -1.5f,   1.5f,
                               1e30f,       -1e30f,   -2147483520.f, 0x1.fffffep127f};
    uint32_t bits = 3;
    for (int i = 0; i < 5000; i++) {
        float x[HR_LANES];
        for (int lane = 0; lane < HR_LANES; lane++)
            x[lane] = i == 0   ? special[lane]
                      : i == 1 ? special[15 - lane]
                               : float_of(bits = bits * 1664525 + 1013904223);
        vi v = vi_from_vf(vf_load_f32(x));
        for (int lane = 0; lane < HR_LANES; lane++) {
            int64_t wide;
            int32_t want;
            int16_t small;
            uint8_t byte, flag;
            hr_dtype_store(HR_I64, &wide, 0, x[lane]);
            hr_dtype_store(HR_I32, &want, 0, x[lane]);
            hr_dtype_store(HR_I16, &small, 0, x[lane]);
            hr_dtype_store(HR_U8, &byte, 0, x[lane]);
            hr_dtype_store(HR_BOOL, &flag, 0, x[lane]);
            assert_int_equal(v[lane], want);
            assert_int_equal(i32_from_f32(x[lane]), want);
            assert_int_equal(i32_from_f64(x[lane]), want);
            assert_true(i64_from_f32(x[lane]) == wide && i64_from_f64(x[lane]) == wide);
            assert_true(i16_from_f32(x[lane]) == small && i16_from_f64(x[lane]) == small);
            assert_true(u8_from_f32(x[lane]) == byte && u8_from_f64(x[lane]) == byte);
            assert_true(bool_from_f32(x[lane]) == flag && b_from_f64(x[lane]) == flag);
        }
    }
}

static void whole_arithmetic(void **state) {
    (void)state;
    const int32_t a[] = {7, -7, 7, -7, 0, INT32_MIN, INT32_MIN, 5, INT32_MAX};
    const int32_t b[] = {2, 2, -2, -2, 3, -1, 0, 0, INT32_MIN};
    const int32_t quotient[] = {3, -4, -4, 3, 0, INT32_MIN, 0, 0, -1};
    const int32_t rest[] = {1, 1, -1, -1, 0, 0, 0, 0, -1};
    for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
        assert_int_equal(i32_floordiv(a[i], b[i]), quotient[i]);
        assert_int_equal(i32_mod(a[i], b[i]), rest[i]);
        assert_int_equal(vi_floordiv(vi_of(a[i]), vi_of(b[i]))[HR_LANES - 1], quotient[i]);
        assert_int_equal(vi_mod(vi_of(a[i]), vi_of(b[i]))[0], rest[i]);
    }
    assert_true(i64_floordiv(INT64_MIN, -1) == INT64_MIN && i64_mod(INT64_MIN, -1) == 0);
    assert_true(i64_floordiv(-7, 2) == -4 && i64_mod(-7, 2) == 1 && i64_floordiv(1, 0) == 0);
    assert_int_equal(i32_abs(INT32_MIN), INT32_MIN);
    assert_int_equal(vi_abs(vi_of(-5))[0], 5);
    assert_int_equal(vi_relu(vi_of(-5))[0], 0);
    assert_int_equal(vi_clamp(vi_of(9), vi_of(-3), vi_of(4))[1], 4);
    assert_int_equal(i32_powi(-3, 3), -27);
    assert_int_equal(i32_powi(2, -1), 0);
    assert_int_equal(i32_pow(-1, -3), -1);
    assert_int_equal(vi_powi(vi_of(3), 4)[2], 81);
    assert_true(i64_powi(3, 39) == INT64_C(4052555153018976267));
}

/* ---- masks, folds ---- */

static void masks(void **state) {
    (void)state;
    const float values[] = {-INFINITY, -1, -0.0f, 0, 1, INFINITY, NAN};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) {
            float p = values[i], q = values[j];
            vf a = vf_of(p), b = vf_of(q);
            assert_int_equal(vi_from_vm(vf_lt(a, b))[0], p < q);
            assert_int_equal(vi_from_vm(vf_le(a, b))[1], p <= q);
            assert_int_equal(vi_from_vm(vf_gt(a, b))[2], p > q);
            assert_int_equal(vi_from_vm(vf_ge(a, b))[3], p >= q);
            assert_int_equal(vi_from_vm(vf_eq(a, b))[0], p == q);
            assert_int_equal(vi_from_vm(vf_ne(a, b))[HR_LANES - 1], p != q);
            float larger = p != p || q != q ? NAN : p > q ? p : q;
            float smaller = p != p || q != q ? NAN : p < q ? p : q;
            assert_true(vf_max(a, b)[1] == larger || larger != larger);
            assert_int_equal(isnan(vf_max(a, b)[1]), isnan(larger));
            assert_int_equal(isnan(f32_max(p, q)), isnan(larger));
            assert_int_equal(isnan(f64_max(p, q)), isnan(larger));
            assert_true(vf_min(a, b)[2] == smaller || smaller != smaller);
            assert_int_equal(isnan(vf_min(a, b)[2]), isnan(smaller));
            assert_int_equal(isnan(f32_min(p, q)), isnan(smaller));
            assert_int_equal(isnan(f64_min(p, q)), isnan(smaller));
            assert_true(f32_max(p, q) == larger || larger != larger);
            assert_true(f32_min(p, q) == smaller || smaller != smaller);
        }
    for (int count = 0; count <= HR_LANES; count++) {
        vm m = vm_first(count), odd = vm_from_vi(vi_iota() & vi_of(1));
        vi chosen = vi_select(m, vi_iota(), vi_of(-9)), both = vi_from_vm(vm_and(m, odd));
        vi either = vi_from_vm(vm_or(m, vm_not(odd))), picked = vi_from_vm(vm_select(m, odd, vm_of(true)));
        vf floats = vf_select(m, vf_of(2), vf_of(-3)), ones = vf_from_vm(m);
        for (int lane = 0; lane < HR_LANES; lane++) {
            assert_int_equal(chosen[lane], lane < count ? lane : -9);
            assert_int_equal(both[lane], lane < count && lane % 2);
            assert_int_equal(either[lane], lane < count || lane % 2 == 0);
            assert_int_equal(picked[lane], lane < count ? lane % 2 : 1);
            assert_true(floats[lane] == (lane < count ? 2 : -3) && ones[lane] == (lane < count));
        }
    }
    assert_int_equal(vi_from_vm(vm_of(false))[0], 0);
    for (int i = -1; i <= 1; i++) {
        assert_int_equal(vi_from_vm(vi_lt(vi_of(i), vi_of(0)))[0], i < 0);
        assert_int_equal(vi_from_vm(vi_le(vi_of(i), vi_of(0)))[0], i <= 0);
        assert_int_equal(vi_from_vm(vi_gt(vi_of(i), vi_of(0)))[0], i > 0);
        assert_int_equal(vi_from_vm(vi_ge(vi_of(i), vi_of(0)))[0], i >= 0);
        assert_int_equal(vi_from_vm(vi_eq(vi_of(i), vi_of(0)))[0], i == 0);
        assert_int_equal(vi_from_vm(vi_ne(vi_of(i), vi_of(0)))[0], i != 0);
    }
}

static void folds(void **state) {
    (void)state;
    float x[HR_LANES];
    int32_t n[HR_LANES];
    for (int at = 0; at < HR_LANES; at++) {
        for (int lane = 0; lane < HR_LANES; lane++)
            x[lane] = (float)lane * 0.5f, n[lane] = INT32_MAX - lane;
        x[at] = 100, n[at] = INT32_MIN;
        assert_true(vf_fold_max(vf_load_f32(x)) == 100);
        assert_true(vf_fold_sum(vf_load_f32(x)) ==
                    0.25f * HR_LANES * (HR_LANES - 1) + 100 - 0.5f * (float)at);
        assert_int_equal(vi_fold_min(vi_load_i32(n)), INT32_MIN);
        assert_int_equal(vi_fold_max(vi_load_i32(n)), at == 0 ? INT32_MAX - 1 : INT32_MAX);
        assert_true(vi_fold_sum(vi_load_i32(n)) ==
                    (int64_t)INT32_MAX * (HR_LANES - 1) - HR_LANES * (HR_LANES - 1) / 2 + at + INT32_MIN);
        x[at] = -100;
        assert_true(vf_fold_min(vf_load_f32(x)) == -100);
        x[at] = NAN;
        assert_true(isnan(vf_fold_max(vf_load_f32(x))) && isnan(vf_fold_min(vf_load_f32(x))));
    }
}

/* ---- pairs of bf16 vectors ---- */

static const uint32_t pair_bits[] = {0x3f800000, 0x00000000, 0x80000000, 0x00000001, 0x007fffff, 0x80400000,
                                     0x00008000, 0x3f808000, 0x3f818000, 0x7f7fffff, 0xff800000, 0x7fc00001,
                                     0x7f800001, 0xc0490fdb, 0x00800000, 0x33333333, 0x80007fff};

/* A pair stores what two vectors store, even and odd lanes load and store what the elements are, whatever
 * stands beside a denormal, and the bytes around are left. */
static void pairs_are_two_vectors(void **state) {
    (void)state;
    enum { COUNT = sizeof pair_bits / sizeof *pair_bits, WORDS = 2 * HR_LANES };
    for (int round = 0; round < 4 * COUNT; round++) {
        float values[WORDS], got[WORDS];
        uint16_t expected[WORDS], words[WORDS + 2];
        for (int i = 0; i < WORDS; i++) /* one special value among ones, then all kinds together */
            memcpy(&values[i],
                   &pair_bits[round < COUNT ? (i == round % WORDS) * round : (i * 5 + round) % COUNT], 4);
        vf_store_bf16(expected, vf_load_f32(values));
        vf_store_bf16(expected + HR_LANES, vf_load_f32(values + HR_LANES));
        memset(words, 0x77, sizeof words);
        vf_store_pair_bf16(words + 1, vf_load_f32(values), vf_load_f32(values + HR_LANES), true, true);
        assert_memory_equal(words + 1, expected, sizeof expected);
        assert_true(words[0] == 0x7777 && words[WORDS + 1] == 0x7777);
        vf first = vf_load_even_odd_bf16(expected, 0), second = vf_load_even_odd_bf16(expected + HR_LANES, 1);
        vf_store_f32(got, first);
        vf_store_f32(got + HR_LANES, second);
        for (int i = 0; i < WORDS; i++) {
            uint32_t bits, wanted = (uint32_t)expected[i] << 16;
            memcpy(&bits, &got[even_odd_place(i, WORDS)], 4);
            assert_int_equal(bits, wanted);
            assert_int_equal(even_odd_place(WORDS + i, WORDS), WORDS + i);
        }
        vf_store_f32(got, vf_load_pair_bf16(expected, 0));
        vf_store_f32(got + HR_LANES, vf_load_pair_bf16(expected + HR_LANES, 1));
        for (int i = 0; i < WORDS; i++) {
            uint32_t bits, wanted = (uint32_t)expected[i] << 16;
            memcpy(&bits, &got[i], 4);
            assert_int_equal(bits, wanted);
        }
        vu both;
        memcpy(&both, expected, sizeof both);
        vf same = vf_even_odd_bf16(both, 1); /* the same order from words in a register */
        assert_memory_equal(&same, &second, sizeof same);
        memset(words, 0x77, sizeof words);
        vf_store_even_odd_bf16(words + 1, first, second, true, round % 2 == 0);
        assert_memory_equal(words + 1, expected, sizeof expected);
        assert_true(words[0] == 0x7777 && words[WORDS + 1] == 0x7777);
    }
}

/* Every bf16 times factors around those that make denormals of the least that are not taken for one. */
static void products_that_may_be_denormals(void **state) {
    (void)state;
    static const float factors[] = {1,           1.25f,     -3,        0x1p-7f,  0x1.fep-8f, 0x1.010101p-7f,
                                    -0x1.8p-20f, 0x1p-126f, 0x1p-149f, 0x1p127f, 0,          INFINITY,
                                    NAN};
    enum { WORDS = 2 * HR_LANES };
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++)
        for (int from = 0; from < 1 << 16; from += WORDS) {
            uint16_t words[WORDS], expected[WORDS], got[WORDS];
            for (int i = 0; i < WORDS; i++)
                words[i] = (uint16_t)((from + i) * 257); /* 257 is odd: all are there, small beside large */
            for (int half = 0; half < WORDS; half += HR_LANES)
                vf_store_bf16(expected + half, vf_load_bf16(words + half) * factors[k]);
            vf_store_even_odd_bf16(got, vf_load_even_odd_bf16(words, 0) * factors[k],
                                   vf_load_even_odd_bf16(words + HR_LANES, 1) * factors[k],
                                   bf16_pair_is_tiny(words, factors[k]), true);
            for (int i = 0; i < WORDS; i++) /* of two NaN that are multiplied either may be the result */
                assert_true(got[i] == expected[i] ||
                            ((got[i] & 0x7fff) > 0x7f80 && (expected[i] & 0x7fff) > 0x7f80));
        }
}

static void one_lane(void **state) {
    (void)state;
    static const int64_t none[] = {-1, HR_LANES, -(INT64_C(1) << 32), INT64_C(1) << 32, INT64_MIN, INT64_MAX};
    for (int lane = 0; lane < HR_LANES; lane++) {
        vi got = vi_select(vm_at(lane), vi_of(1), vi_of(0));
        for (int i = 0; i < HR_LANES; i++)
            assert_int_equal(got[i], i == lane);
    }
    for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
        vi got = vi_select(vm_at(none[k]), vi_of(1), vi_of(0));
        for (int i = 0; i < HR_LANES; i++)
            assert_int_equal(got[i], 0);
    }
}

static void pairs_stream(void **state) {
    (void)state;
    _Alignas(64) uint16_t words[4 * HR_LANES + 2], expected[2 * HR_LANES];
    vf low = vf_from_vi(vi_iota()) + 0.5f, high = low + HR_LANES;
    vf_store_pair_bf16(expected, low, high, true, true);
    for (int offset = 0; offset < 2; offset++) {
        memset(words, 0, sizeof words);
        vf_stream_pair_bf16(words + offset, low, high, offset == 0, false,
                            stream_aligned(words + offset, 2, 2));
        stream_end();
        assert_memory_equal(words + offset, expected, sizeof expected);
        vf_stream_even_odd_bf16(words + offset, vf_load_even_odd_bf16(expected, 0),
                                vf_load_even_odd_bf16(expected + HR_LANES, 1), offset != 0, offset == 0,
                                offset == 0);
        stream_end();
        assert_memory_equal(words + offset, expected, sizeof expected);
    }
    assert_int_equal(stream_head(words + 1, 2, 2), 2 * HR_LANES - 1);
}

/* ---- streams ---- */

/* Streams of every dtype that has them, at every offset: head, vectors, and the bytes around them untouched.
 */
static void streams_store_at_any_offset(void **state) {
    (void)state;
    _Alignas(64) static char to[1024];
    float values[HR_LANES], got[HR_LANES];
    vf_store_f32(values, vf_from_vi(vi_iota()) + 0.5f);
    vf x = vf_load_f32(values);
    for (int size = 2; size <= 4; size += 2)
        for (int offset = 0; offset < 4 * HR_LANES; offset++) {
            char *p = to + offset * size;
            int head = (int)stream_head(p, size, 1);
            assert_in_range(head, 0, HR_LANES - 1);
            assert_true(stream_aligned(p + head * size, size, 1));
            assert_int_equal(stream_aligned(p, size, 1), head == 0);
            for (int kind = 0; kind < 3; kind++) {
                memset(to, 0x77, sizeof to);
                if (size == 4 && kind == 0) vf_stream_f32((float *)(void *)p, x, head == 0);
                if (size == 4 && kind == 1) vi_stream_i32((int32_t *)(void *)p, (vi)x, head == 0);
                if (size == 2 && kind == 0) vf_stream_bf16((uint16_t *)(void *)p, x, head == 0);
                if (size == 2 && kind == 1) vf_stream_f16((uint16_t *)(void *)p, x, head == 0);
                if (kind == 2) continue;
                stream_end();
                vf back = size == 4   ? vf_load_f32((float *)(void *)p)
                          : kind == 0 ? vf_load_bf16((uint16_t *)(void *)p)
                                      : vf_load_f16((uint16_t *)(void *)p);
                vf_store_f32(got, back);
                for (int i = 0; i < HR_LANES; i++)
                    assert_true(got[i] == values[i]);
                for (char *c = to; c < to + sizeof to; c++)
                    if (c < p || c >= p + HR_LANES * size) assert_int_equal(*c, 0x77);
            }
        }
    prefetch_read(to);
    prefetch_near(to);
}

/* Four bytes a lane with the four signed ones of a word: the largest of both, too. */
static void dots_of_bytes(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0, 1, 127, 128, 200, 255};
    static const int8_t words[] = {-128, -127, -1, 0, 100, 127};
    uint8_t of[4 * HR_LANES];
    int32_t sums[HR_LANES];
    uint32_t random = 1;
    for (int round = 0; round < 1000; round++) {
        int8_t word[4];
        for (int i = 0; i < 4; i++)
            word[i] = words[((random = random * 1664525 + 1013904223) >> 16) % 6];
        for (int i = 0; i < 4 * HR_LANES; i++)
            of[i] = bytes[((random = random * 1664525 + 1013904223) >> 16) % 6];
        vi_store_i32(sums, vi_dot_bytes(vi_of(round - 500), vb_load(of), word));
        for (int lane = 0; lane < HR_LANES; lane++) {
            int32_t right = round - 500;
            for (int i = 0; i < 4; i++)
                right += of[4 * lane + i] * word[i];
            assert_int_equal(sums[lane], right);
        }
    }
}

int main(void) {
    if (!host_runs_this()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_of_every_code),
        cmocka_unit_test(stores_around_every_code),
        cmocka_unit_test(stores_of_any_float),
        cmocka_unit_test(part_stores_leave_the_rest),
        cmocka_unit_test(wide_scalars_round_once),
        cmocka_unit_test(whole_loads_and_stores),
        cmocka_unit_test(f32_parts),
        cmocka_unit_test(bools),
        cmocka_unit_test(floats_to_whole),
        cmocka_unit_test(whole_arithmetic),
        cmocka_unit_test(masks),
        cmocka_unit_test(folds),
        cmocka_unit_test(pairs_are_two_vectors),
        cmocka_unit_test(products_that_may_be_denormals),
        cmocka_unit_test(one_lane),
        cmocka_unit_test(pairs_stream),
        cmocka_unit_test(streams_store_at_any_offset),
        cmocka_unit_test(dots_of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
