/* Packed matrices times few vectors on the emulated CUDA device against their meaning: numbers of 16, 8 and 4
 * bits however the text unpacks them, with and without scales, either side the matrix, batches, k in parts,
 * odd numbers of rows, arrays that begin anywhere, scales that are not finite. And what is refused.
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

/* Extents: M vectors, N rows, K or G groups of S along k, B batches. */
static const struct thin_case {
    const char *text;
    int word_numbers; /* of the matrix; 0 = it is not taken; with 2 of few vectors alone */
    int unit_bytes;
} texts[] = {
    {"kernel k(x: bf16[M, K], w: bf16[N, K], b: f32[N]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * w[n, k]) + b[n] }",
     2, 16},
    {"kernel k(x: f16[M, K], w: f16[N, K]) -> (y: f32[N, M]) { y[n, m] = sum[k](w[n, k] * x[m, k]) }", 2, 16},
    {"kernel k(x: bf16[B, M, K], w: bf16[B, N, K]) -> (y: f32[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[b, n, k]) }",
     2, 16},
    {"kernel k(q: u8[N, G, 16], scale: f16[N, G], x: bf16[M, G, 32]) -> (y: bf16[M, N]) {\n"
     "    w[n, g, i < 32] = where(i < 16, q[n, g, i % 16] % 16, q[n, g, i % 16] // 16) - 8\n"
     "    y[m, n] = sum[g, i](x[m, g, i] * (w[n, g, i] * scale[n, g])) }",
     8, 4},
    {"kernel k(q: u8[N, G, 16], scale: f32[N, G], x: f16[M, G, 32]) -> (y: f16[M, N]) {\n"
     "    w[n, g, i < 32] = where(i < 16, q[n, g, i % 16] % 16, q[n, g, i % 16] // 16) - 8\n"
     "    y[m, n] = silu(sum[g, i](x[m, g, i] * (w[n, g, i] * scale[n, g]))) }",
     8, 4},
    {"kernel k(x: bf16[M, K], q: u8[N, K // 2], s: f16[N, K // 32]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * s[n, k // 32] *\n"
     "        (where(k % 2 == 0, q[n, k // 2] % 16, q[n, k // 2] // 16) - 8)) }",
     8, 4},
    {"kernel k(q: u8[N, G, 64], scale: bf16[N, G], x: bf16[M, G, 64, 2]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[g, j, h](x[m, g, j, h] * scale[n, g] *\n"
     "        where(h == 0, q[n, g, j] & 15, q[n, g, j] >> 4)) }",
     8, 16},
    {"kernel k(q: i8[N, G, 64], x: f16[M, G, 128]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[g, i](x[m, g, i] * where(i % 2 == 0, (q[n, g, i // 2] + 8) % 16 - 8, q[n, g, i // 2] "
     "// 16)) "
     "}",
     8, 16},
    {"kernel k(q: i8[N, G, S], scale: bf16[N, G], x: bf16[M, G, S]) -> (y: bf16[M, N]) {\n"
     "    y[m, n] = sum[g, s](x[m, g, s] * (q[n, g, s] * scale[n, g])) }",
     4, 8},
    {"kernel k(q: u8[N, K], scale: f32[N], x: f16[M, K]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * (q[n, k] - 128)) * scale[n] }",
     4, 16},
    {"kernel k(q: i8[N, K], a: f32[N], x: bf16[M, K]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * (q[n, k] * a[n])) }",
     4, 16},
    /* sixteen bytes a scale: of few vectors alone */
    {"kernel k(q: i8[N, G, 16], scale: f16[N, G], x: f16[M, G, 16]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[g, i](x[m, g, i] * (q[n, g, i] * scale[n, g])) }",
     4, 4},
    /* values of neither dtype; numbers that no field of bits is; rows across memory */
    {"kernel k(x: f32[M, K], w: bf16[N, K]) -> (y: f32[M, N]) { y[m, n] = sum[k](x[m, k] * w[n, k]) }", 0, 0},
    {"kernel k(q: u8[N, K], x: bf16[M, K]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * (q[n, k] * q[n, k])) }",
     0, 0},
    {"kernel k(q: u8[N, K], x: bf16[M, K]) -> (y: f32[M, N]) {\n"
     "    y[m, n] = sum[k](x[m, k] * (i32(q[n, k] * 0.5) * 2)) }",
     0, 0},
    {"kernel k(x: bf16[M, K], w: bf16[K, N]) -> (y: f32[M, N]) { y[m, n] = sum[k](x[m, k] * w[k, n]) }", 0,
     0},
};

static const struct sizes {
    int64_t m, n, k, g;
    int compute, processors, offset;
    bool nonfinite;
} sizes[] = {
    {2, 70, 256, 4, 80, 2, 0, false},     {8, 100, 320, 3, 90, 2, 0, false},
    {9, 64, 160, 8, 90, 1, 0, false},     {16, 130, 1056, 9, 90, 132, 0, false},
    {3, 72, 128, 5, 80, 132, 1, false},   {5, 65, 288, 8, 90, 1, 0, true},
    {4, 70, 2080, 33, 90, 132, 0, false}, {17, 70, 256, 5, 80, 2, 0, false},
    {70, 97, 1056, 70, 80, 132, 0, true},
};

