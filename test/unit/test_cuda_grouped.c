/* Products whose rows each choose their matrix, on the emulated CUDA device against their meaning: experts in
 * any order, some that nobody chose, either layout of the matrix, several indices a row, epilogues that read
 * the choice, arrays that begin anywhere; choices that there are no matrices for. And what is not taken.
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

/* Extents: T rows, K and N, E matrices, U rows of a choice. */
static const struct grouped_case {
    const char *text;
    bool taken;
} texts[] = {
    {"kernel k(x: bf16[T, K], w: bf16[E, N, K], e: i32[T], b: f32[E, N]) -> (y: bf16[T, N]) {\n"
     "    y[t, n] = silu(sum[k](x[t, k] * w[e[t], n, k]) + b[e[t], n]) }",
     true},
    {"kernel k(x: f16[T, K], w: f16[E, K, N], e: i32[T], p: f32[T]) -> (y: f32[T, N]) {\n"
     "    y[t, n] = p[t] * sum[k](x[t, k] * w[e[t], k, n]) }",
     true},
    {"kernel k(x: bf16[T, K], w: bf16[N, E, K], e: i64[T, U]) -> (y: bf16[T, U, N]) {\n"
     "    y[t, u, n] = sum[k](x[t, k] * w[n, e[t, u], k]) }",
     true},
    /* f32; a factor that is no operand of 16 bits */
    {"kernel k(x: f32[T, K], w: f32[E, N, K], e: i32[T]) -> (y: f32[T, N]) {\n"
     "    y[t, n] = sum[k](x[t, k] * w[e[t], n, k]) }",
     false},
    {"kernel k(x: bf16[T, K], w: bf16[E, N, K], s: f32[K], e: i32[T]) -> (y: f32[T, N]) {\n"
     "    y[t, n] = sum[k](x[t, k] * s[k] * w[e[t], n, k]) }",
     false},
};

static const struct sizes {
    int64_t t, n, k, e;
    int compute, offset;
    bool nonfinite;
} sizes[] = {
    {70, 72, 64, 5, 80, 0, false},
    {200, 40, 136, 3, 90, 0, false},
    {33, 17, 35, 9, 90, 1, true},
    {40, 8, 8, 1, 90, 0, false},
};

static void extents_set(const hr_function *function, const struct sizes *s, int64_t *extents) {
    for (int i = 0; i < function->extent_count; i++) {
        const char name = *function->extents[i];
        extents[i] = name == 'T' ? s->t : name == 'N' ? s->n : name == 'K' ? s->k : name == 'E' ? s->e : 2;
    }
}

static bool is_grouped(const cuda_case *one) {
    hr_plan *plan;
    hr_cuda_gemm gemm;
    bool grouped = false;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    for (int i = 0; i < plan->stage_count; i++) {
        if (!plan->stages[i].contract) continue;
        assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[i], one->extents, HR_GEMM_HOPPER, &gemm),
                         HR_OK);
        grouped = grouped || (gemm.groups > 0 && strstr(gemm.why, "matrices they chose"));
    }
    hr_plan_destroy(plan);
    return grouped;
}

static void test_grouped(void **state) {
    (void)state;
    const size_t count = sizeof sizes / sizeof *sizes;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < count; s++) {
            int64_t extents[EXTENTS_MAX];
            hr_program *program = program_of(texts[t].text);
            cuda_case one = {.function = &program->functions[0],
                             .extents = extents,
                             .limits = cuda_case_limits(sizes[s].compute, 132),
                             .offset = sizes[s].offset,
                             .nonfinite = sizes[s].nonfinite,
                             .seed = t * 16 + s,
                             .points = 400};
            extents_set(one.function, &sizes[s], extents);
            if (is_grouped(&one) != texts[t].taken) fail_msg("%zu: %s", s, texts[t].text);
            if (texts[t].taken && sample_takes(t * count + s, 3)) expect_right(&one, (int)(t * 16 + s));
            hr_program_destroy(program);
        }
}

static void test_wild_choices(void **state) {
    (void)state;
    int64_t extents[EXTENTS_MAX];
    hr_program *program = program_of(texts[0].text);
    cuda_outcome outcome;
    cuda_case one = {.function = &program->functions[0],
                     .extents = extents,
                     .limits = cuda_case_limits(90, 132),
                     .wild = true,
                     .points = 100};
    extents_set(one.function, &sizes[0], extents);
    assert_int_equal(run_or_skip(&one, &outcome), HR_OUT_OF_RANGE);
    hr_program_destroy(program);
}

/* More matrices than are sorted at once are rows, as before. */
static void test_many(void **state) {
    (void)state;
    int64_t extents[EXTENTS_MAX];
    hr_program *program = program_of(texts[0].text);
    const struct sizes many = {.t = 64, .n = 64, .k = 64, .e = 5000};
    cuda_case one = {
        .function = &program->functions[0], .extents = extents, .limits = cuda_case_limits(90, 132)};
    extents_set(one.function, &many, extents);
    assert_false(is_grouped(&one));
    hr_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grouped), cmocka_unit_test(test_wild_choices),
                                       cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
