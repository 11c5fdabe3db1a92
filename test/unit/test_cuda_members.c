/* Matrices that lie apart, on the emulated CUDA device: as operands and as results of products, which the
 * copy engine brings and takes where they begin at whole 16 bytes; chosen by a table; in kernels without
 * products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "schedule/cuda/choose_gemm.h"
#include "support/cuda_test.h"
#include "support/sample.h"

enum { EXTENTS_MAX = 6 };

/* Extents by their names' first letters. `walked`: by the copy engine, where rows are whole 16 bytes. */
static const struct members_text {
    const char *text;
    bool walked;
    int results; /* that the copy engine takes */
} texts[] = {
    {"kernel k(x: bf16[B, M, K], w: bf16[B, N, K]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[b, n, k]) }",
     true, 1},
    {"kernel k(x: f16[B, M, K], w: f16[B, K, N], c: f16[B, M, N]) -> (y: f16[B, M, N], z: f16[B, M, N]) {\n"
     "    s[b, m, n] = sum[k](x[b, m, k] * w[b, k, n]) + c[b, m, n]\n"
     "    y[b, m, n] = relu(s[b, m, n])\n"
     "    z[b, m, n] = 2 * s[b, m, n] }",
     true, 2},
    {"kernel k(x: bf16[A, M, K], w: bf16[E, N, K], s: i32[B], t: i32[B]) -> (y: f32[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[s[b], m, k] * w[t[b], n, k]) }",
     true, 1},
    {"kernel k(x: bf16[B, M, K], w: bf16[B, N, K], y: inout f32[B, M, N]) {\n"
     "    y[b, m, n] = y[b, m, n] + sum[k](x[b, m, k] * w[b, n, k]) }",
     true, 1},
    {"kernel k(x: i8[B, M, K], w: i8[B, N, K], a: f32[B, M]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[b, n, k]) * a[b, m] }",
     true, 1},
    {"kernel k(x: f8e4m3[B, M, K], w: f8e5m2[B, N, K]) -> (y: f16[B, N, M]) {\n"
     "    y[b, n, m] = sum[k](x[b, m, k] * w[b, n, k]) }",
     true, 1},
    {"kernel k(x: bf16[B, M, K], p: bf16[B, N, K], q: bf16[B, N, K]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = silu(sum[k](x[b, m, k] * p[b, n, k])) * sum[k](x[b, m, k] * q[b, n, k]) }",
     false, 0},
    {"kernel k(x: bf16[A, M, K], w: bf16[E, N, K], s: i32[B], t: i32[B], u: i32[B]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[s[b], m, k] * w[t[b], n, k]) * sum[k](x[s[b], m, k] * w[u[b], n, k]) }",
     false, 0},
    {"kernel k(x: f32[B, M, K], w: f32[B, N, K]) -> (y: f32[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[b, n, k]) }",
     false, 0},
    {"kernel k(x: bf16[B, M, K], w: bf16[1, N, K]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * w[0, n, k]) }",
     false, 0},
    {"kernel k(x: bf16[B, K], w: bf16[B, N]) -> (y: bf16[1, K, N]) { y[i, k, n] = sum[b](x[b, k] * w[b, n]) "
     "}",
     false, 0},
    {"kernel k(x: f32[B, M, K]) -> (y: f32[B, M, K], s: f32[B, M]) {\n"
     "    s[b, m] = sum[k](x[b, m, k])\n"
     "    y[b, m, k] = x[b, m, k] - s[b, m] / K }",
     false, 0},
    /* what is computed in registers, laid out, or walked as one array beside members */
    {"kernel k(dense: f8e5m2[B, N, K], x: f16[B, M, K]) -> (y: f16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](x[b, m, k] * dense[b, n, k]) }",
     false, 0},
    {"kernel k(dense: bf16[B, M, K], w: bf16[B, N, K], dense_2: bf16[B, M, N]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = sum[k](relu(dense[b, m, k]) * w[b, n, k]) + dense_2[b, m, n] }",
     false, 0},
    {"kernel k(x: bf16[B, M, K], dense: bf16[N, K]) -> (y: bf16[B, M, N]) {\n"
     "    y[b, m, n] = gelu(sum[k](x[b, m, k] * dense[n, k])) }",
     false, 0},
    {"kernel k(x: bf16[B, M, K], t: i32[B], y: inout f32[A, M, K]) { y[t[b], m, k] += x[b, m, k] }", false,
     0},
};

