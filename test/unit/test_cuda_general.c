/* The general path of pasted CUDA source, on the emulated device: planned at some extents, run at others,
 * right at all that it takes. Random programs, and kernels of the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emit/emit.h"
#include "lang/program.h"
#include "plan/assumption.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/kernel_library.h"
#include "support/random_program.h"
#include "support/sample.h"

enum { EXTENTS_MAX = 16 };

static const int64_t usual[EXTENTS_MAX] = {64, 1000, 7, 5, 16, 32, 8, 4, 3, 2, 1, 1, 1, 1, 1, 1};

/* Whether the code that is made for `planned` takes the extents. */
static bool takes(const cuda_case *one) {
    hr_plan *plan;
    bool good = true;
    if (hr_schedule_create(one->function, one->planned, NULL, &one->limits, &one->options, &plan) != HR_OK)
        fail_msg("%s", hr_last_error());
    for (const hr_assumption *a = plan->graph->assumptions; a; a = a->next)
        good = good && hr_assumption_holds(plan->normal, a, one->extents);
    hr_plan_destroy(plan);
    return good;
}

static int right, refused;

static void check(cuda_case *one, const char *what) {
    cuda_outcome outcome;
    one->options.general = true;
    if (!takes(one)) {
        refused++;
        return;
    }
    if (run_or_skip(one, &outcome) != HR_OK)
        fail_msg("%s of %s: %s", one->function->name, what, hr_last_error());
    right++;
}

static void check_program(uint64_t seed) {
    hr_text text = {0};
    hr_random_extent given[HR_RANDOM_EXTENTS];
    hr_program *program;
    int64_t extents[EXTENTS_MAX] = {0};
    cuda_case one = {.extents = extents,
                     .planned = usual,
                     .limits = cuda_case_limits(90, seed % 2 ? 2 : 132),
                     .offset = (int)(seed % 2),
                     .strided = seed % 5 == 4,
                     .seed = seed,
                     .points = 200};
    assert_int_equal(hr_random_program(seed, &text, given), HR_OK);
    assert_int_equal(hr_program_parse("random.hr", text.data, text.length, &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
    for (int e = 0; e < one.function->extent_count; e++)
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            if (strcmp(one.function->extents[e], given[i].name) == 0) extents[e] = given[i].value;
    check(&one, hr_text_data(&text));
    hr_program_destroy(program);
    hr_text_clear(&text);
}

static void test_random_programs(void **state) {
    (void)state;
    right = refused = 0;
    for (size_t seed = 0; seed < 64; seed++)
        if (sample_takes(seed, 13)) check_program(7000 + seed);
    assert_true(right > refused);
}

static void test_library(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MAX] = {
        {37, 131, 35, 6, 33, 17}, {5, 1023, 31, 4, 3, 4}, {1, 1, 1, 1, 1, 1}, {0, 7, 2, 4, 1, 1}};
    kernel_library library;
    size_t number = 0;
    right = refused = 0;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, number++) {
                cuda_case one = {.function = &library.files[f].program->functions[k],
                                 .extents = sizes[i],
                                 .planned = usual,
                                 .limits = cuda_case_limits(90, 2),
                                 .seed = number,
                                 .points = 100};
                if (one.function->extent_count > 3) continue; /* whose axes are bound to each other */
                if (sample_takes(number, 61)) check(&one, library.files[f].path);
            }
    assert_true(right > refused);
    kernel_library_close(&library);
}

/* The fast path, planned for some rows, at others that it serves: extents that are no numbers in its text. */
static bool check_rows(const char *path, cuda_case *one) {
    cuda_outcome outcome;
    hr_plan *plan;
    assert_int_equal(hr_schedule_create(one->function, one->planned, NULL, &one->limits, NULL, &plan), HR_OK);
    const bool served = hr_emit_serves(plan, one->planned, one->extents);
    hr_plan_destroy(plan);
    if (served && run_or_skip(one, &outcome) != HR_OK)
        fail_msg("%s of %s: %s", one->function->name, path, hr_last_error());
    return served;
}

static void test_other_rows(void **state) {
    (void)state;
    static const int64_t planned[EXTENTS_MAX] = {64, 136, 3},
                         sizes[][EXTENTS_MAX] = {{37, 136, 3}, {1, 136, 3}, {300, 136, 3}, {0, 136, 3}};
    kernel_library library;
    size_t number = 0;
    right = 0;
    assert_int_equal(kernel_library_open(&library), HR_OK);
    for (int f = 0; f < library.count; f++)
        for (int k = 0; k < library.files[f].program->function_count; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++, number++) {
                cuda_case one = {.function = &library.files[f].program->functions[k],
                                 .extents = sizes[i],
                                 .planned = planned,
                                 .limits = cuda_case_limits(90, 2),
                                 .seed = number,
                                 .points = 100};
                if (one.function->extent_count <= 3 && sample_takes(number, 49))
                    right += check_rows(library.files[f].path, &one);
            }
    assert_true(right > 0);
    kernel_library_close(&library);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_programs), cmocka_unit_test(test_library),
                                       cmocka_unit_test(test_other_rows)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
