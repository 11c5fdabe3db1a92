/* Sums of millions of equal numbers, which one chain of f32 gets wrong in the third digit, or never finishes:
 * along rows, over tasks, over both, into places, of products; ones give their number exactly. */
#include "device/device.h"
#include "support/cpu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXTENTS_MOST = 3 };

typedef struct sums_case {
    const char *text, *result; /* each element of it is the sum */
    const char *extent[EXTENTS_MOST];
    int64_t size[EXTENTS_MOST];
    double count; /* addends of a sum */
    double error; /* relative, of numbers that f32 does not add exactly */
} sums_case;

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static int64_t elements_of(const hr_array *array) {
    int64_t count = 1;
    for (int a = 0; a < array->rank; a++)
        count *= array->shape[a];
    return count;
}

/* Parameters of f32 are `value`, places 0. */
static void fill(const hr_kernel *kernel, const char *name, float value) {
    hr_array array = {.size = sizeof array};
    if (hr_kernel_array(kernel, name, &array) != HR_OK) return;
    const int64_t elements = elements_of(&array);
    if (array.dtype != HR_F32) {
        memset(array.data, 0, (size_t)elements * (array.dtype == HR_U8 ? 1 : 4));
        return;
    }
    for (int64_t i = 0; i < elements; i++)
        ((float *)array.data)[i] = value;
}

static void check_value(const sums_case *c, float value, double want, double error) {
    hr_kernel *kernel;
    hr_array sums = {.size = sizeof sums};
    good(hr_kernel_load(device, "sums.hr", c->text, strlen(c->text), NULL, &kernel));
    for (int e = 0; e < EXTENTS_MOST && c->extent[e]; e++)
        good(hr_kernel_bind_extent(kernel, c->extent[e], c->size[e]));
    good(hr_kernel_fill(kernel, 1));
    fill(kernel, "x", value);
    fill(kernel, "w", 1);
    fill(kernel, "at", 0);
    good(hr_kernel_launch(kernel));
    good(hr_kernel_array(kernel, c->result, &sums));
    for (int64_t i = 0; i < elements_of(&sums); i++) {
        const double got = (double)((const float *)sums.data)[i];
        if (got == 0 && strstr(c->text, "at[")) continue; /* a place that nothing is added to */
        if (!(fabs(got - want) <= error * want))
            fail_msg("%s: element %lld is %.9g, should be %.9g", c->text, (long long)i, got, want);
    }
    hr_kernel_destroy(kernel);
}

/* 1 + 2^-12 has addends whose sums are rounded up and down; 0.1 is rounded the same way again and again. */
static void check_case(const sums_case *c) {
    check_value(c, 1, (double)(float)c->count, 0);
    check_value(c, 0.1f, c->count * (double)0.1f, c->error);
    check_value(c, 1 + 0x1p-12f, c->count * (1 + 0x1p-12), c->error);
}

static void check_cases(const sums_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_case(&cases[i]);
}

#define CHAIN_ERROR 2e-6 /* of 128 equal addends: 64 units of 2^-24, and less */

static void test_rows(void **state) {
    (void)state;
    static const sums_case cases[] = {
        {"kernel k(x: f32[M, N]) -> (y: f32[M])\n{\n    y[m] = sum[n](x[m, n])\n}\n",
         "y",
         {"M", "N"},
         {3, 1000003},
         1000003,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, N]) -> (y: f32[M])\n{\n    y[m] = sum[n](x[m, n])\n}\n",
         "y",
         {"M", "N"},
         {1, 1 << 25},
         1 << 25,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, H, W]) -> (y: f32[M])\n{\n    y[m] = sum[h, w](x[m, h, w])\n}\n",
         "y",
         {"M", "H", "W"},
         {2, 200003, 5},
         200003 * 5,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, H, W]) -> (y: f32[M])\n{\n    y[m] = sum[h, w](x[m, h, w])\n}\n",
         "y",
         {"M", "H", "W"},
         {2, 7, 100003},
         7 * 100003,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = sum[k](x[m, k]) + 0 * x[m, n]\n}\n",
         "y",
         {"M", "N"},
         {5, 100003},
         100003,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, N]) -> (y: f32)\n{\n    y = sum[m, n](x[m, n])\n}\n",
         "y",
         {"M", "N"},
         {1003, 1009},
         1003 * 1009,
         CHAIN_ERROR},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

static const char columns[] = "kernel k(x: f32[M, N]) -> (y: f32[N])\n{\n    y[n] = sum[m](x[m, n])\n}\n";

