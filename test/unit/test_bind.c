/* Arguments meet arrays: extents solved, and a clear sentence for everything that does not fit. Nothing here
 * is compiled or launched: preparing fails before it, or is not asked for. */
#include "headroom.h"

#include "run/kernel.h"
#include "support/memory_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels and arrays ---- */

static const char norm_text[] = "kernel norm(x: bf16[M, N], weight: bf16[N], eps: f32 = 1e-5, scale: f32)\n"
                                "    -> (y: bf16[M, N], mean: f32[M])\n"
                                "{\n"
                                "    mean[m] = sum[n](x[m, n]) / N * scale + eps\n"
                                "    y[m, n] = (x[m, n] - mean[m]) * weight[n]\n"
                                "}\n";

static hr_kernel *load(const char *text) {
    hr_kernel *kernel = NULL;
    hr_status status = hr_kernel_load(&memory, "test.hr", text, strlen(text), NULL, &kernel);
    if (status != HR_OK) print_message("%s\n", hr_last_error());
    assert_int_equal(status, HR_OK);
    return kernel;
}

static char storage[1 << 16]; /* room for every array below */

static hr_status bind_at(hr_kernel *kernel, const char *name, hr_dtype dtype, void *data, int rank,
                         const int64_t *shape, const int64_t *strides) {
    hr_array array = {
        .size = sizeof array, .data = data, .dtype = dtype, .rank = rank, .shape = shape, .strides = strides};
    return hr_kernel_bind(kernel, name, &array);
}

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static int64_t extent(const hr_kernel *kernel, int i) {
    int64_t value = -1;
    return hr_kernel_extent(kernel, i, NULL, &value) == HR_OK ? value : -1;
}

static void refuses(hr_status status, const char *part) {
    assert_int_equal(status, HR_BAD_INPUT);
    if (!strstr(hr_last_error(), part)) print_message("missing \"%s\" in: %s\n", part, hr_last_error());
    assert_non_null(strstr(hr_last_error(), part));
}

static void test_arguments(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    hr_argument argument;
    assert_string_equal(hr_kernel_name(kernel), "norm");
    assert_int_equal(hr_kernel_argument_count(kernel), 6);
    assert_int_equal(hr_kernel_argument(kernel, 2, &argument), HR_OK);
    assert_string_equal(argument.name, "eps");
    assert_int_equal(argument.rank, 0);
    assert_true(argument.has_default && argument.default_value == 1e-5);
    assert_int_equal(hr_kernel_argument(kernel, 4, &argument), HR_OK);
    assert_int_equal(argument.role, HR_ARGUMENT_RESULT);
    assert_int_equal(argument.dtype, HR_BF16);
    assert_int_equal(argument.rank, 2);
    refuses(hr_kernel_argument(kernel, 6, &argument), "there is no number 6");
    refuses(hr_kernel_argument(kernel, -1, &argument), "there is no number -1");
    hr_kernel_destroy(kernel);
    hr_kernel_destroy(NULL);
}

static void test_load_refuses(void **state) {
    (void)state;
    hr_kernel *kernel = NULL;
    refuses(hr_kernel_load(NULL, "x", "", 0, NULL, &kernel), "got no device (NULL)");
    refuses(hr_kernel_load(&memory, "two.hr", "kernel a(x: f32[N]) -> (y: f32[N]) { y[i] = x[j] }", 49, NULL,
                           &kernel),
            "two.hr:1:");
    assert_int_equal(hr_kernel_load_file(&memory, "/nonexistent.hr", NULL, &kernel), HR_IO);
    assert_non_null(strstr(hr_last_error(), "/nonexistent.hr"));
    assert_int_equal(hr_kernel_load_file(&memory, "/tmp", NULL, &kernel), HR_IO);
    assert_int_not_equal(hr_kernel_load_file(&memory, "/dev/zero", NULL, &kernel), HR_OK);
    assert_null(kernel);
}

