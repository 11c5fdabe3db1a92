/* A sum of squares about a row's or a column's mean that follows from other sums: as right as the walk that
 * it spares, for rows of any level and spread, and never where a row holds a NaN or an infinity. */
#include "reference/reference.h"
#include "run/kernel.h"
#include "support/cpu_device.h"
#include "support/sum_length.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char norm[] = "kernel norm(x: f32[M, N]) -> (y: f32[M, N], mean: f32[M], variance: f32[M])\n{\n"
                           "    mean[m] = sum[n](x[m, n]) / N\n"
                           "    variance[m] = sum[n]((x[m, n] - mean[m])^2) / N\n"
                           "    y[m, n] = (x[m, n] - mean[m]) * rsqrt(variance[m] + 1e-30)\n}\n";
/* The fallback pass is the last, the square is a product, the mean stands on its left. */
static const char statistics[] =
    "kernel statistics(x: f32[M, N]) -> (mean: f32[M], variance: f32[M])\n{\n"
    "    mean[m] = sum[n](x[m, n]) / N\n"
    "    variance[m] = sum[n]((mean[m] - x[m, n]) * (mean[m] - x[m, n])) / N\n}\n";
/* About something that is not the mean. */
static const char moment[] =
    "kernel moment(x: f32[M, N]) -> (mean: f32[M], variance: f32[M], half: f32[M])\n{\n"
    "    mean[m] = sum[n](x[m, n]) / N\n"
    "    half[m] = mean[m] / 2\n"
    "    variance[m] = sum[n]((x[m, n] - half[m])^2) / N\n}\n";

/* Of columns, alone and where the columns go on to a map. */
static const char columns[] = "kernel columns(x: f32[M, N]) -> (mean: f32[N], variance: f32[N])\n{\n"
                              "    mean[n] = mean[m](x[m, n])\n"
                              "    variance[n] = mean[m]((x[m, n] - mean[n])^2)\n}\n";
static const char batch[] =
    "kernel batch(x: f32[M, N]) -> (y: f32[M, N], mean: f32[N], variance: f32[N])\n{\n"
    "    mean[n] = sum[m](x[m, n]) / M\n"
    "    variance[n] = sum[m]((x[m, n] - mean[n]) * (x[m, n] - mean[n])) / M\n"
    "    y[m, n] = (x[m, n] - mean[n]) * rsqrt(variance[n] + 1e-30)\n}\n";

typedef struct row_kind {
    double level, spread;
    float first; /* in place of the first element; 0 = it is like the others */
} row_kind;

static const row_kind kinds[] = {
    {0, 1, 0},        {1, 1, 0},     {-3, 1, 0},          {1e4, 1, 0},     {1e6, 1, 0},    {-1e6, 1e-1, 0},
    {1, 1e-4, 0},     {3.3, 0, 0},   {0, 0, 0},           {1e20, 1e14, 0}, {0, 1e19, 0},   {1e-20, 1e-22, 0},
    {0, 1e-38, 0},    {1e-40, 0, 0}, {0, 1, 1e4f},        {0, 1, -1e8f},   {1e3, 1, 1e8f}, {2, 1, 0},
    {0, 1, INFINITY}, {5, 1, NAN},   {1e3, 1, -INFINITY},
};
enum { KINDS = sizeof kinds / sizeof *kinds, ROWS = 2 * KINDS + 1 };

static hr_kernel *load_of(const char *text, int64_t rows, int64_t columns) {
    hr_kernel *kernel;
    if (hr_kernel_load(device, "spread.hr", text, strlen(text), NULL, &kernel) != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_int_equal(hr_kernel_bind_extent(kernel, "M", rows), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "N", columns), HR_OK);
    if (hr_kernel_fill(kernel, 3) != HR_OK) fail_msg("%s", hr_last_error());
    return kernel;
}

static hr_kernel *load(const char *text, int64_t columns) {
    return load_of(text, ROWS, columns);
}

static float *array_of(const hr_kernel *kernel, const char *name) {
    hr_array array = {.size = sizeof array};
    assert_int_equal(hr_kernel_array(kernel, name, &array), HR_OK);
    return array.data;
}

