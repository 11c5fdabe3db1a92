/* What goes along an axis in order: sums so far, recurrences, the largest elements, and products. Against
 * loops in f64, at odd, small and empty extents, with values that are not finite, and with fewer rows than
 * threads.
 */
#include "device/device.h"
#include "support/cpu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

static const char text[] =
    "kernel k(x: f32[M, N], a: f32[M, N], h0: f32[M], i: i32[M, N])\n"
    "    -> (sums: f32[M, N], down: f32[M, N], whole: i64[M, N], h: f32[M, N], back: f32[M, N], after: "
    "f32[M, N],\n"
    "        product: f32[M], column: f32[N], all: i64[M])\n{\n"
    "    sums[m, n] = cumsum[n](x[m, n])\n"
    "    down[m, n] = 1 - cumsum[m](2 * x[m, n])\n"
    "    whole[m, n] = cumsum[n](i[m, n])\n"
    "    h[m, -1] = h0[m]\n"
    "    h[m, n] = x[m, n] - a[m, n] * h[m, n - 1] / 2\n"
    "    back[m, n] = where(i[m, n] % 7 == 0, x[m, n] - back[m, n + 1] / 2, 0.75 * back[m, n + 1] + x[m, "
    "n])\n"
    "    after[m, n] = where(n > 0, h[m, n - 1], h0[m])\n"
    "    product[m] = prod[n](1 + x[m, n] / 256)\n"
    "    column[n] = prod[m](1 + x[m, n] / 256)\n"
    "    all[m] = prod[n](i[m, n] % 3)\n}\n"
    "kernel largest(x: f32[M, N], i: i32[M, N])\n"
    "    -> (value: f32[M, K], place: i32[M, K], which: i64[M, K], column: f32[N, C])\n{\n"
    "    value[m, r], place[m, r] = topk[n, r < K](x[m, n])\n"
    "    _, which[m, r] = topk[n, r](i[m, n] % 4)\n"
    "    column[n, r], _ = topk[m, r](x[m, n])\n}\n";

static void near(const char *what, int64_t row, int64_t column, double got, double want, double size) {
    if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 4e-6 * (1 + size)) return;
    fail_msg("%s[%lld, %lld] is %.9g, not %.9g", what, (long long)row, (long long)column, got, want);
}

static const float *floats(const hr_kernel *kernel, const char *name) {
    return array_of(kernel, name);
}

static void check_row(const hr_kernel *kernel, int64_t m, int64_t n) {
    const float *x = floats(kernel, "x") + m * n, *a = floats(kernel, "a") + m * n;
    const int32_t *i = (int32_t *)array_of(kernel, "i") + m * n;
    double sum = 0, size = 0, product = 1, h = (double)floats(kernel, "h0")[m], back = 0;
    int64_t whole = 0, all = 1;
    for (int64_t k = 0; k < n; k++) {
        near("after", m, k, (double)floats(kernel, "after")[m * n + k], h, fabs(h));
        sum += (double)x[k];
        size += isfinite(x[k]) ? fabs((double)x[k]) : 0;
        whole += i[k];
        all *= ((i[k] % 3) + 3) % 3;
        product *= 1 + (double)x[k] / 256;
        h = (double)x[k] - (double)a[k] * h / 2;
        near("sums", m, k, (double)floats(kernel, "sums")[m * n + k], sum, size);
        near("h", m, k, (double)floats(kernel, "h")[m * n + k], h, 4 + fabs(h));
        assert_int_equal(((int64_t *)array_of(kernel, "whole"))[m * n + k], whole);
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        back = ((i[k] % 7) + 7) % 7 == 0 ? (double)x[k] - back / 2 : 0.75 * back + (double)x[k];
        near("back", m, k, (double)floats(kernel, "back")[m * n + k], back, 8);
    }
    near("product", m, 0, (double)floats(kernel, "product")[m], product, fabs(product) * sqrt((double)n));
    assert_int_equal(((int64_t *)array_of(kernel, "all"))[m], all);
}

static void check_columns(const hr_kernel *kernel, int64_t rows, int64_t n) {
    const float *x = floats(kernel, "x");
    for (int64_t k = 0; k < n; k++) {
        double down = 0, size = 0, product = 1;
        for (int64_t m = 0; m < rows; m++) {
            down += 2 * (double)x[m * n + k];
            size += isfinite(x[m * n + k]) ? 2 * fabs((double)x[m * n + k]) : 0;
            product *= 1 + (double)x[m * n + k] / 256;
            near("down", m, k, (double)floats(kernel, "down")[m * n + k], 1 - down, size);
        }
        near("column", 0, k, (double)floats(kernel, "column")[k], product, fabs(product));
    }
}