static void test_extents_follow_from_arrays(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    assert_int_equal(hr_kernel_extent_count(kernel), 2);
    assert_int_equal(extent(kernel, 0), -1);
    assert_int_equal(bind_at(kernel, "weight", HR_BF16, storage, 1, SHAPE(7), NULL), HR_OK);
    assert_int_equal(extent(kernel, 1), 7);
    assert_int_equal(extent(kernel, 0), -1);
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(5, 7), NULL), HR_OK);
    assert_int_equal(extent(kernel, 0), 5);
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(0, 7), NULL), HR_OK);
    assert_int_equal(extent(kernel, 0), 0);
    hr_kernel_destroy(kernel);
}

static void test_extents_are_solved(void **state) {
    (void)state;
    hr_kernel *kernel = load("kernel halves(x: f32[M, 2 * N], z: f32[N + K]) -> (y: f32[M, N])\n"
                             "{\n    y[m, n] = x[m, n + N] + z[n + K]\n}\n");
    assert_int_equal(bind_at(kernel, "z", HR_F32, storage, 1, SHAPE(200), NULL), HR_OK);
    refuses(bind_at(kernel, "x", HR_F32, storage, 2, SHAPE(3, 259), NULL), "259");
    assert_int_equal(bind_at(kernel, "x", HR_F32, storage, 2, SHAPE(3, 258), NULL), HR_OK);
    int64_t by_name[3] = {extent(kernel, 0), extent(kernel, 1), extent(kernel, 2)};
    assert_int_equal(by_name[0] * 1000000 + by_name[1] * 1000 + by_name[2], 3129071); /* M=3 N=129 K=71 */
    hr_kernel_destroy(kernel);
}

static void test_wrong_arrays(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    hr_array unsized = {.data = storage, .dtype = HR_BF16, .rank = 2, .shape = SHAPE(2, 2)};
    refuses(hr_kernel_bind(kernel, "x", &unsized), "does not say its size");
    refuses(hr_kernel_bind(kernel, "x", NULL), "no array is given (NULL)");
    refuses(bind_at(kernel, "z", HR_F32, storage, 2, SHAPE(2, 2), NULL),
            "no argument `z`; it has x, weight, eps, scale, y, mean");
    refuses(bind_at(kernel, NULL, HR_F32, storage, 2, SHAPE(2, 2), NULL), "no argument");
    refuses(bind_at(kernel, "x", HR_F32, storage, 2, SHAPE(2, 2), NULL),
            "`x` of kernel norm is bf16[M, N]; the array given is f32");
    refuses(bind_at(kernel, "x", (hr_dtype)99, storage, 2, SHAPE(2, 2), NULL), "no dtype");
    refuses(bind_at(kernel, "x", HR_BF16, storage, 3, SHAPE(2, 2, 2), NULL), "2 axes; the array given has 3");
    refuses(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(2, -2), NULL), "-2 elements on axis 1");
    refuses(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(INT64_MAX / 2, 3), NULL), "than memory can hold");
    refuses(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(3, 3), SHAPE(INT64_MIN, 1)), "reach further");
    refuses(bind_at(kernel, "x", HR_BF16, NULL, 2, SHAPE(3, 3), NULL), "no data (NULL)");
    refuses(bind_at(kernel, "x", HR_BF16, storage, 2, NULL, NULL), "no shape");
    refuses(bind_at(kernel, "eps", HR_F32, storage, 0, NULL, NULL), "hr_kernel_bind_scalar");
    refuses(hr_kernel_bind_scalar(kernel, "x", 1), "hr_kernel_bind");
    refuses(hr_kernel_bind_extent(kernel, "Q", 1), "no extent `Q`; it has M, N");
    refuses(hr_kernel_bind_extent(kernel, "M", -1), "M cannot be -1");
    assert_int_equal(bind_at(kernel, "x", HR_BF16, NULL, 2, SHAPE(0, 3), NULL),
                     HR_OK); /* empty: no data needed */
    hr_array array;
    refuses(hr_kernel_array(kernel, "y", &array), "not bound");
    refuses(hr_kernel_array(kernel, "eps", &array), "a scalar");
    hr_kernel_destroy(kernel);
}

