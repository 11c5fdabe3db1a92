/* Made-up inputs: the right distribution, the same for one seed, subscripts within their axes. */
#include "headroom.h"

#include "base/dtype.h"
#include "device/device_cpu.h"
#include "run/kernel.h"
#include "support/memory_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static hr_kernel *load(const char *text) {
    hr_kernel *kernel = NULL;
    hr_status status = hr_kernel_load(&memory, "test.hr", text, strlen(text), NULL, &kernel);
    if (status != HR_OK) print_message("%s\n", hr_last_error());
    assert_int_equal(status, HR_OK);
    return kernel;
}

static void extent_set(hr_kernel *kernel, const char *name, int64_t value) {
    assert_int_equal(hr_kernel_bind_extent(kernel, name, value), HR_OK);
}

typedef struct moments {
    double mean, deviation, least, most;
    int64_t count;
} moments;

static moments moments_of(hr_kernel *kernel, const char *name) {
    hr_array array;
    moments moments = {.least = INFINITY, .most = -INFINITY};
    double sum = 0, squares = 0;
    assert_int_equal(hr_kernel_array(kernel, name, &array), HR_OK);
    moments.count = hr_shape_elements(array.rank, array.shape);
    for (int64_t i = 0; i < moments.count; i++) {
        double value = hr_dtype_load(array.dtype, array.data, (size_t)i);
        assert_false(isnan(value));
        sum += value;
        squares += value * value;
        moments.least = fmin(moments.least, value);
        moments.most = fmax(moments.most, value);
    }
    moments.mean = sum / (double)moments.count;
    moments.deviation = sqrt(squares / (double)moments.count - moments.mean * moments.mean);
    return moments;
}

static void test_floats_are_normal(void **state) {
    (void)state;
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int large = 0; large < 2; large++) { /* with and without the table of levels */
            char text[128];
            snprintf(text, sizeof text, "kernel copy(x: %s[N]) -> (y: f32[N])\n{\n    y[n] = x[n]\n}\n",
                     dtypes[d]);
            hr_kernel *kernel = load(text);
            extent_set(kernel, "N", large ? 300001 : 100000);
            assert_int_equal(hr_kernel_fill(kernel, 1), HR_OK);
            moments moments = moments_of(kernel, "x");
            assert_true(fabs(moments.mean) < 0.015);
            assert_true(fabs(moments.deviation - 1) < 0.02);
            assert_true(moments.most > 2.9 && moments.most <= 3.5 && moments.least < -2.9);
            hr_kernel_destroy(kernel);
        }
}

/* With mean 1, and of one sign: of every dtype, by single elements and by tables. */
static void test_other_values(void **state) {
    (void)state;
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int large = 0; large < 2; large++) {
            char text[128];
            snprintf(text, sizeof text, "kernel copy(x: %s[N]) -> (y: f32[N])\n{\n    y[n] = x[n]\n}\n",
                     dtypes[d]);
            hr_kernel *kernel = load(text);
            extent_set(kernel, "N", large ? 300001 : 100000);
            assert_int_equal(hr_kernel_fill_as(kernel, 1, HR_VALUES_MEAN_1), HR_OK);
            moments one = moments_of(kernel, "x");
            assert_true(fabs(one.mean - 1) < 0.015 && fabs(one.deviation - 1) < 0.02 && one.least < -1.5);
            assert_int_equal(hr_kernel_fill_as(kernel, 1, HR_VALUES_POSITIVE), HR_OK);
            moments positive = moments_of(kernel, "x");
            assert_true(positive.least >= 0 && fabs(positive.mean - 0.798) < 0.02 && positive.most > 2.9);
            hr_kernel_destroy(kernel);
        }
}

static void test_table_and_single_elements_agree(void **state) {
    (void)state;
    static uint16_t large[200000], small[5000];
    hr_filling filling = {.seed = 42};
    hr_fill_array(HR_BF16, large, 200000, &filling);
    hr_fill_array(HR_BF16, small, 5000, &filling);
    assert_memory_equal(large, small, sizeof small);
    filling.magnitude = true;
    hr_fill_array(HR_F8E5M2, large, 300001, &filling);
    hr_fill_array(HR_F8E5M2, small, 5001, &filling);
    assert_memory_equal(large, small, 5001);
}

