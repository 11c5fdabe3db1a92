/* How tight the check is: of each kernel of the library, what its elements may be off over what f32
 * arithmetic makes of them, at small and large extents. A limit that is far above what happens lets wrong
 * code pass.
 *
 * A sample of kernels and sizes; with HR_TEST_LONG=1 all of them.
 */
#include "base/dtype.h"
#include "run/check.h"
#include "run/check_sample.h"
#include "run/kernel.h"
#include "support/kernel_library.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

enum {
    POINTS = 160,
    ALIKE = 3,
    KINDS = 4,
    RESULTS_MAX = 16,
    ROUNDS_MOST =
        12,          /* of a result that is one number, so that one that happens to be right does not count */
    ROUNDS_MORE = 6, /* the worst of few elements is not the worst there is */
    ELEMENTS_WANTED = 64,
    SAMPLE = 13,
    TIGHT_WITHIN = 16
};

static hr_device *device;

/* How near a result's elements come to what they may be off, at most: the store's rounding in both. */
typedef struct nearness {
    double most;
    bool any;
} nearness;

/* Half of a unit in the last place of `dtype`. */
static double half_unit(hr_dtype dtype, double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(hr_dtype_rounding(dtype), exponent - 1);
}

/* All floats alike: additions of them are all rounded in the same direction. */
static void fill(hr_kernel *kernel, int kind, int round) {
    const hr_values values = kind < ALIKE ? (hr_values)kind : HR_VALUES_POSITIVE;
    assert_int_equal(hr_kernel_fill_as(kernel, 5 + (uint64_t)round, values), HR_OK);
    for (int i = 0; kind == ALIKE && i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        if (!hr_dtype_is_float(tensor->dtype) || !tensor->rank || tensor->role == HR_ROLE_RESULT) continue;
        const int64_t count = hr_shape_elements(tensor->rank, kernel->bindings[i].shape);
        for (int64_t e = 0; e < count; e++)
            hr_dtype_store(tensor->dtype, kernel->bindings[i].data, (size_t)e, 0.1 + 0.07 * round);
    }
}

/* How often a kernel is filled, by its smallest result. */
static int rounds_of(const hr_kernel *kernel) {
    int64_t least = ELEMENTS_WANTED;
    for (int i = 0; i < kernel->argument_count; i++) {
        const int64_t elements =
            hr_shape_elements(hr_kernel_tensor(kernel, i)->rank, kernel->bindings[i].shape);
        if (hr_kernel_writes(kernel, i) && elements < least) least = elements;
    }
    const int64_t rounds = ELEMENTS_WANTED / least;
    return rounds < ROUNDS_MOST ? (int)rounds : ROUNDS_MOST;
}

/* Elements of a result, before the launch and after it. */
typedef struct points {
    hr_meaning meanings[POINTS];
    int64_t offsets[POINTS];
} points;

static void points_ask(const hr_kernel *kernel, const hr_samples *samples, int i, points *out) {
    const hr_binding *binding = &kernel->bindings[i];
    const int rank = hr_kernel_tensor(kernel, i)->rank;
    for (int p = 0; p < POINTS; p++) {
        int64_t at[HR_RANK_MAX] = {0};
        hr_check_point(rank, binding->shape, p, 3, at);
        assert_int_equal(hr_samples_meaning(samples, i, at, &out->meanings[p]), HR_OK);
        out->offsets[p] = 0;
        for (int axis = 0; axis < rank; axis++)
            out->offsets[p] += at[axis] * binding->strides[axis];
    }
}

static void points_compare(const hr_kernel *kernel, int i, const points *at, nearness *out) {
    for (int p = 0; p < POINTS; p++) {
        const hr_meaning *meaning = &at->meanings[p];
        const double got = hr_dtype_load(HR_F32, kernel->bindings[i].data, (size_t)at->offsets[p]);
        if (!isfinite(meaning->error) || !(meaning->error > 0)) continue;
        const double may = meaning->error + half_unit(HR_F32, meaning->value);
        out->any = true;
        out->most = fmax(out->most, fabs(got - meaning->value) / may);
    }
}