/* Kinds in turn, so that rows that skip the pass and rows that walk it stand beside each other. */
static const row_kind *kind_of(int row) {
    return &kinds[row * 8 % KINDS];
}

static void shape_rows(float *x, int64_t columns) {
    for (int row = 0; row < ROWS; row++)
        for (int64_t n = 0; n < columns; n++) {
            float *at = &x[row * columns + n];
            *at = (float)(kind_of(row)->level + kind_of(row)->spread * *at);
            if (n == 0 && kind_of(row)->first != 0) *at = kind_of(row)->first;
        }
}

static void check_close(const char *what, int row, int64_t columns, double got, double meant, double slack) {
    if (isnan(meant) ? !isnan(got) : isinf(meant) ? got != meant : !(fabs(got - meant) <= slack))
        fail_msg("%s of row %d (level %g, spread %g, first %g), %lld columns: %.9g, should be %.9g", what,
                 row, kind_of(row)->level, kind_of(row)->spread, kind_of(row)->first, (long long)columns, got,
                 meant);
}

/* The squares about `about`, as the text asks for them. `error` is relative: more of them cancels where that
 * is far from the mean. Squares may underflow. */
static void check_variance(const float *x, int row, int64_t columns, double about, double error, float got) {
    double meant = 0;
    for (int64_t n = 0; n < columns; n++)
        meant += (x[row * columns + n] - about) * (x[row * columns + n] - about);
    meant /= (double)columns;
    if (meant > 1e37) return; /* the squares' sum overflows in f32 on either way */
    check_close("variance", row, columns, got, meant, error * meant + 1e-43);
}

static double mean_of(const float *x, int row, int64_t columns, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t n = 0; n < columns; n++) {
        sum += x[row * columns + n];
        *size += fabs((double)x[row * columns + n]);
    }
    *size /= (double)columns;
    return sum / (double)columns;
}

static void check_rows(const char *text, int64_t columns, bool half) {
    hr_kernel *kernel = load(text, columns);
    float *x = array_of(kernel, "x");
    shape_rows(x, columns);
    if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
    const char *source, *header;
    assert_int_equal(hr_kernel_source(kernel, &source, &header), HR_OK);
    if (columns > 8) assert_non_null(strstr(source, "f32_squares_about")); /* shorter rows are written out */
    float *mean = array_of(kernel, "mean"), *variance = array_of(kernel, "variance");
    for (int row = 0; row < ROWS; row++) {
        double size, meant = mean_of(x, row, columns, &size);
        check_close("mean", row, columns, mean[row], meant, 2e-6 * sum_length(device) * size + 1e-44);
        double about = half ? mean[row] / 2 : mean[row]; /* as it was rounded */
        if (isfinite(meant))
            check_variance(x, row, columns, about, half ? 2e-5 : 3e-6, variance[row]);
        else
            assert_true(isnan(variance[row]) || (half && isinf(variance[row])));
    }
    hr_kernel_destroy(kernel);
}

/* What the checks of rows take as a row is a column of the kernel's. Fewer tasks walk it twice, about the
 * mean as it was rounded. */
enum { GUESSED = 64 };

static void check_columns(const char *text, int64_t tasks) {
    hr_kernel *kernel = load_of(text, tasks, ROWS);
    float *x = array_of(kernel, "x"), *lying = malloc((size_t)tasks * ROWS * sizeof *lying);
    assert_non_null(lying);
    memcpy(lying, x, (size_t)tasks * ROWS * sizeof *lying);
    shape_rows(lying, tasks);
    for (int64_t m = 0; m < tasks; m++)
        for (int n = 0; n < ROWS; n++)
            x[m * ROWS + n] = lying[n * tasks + m];
    if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
    float *mean = array_of(kernel, "mean"), *variance = array_of(kernel, "variance");
    for (int n = 0; n < ROWS; n++) {
        double size, meant = mean_of(lying, n, tasks, &size);
        check_close("mean", n, tasks, mean[n], meant, 2e-6 * sum_length(device) * size + 1e-44);
        if (isfinite(meant))
            check_variance(lying, n, tasks, tasks < GUESSED ? mean[n] : meant, 3e-6, variance[n]);
        else
            assert_true(isnan(variance[n]));
        if (tasks >= GUESSED && kind_of(n)->spread == 0 && kind_of(n)->first == 0)
            assert_true(variance[n] == 0);
    }
    free(lying);
    hr_kernel_destroy(kernel);
}

