/* Reductions whose ranges end, or begin and end, where data say: against loops over those ranges. Bounds
 * below 0 and beyond the axis are cut there; what is beyond them is not read, whatever it holds. */
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
    "kernel k(x: f32[B, N], begin: i32[B], end: i32[B], at: i32[N])\n"
    "    -> (total: f32[B], most: f32[B], average: f32[B], log: f32[B], place: i64[B], part: f32[B, N],\n"
    "        least: i64[B], seen: f32[B], pairs: f32)\n{\n"
    "    total[b] = sum[n from begin[b] to end[b]](x[b, n])\n"
    "    most[b] = max[n < end[b]](x[b, n])\n"
    "    average[b] = mean[n from begin[b] to end[b] + 1](x[b, n])\n"
    "    log[b] = logsumexp[n from begin[b] to N](x[b, n])\n"
    "    place[b] = argmax[n < end[b]](x[b, n])\n"
    "    part[b, n] = softmax[n from begin[b] to end[b]](x[b, n])\n"
    "    least[b] = min[n < end[b]](i64(8 * x[b, n]))\n"
    "    seen[b] = sum[n < end[b]](x[b, at[n]])\n"
    "    pairs = sum[b, n < end[b]](x[b, n])\n}\n";

/* Filled; bounds are for the caller to write. */
static hr_kernel *rows_load(const char *of, int64_t rows, int64_t columns) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "bounds.hr", of, strlen(of), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "B", rows));
    good(hr_kernel_bind_extent(kernel, "N", columns));
    good(hr_kernel_fill(kernel, 3));
    return kernel;
}

static int64_t cut(int64_t value, int64_t most) {
    return value < 0 ? 0 : value > most ? most : value;
}

static void near(const char *what, int64_t row, double got, double want) {
    if (got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-5 * (1 + fabs(want))) return;
    fail_msg("%s[%lld] is %.9g, not %.9g", what, (long long)row, got, want);
}

typedef struct row_values {
    double total, most, average, log, least, seen, sum;
    int64_t place, first, last;
} row_values;

static row_values values_of(const float *x, const int32_t *at, int64_t begin, int64_t end, int64_t n) {
    row_values v = {.most = -INFINITY, .first = cut(begin, n), .last = cut(end, n), .least = 0x1p63};
    const int64_t beyond = cut(end + 1, n);
    double average = 0, log_sum = 0;
    for (int64_t i = v.first; i < v.last; i++)
        v.total += x[i];
    for (int64_t i = 0; i < v.last; i++) {
        if (x[i] > v.most) v.place = i;
        v.most = fmax(v.most, x[i]);
        v.least = fmin(v.least, trunc(8 * (double)x[i]));
        v.seen += x[at[i]];
        v.sum += x[i];
    }
    for (int64_t i = v.first; i < beyond; i++)
        average += x[i];
    for (int64_t i = v.first; i < n; i++)
        log_sum += exp(x[i]);
    v.average = v.first < beyond ? average / (double)(beyond - v.first) : NAN;
    v.log = log(log_sum);
    return v;
}

static void check_row(const hr_kernel *kernel, int64_t b, int64_t n, const row_values *v) {
    const float *x = (float *)array_of(kernel, "x") + b * n,
                *part = (float *)array_of(kernel, "part") + b * n;
    double sum = 0;
    near("total", b, ((float *)array_of(kernel, "total"))[b], v->total);
    near("most", b, ((float *)array_of(kernel, "most"))[b], v->most);
    near("average", b, ((float *)array_of(kernel, "average"))[b], v->average);
    near("log", b, ((float *)array_of(kernel, "log"))[b], v->log);
    near("seen", b, ((float *)array_of(kernel, "seen"))[b], v->seen);
    near("place", b, (double)((int64_t *)array_of(kernel, "place"))[b], (double)v->place);
    near("least", b, (double)((int64_t *)array_of(kernel, "least"))[b], v->least);
    for (int64_t i = v->first; i < v->last; i++)
        sum += exp(x[i]);
    for (int64_t i = 0; i < n; i++) /* of nothing softmax is NaN */
        near("part", b, part[i],
             v->first >= v->last            ? NAN
             : i < v->first || i >= v->last ? 0
                                            : exp(x[i]) / sum);
}

