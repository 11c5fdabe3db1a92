/* Functions and reducers that are formulas of others, as they run: against libm, at NaN, both infinities,
 * both zeros, the edges of their branches, over nothing. */
#include "device/device.h"
#include "support/cpu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

enum { COUNT = 4096 };

static hr_kernel *load(const char *text, int64_t n) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "standard.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "N", n));
    good(hr_kernel_fill(kernel, 11));
    return kernel;
}

/* Numbers of all sizes, and the edges. */
static double number(int i) {
    static const double edges[] = {NAN,   INFINITY,  -INFINITY,  0,  -0.0,        1e-30, -1e-30, 0.25,
                                   -0.25, 0.2499999, -0.2499999, -1, -0.99999994, -1.5,  88,     -88};
    const int count = (int)(sizeof edges / sizeof *edges);
    if (i < count) return edges[i];
    const double size = ldexp(1 + (i * 37 % 101) / 101.0, -40 + i % 46);
    return i % 2 ? size : -size;
}

static void near(const char *what, double x, double got, double want, double places) {
    if (isnan(got) && isnan(want)) return;
    if (got == want || fabs(got - want) <= places * fabs(want)) return;
    fail_msg("%s of %.17g is %.17g, not %.17g", what, x, got, want);
}

static void test_functions(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(x: f32[N], y: f64[N], q: i32[N])\n"
        "    -> (a: f32[N], b: f32[N], c: f32[N], u: bool[N], v: bool[N], d: f64[N], e: f64[N],\n"
        "        s: i32[N])\n{\n"
        "    a[n] = log1p(x[n])\n    b[n] = expm1(x[n])\n    c[n] = sign(x[n])\n"
        "    u[n] = isnan(x[n])\n    v[n] = isinf(x[n])\n"
        "    d[n] = log1p(y[n])\n    e[n] = expm1(y[n])\n    s[n] = sign(q[n])\n}\n";
    hr_kernel *kernel = load(text, COUNT);
    float *x = array_of(kernel, "x");
    double *y = array_of(kernel, "y");
    int32_t *q = array_of(kernel, "q");
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)number(i);
        y[i] = number(i);
        q[i] = i % 3 - 1;
    }
    good(hr_kernel_launch(kernel));
    const float *a = array_of(kernel, "a"), *b = array_of(kernel, "b"), *c = array_of(kernel, "c");
    const double *d = array_of(kernel, "d"), *e = array_of(kernel, "e");
    const uint8_t *u = array_of(kernel, "u"), *v = array_of(kernel, "v");
    const int32_t *s = array_of(kernel, "s");
    for (int i = 0; i < COUNT; i++) {
        near("log1p", x[i], a[i], log1p(x[i]), 5e-7);
        near("expm1", x[i], b[i], expm1(x[i]), 5e-7);
        near("log1p", y[i], d[i], log1p(y[i]), 1e-15);
        near("expm1", y[i], e[i], expm1(y[i]), 2e-15);
        near("sign", x[i], c[i], isnan(x[i]) ? NAN : (x[i] > 0) - (x[i] < 0), 0);
        assert_int_equal(u[i], isnan(x[i]) != 0);
        assert_int_equal(v[i], isinf(x[i]) != 0);
        assert_int_equal(s[i], q[i]);
    }
    hr_kernel_destroy(kernel);
}

static void test_any_and_all(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(x: f32[9, N], last: i64) -> (some: bool[9], every: bool[9], first: bool[9])\n{\n"
        "    some[m] = any[n](x[m, n] > 1)\n    every[m] = all[n](x[m, n] > -1)\n"
        "    first[m] = any[n < last](x[m, n] > 0.5)\n}\n";
    for (int64_t n = 0; n < 100; n += 33) {
        hr_kernel *kernel;
        good(hr_kernel_load(device, "standard.hr", text, strlen(text), NULL, &kernel));
        good(hr_kernel_bind_extent(kernel, "N", n));
        good(hr_kernel_bind_scalar(kernel, "last", 2));
        good(hr_kernel_fill(kernel, 11));
        float *x = array_of(kernel, "x");
        for (int64_t i = 0; i < 9 * n; i++)
            x[i] = i / (n + 1) % 2 && i % 41 == 5 ? (i % 2 ? 2 : -2)
                   : i % 13 == 0                  ? NAN
                                                  : 0.75f * (float)(i % 2);
        good(hr_kernel_launch(kernel));
        for (int64_t m = 0; m < 9; m++) {
            bool some = false, every = true, first = false;
            for (int64_t i = 0; i < n; i++) {
                some |= x[m * n + i] > 1;
                every &= x[m * n + i] > -1;
                first |= i < 2 && x[m * n + i] > 0.5f;
            }
            assert_int_equal(((uint8_t *)array_of(kernel, "some"))[m], some);
            assert_int_equal(((uint8_t *)array_of(kernel, "every"))[m], every);
            assert_int_equal(((uint8_t *)array_of(kernel, "first"))[m], first);
        }
        hr_kernel_destroy(kernel);
    }
}

/* A text's own function of the name goes first. */
static void test_own(void **state) {
    (void)state;
    static const char text[] =
        "def sign(x) = x + 100\nkernel k(x: f32[N]) -> (y: f32[N]) { y[n] = sign(x[n]) }\n";
    hr_kernel *kernel = load(text, 5);
    const float *x = array_of(kernel, "x"), *y = array_of(kernel, "y");
    good(hr_kernel_launch(kernel));
    for (int i = 0; i < 5; i++)
        assert_true(y[i] == x[i] + 100);
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_any_and_all),
        cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
