/* Products of several stages in one launch, on the emulated CUDA device against their meaning: with a left
 * operand in common, with a right one, and such that are added up; of all dtypes, on both main loops, as
 * elements of arrays that begin anywhere; and those that the order of stages keeps apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "schedule/cuda/gemm_walk.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/sample.h"

enum { EXTENTS_MAX = 8 };

/* Products that the launch of the first walk multiplies; 0 = there is none. */
static const struct walk_case {
    const char *text;
    hr_gemm_walk_kind kind;
    int products;
    bool maps_only; /* the tensor cores take them where there are tensor maps */
} texts[] = {
    /* heads that share keys, with a bias of one */
    {"kernel k(x: bf16[M, K], p: bf16[N, K], q: bf16[G, K], r: bf16[G, K], b: f32[N])\n"
     "    -> (y: bf16[M, N], z: bf16[M, G], u: f32[M, G]) {\n"
     "    y[m, n] = sum[k](x[m, k] * p[n, k]) + b[n]\n"
     "    z[m, g] = sum[k](x[m, k] * q[g, k])\n"
     "    u[m, g] = relu(sum[k](x[m, k] * r[g, k])) }",
     HR_GEMM_WALK_COLUMNS, 2, false},
    /* of heads by width, positions before and behind them */
    {"kernel k(x: bf16[B, M, K], p: bf16[5, 8, K], q: bf16[2, 8, K], r: bf16[2, 8, K])\n"
     "    -> (y: bf16[B, 5, M, 8], z: bf16[B, 2, M, 8], u: bf16[B, M, 2, 8]) {\n"
     "    y[b, h, t, d] = sum[k](x[b, t, k] * p[h, d, k])\n"
     "    z[b, g, s, d] = sum[k](x[b, s, k] * q[g, d, k])\n"
     "    u[b, t, g, d] = sum[k](x[b, t, k] * r[g, d, k]) }",
     HR_GEMM_WALK_COLUMNS, 3, false},
    /* six, a batch of each */
    {"kernel k(x: f16[B, M, K], p: f16[B, K, N], q: f16[B, K, G], r: f16[B, K, N], s: f16[B, K, 40],\n"
     "    t: f16[B, K, 72], o: f16[B, K, 16])\n"
     "    -> (y: f16[B, M, N], z: f16[B, M, G], u: f16[B, M, N], v: f16[B, M, 40], w: f16[B, M, 72],\n"
     "        a: f16[B, M, 16]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * p[b, k, n])\n"
     "    z[b, m, n] = sum[k](x[b, m, k] * q[b, k, n])\n"
     "    u[b, m, n] = sum[k](x[b, m, k] * r[b, k, n])\n"
     "    v[b, m, n] = sum[k](x[b, m, k] * s[b, k, n])\n"
     "    w[b, m, n] = sum[k](x[b, m, k] * t[b, k, n])\n"
     "    a[b, m, n] = sum[k](x[b, m, k] * o[b, k, n]) }",
     HR_GEMM_WALK_COLUMNS, 5, false},
    /* eight, whose tensor maps are one too many */
    {"kernel k(x: f16[M, K], a: f16[N, K], b: f16[G, K], c: f16[40, K], d: f16[72, K], e: f16[16, K],\n"
     "    f: f16[24, K], g: f16[56, K], h: f16[88, K]) -> (i: f16[M, N], j: f16[M, G], l: f16[M, 40],\n"
     "    o: f16[M, 72], p: f16[M, 16], q: f16[M, 24], r: f16[M, 56], s: f16[M, 88]) {\n"
     "    i[m, n] = sum[k](x[m, k] * a[n, k])\n"
     "    j[m, n] = sum[k](x[m, k] * b[n, k])\n"
     "    l[m, n] = sum[k](x[m, k] * c[n, k])\n"
     "    o[m, n] = sum[k](x[m, k] * d[n, k])\n"
     "    p[m, n] = sum[k](x[m, k] * e[n, k])\n"
     "    q[m, n] = sum[k](x[m, k] * f[n, k])\n"
     "    r[m, n] = sum[k](x[m, k] * g[n, k])\n"
     "    s[m, n] = sum[k](x[m, k] * h[n, k]) }",
     HR_GEMM_WALK_COLUMNS, 7, true},
    {"kernel k(x: f32[M, K], p: f32[N, K], q: f32[G, K]) -> (y: f32[M, N], z: f32[M, G]) {\n"
     "    y[m, n] = sum[k](x[m, k] * p[n, k])\n"
     "    z[m, g] = 2 * sum[k](x[m, k] * q[g, k]) }",
     HR_GEMM_WALK_COLUMNS, 2, true},
    {"kernel k(x: i8[M, K], p: i8[N, K], q: i8[G, K], a: f32[M]) -> (y: bf16[M, N], z: i32[M, G]) {\n"
     "    y[m, n] = sum[k](x[m, k] * p[n, k]) * a[m]\n"
     "    z[m, g] = sum[k](x[m, k] * q[g, k]) }",
     HR_GEMM_WALK_COLUMNS, 2, true},
    {"kernel k(x: f8e4m3[M, K], p: f8e4m3[N, K], q: f8e4m3[G, K], a: f32[M]) -> (y: bf16[M, N], z: bf16[M, "
     "G])\n"
     "    { y[m, n] = sum[k](x[m, k] * p[n, k]) * a[m]\n"
     "    z[m, g] = sum[k](x[m, k] * q[g, k]) }",
     HR_GEMM_WALK_COLUMNS, 2, true},
    /* a row's norm in front */
    {"kernel k(x: bf16[M, K], e: bf16[K], p: bf16[N, K], q: bf16[G, K]) -> (y: bf16[M, N], z: bf16[M, G]) {\n"
     "    r[m] = rsqrt(mean[k](x[m, k]^2) + 0.01)\n"
     "    h[m, k] = bf16(x[m, k] * r[m] * e[k])\n"
     "    y[m, n] = sum[k](h[m, k] * p[n, k])\n"
     "    z[m, g] = sum[k](h[m, k] * q[g, k]) }",
     HR_GEMM_WALK_COLUMNS, 2, false},
    /* gradients of weights */
    {"kernel k(x: bf16[M, K], p: bf16[M, N], q: bf16[M, G], r: bf16[M, G], w: inout f32[G, K])\n"
     "    -> (y: bf16[N, K], z: bf16[G, K]) {\n"
     "    y[n, k] = sum[m](p[m, n] * x[m, k])\n"
     "    z[n, k] = sum[m](q[m, n] * x[m, k])\n"
     "    w[n, k] = w[n, k] + sum[m](r[m, n] * x[m, k]) }",
     HR_GEMM_WALK_ROWS, 2, false},
    {"kernel k(x: bf16[B, M, K], p: bf16[B, 5, M, 8], q: bf16[B, 2, M, 8]) -> (y: f32[5, 8, K], z: f32[2, 8, "
     "K]) {\n"
     "    y[h, d, k] = sum[b, m](p[b, h, m, d] * x[b, m, k])\n"
     "    z[h, d, k] = sum[b, m](q[b, h, m, d] * x[b, m, k]) }",
     HR_GEMM_WALK_ROWS, 2, true},
    {"kernel k(x: f32[M, K], p: f32[M, N], q: f32[M, G]) -> (y: f32[N, K], z: f32[G, K]) {\n"
     "    y[n, k] = sum[m](p[m, n] * x[m, k])\n"
     "    z[n, k] = sum[m](q[m, n] * x[m, k]) }",
     HR_GEMM_WALK_ROWS, 2, true},
    /* the gradient of what they read */
    {"kernel k(p: bf16[M, N], q: bf16[M, G], r: bf16[M, G], a: bf16[N, K], b: bf16[G, K], c: bf16[G, K],\n"
     "    d: bf16[M, K]) -> (y: bf16[M, K]) {\n"
     "    y[m, k] = sum[n](p[m, n] * a[n, k]) + sum[n](q[m, n] * b[n, k]) + sum[n](r[m, n] * c[n, k]) + d[m, "
     "k] }",
     HR_GEMM_WALK_SUM, 3, false},
    {"kernel k(p: bf16[B, 5, M, 8], q: bf16[B, 2, M, 8], v: bf16[5, 8, K], w: bf16[2, 8, K]) -> (y: f32[B, "
     "M, K]) {\n"
     "    y[b, t, c] = sum[h, d](p[b, h, t, d] * v[h, d, c]) + sum[g, d](q[b, g, t, d] * w[g, d, c]) }",
     HR_GEMM_WALK_SUM, 2, true},
    {"kernel k(p: f32[M, N], q: f32[M, G], a: f32[N, K], b: f32[G, K]) -> (y: f32[M, K], z: f32[M, K]) {\n"
     "    s[m, k] = sum[n](p[m, n] * a[n, k]) + sum[n](q[m, n] * b[n, k])\n"
     "    y[m, k] = relu(s[m, k])\n"
     "    z[m, k] = 3 * s[m, k] }",
     HR_GEMM_WALK_SUM, 2, true},
    {"kernel k(p: i8[M, N], q: i8[M, N], a: i8[K, N], b: i8[K, N]) -> (y: i32[M, K]) {\n"
     "    y[m, k] = sum[n](p[m, n] * a[k, n]) + sum[n](q[m, n] * b[k, n]) }",
     HR_GEMM_WALK_SUM, 0, true},
    /* z needs y: they are no walk */
    {"kernel k(x: bf16[M, K], p: bf16[K, K], q: bf16[G, K]) -> (y: bf16[M, K], z: bf16[M, G]) {\n"
     "    y[m, n] = sum[k](x[m, k] * p[n, k])\n"
     "    t[m] = sum[n](y[m, n])\n"
     "    z[m, g] = sum[k](x[m, k] * q[g, k]) * t[m] }",
     HR_GEMM_WALK_COLUMNS, 0, false},
    /* the first of them is no addend, or one of a sum of its own */
    {"kernel k(p: bf16[M, N], q: bf16[M, G], a: bf16[N, K], b: bf16[G, K]) -> (y: bf16[M, K]) {\n"
     "    y[m, k] = 2 * sum[n](p[m, n] * a[n, k]) + sum[n](q[m, n] * b[n, k]) }",
     HR_GEMM_WALK_SUM, 0, false},
    {"kernel k(p: bf16[M, N], q: bf16[M, G], a: bf16[N, K], b: bf16[G, K]) -> (y: bf16[M, K]) {\n"
     "    s[m, k] = sum[n](p[m, n] * a[n, k])\n"
     "    y[m, k] = (s[m, k] + sum[n](q[m, n] * b[n, k])) * tanh(s[m, k]) }",
     HR_GEMM_WALK_SUM, 0, false},
};

