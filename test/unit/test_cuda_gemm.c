/* Products on the tensor cores of the emulated CUDA device against their meaning: either side transposed,
 * batches, several indices a side, operands that are no plain element or laid out in parts, k in parts,
 * epilogues with several results, odd sizes, tails along k, arrays that begin anywhere, strides, non-finite
 * values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emit/emit.h"
#include "lang/program.h"
#include "run/check.h"
#include "schedule/cuda/choose_gemm.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/sample.h"

/* Many tiles of several blocks: with the first texts alone, unless HR_SLOW=1. */
enum { EXTENTS_MAX = 4, LARGE = 200, FIRST = 4 };

/* Extents in the order M, N, K; then B. */
static const struct gemm_case {
    const char *text;
    enum operands {
        HALVES, /* all bf16 or all f16 */
        PARTS,  /* others: they are laid out in parts, where there are maps */
        F8,
        WHOLE, /* bytes */
    } operands;
    int stacked; /* further products in the same walk */
} texts[] = {
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) { y[m, n] = sum[k](x[m, k] * w[n, k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[K, N]) -> (y: bf16[M, N]) { y[m, n] = sum[k](x[m, k] * w[k, n]) }",
     HALVES, 0},
    {"kernel k(g: f16[K, M], x: f16[K, N]) -> (y: f32[M, N]) { y[m, n] = sum[k](g[k, m] * x[k, n]) }", HALVES,
     0},
    {"kernel k(g: bf16[K, M], w: bf16[N, K]) -> (y: f16[M, N]) { y[m, n] = sum[k](w[n, k] * g[k, m]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K], b: f32[N], r: bf16[M, N]) -> (y: bf16[M, N], z: f32[M, N]) {\n"
     "    s[m, n] = sum[k](x[m, k] * w[n, k]) + b[n]\n"
     "    y[m, n] = gelu_tanh(s[m, n]) + r[m, n]\n"
     "    z[m, n] = 2 * s[m, n] }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K], b: bf16[N], r: bf16[M, N]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = 2 * sum[k](x[m, k] * w[n, k]) + b[n] + r[m, n] }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[K, N], y: inout f32[M, N]) {\n"
     "    y[m, n] = y[m, n] + sum[k](x[m, k] * w[k, n]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K], v: bf16[N, K]) -> (y: bf16[M, N], z: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * w[n, k])\n"
     "    z[m, n] = silu(sum[k](x[m, k] * v[n, k])) * y[m, n] }",
     HALVES, 1},
    {"kernel k(x: bf16[M, K], g: bf16[N, K], u: bf16[N, K], b: f32[N]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = silu(sum[k](x[m, k] * g[n, k])) * (sum[k](x[m, k] * u[n, k]) + b[n]) }",
     HALVES, 1},
    {"kernel k(x: f16[B, M, K], p: f16[B, K, N], q: f16[B, K, N], r: f16[B, K, N], c: f16[B, M, N])\n"
     "    -> (y: f16[B, M, N], z: f16[B, M, N], u: f16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * p[b, k, n])\n"
     "    z[b, m, n] = 2 * sum[k](x[b, m, k] * q[b, k, n]) + c[b, m, n]\n"
     "    u[b, m, n] = sum[k](x[b, m, k] * r[b, k, n]) }",
     HALVES, 2},
    {"kernel k(x: f16[M, K], p: f16[N, K], q: f16[N, K], r: f16[N, K], o: f16[N, K], s: f16[M, N], b: "
     "f32[N])\n"
     "    -> (c: f16[M, N], y: f16[M, N]) {\n"
     "    f[m, n] = s[m, n] * sigmoid(sum[k](x[m, k] * p[n, k]) + b[n])\n"
     "    c[m, n] = f[m, n] + sigmoid(sum[k](x[m, k] * q[n, k])) * tanh(sum[k](x[m, k] * r[n, k]))\n"
     "    y[m, n] = sigmoid(sum[k](x[m, k] * o[n, k])) * tanh(c[m, n]) }",
     HALVES, 3},
    {"kernel k(q: bf16[M, B, K], k: bf16[N, B, K]) -> (s: bf16[B, M, N]) {\n"
     "    s[h, i, j] = sum[d](q[i, h, d] * k[j, h, d]) * 0.125 }",
     HALVES, 0},
    {"kernel k(x: bf16[M, 3, K], w: bf16[N, K]) -> (y: bf16[M, 3, N]) { y[m, t, n] = sum[k](x[m, t, k] * "
     "w[n, k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, 5, K], w: bf16[N, 5, K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[g, k](x[m, g, k] * w[n, g, k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K], i: i32[M]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[M - 1 - m, k] * where(k % 3 == 0, 0, w[n, k])) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[N, M]) { y[n, m] = sum[k](x[m, k] * w[n, k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K], a: f32[M], r: bf16[M, N], seed: i64)\n"
     "    -> (y: bf16[M, N], d: bf16[M, N]) {\n"
     "    s[m, n] = bf16(sum[k](x[m, k] * w[n, k]) * a[m])\n"
     "    d[m, n] = s[m, n] * r[m, n]\n"
     "    y[m, n] = where(random(seed, m * N + n) < 0.3, 0, 1.5 * s[m, n]) + r[m, n] }",
     HALVES, 0},
    {"kernel k(x: f16[M, K], w: f16[N, K]) -> (y: f16[M, N], c: f32[N], r: f32[M], t: f16[N, M]) {\n"
     "    y[m, n] = relu(sum[k](x[m, k] * w[n, k]))\n"
     "    c[n] = sum[m](y[m, n])\n"
     "    r[m] = sum[n](y[m, n] * y[m, n])\n"
     "    t[n, m] = y[m, n] }",
     HALVES, 0},
    {"kernel k(x: bf16[M, 4, K], w: bf16[N, 4, K], y: inout bf16[N, M]) {\n"
     "    y[n, m] = y[n, m] - 0.5 * sum[h, k](x[m, h, k] * w[n, h, k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[B, M, K], w: bf16[5, N, K], e: i32[B]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[e[b], n, k]) }",
     HALVES, 0},
    {"kernel k(x: f16[7, M, K], w: f16[B, K, N], e: i32[B]) -> (y: f32[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[e[b] + 2, m, k] * w[b, k, n]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](0.1 * x[m, k] * w[n, k] * rsqrt(K)) }",
     HALVES, 0},
    {"kernel k(x: bf16[2 * M, K], w: bf16[N, 3 * K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k < K](x[2 * m + 1, k] * w[n, K + k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[2, M, K], w: bf16[1, N, K]) -> (y: bf16[2, M, N]) {\n"
     "    y[h, m, n] = sum[k](x[h, m, k] * w[h // 2, n, k]) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, 4, K], w: bf16[N, K]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[h, k](x[m, h, k] * w[n, k]) }",
     PARTS, 0},
    {"kernel k(x: bf16[M, K], w: f16[N, K]) -> (y: bf16[M, N]) { y[m, n] = sum[k](x[m, k] * w[n, k]) }",
     PARTS, 0},
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) { y[m, n] = sum[k](tanh(x[m, k]) * w[n, k]) "
     "}",
     PARTS, 0},
    {"kernel k(x: f32[M, K], w: f32[N, K]) -> (y: f32[M, N]) { y[m, n] = sum[k](x[m, k] * w[n, k]) }", PARTS,
     0},
    {"kernel k(x: f32[K, B, M], w: f32[B, K, N], b: f32[N]) -> (y: f32[B, M, N]) {\n"
     "    y[h, m, n] = relu(sum[k](x[k, h, m] * w[h, k, n]) + b[n]) }",
     PARTS, 0},
    {"kernel k(x: f8e4m3[M, K], w: f32[K, N]) -> (y: bf16[M, N]) { y[m, n] = sum[k](x[m, k] * w[k, n]) }",
     PARTS, 0},
    {"kernel k(x: f8e4m3[M, K], w: f8e5m2[N, K], a: f32[M], b: f32[N]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * w[n, k]) * a[m] * b[n] }",
     F8, 0},
    {"kernel k(x: f8e4m3[M, K], g: f8e4m3[N, K], u: f8e4m3[N, K], a: f32[M]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = silu(sum[k](x[m, k] * g[n, k]) * a[m]) * sum[k](x[m, k] * u[n, k] * a[m]) }",
     F8, 1},
    {"kernel k(x: f32[M, K], p: f32[K, N], q: f32[K, N]) -> (y: f32[M, N], z: f32[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * p[k, n])\n"
     "    z[m, n] = relu(sum[k](x[m, k] * q[k, n])) }",
     PARTS, 1},
    {"kernel k(x: bf16[M, K], r: f32[M], w: bf16[N, K], s: f32[N]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * r[m] * (w[n, k] * s[n])) }",
     HALVES, 0},
    {"kernel k(x: bf16[M, K], g: bf16[K], p: bf16[N, K], q: bf16[N, K]) -> (y: bf16[M, N], z: bf16[M, N]) {\n"
     "    r[m] = rsqrt(mean[k](x[m, k]^2) + 0.01)\n"
     "    h[m, k] = bf16(x[m, k] * r[m] * g[k])\n"
     "    y[m, n] = sum[k](h[m, k] * p[n, k])\n"
     "    z[m, n] = 3 * sum[k](h[m, k] * q[n, k]) }",
     HALVES, 1},
    {"kernel k(x: i8[M, K], w: i8[N, K], a: f32[M], b: f32[N]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * w[n, k]) * a[m] * b[n] }",
     WHOLE, 0},
    {"kernel k(x: u8[M, K], g: i8[N, K], u: i8[N, K], a: f32[M]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = silu(sum[k](x[m, k] * g[n, k]) * a[m]) * sum[k](x[m, k] * u[n, k]) }",
     WHOLE, 1},
    {"kernel k(x: u8[B, M, K], w: i8[B, N, K]) -> (y: i32[B, M, N]) {\n"
     "    y[b, m, n] = 2 * sum[k](x[b, m, k] * w[b, n, k]) }",
     WHOLE, 0},
};

