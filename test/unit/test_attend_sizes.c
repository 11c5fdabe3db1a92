/* Attention of the library at lengths and head dimensions around whatever blocks, vectors and tiles are made
 * of, forward, backward and for decoding: against the text's meaning in f64.
 *
 * HR_TEST_LONG=1: all of them, and 131072 keys, of which a sixteenth otherwise.
 */
#include "device/device.h"
#include "support/cpu_device.h"
#include "support/kernel_library.h"
#include "support/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_arrays.h" /* behind cmocka.h, which it uses */

enum { TEXT_MAX = 4096, POINTS = 64, LONG_POINTS = 3, LONG_KEYS = 131072 };

static const int64_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4097},
                     depths[] = {32, 40, 64, 80, 96, 112, 128, 192, 256};
enum { LENGTHS = sizeof lengths / sizeof *lengths, DEPTHS = sizeof depths / sizeof *depths };

typedef struct bound_extent {
    const char *name;
    int64_t value;
} bound_extent;

static char *library_text(const char *name, size_t *length) {
    char path[512], *text = malloc(TEXT_MAX);
    assert_non_null(text);
    snprintf(path, sizeof path, "%s/kernels/%s.hr", HR_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *length = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    return text;
}

/* `kernel` of the library's file; arrays are filled. */
static hr_kernel *load(const char *file, const char *name, hr_dtype dtype, const bound_extent *extents,
                       int count) {
    size_t length;
    hr_kernel *kernel;
    char *text = library_text(file, &length);
    good(hr_kernel_load(device, file, text, length, name, &kernel));
    free(text);
    good(kernel_bind_dtypes(kernel, dtype));
    for (int i = 0; i < count; i++)
        good(hr_kernel_bind_extent(kernel, extents[i].name, extents[i].value));
    good(hr_kernel_fill(kernel, 11));
    return kernel;
}

static void check(hr_kernel *kernel, const char *name, const bound_extent *extents, int count) {
    hr_check result = {0};
    char at[256] = "";
    for (int i = 0; i < count; i++)
        snprintf(at + strlen(at), sizeof at - strlen(at), " %s=%lld", extents[i].name,
                 (long long)extents[i].value);
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, POINTS, &result));
    if (!result.ok)
        fail_msg("%s%s: error %g, tolerance %g: %s", name, at, result.max_error, result.tolerance,
                 result.where);
    hr_kernel_destroy(kernel);
}

static hr_dtype dtype_of(int number) {
    return number % 2 ? HR_BF16 : HR_F32;
}

/* Queries and keys of one length, a value as deep as a query or not. */
static void check_square(const char *file, const char *name, int64_t length, int64_t depth, int number) {
    const int64_t wide = number % 3 ? depth : depths[number % DEPTHS];
    const bound_extent extents[] = {
        {"B", 1}, {"H", length > 1000 ? 1 : 2}, {"I", length}, {"J", length}, {"D", depth}, {"E", wide}};
    check(load(file, name, dtype_of(number), extents, 6), name, extents, 6);
}

static void test_forward(void **state) {
    (void)state;
    for (int l = 0; l < LENGTHS; l++)
        for (int d = 0; d < DEPTHS; d++)
            if (sample_takes((size_t)(l * DEPTHS + d), 29))
                check_square("attention", l % 2 ? "attention" : "attention_training", lengths[l], depths[d],
                             l + d);
}

static void test_backward(void **state) {
    (void)state;
    for (int l = 0; l < LENGTHS; l++)
        for (int d = 0; d < DEPTHS; d++)
            if (sample_takes((size_t)(l * DEPTHS + d), 47))
                check_square("attention_backward", "attention_backward", lengths[l], depths[d], l + d);
}

/* Fewer keys than there are in some sequences, none in one, more than all in one. */
static void set_lengths(hr_kernel *kernel, int64_t sequences, int64_t keys) {
    int32_t *length = array_of(kernel, "length");
    for (int64_t b = 0; b < sequences; b++)
        length[b] = (int32_t)(b == 0 ? 0 : b == 1 ? keys : keys * b / (sequences + 1));
}