enum { FIRST, NEXT }; /* sizes whose walks are told: with tensor maps and without */

static const struct sizes {
    int64_t m, n, g, k, b;
    int compute, processors, offset;
    bool nonfinite;
} sizes[] = {
    {130, 264, 136, 144, 2, 90, 4, 0, false},  {65, 72, 24, 136, 3, 80, 132, 0, false},
    {17, 9, 3, 35, 2, 90, 132, 1, false},      {272, 264, 80, 64, 1, 90, 2, 0, true},
    {40, 1064, 1024, 48, 1, 90, 12, 0, false}, {1, 1, 1, 1, 1, 80, 132, 0, false},
    {33, 40, 8, 208, 2, 90, 6, 3, false},
};

static void extents_set(const hr_function *function, const struct sizes *s, int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++) {
        const char *name = function->extents[e];
        extents[e] = *name == 'M'   ? s->m
                     : *name == 'N' ? s->n
                     : *name == 'G' ? s->g
                     : *name == 'K' ? s->k
                                    : s->b;
    }
}

static hr_plan *plan_of(const cuda_case *one) {
    hr_plan *plan;
    if (hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan) != HR_OK)
        fail_msg("%s", hr_last_error());
    return plan;
}

/* Its first walk, and how many launches its products have. */
static void expect_walk(const cuda_case *one, const struct walk_case *of) {
    hr_plan *plan = plan_of(one);
    const hr_gemm_walk *walk = NULL;
    for (int i = 0; i < plan->stage_count && !walk; i++)
        if (plan->stages[i].contract) walk = hr_gemm_walk_of(&plan->stages[i]);
    const int products = walk ? walk->count : 0;
    if (products != of->products)
        fail_msg("%s: %d products in a walk, not %d", of->text, products, of->products);
    bool apart = false;
    for (int i = 0; i < plan->stage_count; i++)
        apart = apart || strstr(plan->stages[i].why, "not in one walk with stage");
    if (products == 0 && of->kind == HR_GEMM_WALK_COLUMNS) assert_true(apart);
    if (walk) {
        assert_int_equal(walk->kind, of->kind);
        assert_non_null(strstr(plan->stages[walk->stage[0]].why, "in one walk, with stage"));
        assert_non_null(strstr(plan->stages[walk->stage[1]].why, "in the walk of stage"));
        for (int i = 0; i < walk->count; i++) {
            hr_launch launches[4];
            int count;
            assert_int_equal(
                hr_cuda_stage_launches(plan, one->extents, walk->stage[i], 0, launches, 4, &count), HR_OK);
            assert_int_equal(count > 0, i == 0);
            if (i > 0 && walk->kind == HR_GEMM_WALK_SUM)
                assert_false(hr_plan_is_scratch(plan, plan->stages[walk->stage[i]].contract->product));
        }
    }
    hr_plan_destroy(plan);
}

static void test_walks(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int64_t extents[EXTENTS_MAX];
            hr_program *program = program_of(texts[t].text);
            cuda_case one = {.function = &program->functions[0],
                             .extents = extents,
                             .limits = cuda_case_limits(sizes[s].compute, sizes[s].processors),
                             .offset = sizes[s].offset,
                             .nonfinite = sizes[s].nonfinite,
                             .seed = t * 16 + s,
                             .points = 400};
            extents_set(one.function, &sizes[s], extents);
            if (s == FIRST || (s == NEXT && !texts[t].maps_only)) expect_walk(&one, &texts[t]);
            if (sample_takes(t * (sizeof sizes / sizeof *sizes) + s, 17))
                expect_right(&one, (int)(t * 16 + s));
            hr_program_destroy(program);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
