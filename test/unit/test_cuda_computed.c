/* Products whose left operand is computed in the registers of whom it is multiplied by, on the emulated CUDA
 * device against their meaning: packed numbers and f8 beside many rows, with factors of rows, of groups
 * longer and shorter than a step along k; texts of 16 bits in front of a product; tails, k in parts, arrays
 * that begin anywhere, values that are not finite. And what is not taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "schedule/cuda/choose_gemm.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/sample.h"

enum { EXTENTS_MAX = 6 };

static const char bytes[] = "kernel k(x: bf16[M, K], q: i8[N, K], s: f32[N]) -> (y: bf16[M, N]) {\n"
                            "    y[m, n] = sum[k](x[m, k] * (q[n, k] * s[n])) }";

/* Extents: M vectors, N rows of the matrix, K or G groups of S along k, B batches. */
static const struct computed_case {
    const char *text;
    int64_t m, n, k, g, s;
    int processors, offset;
    bool taken, nonfinite;
} cases[] = {
    {bytes, 70, 97, 144, 0, 0, 132, 0, true, false},
    {"kernel k(x: f16[M, K], q: u8[N, K], s: f32[N]) -> (y: f32[N, M]) {\n"
     "    y[n, m] = s[n] * sum[k](x[m, k] * (q[n, k] - 128)) }",
     200, 130, 320, 0, 0, 2, 0, true, false},
    {"kernel k(q: u8[N, G, 16], s: f16[N, G], x: bf16[M, G, 32], b: f32[N]) -> (y: bf16[M, N]) {\n"
     "    w[n, g, i < 32] = where(i < 16, q[n, g, i % 16] % 16, q[n, g, i % 16] // 16) - 8\n"
     "    y[m, n] = silu(sum[g, i](x[m, g, i] * (w[n, g, i] * s[n, g])) + b[n]) }",
     66, 72, 0, 5, 0, 132, 0, true, false},
    {"kernel k(x: bf16[M, K], q: u8[N, K // 2], s: f16[N, K // 64]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * s[n, k // 64] *\n"
     "        (where(k % 2 == 0, q[n, k // 2] % 16, q[n, k // 2] // 16) - 8)) }",
     130, 65, 512, 0, 0, 1, 0, true, false},
    {"kernel k(q: i8[N, G, S], s: bf16[N, G], x: bf16[M, G, S]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[g, j](x[m, g, j] * (q[n, g, j] * s[n, g])) }",
     80, 70, 0, 5, 128, 132, 0, true, true},
    {"kernel k(w: f8e4m3[N, G, S], s: f32[N, G], x: bf16[M, G, S]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[g, j](x[m, g, j] * (w[n, g, j] * s[n, g])) }",
     9, 70, 0, 24, 64, 12, 0, true, false},
    {"kernel k(w: f8e5m2[B, N, K], x: f16[B, M, K]) -> (y: f16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[b, n, k]) }",
     40, 33, 112, 0, 0, 132, 0, true, false},
    {"kernel k(x: bf16[M, K], g: f32[K], r: f32[M], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](bf16(x[m, k] * r[m] * g[k]) * w[n, k]) }",
     150, 136, 72, 0, 0, 132, 0, true, false},
    {"kernel k(x: f16[K, M], w: i8[N, K]) -> (y: f16[N, M]) {\n"
     "    y[n, m] = sum[k](f16(relu(w[n, k] * 0.125)) * x[k, m]) }",
     72, 70, 96, 0, 0, 132, 0, true, true},
    {"kernel k(x: bf16[M, K], w: bf16[N, K], seed: i64) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](bf16(where(random(seed, m * K + k) < 0.5, 2 * x[m, k], 0)) * w[n, k]) }",
     70, 64, 64, 0, 0, 132, 1, true, false},
    /* what is bf16 without being rounded */
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](min(max(-x[m, k], 0), 6) * w[n, k]) }",
     40, 70, 48, 0, 0, 132, 0, true, true},
    /* evaluated for many columns; dear, of many elements; few vectors; f32 */
    {"kernel k(x: bf16[M, K], w: bf16[N, K], seed: i64) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](bf16(where(random(seed, m * K + k) < 0.5, 2 * x[m, k], 0)) * w[n, k]) }",
     2048, 64, 1024, 0, 0, 132, 0, false, false},
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](bf16(relu(x[m, k])) * w[n, k]) }",
     64, 300, 64, 0, 0, 132, 0, false, false},
    {bytes, 16, 97, 144, 0, 0, 132, 0, false, false},
    {"kernel k(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](tanh(x[m, k]) * w[n, k]) }",
     64, 64, 64, 0, 0, 132, 0, false, false},
};

static void extents_set(const hr_function *function, const struct computed_case *c, int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++) {
        const char name = *function->extents[e];
        extents[e] = name == 'M'   ? c->m
                     : name == 'N' ? c->n
                     : name == 'K' ? c->k
                     : name == 'G' ? c->g
                     : name == 'S' ? c->s
                                   : 2;
    }
}

/* Returns whether k is in parts. */
static bool expect_taken(const cuda_case *one, const struct computed_case *c) {
    hr_plan *plan;
    bool splits = false;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    for (int i = 0; i < plan->stage_count; i++) {
        hr_cuda_gemm gemm;
        if (!plan->stages[i].contract) continue;
        assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[i], one->extents, HR_GEMM_HOPPER, &gemm),
                         HR_OK);
        if (hr_gemm_is_raw(&gemm) != c->taken) fail_msg("%s: %s", c->text, gemm.why);
        if (c->taken) assert_non_null(strstr(gemm.why, "computed in registers"));
        splits = splits || gemm.tile.splits > 1;
    }
    hr_plan_destroy(plan);
    return splits;
}

static void test_computed(void **state) {
    (void)state;
    bool splits = false;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t extents[EXTENTS_MAX];
        hr_program *program = program_of(cases[c].text);
        cuda_case one = {.function = &program->functions[0],
                         .extents = extents,
                         .limits = cuda_case_limits(90, cases[c].processors),
                         .offset = cases[c].offset,
                         .nonfinite = cases[c].nonfinite,
                         .seed = c,
                         .points = 400};
        extents_set(one.function, &cases[c], extents);
        splits = expect_taken(&one, &cases[c]) || splits;
        if (cases[c].taken && sample_takes(c, 3)) expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
    assert_true(splits);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_computed)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
