/* The emitted code's functions against libm in f64: every 4001st float, and what is special. */
#include "prelude_all.h"

#include "support/meanings.h"
#include "unit/prelude_host.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define STRIDE 4001

typedef struct function {
    const char *name;
    double (*meaning)(double x);
    vf (*lanes)(vf x);
    float (*scalar)(float x);
    double ulps;  /* allowed */
    bool natural; /* judged at the scale of max(|result|, |x|, 2^-126): sums cancel or underflow on the way */
    double growth; /* more ulps for each unit of |x| */
} function;

#define PEAK 1.5f

static double exp_below(double x) {
    return exp(x - PEAK);
}

static double relu(double x) {
    return x > 0 || x != x ? x : 0;
}

#define WRAP(name)                                                                                           \
    static vf lanes_##name(vf x) {                                                                           \
        return vf_##name(x);                                                                                 \
    }                                                                                                        \
    static float scalar_##name(float x) {                                                                    \
        return f32_##name(x);                                                                                \
    }
WRAP(exp)
WRAP(exp2)
WRAP(log)
WRAP(log2)
WRAP(tanh)
WRAP(erf)
WRAP(sin)
WRAP(cos)
WRAP(sqrt)
WRAP(rsqrt)
WRAP(sigmoid)
WRAP(silu)
WRAP(gelu)
WRAP(gelu_tanh)
WRAP(floor)
WRAP(ceil)
WRAP(round)
WRAP(abs)
WRAP(relu)

WRAP(exp_narrow)
WRAP(sigmoid_narrow)
WRAP(silu_narrow)

static vf lanes_exp_below(vf x) {
    return vf_exp_below(x, PEAK);
}

static float scalar_exp_below(float x) {
    return f32_exp_below(x, PEAK);
}

/* What the roundings of x / log 2 make in e^x */
#define GROWTH 1.4

