/* Reductions along an axis that is not the last: stages that go through each strip of columns together, what
 * is one a column, positions. Against the text's meaning in f64, or a plain loop where NaN and ties decide.
 */
#include "device/device.h"
#include "support/cpu_device.h"
#include "support/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* ---- plans and results ---- */

static const char together[] = "each strip right after stage";

/* Over C, in the middle, at the front, of two axes; what is left as it was, what is read elsewhere, too. */
static const struct strip_case {
    const char *text;
    bool joins; /* where caches are small */
} cases[] = {
    {"kernel k(x: f32[B, C, P]) -> (y: f32[B, C, P])\n{\n    y[b, c, p] = softmax[c](x[b, c, p])\n}\n", true},
    {"kernel k(x: bf16[C, B, P]) -> (y: f16[C, B, P])\n{\n    y[c, b, p] = softmax[c](x[c, b, p])\n}\n",
     true},
    {"kernel k(x: f32[C, P]) -> (y: f32[P])\n{\n    y[p] = logsumexp[c](x[c, p])\n}\n", true},
    {"kernel k(x: bf16[B, C, P], w: f32[C], eps: f32 = 0.00001) -> (y: bf16[B, C, P], s: f32[B, P])\n{\n"
     "    mu[b, p] = mean[c](x[b, c, p])\n    va[b, p] = mean[c]((x[b, c, p] - mu[b, p])^2)\n"
     "    s[b, p] = rsqrt(va[b, p] + eps)\n    y[b, c, p] = (x[b, c, p] - mu[b, p]) * s[b, p] * w[c]\n}\n",
     true},
    {"kernel k(x: f32[B, C, P], eps: f32 = 0.00001) -> (y: f32[B, P, C])\n{\n"
     "    va[b, p] = mean[c](x[b, c, p]^2)\n    y[b, p, c] = x[b, c, p] * rsqrt(va[b, p] + eps)\n}\n",
     true}, /* but for the last */
    {"kernel k(x: f32[B, C, P]) -> (y: i32[B, P], z: f32[B, P])\n{\n"
     "    y[b, p] = argmax[c](x[b, c, p])\n    z[b, p] = max[c](x[b, c, p])\n}\n",
     true},
    {"kernel k(x: inout f32[B, C, P])\n{\n    t[b, c, p] = softmax[c](x[b, c, p])\n"
     "    x[b, c, p] = t[b, c, p]\n}\n",
     true}, /* but for the last */
    {"kernel k(x: f32[B, C, P]) -> (y: f32[B, C, P])\n{\n    t[b, p] = sum[c](x[b, c, p])\n"
     "    y[b, c, p] = x[b, c, p] - where(p > 0, t[b, p - 1], 0)\n}\n",
     false},
    {"kernel k(x: f32[B, C, P], z: f32[B, C, P]) -> (s: f32[B, P], t: f32[B, P], y: f32[B, C, P])\n{\n"
     "    s[b, p] = sum[c](x[b, c, p] * z[b, c, p])\n    t[b, p] = max[c](x[b, c, p] / (1 + s[b, p]^2))\n"
     "    y[b, c, p] = z[b, c, p] + sqrt(abs(t[b, p]))\n}\n",
     true},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check_case(const struct strip_case *c, int64_t b, int64_t channels, int64_t p, bool *joins) {
    hr_kernel *kernel;
    hr_check check = {0};
    const char *source, *header;
    good(hr_kernel_load(device, "strips.hr", c->text, strlen(c->text), "k", &kernel));
    if (strstr(c->text, "[B,") || strstr(c->text, " B,")) good(hr_kernel_bind_extent(kernel, "B", b));
    good(hr_kernel_bind_extent(kernel, "C", channels));
    good(hr_kernel_bind_extent(kernel, "P", p));
    good(hr_kernel_fill(kernel, 7));
    good(hr_kernel_source(kernel, &source, &header));
    *joins = strstr(source, together) != NULL;
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, 700, &check));
    if (!check.ok)
        fail_msg("%lld x %lld x %lld: error %g, tolerance %g: %s in\n%s", (long long)b, (long long)channels,
                 (long long)p, check.max_error, check.tolerance, check.where, c->text);
    hr_kernel_destroy(kernel);
}