static const struct sizes {
    int64_t m, n, k, b;
    int compute, processors, offset;
    bool strided, nonfinite;
} sizes[] = {
    {65, 66, 70, 2, 80, 132, 0, false, false}, {130, 136, 72, 3, 90, 4, 0, false, false},
    {40, 24, 208, 1, 90, 2, 0, false, true},   {33, 72, 64, 2, 80, 132, 3, false, false},
    {17, 9, 35, 2, 90, 132, 1, true, true},    {390, 520, 264, 2, 90, 4, 0, false, false},
    {1, 1, 1, 1, 80, 132, 0, false, false},    {40, 44, 3008, 2, 90, 12, 0, false, false},
};
enum {
    OTHERS = 3,
    SPLIT = 7
}; /* sizes for operands that are no halves: the first ones; one where k is split */

/* The function's extents, which it has in the order of its parameters. */
static void extents_set(const hr_function *function, const struct sizes *s, int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++) {
        const char *name = function->extents[e];
        extents[e] = *name == 'M' ? s->m : *name == 'N' ? s->n : *name == 'K' ? s->k : s->b;
    }
}

/* Returns whether k is in parts. */
static bool expect_mainloop(const cuda_case *one, const struct gemm_case *text) {
    const enum operands operands = text->operands;
    hr_plan *plan;
    hr_cuda_gemm gemm;
    int products = 0;
    bool plain = operands > HALVES && one->limits.compute == 80, splits = false;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    for (int i = 0; i < plan->stage_count; i++) {
        if (!plan->stages[i].contract) continue;
        products++;
        assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[i], one->extents, HR_GEMM_HOPPER, &gemm),
                         HR_OK);
        assert_int_equal(gemm.mainloop == HR_GEMM_PLAIN, plain);
        if (operands == PARTS && !plain) assert_true(gemm.lay_blocks > 0);
        if (operands == F8 && !plain) assert_true(hr_gemm_is_f8(&gemm));
        if (operands == WHOLE && !plain) assert_true(hr_gemm_is_whole(&gemm));
        splits = splits || gemm.tile.splits > 1;
        assert_int_equal(gemm.rights, 1 + text->stacked);
        assert_true(strlen(gemm.why) > 0);
    }
    hr_plan_destroy(plan);
    assert_true(products >= 1);
    return splits;
}