#define ROW(name, meaning, ulps, natural)                                                                    \
    { #name, meaning, lanes_##name, scalar_##name, ulps, natural, 0 }
#define GROWING(name, meaning, ulps)                                                                         \
    { #name, meaning, lanes_##name, scalar_##name, ulps, false, GROWTH }
static const function functions[] = {
    ROW(exp, exp, 2, false),
    ROW(exp2, exp2, 2, false),
    ROW(log, log, 2, false),
    ROW(log2, log2, 2, false),
    ROW(tanh, tanh, 2, false),
    ROW(erf, erf, 2, false),
    ROW(sin, sin, 2, false),
    ROW(cos, cos, 2, false),
    ROW(sqrt, sqrt, 0.5001, false),
    ROW(rsqrt, rsqrt, 2, false),
    ROW(sigmoid, sigmoid, 4, true),
    ROW(silu, silu, 4, true),
    ROW(gelu, gelu, 2, true),
    ROW(gelu_tanh, gelu_tanh, 4, true),
    ROW(floor, floor, 0, false),
    ROW(ceil, ceil, 0, false),
    ROW(round, nearbyint, 0, false),
    ROW(abs, fabs, 0, false),
    ROW(relu, relu, 0, false),
    GROWING(exp_narrow, exp, 3),
    GROWING(exp_below, exp_below, 3 + 2 * GROWTH * PEAK),
    ROW(sigmoid_narrow, sigmoid, 32, true),
    ROW(silu_narrow, silu, 32, true),
};

static double unit_at(double x) {
    int exponent;
    if (fabs(x) < 0x1p-126) return 0x1p-149;
    frexp(x, &exponent);
    return ldexp(1, exponent - 24);
}

static void check(const function *f, float x, float got, const char *how) {
    double meaning = f->meaning(x);
    float nearest = (float)meaning;
    if (nearest != nearest || got != got) {
        if (nearest == nearest || got == got)
            fail_msg("%s %s(%a) is %a, not %a", how, f->name, x, got, nearest);
        return;
    }
    if (isinf(x) || nearest == got) {
        if (nearest != got) fail_msg("%s %s(%a) is %a, not %a", how, f->name, x, got, nearest);
        return;
    }
    double scale = f->natural ? fmax(fmax(fabs(meaning), fmin(fabs(x), 1e4)), 0x1p-100) : fabs(meaning);
    double value = isinf(got) ? copysign(0x1p128, got) : got;
    if (fabs(meaning) > 0x1p128 * (1 + 0x1p-22)) meaning = copysign(INFINITY, meaning);
    double error = fabs(value - meaning) / unit_at(fmin(scale, 0x1.fffffep127));
    if (!(error <= f->ulps + f->growth * fmin(fabs(x), 150)))
        fail_msg("%s %s(%a) is %a, not %a: %.3f ulp", how, f->name, x, got, meaning, error);
}

static void check_all(const function *f, vf x) {
    vf got = f->lanes(x);
    for (int lane = 0; lane < HR_LANES; lane++) {
        check(f, x[lane], got[lane], "lanes of");
        check(f, x[lane], f->scalar(x[lane]), "scalar");
    }
}

static void functions_are_accurate(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += (uint64_t)STRIDE * HR_LANES) {
            vi x;
            for (int lane = 0; lane < HR_LANES; lane++)
                x[lane] = (int32_t)(uint32_t)(bits + (uint64_t)lane * STRIDE);
            check_all(&functions[i], vf_of_bits(x));
        }
}

static void special_values(void **state) {
    (void)state;
    const float special[] = {0.0f,      -0.0f,    INFINITY,  -INFINITY,  NAN,      0x1p-149f,  -0x1p-149f,
                             0x1p-126f, 88.7228f, 88.72284f, -87.336f,   -103.97f, -103.9721f, 128.0f,
                             127.9999f, -149.0f,  -150.0f,   -149.9999f, 1,        -1,         0.5f,
                             -0.5f,     1.5f,     2.5f,      0x1p23f,    0x1p24f,  1e30f,      -1e30f,
                             3.4e38f,   -3.4e38f, 9.01f,     65536.5f};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (size_t k = 0; k < sizeof special / sizeof *special; k++)
            check_all(&functions[i], vf_of(special[k]));
    assert_true(signbit(vf_tanh(vf_of(-0.0f))[0]) && signbit(vf_erf(vf_of(-0.0f))[0]));
    assert_true(signbit(vf_ceil(vf_of(-0.3f))[1]) && signbit(vf_round(vf_of(-0.3f))[1]));
    assert_true(vf_log(vf_of(-0.0f))[0] == -INFINITY && vf_log2(vf_of(0x1p-149f))[0] == -149);
    assert_true(vf_exp_narrow(vf_of(0))[0] == 1 &&
                fabsf(vf_exp_narrow(vf_of(1))[0] - 0x1.5bf0a8p1f) < 0x1p-21f);
    assert_true(vf_exp(vf_of(0))[0] == 1 && f32_exp(0) == 1 && vf_exp2(vf_of(-149))[0] == 0x1p-149f);
    assert_true(vf_silu(vf_of(-INFINITY))[0] == 0 && vf_gelu(vf_of(-INFINITY))[0] == 0);
    assert_true(vf_silu_narrow(vf_of(-INFINITY))[0] == 0 && vf_sigmoid_narrow(vf_of(-INFINITY))[0] == 0);
}

static void pairs(void **state) {
    (void)state;
    const float a[] = {7, -7, 7, -7, 0, 5.5f, -0.0f, 1e30f}, b[] = {2, 2, -2, -2, 3, -1.5f, 1, 3};
    const float rest[] = {1, 1, -1, -1, 0, -0.5f, 0, 0};
    for (int i = 0; i < 7; i++) {
        assert_true(f32_mod(a[i], b[i]) == rest[i] && vf_mod(vf_of(a[i]), vf_of(b[i]))[1] == rest[i]);
        assert_true(f64_mod(a[i], b[i]) == rest[i]);
        double quotient = floor((double)a[i] / b[i]);
        assert_true(vf_floordiv(vf_of(a[i]), vf_of(b[i]))[0] == quotient &&
                    f64_floordiv(a[i], b[i]) == quotient);
    }
    assert_true(vf_powi(vf_of(-3), 3)[0] == -27 && f32_powi(2, -3) == 0.125f && f64_powi(7, 0) == 1);
    assert_true(vf_pow(vf_of(2), vf_of(0.5f))[0] == (float)sqrt(2) && f32_pow(0, 0) == 1);
    assert_true(isnan(vf_relu(vf_of(NAN))[0]) && isnan(vf_clamp(vf_of(NAN), vf_of(0), vf_of(1))[0]));
    assert_true(vf_clamp(vf_of(5), vf_of(0), vf_of(1))[0] == 1 && f32_clamp(-5, 0, 1) == 0);
    assert_true(vf_div(vf_of(1), vf_of(3))[0] == 1.0f / 3 && f64_silu(-INFINITY) == 0 &&
                f64_gelu(-INFINITY) == 0);
}

static void check_short(const function *f, float x, float got) {
    uint32_t bits;
    memcpy(&bits, &got, sizeof bits);
    if (x != x && got == got) fail_msg("%s(NaN) is %a", f->name, got);
    if (got != got && bits & 0xffff) fail_msg("%s(%a) has the bits %x", f->name, x, bits);
}

/* What is rounded to bf16 relies on it: a NaN without bits below bf16's gives another such, and so does what
 * has no value. */
static void nan_stays_short(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (uint32_t word = 0; word < 1 << 16; word++) {
            vf x = vf_of_bits(vi_of((int32_t)(word << 16))), got = functions[i].lanes(x);
            for (int lane = 0; lane < HR_LANES; lane++)
                check_short(&functions[i], x[lane], got[lane]);
            check_short(&functions[i], x[0], functions[i].scalar(x[0]));
        }
}

/* Four vectors side by side */
#define FOUR(name)                                                                                           \
    static void four_##name(vf *x) {                                                                         \
        vf_##name##_ways(x, 4);                                                                              \
    }