static void test_one_seed_one_array(void **state) {
    (void)state;
    static float one[200003], again[200003];
    hr_filling filling = {.seed = 7};
    setenv("OMP_NUM_THREADS", "1", 1);
    hr_fill_array(HR_F32, one, 200003, &filling);
    unsetenv("OMP_NUM_THREADS");
    hr_fill_array(HR_F32, again, 200003, &filling);
    assert_memory_equal(one, again, sizeof one);
    filling.seed = 8;
    hr_fill_array(HR_F32, again, 200003, &filling);
    assert_memory_not_equal(one, again, sizeof one);
}

static void test_whole_numbers_fill_their_range(void **state) {
    (void)state;
    hr_kernel *kernel =
        load("kernel mix(a: i8[N], b: u8[N], c: bool[N], d: i32[N], e: i64[N]) -> (y: f32[N])\n"
             "{\n    y[n] = where(c[n], a[n] + b[n], d[n] + e[n])\n}\n");
    extent_set(kernel, "N", 20000);
    assert_int_equal(hr_kernel_fill(kernel, 3), HR_OK);
    static const struct {
        const char *name;
        double least, most;
    } expected[] = {{"a", -128, 127}, {"b", 0, 255}, {"c", 0, 1}, {"d", -128, 127}, {"e", -128, 127}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        moments moments = moments_of(kernel, expected[i].name);
        assert_true(moments.least == expected[i].least && moments.most == expected[i].most);
        assert_true(fabs(moments.mean - (expected[i].least + expected[i].most) / 2) <
                    0.03 * (expected[i].most - expected[i].least));
    }
    hr_kernel_destroy(kernel);
}

static void range_is(const char *text, const char *name, double least, double most) {
    hr_kernel *kernel = load(text);
    extent_set(kernel, "T", 5000);
    extent_set(kernel, "V", 37);
    assert_int_equal(hr_kernel_fill(kernel, 5), HR_OK);
    moments moments = moments_of(kernel, name);
    if (moments.least != least || moments.most != most)
        print_message("%s: %g to %g\n", text, moments.least, moments.most);
    assert_true(moments.least == least && moments.most == most);
    hr_kernel_destroy(kernel);
}

static void test_subscripts_stay_in_their_axis(void **state) {
    (void)state;
    range_is("kernel gather(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[t[i]]\n}\n", "t", 0, 36);
    range_is("kernel gather(t: i64[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[t[i] - 3]\n}\n", "t", 3,
             39);
    range_is("kernel gather(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[V - 1 - 2 + t[i]]\n}\n",
             "t", -34, 2);
    range_is("kernel gather(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[2 * t[i]]\n}\n", "t", 0,
             18);
    range_is("kernel gather(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[t[i] // 2]\n}\n", "t", 0,
             73);
    range_is("kernel gather(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = sum[j < 5](x[t[i] + j])\n}\n",
             "t", 0, 32);
    range_is("kernel scatter(t: i32[T], x: f32[T], y: inout f32[V])\n{\n    y[t[i]] += x[i]\n}\n", "t", 0,
             36);
    range_is(
        "kernel both(t: i32[T], x: f32[V], z: f32[20]) -> (y: f32[T])\n{\n    y[i] = x[t[i]] + z[t[i]]\n}\n",
        "t", 0, 19);
    range_is(
        "kernel local(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    s[i] = t[i] + 1\n    y[i] = x[s[i]]\n}\n",
        "t", -1, 35);
    range_is("kernel compared(t: i32[T]) -> (y: f32[T, V])\n{\n    y[i, v] = where(v == t[i], 1.0, 0.0)\n}\n",
             "t", 0, 36);
    range_is("kernel ignored(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = where(t[i] < 0, 0, "
             "x[max(t[i], 0)])\n}\n",
             "t", 0, 36);
    range_is("kernel bytes(t: u8[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[t[i]]\n}\n", "t", 0, 36);
}

