/* Rows about as long as a page of memory and short ones, a few of them: what passes side by side, rows
 * jammed and sums over rows do at their ends, against the text's meaning in f64. */
#include "device/device.h"
#include "support/core_kinds.h"
#include "support/cpu_device.h"
#include "support/kernel_library.h"
#include "support/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t row_counts[] = {0, 1, 2, 3, 5, 9, 17};
static const int64_t lengths[] = {1,    5,    63,   100,  128,  250,  300, 577,
                                  1024, 2047, 2048, 2175, 2176, 4133, 4160};
enum { ROW_COUNTS = sizeof row_counts / sizeof *row_counts, LENGTHS = sizeof lengths / sizeof *lengths };

static const struct row_kernel {
    const char *file, *name;
    hr_dtype dtype;
} kernels[] = {
    {"layernorm_backward", "layernorm_backward", HR_BF16},
    {"layernorm_backward", "layernorm_backward", HR_F32},
    {"rmsnorm_backward", "rmsnorm_backward", HR_BF16},
    {"layernorm", "layernorm", HR_BF16},
    {"layernorm", "layernorm", HR_F32},
    {"rmsnorm", "rmsnorm", HR_F32},
    {"residual_norm", "residual_norm", HR_BF16},
    {"residual_norm", "residual_norm", HR_F32},
    {"softmax", "softmax", HR_BF16},
    {"softmax", "softmax", HR_F32},
    {"sum", "column_sum", HR_BF16},
    {"sum", "column_sum", HR_F32},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* Columns alone, several steps beside each other, with what belongs to a row. */
static const char columns_text[] =
    "kernel columns(x: bf16[M, N], r: f32[M], w: f16[N]) -> (s: f32[N], t: f32[N], most: f32[N])\n{\n"
    "    s[n] = sum[m](x[m, n] * r[m] * w[n])\n"
    "    t[n] = sum[m](exp(x[m, n]))\n"
    "    most[n] = max[m](x[m, n] - r[m])\n}\n";
static const struct row_kernel columns_kernel = {"columns", "columns", HR_BF16};

static void check_rows(const struct row_kernel *which, const char *text, size_t length, int64_t rows,
                       int64_t columns) {
    hr_kernel *kernel;
    hr_check check = {0};
    if (hr_kernel_load(device, which->file, text, length, which->name, &kernel) != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_int_equal(kernel_bind_dtypes(kernel, which->dtype), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "M", rows), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "N", columns), HR_OK);
    if (hr_kernel_fill(kernel, 11) != HR_OK || hr_kernel_prepare(kernel, NULL) != HR_OK ||
        hr_kernel_check(kernel, 900, &check) != HR_OK)
        fail_msg("%s: %s", which->name, hr_last_error());
    if (!check.ok)
        fail_msg("%s of %lld x %lld: error %g, tolerance %g: %s", which->name, (long long)rows,
                 (long long)columns, check.max_error, check.tolerance, check.where);
    hr_kernel_destroy(kernel);
}

static void check_kernels(int count) {
    static char text[1 << 14];
    for (int k = 0; k < count; k++) {
        char path[512];
        snprintf(path, sizeof path, "%s/kernels/%s.hr", HR_SOURCE_DIR, kernels[k].file);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        for (int r = 0; r < ROW_COUNTS; r++)
            for (int n = 0; n < LENGTHS; n++)
                if (sample_takes((size_t)((k * ROW_COUNTS + r) * LENGTHS + n), 41))
                    check_rows(&kernels[k], text, length, row_counts[r], lengths[n]);
    }
}

static void test_rows_of_a_page(void **state) {
    (void)state;
    check_kernels(KERNELS);
}

/* By the sizes of its caches a core sums columns over one row or two, waits or does not, and reads ahead of
 * what it stores or behind. */
static void test_rows_for_other_cores(void **state) {
    (void)state;
    enum { SUMMING = 3 };
    for (core_kinds each = core_kinds_of(&device->limits); core_kinds_next(&each);)
        if (device->limits.l1_bytes != each.own.l1_bytes || device->limits.l2_bytes != each.own.l2_bytes)
            check_kernels(SUMMING);
}