FOUR(exp_narrow)
FOUR(sigmoid_narrow)
FOUR(silu_narrow)
FOUR(exp)
FOUR(sigmoid)
FOUR(silu)
FOUR(gelu)
FOUR(gelu_tanh)
FOUR(tanh)
FOUR(erf)

static void four_exp_below(vf *x) {
    vf_exp_below_ways(x, 4, PEAK);
}

/* They get what each gets alone. */
static void ways_are_alike(void **state) {
    (void)state;
    const float specials[] = {0,      -0.0f, INFINITY,  -INFINITY, NAN, 1,
                              -87.4f, 88.8f, 0x1p-140f, -300,      300, 0.3f};
#define PAIR(name)                                                                                           \
    { four_##name, lanes_##name }
    static const struct {
        void (*four)(vf *x);
        vf (*alone)(vf x);
    } functions_of[] = {PAIR(exp_narrow), PAIR(sigmoid_narrow), PAIR(silu_narrow), PAIR(exp_below),
                        PAIR(exp),        PAIR(sigmoid),        PAIR(silu),        PAIR(gelu),
                        PAIR(gelu_tanh),  PAIR(tanh),           PAIR(erf)};
    for (size_t f = 0; f < sizeof functions_of / sizeof *functions_of; f++) {
        vf given[4], beside[4];
        for (int way = 0; way < 4; way++)
            for (int lane = 0; lane < HR_LANES; lane++)
                given[way][lane] = beside[way][lane] =
                    specials[(way * HR_LANES + lane) % (int)(sizeof specials / sizeof *specials)];
        functions_of[f].four(beside);
        for (int way = 0; way < 4; way++) {
            vf alone = functions_of[f].alone(given[way]);
            for (int lane = 0; lane < HR_LANES; lane++)
                assert_true(alone[lane] == beside[way][lane] ||
                            (isnan(alone[lane]) && isnan(beside[way][lane])));
        }
    }
}

/* Words that are compared as they are say what their numbers say. */
static void compare_words(const uint32_t *words) {
    const float bounds[] = {0,         -0.0f,        0.1f, 0.5f, 0x1p-24f, 0x1.8p-24f, 1 - 0x1p-24f, -1,
                            0x1p-149f, 1 - 0x1p-23f, 1,    2,    INFINITY, -INFINITY,  NAN};
    float numbers[HR_LANES];
    vf_store_f32(numbers, vf_random(words));
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        float asked[HR_LANES];
        vf_store_f32(asked, vf_from_vm(vm_random_ge(words, random_bound_of(bounds[b]))));
        for (int lane = 0; lane < HR_LANES; lane++) {
            assert_true(numbers[lane] == (float)(words[lane] >> 8) * 0x1p-24f);
            assert_true((asked[lane] != 0) == (numbers[lane] >= bounds[b]));
        }
    }
}

