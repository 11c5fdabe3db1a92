/* Sums over groups of whole-number dots: which texts are planned as such, and what they come to, against the
 * text's meaning in f64. The largest bytes meet the largest words, where instructions could saturate.
 */
#include "device/device.h"
#include "support/cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

#define HEAD "kernel k(d: f16[N, G, 16], p: u8[N, G, 4, 16, 4], q: i8[T, G, 2, 4, 4], e: f32[T, G])"
#define TAIL " -> (y: f32[T, N, 16])\n{\n"

static const struct dots_case {
    const char *text;
    bool planned; /* as dots */
} cases[] = {
    {HEAD TAIL
     "    y[t, n, r] = sum[g](e[t, g] * d[n, g, r] * sum[c, i](q[t, g, 0, c, i] * (p[n, g, c, r, i] % 16)\n"
     "        + (p[n, g, c, r, i] // 16) * q[t, g, 1, c, i]))\n}\n",
     true},
    /* bits, and two sums of which one stands twice */
    {HEAD TAIL
     "    y[t, n, r] = sum[g](256.0 * sum[c, i](q[t, g, 0, c, i] * (p[n, g, c, r, i] & 3 | 4 + 8))\n"
     "        + d[n, g, r] * sum[c, i](q[t, g, 1, c, i] * (255 // 16 + (p[n, g, c, r, i] >> 6) * 80)))\n}\n",
     true},
    /* two indices of groups, lanes of more than one vector, a scale of 8 bits, one byte after the other */
    {"kernel k(s: i8[N, G, 6, 32], p: u8[N, G, 6, 2, 32, 4], q: i8[T, G, 6, 2, 4]) -> (y: f32[T, N, 32])\n{\n"
     "    y[t, n, r] = sum[g, j](s[n, g, j, r] * sum[c, i](q[t, g, j, c, i] * p[n, g, j, c, r, i]) / "
     "64)\n}\n",
     true},
    /* lanes that are no vectors: i64 */
    {"kernel k(s: i64[N, G, 16], p: u8[N, G, 3, 16, 4], q: i8[T, G, 3, 4]) -> (y: f32[T, N, 16])\n{\n"
     "    y[t, n, r] = sum[g](f32(s[n, g, r] % 9) * sum[c, i](q[t, g, c, i] * p[n, g, c, r, i]))\n}\n",
     true},
    /* a local, and one name for the words and for a task */
    {"kernel k(p: u8[N, G, 2, 16, 4], q: i8[T, G, 2, 4]) -> (y: f32[T, N, 16])\n{\n"
     "    z[t, n, g, r] = sum[c, i](q[t, g, c, i] * p[n, g, c, r, i])\n"
     "    y[c, n, r] = sum[g](f32(z[c, n, g, r]) / 8)\n}\n",
     true},
    /* eight lanes; a byte that leaves 8 bits; words as the language reads them: unsigned; an inner sum that
     * is a result's, too; words that are not four bytes */
    {"kernel k(p: u8[N, G, 2, 8, 4], q: i8[T, G, 2, 4]) -> (y: f32[T, N, 8])\n{\n"
     "    y[t, n, r] = sum[g](f32(sum[c, i](q[t, g, c, i] * p[n, g, c, r, i])))\n}\n",
     false},
    {"kernel k(p: u8[N, G, 2, 16, 4], q: i8[T, G, 2, 4]) -> (y: f32[T, N, 16])\n{\n"
     "    y[t, n, r] = sum[g](f32(sum[c, i](q[t, g, c, i] * (p[n, g, c, r, i] + 1))))\n}\n",
     false},
    {"kernel k(p: u8[N, G, 2, 16, 4], q: u8[T, G, 2, 4]) -> (y: f32[T, N, 16])\n{\n"
     "    y[t, n, r] = sum[g](f32(sum[c, i](q[t, g, c, i] * p[n, g, c, r, i])))\n}\n",
     false},
    {"kernel k(p: u8[N, G, 2, 16, 4], q: i8[T, G, 2, 4]) -> (y: f32[T, N, 16], z: i64[T, N, G, 16])\n{\n"
     "    z[t, n, g, r] = sum[c, i](q[t, g, c, i] * p[n, g, c, r, i])\n"
     "    y[t, n, r] = sum[g](f32(z[t, n, g, r]))\n}\n",
     false},
    {"kernel k(p: u8[N, G, 2, 16, 8], q: i8[T, G, 2, 8]) -> (y: f32[T, N, 16])\n{\n"
     "    y[t, n, r] = sum[g](f32(sum[c, i](q[t, g, c, i] * p[n, g, c, r, i])))\n}\n",
     false},
};

