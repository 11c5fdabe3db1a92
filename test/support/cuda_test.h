/* What tests on the emulated CUDA device share: the device, a case that must be right, and where none can
 * run. For programs of tests, after cmocka.h. */
#ifndef HR_TEST_SUPPORT_CUDA_TEST_H
#define HR_TEST_SUPPORT_CUDA_TEST_H

#include "support/cuda_case.h"
#include "support/lang_text.h"

#include <stdlib.h>

static cuda_emulation *device;

/* cmocka's set-up and tear-down of a group. */
static int open_device(void **state) {
    (void)state;
    return cuda_emulation_create(&device) == HR_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    cuda_emulation_destroy(device);
    return 0;
}

/* Ends the program with 77 where the host has no compiler for it. */
static inline hr_status run_or_skip(const cuda_case *one, cuda_outcome *outcome) {
    hr_status status = cuda_case_run(device, one, outcome);
    if (status != HR_NOT_AVAILABLE) return status;
    print_message("skipped: %s\n", hr_last_error());
    exit(77);
}

/* Fails where it is wrong; HR_VERBOSE=1 prints a line. */
static inline void expect_right(const cuda_case *one, int number) {
    cuda_outcome outcome;
    const char *kernel = one->function->name;
    long long columns = one->extents[1];
    if (run_or_skip(one, &outcome) != HR_OK)
        fail_msg("case %d, %s, %lld columns: %s", number, kernel, columns, hr_last_error());
    if (getenv("HR_VERBOSE"))
        print_message("%-24s %6lld  %.2f + %.2f s\n", kernel, columns, outcome.seconds_compile,
                      outcome.seconds_run);
}

/* What a text computes against the meaning of another one of the same arguments; some elements of the input
 * `spoiled` are not finite. */
static inline hr_status run_against(const char *text, const char *meaning, const int64_t *extents,
                                    const char *spoiled) {
    cuda_case one = {
        .extents = extents, .limits = cuda_case_limits(90, 3), .spoiled = spoiled, .points = 2000};
    cuda_outcome outcome;
    hr_program *program = program_of(text), *other = program_of(meaning);
    one.function = &program->functions[0];
    one.meaning = &other->functions[0];
    const hr_status status = run_or_skip(&one, &outcome);
    hr_program_destroy(program);
    hr_program_destroy(other);
    return status;
}

#endif
