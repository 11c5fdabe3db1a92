/* The tolerance model: honest arithmetic passes, wrong results do not. */
#include "run/check.h"

#include "base/dtype.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An error of one part in a million. */
static hr_meaning meaning_of(double value) {
    return (hr_meaning){.value = value, .error = isfinite(value) ? 1e-6 * fabs(value) : 0};
}

static double error_of(hr_dtype type, hr_dtype dtype, double got, double value) {
    const hr_meaning meaning = meaning_of(value);
    return hr_check_excess(type, dtype, got, &meaning);
}

static bool passes(hr_dtype dtype, double got, double value) {
    const hr_meaning meaning = meaning_of(value);
    return hr_check_ratio(HR_F32, dtype, got, &meaning) <= 1;
}

static void test_correct_rounding_is_no_error(void **state) {
    (void)state;
    static const double values[] = {1, -1.00390625, 3.14159265358979, 1e-3, 65504, 0, 1e-40, 123456.789};
    static const hr_dtype dtypes[] = {HR_F64, HR_F32, HR_BF16, HR_F16, HR_F8E4M3, HR_F8E5M2,
                                      HR_I32, HR_I16, HR_I8,   HR_U8,  HR_BOOL};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            double got = hr_dtype_round(dtypes[d], values[v]);
            assert_true(error_of(HR_F32, dtypes[d], got, values[v]) == 0);
        }
}

static void test_a_flipped_rounding_passes_only_near_the_middle(void **state) {
    (void)state;
    double middle = 1 + 0x1p-8; /* between the bf16 neighbours 1 and 1 + 2^-7 */
    assert_true(passes(HR_BF16, 1, middle * (1 + 4e-8)));
    assert_true(passes(HR_BF16, 1 + 0x1p-7, middle * (1 - 4e-8)));
    assert_false(passes(HR_BF16, 1, middle * (1 + 1e-4)));
    assert_false(passes(HR_BF16, 1 + 0x1p-7, 1)); /* one step off */
    assert_false(passes(HR_BF16, 1 - 0x1p-8, 1));
    assert_false(passes(HR_F16, 1 + 0x1p-10, 1.0001));
    assert_true(passes(HR_F32, 1 + FLT_EPSILON, 1));
    assert_false(passes(HR_F32, 1 + 40 * (double)FLT_EPSILON, 1));
    assert_false(passes(HR_F32, 0, 1e-6));
    assert_false(passes(HR_F32, -1, 1));
}

static void test_the_error_is_the_meaning_s(void **state) {
    (void)state;
    const hr_meaning sharp = {.value = 1, .error = 0x1p-23}, loose = {.value = 1, .error = 0x1p-10},
                     any = {.value = 1, .error = INFINITY};
    const double got = 1 + 0x1p-12;
    assert_false(hr_check_ratio(HR_F32, HR_F32, got, &sharp) <= 1);
    assert_true(hr_check_ratio(HR_F32, HR_F32, got, &loose) <= 1);
    assert_true(hr_check_ratio(HR_F32, HR_F32, NAN, &any) == 0);
    const hr_meaning exact = {.value = 1}, whole = {.value = 7}, doubt = {.value = 7, .error = INFINITY};
    assert_true(hr_check_ratio(HR_F32, HR_F32, 1, &exact) == 0);
    assert_true(isinf(hr_check_ratio(HR_F32, HR_F32, got, &exact)));
    assert_true(isinf(hr_check_ratio(HR_I32, HR_I32, 8, &whole)));
    assert_true(hr_check_ratio(HR_I32, HR_I32, 8, &doubt) == 0);
}

static void test_not_finite_matches_in_kind(void **state) {
    (void)state;
    assert_true(passes(HR_F32, NAN, NAN));
    assert_false(passes(HR_F32, NAN, 1));
    assert_false(passes(HR_F32, 1, NAN));
    assert_false(passes(HR_F32, NAN, INFINITY));
    assert_true(error_of(HR_F32, HR_F32, INFINITY, INFINITY) == 0);
    assert_true(isinf(error_of(HR_F32, HR_F32, -INFINITY, INFINITY)));
    assert_true(isinf(error_of(HR_F32, HR_F32, 1, INFINITY)));
    assert_true(isinf(error_of(HR_F32, HR_F32, INFINITY, -3)));
    assert_false(passes(HR_F16, INFINITY, 60000));
    assert_true(passes(HR_F16, INFINITY, 65520 * (1 - 1e-8))); /* on the edge of overflow */
    assert_true(passes(HR_F8E4M3, 448, 1e6));                  /* saturates */
    assert_false(passes(HR_F8E4M3, 416, 1e6));
    assert_true(passes(HR_F8E4M3, NAN, NAN));
    assert_true(passes(HR_F32, -0.0, 0.0));
}

