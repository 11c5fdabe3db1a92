/* Softmax and logsumexp, whose largest element is estimated from a row's beginning: rows that make the
 * estimate wrong, and those that no estimate helps. Short rows run side by side, long ones pass after pass.
 */
#define _GNU_SOURCE
#include "headroom.h"
#include "support/sum_length.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char cache[] = "/tmp/hr-test-estimate-XXXXXX";
static hr_device *device;

static int start(void **state) {
    (void)state;
    if (!mkdtemp(cache)) return -1;
    setenv("HEADROOM_CACHE", cache, 1);
    return hr_device_open("cpu", &device) == HR_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    hr_device_destroy(device);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command);
}

static void good(hr_status status) {
    if (status != HR_OK) print_message("%s: %s\n", hr_status_name(status), hr_last_error());
    assert_int_equal(status, HR_OK);
}

/* ---- rows: the element at n of size ---- */

static float usual(int n, int size) {
    (void)size;
    return (float)(n * 37 % 64) / 8 - 4;
}

static float late_peak(int n, int size) {
    return n < size / 2 ? -1000 : n == size - 1 ? 1000 : 990;
}

static float masked_beginning(int n, int size) {
    return n < size / 2 ? -INFINITY : usual(n, size);
}

static float all_masked(int n, int size) {
    (void)n;
    (void)size;
    return -INFINITY;
}

static float with_nan(int n, int size) {
    return n == size - 2 ? NAN : usual(n, size);
}

static float with_infinity(int n, int size) {
    return n == size - 2 ? INFINITY : usual(n, size);
}

static float rising(int n, int size) {
    (void)size;
    return (float)n;
}

static float falling(int n, int size) {
    (void)size;
    return (float)-n;
}

static float largest_possible(int n, int size) {
    (void)n;
    (void)size;
    return 3e38f;
}

static float far_apart(int n, int size) {
    return n < size / 2 ? -3e38f : 3e38f;
}

static float small_beginning(int n, int size) {
    return n < size / 2 ? -85 : 0; /* e^85 is finite, many of them are not */
}

/* Numbers of which a rounding is as large as the range of an exponential, and larger. */
static float millions(int n, int size) {
    return 7654321 + 3 * usual(n, size);
}

static float uneven(int n, int size, float scale) {
    return scale * (1.37f * usual(n, size) - 0.3f);
}

static float billions(int n, int size) {
    return uneven(n, size, 1e10f);
}

static float enormous(int n, int size) {
    return uneven(n, size, -1.1e30f);
}