static void test_products(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            hr_program *program;
            int64_t extents[EXTENTS_MAX];
            cuda_case one = {.extents = extents,
                             .limits = cuda_case_limits(sizes[s].compute, sizes[s].processors),
                             .offset = sizes[s].offset,
                             .strided = sizes[s].strided,
                             .nonfinite = sizes[s].nonfinite,
                             .seed = t * 16 + s,
                             .points = 400};
            if (texts[t].operands > HALVES && s >= OTHERS && s != SPLIT) continue;
            if (texts[t].operands >= F8 && s == 1) continue; /* rows are no whole 16 bytes */
            if (sizes[s].m > LARGE && t >= FIRST && !getenv("HR_TEST_LONG")) continue;
            if (t >= FIRST && !sample_takes(t * (sizeof sizes / sizeof *sizes) + s, 17)) continue;
            assert_int_equal(hr_program_parse("gemm.hr", texts[t].text, strlen(texts[t].text), &program),
                             HR_OK);
            assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
            extents_set(one.function, &sizes[s], extents);
            assert_int_equal(expect_mainloop(&one, &texts[t]),
                             s == SPLIT && texts[t].operands != WHOLE && !texts[t].stacked);
            expect_right(&one, (int)(t * 16 + s));
            hr_program_destroy(program);
        }
}