static void test_ranges(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{9, 33}, {1, 1}, {16, 1030}, {5, 64}, {3, 0}, {0, 7}};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        const int64_t rows = sizes[c][0], n = sizes[c][1];
        hr_kernel *kernel = rows_load(text, rows, n);
        int32_t *begin = array_of(kernel, "begin"), *end = array_of(kernel, "end"),
                *at = array_of(kernel, "at");
        const float *x = array_of(kernel, "x");
        for (int64_t b = 0; b < rows; b++) {
            begin[b] = (int32_t)(b % 3 == 0 ? 0 : b % 3 == 1 ? n / 4 : -5);
            end[b] = (int32_t)(b % 4 == 0   ? n
                               : b % 4 == 1 ? n / 2
                               : b % 4 == 2 ? n + 9
                               : b % 8 == 3 ? 0
                                            : -2);
        }
        for (int64_t i = 0; i < n; i++)
            at[i] = (int32_t)(n - 1 - i);
        good(hr_kernel_launch(kernel));
        double pairs = 0;
        for (int64_t b = 0; b < rows; b++) {
            const row_values v = values_of(x + b * n, at, begin[b], end[b], n);
            check_row(kernel, b, n, &v);
            pairs += v.sum;
        }
        near("pairs", 0, *(float *)array_of(kernel, "pairs"), pairs);
        hr_kernel_destroy(kernel);
    }
}

/* The first of equals between the bounds, whatever lies before them; of nothing 0. Rows of -inf and of NaN
 * among them. */
static void test_positions(void **state) {
    (void)state;
    static const char rows[] =
        "kernel rows(x: f32[B, N], begin: i32[B], end: i32[B]) -> (most: i64[B], least: i64[B])\n{\n"
        "    most[b]  = argmax[n from begin[b] to end[b]](x[b, n])\n"
        "    least[b] = argmin[n from begin[b] to end[b]](x[b, n])\n}\n";
    enum { ROWS = 48, ALL = 130 };
    hr_kernel *kernel = rows_load(rows, ROWS, ALL);
    int32_t *begin = array_of(kernel, "begin"), *end = array_of(kernel, "end");
    float *x = array_of(kernel, "x");
    for (int b = 0; b < ROWS; b++) {
        begin[b] = b * 29 % (ALL + 9) - 4;
        end[b] = begin[b] + b * 17 % ALL - 3;
        for (int n = 0; n < ALL; n++)
            x[b * ALL + n] = b % 8 == 1 ? -INFINITY : b % 8 == 2 ? INFINITY : (float)((n * 37 + b) % 11);
        if (b % 8 == 3) x[b * ALL + cut(begin[b] + 2, ALL - 1)] = NAN;
    }
    good(hr_kernel_launch(kernel));
    for (int b = 0; b < ROWS; b++) {
        const int64_t from = cut(begin[b], ALL), to = cut(end[b], ALL);
        int64_t most = from < to ? from : 0, least = most;
        for (int64_t n = from + 1; n < to; n++) {
            const float value = x[b * ALL + n], high = x[b * ALL + most], low = x[b * ALL + least];
            if (value > high || (isnan(value) && !isnan(high))) most = n;
            if (value < low || (isnan(value) && !isnan(low))) least = n;
        }
        assert_int_equal(((int64_t *)array_of(kernel, "most"))[b], most);
        assert_int_equal(((int64_t *)array_of(kernel, "least"))[b], least);
    }
    hr_check check = {0};
    good(hr_kernel_check(kernel, 100, &check));
    assert_true(check.ok);
    hr_kernel_destroy(kernel);
}