static void test_an_empty_axis_has_no_range(void **state) {
    (void)state;
    hr_kernel *kernel =
        load("kernel gather(t: i32[T], x: f32[V]) -> (y: f32[T])\n{\n    y[i] = x[t[i]]\n}\n");
    extent_set(kernel, "T", 4);
    extent_set(kernel, "V", 0);
    assert_int_equal(hr_kernel_fill(kernel, 5), HR_OK);
    moments moments = moments_of(kernel, "t");
    assert_true(moments.least == 0 && moments.most == 0);
    hr_kernel_destroy(kernel);
}

static void test_roots_get_magnitudes(void **state) {
    (void)state;
    hr_kernel *kernel =
        load("kernel step(p: inout f32[N], v: inout f32[N], g: f32[N], d: f32[N], c: f32)\n{\n"
             "    v[i] = 0.9 * v[i] + 0.1 * g[i]^2\n"
             "    p[i] = p[i] - g[i] / (sqrt(v[i] / c) + 1e-8) + log(1 + d[i]) + sqrt(g[i] * g[i])\n}\n");
    extent_set(kernel, "N", 10000);
    assert_int_equal(hr_kernel_fill(kernel, 5), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), ": c;"));
    assert_int_equal(hr_kernel_bind_scalar(kernel, "c", 1), HR_OK);
    assert_int_equal(hr_kernel_fill(kernel, 5), HR_OK);
    assert_true(moments_of(kernel, "v").least >= 0);
    assert_true(moments_of(kernel, "d").least >= 0);
    assert_true(moments_of(kernel, "p").least < -2);
    hr_kernel_destroy(kernel);
}

static void test_fill_again(void **state) {
    (void)state;
    hr_kernel *kernel = load("kernel add(x: f32[M, N], z: f32[N]) -> (y: f32[M, N])\n"
                             "{\n    y[m, n] = x[m, n] + z[n]\n}\n");
    static float given[12];
    hr_array array = {
        .size = sizeof array, .data = given, .dtype = HR_F32, .rank = 2, .shape = (const int64_t[]){3, 4}};
    assert_int_equal(hr_kernel_fill(kernel, 1), HR_OK); /* default extents */
    assert_true(moments_of(kernel, "z").count > 0);
    assert_int_equal(hr_kernel_bind(kernel, "x", &array), HR_OK);
    assert_int_equal(hr_kernel_prepare(kernel, NULL), HR_BAD_INPUT); /* z was made for other extents */
    assert_non_null(strstr(hr_last_error(), "hr_kernel_fill again"));
    assert_int_equal(hr_kernel_fill(kernel, 1), HR_OK);
    assert_int_equal(moments_of(kernel, "z").count, 4);
    assert_int_equal(moments_of(kernel, "y").count, 12);
    assert_int_equal(hr_kernel_array(kernel, "x", &array), HR_OK);
    assert_ptr_equal(array.data, given);
    hr_kernel_destroy(kernel);
}

/* Each of two results would fit, which take memory only when they are written; both do not. */
static void test_arrays_together_fit_in_memory(void **state) {
    (void)state;
    hr_kernel *kernel = load("kernel two(x: f32[K]) -> (y: f32[N], z: f32[N])\n"
                             "{\n    y[i] = x[0] + i\n    z[i] = x[0] - i\n}\n");
    extent_set(kernel, "K", 1);
    extent_set(kernel, "N", hr_machine_memory() / 4 * 6 / 10);
    assert_int_equal(hr_kernel_fill(kernel, 1), HR_OUT_OF_MEMORY);
    assert_non_null(strstr(hr_last_error(), "the arrays of kernel two need "));
    extent_set(kernel, "N", 10);
    assert_int_equal(hr_kernel_fill(kernel, 1), HR_OK);
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_are_normal),
        cmocka_unit_test(test_other_values),
        cmocka_unit_test(test_table_and_single_elements_agree),
        cmocka_unit_test(test_one_seed_one_array),
        cmocka_unit_test(test_whole_numbers_fill_their_range),
        cmocka_unit_test(test_subscripts_stay_in_their_axis),
        cmocka_unit_test(test_an_empty_axis_has_no_range),
        cmocka_unit_test(test_roots_get_magnitudes),
        cmocka_unit_test(test_fill_again),
        cmocka_unit_test(test_arrays_together_fit_in_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || allocated;
}