static void test_columns(void **state) {
    (void)state;
    static const sums_case cases[] = {
        {columns, "y", {"M", "N"}, {1000003, 3}, 1000003, CHAIN_ERROR},
        {columns, "y", {"M", "N"}, {100003, 33}, 100003, CHAIN_ERROR},
        /* beside sums of rows, with and without their elements */
        {"kernel k(x: f32[M, N]) -> (r: f32[M], y: f32[N])\n{\n    r[m] = sum[n](x[m, n])\n"
         "    y[n] = sum[m](x[m, n] + 0 * r[m])\n}\n",
         "y",
         {"M", "N"},
         {20003, 300},
         20003,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, N]) -> (z: f32[M, N], y: f32[N])\n{\n    r[m] = sum[n](x[m, n])\n"
         "    z[m, n] = x[m, n] * r[m]\n    y[n] = sum[m](x[m, n] + 0 * z[m, n])\n}\n",
         "y",
         {"M", "N"},
         {20003, 30},
         20003,
         CHAIN_ERROR},
        {"kernel k(x: f32[M, N]) -> (z: f32[M, N], y: f32[N])\n{\n    r[m] = sum[n](x[m, n])\n"
         "    z[m, n] = x[m, n] * r[m]\n    y[n] = sum[m](x[m, n] + 0 * z[m, n])\n}\n",
         "y",
         {"M", "N"},
         {5003, 3000},
         5003,
         CHAIN_ERROR},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* Sums that a small second-level cache does not hold: a strip of columns at a time. */
static void test_strips_of_columns(void **state) {
    (void)state;
    static const sums_case strips = {columns, "y", {"M", "N"}, {5003, 4099}, 5003, CHAIN_ERROR};
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 1 << 14;
    check_case(&strips);
    device->limits = own;
}

static void test_places(void **state) {
    (void)state;
    static const sums_case cases[] = {
        {"kernel k(at: u8[T]) -> (y: f32[V])\n{\n    y[at[t]] += 1\n}\n",
         "y",
         {"T", "V"},
         {20000003, 4},
         0,
         0},
        {"kernel k(at: u8[T], x: f32[T]) -> (y: f32[V])\n{\n    y[at[t]] += x[t]\n}\n",
         "y",
         {"T", "V"},
         {1000003, 4},
         1000003,
         1e-7},
        {"kernel k(at: u8[T], x: f32[T]) -> (y: f32[V])\n{\n    y[at[t]] += x[t]\n}\n",
         "y",
         {"T", "V"},
         {1000003, 5000}, /* totals in scratch memory */
         1000003,
         1e-7},
        {"kernel k(at: i32[T], x: f32[T, C]) -> (y: f32[V, C])\n{\n    y[at[t], c] += x[t, c]\n}\n",
         "y",
         {"T", "C", "V"},
         {100003, 5, 3},
         100003,
         1e-7},
        /* more places than have totals */
        {"kernel k(at: i32[T], x: f32[T]) -> (y: f32[V])\n{\n    y[at[t]] += x[t]\n}\n",
         "y",
         {"T", "V"},
         {1000003, 2000003},
         1000003,
         1e-7},
        {"kernel k(at: i32[T], x: f32[T, C]) -> (y: f32[V, C])\n{\n    y[at[t], c] += x[t, c]\n}\n",
         "y",
         {"T", "C", "V"},
         {100003, 5, 200003},
         100003,
         1e-7},
    };
    check_value(&cases[0], 1, 20000004, 0); /* the float next to it */
    check_cases(cases + 1, sizeof cases / sizeof *cases - 1);
}

static uint64_t chance;

static double uniform(void) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(chance >> 11) * 0x1p-53;
}

enum { CROWD = 6 };

/* Half of all additions go to a few neighbours in turn, the others anywhere in a table that has more places
 * than additions: the few come out right, and so does what nobody but chance adds to. */
