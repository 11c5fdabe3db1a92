/* Rows of results that end anywhere in a cache line, of any 16-bit or 32-bit type, in memory that begins
 * anywhere, and what is one a row beside them: every element is there, and nothing else is touched. Few long
 * rows, which threads share out, too.
 */
#include "base/dtype.h"
#include "device/device.h"
#include "support/core_kinds.h"
#include "support/cpu_device.h"

#include <math.h>
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

/* A product by a row's 2 and a sum with a column's 0, neither of which lets rows be walked as one; `topped`:
 * that 0 times the row's largest element, which is a result, too, so that rows are read before they are
 * stored. */
static const char *text_of(const struct end_type *type, bool topped, char text[512]) {
    const char *form = topped
                           ? "kernel k(x: %s[M, N], r: f32[M], b: f32[N]) -> (y: %s[M, N], top: f32[M])\n{\n"
                             "    top[m] = max[n](x[m, n])\n    y[m, n] = x[m, n] * r[m] + b[n] * top[m]\n}\n"
                           : "kernel k(x: %s[M, N], r: f32[M], b: f32[N]) -> (y: %s[M, N]) { y[m, n] = x[m, "
                             "n] * r[m] + b[n] }";
    snprintf(text, 512, form, type->name, type->name);
    return text;
}

/* What stands in memory before, in and after a result, and what has to. */
typedef struct surroundings {
    char *memory, *want, *begin;
    size_t bytes;
} surroundings;

static surroundings surroundings_of(int64_t count, size_t size, int64_t offset) {
    surroundings s = {.bytes = (size_t)(count + 2 * MARGIN) * size};
    s.memory = aligned_alloc(64, (s.bytes + 127) / 64 * 64);
    s.want = malloc(s.bytes);
    assert_true(s.memory && s.want);
    memset(s.memory, 0x5a, s.bytes);
    memset(s.want, 0x5a, s.bytes);
    s.begin = s.memory + (size_t)offset * size;
    return s;
}

static void check_surroundings(const surroundings *s, const char *what, int64_t rows, int64_t columns,
                               int64_t offset) {
    for (size_t i = 0; i < s->bytes; i++)
        if (s->memory[i] != s->want[i])
            fail_msg("%s, %lld rows of %lld from element %lld: byte %zu is %d, not %d", what, (long long)rows,
                     (long long)columns, (long long)offset, i, s->memory[i], s->want[i]);
    free(s->memory);
    free(s->want);
}

static hr_array array_of(void *data, hr_dtype dtype, int rank, const int64_t *shape) {
    return (hr_array){.size = sizeof(hr_array), .data = data, .dtype = dtype, .rank = rank, .shape = shape};
}

/* The largest element of each row. */
static void tops(const struct end_type *type, const char *x, int64_t rows, int64_t columns, float *out) {
    for (int64_t m = 0; m < rows; m++) {
        out[m] = -INFINITY;
        for (int64_t n = 0; n < columns; n++)
            out[m] = fmaxf(out[m], (float)hr_dtype_load(type->dtype, x, (size_t)(m * columns + n)));
    }
}

static void check_rows(const struct end_type *type, bool topped, int64_t rows, int64_t columns,
                       int64_t offset) {
    char text[512];
    hr_kernel *kernel;
    const int64_t count = rows * columns, shape[] = {rows, columns};
    surroundings y = surroundings_of(count, type->size, offset), top = surroundings_of(rows, 4, offset);
    const hr_array result = array_of(y.begin, type->dtype, 2, shape),
                   peaks = array_of(top.begin, HR_F32, 1, shape);
    hr_array x = {.size = sizeof x}, r = x, b = x;
    text_of(type, topped, text);
    good(hr_kernel_load(device, "ends.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind(kernel, "y", &result));
    if (topped) good(hr_kernel_bind(kernel, "top", &peaks));
    good(hr_kernel_fill(kernel, 3));
    good(hr_kernel_array(kernel, "x", &x));
    good(hr_kernel_array(kernel, "r", &r));
    good(hr_kernel_array(kernel, "b", &b));
    for (int64_t m = 0; m < rows; m++)
        ((float *)r.data)[m] = 2;
    memset(b.data, 0, (size_t)columns * sizeof(float));
    for (int64_t i = 0; i < count; i++) /* no zero and none that is too small to double its bits so */
        ((char *)x.data)[(size_t)(i + 1) * type->size - 1] = (char)(i % 2 ? 0x3e : 0xbe);
    memset(y.begin, 0x5a, (size_t)count * type->size); /* results are filled, too */
    memset(top.begin, 0x5a, (size_t)rows * sizeof(float));
    twice(type, x.data, y.want + (size_t)offset * type->size, count);
    if (topped)
        tops(type, x.data, rows, columns, (float *)(void *)(top.want + (size_t)offset * sizeof(float)));
    good(hr_kernel_launch(kernel));
    check_surroundings(&y, type->name, rows, columns, offset);
    check_surroundings(&top, "what is one a row", rows, columns, offset);
    hr_kernel_destroy(kernel);
}

static void check_lengths(bool topped) {
    static const int64_t lengths[] = {1, 4, 31, 33, 100, 255, 256, 515, 1000, 1031, 2080, 2113};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            for (int64_t offset = 0; offset < 64; offset += 21) {
                check_rows(&types[t], topped, 37, lengths[n], offset);
                check_rows(&types[t], topped, 1, lengths[n], offset);
            }
}

static void test_ends(void **state) {
    (void)state;
    check_lengths(false);
    check_lengths(true);
}

/* Whether the pass that reads goes ahead of the one that stores is a matter of the caches. */
static void test_ends_for_other_cores(void **state) {
    (void)state;
    for (core_kinds each = core_kinds_of(&device->limits); core_kinds_next(&each);)
        for (int64_t columns = 1023; columns < 4200; columns += 1057)
            for (int64_t offset = 0; offset < 64; offset += 32)
                check_rows(&types[each.kind % 3], true, 19, columns, offset);
}

static void test_few_long_rows(void **state) {
    (void)state;
    static const int64_t lengths[] = {2048, 4133, 40001};
    int threads = device->limits.threads;
    device->limits.threads = 2;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
            for (int64_t rows = 1; rows < 10; rows += 3)
                check_rows(&types[t], false, rows, lengths[n], rows);
    device->limits.threads = threads;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_ends_for_other_cores),
                                       cmocka_unit_test(test_few_long_rows)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