static hr_kernel *load(const char *text, int64_t n, int64_t g, int64_t t) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "dots.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "N", n));
    good(hr_kernel_bind_extent(kernel, "G", g));
    good(hr_kernel_bind_extent(kernel, "T", t));
    good(hr_kernel_fill(kernel, 3));
    return kernel;
}

static void check(hr_kernel *kernel, const char *text) {
    hr_check result = {0};
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, 300, &result));
    if (!result.ok)
        fail_msg("error %g, tolerance %g: %s in\n%s", result.max_error, result.tolerance, result.where, text);
    hr_kernel_destroy(kernel);
}

static void test_texts(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{5, 7, 3}, {2, 300, 1}, {3, 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t s = 0; s < (cases[i].planned ? 3 : 1); s++) {
            hr_kernel *kernel = load(cases[i].text, shapes[s][0], shapes[s][1], shapes[s][2]);
            const char *plan;
            good(hr_kernel_plan(kernel, &plan));
            if ((strstr(plan, "1 stage: dots") != NULL) != cases[i].planned)
                fail_msg("%s of\n%s", plan, cases[i].text);
            check(kernel, cases[i].text);
        }
}

/* Sixteen tasks and more go by the matrix unit where the machine has it for bytes; where it has not, the same
 * code takes them one by one. */
static void test_tiles(void **state) {
    (void)state;
    const int before = device->limits.matrix_bytes;
    int with_tiles = 0;
    device->limits.matrix_bytes = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!cases[i].planned) continue;
        hr_kernel *kernel = load(cases[i].text, 3, 9, 37);
        const char *source;
        good(hr_kernel_emit(kernel, NULL, &source, NULL));
        with_tiles += strstr(source, "byte_tiles_dot(sums_0") != NULL;
        check(kernel, cases[i].text);
    }
    device->limits.matrix_bytes = before;
    assert_int_equal(with_tiles, 3);
}

/* 255 * -128, 127 * 255: pairs of these leave 16 bits, and all are exact. */
static void test_largest(void **state) {
    (void)state;
    enum { GROUPS = 130, WORDS = 8, LANES = 16 };
    static const char text[] = "kernel k(p: u8[G, 8, 16, 4], q: i8[G, 8, 4]) -> (y: f32[16])\n{\n"
                               "    y[r] = sum[g](f32(sum[c, i](q[g, c, i] * p[g, c, r, i])))\n}\n";
    static uint8_t p[GROUPS][WORDS][LANES][4];
    static int8_t q[GROUPS][WORDS][4];
    float y[LANES];
    for (int sign = 0; sign < 2; sign++) {
        memset(p, 255, sizeof p);
        memset(q, sign ? -128 : 127, sizeof q);
        const hr_array arrays[] = {
            {.size = sizeof *arrays,
             .data = p,
             .dtype = HR_U8,
             .rank = 4,
             .shape = (int64_t[]){GROUPS, WORDS, LANES, 4}},
            {.size = sizeof *arrays,
             .data = q,
             .dtype = HR_I8,
             .rank = 3,
             .shape = (int64_t[]){GROUPS, WORDS, 4}},
            {.size = sizeof *arrays, .data = y, .dtype = HR_F32, .rank = 1, .shape = (int64_t[]){LANES}}};
        hr_kernel *kernel;
        good(hr_kernel_load(device, "dots.hr", text, strlen(text), NULL, &kernel));
        good(hr_kernel_execute(kernel, arrays, 3, NULL));
        for (int r = 0; r < LANES; r++)
            assert_true((double)y[r] == (double)GROUPS * WORDS * 4 * 255 * (sign ? -128 : 127));
        hr_kernel_destroy(kernel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_tiles),
                                       cmocka_unit_test(test_largest)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