static const struct members_sizes {
    int64_t m, n, k, b;
    int compute, processors;
    cuda_members members;
} sizes[] = {{40, 72, 144, 3, 90, 2, CUDA_MEMBERS_ALIGNED},  {17, 9, 35, 4, 90, 3, CUDA_MEMBERS_ODD},
             {130, 136, 80, 2, 90, 4, CUDA_MEMBERS_ALIGNED}, {33, 24, 48, 5, 90, 132, CUDA_MEMBERS_ODD},
             {40, 48, 64, 3, 80, 4, CUDA_MEMBERS_ALIGNED},   {7, 5, 3, 2, 80, 132, CUDA_MEMBERS_ODD},
             {1, 1, 1, 1, 90, 132, CUDA_MEMBERS_ALIGNED}};

static void extents_set(const hr_function *function, const struct members_sizes *s, int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++) {
        const char name = *function->extents[e];
        extents[e] = name == 'M' ? s->m : name == 'N' ? s->n : name == 'K' ? s->k : s->b + (name == 'A');
    }
}

static void test_members(void **state) {
    (void)state;
    enum { EACH = 3 };
    const size_t count = sizeof sizes / sizeof *sizes;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < count; s++) {
            int64_t extents[EXTENTS_MAX];
            if (!sample_takes(t * count + s, EACH)) continue;
            hr_program *program = program_of(texts[t].text);
            const cuda_case one = {.function = &program->functions[0],
                                   .extents = extents,
                                   .limits = cuda_case_limits(sizes[s].compute, sizes[s].processors),
                                   .members = sizes[s].members,
                                   .seed = t,
                                   .points = 300};
            assert_true(one.function->extent_count <= EXTENTS_MAX);
            extents_set(one.function, &sizes[s], extents);
            expect_right(&one, (int)(t * count + s));
            hr_program_destroy(program);
        }
}

/* What is walked as it lies, and which results leave so. */
static void test_which_are_walked(void **state) {
    (void)state;
    const hr_layout layouts[] = {HR_LAYOUT_MEMBERS, HR_LAYOUT_MEMBERS, HR_LAYOUT_MEMBERS, HR_LAYOUT_MEMBERS};
    const struct members_sizes size = {.m = 64, .n = 64, .k = 128, .b = 3};
    const hr_device_limits limits = cuda_case_limits(90, 132);
    for (size_t t = 0; t < 6; t++) {
        int64_t extents[EXTENTS_MAX];
        hr_layout all[6] = {layouts[0], layouts[1], layouts[2], layouts[3]};
        hr_program *program = program_of(texts[t].text);
        const hr_function *function = &program->functions[0];
        hr_plan *plan;
        hr_cuda_gemm gemm;
        for (int i = 0; i < function->parameter_count + function->result_count; i++)
            all[i] = function->tensors[i].rank > 1 ? HR_LAYOUT_MEMBERS : HR_LAYOUT_DENSE;
        extents_set(function, &size, extents);
        assert_int_equal(hr_schedule_create(function, extents, all, &limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_cuda_gemm_choose(plan, &plan->stages[0], extents, HR_GEMM_HOPPER, &gemm), HR_OK);
        if (!gemm.left.view.member || !gemm.right.view.member) fail_msg("%zu: %s", t, gemm.why);
        assert_int_equal(gemm.result_count, texts[t].results);
        hr_plan_destroy(plan);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_are_walked),
        cmocka_unit_test(test_members),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