static void test_shapes(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{2, 5, 700}, {1, 3, 4133}, {5, 1, 64},  {3, 17, 33}, {2, 0, 40},
                                        {0, 4, 600}, {1, 2, 1},    {7, 4, 520}, {2, 6, 1031}};
    for (int i = 0; i < CASES; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            bool joins;
            if (!sample_takes((size_t)i * 9 + s, 5)) continue;
            check_case(&cases[i], shapes[s][0], shapes[s][1], shapes[s][2], &joins);
        }
}

/* Strips that are no multiple of anything, and some for each thread. */
static void test_small_caches(void **state) {
    (void)state;
    hr_device_limits own = device->limits;
    device->limits.l2_bytes = 32 << 10;
    device->limits.l3_bytes = 256 << 10;
    for (int threads = 1; threads < 4; threads++)
        for (int i = 0; i < CASES; i++) {
            bool joins;
            device->limits.threads = threads;
            check_case(&cases[i], 3, 9, 4133, &joins);
            if (joins != cases[i].joins)
                fail_msg("stages %sgo together in\n%s", joins ? "" : "do not ", cases[i].text);
        }
    device->limits = own;
}

/* ---- positions ---- */

static int64_t position(const float *x, int64_t count, int64_t stride, bool largest) {
    int64_t at = 0;
    for (int64_t c = 0; c < count; c++) {
        float value = x[c * stride], best = x[at * stride];
        if (best != best) return at;
        if (value != value || (largest ? value > best : value < best)) at = c;
    }
    return at;
}

static void check_positions(int64_t channels, int64_t columns) {
    static const char text[] = "kernel k(x: f32[C, P]) -> (most: i32[P], least: i64[P])\n{\n"
                               "    most[p] = argmax[c](x[c, p])\n    least[p] = argmin[c](x[c, p])\n}\n";
    static const float values[] = {1, 2, -INFINITY, 2, INFINITY, 0, -0.0f, 3, -3, NAN};
    enum { VALUES = sizeof values / sizeof *values };
    const int64_t shape[] = {channels, columns};
    float *x = malloc((size_t)(channels * columns + 1) * sizeof *x);
    int32_t *most = malloc((size_t)columns * sizeof *most);
    int64_t *least = malloc((size_t)columns * sizeof *least);
    assert_true(x && most && least);
    for (int64_t i = 0; i < channels * columns; i++) /* NaN in every seventh column */
        x[i] = values[(i * 7919 + i / 3) % (i % columns % 7 ? VALUES - 1 : VALUES)];
    for (int64_t c = 0; c < channels; c++) /* and some of nothing else, or of what is smaller than all */
        for (int64_t p = 0; p < columns; p += 5)
            x[c * columns + p] = p % 2 ? -INFINITY : p % 4 ? NAN : 2;
    hr_kernel *kernel;
    hr_array from = {.size = sizeof from, .data = x, .dtype = HR_F32, .rank = 2, .shape = shape};
    hr_array first = {.size = sizeof first, .data = most, .dtype = HR_I32, .rank = 1, .shape = shape + 1};
    hr_array second = {.size = sizeof second, .data = least, .dtype = HR_I64, .rank = 1, .shape = shape + 1};
    good(hr_kernel_load(device, "positions.hr", text, sizeof text - 1, NULL, &kernel));
    good(hr_kernel_bind(kernel, "x", &from));
    good(hr_kernel_bind(kernel, "most", &first));
    good(hr_kernel_bind(kernel, "least", &second));
    good(hr_kernel_launch(kernel));
    for (int64_t p = 0; p < columns; p++) {
        int64_t high = channels ? position(x + p, channels, columns, true) : 0,
                low = channels ? position(x + p, channels, columns, false) : 0;
        if (most[p] != high || least[p] != low)
            fail_msg("column %lld of %lld x %lld: %d and %lld, not %lld and %lld", (long long)p,
                     (long long)channels, (long long)columns, most[p], (long long)least[p], (long long)high,
                     (long long)low);
    }
    hr_kernel_destroy(kernel);
    free(x);
    free(most);
    free(least);
}

static void test_positions(void **state) {
    (void)state;
    static const int64_t channels[] = {0, 1, 2, 5, 21, 300}, columns[] = {1, 40, 1031, 5000};
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (size_t p = 0; p < sizeof columns / sizeof *columns; p++)
            check_positions(channels[c], columns[p]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_small_caches),
                                       cmocka_unit_test(test_positions)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
