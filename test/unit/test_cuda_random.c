/* Random programs of the language on the emulated CUDA device: what is emitted means what is interpreted, and
 * touches nothing else. HR_SEEDS=first,last widens the range. */
#include "support/random_program.h"

#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_test.h"

enum { EXTENTS_MAX = 16 };

static void set_extents(const hr_function *function, const hr_random_extent *given, int64_t *extents) {
    for (int e = 0; e < function->extent_count; e++)
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            if (strcmp(function->extents[e], given[i].name) == 0) extents[e] = given[i].value;
}

/* Every third program gets a choice that the tuner may make. */
static void choose(cuda_case *one, uint64_t seed) {
    hr_choice choices[64];
    hr_plan *plan;
    if (seed % 3 != 1) return;
    assert_int_equal(
        hr_schedule_create(one->function, one->extents, NULL, &one->limits, &one->options, &plan), HR_OK);
    int count = hr_schedule_candidates(plan, choices, 64);
    one->options.choice = choices[seed / 3 % (uint64_t)count];
    hr_plan_destroy(plan);
}

/* Whether it agrees; prints what a person needs to see otherwise. */
static bool agrees(uint64_t seed) {
    hr_text text = {0};
    hr_random_extent given[HR_RANDOM_EXTENTS];
    hr_program *program;
    cuda_outcome outcome;
    int64_t extents[EXTENTS_MAX] = {0};
    cuda_case one = {.extents = extents,
                     .limits = cuda_case_limits(seed % 4 ? 90 : 80, seed % 3 ? 0 : 3),
                     .options = {.unfused = seed % 5 == 4},
                     .offset = (int)(seed % 2),
                     .seed = seed,
                     .points = 200};
    assert_int_equal(hr_random_program(seed, &text, given), HR_OK);
    assert_int_equal(hr_program_parse("random.hr", text.data, text.length, &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
    assert_true(one.function->extent_count <= EXTENTS_MAX);
    set_extents(one.function, given, extents);
    choose(&one, seed);
    hr_status status = run_or_skip(&one, &outcome);
    if (status != HR_OK) {
        print_error("seed %llu: %s, at", (unsigned long long)seed, hr_last_error());
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            print_error(" %s=%lld", given[i].name, (long long)given[i].value);
        print_error("\n%s\n", hr_text_data(&text));
    }
    hr_program_destroy(program);
    hr_text_clear(&text);
    return status == HR_OK;
}

static void test_random(void **state) {
    (void)state;
    unsigned long first = 0, last = 24;
    int wrong = 0;
    const char *range = getenv("HR_SEEDS");
    if (range) sscanf(range, "%lu,%lu", &first, &last);
    for (unsigned long seed = first; seed < last; seed++)
        wrong += !agrees(seed);
    assert_int_equal(wrong, 0);
}

/* Values of a task that replace what the whole row read, a result read in the stage that makes it, rows of
 * two indices at odd places, sums in f64: each was wrong once. */
static void test_once_wrong(void **state) {
    (void)state;
    static const uint64_t seeds[] = {38, 66, 109, 120};
    int wrong = 0;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        wrong += !agrees(seeds[i]);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_once_wrong)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
