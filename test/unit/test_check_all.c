/* What a whole check says of right code: that it is right, and what the user gets. */
#include "support/cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static hr_kernel *load(const char *text) {
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(device, "test.hr", text, strlen(text), NULL, &kernel));
    return kernel;
}

static void bind(hr_kernel *kernel, const char *name, float *data, int rank, const int64_t *shape) {
    hr_array array = {.size = sizeof array, .data = data, .dtype = HR_F32, .rank = rank, .shape = shape};
    good(hr_kernel_bind(kernel, name, &array));
}

/* Right code of a text that cancels: the report says so, and what to write. */
static void test_check_says_what_the_user_gets(void **state) {
    (void)state;
    enum { M = 8, N = 4096 };
    static float x[M * N], var[M];
    hr_kernel *kernel = load("kernel k(x: f32[M, N]) -> (var: f32[M])\n{\n    mean[m] = mean[n](x[m, n])\n"
                             "    var[m] = mean[n](x[m, n]^2) - mean[m]^2\n}\n");
    for (int i = 0; i < M * N; i++)
        x[i] = 10000 + (float)((unsigned)i * 2654435761u >> 8) * 0x1p-22f;
    bind(kernel, "x", x, 2, SHAPE(M, N));
    bind(kernel, "var", var, 1, SHAPE(M));
    hr_check check;
    good(hr_kernel_check_all(kernel, &check));
    assert_true(check.ok && check.relative_error > 0.1);
    assert_non_null(strstr(check.warning, "7 digits in var["));
    assert_non_null(strstr(check.warning, "line 4"));
    assert_non_null(strstr(check.warning, "write the variance about the mean"));
    for (int i = 0; i < M * N; i++)
        x[i] -= 10000;
    good(hr_kernel_check_all(kernel, &check));
    assert_true(check.ok && check.relative_error < 1e-4 && !check.warning[0]);
    hr_kernel_destroy(kernel);
}

/* Addends that are alike err in one direction; a constant row has no variance but that of its mean's
 * rounding. */
static void test_alike_addends_are_right(void **state) {
    (void)state;
    static const char *const texts[] = {
        "kernel k(x: f32[M, N]) -> (y: f32[N])\n{\n    y[n] = sum[m](x[m, n])\n}\n",
        "kernel k(x: f32[M, N]) -> (y: f32[M])\n{\n    y[m] = sum[n](x[m, n])\n}\n",
        "kernel k(x: f32[M, N]) -> (y: f32[M, N])\n{\n    mean[m] = mean[n](x[m, n])\n"
        "    r[m] = rsqrt(mean[n]((x[m, n] - mean[m])^2) + 1e-5)\n    y[m, n] = (x[m, n] - mean[m]) * "
        "r[m]\n}\n"};
    static const int64_t shapes[][2] = {{20000, 5}, {3, 100003}, {5, 513}};
    for (int k = 0; k < 6; k++) {
        const int64_t *shape = shapes[k % 3], elements = shape[0] * shape[1];
        float *x = malloc((size_t)elements * sizeof *x);
        assert_non_null(x);
        for (int64_t i = 0; i < elements; i++)
            x[i] = k < 3 ? 0.1f : 12345.678f;
        hr_kernel *kernel = load(texts[k % 3]);
        bind(kernel, "x", x, 2, shape);
        good(hr_kernel_fill(kernel, 0));
        hr_check check;
        good(hr_kernel_check_all(kernel, &check));
        if (!check.ok)
            fail_msg("text %d: error %g of %g: %s", k, check.max_error, check.tolerance, check.where);
        hr_kernel_destroy(kernel);
        free(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check_says_what_the_user_gets),
                                       cmocka_unit_test(test_alike_addends_are_right)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