/* What lies beyond a bound may be anything, places that are not there included. */
static void test_beyond(void **state) {
    (void)state;
    static const char gather[] = "kernel k(x: f32[N], at: i32[N], end: i32) -> (s: f32, m: f32) {\n"
                                 "    s = sum[n < end](x[at[n]])\n    m = max[n < end](x[n])\n}\n";
    hr_kernel *kernel;
    good(hr_kernel_load(device, "bounds.hr", gather, strlen(gather), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "N", 70));
    good(hr_kernel_bind_scalar(kernel, "end", 65));
    good(hr_kernel_fill(kernel, 3));
    float *x = array_of(kernel, "x"), total = 0, most = -INFINITY;
    int32_t *at = array_of(kernel, "at");
    for (int i = 0; i < 70; i++)
        at[i] = i < 65 ? i : 1000000000;
    for (int i = 65; i < 70; i++)
        x[i] = NAN;
    for (int i = 0; i < 65; i++) {
        total += x[i];
        most = fmaxf(most, x[i]);
    }
    good(hr_kernel_launch(kernel));
    near("s", 0, *(float *)array_of(kernel, "s"), total);
    near("m", 0, *(float *)array_of(kernel, "m"), most);
    good(hr_kernel_bind_scalar(kernel, "end", 66));
    assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
    hr_kernel_destroy(kernel);
}

/* The floor counts what the bounds leave, cut at the axis's ends, however often the rows are gone through. */
static void floor_check(const char *rows) {
    enum { ROWS = 8, ALL = 1000 };
    hr_kernel *kernel = rows_load(rows, ROWS, ALL);
    hr_floor floor;
    int32_t *begin = array_of(kernel, "begin"), *end = array_of(kernel, "end");
    int64_t read = 0;
    for (int b = 0; b < ROWS; b++) {
        begin[b] = b % 2 ? 100 * b : -7;
        end[b] = b % 3 == 0 ? ALL + 5 : b % 3 == 1 ? 150 * b : 0;
        const int64_t from = cut(begin[b], ALL), to = cut(end[b], ALL);
        read += to > from ? to - from : 0;
    }
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_floor(kernel, &floor));
    assert_true(floor.bytes == (double)(4 * read + 4 * ROWS * 4));
    hr_check check = {0};
    good(hr_kernel_check(kernel, 100, &check));
    assert_true(check.ok);
    hr_kernel_destroy(kernel);
}

static void test_floor(void **state) {
    (void)state;
#define ROWS_TEXT(body)                                                                                      \
    "kernel rows(x: f32[B, N], begin: i32[B], end: i32[B]) -> (t: f32[B], p: f32[B])\n{\n" body "}\n"
    floor_check(ROWS_TEXT("    t[b] = sum[n from begin[b] to end[b]](x[b, n])\n"
                          "    p[b] = prod[n from begin[b] to end[b]](1 + x[b, n] / 64)\n"));
    floor_check(ROWS_TEXT("    t[b] = logsumexp[n from begin[b] to end[b]](x[b, n])\n"
                          "    m[b] = mean[n from begin[b] to end[b]](x[b, n])\n"
                          "    p[b] = mean[n from begin[b] to end[b]]((x[b, n] - m[b])^2)\n"));
#undef ROWS_TEXT
}

/* A bound as large as its type has numbers is the axis's end, not its beginning. */
static void test_floor_of_large_bounds(void **state) {
    (void)state;
    static const char rows[] = "kernel rows(x: f32[B, N], end: i64[B]) -> (t: f32[B])\n{\n"
                               "    t[b] = sum[n from 0 to end[b]](x[b, n])\n}\n";
    enum { ROWS = 3, ALL = 1000 };
    hr_kernel *kernel = rows_load(rows, ROWS, ALL);
    hr_floor floor;
    int64_t *end = array_of(kernel, "end");
    end[0] = INT64_MAX, end[1] = INT64_MIN, end[2] = 10;
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_floor(kernel, &floor));
    assert_true(floor.bytes == 4 * (ALL + 10) + ROWS * (8 + 4));
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_floor_of_large_bounds),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
