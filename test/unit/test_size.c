/* One tree, a number and a text: what is emitted for a size is compiled by nobody here, so both are held
 * against numbers that were worked out by hand. */
#include "ir/extent.h"
#include "ir/size.h"
#include "lang/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hr_program *program;
static const hr_function *function;
static int64_t extents[2] = {7, 5}; /* N, M */

static int open_program(void **state) {
    (void)state;
    const char *text = "kernel k(x: f32[N, 2 * M], b: bf16[N]) -> (y: f32[N]) {\n"
                       "    y[n] = sum[m](x[n, m]) + b[n]\n}\n";
    assert_int_equal(hr_program_parse("k.hr", text, strlen(text), &program), HR_OK);
    function = &program->functions[0];
    return 0;
}

static int close_program(void **state) {
    (void)state;
    hr_program_destroy(program);
    return 0;
}

static const char *extent_name(void *context, const hr_expr *extent) {
    (void)context;
    return extent->op == HR_OP_EXTENT ? function->extents[extent->extent] : "(2 * M)";
}

static void is(const hr_size *size, const char *text, int64_t value) {
    hr_text printed = {0};
    int64_t got = -1;
    hr_size_append(size, &(hr_size_names){.extent = extent_name}, &printed);
    assert_string_equal(hr_text_data(&printed), text);
    if (hr_size_value(size, function, extents, &got) != HR_OK) fail_msg("%s", hr_last_error());
    assert_int_equal(got, value);
    hr_text_clear(&printed);
}

static void test_arithmetic(void **state) {
    (void)state;
    hr_sizes sizes = {0};
    const hr_size *n = hr_size_extent(&sizes, function->tensors[0].shape[0]),
                  *m = hr_size_extent(&sizes, function->tensors[0].shape[1]),
                  *four = hr_size_number(&sizes, 4);
    is(n, "N", 7);
    is(hr_size_sum(&sizes, hr_size_sum(&sizes, n, m), four), "N + (2 * M) + 4", 21);
    is(hr_size_sum(&sizes, four, hr_size_sum(&sizes, n, m)), "4 + N + (2 * M)", 21);
    is(hr_size_product(&sizes, four, hr_size_sum(&sizes, n, four)), "4 * (N + 4)", 44);
    is(hr_size_product(&sizes, hr_size_sum(&sizes, n, four), four), "(N + 4) * 4", 44);
    is(hr_size_product(&sizes, n, hr_size_product(&sizes, m, four)), "N * (2 * M) * 4", 280);
    const hr_size *rounded = hr_size_rounded(&sizes, hr_size_product(&sizes, four, n), 63, 64);
    is(rounded, "(4 * N + 63) / 64 * 64", 64);
    is(hr_size_product(&sizes, four, rounded), "4 * ((4 * N + 63) / 64 * 64)", 256);
    is(hr_size_sum(&sizes, rounded, four), "(4 * N + 63) / 64 * 64 + 4", 68);
    is(hr_size_product(&sizes, hr_size_brackets(&sizes, n), four), "(N) * 4", 28);
    is(hr_size_least(&sizes, m, n), "((2 * M) < N ? (2 * M) : N)", 7);
}

static void test_tensors(void **state) {
    (void)state;
    hr_sizes sizes = {0};
    is(hr_size_bytes(&sizes, &function->tensors[0], 0), "4 * N * (2 * M)", 280);
    is(hr_size_bytes(&sizes, &function->tensors[0], 1), "4 * (2 * M)", 40);
    is(hr_size_bytes(&sizes, &function->tensors[1], 0), "2 * N", 14);
    is(hr_size_points(&sizes, function, function->statements[0].domain, 1), "N", 7);
    is(hr_size_points(&sizes, function, NULL, 0), "1", 1);
    is(hr_size_elements(&sizes, &function->tensors[1], 0, 1), "1 * N", 7);
    is(hr_size_parts(&sizes, hr_size_bytes(&sizes, &function->tensors[1], 0), 4), "(2 * N + 3) / 4", 4);
}

static int64_t added(const void *context, const int64_t *args) {
    return *(const int64_t *)context + args[0] + 10 * args[1] + 100 * args[2];
}

static void test_calls(void **state) {
    (void)state;
    hr_sizes sizes = {0};
    static const hr_size_function plain = {.name = "added", .value = added},
                                  record = {.name = "added", .value = added, .record = "pair", .fields = 2};
    const int64_t base = 1000;
    const hr_size *n = hr_size_extent(&sizes, function->tensors[0].shape[0]);
    const hr_size *args[] = {hr_size_sum(&sizes, n, n), hr_size_name(&sizes, "&stage_", 3, "_choice", 6),
                             hr_size_word(&sizes, "threads", 4)};
    is(hr_size_call(&sizes, &plain, &base, 3, args), "added(N + N, &stage_3_choice, threads)", 1474);
    is(hr_size_call(&sizes, &record, &base, 3, args),
       "added(&(struct pair){N + N, &stage_3_choice}, threads)", 1474);
}

static void test_what_is_too_large(void **state) {
    (void)state;
    hr_sizes sizes = {0};
    int64_t value, large[2] = {INT64_C(1) << 40, INT64_C(1) << 40};
    const hr_size *n = hr_size_extent(&sizes, function->tensors[0].shape[0]);
    assert_int_equal(hr_size_value(hr_size_product(&sizes, n, n), function, large, &value), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "kernel k"));
    const hr_size *most = hr_size_number(&sizes, INT64_MAX);
    assert_int_equal(hr_size_value(hr_size_sum(&sizes, most, n), function, large, &value), HR_BAD_INPUT);
    value = INT64_MAX;
    assert_int_equal(hr_size_add(n, function, extents, &value), HR_BAD_INPUT);
    large[0] = HR_EXTENT_UNKNOWN;
    assert_int_equal(hr_size_value(n, function, large, &value), HR_BAD_INPUT);
    hr_size_least(&sizes, most, n);
    value = 1;
    assert_int_equal(hr_size_add(hr_size_number(&sizes, 2), function, extents, &value), HR_OK);
    assert_int_equal(value, 3);
}

/* A size of more parts than there is room for is an error, not another size. */
static void test_too_many_parts(void **state) {
    (void)state;
    hr_sizes sizes = {0};
    int64_t value;
    const hr_size *sum = hr_size_number(&sizes, 1);
    for (int i = 0; i < HR_SIZES_MOST; i++)
        sum = hr_size_sum(&sizes, sum, sum);
    assert_int_equal(hr_size_value(sum, function, extents, &value), HR_INTERNAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),     cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_calls),          cmocka_unit_test(test_what_is_too_large),
        cmocka_unit_test(test_too_many_parts),
    };
    return cmocka_run_group_tests(tests, open_program, close_program);
}
