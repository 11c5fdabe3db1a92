/* Products of two operands of bytes: every pair of dtypes, lying either way, at odd sizes and with strides,
 * against sums of whole numbers. All of them are exact, the largest bytes of long sums, too.
 */
#include "device/device.h"
#include "support/cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* ---- a product ---- */

/* One byte of an array, as its dtype has it. */
typedef int64_t load_fn(const void *data, int64_t at);

static int64_t load_i8(const void *data, int64_t at) {
    return ((const int8_t *)data)[at];
}

static int64_t load_u8(const void *data, int64_t at) {
    return ((const uint8_t *)data)[at];
}

/* x[m, k] and w[n, k], or turned. The results' dtypes are those that a sum may be stored in. */
typedef struct product_case {
    const char *text;
    load_fn *x, *w;
    bool x_turned, w_turned;
    hr_dtype result;
} product_case;

static const product_case cases[] = {
    {"kernel k(x: i8[M, K], w: i8[N, K]) -> (y: i64[M, N]) { y[m, n] = sum[k](x[m, k] * w[n, k]) }", load_i8,
     load_i8, false, false, HR_I64},
    {"kernel k(x: u8[K, M], w: i8[K, N]) -> (y: f64[M, N]) { y[m, n] = sum[k](x[k, m] * w[k, n]) }", load_u8,
     load_i8, true, true, HR_F64},
    {"kernel k(x: i8[M, K], w: u8[K, N]) -> (y: i64[M, N]) { y[m, n] = sum[k](w[k, n] * x[m, k]) }", load_i8,
     load_u8, false, true, HR_I64},
    {"kernel k(x: u8[K, M], w: u8[N, K]) -> (y: f32[M, N]) { y[m, n] = sum[k](x[k, m] * w[n, k]) }", load_u8,
     load_u8, true, false, HR_F32},
    {"kernel k(x: i8[M, K], w: i8[K, N]) -> (y: i32[M, N]) { y[m, n] = sum[k](x[m, k] * w[k, n]) }", load_i8,
     load_i8, false, true, HR_I32},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Where element [row, k] of an operand lies, in elements. */
typedef struct place {
    int64_t row, k;
} place;

typedef struct bytes_product {
    const product_case *of;
    int64_t m, n, k, spread; /* elements from one to the next along memory */
    uint8_t *x, *w;
} bytes_product;

static place place_of(bool turned, int64_t rows, int64_t k, int64_t spread) {
    return turned ? (place){spread, rows * spread} : (place){k * spread, spread};
}

static int64_t sum_of(const bytes_product *p, int64_t m, int64_t n) {
    const place x = place_of(p->of->x_turned, p->m, p->k, p->spread),
                w = place_of(p->of->w_turned, p->n, p->k, p->spread);
    int64_t sum = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += p->of->x(p->x, m * x.row + k * x.k) * p->of->w(p->w, n * w.row + k * w.k);
    return sum;
}

static bool is_stored(hr_dtype dtype, const void *y, int64_t at, int64_t sum) {
    switch (dtype) {
    case HR_I32:
        return ((const int32_t *)y)[at] == sum;
    case HR_I64:
        return ((const int64_t *)y)[at] == sum;
    case HR_F32:
        return ((const float *)y)[at] == (float)sum;
    default:
        return ((const double *)y)[at] == (double)sum;
    }
}

static void run(hr_kernel *kernel, const bytes_product *p, void *y) {
    const place x = place_of(p->of->x_turned, p->m, p->k, p->spread),
                w = place_of(p->of->w_turned, p->n, p->k, p->spread);
    const int64_t x_shape[] = {p->m, p->k, p->m}, x_strides[] = {x.row, x.k, x.row},
                  w_shape[] = {p->n, p->k, p->n}, w_strides[] = {w.row, w.k, w.row}, y_shape[] = {p->m, p->n};
    const hr_array arrays[] = {
        {.size = sizeof *arrays,
         .data = p->x,
         .dtype = p->of->x == load_i8 ? HR_I8 : HR_U8,
         .rank = 2,
         .shape = x_shape + p->of->x_turned,
         .strides = x_strides + p->of->x_turned},
        {.size = sizeof *arrays,
         .data = p->w,
         .dtype = p->of->w == load_i8 ? HR_I8 : HR_U8,
         .rank = 2,
         .shape = w_shape + p->of->w_turned,
         .strides = w_strides + p->of->w_turned},
        {.size = sizeof *arrays, .data = y, .dtype = p->of->result, .rank = 2, .shape = y_shape}};
    good(hr_kernel_execute(kernel, arrays, 3, NULL));
}

/* Operands of random bytes, or of one value each. All sums of little products are looked at, and some of
 * large ones. */
static void check(const product_case *of, int64_t m, int64_t n, int64_t k, int64_t spread,
                  const uint8_t *values) {
    bytes_product p = {of, m, n, k, spread, NULL, NULL};
    hr_kernel *kernel;
    uint32_t seed = 7;
    p.x = malloc((size_t)(m * k * spread) + 1), p.w = malloc((size_t)(n * k * spread) + 1);
    void *y = calloc((size_t)(m * n) + 1, sizeof(int64_t));
    assert_true(p.x && p.w && y);
    for (int64_t i = 0; i < m * k * spread; i++)
        p.x[i] = values ? values[0] : (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (int64_t i = 0; i < n * k * spread; i++)
        p.w[i] = values ? values[1] : (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    good(hr_kernel_load(device, "bytes.hr", of->text, strlen(of->text), NULL, &kernel));
    run(kernel, &p, y);
    const int64_t step = 1 + m * n * k / 4000000;
    for (int64_t i = 0; i < m * n; i += step) {
        const int64_t sum = sum_of(&p, i / n, i % n);
        if (!is_stored(of->result, y, i, sum))
            fail_msg("element %lld of M=%lld N=%lld K=%lld is not %lld in %s", (long long)i, (long long)m,
                     (long long)n, (long long)k, (long long)sum, of->text);
    }
    hr_kernel_destroy(kernel);
    free(p.x), free(p.w), free(y);
}

/* ---- tests ---- */

static void test_odd_sizes(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 4, 7, 17, 31, 33, 130};
    for (int i = 0; i < 7 * 7 * 7; i++)
        if (i % 16 == 0) check(&cases[i % CASES], sizes[i % 7], sizes[i / 7 % 7], sizes[i / 49] + 9, 1, NULL);
    for (int c = 0; c < CASES; c++) {
        check(&cases[c], 77, 5, 61, 1, NULL);     /* swapped */
        check(&cases[c], 5, 77, 8, 1, NULL);      /* of k, one packed element */
        check(&cases[c], 33, 41, 0, 1, NULL);     /* sums of nothing */
        check(&cases[c], 301, 163, 515, 1, NULL); /* in blocks */
    }
}

static void test_long_sums(void **state) {
    (void)state;
    check(&cases[0], 300, 19, 25003, 1, NULL); /* in several passes */
    check(&cases[2], 300, 19, 25003, 1, NULL);
    check(&cases[3], 5, 21, 74003, 1, NULL); /* in parts */
}

static void test_strides(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++)
        check(&cases[c], 35, 29, 83, 3, NULL);
}

/* 131072 of -128 * -128 leave 32 bits, and 33026 of 255 * 255. */
static void test_largest(void **state) {
    (void)state;
    static const uint8_t values[][2] = {{128, 128}, {127, 128}, {128, 127}, {255, 128}, {255, 255}};
    for (int c = 0; c < CASES - 1; c++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            check(&cases[c], 5, 17, 2051, 1, values[i]);
    check(&cases[0], 4, 17, 131077, 1, values[0]);
    check(&cases[3], 4, 17, 33029, 1, values[4]);
}

/* Where vectors multiply bytes in fours, the plan says so and the emitted code has it. */
static void test_unit_follows_the_machine(void **state) {
    (void)state;
    const hr_device_limits before = device->limits;
    device->limits.vector_bytes = 64;
    for (int dots = 0; dots < 2; dots++) {
        const char *plan, *source;
        hr_kernel *kernel;
        device->limits.dots_bytes = dots;
        good(hr_kernel_load(device, "bytes.hr", cases[0].text, strlen(cases[0].text), NULL, &kernel));
        good(hr_kernel_plan(kernel, &plan));
        good(planned_source(kernel, &source));
        assert_int_equal(strstr(source, "all bytes: vectors multiply them in fours") != NULL, dots);
        assert_int_equal(strstr(source, "contract_bytes_unit(&product, false, false)") != NULL, dots);
        hr_kernel_destroy(kernel);
    }
    device->limits = before;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_odd_sizes), cmocka_unit_test(test_long_sums),
                                       cmocka_unit_test(test_strides), cmocka_unit_test(test_largest),
                                       cmocka_unit_test(test_unit_follows_the_machine)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
