/* Means and variances of rows and of columns far from 0 on the emulated CUDA device are as good as a running
 * mean's (Welford's): of equal elements the mean is just that and the variance 0, of elements near a level
 * the variance is that of what is left of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "lang/program.h"
#include "support/cuda_test.h"
#include "support/sample.h"

#include <math.h>

static const char *const texts[] = {
    "kernel far(x: T[M, N]) -> (y: f32[M, N], mean: f32[M], var: f32[M]) {\n"
    "    mean[m] = sum[n](x[m, n]) / N\n"
    "    var[m] = sum[n]((x[m, n] - mean[m])^2) / N\n"
    "    y[m, n] = (x[m, n] - mean[m]) * rsqrt(var[m] + 1e-30) }",
    "kernel far(x: T[M, N], y: f32[1, 1]) -> (mean: f32[M], var: f32[M]) {\n"
    "    mean[m] = sum[n](x[m, n]) / N\n"
    "    var[m] = sum[n]((x[m, n] - mean[m])^2) / N + 0 * y[0, 0] }",
};
static const char column_text[] = "kernel far(x: T[M, N]) -> (y: f32[M, N], mean: f32[N], var: f32[N]) {\n"
                                  "    mean[n] = sum[m](x[m, n]) / M\n"
                                  "    var[n] = sum[m]((x[m, n] - mean[n])^2) / M\n"
                                  "    y[m, n] = (x[m, n] - mean[n]) * rsqrt(var[n] + 1e-30) }";
enum { ROWS = 5, TEXTS = sizeof texts / sizeof *texts };

typedef struct level {
    double level, step;
} level;

static const level levels[] = {{12345.678f, 0}, {-0.1f, 0}, {3e7f, 0}, {1e4f, 0x1p-6}, {-1e6f, 1}};

/* The case in hand. */
static const level *now_at;
static hr_dtype dtype;
static void *x_before; /* as the kernel gets it */
static bool of_columns;

static void give(const cuda_case *one, const char *name, void *values, int64_t count) {
    if (strcmp(name, "x") != 0) return;
    const int64_t columns = one->extents[1];
    for (int64_t i = 0; i < count; i++) {
        const bool odd = of_columns && i % columns % 8 == 3 && i / columns < 33;
        hr_dtype_store(dtype, values, (size_t)i,
                       now_at->level + now_at->step * (double)(i * i % 7 + (odd ? 64 : 0)));
    }
    x_before = realloc(x_before, (size_t)count * hr_dtype_size(dtype));
    assert_non_null(x_before);
    memcpy(x_before, values, (size_t)count * hr_dtype_size(dtype));
}

static hr_status look(const cuda_case *one, void *const *arrays) {
    const float *mean = arrays[2], *var = arrays[3];
    const int64_t length = one->extents[!of_columns], count = one->extents[of_columns];
    const int64_t apart = of_columns ? 1 : length, step = of_columns ? count : 1;
    for (int64_t m = 0; m < count; m++) {
        double sum = 0, squares = 0;
        for (int64_t n = 0; n < length; n++)
            sum += hr_dtype_load(dtype, x_before, (size_t)(m * apart + n * step));
        const double want = sum / (double)length, about = of_columns ? want : (double)(float)want;
        for (int64_t n = 0; n < length; n++)
            squares += pow(hr_dtype_load(dtype, x_before, (size_t)(m * apart + n * step)) - about, 2);
        squares /= (double)length;
        if (!(fabs((double)mean[m] - want) <= (of_columns ? 0x1p-23 : 0x1p-24) * fabs(want)))
            return hr_fail(HR_WRONG_RESULT, "mean %.9g, should be %.9g", (double)mean[m], want);
        if (!(fabs((double)var[m] - squares) <= 1e-4 * squares))
            return hr_fail(HR_WRONG_RESULT, "variance %.9g, should be %.9g", (double)var[m], squares);
    }
    return HR_OK;
}

static void check(const char *text, int64_t rows, int64_t columns, int number) {
    hr_program *program;
    const int64_t extents[] = {rows, columns};
    char all[1000];
    const char *type = strstr(text, "T[M");
    cuda_case one = {.extents = extents,
                     .limits = cuda_case_limits(90, 4),
                     .seed = (uint64_t)number,
                     .points = 400,
                     .give = give,
                     .look = look};
    dtype = number % 3 == 2 ? HR_BF16 : HR_F32;
    snprintf(all, sizeof all, "%.*s%s%s", (int)(type - text), text, hr_dtype_name(dtype), type + 1);
    assert_int_equal(hr_program_parse("far.hr", all, strlen(all), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
    expect_right(&one, number);
    hr_program_destroy(program);
}

static void test_rows_far_from_0(void **state) {
    (void)state;
    static const int64_t columns[] = {64, 513, 4096, 16384, 20000, 65536, 100004};
    size_t number = 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
            for (size_t t = 0; t < TEXTS; t++, number++) {
                now_at = &levels[i];
                if (sample_takes(number, 6)) check(texts[t], ROWS, columns[k], (int)number);
            }
}

/* Guesses that are good, and some that are not: what they are made of is far from all others. */
static void test_columns_far_from_0(void **state) {
    (void)state;
    static const int64_t tasks[] = {64, 1000}, columns[] = {32, 77, 300, 4096};
    int number = 0;
    of_columns = true;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        for (size_t k = 0; k < 8; k++, number++) {
            now_at = &levels[i];
            if (sample_takes((size_t)number, 8)) check(column_text, tasks[k / 4], columns[k % 4], number);
        }
    free(x_before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_far_from_0),
                                       cmocka_unit_test(test_columns_far_from_0)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
