/* & | xor << >> as they run, in both widths, by vectors and by scalars, against C: negative numbers, shifts
 * by less than 0, by the width and beyond; and their order of precedence. */
#include "device/device.h"
#include "support/cpu_device.h"
#include "support/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

static const char text[] =
    "kernel k(a: i32[N], b: i32[N], by: i32[N], u: u8[N], c: i64[N], d: i64[N])\n"
    "    -> (and4: i32[N], or4: i32[N], xor4: i32[N], left4: i32[N], right4: i32[N], low: u8[N],\n"
    "        and8: i64[N], or8: i64[N], xor8: i64[N], left8: i64[N], right8: i64[N])\n{\n"
    "    and4[n] = a[n] & b[n]\n    or4[n] = a[n] | b[n]\n    xor4[n] = a[n] xor b[n]\n"
    "    left4[n] = a[n] << by[n]\n    right4[n] = a[n] >> by[n]\n"
    "    low[n] = u[n] & 15 | u[n] >> 4 << 4\n"
    "    and8[n] = c[n] & d[n]\n    or8[n] = c[n] | d[n]\n    xor8[n] = c[n] xor d[n]\n"
    "    left8[n] = c[n] << by[n]\n    right8[n] = c[n] >> by[n]\n}\n";

static int32_t left4(int32_t a, int32_t by) {
    return by < 0 || by > 31 ? 0 : (int32_t)((uint32_t)a << by);
}

static int64_t left8(int64_t a, int32_t by) {
    return by < 0 || by > 63 ? 0 : (int64_t)((uint64_t)a << by);
}

static void check(const hr_kernel *kernel, int64_t n) {
    const int32_t *a = array_of(kernel, "a"), *b = array_of(kernel, "b"), *by = array_of(kernel, "by");
    const int64_t *c = array_of(kernel, "c"), *d = array_of(kernel, "d");
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(((int32_t *)array_of(kernel, "and4"))[i], a[i] & b[i]);
        assert_int_equal(((int32_t *)array_of(kernel, "or4"))[i], a[i] | b[i]);
        assert_int_equal(((int32_t *)array_of(kernel, "xor4"))[i], a[i] ^ b[i]);
        assert_int_equal(((int32_t *)array_of(kernel, "left4"))[i], left4(a[i], by[i]));
        assert_int_equal(((int32_t *)array_of(kernel, "right4"))[i],
                         a[i] >> (by[i] < 0 || by[i] > 31 ? 31 : by[i]));
        assert_int_equal(((uint8_t *)array_of(kernel, "low"))[i], ((uint8_t *)array_of(kernel, "u"))[i]);
        assert_true(((int64_t *)array_of(kernel, "and8"))[i] == (c[i] & d[i]));
        assert_true(((int64_t *)array_of(kernel, "or8"))[i] == (c[i] | d[i]));
        assert_true(((int64_t *)array_of(kernel, "xor8"))[i] == (c[i] ^ d[i]));
        assert_true(((int64_t *)array_of(kernel, "left8"))[i] == left8(c[i], by[i]));
        assert_true(((int64_t *)array_of(kernel, "right8"))[i] ==
                    c[i] >> (by[i] < 0 || by[i] > 63 ? 63 : by[i]));
    }
}

static void test_bits(void **state) {
    (void)state;
    for (int64_t n = 0; n < 400; n += 133) {
        hr_kernel *kernel;
        good(hr_kernel_load(device, "bits.hr", text, strlen(text), NULL, &kernel));
        good(hr_kernel_bind_extent(kernel, "N", n));
        good(hr_kernel_fill(kernel, 5));
        int32_t *a = array_of(kernel, "a"), *b = array_of(kernel, "b"), *by = array_of(kernel, "by");
        int64_t *c = array_of(kernel, "c"), *d = array_of(kernel, "d");
        uint64_t x = 88172645463325252u;
        for (int64_t i = 0; i < n; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            a[i] = (int32_t)x;
            b[i] = (int32_t)(x >> 32);
            c[i] = (int64_t)(x * 0x9e3779b97f4a7c15u);
            d[i] = (int64_t)(x * 0xd1342543de82ef95u);
            by[i] = (int32_t)(i % 75) - 5;
        }
        good(hr_kernel_launch(kernel));
        check(kernel, n);
        hr_kernel_destroy(kernel);
    }
}

/* As C reads them, but that comparisons are looser, as in Python; and the interpreter's values. */
static void test_precedence(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"1 | 2 xor 3 & 5 << 1 + 1", 1 | (2 ^ (3 & (5 << (1 + 1))))},
                 {"i64(6 & 3 == 2)", (6 & 3) == 2},
                 {"-1 >> 40", -1},
                 {"i32(1) << 31", INT32_MIN},
                 {"i32(3) << 31", INT32_MIN},
                 {"i32(1) << 32", 0},
                 {"i64(1) << 40", 0x1p40},
                 {"7 & -2", 6},
                 {"i32(5) xor i32(-1)", -6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char kernel[200];
        hr_fixture f;
        hr_meaning meaning;
        snprintf(kernel, sizeof kernel, "kernel k() -> (y: i64) { y = %s }", cases[i].text);
        good(hr_fixture_open(kernel, NULL, &f));
        good(hr_fixture_allocate(&f));
        good(hr_fixture_value(&f, "y", 0, &meaning));
        if (meaning.value != cases[i].value)
            fail_msg("%s is %g, not %g", cases[i].text, meaning.value, cases[i].value);
        hr_fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_precedence),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
