/* Rows that are added into rows of a table larger than the caches, or gathered from one: the same bits as one
 * task after the other, for few and many tasks, few and many rows, all in one row, and rows that are not
 * there. */
#include "device/device.h"
#include "support/cpu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

static const char by_row[] = "kernel k(at: i32[T], x: f32[T, C], scale: f32[T], d: inout f32[V, C])\n{\n"
                             "    d[at[t], c] += x[t, c] * scale[t]\n}\n";
/* Rows of two axes, one of them from data. */
static const char by_pair[] = "kernel k(at: i32[T], x: f32[T, C], scale: f32[T], d: inout f32[2, V, C])\n{\n"
                              "    d[t % 2, at[t], c] += x[t, c] * scale[t]\n}\n";
/* A result, which begins with zeros, and a value that may not be there: tasks keep their order. */
static const char by_gather[] = "kernel k(at: i32[T], x: f32[T, C], scale: f32[T], like: f32[V, C])\n"
                                "    -> (d: f32[2, V, C])\n{\n"
                                "    d[t % 2, at[t], c] += x[t, c] * scale[t] + 0 * like[at[t], c]\n}\n";

typedef struct scatter_case {
    int64_t tasks, rows, columns;
    int spread; /* the first rows that tasks add to; 0 = all */
} scatter_case;

static const scatter_case cases[] = {
    {1, 3001, 259, 0},   {2, 3001, 259, 1},    {3, 3001, 259, 0},     {257, 3001, 259, 0},
    {257, 3001, 256, 1}, {5000, 301, 2600, 0}, {4099, 2801, 288, 40}, {4099, 2801, 288, 0},
    {0, 3001, 259, 0},   {9, 3001, 1031, 3},
};

static hr_kernel *load(const char *text, const scatter_case *c) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "scatter.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "T", c->tasks));
    good(hr_kernel_bind_extent(kernel, "C", c->columns));
    good(hr_kernel_bind_extent(kernel, "V", c->rows));
    good(hr_kernel_fill(kernel, 5));
    int32_t *at = array_of(kernel, "at");
    for (int64_t t = 0; c->spread && t < c->tasks; t++)
        at[t] %= c->spread;
    return kernel;
}

static void check_case(const char *text, const scatter_case *c, bool pair, bool order) {
    hr_kernel *kernel = load(text, c);
    const int32_t *at = array_of(kernel, "at");
    const float *x = array_of(kernel, "x"), *scale = array_of(kernel, "scale");
    float *d = array_of(kernel, "d");
    size_t size = (size_t)(c->rows * c->columns) * (pair ? 2 : 1);
    float *want = calloc(size, sizeof *want);
    assert_non_null(want);
    if (order || !pair) memcpy(want, d, size * sizeof *want);
    for (int64_t t = 0; t < c->tasks; t++)
        for (int64_t n = 0; n < c->columns; n++)
            want[((pair ? t % 2 * c->rows : 0) + at[t]) * c->columns + n] += x[t * c->columns + n] * scale[t];
    good(hr_kernel_launch(kernel));
    const char *source, *header;
    good(hr_kernel_source(kernel, &source, &header));
    assert_true(order || !strstr(source, "task_order_of"));
    if (order && c->tasks > 4000)
        assert_non_null(strstr(source, "task_order_of")); /* few tasks share rows out */
    for (size_t i = 0; i < size; i++) /* a product and a sum may be one operation there and two here */
        if (!(want[i] - d[i] < 1e-4f && d[i] - want[i] < 1e-4f))
            fail_msg("%lld tasks, %lld rows of %lld: element %zu is %g, should be %g", (long long)c->tasks,
                     (long long)c->rows, (long long)c->columns, i, (double)d[i], (double)want[i]);
    free(want);
    hr_kernel_destroy(kernel);
}

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].tasks) check_case(by_row, &cases[i], false, true);
    check_case(by_row, &(scatter_case){5, 31, 0, 0}, false, false); /* rows of nothing */
    check_case(by_row, &(scatter_case){5, 31, 259, 0}, false, false);
    check_case(by_row, &(scatter_case){5, 300001, 7, 0}, false, false);
}