static void test_whole_numbers_are_exact(void **state) {
    (void)state;
    assert_true(error_of(HR_I32, HR_I32, 7, 7) == 0);
    assert_true(error_of(HR_I32, HR_I32, 8, 7) >= 1);
    assert_true(error_of(HR_I64, HR_I64, 1e12 + 1, 1e12) >= 1);
    assert_true(error_of(HR_I32, HR_I8, 127, 300) == 0); /* saturates */
    assert_true(error_of(HR_I32, HR_F16, INFINITY, 70000) == 0);
    assert_true(isinf(error_of(HR_I32, HR_F16, INFINITY, 60000)));
    assert_true(isinf(error_of(HR_I32, HR_F16, 60000, 70000)));
    assert_true(isinf(error_of(HR_I32, HR_F32, NAN, 7)));
    assert_true(error_of(HR_BOOL, HR_BOOL, 0, 1) >= 1);
    assert_true(error_of(HR_F32, HR_BOOL, 0, 0.5) >= 1);
    assert_true(passes(HR_I32, 3, 3.99999999)); /* truncation, either side of a whole number */
    assert_true(passes(HR_I32, 4, 3.99999999));
    assert_true(passes(HR_I32, -3, -3.00000001));
    assert_false(passes(HR_I32, 4, 3.9));
    assert_false(passes(HR_I32, -4, -3.5));
    assert_true(passes(HR_I32, 0, -0.9));
    assert_false(passes(HR_I32, 1, 0.9));
}

static void test_points_cover_the_edges(void **state) {
    (void)state;
    const int64_t shape[] = {5, 3, 1000};
    bool seen_first = false, seen_last = false, tails = false;
    bool rows[5] = {false};
    for (int64_t number = 0; number < 64; number++) {
        int64_t at[3], again[3];
        hr_check_point(3, shape, number, 9, at);
        hr_check_point(3, shape, number, 9, again);
        assert_memory_equal(at, again, sizeof at);
        for (int axis = 0; axis < 3; axis++)
            assert_in_range(at[axis], 0, shape[axis] - 1);
        seen_first |= at[0] == 0 && at[1] == 0 && at[2] == 0;
        seen_last |= at[0] == 4 && at[1] == 2 && at[2] == 999;
        tails |= number > 9 && at[2] >= 936;
        rows[at[0]] = true;
    }
    assert_true(seen_first && seen_last && tails);
    for (int r = 0; r < 5; r++)
        assert_true(rows[r]);
    hr_check_point(0, NULL, 5, 1, NULL);
    int64_t one, single = 1;
    for (int64_t number = 0; number < 20; number++) {
        hr_check_point(1, &single, number, 1, &one);
        assert_int_equal(one, 0);
    }
}

static void test_small_tensors_are_seen_whole(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {1, 2}, {3, 1}, {2, 2}, {7, 11}, {16, 32}, {512, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int64_t *shape = shapes[s];
        int64_t elements = shape[0] * shape[1], at[2];
        bool seen[512] = {0};
        for (int64_t number = 0; number < elements; number++) {
            hr_check_element(2, shape, number, at);
            assert_in_range(at[0], 0, shape[0] - 1);
            assert_in_range(at[1], 0, shape[1] - 1);
            assert_false(seen[at[0] * shape[1] + at[1]]);
            seen[at[0] * shape[1] + at[1]] = true;
            if (number == 1) assert_true(at[0] == shape[0] - 1 && at[1] == shape[1] - 1);
        }
    }
    hr_check_element(0, NULL, 0, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_correct_rounding_is_no_error),
        cmocka_unit_test(test_a_flipped_rounding_passes_only_near_the_middle),
        cmocka_unit_test(test_the_error_is_the_meaning_s),
        cmocka_unit_test(test_not_finite_matches_in_kind),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_small_tensors_are_seen_whole),
        cmocka_unit_test(test_points_cover_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
