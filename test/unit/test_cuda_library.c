/* Every kernel of kernels/ as it is emitted for CUDA, on the emulated device: its meaning, and every access
 * that it makes, at odd and even sizes, in unaligned and strided arrays, with non-finite values.
 *
 * HR_TEST_LONG=1 adds sizes, every choice that the tuner may make, and other orders of threads.
 * HR_ONLY=softmax keeps to one kernel; HR_VERBOSE=1 prints a line a case. */
#include "emit/emit.h"
#include "schedule/target.h"
#include "support/kernel_library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_test.h"
#include "support/sample.h"

enum { CANDIDATES_MAX = 64 };

/* Extents by how many the kernel has: one, two (rows and columns), three, or more. */
static const struct library_case {
    int64_t one[1], two[2], three[3], more[6];
    int compute, processors;
    int offset;
    bool strided, nonfinite, unfused, slow;
    uint64_t seed;
} cases[] = {
    {{4847}, {37, 131}, {37, 131, 35}, {1, 2, 37, 6, 33, 17}, 90, 3, 0, false, false, false, false, 1},
    {{2050}, {3, 2050}, {3, 50, 70}, {2, 1, 3, 32, 130, 16}, 90, 132, 1, false, false, false, false, 2},
    {{65537}, {2, 65537}, {2, 65, 3}, {1, 1, 65, 4, 2, 3}, 90, 2, 3, false, true, false, false, 3},
    {{1023}, {5, 1023}, {33, 5, 31}, {1, 2, 5, 8, 3, 4}, 90, 2, 0, true, false, false, false, 4},
    {{1}, {1, 1}, {1, 1, 1}, {1, 1, 1, 2, 1, 1}, 90, 132, 0, false, false, false, false, 0},
    {{0}, {0, 7}, {0, 7, 2}, {0, 7, 2, 4, 1, 1}, 90, 132, 0, false, false, false, false, 0},
    {{31}, {5, 0}, {5, 0, 3}, {1, 2, 3, 0, 2, 2}, 90, 132, 0, false, false, false, false, 0},
    {{16384}, {64, 256}, {64, 64, 32}, {1, 2, 16, 16, 16, 16}, 80, 132, 0, false, false, false, false, 5},
    {{4847}, {37, 131}, {37, 131, 35}, {1, 2, 37, 6, 33, 17}, 90, 3, 0, false, false, true, false, 6},
    {{33825}, {33, 1025}, {65, 66, 67}, {2, 2, 7, 2, 9, 5}, 90, 4, 2, false, true, false, true, 7},
    {{1056}, {31, 33}, {17, 1, 129}, {1, 1, 31, 2, 33, 32}, 80, 132, 1, true, false, false, true, 8},
    {{65537}, {1, 65537}, {1, 65537, 1}, {1, 1, 1, 128, 300, 2}, 80, 8, 0, false, false, true, true, 9},
    {{44800}, {700, 64}, {130, 7, 260}, {3, 1, 64, 64, 64, 64}, 90, 2, 0, false, false, false, true, 10},
    {{131072}, {3, 40000}, {3, 4000, 2}, {1, 1, 40, 2, 700, 3}, 100, 2, 5, false, false, false, true, 11},
};

/* Rows that exceed the blocks of two processors several times: what is kept or asked for from row to row. */
static const struct library_case many_rows = {.one = {9600},
                                              .two = {61, 2048},
                                              .three = {61, 12, 64},
                                              .more = {1, 2, 61, 16, 33, 16},
                                              .compute = 90,
                                              .processors = 2,
                                              .seed = 12};

/* Seven: two axes of windows, in turns. */
static const int64_t windows[][7] = {
    {2, 3, 5, 3, 33, 2, 4}, {1, 1, 1, 1, 1, 1, 1}, {3, 5, 17, 2, 19, 3, 33}, {0, 3, 5, 3, 7, 2, 4}};

static const int64_t *extents_of(const struct library_case *one, int count) {
    if (count == 7) return windows[one->seed % (sizeof windows / sizeof *windows)];
    return count == 1 ? one->one : count == 2 ? one->two : count == 3 ? one->three : one->more;
}

static int failures, runs;

/* There is no subscript within an axis of no elements, and no 70 largest of 50: that is refused or reported,
 * and only that. */
static bool may_be_refused(const hr_function *function, const int64_t *extents) {
    bool empty = strcmp(function->name, "topk") == 0 && extents[2] > extents[1];
    for (int e = 0; e < function->extent_count; e++)
        empty |= extents[e] == 0;
    return empty;
}