static void decode(int64_t keys, int64_t depth, int number) {
    const bound_extent extents[] = {{"B", 3}, {"H", 8}, {"G", 2}, {"J", keys}, {"D", depth}, {"E", depth}};
    hr_kernel *kernel = load("attention_decode", "attention_decode", dtype_of(number), extents, 6);
    set_lengths(kernel, 3, keys);
    check(kernel, "attention_decode", extents, 6);
}

static void decode_paged(int64_t keys, int64_t depth, int number) {
    const int64_t pages = (keys + 15) / 16;
    const bound_extent extents[] = {{"B", 3},     {"H", 8},         {"G", 2},
                                    {"L", pages}, {"X", pages + 2}, {"D", depth}};
    hr_kernel *kernel = load("attention_paged", "attention_paged", dtype_of(number), extents, 6);
    int32_t *page = array_of(kernel, "page");
    set_lengths(kernel, 3, keys);
    for (int64_t i = 0; i < 3 * pages; i++)
        page[i] = (int32_t)(i * 7 % (pages + 2));
    check(kernel, "attention_paged", extents, 6);
}

static void test_decode(void **state) {
    (void)state;
    for (int l = 0; l < LENGTHS; l++)
        for (int d = 0; d < DEPTHS; d++) {
            const size_t number = (size_t)(l * DEPTHS + d);
            if (sample_takes(number, 47)) decode(lengths[l], depths[d], l + d);
            if (sample_takes(number + 15, 47)) decode_paged(lengths[l], depths[d], l + d);
        }
}

/* The last queries of a long text: a few see almost all keys. */
static const char last_queries[] =
    "kernel last(q: T[I, D], k: T[J, D], v: T[J, E]) -> (o: T[I, E]) {\n"
    "    s[i, j] = where(j <= i + J - I, sum[d](q[i, d] * k[j, d]) * rsqrt(D), -inf)\n"
    "    o[i, e] = sum[j](softmax[j](s[i, j]) * v[j, e]) }\n";

static void check_text(const char *text, hr_dtype dtype, const bound_extent *extents, int count) {
    hr_kernel *kernel;
    hr_check result = {0};
    good(hr_kernel_load(device, "last.hr", text, strlen(text), NULL, &kernel));
    good(kernel_bind_dtypes(kernel, dtype));
    for (int i = 0; i < count; i++)
        good(hr_kernel_bind_extent(kernel, extents[i].name, extents[i].value));
    good(hr_kernel_fill(kernel, 5));
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, LONG_POINTS, &result));
    if (!result.ok)
        fail_msg("%lld keys: error %g, tolerance %g: %s", (long long)extents[1].value, result.max_error,
                 result.tolerance, result.where);
    hr_kernel_destroy(kernel);
}

/* Forward, decoding, and the gradient that is derived. */
static void long_cache(int64_t keys, int64_t depth, hr_dtype dtype) {
    const bound_extent few[] = {{"I", 3}, {"J", keys}, {"D", depth}, {"E", depth}},
                       one[] = {{"B", 1}, {"H", 2}, {"G", 1}, {"J", keys}, {"D", depth}, {"E", depth}};
    const hr_gradient_options options = {.size = sizeof options};
    char *derived, *notes;
    hr_check result = {0};
    check_text(last_queries, dtype, few, 4);
    good(hr_gradient_text("last.hr", last_queries, strlen(last_queries), NULL, &options, &derived, &notes));
    check_text(derived, dtype, few, 4);
    free(derived);
    free(notes);
    hr_kernel *kernel = load("attention_decode", "attention_decode", dtype, one, 6);
    ((int32_t *)array_of(kernel, "length"))[0] = (int32_t)keys - 3;
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, LONG_POINTS, &result));
    if (!result.ok) fail_msg("%lld keys: error %g: %s", (long long)keys, result.max_error, result.where);
    hr_kernel_destroy(kernel);
}

static void test_long_caches(void **state) {
    (void)state;
    if (!getenv("HR_TEST_LONG")) {
        long_cache(LONG_KEYS / 16, 32, HR_BF16);
        return;
    }
    for (int d = 0; d < DEPTHS; d += 3)
        long_cache(LONG_KEYS, depths[d], dtype_of(d));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward), cmocka_unit_test(test_backward),
                                       cmocka_unit_test(test_decode), cmocka_unit_test(test_long_caches)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