static void test_whole_scalars_stay_what_they_are(void **state) {
    (void)state;
    hr_kernel *kernel = load("kernel k(a: i32, b: u8, c: bool, d: i64, e: bf16) -> (y: f32)\n{\n"
                             "    y = a + b + c + d + e\n}\n");
    refuses(hr_kernel_bind_scalar(kernel, "a", 1.5), "`a` of kernel k is i32, a scalar, and 1.5 is no such");
    refuses(hr_kernel_bind_scalar(kernel, "a", 2147483648.0), "2147483648 is no such number");
    refuses(hr_kernel_bind_scalar(kernel, "a", NAN), "no such number");
    refuses(hr_kernel_bind_scalar(kernel, "b", 256), "256");
    refuses(hr_kernel_bind_scalar(kernel, "b", -1), "-1");
    refuses(hr_kernel_bind_scalar(kernel, "c", 2), "2");
    refuses(hr_kernel_bind_scalar(kernel, "d", INFINITY), "inf");
    assert_int_equal(hr_kernel_bind_scalar(kernel, "a", -2147483648.0), HR_OK);
    assert_int_equal(hr_kernel_bind_scalar(kernel, "b", 255), HR_OK);
    assert_int_equal(hr_kernel_bind_scalar(kernel, "c", 1), HR_OK);
    assert_int_equal(hr_kernel_bind_scalar(kernel, "d", 0x1p53), HR_OK);
    assert_int_equal(hr_kernel_bind_scalar(kernel, "e", 0.1), HR_OK); /* rounded, as floats are */
    hr_kernel_destroy(kernel);
}

static void bind_all(hr_kernel *kernel) {
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(4, 8), NULL), HR_OK);
    assert_int_equal(bind_at(kernel, "weight", HR_BF16, storage + 1000, 1, SHAPE(8), NULL), HR_OK);
    assert_int_equal(bind_at(kernel, "y", HR_BF16, storage + 2000, 2, SHAPE(4, 8), NULL), HR_OK);
    assert_int_equal(bind_at(kernel, "mean", HR_F32, storage + 3000, 1, SHAPE(4), NULL), HR_OK);
}

static void test_prepare_names_what_is_missing(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    refuses(hr_kernel_prepare(kernel, NULL), "neither value nor default: scale;");
    assert_int_equal(hr_kernel_bind_scalar(kernel, "scale", 1), HR_OK);
    refuses(hr_kernel_prepare(kernel, NULL), "not bound: x, weight, y, mean;");
    bind_all(kernel);
    assert_int_equal(bind_at(kernel, "mean", HR_F32, storage + 3000, 1, SHAPE(5), NULL), HR_OK);
    refuses(hr_kernel_prepare(kernel, NULL), "mean");
    assert_non_null(strstr(hr_last_error(), "5"));
    assert_non_null(strstr(hr_last_error(), "4"));
    assert_int_equal(bind_at(kernel, "mean", HR_F32, storage + 3000, 1, SHAPE(4), NULL), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "N", 9), HR_OK);
    refuses(hr_kernel_prepare(kernel, NULL), "9");
    refuses(hr_kernel_prepare(kernel, &(hr_prepare_options){.size = 0}), "does not say its size");
    hr_kernel_destroy(kernel);
}

static void overlap(const char *name, hr_dtype dtype, void *data, int rank, const int64_t *shape,
                    const int64_t *strides, const char *part) {
    hr_kernel *kernel = load(norm_text);
    bind_all(kernel);
    assert_int_equal(bind_at(kernel, name, dtype, data, rank, shape, strides), HR_OK);
    if (part)
        refuses(hr_overlap_check(kernel), part);
    else
        assert_int_equal(hr_overlap_check(kernel), HR_OK);
    hr_kernel_destroy(kernel);
}