static float (*const rows[])(int n, int size) = {
    usual,         late_peak, rising,  masked_beginning, all_masked, with_nan,        usual,    billions,
    with_infinity, far_apart, falling, largest_possible, usual,      small_beginning, millions, enormous,
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- what they mean ---- */

static void evaluate(const float *x, int size, double *y, double *lse) {
    double peak = -INFINITY, total = 0;
    for (int n = 0; n < size; n++)
        if (x[n] > peak || x[n] != x[n]) peak = x[n];
    bool plain = isfinite(peak);
    for (int n = 0; n < size; n++)
        total += exp(x[n] - peak);
    for (int n = 0; n < size; n++)
        y[n] = exp(x[n] - peak) / total;
    *lse = plain ? peak + log(total) : peak;
}

static void compare(double got, double meaning, double unit, int row, int n) {
    if (isnan(meaning) ? isnan(got) : got == meaning) return;
    if (fabs(got - meaning) <= unit * fabs(meaning) + 0x1p-126) return;
    fail_msg("row %d, element %d: %a, not %a", row, n, got, meaning);
}

/* ---- kernels ---- */

static void bind(hr_kernel *kernel, const char *name, hr_dtype dtype, void *data, int rank, int64_t size) {
    const int64_t shape[] = {ROWS, size};
    hr_array array = {.size = sizeof array, .data = data, .dtype = dtype, .rank = rank, .shape = shape};
    good(hr_kernel_bind(kernel, name, &array));
}

static float widen(uint16_t word) {
    uint32_t bits = (uint32_t)word << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t cut(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void run(const char *text, hr_dtype dtype, int size) {
    bool narrow = dtype == HR_BF16;
    size_t bytes = (size_t)ROWS * (size_t)size * (narrow ? 2 : 4);
    const int64_t length = size;
    void *x = malloc(bytes), *y = malloc(bytes);
    float lse[ROWS], *row = malloc((size_t)size * sizeof *row);
    float *columns = calloc((size_t)size, sizeof *columns);
    double *meaning = malloc((size_t)size * sizeof *meaning), lse_meaning;
    double *sums = calloc((size_t)size, sizeof *sums);
    for (int i = 0; i < ROWS * size; i++) {
        float value = rows[i / size](i % size, size);
        if (narrow)
            ((uint16_t *)x)[i] = cut(value);
        else
            ((float *)x)[i] = value;
    }
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(device, "test.hr", text, strlen(text), NULL, &kernel));
    bind(kernel, "x", dtype, x, 2, size);
    if (strstr(text, "y:")) bind(kernel, "y", dtype, y, 2, size);
    if (strstr(text, "lse:")) bind(kernel, "lse", HR_F32, lse, 1, size);
    if (strstr(text, "c:"))
        good(hr_kernel_bind(kernel, "c", &(hr_array){sizeof(hr_array), columns, HR_F32, 1, &length, NULL}));
    good(hr_kernel_launch(kernel));
    for (int m = 0; m < ROWS; m++) {
        for (int n = 0; n < size; n++)
            row[n] = narrow ? widen(((uint16_t *)x)[m * size + n]) : ((float *)x)[m * size + n];
        evaluate(row, size, meaning, &lse_meaning);
        if (strstr(text, "lse:")) compare(lse[m], lse_meaning, 0x1p-21, m, -1);
        for (int n = 0; strstr(text, "y:") && n < size; n++) {
            double got = narrow ? widen(((uint16_t *)y)[m * size + n]) : ((float *)y)[m * size + n];
            compare(got, meaning[n], narrow ? 0x1p-8 : 0x1p-19 * sum_length(device), m, n);
            if (!isnan(got)) sums[n] += got;
        }
    }
    for (int n = 0; strstr(text, "c:") && n < size; n++)
        compare(columns[n], sums[n], 0x1p-20, -1, n);
    hr_kernel_destroy(kernel);
    free(x);
    free(y);
    free(row);
    free(columns);
    free(meaning);
    free(sums);
}

static const int sizes[] = {1, 20, 63, 64, 65, 100, 200, 1027, 20011};

static void run_all(const char *text, hr_dtype dtype) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        run(text, dtype, sizes[i]);
}

static void test_softmax(void **state) {
    (void)state;
    run_all("kernel s(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = softmax[n](x[m, n]) }", HR_F32);
    run_all("kernel s(x: bf16[M, N]) -> (y: bf16[M, N]) { y[m, n] = softmax[n](x[m, n]) }", HR_BF16);
}

static void test_logsumexp(void **state) {
    (void)state;
    run_all("kernel s(x: f32[M, N]) -> (lse: f32[M]) { lse[m] = logsumexp[n](x[m, n]) }", HR_F32);
    run_all("kernel s(x: bf16[M, N]) -> (lse: f32[M]) { lse[m] = logsumexp[n](x[m, n]) }", HR_BF16);
}

static void test_both(void **state) {
    (void)state;
    run_all("kernel s(x: f32[M, N]) -> (y: f32[M, N], lse: f32[M]) {\n"
            "    lse[m] = logsumexp[n](x[m, n])\n    y[m, n] = softmax[n](x[m, n])\n}",
            HR_F32);
}

/* So is a total of what rows come to. */
static void test_with_total(void **state) {
    (void)state;
    const char *text = "kernel s(x: f32[M, N]) -> (t: f32) {\n    lse[m] = logsumexp[n](x[m, n])\n"
                       "    t = sum[m](where(abs(lse[m]) < 3000, lse[m], 0))\n}";
    enum { SIZE = 100 };
    static float x[ROWS * SIZE];
    float total;
    double meaning[SIZE], lse, sum = 0;
    for (int i = 0; i < ROWS * SIZE; i++)
        x[i] = rows[i / SIZE](i % SIZE, SIZE);
    for (int m = 0; m < ROWS; m++) {
        evaluate(x + m * SIZE, SIZE, meaning, &lse);
        if (fabs(lse) < 3000) sum += lse;
    }
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(device, "test.hr", text, strlen(text), NULL, &kernel));
    bind(kernel, "x", HR_F32, x, 2, SIZE);
    good(hr_kernel_bind(kernel, "t", &(hr_array){sizeof(hr_array), &total, HR_F32, 0, NULL, NULL}));
    good(hr_kernel_launch(kernel));
    compare(total, sum, 0x1p-20, -1, -1);
    hr_kernel_destroy(kernel);
}

/* What is summed over the rows is added up in the last pass, and not once more where the first is repeated.
 */
static void test_with_column_sums(void **state) {
    (void)state;
    run_all("kernel s(x: f32[M, N]) -> (y: f32[M, N], c: f32[N]) {\n"
            "    y[m, n] = softmax[n](x[m, n])\n"
            "    c[n] = sum[m](where(y[m, n] == y[m, n], y[m, n], 0))\n}",
            HR_F32);
}

