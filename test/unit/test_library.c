/* Every kernel of kernels/ at odd and even sizes: the compiled code against the text's meaning in f64. */
#include "support/cpu_device.h"
#include "support/kernel_library.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

enum { EXTENTS_MAX = 8, KERNELS_MAX = 16 };

/* Sizes by the position of an extent among its kernel's: odd, even, vectors with and without a tail, one,
 * none. */
static const int64_t sizes[][4] = {{37, 131, 3, 5},  {64, 256, 2, 32}, {1, 1, 1, 1},
                                   {3, 2050, 2, 17}, {0, 7, 2, 3},     {5, 0, 1, 2}};

typedef struct kernel_case {
    char path[256], name[64];
} kernel_case;

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = malloc(1 << 16);
    assert_non_null(text);
    *length = fread(text, 1, (1 << 16) - 1, file);
    text[*length] = 0;
    fclose(file);
    return text;
}

/* Names of the kernels of a text; returns how many. */
static int kernel_names(const char *text, char names[][64]) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, "kernel ")); at++)
        if ((at == text || at[-1] == '\n') && count < KERNELS_MAX)
            sscanf(at, "kernel %63[a-z0-9_]", names[count++]);
    return count;
}

static void check_case(const char *path, const char *text, size_t length, const char *name, hr_dtype dtype,
                       const int64_t *size, bool unfused) {
    hr_kernel *kernel;
    hr_check check = {0};
    hr_prepare_options options = {.size = sizeof options, .unfused = unfused};
    hr_status status = hr_kernel_load(device, path, text, length, name, &kernel);
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

static void for_each_kernel(bool unfused) {
    const char *folder = HR_SOURCE_DIR "/kernels";
    DIR *files = opendir(folder);
    int cases = 0;
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));) {
        char path[512], names[KERNELS_MAX][64];
        size_t length;
        if (!strstr(entry->d_name, ".hr")) continue;
        snprintf(path, sizeof path, "%s/%.200s", folder, entry->d_name);
        char *text = read_file(path, &length);
        int count = kernel_names(text, names);
        for (int k = 0; k < count; k++)
            for (size_t s = 0; s < (unfused ? 1 : sizeof sizes / sizeof *sizes); s++)
                for (int narrow = 0; narrow < 2; narrow++, cases++)
                    if (unfused ? sample_takes((size_t)(cases + cases / 2), 2) /* one dtype of each */
                                : sample_takes(2 * s + (size_t)narrow + (size_t)cases / 8, 4))
                        check_case(path, text, length, names[k], narrow ? HR_BF16 : HR_F32, sizes[s],
                                   unfused);
        free(text);
    }
    closedir(files);
    assert_true(cases > 40);
}

static void test_library_at_many_sizes(void **state) {
    (void)state;
    for_each_kernel(false);
}

static void test_library_a_pass_a_statement(void **state) {
    (void)state;
    for_each_kernel(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_library_at_many_sizes),
                                       cmocka_unit_test(test_library_a_pass_a_statement)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