static void run_case(const hr_function *function, const struct library_case *one, const hr_choice *choice,
                     int number) {
    const int64_t *extents = extents_of(one, function->extent_count);
    cuda_outcome outcome;
    cuda_case run = {.function = function,
                     .extents = extents,
                     .limits = cuda_case_limits(one->compute, one->processors),
                     .options = {.unfused = one->unfused},
                     .offset = one->offset,
                     .strided = one->strided,
                     .nonfinite = one->nonfinite,
                     .seed = one->seed + (unsigned)number,
                     .points = 200};
    if (choice) run.options.choice = *choice;
    hr_status status = run_or_skip(&run, &outcome);
    runs++;
    bool refused = status == HR_BAD_INPUT || status == HR_OUT_OF_RANGE;
    /* windows of 64 by 64 over as many places are more than the emulated device holds */
    bool large = status == HR_OUT_OF_MEMORY && function->extent_count > 5 && one->slow;
    bool good = status == HR_OK || large || (refused && may_be_refused(function, extents));
    failures += !good;
    if (!good || getenv("HR_VERBOSE"))
        print_message("%-28s case %2d, choice %2d, %5lld %6lld  %.2f + %.2f s  %5lld points  reads %.2f "
                      "writes %.2f  %s\n",
                      function->title, one == &many_rows ? -1 : (int)(one - cases), number,
                      (long long)extents[0], (long long)(function->extent_count > 1 ? extents[1] : 0),
                      outcome.seconds_compile, outcome.seconds_run, (long long)outcome.points, outcome.read,
                      outcome.written, status == HR_OK ? "" : hr_last_error());
}

static void run_function(const hr_function *function, int number) {
    const size_t count = sizeof cases / sizeof *cases;
    for (size_t c = 0; c < count; c++)
        if ((getenv("HR_TEST_LONG") || !cases[c].slow) && sample_takes((size_t)number * count + c, 17))
            run_case(function, &cases[c], NULL, 0);
}

static void test_library(void **state) {
    (void)state;
    kernel_library library;
    const char *only = getenv("HR_ONLY");
    int number = 0;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++) {
            const hr_function *function = &library.files[f].program->functions[k];
            if (!only || strstr(function->title, only)) run_function(function, number++);
        }
    kernel_library_close(&library);
    if (failures) fail_msg("%d of %d cases are wrong", failures, runs);
    assert_true(only || sample_is_shared() || runs > number / 3);
}

/* What the tuner may choose instead of the default. */
static void run_candidates(const hr_function *function, const struct library_case *one) {
    const int64_t *extents = extents_of(one, function->extent_count);
    hr_choice choices[CANDIDATES_MAX];
    hr_device_limits limits = cuda_case_limits(one->compute, one->processors);
    hr_plan *plan;
    assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
    int count = hr_schedule_candidates(plan, choices, CANDIDATES_MAX);
    hr_plan_destroy(plan);
    for (int i = 0; i < count; i++)
        if (sample_takes((size_t)i, 29)) run_case(function, one, &choices[i], i);
}

static void test_candidates(void **state) {
    (void)state;
    static const char *const few[] = {"layernorm T=bf16",       "softmax T=bf16",   "bias_gelu T=bf16",
                                      "rmsnorm_backward T=f32", "attention T=bf16", NULL};
    kernel_library library;
    const char *only = getenv("HR_ONLY");
    bool slow = getenv("HR_TEST_LONG") != NULL;
    failures = runs = 0;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++) {
            const hr_function *function = &library.files[f].program->functions[k];
            bool wanted = slow;
            for (int i = 0; few[i]; i++)
                wanted |= strcmp(few[i], function->title) == 0;
            if (!wanted || (only && !strstr(function->title, only))) continue;
            run_candidates(function, &many_rows);
            if (slow) run_candidates(function, &cases[1]);
            if (slow) run_candidates(function, &cases[2]);
        }
    kernel_library_close(&library);
    if (failures) fail_msg("%d of %d choices are wrong", failures, runs);
}

/* Subscripts beyond their axis are reported with their value and touch nothing. */
static void test_wild_subscripts(void **state) {
    (void)state;
    static const char *const kernels[] = {"embedding F=bf16", "embedding_backward F=f32",
                                          "cross_entropy F=bf16"};
    static const int64_t extents[] = {37, 131, 35};
    kernel_library library;
    cuda_outcome outcome;
    int found = 0;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++)
            for (int i = 0; i < 3; i++) {
                const hr_function *function = &library.files[f].program->functions[k];
                if (strcmp(kernels[i], function->title) != 0) continue;
                cuda_case run = {.function = function,
                                 .extents = extents,
                                 .limits = cuda_case_limits(90, 0),
                                 .wild = true,
                                 .seed = 3};
                hr_status status = cuda_case_run(device, &run, &outcome);
                if (status != HR_OUT_OF_RANGE) fail_msg("%s: %s", kernels[i], hr_last_error());
                if (!strstr(hr_last_error(), "1073741824") && !strstr(hr_last_error(), "with -1"))
                    fail_msg("%s: %s", kernels[i], hr_last_error());
                found++;
            }
    kernel_library_close(&library);
    assert_int_equal(found, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library), cmocka_unit_test(test_candidates),
                                       cmocka_unit_test(test_wild_subscripts)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