static void random_words_are_compared(void **state) {
    (void)state;
    uint32_t room[HR_RANDOM_BEFORE + HR_LANES + HR_RANDOM_AFTER] = {0}, *words = room + HR_RANDOM_BEFORE;
    words[1] = 1, words[2] = 255, words[3] = 256;
    compare_words(words);
    for (int lane = 0; lane <= HR_LANES; lane++)
        words[lane] = UINT32_MAX - (uint32_t)lane * 128;
    compare_words(words + 1);
    random_keys keys = random_keys_of(3);
    random_fill(&keys, 0, HR_LANES, words);
    compare_words(words);
}

static void random_is_philox(void **state) {
    (void)state;
    /* Known answers of Philox4x32-10: all zero, all ones in counter and key (of which two words are fixed
     * here). */
    const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    uint32_t room[HR_RANDOM_BEFORE + 600 + HR_RANDOM_AFTER + 1], *out = room + HR_RANDOM_BEFORE;
    random_keys keys = random_keys_of(0);
    random_fill(&keys, 0, 4, out);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out[i], words[i]);
        assert_true(f32_random(0, (uint64_t)i) == (float)(words[i] >> 8) * 0x1p-24f);
    }
    const uint64_t starts[] = {0, 1, 2, 3, 61, UINT64_C(0x3fffffff0), UINT64_C(0xfffffffffffffff1)};
    for (int s = 0; s < 7; s++)
        for (int64_t count = 0; count < 500; count += count < 200 ? 1 : 53) {
            out[count + HR_RANDOM_AFTER] = 77;
            out[-HR_RANDOM_BEFORE] = 78;
            random_keys seeded = random_keys_of(UINT64_C(0x123456789abcdef0));
            random_fill(&seeded, starts[s], count, out);
            for (int64_t i = 0; i < count; i++)
                if ((float)(out[i] >> 8) * 0x1p-24f !=
                    f32_random(UINT64_C(0x123456789abcdef0), starts[s] + (uint64_t)i))
                    fail_msg("random number %d of %d from counter %llx", (int)i, (int)count,
                             (unsigned long long)starts[s]);
            assert_int_equal(out[count + HR_RANDOM_AFTER], 77);
            assert_int_equal(out[-HR_RANDOM_BEFORE], 78);
        }
}

static void words_stand_even_odd(void **state) {
    (void)state;
    enum { MOST = 700 / (2 * HR_LANES) * (2 * HR_LANES) };
    static uint32_t room[2][HR_RANDOM_BEFORE + MOST + HR_RANDOM_AFTER];
    uint32_t *const in_order = room[0] + HR_RANDOM_BEFORE, *const in_even_odd = room[1] + HR_RANDOM_BEFORE;
    const uint64_t starts[] = {0, 4, 60, UINT64_C(0x3fffffff0), UINT64_C(0xfffffffffffffff0)};
    const random_keys keys = random_keys_of(UINT64_C(0x123456789abcdef0));
    for (int s = 0; s < 5; s++)
        for (int64_t count = 0; count <= MOST; count += 2 * HR_LANES) {
            random_fill(&keys, starts[s], count, in_order);
            random_fill_even_odd(&keys, starts[s], count, in_even_odd);
            for (int64_t i = 0; i < count; i++) {
                const int64_t pair = i / (2 * HR_LANES) * (2 * HR_LANES);
                if (in_even_odd[pair + even_odd_place(i - pair, 2 * HR_LANES)] != in_order[i])
                    fail_msg("word %d of %d from counter %llx", (int)i, (int)count,
                             (unsigned long long)starts[s]);
            }
        }
}

int main(void) {
    if (!host_runs_this()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_accurate),
                                       cmocka_unit_test(special_values),
                                       cmocka_unit_test(pairs),
                                       cmocka_unit_test(nan_stays_short),
                                       cmocka_unit_test(ways_are_alike),
                                       cmocka_unit_test(random_is_philox),
                                       cmocka_unit_test(words_stand_even_odd),
                                       cmocka_unit_test(random_words_are_compared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
