/* Single places of an inout that a statement gives their values: each the value of the one element that
 * writes it, or what it held; conditions; places that are no places; two writers of one. */
#include "base/dtype.h"
#include "device/device.h"
#include "support/cpu_device.h"
#include "support/naive.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

static hr_kernel *load(const char *text, const char *names, const int64_t *extents) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "places.hr", text, strlen(text), NULL, &kernel));
    for (int i = 0; names[i]; i++)
        good(hr_kernel_bind_extent(kernel, (char[]){names[i], 0}, extents[i]));
    if (strstr(text, "position")) good(hr_kernel_bind_scalar(kernel, "position", 0));
    good(hr_kernel_fill(kernel, 7));
    return kernel;
}

/* A cache of keys: rows of two axes at slots, of which those below 0 are left out. */
static void test_cache(void **state) {
    (void)state;
    static const char text[] = "kernel k(k: bf16[T, H, D], slot: i32[T], cache: inout bf16[S, H, D])\n{\n"
                               "    cache[slot[t], h, d] = k[t, h, d] if slot[t] >= 0\n}\n";
    static const int64_t sizes[][4] = {{5, 2, 3, 9}, {1, 1, 1, 1},      {0, 2, 3, 4},  {33, 3, 64, 40},
                                       {7, 0, 3, 9}, {130, 1, 17, 131}, {64, 4, 8, 64}};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        const int64_t *n = sizes[c], row = n[1] * n[2];
        hr_kernel *kernel = load(text, "THDS", n);
        int32_t *slot = array_of(kernel, "slot");
        const uint16_t *k = array_of(kernel, "k");
        uint16_t *cache = array_of(kernel, "cache"), *want = malloc((size_t)(n[3] * row) * 2 + 1);
        for (int64_t t = 0; t < n[0]; t += 3)
            slot[t] = -1 - (int32_t)t;
        memcpy(want, cache, (size_t)(n[3] * row) * 2);
        for (int64_t t = 0; t < n[0]; t++)
            if (slot[t] >= 0) memcpy(want + slot[t] * row, k + t * row, (size_t)row * 2);
        good(hr_kernel_launch(kernel));
        if (n[3] * row > 0) assert_memory_equal(cache, want, (size_t)(n[3] * row) * 2);
        free(want);
        hr_kernel_destroy(kernel);
    }
}

/* One row, at a place that a scalar says, read by the next statement. */
static void test_position(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(k: f32[D], position: i64, cache: inout f32[S, D]) -> (y: f32[S])\n{\n"
        "    cache[position, d] = 2 * k[d]\n    y[s] = max[d](cache[s, d])\n}\n";
    static const int64_t sizes[][2] = {{5, 3}, {1, 1}, {1037, 4}, {64, 257}};
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        const int64_t d = sizes[c][0], s = sizes[c][1];
        hr_kernel *kernel = load(text, "DS", sizes[c]);
        good(hr_kernel_bind_scalar(kernel, "position", (double)(s / 2)));
        const float *k = array_of(kernel, "k"), *cache = array_of(kernel, "cache"),
                    *y = array_of(kernel, "y");
        float *want = malloc((size_t)(s * d) * sizeof *want);
        memcpy(want, cache, (size_t)(s * d) * sizeof *want);
        for (int64_t i = 0; i < d; i++)
            want[s / 2 * d + i] = 2 * k[i];
        good(hr_kernel_launch(kernel));
        assert_memory_equal(cache, want, (size_t)(s * d) * sizeof *want);
        for (int64_t r = 0; r < s; r++) {
            float most = -INFINITY;
            for (int64_t i = 0; i < d; i++)
                most = fmaxf(most, want[r * d + i]);
            assert_true(y[r] == most);
        }
        good(hr_kernel_bind_scalar(kernel, "position", (double)s));
        assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
        good(hr_kernel_bind_scalar(kernel, "position", -1));
        assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
        free(want);
        hr_kernel_destroy(kernel);
    }
}