static void test_columns_alone(void **state) {
    (void)state;
    for (int r = 0; r < ROW_COUNTS; r++)
        for (int n = 0; n < LENGTHS; n++)
            check_rows(&columns_kernel, columns_text, strlen(columns_text), row_counts[r], lengths[n]);
}

/* Columns of what the last pass makes, as it goes with the passes of other rows and alone. */
static void test_columns_of_results(void **state) {
    (void)state;
    static const char text[] = "kernel weights(x: bf16[M, N]) -> (y: bf16[M, N], s: f32[N])\n{\n"
                               "    y[m, n] = softmax[n](x[m, n])\n    s[n] = sum[m](y[m, n] * x[m, n])\n}\n"
                               "kernel norms(x: f32[M, N]) -> (y: f32[M, N], s: f32[N])\n{\n"
                               "    r[m] = rsqrt(sum[n](x[m, n]^2) / N + 1)\n    y[m, n] = x[m, n] * r[m]\n"
                               "    s[n] = sum[m](y[m, n])\n}\n";
    static const struct row_kernel both[] = {{"results", "weights", HR_F32}, {"results", "norms", HR_F32}};
    for (core_kinds each = core_kinds_of(&device->limits); core_kinds_next(&each);)
        for (int k = 0; k < 2; k++)
            for (int n = 0; n < LENGTHS; n++)
                if (sample_takes((size_t)((each.kind * 2 + k) * LENGTHS + n), 2))
                    check_rows(&both[k], text, strlen(text), 9, lengths[n]);
}

/* ---- sums of more columns than the caches hold ---- */

static const char strips_words[] = "a strip of columns at a time";

/* What stands beside the sums reads the same local; a sum that replaces what it reads; one over a condition.
 */
static const struct long_case {
    const char *text;
    bool strips;
} long_cases[] = {
    {"kernel k(x: bf16[M, N], r: f32[M]) -> (y: f32[M, N], s: f32[N], most: f32[N])\n{\n"
     "    t[m, n] = x[m, n] * r[m]\n    s[n] = sum[m](t[m, n])\n    y[m, n] = t[m, n] + 1\n"
     "    most[n] = max[m](t[m, n])\n}\n",
     true},
    {"kernel k(x: f32[M, N], r: f32[M]) -> (s: f16[N])\n{\n"
     "    t[m, n] = x[m, n] * r[m]\n    s[n] = sum[m](t[m, n] * t[m, n])\n}\n",
     true},
    {"kernel k(x: f32[3, M, N], r: f32[M], z: f32[3]) -> (s: f32[3, N])\n{\n"
     "    s[b, n] = sum[m](x[b, m, n] * r[m] + z[b])\n}\n",
     true},
    {"kernel k(x: bf16[2, 5, M, N], r: f32[2, M]) -> (s: bf16[5, 2, N], most: f32[5, 2, N])\n{\n"
     "    s[b, a, n] = sum[m](x[a, b, m, n] * r[a, m])\n    most[b, a, n] = max[m](x[a, b, m, n])\n}\n",
     true},
    {"kernel k(x: f32[3, M, N], w: bf16[N]) -> (s: f32[N])\n{\n"
     "    s[n] = sum[b, m](x[b, m, n] * w[n] + b)\n}\n",
     true},
    {"kernel k(x: f32[M, N], a: inout f32[N]) { a[n] = sum[m](x[m, n] * a[n]) }", false},
    {"kernel k(x: f32[M, N]) -> (s: f32[N]) { s[n] = sum[m](where(n > 0, x[m, n - 1], 0)) }", false},
    {"kernel k(x: f32[M, N], r: f32[M]) -> (s: f32[N]) { s[n] = sum[m](x[m, n] * exp(r[m])) }", false},
    {"kernel k(x: i8[M, N]) -> (s: i64[N]) { s[n] = sum[m](x[m, n]) }", false},
};