/* Any extents, any alignment: texts and sizes in an order that nobody chose. */
static void test_shapes(void **state) {
    (void)state;
    uint64_t seed = 20261126;
    const int count = getenv("HR_TEST_LONG") ? 60 : 3;
    for (int i = 0; i < count; i++) {
        int64_t extents[EXTENTS_MAX], draw[6];
        for (int d = 0; d < 6; d++)
            draw[d] = (int64_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33);
        const struct gemm_case *text = &texts[draw[0] % (int64_t)(sizeof texts / sizeof *texts)];
        const struct sizes size = {
            .m = 1 + draw[1] % 150, .n = 1 + draw[2] % 150, .k = 1 + draw[3] % 150, .b = 1 + draw[4] % 2};
        hr_program *program = program_of(text->text);
        cuda_case one = {.function = &program->functions[0],
                         .extents = extents,
                         .limits = cuda_case_limits(draw[5] & 1 ? 80 : 90, 1 + draw[5] / 2 % 8),
                         .offset = (int)(draw[5] / 16 % 4 == 0),
                         .seed = (uint64_t)i,
                         .points = 200};
        extents_set(one.function, &size, extents);
        expect_right(&one, i);
        hr_program_destroy(program);
    }
}

/* Tiles that the model chooses untuned where an H100 or H200 was measured: docs/facts.md, "Tensor cores". */
static void test_choices(void **state) {
    (void)state;
    static const struct choice {
        int64_t m, n, k;
        hr_gemm_roles roles;
        int tile_m, tile_n, cluster;
    } choices[] = {
        {8192, 8192, 8192, HR_GEMM_PING_PONG, 128, 192, 2},
        {4096, 4096, 4096, HR_GEMM_COOPERATIVE, 128, 256, 2},
        {2048, 2048, 2048, HR_GEMM_COOPERATIVE, 128, 256, 1},
        {1024, 1024, 1024, HR_GEMM_PING_PONG, 64, 128, 1},
        {65536, 768, 768, HR_GEMM_PING_PONG, 128, 192, 2},
        {65536, 3072, 768, HR_GEMM_PING_PONG, 128, 192, 2},
        {16384, 4096, 4096, HR_GEMM_COOPERATIVE, 128, 256, 2},
        {1000, 1000, 1000, HR_GEMM_PING_PONG, 64, 128, 2}, /* rows straddle sectors */
    };
    const char *text = texts[0].text;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *c = &choices[i];
        hr_program *program;
        const hr_function *function;
        hr_plan *plan;
        hr_cuda_gemm gemm;
        hr_device_limits limits = cuda_case_limits(90, 132);
        int64_t extents[EXTENTS_MAX];
        const struct sizes sizes_of = {.m = c->m, .n = c->n, .k = c->k};
        assert_int_equal(hr_program_parse("gemm.hr", text, strlen(text), &program), HR_OK);
        assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
        extents_set(function, &sizes_of, extents);
        assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[0], extents, HR_GEMM_HOPPER, &gemm), HR_OK);
        if (gemm.tile.roles != c->roles || gemm.tile.m != c->tile_m || gemm.tile.n != c->tile_n ||
            gemm.tile.cluster != c->cluster)
            fail_msg("%lld x %lld x %lld: %s", (long long)c->m, (long long)c->n, (long long)c->k, gemm.why);
        hr_plan_destroy(plan);
        hr_program_destroy(program);
    }
}