static void spoil(float *x, int64_t count) {
    for (int64_t k = 0; k < count; k += 13)
        x[k] = k % 5 == 0 ? INFINITY : k % 5 == 1 ? -INFINITY : k % 5 == 2 ? NAN : -0.0f;
}

static hr_kernel *opened(const char *name, int64_t rows, int64_t n, int64_t most, bool nonfinite) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "ordered.hr", text, strlen(text), name, &kernel));
    good(hr_kernel_bind_extent(kernel, "M", rows));
    good(hr_kernel_bind_extent(kernel, "N", n));
    if (most >= 0) good(hr_kernel_bind_extent(kernel, "K", most));
    if (most >= 0) good(hr_kernel_bind_extent(kernel, "C", rows < 2 ? rows : 2));
    good(hr_kernel_fill(kernel, 3));
    if (nonfinite) spoil(array_of(kernel, "x"), rows * n);
    return kernel;
}

/* Against its meaning, errors and all. */
static void verify(hr_kernel *kernel) {
    hr_check check = {0};
    good(hr_kernel_check(kernel, 300, &check));
    if (!check.ok) fail_msg("error %g, tolerance %g: %s", check.max_error, check.tolerance, check.where);
}

static void test_scans(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{9, 33}, {1, 1}, {5, 1030}, {1, 70001}, {300, 5}, {3, 0}, {0, 7}};
    for (size_t c = 0; c < 2 * sizeof sizes / sizeof *sizes; c++) {
        const int64_t rows = sizes[c / 2][0], n = sizes[c / 2][1];
        hr_kernel *kernel = opened("k", rows, n, -1, c % 2);
        good(hr_kernel_launch(kernel));
        for (int64_t m = 0; m < rows; m++)
            check_row(kernel, m, n);
        check_columns(kernel, rows, n);
        verify(kernel);
        hr_kernel_destroy(kernel);
    }
}

/* ---- the largest ---- */

/* NaN before all else; of equals the first. */
static bool comes_before(float a, int64_t at, float b, int64_t other) {
    if (isnan(a) || isnan(b)) return isnan(a) && (!isnan(b) || at < other);
    return a > b || (a == b && at < other);
}

static void check_largest(const hr_kernel *kernel, int64_t m, int64_t n, int64_t most) {
    const float *x = floats(kernel, "x") + m * n, *value = floats(kernel, "value") + m * most;
    const int32_t *place = (int32_t *)array_of(kernel, "place") + m * most,
                  *i = (int32_t *)array_of(kernel, "i") + m * n;
    const int64_t *which = (int64_t *)array_of(kernel, "which") + m * most;
    for (int64_t k = 0; k < n; k++) {
        int64_t rank = 0, other = 0;
        for (int64_t l = 0; l < n; l++) {
            rank += comes_before(x[l], l, x[k], k);
            other += comes_before((float)(((i[l] % 4) + 4) % 4), l, (float)(((i[k] % 4) + 4) % 4), k);
        }
        if (rank < most) {
            assert_int_equal(place[rank], k);
            assert_true(value[rank] == x[k] || (isnan(value[rank]) && isnan(x[k])));
        }
        if (other < most) assert_int_equal(which[other], k);
    }
}

static void test_largest(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{9, 33, 4},    {1, 1, 1}, {2, 1030, 64},
                                       {3, 300, 300}, {5, 7, 0}, {0, 7, 3}};
    for (size_t c = 0; c < 2 * sizeof sizes / sizeof *sizes; c++) {
        const int64_t rows = sizes[c / 2][0], n = sizes[c / 2][1], most = sizes[c / 2][2];
        hr_kernel *kernel = opened("largest", rows, n, most, c % 2);
        good(hr_kernel_launch(kernel));
        for (int64_t m = 0; m < rows; m++)
            check_largest(kernel, m, n, most);
        verify(kernel);
        hr_kernel_destroy(kernel);
    }
}

/* More than there are. */
static void test_too_many(void **state) {
    (void)state;
    hr_kernel *kernel;
    good(hr_kernel_load(device, "ordered.hr", text, strlen(text), "largest", &kernel));
    static const struct {
        const char *name;
        int64_t size;
    } extents[] = {{"M", 2}, {"N", 5}, {"K", 6}, {"C", 1}};
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
        good(hr_kernel_bind_extent(kernel, extents[e].name, extents[e].size));
    assert_int_equal(hr_kernel_fill(kernel, 3), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "topk of 5 elements cannot give the first 6"));
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scans), cmocka_unit_test(test_largest),
                                       cmocka_unit_test(test_too_many)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
