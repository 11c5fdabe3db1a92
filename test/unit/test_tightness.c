/* How tight the check is: of each kernel of the library, what its elements may be off over what f32
 * arithmetic makes of them, at small and large extents. A limit that is far above what happens lets wrong
 * code pass.
 *
 * `test_tightness` takes a sample of the kernels, `test_tightness long` all of them.
 */
#include "base/dtype.h"
#include "run/check.h"
#include "run/check_sample.h"
#include "run/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>

enum { POINTS = 160, ALIKE = 3, KINDS = 4, RESULTS_MAX = 16, SAMPLE = 9, MOST = 16 };

static bool is_long;
static hr_device *device;

/* How near a result's elements come to what they may be off, at most: the store's rounding in both. */
typedef struct nearness {
    double most;
    bool any;
} nearness;

/* Half of a unit in the last place of `dtype`. */
static double half_unit(hr_dtype dtype, double x) {
    int exponent;
    frexp(x, &exponent);
    return ldexp(hr_dtype_rounding(dtype), exponent - 1);
}

/* All floats alike: additions of them are all rounded in the same direction. */
static void fill(hr_kernel *kernel, int kind) {
    assert_int_equal(hr_kernel_fill_as(kernel, 5, kind < ALIKE ? (hr_values)kind : HR_VALUES_POSITIVE),
                     HR_OK);
    for (int i = 0; kind == ALIKE && i < kernel->argument_count; i++) {
        const hr_tensor *tensor = hr_kernel_tensor(kernel, i);
        if (!hr_dtype_is_float(tensor->dtype) || !tensor->rank || tensor->role == HR_ROLE_RESULT) continue;
        const int64_t count = hr_shape_elements(tensor->rank, kernel->bindings[i].shape);
        for (int64_t e = 0; e < count; e++)
            hr_dtype_store(tensor->dtype, kernel->bindings[i].data, (size_t)e, 0.1);
    }
}

static void measure(hr_kernel *kernel, nearness *results) {
    static hr_meaning meanings[RESULTS_MAX][POINTS];
    static int64_t offsets[RESULTS_MAX][POINTS];
    hr_samples *samples;
    hr_preparing preparing = {.tune = HR_TUNE_NONE, .threads = kernel->threads};
    hr_prepared *prepared;
    assert_int_equal(hr_kernel_ready(kernel, &preparing, &prepared), HR_OK);
    assert_int_equal(hr_samples_create(kernel, prepared, 1, NULL, NULL, &samples), HR_OK);
    assert_true(kernel->argument_count <= RESULTS_MAX);
    for (int i = 0; i < kernel->argument_count; i++)
        for (int p = 0; p < POINTS && hr_kernel_writes(kernel, i); p++) {
            const hr_binding *binding = &kernel->bindings[i];
            const int rank = hr_kernel_tensor(kernel, i)->rank;
            int64_t at[HR_RANK_MAX] = {0};
            hr_check_point(rank, binding->shape, p, 3, at);
            assert_int_equal(hr_samples_meaning(samples, i, at, &meanings[i][p]), HR_OK);
            offsets[i][p] = 0;
            for (int axis = 0; axis < rank; axis++)
                offsets[i][p] += at[axis] * binding->strides[axis];
        }
    kernel->current = prepared;
    assert_int_equal(hr_kernel_launch(kernel), HR_OK);
    for (int i = 0; i < kernel->argument_count; i++)
        for (int p = 0; p < POINTS && hr_kernel_writes(kernel, i); p++) {
            const hr_dtype dtype = hr_kernel_tensor(kernel, i)->dtype;
            const hr_meaning *meaning = &meanings[i][p];
            const double got = hr_dtype_load(dtype, kernel->bindings[i].data, (size_t)offsets[i][p]);
            if (dtype != HR_F32 || !isfinite(meaning->error) || !(meaning->error > 0)) continue;
            results[i].any = true;
            results[i].most = fmax(results[i].most, fabs(got - meaning->value) /
                                                        (meaning->error + half_unit(dtype, meaning->value)));
        }
    hr_samples_destroy(samples);
}

static void kernel_measure(const char *path, const char *text, size_t length, const char *name) {
    static const int64_t sizes[][3][4] = {{{37, 131, 3, 5}, {400, 3000, 2, 17}, {4, 131072, 2, 17}},
                                          {{5, 7, 33, 9}, {96, 64, 130, 3}, {8, 16, 8192, 3}},
                                          {{3, 5, 17, 33}, {2, 6, 130, 64}, {1, 2, 2000, 64}}};
    hr_kernel *kernel;
    assert_int_equal(hr_kernel_load(device, path, text, length, name, &kernel), HR_OK);
    const int count = hr_kernel_extent_count(kernel), shape = count <= 2 ? 0 : count == 3 ? 1 : 2;
    for (int size = 0; size < 3; size++) {
        nearness results[RESULTS_MAX] = {{0}};
        for (int e = 0; e < count; e++)
            hr_kernel_bind_extent(kernel, hr_kernel_extent_name(kernel, e),
                                  sizes[shape][size][e < 4 ? e : 3]);
        for (int i = 0; i < hr_kernel_argument_count(kernel); i++) {
            hr_argument argument;
            hr_kernel_argument(kernel, i, &argument);
            if (argument.rank == 0 && argument.role == HR_ARGUMENT_INPUT && !argument.has_default)
                hr_kernel_bind_scalar(kernel, argument.name, 0.5);
        }
        for (int kind = 0; kind < KINDS; kind++) {
            fill(kernel, kind);
            measure(kernel, results);
        }
        for (int i = 0; i < kernel->argument_count; i++)
            if (results[i].any)
                print_message("%-36s size %d %-10s %.1f\n", name, size, hr_kernel_tensor(kernel, i)->name,
                              1 / results[i].most);
    }
    hr_kernel_destroy(kernel);
}

static void file_measure(const char *path) {
    static int number;
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    fclose(file);
    for (const char *at = text; (at = strstr(at, "kernel ")); at++) {
        char name[64];
        if ((at != text && at[-1] != '\n') || sscanf(at, "kernel %63[a-z0-9_]", name) != 1) continue;
        if (is_long || number++ % SAMPLE == 0) kernel_measure(path, text, length, name);
    }
}

static void test_kernels_of_the_library(void **state) {
    (void)state;
    struct dirent **names;
    const int count = scandir(HR_SOURCE_DIR "/kernels", &names, NULL, alphasort);
    assert_true(count > 0);
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    for (int i = 0; i < count; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/kernels/%.200s", HR_SOURCE_DIR, names[i]->d_name);
        if (strstr(names[i]->d_name, ".hr")) file_measure(path);
        free(names[i]);
    }
    free(names);
    hr_device_destroy(device);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_of_the_library)};
    is_long = count > 1 && strcmp(arguments[1], "long") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
