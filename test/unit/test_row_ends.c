/* Rows of results that end anywhere in a cache line, of any 16-bit or 32-bit type, in memory that begins
 * anywhere: every element is there, and nothing else is touched. Few long rows, which threads share out, too.
 */
#include "device/device.h"
#include "support/cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MARGIN = 96 }; /* elements before and after the result that must stay as they are */

static const struct end_type {
    const char *name;
    hr_dtype dtype;
    size_t size;
} types[] = {{"f32", HR_F32, 4}, {"bf16", HR_BF16, 2}, {"f16", HR_F16, 2}};

/* Twice a number is that number with one more in its exponent, which begins at bit 23, 7 or 10. */
static void twice(const struct end_type *type, const char *from, char *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, from + (size_t)i * type->size, type->size);
        bits += UINT32_C(1) << (type->dtype == HR_F32 ? 23 : type->dtype == HR_BF16 ? 7 : 10);
        memcpy(to + (size_t)i * type->size, &bits, type->size);
    }
}

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* A product by a row's 2 and a sum with a column's 0, neither of which lets rows be walked as one. */
static void check_rows(const struct end_type *type, int64_t rows, int64_t columns, int64_t offset) {
    char text[256];
    snprintf(
        text, sizeof text,
        "kernel k(x: %s[M, N], r: f32[M], b: f32[N]) -> (y: %s[M, N]) { y[m, n] = x[m, n] * r[m] + b[n] }",
        type->name, type->name);
    hr_kernel *kernel;
    const int64_t count = rows * columns, shape[] = {rows, columns};
    const size_t bytes = (size_t)(count + 2 * MARGIN) * type->size;
    char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64), *want = malloc(bytes);
    assert_true(memory && want);
    memset(memory, 0x5a, bytes);
    memset(want, 0x5a, bytes);
    char *const begin = memory + (size_t)offset * type->size;
    const hr_array result = {
        .size = sizeof result, .data = begin, .dtype = type->dtype, .rank = 2, .shape = shape};
    hr_array x = {.size = sizeof x}, r = x, b = x;
    good(hr_kernel_load(device, "ends.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind(kernel, "y", &result));
    good(hr_kernel_fill(kernel, 3));
    good(hr_kernel_array(kernel, "x", &x));
    good(hr_kernel_array(kernel, "r", &r));
    good(hr_kernel_array(kernel, "b", &b));
    for (int64_t m = 0; m < rows; m++)
        ((float *)r.data)[m] = 2;
    memset(b.data, 0, (size_t)columns * sizeof(float));
    for (int64_t i = 0; i < count; i++) /* no zero and none that is too small to double its bits so */
        ((char *)x.data)[(size_t)(i + 1) * type->size - 1] = (char)(i % 2 ? 0x3e : 0xbe);
    memset(begin, 0x5a, (size_t)count * type->size); /* results are filled, too */
    twice(type, x.data, want + (size_t)offset * type->size, count);
    good(hr_kernel_launch(kernel));
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != want[i])
            fail_msg("%s, %lld rows of %lld from element %lld: byte %zu is %d, not %d", type->name,
                     (long long)rows, (long long)columns, (long long)offset, i, memory[i], want[i]);
    hr_kernel_destroy(kernel);
    free(memory);
    free(want);
}

static void test_ends(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 4, 31, 33, 100, 255, 256, 515, 1000, 1031};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            for (int64_t offset = 0; offset < 64; offset += 21) {
                check_rows(&types[t], 37, lengths[n], offset);
                check_rows(&types[t], 1, lengths[n], offset);
            }
}

static void test_few_long_rows(void **state) {
    (void)state;
    static const int64_t lengths[] = {2048, 4133, 40001};
    int threads = device->limits.threads;
    device->limits.threads = 2;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            for (int64_t rows = 1; rows < 10; rows += 3)
                check_rows(&types[t], rows, lengths[n], rows);
    device->limits.threads = threads;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends), cmocka_unit_test(test_few_long_rows)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