/* Every element against the plainest reading of the text. */
static const char *const meanings[] = {
    "kernel k(x: f32[N], keep: bool[N], a: inout f32[N, N]) { a[n, n] = x[n] if keep[n] }",
    "kernel k(x: f32[N], keep: bool[N], a: inout f32[N]) { a[n] = x[n] + a[n] if keep[n] }",
    "kernel k(x: f32[N], keep: bool[N], a: inout i8[N + 1]) { a[N - n] = 40 * x[n] if keep[n] and n > 0 }",
    "kernel k(x: f32[N], keep: bool[N], a: inout f32[N]) { a[n] += x[n] if not keep[n] }",
    "kernel k(x: f32[N], keep: bool[N], a: inout f32[3]) { a[n % 3] += x[n] if not keep[n] }",
    "kernel k(x: f32[N], keep: bool[N], a: inout bool[2 * N]) { a[2 * n + 1] = x[n] > 0 }",
    "kernel k(x: f32[N], keep: bool[N], a: inout f64[N], y: inout f32[N]) {\n"
    "    a[(n + 1) % N] = x[n] if keep[n]\n    y[n] = a[n] + y[n]\n}",
};

static void test_meanings(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof meanings / sizeof *meanings; m++)
        for (int64_t n = 0; n < 9; n += 4) {
            hr_fixture f;
            good(hr_fixture_open(meanings[m], NULL, &f));
            hr_fixture_extent(&f, "N", n);
            good(hr_fixture_allocate(&f));
            const double x[] = {1.5, -2, 3, -0.25, 5, 6, -7, 0.5}, keep[] = {1, 0, 1, 1, 0, 1, 0, 1};
            hr_fixture_set(&f, "x", x);
            hr_fixture_set(&f, "keep", keep);
            const int a = hr_fixture_tensor(&f, "a");
            for (int64_t i = 0; i < hr_fixture_count(&f, a); i++) {
                const int64_t subscripts[] = {i / (n ? n : 1), i % (n ? n : 1)};
                hr_meaning meaning;
                double want;
                good(hr_fixture_value(&f, "a", i, &meaning));
                assert_true(
                    hr_naive_value(&f, a, f.function->tensors[a].rank == 2 ? subscripts : &i, 100000, &want));
                const hr_dtype dtype = f.function->tensors[a].dtype;
                if (hr_dtype_round(dtype, meaning.value) != hr_dtype_round(dtype, want))
                    fail_msg("%s\nN=%d, element %d: %g, not %g", meanings[m], (int)n, (int)i, meaning.value,
                             want);
            }
            hr_fixture_close(&f);
        }
}

/* Two elements that write one place: however many points there are, whatever else runs along. */
static void test_two_writers(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(x: f32[N, C], at: i32[N], a: inout f32[M, C]) { a[at[n], c] = x[n, c] }";
    for (int twice = 0; twice < 2; twice++) {
        hr_fixture f;
        const double at[] = {4, 2, 0, twice ? 2 : 3};
        hr_meaning meaning;
        good(hr_fixture_open(text, NULL, &f));
        hr_fixture_extent(&f, "N", 4);
        hr_fixture_extent(&f, "M", 5);
        hr_fixture_extent(&f, "C", 3);
        good(hr_fixture_allocate(&f));
        hr_fixture_set(&f, "at", at);
        assert_int_equal(hr_fixture_value(&f, "a", 0, &meaning), twice ? HR_BAD_INPUT : HR_OK);
        if (twice && !strstr(hr_last_error(), "two elements write the place [2, :] of a"))
            fail_msg("%s", hr_last_error());
        hr_fixture_close(&f);
    }
    hr_fixture f;
    hr_meaning meaning;
    good(hr_fixture_open("kernel k(x: f32[N], a: inout f32[M]) { a[n // 2] = x[n] }", NULL, &f));
    hr_fixture_extent(&f, "N", 600000);
    hr_fixture_extent(&f, "M", 300000);
    good(hr_fixture_allocate(&f));
    assert_int_equal(hr_fixture_value(&f, "a", 17, &meaning), HR_BAD_INPUT);
    if (!strstr(hr_last_error(), "the place [17] of a")) fail_msg("%s", hr_last_error());
    hr_fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_position),
        cmocka_unit_test(test_meanings),
        cmocka_unit_test(test_two_writers),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
