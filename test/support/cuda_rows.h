/* Rows of the library's kernels on the emulated CUDA device: how they are held is compared with what is
 * expected, their results with their meaning. For programs of tests, after cmocka.h. */
#ifndef HR_TEST_SUPPORT_CUDA_ROWS_H
#define HR_TEST_SUPPORT_CUDA_ROWS_H

#include "schedule/cuda/cuda_choice.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/kernel_library.h"

typedef struct row_case {
    const char *kernel;
    int64_t rows, columns;
    int compute, processors, offset;
    hr_knobs knobs;
} row_case;

/* What is chosen for the only stage. */
static inline hr_cuda_choice choose_row(const row_case *one, const hr_function *function) {
    const int64_t extents[] = {one->rows, one->columns};
    hr_device_limits limits = cuda_case_limits(one->compute, one->processors);
    hr_schedule_options options = {.choice = hr_choice_of(0, &one->knobs)};
    hr_cuda_choice choice;
    hr_plan *plan;
    assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, &options, &plan), HR_OK);
    assert_int_equal(plan->stage_count, 1);
    assert_int_equal(hr_cuda_choose(plan, &plan->stages[0], extents, &choice), HR_OK);
    hr_plan_destroy(plan);
    return choice;
}

/* `check` fails where `choice` is not what the case `number` expects. Some arrays hold values that are not
 * finite. */
static inline void expect_row(const kernel_library *library, const row_case *one, int number,
                              void (*check)(const hr_cuda_choice *choice, int number)) {
    const hr_function *function = kernel_library_function(library, one->kernel);
    const int64_t extents[] = {one->rows, one->columns};
    assert_non_null(function);
    hr_cuda_choice choice = choose_row(one, function);
    check(&choice, number);
    cuda_case run = {.function = function,
                     .extents = extents,
                     .limits = cuda_case_limits(one->compute, one->processors),
                     .options = {.choice = hr_choice_of(0, &one->knobs)},
                     .offset = one->offset,
                     .nonfinite = number % 4 == 3,
                     .seed = (uint64_t)number,
                     .points = 400};
    expect_right(&run, number);
}

#endif