static void test_rows_of_two_axes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (cases[i].tasks) check_case(by_pair, &cases[i], true, true);
    for (size_t i = 0; i < 7; i++)
        check_case(by_gather, &cases[i], true, false);
}

/* More tasks than are put in order at once: added one after the other all the same. */
static void test_many_tasks(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(at: i32[T], scale: f32[T]) -> (d: f32[V, C]) { d[at[t], c] += scale[t] }";
    const scatter_case c = {(1 << 20) + 4099, 301, 256, 0};
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 1 << 14;
    hr_kernel *kernel = load(text, &c);
    const int32_t *at = array_of(kernel, "at");
    const float *scale = array_of(kernel, "scale"), *d = array_of(kernel, "d");
    double want[301] = {0};
    const char *source, *header;
    for (int64_t t = 0; t < c.tasks; t++)
        want[at[t]] += scale[t];
    good(hr_kernel_launch(kernel));
    good(hr_kernel_source(kernel, &source, &header));
    assert_non_null(strstr(source, "task_order_of"));
    for (int64_t i = 0; i < c.rows * c.columns; i++)
        if (!(fabs(d[i] - want[i / c.columns]) < 1e-4)) /* 3500 tasks a row */
            fail_msg("element %lld is %.9g, not %.9g", (long long)i, (double)d[i], want[i / c.columns]);
    hr_kernel_destroy(kernel);
    device->limits = own;
}

static void test_a_row_that_is_not_there(void **state) {
    (void)state;
    const scatter_case c = {99, 3001, 259, 0};
    hr_kernel *kernel = load(by_row, &c);
    int32_t *at = array_of(kernel, "at");
    at[40] = 3001;
    at[60] = -7;
    assert_int_not_equal(hr_kernel_launch(kernel), HR_OK);
    if (!strstr(hr_last_error(), "3001")) fail_msg("%s", hr_last_error());
    hr_kernel_destroy(kernel);
}

/* ---- gathered ---- */

static const char gathers[] =
    "kernel k(at: i32[T], d: bf16[V, C], scale: f32[T], bias: f32[C]) -> (x: f32[T, C])\n{\n"
    "    x[t, c] = d[at[t], c] * scale[t] + bias[c]\n}\n";
static const char moves[] =
    "kernel k(at: i32[T], d: bf16[V, C]) -> (x: bf16[T, C])\n{\n    x[t, c] = d[at[t], c]\n}\n";
/* A row of the task's own beside it, a second checked row, a condition: as they come. */
static const char beside[] = "kernel k(at: i32[T], d: bf16[V, C], y: f32[T, C]) -> (x: f32[T, C])\n{\n"
                             "    x[t, c] = d[at[t], c] + y[t, c]\n}\n";
static const char twice[] = "kernel k(at: i32[T], d: bf16[V, C], to: i32[V]) -> (x: f32[T, C])\n{\n"
                            "    x[t, c] = d[to[at[t]], c] + 0\n}\n";
static const char guarded[] = "kernel k(at: i32[T], d: bf16[V, C]) -> (x: f32[T, C])\n{\n"
                              "    x[t, c] = where(at[t] >= 0, d[at[t], c], 1)\n}\n";

/* Caches of which a small table leaves all. */
static void with_small_caches(void (*check)(const char *, bool), const char *text, bool ordered) {
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 1 << 14;
    device->limits.l3_bytes = 1 << 15;
    device->limits.threads = 2; /* with more than one block of tasks each */
    check(text, ordered);
    device->limits = own;
}

