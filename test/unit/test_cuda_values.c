/* Values at the edges of what kernels of the emulated CUDA device do in a way of their own: long rows far
 * below 0 whose sum is made beside their peak, bounds of random numbers, a thread with both halves of a pair.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "support/cuda_test.h"

static const char *const texts[] = {
    "kernel far(x: bf16[M, N]) -> (lse: f32[M]) { lse[m] = logsumexp[n](x[m, n] * 9 - 300) }",
    "kernel far_f32(x: f32[M, N]) -> (lse: f32[M]) { lse[m] = logsumexp[n](x[m, n] * 40 + 700) }",
    "kernel plain(x: bf16[M, N]) -> (lse: f32[M]) { lse[m] = logsumexp[n](x[m, n]) }",
    "kernel soft(x: bf16[M, N]) -> (y: bf16[M, N]) { y[m, n] = softmax[n](x[m, n] * 9 - 300) }",
    "kernel spread(x: bf16[M, N]) -> (y: bf16[M, N], mean: f32[M], v: f32[M]) {\n"
    "    mean[m] = sum[n](x[m, n]) / N\n"
    "    v[m] = sum[n]((x[m, n] - mean[m])^2) / N\n"
    "    y[m, n] = (x[m, n] - mean[m]) * rsqrt(v[m] + 1) }",
    "kernel all(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = where(random(1, m * N + n) >= 0, x[m, n], 7) }",
    "kernel low(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = where(random(1, m * N + n) >= -3, x[m, n], 7) }",
    "kernel none(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = where(random(1, m * N + n) >= 1, x[m, n], 7) }",
    "kernel some(x: bf16[M, N], p: f32[M]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = where(random(5, m * N + n + 1) >= p[m], x[m, n], 7) }",
    "kernel below(x: bf16[M, N], p: f32[M]) -> (y: bf16[M, N]) {\n"
    "    y[m, n] = where(random(5, m * N + n + 1) < p[m], x[m, n], 7) }",
    "kernel used(x: f32[M, N]) -> (y: f32[M, N]) {\n"
    "    y[m, n] = where(random(1, m * N + n) >= 0.5, random(1, m * N + n), x[m, n]) }",
    "kernel turned(x: bf16[M, 2, N], c: f32[M, N]) -> (y: bf16[M, 2, N]) {\n"
    "    y[m, p, n] = x[m, p, n] * c[m, n] + (2 * p - 1) * x[m, 1 - p, n] }",
};

static void expect_text(const char *text, int64_t rows, int64_t columns, int number) {
    hr_program *program;
    const int64_t extents[] = {rows, columns};
    cuda_case one = {.extents = extents,
                     .limits = cuda_case_limits(90, 4),
                     .nonfinite = number % 2 == 1,
                     .seed = (uint64_t)number,
                     .points = 400};
    assert_int_equal(hr_program_parse("values.hr", text, strlen(text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
    expect_right(&one, number);
    hr_program_destroy(program);
}

static void test_values(void **state) {
    (void)state;
    static const int64_t columns[] = {20001, 20000, 16384, 96, 8};
    int number = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
            expect_text(texts[i], 3, columns[k], number++);
            expect_text(texts[i], 3, columns[k], number++);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
