/* The library of kernels: every file parses, every kernel has an f32 twin, a file's name finds its kernel,
 * and default extents fit. What they compute is compared with NumPy by test/cli/reference_numpy.py. */
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

static void check_function(const hr_program *program, const hr_function *function) {
    const char *name = function->name;
    size_t length = strlen(name);
    if (length < 4 || strcmp(name + length - 4, "_f32")) {
        char twin[128];
        const hr_function *found;
        snprintf(twin, sizeof twin, "%s_f32", name);
        if (hr_program_find(program, twin, &found) != HR_OK) fail_msg("%s", hr_last_error());
    }
    int64_t extents[16];
    for (int i = 0; i < function->extent_count; ++i)
        extents[i] = HR_EXTENT_UNKNOWN;
    if (hr_extent_default(function, extents) != HR_OK || hr_extent_check(function, extents) != HR_OK)
        fail_msg("%s: %s", name, hr_last_error());
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
            check_function(program, &program->functions[i]);
        hr_program_destroy(program);
    }
    closedir(folder);
    assert_true(count >= 54);
}

static void test_a_file_finds_its_kernel(void **state) {
    (void)state;
    const hr_function *function = NULL;
    hr_program *program = open_file("bias_gelu.hr");
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    assert_string_equal(function->name, "bias_gelu");
    assert_int_equal(hr_program_find(program, "", &function), HR_OK);
    assert_string_equal(function->name, "bias_gelu");
    assert_int_equal(hr_program_find(program, "bias_gelu_erf_f32", &function), HR_OK);
    assert_string_equal(function->name, "bias_gelu_erf_f32");
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
