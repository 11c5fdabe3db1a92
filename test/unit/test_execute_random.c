/* Random programs by hr_kernel_execute at extents that change: whatever code serves them, and whichever
 * results are wanted, they are those of a kernel that was made for just these extents. */
#include "base/dtype.h"
#include "run/kernel.h"
#include "support/cpu_device.h"
#include "support/random_program.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS_MOST 64
#define STEPS          6
#define RELATIVE_MOST  1e-4 /* sums in another order */

static uint64_t chance;

static uint64_t next(void) {
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return chance >> 33;
}

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static bool is_array(const hr_kernel *kernel, int i) {
    return !hr_tensor_is_scalar(hr_kernel_tensor(kernel, i));
}

static size_t bytes_of(const hr_array *array) {
    return (size_t)hr_shape_elements(array->rank, array->shape) * hr_dtype_size(array->dtype);
}

/* Another number of as many digits, or the same in the first step. */
static void extents_bind(hr_kernel *kernel, const hr_random_extent *extents, int step) {
    for (int e = 0; e < hr_kernel_extent_count(kernel); e++)
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++) {
            int64_t value = extents[i].value, low = 1;
            if (strcmp(hr_kernel_extent_name(kernel, e), extents[i].name) != 0) continue;
            while (2 * low <= value)
                low *= 2;
            if (step && value) value = low + (int64_t)(next() % (uint64_t)low);
            good(hr_kernel_bind_extent(kernel, extents[i].name, value));
        }
}

static void compare(const char *text, const hr_array *got, const hr_array *right, const char *name) {
    const double within = 4 * hr_dtype_rounding(right->dtype) + RELATIVE_MOST;
    const int64_t count = hr_shape_elements(right->rank, right->shape);
    double size = 1; /* what a tensor's elements are compared with, where they cancel */
    for (int64_t i = 0; i < count; i++) {
        const double value = fabs(hr_dtype_load(right->dtype, right->data, (size_t)i));
        if (isfinite(value)) size = fmax(size, value);
    }
    for (int64_t i = 0; i < count; i++) {
        const double a = hr_dtype_load(got->dtype, got->data, (size_t)i),
                     b = hr_dtype_load(right->dtype, right->data, (size_t)i);
        const bool same = a == b || (isnan(a) && isnan(b));
        if (!same && !(hr_dtype_is_float(right->dtype) && fabs(a - b) <= within * size))
            fail_msg("%s[%lld] is %g, not %g, in\n%s", name, (long long)i, a, b, text);
    }
}

/* The arrays of `from` for another kernel: the same inputs, memory of their own for what is written. */
static void arrays_take(const hr_kernel *from, hr_array *arrays) {
    for (int i = 0; i < from->argument_count; i++) {
        arrays[i] = (hr_array){.size = sizeof arrays[i]};
        if (!is_array(from, i)) continue;
        hr_kernel_array_of(from, i, &arrays[i]);
        if (hr_kernel_tensor(from, i)->role == HR_ROLE_INPUT) continue;
        void *own = malloc(bytes_of(&arrays[i]) + 1);
        assert_non_null(own);
        memcpy(own, arrays[i].data, bytes_of(&arrays[i]));
        arrays[i].data = own;
    }
}

static void arrays_free(const hr_kernel *kernel, hr_array *arrays) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (is_array(kernel, i) && hr_kernel_tensor(kernel, i)->role != HR_ROLE_INPUT) free(arrays[i].data);
}

/* Some results are not wanted; true where the text allowed it, and they were not touched. */
static bool execute(hr_kernel *kernel, const hr_array *arrays, bool *wanted) {
    hr_array some[ARGUMENTS_MOST];
    bool all = true;
    for (int i = 0; i < kernel->argument_count; i++) {
        some[i] = arrays[i];
        wanted[i] = hr_kernel_tensor(kernel, i)->role != HR_ROLE_RESULT || next() % 3;
        if (!wanted[i]) some[i] = (hr_array){.size = sizeof some[i]};
        all = all && wanted[i];
    }
    if (!all && hr_kernel_execute(kernel, some, kernel->argument_count, NULL) == HR_OK) return true;
    if (!all) assert_non_null(strstr(hr_last_error(), "left out"));
    for (int i = 0; i < kernel->argument_count; i++)
        wanted[i] = true;
    good(hr_kernel_execute(kernel, arrays, kernel->argument_count, NULL));
    return false;
}

/* How many calls did without a result. */
static int check_program(uint64_t seed) {
    hr_text text = {0};
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    hr_kernel *called;
    int fewer = 0;
    chance = seed;
    good(hr_random_program(seed, &text, extents));
    good(hr_kernel_load(device, "random.hr", hr_text_data(&text), text.length, NULL, &called));
    for (int step = 0; step < STEPS; step++) {
        hr_kernel *bound;
        hr_array arrays[ARGUMENTS_MOST], right;
        bool wanted[ARGUMENTS_MOST];
        good(hr_kernel_load(device, "random.hr", hr_text_data(&text), text.length, NULL, &bound));
        extents_bind(bound, extents, step);
        for (int e = 0; e < hr_kernel_extent_count(bound); e++) /* those that no array gives */
            called->given[e] = bound->given[e];
        good(hr_kernel_fill(bound, seed + (uint64_t)step));
        arrays_take(bound, arrays);
        fewer += execute(called, arrays, wanted);
        good(hr_kernel_launch(bound));
        for (int i = 0; i < bound->argument_count; i++) {
            const hr_tensor *tensor = hr_kernel_tensor(bound, i);
            if (!is_array(bound, i) || tensor->role == HR_ROLE_INPUT || !wanted[i]) continue;
            hr_kernel_array_of(bound, i, &right);
            compare(hr_text_data(&text), &arrays[i], &right, tensor->name);
        }
        arrays_free(bound, arrays);
        hr_kernel_destroy(bound);
    }
    hr_kernel_destroy(called);
    hr_text_clear(&text);
    return fewer;
}

static void test_random_programs(void **state) {
    (void)state;
    int fewer = 0;
    for (size_t seed = 0; seed < 60; seed++)
        if (sample_takes(seed, 15)) fewer += check_program(9000 + seed);
    assert_true(fewer > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