static void test_columns(void **state) {
    (void)state;
    static const int64_t tasks[] = {1, 63, 64, 65, 1000, 4099};
    for (int i = 0; i < 6; i++) {
        check_columns(columns, tasks[i]);
        check_columns(batch, tasks[i]);
    }
}

/* Elements about 0, of hundreds of columns: by chance those that a guess is made of may be of one sign. */
static void test_columns_about_0(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        hr_check check = {0};
        hr_kernel *kernel = load_of(batch, 300, 500);
        assert_int_equal(hr_kernel_fill(kernel, seed), HR_OK);
        assert_int_equal(hr_kernel_check(kernel, 500, &check), HR_OK);
        if (!check.ok) fail_msg("error %g of %g: %s", check.max_error, check.tolerance, check.where);
        hr_kernel_destroy(kernel);
    }
}

/* One walk for both sums, and one that is skipped where no column asks for it. */
static void test_columns_walk_once(void **state) {
    (void)state;
    const char *source, *header, *skipped = "int64_t group = any ? ";
    hr_kernel *kernel = load_of(batch, 4099, ROWS);
    if (hr_kernel_prepare(kernel, NULL) != HR_OK) fail_msg("%s", hr_last_error());
    assert_int_equal(hr_kernel_source(kernel, &source, &header), HR_OK);
    source = strstr(source, skipped);
    assert_non_null(source);
    assert_null(strstr(source + 1, skipped));
    hr_kernel_destroy(kernel);
}

/* How many columns are walked again. */
static int walked_again(hr_kernel *kernel) {
    const hr_prepared *state = kernel->current;
    const hr_function *normal = state->plan->normal;
    hr_operand operand = {
        .data = array_of(kernel, "x"), .shape = state->extents, .strides = (int64_t[]){state->extents[1], 1}};
    hr_reference *reference;
    int count = 0, again = 0;
    while (again < normal->tensor_count && !strstr(normal->tensors[again].name, "_again"))
        again++;
    assert_true(again < normal->tensor_count);
    assert_int_equal(hr_reference_create(normal, state->extents, &operand, &reference), HR_OK);
    for (int64_t n = 0; n < state->extents[1]; n++) {
        hr_meaning meaning;
        if (hr_reference_value(reference, again, &n, &meaning) != HR_OK) fail_msg("%s", hr_last_error());
        count += meaning.value != 0;
    }
    hr_reference_destroy(reference);
    return count;
}

/* Whatever the level of the columns, their elements are read once for both sums; outliers take another walk.
 */
static void test_columns_are_read_once(void **state) {
    (void)state;
    static const float levels[] = {0, 0.6F, 1.5F, -2.6F, 2.7F, -4, 8, 100, 1e6F};
    enum { TASKS = 256, COLUMNS = 300 };
    hr_kernel *kernel = load_of(batch, TASKS, COLUMNS);
    float *x = array_of(kernel, "x"), spread[TASKS * COLUMNS];
    if (hr_kernel_prepare(kernel, NULL) != HR_OK) fail_msg("%s", hr_last_error());
    memcpy(spread, x, sizeof spread);
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
        for (int i = 0; i < TASKS * COLUMNS; i++)
            x[i] = levels[k] + spread[i];
        if (walked_again(kernel)) fail_msg("columns about %g are walked again", (double)levels[k]);
    }
    x[7] = x[COLUMNS + 8] = INFINITY;
    assert_int_equal(walked_again(kernel), 2);
    hr_kernel_destroy(kernel);
}

