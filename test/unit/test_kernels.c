/* The library of kernels: every file parses, every kernel is one for bf16 and f32, a file's name finds its
 * kernel, and default extents fit. What they compute is compared with NumPy by test/cli/reference_numpy.py.
 */
#include "ir/extent.h"
#include "lang/program.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hr_program *open_file(const char *name) {
    static char text[1 << 16];
    char path[1024];
    snprintf(path, sizeof path, "%s/kernels/%s", HR_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    hr_program *program = NULL;
    if (hr_program_parse(path, text, length, &program) != HR_OK) fail_msg("%s", hr_last_error());
    return program;
}

/* In bf16 and f32, as far as its constraints let it. */
static void check_function(const hr_function *function) {
    static const hr_dtype dtypes[] = {HR_BF16, HR_F32};
    assert_true(function->variable_count > 0);
    for (int d = 0; d < 2; d++) {
        hr_dtype chosen[HR_DTYPE_VARIABLE_MAX];
        hr_program *program;
        const hr_function *instance;
        for (int v = 0; v < function->variable_count; v++)
            chosen[v] = hr_dtype_variable_check(function, v, dtypes[d]) == HR_OK ? dtypes[d] : HR_F16;
        if (hr_function_instantiate(function, chosen, &program, &instance) != HR_OK)
            fail_msg("%s", hr_last_error());
        int64_t extents[16];
        for (int i = 0; i < instance->extent_count; ++i)
            extents[i] = HR_EXTENT_UNKNOWN;
        if (hr_extent_default(instance, extents) != HR_OK || hr_extent_check(instance, extents) != HR_OK)
            fail_msg("%s: %s", instance->title, hr_last_error());
        hr_program_destroy(program);
    }
}

static void test_every_kernel(void **state) {
    (void)state;
    DIR *folder = opendir(HR_SOURCE_DIR "/kernels");
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 3, ".hr")) continue;
        hr_program *program = open_file(entry->d_name);
        for (int i = 0; i < program->function_count; ++i, ++count)
            check_function(&program->functions[i]);
        hr_program_destroy(program);
    }
    closedir(folder);
    assert_true(count >= 31);
}

static void test_a_file_finds_its_kernel(void **state) {
    (void)state;
    const hr_function *function = NULL;
    hr_program *program = open_file("bias_gelu.hr");
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    assert_string_equal(function->name, "bias_gelu");
    assert_int_equal(hr_program_find(program, "", &function), HR_OK);
    assert_string_equal(function->name, "bias_gelu");
    assert_int_equal(hr_program_find(program, "bias_gelu_erf", &function), HR_OK);
    assert_string_equal(function->name, "bias_gelu_erf");
    hr_program_destroy(program);
    program = open_file("sum.hr");
    assert_int_equal(hr_program_find(program, NULL, &function), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "row_sum"));
    hr_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel),
        cmocka_unit_test(test_a_file_finds_its_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