/* What the check is told of sums on tensor cores. */
static hr_sum_order order_of(const char *text, int64_t k) {
    hr_program *program;
    const hr_function *function;
    hr_plan *plan;
    hr_sum_order *orders;
    int count;
    hr_device_limits limits = cuda_case_limits(90, 132);
    const struct sizes sizes_of = {.m = 2048, .n = 2048, .k = k};
    int64_t extents[EXTENTS_MAX];
    assert_int_equal(hr_program_parse("gemm.hr", text, strlen(text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    extents_set(function, &sizes_of, extents);
    assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
    assert_int_equal(hr_check_orders(plan, extents, &orders, &count), HR_OK);
    assert_true(count > 0);
    hr_sum_order order = orders[0];
    free(orders);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
    return order;
}

static void test_orders(void **state) {
    (void)state;
    const char *f32 = "kernel k(x: f32[M, K], w: f32[N, K]) -> (y: f32[M, N]) {\n"
                      "    y[m, n] = sum[k](x[m, k] * w[n, k]) }";
    const char *f8 = "kernel k(x: f8e4m3[M, K], w: f8e4m3[N, K]) -> (y: bf16[M, N]) {\n"
                     "    y[m, n] = sum[k](x[m, k] * w[n, k]) }";
    const char *bytes = "kernel k(x: i8[M, K], w: i8[N, K]) -> (y: i32[M, N]) {\n"
                        "    y[m, n] = sum[k](x[m, k] * w[n, k]) }";
    const hr_sum_order whole = order_of(texts[0].text, 8192), chains = order_of(f32, 8192);
    assert_true(whole.cut > 0 && whole.rounding == 0);
    assert_true(chains.cut > 0 && chains.cut < whole.cut && chains.rounding == 0);
    assert_true(order_of(f32, 256).cut == whole.cut);
    assert_true(order_of(f8, 8192).rounding > 0);
    assert_true(order_of(bytes, 8192).cut == 0 && order_of(bytes, 8192).rounding == 0);
}

/* A text with an index more is one launch, however many products it has. */
static void test_many_products_are_one_launch(void **state) {
    (void)state;
    static const char text[] = "kernel k(a: bf16[B, M, K], b: bf16[B, K, N]) -> (c: bf16[B, M, N]) {\n"
                               "    c[p, m, n] = sum[k](a[p, m, k] * b[p, k, n]) }";
    static const int computes[] = {80, 90};
    const int64_t extents[] = {40, 512, 512, 512};
    hr_program *program;
    const hr_function *function;
    assert_int_equal(hr_program_parse("gemm.hr", text, strlen(text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    for (size_t i = 0; i < sizeof computes / sizeof *computes; i++) {
        const hr_device_limits limits = cuda_case_limits(computes[i], 132);
        hr_launch launches[4];
        hr_plan *plan;
        int count;
        assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_cuda_launches(plan, extents, launches, 4, &count), HR_OK);
        assert_int_equal(count, 1);
        hr_plan_destroy(plan);
    }
    hr_program_destroy(program);
}

/* Asks for a walk of all products of a text. Returns whether all share so many tiles then. */
static bool ask_for(cuda_case *one, const hr_knobs *knobs, int stream) {
    hr_plan *plan;
    hr_cuda_gemm gemm;
    bool obeyed = true;
    for (int asked = 0; asked < 2; asked++) {
        assert_int_equal(
            hr_schedule_create(one->function, one->extents, NULL, &one->limits, &one->options, &plan), HR_OK);
        for (int i = 0; i < plan->stage_count; i++) {
            if (!plan->stages[i].contract) continue;
            if (!asked) assert_true(hr_choice_add(&one->options.choice, i, knobs));
            if (!asked) continue;
            assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[i], one->extents, HR_GEMM_HOPPER, &gemm),
                             HR_OK);
            obeyed = obeyed && gemm.tile.stream == stream;
        }
        hr_plan_destroy(plan);
    }
    return obeyed;
}

/* Tiles of a last wave that all clusters share along k: pieces that begin and end anywhere in a tile, of both
 * roles, of clusters of two, with every kind of operand and epilogue. */
static void test_shared_last_wave(void **state) {
    (void)state;
    enum { EACH = 41 };
    static const struct walk {
        int tile_m, tile_n, sharers, processors;
        int64_t m, n, k;
        int stream; /* tiles of clusters that are shared */
    } walks[] = {{64, 64, 1, 5, 104, 248, 912, 3},
                 {64, 64, 1, 5, 104, 376, 640, 2}, /* by four clusters of five, so that pieces are alike */
                 {128, 256, 1, 3, 504, 184, 912, 1},
                 {128, 192, 2, 6, 304, 248, 912, 1}};
    const size_t count = sizeof walks / sizeof *walks;
    int taken = 0, shared = 0;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t w = 0; w < count; w++) {
            const struct walk *walk = &walks[w];
            const int64_t k = walk->k * (texts[t].operands >= F8 ? 2 : 1);
            const struct sizes size = {.m = walk->m, .n = walk->n, .k = k, .b = 1};
            const hr_knobs knobs = {.tile_m = walk->tile_m,
                                    .tile_n = walk->tile_n,
                                    .sharers = walk->sharers,
                                    .last_wave = HR_LAST_WAVE_SHARED};
            int64_t extents[EXTENTS_MAX];
            if (!sample_takes(t * count + w, EACH)) continue;
            hr_program *program = program_of(texts[t].text);
            cuda_case one = {.function = &program->functions[0],
                             .extents = extents,
                             .limits = cuda_case_limits(90, walk->processors),
                             .seed = t,
                             .points = 400};
            extents_set(one.function, &size, extents);
            taken++;
            shared += ask_for(&one, &knobs, walk->stream);
            expect_right(&one, (int)(t * count + w));
            hr_program_destroy(program);
        }
    assert_true(shared > 0 && shared <= taken); /* not every tile fits every text */
}

/* Of f8 with scales of blocks: what is taken so, and its values, scales that are not finite included. */
static void test_scaled(void **state) {
    (void)state;
    static const struct scaled_case {
        const char *text;
        int64_t m, n, g;
        bool scaled, nonfinite;
    } cases[] = {
        {"kernel k(x: f8e4m3[M, G, 128], a: f32[M, G], w: f8e4m3[N, 128, G, 128], s: f32[N, G]) -> (y: "
         "bf16[M, N, "
         "128]) { y[m, n, j] = sum[g, i](x[m, g, i] * a[m, g] * (w[n, j, g, i] * s[n, g])) }",
         70, 3, 3, true, false},
        {"kernel k(x: f8e5m2[M, G, 128], w: f8e4m3[N, 64, G, 128], s: f32[N], c: f32[N]) -> (y: f16[M, N, "
         "64]) {\n"
         "    y[m, n, j] = silu(sum[g, i](x[m, g, i] * (w[n, j, g, i] * s[n]))) + c[n] }",
         40, 2, 20, false, false}, /* one factor for all of k: it leaves the sum */
        {"kernel k(x: f8e4m3[M, G, 128], a: bf16[M, G], w: f8e4m3[N, 128, G, 128], s: f32[N, G]) -> (y: "
         "bf16[M, N, "
         "128]) { y[m, n, j] = sum[g, i](x[m, g, i] * a[m, g] * (w[n, j, g, i] * s[n, g])) }",
         33, 1, 2, true, true},
        {"kernel k(x: f8e4m3[M, K], a: f32[M, K // 128], w: f8e4m3[N, K], s: f32[N // 64, K // 128])\n"
         "    -> (y: bf16[M, N]) {\n"
         "    y[m, n] = sum[k](x[m, k] * a[m, k // 128] * (w[n, k] * s[n // 64, k // 128])) }",
         65, 256, 384, true, false},
        /* a scale of each column, groups of 64 along k: as any other values */
        {"kernel k(x: f8e4m3[M, G, 128], w: f8e4m3[N, G, 128], s: f32[N, G]) -> (y: bf16[M, N]) {\n"
         "    y[m, n] = sum[g, i](x[m, g, i] * (w[n, g, i] * s[n, g])) }",
         40, 40, 2, false, false},
        {"kernel k(x: f8e4m3[M, G, 64], a: f32[M, G], w: f8e4m3[N, G, 64]) -> (y: bf16[M, N]) {\n"
         "    y[m, n] = sum[g, i](x[m, g, i] * a[m, g] * w[n, g, i]) }",
         40, 40, 4, false, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hr_program *program;
        hr_plan *plan;
        hr_cuda_gemm gemm;
        int64_t extents[EXTENTS_MAX] = {0};
        cuda_case one = {.extents = extents,
                         .limits = cuda_case_limits(90, 12),
                         .nonfinite = cases[c].nonfinite,
                         .points = 400};
        assert_int_equal(hr_program_parse("gemm.hr", cases[c].text, strlen(cases[c].text), &program), HR_OK);
        assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
        for (int e = 0; e < one.function->extent_count; e++)
            extents[e] = *one.function->extents[e] == 'M'   ? cases[c].m
                         : *one.function->extents[e] == 'N' ? cases[c].n
                                                            : cases[c].g;
        assert_int_equal(hr_schedule_create(one.function, extents, NULL, &one.limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[0], extents, HR_GEMM_HOPPER, &gemm), HR_OK);
        if (hr_gemm_is_scaled(&gemm) != cases[c].scaled) fail_msg("%zu: %s", c, gemm.why);
        hr_plan_destroy(plan);
        expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
}

/* Matrices that data choose, some of them none that there are: reported, whatever brings them, and what lies
 * beside them is not read. */
static void test_chosen_out_of_range(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(x: bf16[B, M, K], w: bf16[5, N, K], e: i32[B]) -> (y: bf16[B, M, N]) {\n"
        "    y[b, m, n] = sum[k](x[b, m, k] * w[e[b], n, k]) }";
    static const struct chosen {
        int compute, offset;
        const char *words;
    } cases[] = {{90, 0, "by wgmma"}, {90, 1, "by wgmma"}, {80, 0, "by mma.sync"}};
    hr_program *program = program_of(text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t extents[EXTENTS_MAX];
        const struct sizes size = {.m = 40, .n = 72, .k = 64, .b = 6};
        cuda_case one = {.function = &program->functions[0],
                         .extents = extents,
                         .limits = cuda_case_limits(cases[i].compute, 4),
                         .offset = cases[i].offset,
                         .wild = true};
        cuda_outcome outcome;
        hr_plan *plan;
        extents_set(one.function, &size, extents);
        assert_int_equal(hr_schedule_create(one.function, extents, NULL, &one.limits, NULL, &plan), HR_OK);
        assert_non_null(strstr(plan->stages[0].why, cases[i].words));
        assert_null(strstr(plan->stages[0].why, "laid out"));
        hr_plan_destroy(plan);
        assert_int_equal(run_or_skip(&one, &outcome), HR_OUT_OF_RANGE);
    }
    hr_program_destroy(program);
}

/* Sums over results leave with them, a number for 16 rows or columns: nobody reads the results again. Two
 * products in one walk, results that lie across, and those that are fewer than fill the device, where sums
 * are taken of what was stored. */
static void test_partial_sums(void **state) {
    (void)state;
    static const struct summed {
        const char *text;
        int64_t m, n;
        int partials;
        int64_t k; /* of f8, which an Ampere multiplies by threads; 0 = of 16 bits */
    } cases[] = {
        {"kernel k(x: bf16[M, K], w: bf16[N, K], g: bf16[M, N]) -> (y: bf16[M, N], c: f32[N], r: f32[M],\n"
         "    q: f32[M], a: f32) {\n"
         "    t[m, n] = tanh(g[m, n])\n"
         "    y[m, n] = relu(sum[k](x[m, k] * w[n, k])) * t[m, n] * (2 - t[m, n])\n"
         "    c[n] = sum[m](y[m, n])\n"
         "    r[m] = rsqrt(mean[n](y[m, n]^2) + 0.001)\n"
         "    q[m] = min[n](y[m, n] + g[m, n])\n"
         "    a = max[m, n](abs(y[m, n])) }",
         261, 264, 4, 0},
        {"kernel k(x: f16[M, K], w: f16[N, K], v: f16[N, K]) -> (y: f16[M, N], c: f32[N]) {\n"
         "    y[m, n] = silu(sum[k](x[m, k] * w[n, k])) * sum[k](x[m, k] * v[n, k])\n"
         "    c[n] = sum[m](y[m, n] * 0.5) }",
         257, 281, 1, 0},
        {"kernel k(x: f16[K, M], w: f16[K, N]) -> (y: f16[N, M], c: f32[N], r: f32[M]) {\n"
         "    y[n, m] = sum[k](x[k, m] * w[k, n])\n"
         "    c[n] = sum[m](y[n, m])\n"
         "    r[m] = max[n](y[n, m]) }",
         272, 265, 2, 0},
        {"kernel k(x: f16[M, K], w: f16[N, K]) -> (y: f16[M, N], c: f32[N]) {\n"
         "    y[m, n] = sum[k](x[m, k] * w[n, k])\n"
         "    c[n] = sum[m](y[m, n]) }",
         255, 300, 0, 0},
        /* who makes z reads y again, and sums it beside */
        {"kernel k(x: f16[M, K], w: f16[N, K]) -> (z: f16[M, N], r: f32[M], c: f32[N]) {\n"
         "    y[m, n] = sum[k](x[m, k] * w[n, k])\n"
         "    r[m] = sum[n](y[m, n]^2)\n"
         "    c[n] = sum[m](y[m, n])\n"
         "    z[m, n] = y[m, n] * rsqrt(r[m]) }",
         272, 264, 0, 0},
        /* h costs less to make anew than to keep: what leaves reads it, too */
        {"kernel k(x: f16[M, K], w: f16[N, K], s: f32[M, N]) -> (y: f16[M, N], v: f32[M], c: f32[N]) {\n"
         "    e[m] = sum[n](s[m, n]) / N\n"
         "    h[m, n] = s[m, n] - e[m]\n"
         "    v[m] = sum[n](h[m, n]^2)\n"
         "    y[m, n] = sum[k](x[m, k] * w[n, k])\n"
         "    c[n] = sum[m](y[m, n] * h[m, n]) }",
         260, 264, 1, 0},
        /* the scale of the next product; both sides run along k in whole 16 bytes, or not */
        {"kernel k(x: f8e4m3[M, K], w: f8e5m2[N, K], s: f32) -> (y: f8e4m3[M, N], a: f32, c: f32[N], r: "
         "f32[M]) {\n"
         "    t[m, n] = sum[k](x[m, k] * w[n, k]) * s\n"
         "    y[m, n] = t[m, n]\n"
         "    a = max[m, n](abs(t[m, n]))\n"
         "    c[n] = sum[m](t[m, n])\n"
         "    r[m] = min[n](t[m, n]) }",
         261, 264, 3, 16},
        {"kernel k(x: f8e4m3[M, K], w: f8e4m3[N, K]) -> (y: bf16[M, N], a: f32) {\n"
         "    y[m, n] = sum[k](x[m, k] * w[n, k])\n"
         "    a = max[m, n](abs(y[m, n])) }",
         257, 259, 1, 9},
        {"kernel k(x: f8e4m3[M, K], s: f32[M, K // 128], w: f8e4m3[N, K], t: f32[N // 128, K // 128])\n"
         "    -> (y: f8e4m3[M, N], a: f32) {\n"
         "    z[m, n] = sum[k](x[m, k] * s[m, k // 128] * (w[n, k] * t[n // 128, k // 128]))\n"
         "    y[m, n] = z[m, n]\n"
         "    a = max[m, n](abs(z[m, n])) }",
         257, 256, 1, 128},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const struct summed *of = &cases[i / 2];
        int64_t extents[EXTENTS_MAX];
        const struct sizes size = {.m = of->m, .n = of->n, .k = of->k ? of->k : 24};
        hr_program *program = program_of(of->text);
        const bool unaligned = i == 13; /* of f8 with maps: by threads */
        cuda_case one = {.function = &program->functions[0],
                         .extents = extents,
                         .limits = cuda_case_limits(i % 2 && !unaligned ? 80 : 90, 4),
                         .offset = unaligned,
                         .nonfinite = i == 1,
                         .points = 500};
        hr_plan *plan;
        int partials = 0, words = 0;
        extents_set(one.function, &size, extents);
        if (hr_schedule_create(one.function, extents, NULL, &one.limits, NULL, &plan) != HR_OK)
            fail_msg("%zu: %s", i, hr_last_error());
        for (int p = 0; p < plan->stage_count; p++) {
            const hr_stage *stage = &plan->stages[p];
            words += strstr(stage->why, "are summed as they leave") != NULL;
            for (int k = 0; k < stage->step_count; k++)
                partials += stage->steps[k].kind == HR_STEP_PARTIAL;
        }
        assert_int_equal(partials, of->partials);
        assert_true(of->k || words == (partials > 0));
        hr_plan_destroy(plan);
        if (of->partials && (of->k ? i % 2 == 0 || i <= 15 : sample_takes(i, 4))) expect_right(&one, (int)i);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices),
                                       cmocka_unit_test(test_orders),
                                       cmocka_unit_test(test_many_products_are_one_launch),
                                       cmocka_unit_test(test_scaled),
                                       cmocka_unit_test(test_partial_sums),
                                       cmocka_unit_test(test_chosen_out_of_range),
                                       cmocka_unit_test(test_shared_last_wave),
                                       cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