static void check_gathered(const char *text, bool ordered) {
    static const scatter_case gathered[] = {{4099, 301, 1040, 0}, {4099, 301, 1040, 3},
                                            {40, 5000, 1031, 0},  {1000, 5000, 1056, 0},
                                            {33, 33, 2049, 0},    {70001, 401, 1030, 0}};
    size_t count = sizeof gathered / sizeof *gathered - (text != moves); /* the last is long enough for one */
    for (size_t i = 0; i < count; i++) {
        hr_kernel *kernel = load(text, &gathered[i]);
        hr_check result = {0};
        const char *source, *header;
        good(hr_kernel_launch(kernel));
        good(hr_kernel_source(kernel, &source, &header));
        assert_int_equal(strstr(source, "task_order_of(") != NULL, ordered);
        good(hr_kernel_check(kernel, 3000, &result));
        if (!result.ok) fail_msg("case %zu: error %g: %s", i, result.max_error, result.where);
        hr_kernel_destroy(kernel);
    }
}

static void check_gathered_fault(const char *text, bool ordered) {
    (void)ordered;
    for (int64_t rows = 0; rows < 400; rows += 399) {
        const scatter_case c = {999, rows, 1040, 0};
        hr_kernel *kernel = load(text, &c);
        int32_t *at = array_of(kernel, "at");
        for (int64_t t = 0; t < c.tasks; t++)
            at[t] = t == 990 ? -2147483647 : t == 40 ? 2147483647 : rows ? (int32_t)(t * 7 % rows) : 0;
        assert_int_not_equal(hr_kernel_launch(kernel), HR_OK);
        if (rows && !strstr(hr_last_error(), "2147483647")) fail_msg("%s", hr_last_error());
        hr_kernel_destroy(kernel);
    }
}

static void test_gathered_rows(void **state) {
    (void)state;
    with_small_caches(check_gathered, gathers, true);
    with_small_caches(check_gathered, moves, true);
    with_small_caches(check_gathered, beside, false);
    with_small_caches(check_gathered, twice, false);
    with_small_caches(check_gathered, guarded, false);
    with_small_caches(check_gathered_fault, moves, true);
    check_gathered(moves, false);
}

/* A result with gaps between its elements, which may run backwards: what is added into begins at 0, and
 * nothing else is touched. */
static void check_gaps(int way) {
    enum { TASKS = 1000, ROWS = 5, COLUMNS = 3, ROW = 11, STEP = 2 };
    static const char text[] = "kernel k(at: i32[T]) -> (n: f32[V, C])\n{\n    n[at[t], at[t] % C] += 1\n}\n";
    float n[ROWS * ROW], want[ROWS * ROW];
    const int64_t shape[] = {ROWS, COLUMNS}, strides[] = {way * ROW, way * STEP};
    const int first = way < 0 ? (ROWS - 1) * ROW + (COLUMNS - 1) * STEP : 0;
    const hr_array array = {.size = sizeof array,
                            .data = n + first,
                            .dtype = HR_F32,
                            .rank = 2,
                            .shape = shape,
                            .strides = strides};
    hr_kernel *kernel;
    good(hr_kernel_load(device, "gaps.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "T", TASKS));
    good(hr_kernel_bind(kernel, "n", &array));
    good(hr_kernel_fill(kernel, 5));
    const int32_t *at = array_of(kernel, "at");
    for (int i = 0; i < ROWS * ROW; i++)
        n[i] = want[i] = 7;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        want[i / COLUMNS * ROW + i % COLUMNS * STEP] = 0;
    for (int t = 0; t < TASKS; t++)
        want[first + way * (at[t] * ROW + at[t] % COLUMNS * STEP)] += 1;
    good(hr_kernel_launch(kernel));
    assert_memory_equal(n, want, sizeof n);
    hr_check check = {0};
    good(hr_kernel_check(kernel, TASKS, &check));
    assert_true(check.ok);
    hr_kernel_destroy(kernel);
}

static void test_result_with_gaps(void **state) {
    (void)state;
    check_gaps(1);
    check_gaps(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_rows_of_two_axes),
        cmocka_unit_test(test_many_tasks),    cmocka_unit_test(test_a_row_that_is_not_there),
        cmocka_unit_test(test_gathered_rows), cmocka_unit_test(test_result_with_gaps)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
