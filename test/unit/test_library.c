/* Every kernel of kernels/ at odd and even sizes: the compiled code against the text's meaning in f64. */
#include "support/cpu_device.h"
#include "support/kernel_library.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sizes by the position of an extent among its kernel's: odd, even, vectors with and without a tail, one,
 * none. */
static const int64_t sizes[][4] = {{37, 131, 3, 5},  {64, 256, 2, 32}, {1, 1, 1, 1},
                                   {3, 2050, 2, 17}, {0, 7, 2, 3},     {5, 0, 1, 2}};

/* The same processor, through a compiler that does not optimise. */
static hr_device *quick;

/* What users' compilers make of loops shows where they have several turns: the others are compiled quickly.
 */
static hr_device *device_for(const int64_t *size, bool unfused) {
    return unfused || size[0] <= 1 || size[1] == 0 ? quick : device;
}

static void check_case(const char *path, const char *text, size_t length, const char *name, hr_dtype dtype,
                       const int64_t *size, bool unfused) {
    hr_kernel *kernel;
    hr_check check = {0};
    hr_prepare_options options = {.size = sizeof options, .unfused = unfused};
    hr_status status = hr_kernel_load(device_for(size, unfused), path, text, length, name, &kernel);
    if (status == HR_OK) status = kernel_bind_dtypes(kernel, dtype);
    if (status != HR_OK) fail_msg("%s", hr_last_error());
    assert_int_equal(kernel_bind_sizes(kernel, size), HR_OK);
    status = hr_kernel_fill(kernel, 7);
    if (status == HR_OK) status = hr_kernel_prepare(kernel, &options);
    if (status == HR_OK) status = hr_kernel_check(kernel, 600, &check);
    /* indices into an axis of no elements cannot be filled: that, and only that, is refused with a sentence
     */
    bool empty = size[0] == 0 || size[1] == 0;
    if (status != HR_OK && !empty) fail_msg("%s: %s", name, hr_last_error());
    if (status == HR_OK && !check.ok)
        fail_msg("%s in %s at %lld, %lld%s: error %g, tolerance %g: %s", name, hr_dtype_name(dtype),
                 (long long)size[0], (long long)size[1], unfused ? ", unfused" : "", check.max_error,
                 check.tolerance, check.where);
    hr_kernel_destroy(kernel);
}

typedef struct pass {
    bool unfused;
    int cases;
} pass;

static void text_check(void *context, const char *path, const char *text, size_t length, const char *name) {
    pass *p = context;
    for (size_t s = 0; s < (p->unfused ? 1 : sizeof sizes / sizeof *sizes); s++)
        for (int narrow = 0; narrow < 2; narrow++, p->cases++)
            if (p->unfused ? sample_takes((size_t)(p->cases + p->cases / 2), 11) /* one dtype of each */
                           : sample_takes(2 * s + (size_t)narrow + (size_t)p->cases / 8, 23))
                check_case(path, text, length, name, narrow ? HR_BF16 : HR_F32, sizes[s], p->unfused);
}

static void for_each_kernel(bool unfused) {
    pass pass = {.unfused = unfused};
    assert_int_equal(kernel_texts_each(text_check, &pass), HR_OK);
    assert_true(pass.cases > 40);
}

static void test_library_at_many_sizes(void **state) {
    (void)state;
    for_each_kernel(false);
}

static void test_library_a_pass_a_statement(void **state) {
    (void)state;
    for_each_kernel(true);
}

static int open_both(void **state) {
    if (open_device(state) != 0) return -1;
    setenv("HEADROOM_CC", HR_SOURCE_DIR "/test/support/cc_quick", 1);
    const hr_status status = hr_device_open("cpu", &quick);
    unsetenv("HEADROOM_CC");
    if (status == HR_OK) quick->limits = device->limits;
    return status == HR_OK ? 0 : -1;
}

static int close_both(void **state) {
    hr_device_destroy(quick);
    return close_device(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_at_many_sizes),
                                       cmocka_unit_test(test_library_a_pass_a_statement)};
    return cmocka_run_group_tests(tests, open_both, close_both);
}