static void check_crowd(const char *text, int64_t additions, int64_t rows, int64_t width, double error) {
    hr_kernel *kernel;
    hr_array at = {.size = sizeof at}, y = {.size = sizeof y};
    good(hr_kernel_load(device, "sums.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "T", additions));
    good(hr_kernel_bind_extent(kernel, "V", rows));
    if (width > 1) good(hr_kernel_bind_extent(kernel, "C", width));
    good(hr_kernel_fill(kernel, 1));
    fill(kernel, "x", 1 + 0x1p-12f);
    good(hr_kernel_array(kernel, "at", &at));
    int32_t *count = calloc((size_t)rows, sizeof *count);
    assert_non_null(count);
    for (int64_t t = 0; t < additions; t++) {
        const int32_t row = t % 2 ? (int32_t)(5 + t / 2 % CROWD) : (int32_t)(uniform() * (double)rows);
        ((int32_t *)at.data)[t] = row;
        count[row]++;
    }
    good(hr_kernel_launch(kernel));
    good(hr_kernel_array(kernel, "y", &y));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++) {
            const double got = (double)((const float *)y.data)[r * width + c],
                         want = count[r] * (1 + 0x1p-12);
            if (!(fabs(got - want) <= error * want))
                fail_msg("%s: row %lld is %.9g, should be %.9g", text, (long long)r, got, want);
        }
    free(count);
    hr_kernel_destroy(kernel);
}

static void test_crowds(void **state) {
    (void)state;
    static const char element[] =
        "kernel k(at: i32[T], x: f32[T]) -> (y: f32[V])\n{\n    y[at[t]] += x[t]\n}\n";
    static const char row[] =
        "kernel k(at: i32[T], x: f32[T, C]) -> (y: f32[V, C])\n{\n    y[at[t], c] += x[t, c]\n}\n";
    check_crowd(element, 3000000, 4000003, 1, 1e-6);
    check_crowd(row, 300000, 400003, 3, 1e-6);
    check_crowd(row, 30000, 40003, 260, CHAIN_ERROR); /* in the order of the rows */
}

/* Rows of a table that no cache holds: tasks in the order of the rows that they add to. */
static void test_rows_in_order(void **state) {
    (void)state;
    static const sums_case ordered = {
        "kernel k(at: i32[T], x: f32[T, C]) -> (y: f32[V, C])\n{\n    y[at[t], c] += x[t, c]\n}\n",
        "y",
        {"T", "C", "V"},
        {20003, 259, 301},
        20003,
        CHAIN_ERROR};
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 1 << 14;
    check_case(&ordered);
    device->limits = own;
}

/* Of 1024 equal addends: the units multiply so many before totals take their sums. */
static void test_products(void **state) {
    (void)state;
    static const char text[] = "kernel k(x: f32[M, K], w: f32[N, K]) -> (y: f32[M, N])\n{\n"
                               "    y[m, n] = sum[k](x[m, k] * w[n, k])\n}\n";
    static const char across[] = "kernel k(x: f32[K, M], w: f32[K, N]) -> (y: f32[M, N])\n{\n"
                                 "    y[m, n] = sum[k](x[k, m] * w[k, n])\n}\n";
    static const sums_case cases[] = {
        {text, "y", {"M", "N", "K"}, {1, 40, 300007}, 300007, 3e-5},
        {text, "y", {"M", "N", "K"}, {5, 70, 100003}, 100003, 3e-5},
        {text, "y", {"M", "N", "K"}, {130, 90, 20011}, 20011, 3e-5},
        {across, "y", {"M", "N", "K"}, {17, 33, 100003}, 100003, 3e-5},
        {across, "y", {"M", "N", "K"}, {600, 70, 2500}, 2500, 3e-5},
    };
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* ---- rows far from 0 ---- */

static const char norm[] = "kernel k(x: f32[M, N]) -> (y: f32[M, N], mean: f32[M], var: f32[M])\n{\n"
                           "    mean[m] = sum[n](x[m, n]) / N\n"
                           "    var[m] = sum[n]((x[m, n] - mean[m])^2) / N\n"
                           "    y[m, n] = (x[m, n] - mean[m]) * rsqrt(var[m] + 1e-30)\n}\n";

static float *elements(const hr_kernel *kernel, const char *name) {
    hr_array array = {.size = sizeof array};
    good(hr_kernel_array(kernel, name, &array));
    return array.data;
}

/* Mean, variance and the normalised row, against f64. */
static void check_row(const hr_kernel *kernel, int64_t row, int64_t length, double error) {
    const float *x = elements(kernel, "x") + row * length, *y = elements(kernel, "y") + row * length;
    const double mean = (double)elements(kernel, "mean")[row], var = (double)elements(kernel, "var")[row];
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < length; n++)
        sum += (double)x[n];
    const double want = sum / (double)length;
    const double about = (double)(float)want; /* a result: the variance is about what it is rounded to */
    for (int64_t n = 0; n < length; n++)
        squares += ((double)x[n] - about) * ((double)x[n] - about);
    squares /= (double)length;
    if (!(fabs(mean - want) <= 0x1p-24 * fabs(want))) fail_msg("mean %.9g, should be %.9g", mean, want);
    if (!(fabs(var - squares) <= error * squares)) fail_msg("variance %.9g, should be %.9g", var, squares);
    for (int64_t n = 0; n < length && squares == 0; n++)
        if (y[n] != 0) fail_msg("element %lld of equal ones is %g", (long long)n, (double)y[n]);
}

/* Levels whose sums f32 does not hold: a row of equal numbers has just that mean, and no variance; one of
 * numbers near a level has the variance of what is left of them. */
static void check_level(int64_t length, float level, float step, double error) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "norm.hr", norm, strlen(norm), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "M", 3));
    good(hr_kernel_bind_extent(kernel, "N", length));
    good(hr_kernel_fill(kernel, 1));
    for (int64_t i = 0; i < 3 * length; i++)
        elements(kernel, "x")[i] = level + step * (float)(i * i % 7);
    good(hr_kernel_launch(kernel));
    for (int row = 0; row < 3; row++)
        check_row(kernel, row, length, error);
    hr_kernel_destroy(kernel);
}

static void test_rows_far_from_0(void **state) {
    (void)state;
    static const int64_t lengths[] = {64, 513, 4099, 100003};
    for (int i = 0; i < 4; i++) {
        check_level(lengths[i], 12345.678f, 0, 0);
        check_level(lengths[i], -0.1f, 0, 0);
        check_level(lengths[i], 3e7f, 0, 0);
        check_level(lengths[i], 1e4f, 0x1p-6f, 1e-5);
        check_level(lengths[i], -1e6f, 1, 1e-5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_strips_of_columns),
                                       cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_crowds),
                                       cmocka_unit_test(test_rows_in_order),
                                       cmocka_unit_test(test_products),
                                       cmocka_unit_test(test_rows_far_from_0)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
