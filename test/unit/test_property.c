/* Random programs of the language: what is compiled means what is interpreted. HR_SEEDS=first,last widens the
 * range. */
#include "headroom.h"
#include "support/random_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hr_device *device;

static hr_status bind_extents(hr_kernel *kernel, const hr_random_extent *extents) {
    hr_status status = HR_OK;
    for (int e = 0; e < hr_kernel_extent_count(kernel) && status == HR_OK; e++) {
        const char *name;
        int64_t value;
        hr_kernel_extent(kernel, e, &name, &value); /* its value is not known yet, its name is */
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            if (strcmp(name, extents[i].name) == 0)
                status = hr_kernel_bind_extent(kernel, name, extents[i].value);
    }
    return status;
}

/* Whether the compiled kernel agrees with its meaning; prints what a person needs to see otherwise. */
static bool agrees(uint64_t seed, bool unfused) {
    hr_text text = {0};
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    hr_kernel *kernel = NULL;
    hr_check check = {0};
    hr_prepare_options options = {.size = sizeof options, .unfused = unfused};
    hr_status status = hr_random_program(seed, &text, extents);
    if (status == HR_OK) status = hr_kernel_load(device, "random.hr", text.data, text.length, NULL, &kernel);
    if (status == HR_OK) status = bind_extents(kernel, extents);
    if (status == HR_OK) status = hr_kernel_fill(kernel, seed);
    if (status == HR_OK) status = hr_kernel_prepare(kernel, &options);
    if (status == HR_OK) status = hr_kernel_check(kernel, 300, &check);
    bool good = status == HR_OK && check.ok;
    if (!good) {
        print_error("seed %llu%s: %s%s, error %g, tolerance %g, at", (unsigned long long)seed,
                    unfused ? " unfused" : "", status == HR_OK ? "" : hr_last_error(), check.where,
                    check.max_error, check.tolerance);
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            print_error(" %s=%lld", extents[i].name, (long long)extents[i].value);
        print_error("\n%s\n", hr_text_data(&text));
    }
    hr_kernel_destroy(kernel);
    hr_text_clear(&text);
    return good;
}

static void check_seeds(unsigned long first, unsigned long last, bool unfused) {
    int wrong = 0;
    for (unsigned long seed = first; seed < last; seed++)
        wrong += !agrees(seed, unfused);
    assert_int_equal(wrong, 0);
}

static void test_fused(void **state) {
    unsigned long first = 0, last = 60;
    const char *range = getenv("HR_SEEDS");
    if (range) sscanf(range, "%lu,%lu", &first, &last);
    (void)state;
    check_seeds(first, last, false);
}

static void test_a_pass_a_statement(void **state) {
    (void)state;
    check_seeds(1000, 1020, true);
}

static int open_device(void **state) {
    (void)state;
    return hr_device_open("cpu", &device) == HR_OK ? 0 : -1;
}

static int close_device(void **state) {
    (void)state;
    hr_device_destroy(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fused),
                                       cmocka_unit_test(test_a_pass_a_statement)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