static void test_overlaps(void **state) {
    (void)state;
    overlap("y", HR_BF16, storage, 2, SHAPE(4, 8), NULL, "`y` and `x` share memory");
    overlap("y", HR_BF16, storage + 62, 2, SHAPE(4, 8), NULL, "`y` and `x` share memory");
    overlap("y", HR_BF16, storage + 64, 2, SHAPE(4, 8), NULL, NULL); /* right behind */
    overlap("mean", HR_F32, storage + 1014, 1, SHAPE(4), NULL, "`mean` and `weight`");
    overlap("mean", HR_F32, storage + 2040, 1, SHAPE(4), NULL, "`y` and `mean`");
    overlap("weight", HR_BF16, storage, 1, SHAPE(8), NULL, NULL); /* both are only read */
    overlap("y", HR_BF16, storage + 2000, 2, SHAPE(4, 8), SHAPE(4, 1),
            "several of its elements in one place");
    overlap("y", HR_BF16, storage + 2000, 2, SHAPE(4, 8), SHAPE(0, 1), "several of its elements");
    overlap("y", HR_BF16, storage + 2000, 2, SHAPE(4, 8), SHAPE(1, 4), NULL); /* transposed */
    overlap("y", HR_BF16, storage + 2400, 2, SHAPE(4, 8), SHAPE(-8, 1), NULL);
    overlap("y", HR_BF16, storage + 1000 + 48, 2, SHAPE(4, 8), SHAPE(-8, 1), "`y` and `weight`");
    overlap("y", HR_BF16, storage + 2000, 2, SHAPE(0, 8), SHAPE(0, 0), NULL); /* nothing is written */
}

static void test_interleaved_views_do_not_overlap(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text); /* x and y: columns 0..7 and 8..15 of one array of 16 columns */
    bind_all(kernel);
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(4, 8), SHAPE(16, 1)), HR_OK);
    assert_int_equal(bind_at(kernel, "y", HR_BF16, storage + 16, 2, SHAPE(4, 8), SHAPE(16, 1)), HR_OK);
    assert_int_equal(hr_overlap_check(kernel), HR_OK);
    assert_int_equal(bind_at(kernel, "y", HR_BF16, storage + 14, 2, SHAPE(4, 8), SHAPE(16, 1)), HR_OK);
    refuses(hr_overlap_check(kernel), "`y` and `x` share memory");
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(4, 8), SHAPE(64, 2)),
                     HR_OK); /* even, odd */
    assert_int_equal(bind_at(kernel, "y", HR_BF16, storage + 2, 2, SHAPE(4, 8), SHAPE(64, 2)), HR_OK);
    assert_int_equal(hr_overlap_check(kernel), HR_OK);
    assert_int_equal(bind_at(kernel, "y", HR_BF16, storage + 1, 2, SHAPE(4, 8), SHAPE(64, 2)), HR_OK);
    refuses(hr_overlap_check(kernel), "share memory"); /* half an element */
    hr_kernel_destroy(kernel);
}

static void test_bindings_are_described(void **state) {
    (void)state;
    hr_kernel *kernel = load(norm_text);
    hr_array array = {0};
    int64_t shape[] = {4, 8}, strides[] = {8, 1};
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, shape, strides), HR_OK);
    shape[0] = 99; /* the description was copied */
    assert_int_equal(hr_kernel_array(kernel, "x", &array), HR_OK);
    assert_ptr_equal(array.data, storage);
    assert_int_equal(array.shape[0], 4);
    assert_null(array.strides); /* dense */
    strides[0] = 16;
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(4, 8), strides), HR_OK);
    assert_int_equal(hr_kernel_array(kernel, "x", &array), HR_OK);
    assert_int_equal(array.strides[0], 16);
    assert_int_equal(bind_at(kernel, "x", HR_BF16, storage, 2, SHAPE(1, 8), SHAPE(-77, 1)), HR_OK);
    assert_int_equal(hr_kernel_array(kernel, "x", &array), HR_OK);
    assert_null(array.strides); /* one row: its stride says nothing */
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_load_refuses),
        cmocka_unit_test(test_extents_follow_from_arrays),
        cmocka_unit_test(test_extents_are_solved),
        cmocka_unit_test(test_wrong_arrays),
        cmocka_unit_test(test_prepare_names_what_is_missing),
        cmocka_unit_test(test_whole_scalars_stay_what_they_are),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_interleaved_views_do_not_overlap),
        cmocka_unit_test(test_bindings_are_described),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || allocated;
}