/* The text's own maximum is not estimated, even where softmax takes the same one. */
/* Wherever the results begin, and where that is no multiple of their size, they are the same. */
static void test_anywhere(void **state) {
    (void)state;
    enum { SIZE = 163, MOST = 64 };
    static const size_t starts[] = {0, 1, 2, 4, 6, 33, 48};
    static char aligned[ROWS * SIZE * 4], moved[ROWS * SIZE * 4 + MOST];
    static float wide[ROWS * SIZE];
    static uint16_t narrow[ROWS * SIZE];
    const char *text = "kernel softmax(x: %s[M, N]) -> (y: %s[M, N])\n{\n    peak[m] = max[n](x[m, n])\n"
                       "    total[m] = sum[n](exp(x[m, n] - peak[m]))\n"
                       "    y[m, n] = exp(x[m, n] - peak[m]) / total[m]\n}\n";
    for (int i = 0; i < ROWS * SIZE; i++) {
        wide[i] = (float)(i * 37 % 101) * 0.1f;
        narrow[i] = cut(wide[i]);
    }
    for (size_t start = 0; start < 2 * sizeof starts / sizeof *starts; start++) {
        bool half = start % 2;
        hr_dtype dtype = half ? HR_BF16 : HR_F32;
        char words[512], *y = moved + starts[start / 2];
        size_t bytes = (size_t)(ROWS * SIZE) * (half ? 2 : 4);
        snprintf(words, sizeof words, text, hr_dtype_name(dtype), hr_dtype_name(dtype));
        hr_kernel *kernel = NULL;
        good(hr_kernel_load(device, "test.hr", words, strlen(words), NULL, &kernel));
        bind(kernel, "x", dtype, half ? (void *)narrow : (void *)wide, 2, SIZE);
        for (int aside = 0; aside < 2; aside++) {
            bind(kernel, "y", dtype, aside ? y : aligned, 2, SIZE);
            good(hr_kernel_launch(kernel));
        }
        if (memcmp(aligned, y, bytes) != 0) fail_msg("%zu bytes on results differ", starts[start / 2]);
        hr_kernel_destroy(kernel);
    }
}

static void test_a_maximum_stays_exact(void **state) {
    (void)state;
    enum { SIZE = 300 };
    static float x[SIZE], y[SIZE], z[SIZE];
    for (int n = 0; n < SIZE; n++)
        x[n] = n == SIZE - 1 ? 9 : 1;
    const char *text = "kernel s(x: f32[M, N]) -> (y: f32[M, N], z: f32[M, N]) {\n"
                       "    y[m, n] = softmax[n](x[m, n])\n    z[m, n] = x[m, n] - max[k](x[m, k])\n}";
    const int64_t shape[] = {1, SIZE};
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(device, "test.hr", text, strlen(text), NULL, &kernel));
    float *data[] = {x, y, z};
    for (int i = 0; i < 3; i++) {
        hr_array array = {.size = sizeof array, .data = data[i], .dtype = HR_F32, .rank = 2, .shape = shape};
        good(hr_kernel_bind(kernel, (const char *[]){"x", "y", "z"}[i], &array));
    }
    good(hr_kernel_launch(kernel));
    for (int n = 0; n < SIZE; n++)
        assert_true(z[n] == (n == SIZE - 1 ? 0 : -8));
    hr_kernel_destroy(kernel);
}

/* What is one a row is computed before the row: an estimate that is made a row ahead would not have it. */
static void test_a_value_of_the_row(void **state) {
    (void)state;
    enum { ROWS = 7, SIZE = 300 };
    static float x[ROWS][SIZE], s[ROWS], y[ROWS];
    for (int m = 0; m < ROWS; m++) {
        s[m] = (float)(m - 3);
        for (int n = 0; n < SIZE; n++)
            x[m][n] = usual(n + m, SIZE);
    }
    const char *text = "kernel t(x: f32[M, N], s: f32[M]) -> (y: f32[M]) {\n"
                       "    t[m] = 1.5 + tanh(s[m])\n    y[m] = logsumexp[n](x[m, n] * t[m])\n}";
    const int64_t shape[] = {ROWS, SIZE};
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(device, "test.hr", text, strlen(text), NULL, &kernel));
    float *data[] = {x[0], s, y};
    for (int i = 0; i < 3; i++) {
        hr_array array = {
            .size = sizeof array, .data = data[i], .dtype = HR_F32, .rank = i ? 1 : 2, .shape = shape};
        good(hr_kernel_bind(kernel, (const char *[]){"x", "s", "y"}[i], &array));
    }
    good(hr_kernel_launch(kernel));
    for (int m = 0; m < ROWS; m++) {
        double sum = 0;
        for (int n = 0; n < SIZE; n++)
            sum += exp((double)x[m][n] * (1.5 + tanh((double)s[m])));
        assert_true(fabs((double)y[m] - log(sum)) < 1e-5 * (1 + fabs(log(sum))));
    }
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_logsumexp),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_with_total),
        cmocka_unit_test(test_with_column_sums),
        cmocka_unit_test(test_anywhere),
        cmocka_unit_test(test_a_maximum_stays_exact),
        cmocka_unit_test(test_a_value_of_the_row),
    };
    return cmocka_run_group_tests(tests, start, end);
}