static void extents_set(const hr_function *function, const struct sizes *s, int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++) {
        const char name = *function->extents[e];
        extents[e] = name == 'M'   ? s->m
                     : name == 'N' ? s->n
                     : name == 'K' ? s->k
                     : name == 'G' ? s->g
                     : name == 'S' ? 32
                                   : 2;
    }
}

/* The only product, as it lies on the device. */
static void choose(const hr_function *function, const int64_t *extents, const hr_device_limits *limits,
                   hr_cuda_gemm *gemm) {
    hr_plan *plan;
    *gemm = (hr_cuda_gemm){0};
    assert_int_equal(hr_schedule_create(function, extents, NULL, limits, NULL, &plan), HR_OK);
    for (int i = 0; i < plan->stage_count; i++)
        if (plan->stages[i].contract)
            assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[i], extents, HR_GEMM_HOPPER, gemm),
                             HR_OK);
    hr_plan_destroy(plan);
}

static void expect_taken(const struct thin_case *text, const struct sizes *s, const hr_cuda_gemm *gemm) {
    const bool few = s->m <= HR_PACKED_VECTORS_FEW, small = text->word_numbers * text->unit_bytes == 16;
    const bool takes = small ? few && s->g % 2 == 0 : text->word_numbers > (few ? 0 : 2);
    if ((gemm->mainloop == HR_GEMM_THIN) != takes) fail_msg("%s: %s", text->text, gemm->why);
    if (!takes) return;
    assert_int_equal(gemm->thin.product.matrix.word_numbers, text->word_numbers);
    if (gemm->thin.product.matrix.row_bytes % 64 == 0)
        assert_int_equal(gemm->thin.product.matrix.unit_bytes, text->unit_bytes);
    assert_non_null(strstr(gemm->why, "the matrix streams past"));
}

static void test_products(void **state) {
    (void)state;
    bool parts = false, whole = false;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            hr_program *program;
            hr_cuda_gemm gemm;
            int64_t extents[EXTENTS_MAX];
            cuda_case one = {.extents = extents,
                             .limits = cuda_case_limits(sizes[s].compute, sizes[s].processors),
                             .offset = sizes[s].offset,
                             .nonfinite = sizes[s].nonfinite,
                             .seed = t * 16 + s,
                             .points = 300};
            if (!sample_takes(t * (sizeof sizes / sizeof *sizes) + s, 9)) continue;
            assert_int_equal(hr_program_parse("thin.hr", texts[t].text, strlen(texts[t].text), &program),
                             HR_OK);
            assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
            extents_set(one.function, &sizes[s], extents);
            choose(one.function, extents, &one.limits, &gemm);
            expect_taken(&texts[t], &sizes[s], &gemm);
            parts = parts || (gemm.mainloop == HR_GEMM_THIN && gemm.tile.splits > 1);
            whole = whole || (gemm.mainloop == HR_GEMM_THIN && gemm.tile.splits == 1);
            if (gemm.mainloop == HR_GEMM_THIN) expect_right(&one, (int)(t * 16 + s));
            hr_program_destroy(program);
        }
    assert_true(parts || !getenv("HR_TEST_LONG") || sample_is_shared());
    assert_true(whole);
}

/* What blocks have at the sizes of models. */
static void test_choices(void **state) {
    (void)state;
    static const struct choice {
        int text;
        int64_t m, n, k, g;
        int rows, splits; /* 0 = tiles by wgmma */
    } choices[] = {
        {3, 1, 4096, 0, 128, 32, 1},    {3, 16, 4096, 0, 128, 32, 1},   {3, 1, 14336, 0, 128, 128, 1},
        {0, 8, 14336, 4096, 0, 128, 1}, {0, 8, 4096, 14336, 0, 128, 4}, {3, 1, 1024, 0, 128, 32, 1},
        {11, 1, 4096, 0, 256, 16, 1},   {0, 9, 14336, 4096, 0, 0, 0},   {0, 16, 4096, 4096, 0, 0, 0},
    };
    const hr_device_limits limits = cuda_case_limits(90, 132);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *c = &choices[i];
        const char *text = texts[c->text].text;
        const struct sizes of = {.m = c->m, .n = c->n, .k = c->k, .g = c->g};
        const hr_function *function;
        hr_program *program;
        hr_cuda_gemm gemm;
        int64_t extents[EXTENTS_MAX];
        assert_int_equal(hr_program_parse("thin.hr", text, strlen(text), &program), HR_OK);
        assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
        extents_set(function, &of, extents);
        choose(function, extents, &limits, &gemm);
        const bool thin = gemm.mainloop == HR_GEMM_THIN, right = thin == (c->rows > 0);
        if (!right || (thin && (gemm.tile.m != c->rows || gemm.tile.splits != c->splits)) ||
            (!thin && gemm.mainloop != HR_GEMM_HOPPER))
            fail_msg("%zu: %s", i, gemm.why);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices), cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