/* What the sum is divided by may be another number than that of its elements. */
static void test_divided_by_something_else(void **state) {
    (void)state;
    static const char rows[] = "kernel k(x: f32[M, N]) -> (mean: f32[M], variance: f32[M])\n{\n"
                               "    mean[m] = sum[n](x[m, n]) / (N - 1)\n"
                               "    variance[m] = sum[n]((x[m, n] - mean[m])^2)\n}\n";
    static const char lanes[] = "kernel k(x: f32[M, N]) -> (mean: f32[N], variance: f32[N])\n{\n"
                                "    mean[n] = sum[m](x[m, n]) / (M - 1)\n"
                                "    variance[n] = sum[m]((x[m, n] - mean[n])^2)\n}\n";
    enum { SIZE = 100 };
    for (int k = 0; k < 2; k++) {
        hr_kernel *kernel = load_of(k ? lanes : rows, SIZE, SIZE);
        float *x = array_of(kernel, "x");
        for (int i = 0; i < SIZE * SIZE; i++)
            x[i] = 1000;
        if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
        const double about = 1000.0 * SIZE / (SIZE - 1), want = SIZE * (1000 - about) * (1000 - about);
        const float mean = array_of(kernel, "mean")[7], variance = array_of(kernel, "variance")[7];
        assert_true(fabs(mean - about) < 1e-3);
        assert_true(fabs(variance - want) < 1e-2 * want);
        hr_kernel_destroy(kernel);
    }
}

static const int64_t lengths[] = {1, 7, 64, 131, 1024, 9001};

static void test_norm(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++)
        check_rows(norm, lengths[i], false);
}

static void test_statistics(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++)
        check_rows(statistics, lengths[i], false);
}

static void test_about_something_else(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++)
        check_rows(moment, lengths[i], true);
}

/* What follows from the sums is an element's own too. */
static void test_elements(void **state) {
    (void)state;
    int64_t columns = 515;
    hr_kernel *kernel = load(norm, columns);
    float *x = array_of(kernel, "x"), *y = array_of(kernel, "y");
    shape_rows(x, columns);
    if (hr_kernel_launch(kernel) != HR_OK) fail_msg("%s", hr_last_error());
    float *mean = array_of(kernel, "mean"), *variance = array_of(kernel, "variance");
    for (int row = 0; row < ROWS; row++)
        for (int64_t n = 0; n < columns; n++) {
            double meant = ((double)x[row * columns + n] - mean[row]) / sqrt(variance[row] + 1e-30);
            check_close("y", row, columns, y[row * columns + n], meant, 1e-5 * fabs(meant));
        }
    hr_kernel_destroy(kernel);
}

static void expect_source(const char *text, bool skipped) {
    hr_kernel *kernel = load(text, 64);
    const char *source, *header;
    if (hr_kernel_prepare(kernel, NULL) != HR_OK) fail_msg("%s", hr_last_error());
    assert_int_equal(hr_kernel_source(kernel, &source, &header), HR_OK);
    assert_int_equal(strstr(source, "f32_squares_about") != NULL, skipped);
    hr_kernel_destroy(kernel);
}

/* Another pass that needs the walk anyway, a sum that is rounded, a cube: nothing is skipped. */
static void test_where_nothing_is_skipped(void **state) {
    (void)state;
    expect_source("kernel k(x: f32[M, N]) -> (v: f32[M], w: f32[M])\n{\n"
                  "    u[m] = sum[n](x[m, n]) / N\n"
                  "    v[m] = sum[n]((x[m, n] - u[m])^2)\n    w[m] = max[n](abs(x[m, n] - u[m]))\n}\n",
                  false);
    expect_source("kernel k(x: f32[M, N]) -> (u: bf16[M], v: f32[M])\n{\n"
                  "    u[m] = sum[n](x[m, n])\n    v[m] = sum[n]((x[m, n] - u[m])^2)\n}\n",
                  false);
    expect_source("kernel k(x: f32[M, N]) -> (v: f32[M])\n{\n"
                  "    u[m] = sum[n](x[m, n]) / N\n    v[m] = sum[n]((x[m, n] - u[m])^3)\n}\n",
                  false);
    expect_source("kernel k(x: f32[M, N]) -> (v: f32[M])\n{\n"
                  "    u[m] = sum[n](x[m, n]) / N\n    v[m] = sum[n]((x[m, n] - u[m])^2)\n}\n",
                  true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_about_something_else),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_where_nothing_is_skipped),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_columns_about_0),
        cmocka_unit_test(test_columns_walk_once),
        cmocka_unit_test(test_columns_are_read_once),
        cmocka_unit_test(test_divided_by_something_else),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