static void check_plan_words(const struct row_kernel *which, const char *text, const char *words,
                             bool there) {
    hr_kernel *kernel;
    const char *source, *header;
    assert_int_equal(hr_kernel_load(device, "long.hr", text, strlen(text), which->name, &kernel), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "M", 5), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "N", 4133), HR_OK);
    if (hr_kernel_fill(kernel, 11) != HR_OK || hr_kernel_source(kernel, &source, &header) != HR_OK)
        fail_msg("%s", hr_last_error());
    if ((strstr(source, words) != NULL) != there)
        fail_msg("%s \"%s\" in\n%s", there ? "no" : "a", words, text);
    hr_kernel_destroy(kernel);
}

static void test_long_columns(void **state) {
    (void)state;
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 4096;
    device->limits.l3_bytes = 8192;
    check_kernels(KERNELS);
    test_columns_alone(NULL);
    check_plan_words(&columns_kernel, columns_text, strips_words, true);
    for (size_t i = 0; i < sizeof long_cases / sizeof *long_cases; i++) {
        const struct row_kernel which = {"long", "k", HR_F32};
        check_plan_words(&which, long_cases[i].text, strips_words, long_cases[i].strips);
        for (int r = 0; r < ROW_COUNTS; r++)
            for (int n = 0; n < LENGTHS; n++)
                if (sample_takes((i * ROW_COUNTS + (size_t)r) * LENGTHS + (size_t)n, 41))
                    check_rows(&which, long_cases[i].text, strlen(long_cases[i].text), row_counts[r],
                               lengths[n]);
    }
    device->limits = own;
}

/* A position is counted in the order of the reducer's brackets, whichever way the array lies. */
static const char positions_text[] =
    "kernel positions(x: i8[M, N, 5], z: f32[N, 7]) -> (a: i32[M], b: i32[M], c: i32[N], d: i64, e: i64)\n{\n"
    "    a[m] = argmax[k, n](x[m, n, k] % 3)\n"
    "    b[m] = argmax[n, k](x[m, n, k] % 3)\n"
    "    c[n] = argmin[k, m](x[m, n, k] // 4 + z[n, 0] * 0)\n"
    "    d = argmin[j, n](round(z[n, j]))\n"
    "    e = argmax[n, j](round(z[n, j]))\n}\n";
static const struct row_kernel positions_kernel = {"positions", "positions", HR_F32};

static void test_positions(void **state) {
    (void)state;
    for (int r = 1; r < ROW_COUNTS; r++)
        for (int64_t n = 1; n < 150; n += 37)
            check_rows(&positions_kernel, positions_text, strlen(positions_text), row_counts[r], n);
}

/* A total that another stage divides f32 results by is as right as they are, however far out the row is. */
static void test_totals_of_other_stages(void **state) {
    (void)state;
    static const char text[] =
        "kernel whole(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = softmax[m, n](x[m, n]) }";
    enum { SIDE = 40 };
    float x[SIDE * SIDE], y[SIDE * SIDE];
    double total = 0;
    hr_kernel *kernel;
    for (int i = 0; i < SIDE * SIDE; i++) {
        x[i] = 5000 + (float)(i * 37 % 101) * 0.03f;
        total += exp((double)x[i] - 5003);
    }
    hr_array from = {
        .size = sizeof from, .data = x, .dtype = HR_F32, .rank = 2, .shape = (const int64_t[]){SIDE, SIDE}};
    hr_array to = from;
    to.data = y;
    if (hr_kernel_load(device, "whole", text, sizeof text - 1, NULL, &kernel) != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_int_equal(hr_kernel_bind(kernel, "x", &from), HR_OK);
    assert_int_equal(hr_kernel_bind(kernel, "y", &to), HR_OK);
    if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
    for (int i = 0; i < SIDE * SIDE; i++) {
        double right = exp((double)x[i] - 5003) / total;
        if (!(fabs(y[i] - right) < 2e-6 * right)) fail_msg("y[%d] is %g, not %g", i, y[i], right);
    }
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_a_page),        cmocka_unit_test(test_rows_for_other_cores),
        cmocka_unit_test(test_columns_alone),         cmocka_unit_test(test_columns_of_results),
        cmocka_unit_test(test_long_columns),          cmocka_unit_test(test_positions),
        cmocka_unit_test(test_totals_of_other_stages)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