static bool is_looked_at(const hr_kernel *kernel, int i) {
    return hr_kernel_writes(kernel, i) && hr_kernel_tensor(kernel, i)->dtype == HR_F32;
}

static void measure(hr_kernel *kernel, nearness *results) {
    static points at[RESULTS_MAX];
    hr_samples *samples;
    hr_preparing preparing = {.tune = HR_TUNE_NONE, .threads = kernel->threads};
    hr_prepared *prepared;
    assert_true(kernel->argument_count <= RESULTS_MAX);
    assert_int_equal(hr_kernel_ready(kernel, &preparing, &prepared), HR_OK);
    assert_int_equal(hr_samples_create(kernel, prepared, 1, NULL, NULL, &samples), HR_OK);
    for (int i = 0; i < kernel->argument_count; i++)
        if (is_looked_at(kernel, i)) points_ask(kernel, samples, i, &at[i]);
    kernel->current = prepared;
    assert_int_equal(hr_kernel_launch(kernel), HR_OK);
    for (int i = 0; i < kernel->argument_count; i++)
        if (is_looked_at(kernel, i)) points_compare(kernel, i, &at[i], &results[i]);
    hr_samples_destroy(samples);
}

static bool is_loose(const nearness *result) {
    return !(result->most >= 1.0 / TIGHT_WITHIN);
}

static bool any_is_loose(const hr_kernel *kernel, const nearness *results) {
    bool any = false;
    for (int i = 0; i < kernel->argument_count; i++)
        any |= results[i].most > 0 && is_loose(&results[i]);
    return any;
}

static int loose, measured;

/* `number`: of the kernel in the library. */
static void kernel_measure(const char *path, const char *text, size_t length, const char *name,
                           size_t number) {
    static const int64_t sizes[][3][4] = {{{37, 131, 3, 5}, {400, 3000, 2, 17}, {4, 131072, 2, 17}},
                                          {{5, 7, 33, 9}, {96, 64, 130, 3}, {8, 16, 8192, 3}},
                                          {{3, 5, 17, 33}, {2, 6, 130, 64}, {1, 2, 600, 64}}};
    hr_kernel *kernel;
    assert_int_equal(hr_kernel_load(device, path, text, length, name, &kernel), HR_OK);
    const int count = hr_kernel_extent_count(kernel), shape = count <= 2 ? 0 : count == 3 ? 1 : 2;
    for (int size = 0; size < 3; size++) {
        if (!sample_takes(number * 3 + (size_t)size, SAMPLE)) continue;
        nearness results[RESULTS_MAX] = {{0}};
        assert_int_equal(kernel_bind_sizes(kernel, sizes[shape][size]), HR_OK);
        fill(kernel, 0, 0);
        const int rounds = rounds_of(kernel);
        for (int round = 0; round < rounds || (round < rounds + ROUNDS_MORE && any_is_loose(kernel, results));
             round++)
            for (int kind = 0; kind < KINDS; kind++) {
                fill(kernel, kind, round);
                measure(kernel, results);
            }
        for (int i = 0; i < kernel->argument_count; i++) {
            if (!results[i].any || results[i].most == 0) continue; /* a copy of what was rounded: exact */
            measured++;
            loose += is_loose(&results[i]);
            if (is_loose(&results[i]) || getenv("HR_TEST_LONG"))
                print_message("%s at %lld %lld %lld: %s is within %.3g\n", name,
                              (long long)sizes[shape][size][0], (long long)sizes[shape][size][1],
                              (long long)sizes[shape][size][2], hr_kernel_tensor(kernel, i)->name,
                              1 / results[i].most);
            assert_true(results[i].most <= 1);
        }
    }
    hr_kernel_destroy(kernel);
}

static void text_measure(void *context, const char *path, const char *text, size_t length, const char *name) {
    size_t *number = context;
    kernel_measure(path, text, length, name, (*number)++);
}

static void test_kernels_of_the_library(void **state) {
    (void)state;
    size_t number = 0;
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    assert_int_equal(kernel_texts_each(text_measure, &number), HR_OK);
    hr_device_destroy(device);
    assert_true(sample_is_shared() || measured > 10);
    assert_int_equal(loose, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_of_the_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
