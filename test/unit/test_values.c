/* What is infinite, no number, a negative zero or beyond a dtype's ends: every function of it, stored as each
 * dtype, is what the interpreter says. */
#include "support/cpu_device.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/text.h"

enum { EVERY = 1 << 20 };

static const double values[] = {
    0,     -0.0,     1,      -1,    2,     -2,     0.5,      -0.5,      1.5,     -1.5,     2.5,   -2.5,
    3,     -3,       10,     -10,   20,    -20,    87,       88,        89,      -87,      -104,  -126,
    -150,  127,      128,    255,   256,   -129,   32767.5,  -32768.5,  65504,   65519,    65520, 70000,
    -7e4,  1e10,     -1e10,  4e9,   -4e9,  1e-10,  -1e-10,   1e-40,     -1e-45,  1e20,     -1e20, 448,
    464,   465,      57344,  61440, 61441, 0x1p31, -0x1p31,  0x1p63,    -0x1p63, 0x1p24,   3e38,  -3e38,
    1e300, INFINITY, 1e-300, NAN,   -1e19, 1e19,   16777217, -INFINITY, 0.7,     0.999999,
};
enum { COUNT = sizeof values / sizeof *values };

static const char *const forms[] = {
    "exp(x[n])",     "exp2(x[n])",
    "log(x[n])",     "log2(x[n])",
    "sqrt(x[n])",    "rsqrt(x[n])",
    "tanh(x[n])",    "erf(x[n])",
    "sigmoid(x[n])", "relu(x[n])",
    "gelu(x[n])",    "gelu_tanh(x[n])",
    "silu(x[n])",    "abs(x[n])",
    "floor(x[n])",   "ceil(x[n])",
    "round(x[n])",   "min(x[n], 0.5)",
    "x[n]^0.5",      "max(0.5, x[n])",
    "x[n]^3",        "1 / x[n]",
    "x[n]^-1",       "clamp(x[n], -1, 1)",
    "x[n] // 3",     "1 / x[n]^0.5",
    "-x[n]",         "2^x[n]",
    "x[n]^1.5",      "where(x[n] > 0, 1, 2)",
    "x[n] % 0.75",   "where(not (x[n] > 0), 1.5, 2)",
};

static void good(hr_status status, const char *what) {
    if (status != HR_OK) fail_msg("%s: %s", what, hr_last_error());
}

/* A kernel whose text makes results of x[N], or of x[M, N], rows of so many; 0 = of x[N]. */
static void check(hr_text *text, hr_dtype dtype, int row, bool unfused) {
    double x[COUNT];
    const int64_t shape[] = {row ? COUNT / row : COUNT, row};
    hr_array array = {.size = sizeof array, .data = x, .dtype = dtype, .rank = row ? 2 : 1, .shape = shape};
    for (int n = 0; n < COUNT; n++)
        hr_dtype_store(dtype, x, (size_t)n, values[n]);
    const char *words = hr_text_data(text);
    hr_kernel *kernel;
    hr_check check = {0};
    hr_prepare_options options = {.size = sizeof options, .unfused = unfused};
    good(hr_kernel_load(device, "values.hr", words, strlen(words), NULL, &kernel), words);
    good(hr_kernel_bind(kernel, "x", &array), words);
    good(hr_kernel_fill(kernel, 1), words);
    good(hr_kernel_prepare(kernel, &options), words);
    good(hr_kernel_check(kernel, EVERY, &check), words);
    if (!check.ok)
        fail_msg("error %g, tolerance %g: %s\n%s", check.max_error, check.tolerance, check.where, words);
    hr_kernel_destroy(kernel);
}

static void test_functions(void **state) {
    (void)state;
    const int count = sizeof forms / sizeof *forms;
    for (int turn = 0; turn < 12; turn++) {
        hr_dtype dtype = (hr_dtype)(turn / 2);
        hr_text text = {0};
        const char *result = dtype == HR_F64 ? "f64" : "f32";
        hr_text_format(&text, "kernel values(x: %s[N]) -> (", hr_dtype_name(dtype));
        for (int i = 0; i < count; i++)
            hr_text_format(&text, "%sr%d: %s[N]", i ? ", " : "", i, result);
        hr_text_format(&text, ")\n{\n");
        for (int i = 0; i < count; i++)
            hr_text_format(&text, "    r%d[n] = %s\n", i, forms[i]);
        hr_text_format(&text, "}\n");
        check(&text, dtype, 0, turn % 2);
        hr_text_clear(&text);
    }
}

static void test_stores(void **state) {
    (void)state;
    for (int from = 0; from < HR_DTYPE_COUNT; from++) {
        hr_text text = {0};
        hr_text_format(&text, "kernel stores(x: %s[N]) -> (", hr_dtype_name((hr_dtype)from));
        for (int to = 0; to < HR_DTYPE_COUNT; to++)
            hr_text_format(&text, "%sr%d: %s[N], c%d: f64[N]", to ? ", " : "", to,
                           hr_dtype_name((hr_dtype)to), to);
        hr_text_format(&text, ")\n{\n");
        for (int to = 0; to < HR_DTYPE_COUNT; to++)
            hr_text_format(&text, "    r%d[n] = x[n]\n    c%d[n] = %s(x[n])\n", to, to,
                           hr_dtype_name((hr_dtype)to));
        hr_text_format(&text, "}\n");
        check(&text, (hr_dtype)from, 0, false);
        hr_text_clear(&text);
    }
}

/* The place of the best and the sum of exponentials, of rows that are written out and of ones that are not.
 */
static void test_short_rows(void **state) {
    (void)state;
    static const int rows[] = {1, 2, 3, 5, 8, 9};
    for (size_t turn = 0; turn < sizeof rows / sizeof *rows * HR_DTYPE_COUNT; turn++) {
        const hr_dtype dtype = (hr_dtype)(turn % HR_DTYPE_COUNT);
        hr_text text = {0};
        if (!sample_takes(turn, 6)) continue;
        hr_text_format(&text,
                       "kernel rows(x: %s[M, N]) -> (a: i64[M], b: i32[M], l: f32[M])\n{\n"
                       "    a[m] = argmax[n](x[m, n])\n    b[m] = argmin[n](x[m, n])\n"
                       "    l[m] = logsumexp[n](f32(x[m, n]))\n}\n",
                       hr_dtype_name(dtype));
        check(&text, dtype, rows[turn / HR_DTYPE_COUNT], false);
        hr_text_clear(&text);
    }
}

/* NaN with bits that bf16 has no room for: of one for all, of a row, of a lane. */
static void test_long_nan(void **state) {
    (void)state;
    enum { ROWS = 3, LENGTH = 75 };
    static const char text[] =
        "kernel payloads(x: bf16[M, N], a: f32, r: f32[M], c: f32[N]) -> (y: bf16[M, N], z: bf16[M, N])\n{\n"
        "    y[m, n] = x[m, n] * a + r[m]\n"
        "    z[m, n] = x[m, n] * c[n] + r[m] * a\n}\n";
    static const uint32_t bits[] = {0x7fffffff, 0x7f80ffff, 0xffffffff, 0xff808001};
    for (int turn = 0; turn < 3 * (int)(sizeof bits / sizeof *bits); turn++) {
        uint16_t x[ROWS * LENGTH], y[ROWS * LENGTH], z[ROWS * LENGTH];
        float r[ROWS] = {0}, c[LENGTH] = {0};
        double a = 1;
        const int64_t shape[] = {ROWS, LENGTH};
        for (int i = 0; i < ROWS * LENGTH; i++)
            x[i] = 0x3f80;
        const uint32_t given = bits[turn / 3];
        const uint64_t wide =
            (uint64_t)(given & 0x7fffff) << 29 | (uint64_t)(given >> 31) << 63 | 0x7ff0ull << 48;
        if (turn % 3)
            memcpy(turn % 3 == 1 ? &r[1] : &c[70], &given, sizeof given);
        else
            memcpy(&a, &wide, sizeof wide);
        const struct {
            const char *name;
            hr_array array;
        } tensors[] = {{"x", {sizeof(hr_array), x, HR_BF16, 2, shape, NULL}},
                       {"r", {sizeof(hr_array), r, HR_F32, 1, shape, NULL}},
                       {"c", {sizeof(hr_array), c, HR_F32, 1, shape + 1, NULL}},
                       {"y", {sizeof(hr_array), y, HR_BF16, 2, shape, NULL}},
                       {"z", {sizeof(hr_array), z, HR_BF16, 2, shape, NULL}}};
        hr_kernel *kernel;
        good(hr_kernel_load(device, "payloads.hr", text, strlen(text), NULL, &kernel), text);
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
            good(hr_kernel_bind(kernel, tensors[i].name, &tensors[i].array), tensors[i].name);
        good(hr_kernel_bind_scalar(kernel, "a", a), "a");
        good(hr_kernel_launch(kernel), text);
        for (int i = 0; i < ROWS * LENGTH; i++) {
            bool row = turn % 3 == 1 && i / LENGTH == 1, lane = turn % 3 == 2 && i % LENGTH == 70;
            assert_int_equal((y[i] & 0x7fff) > 0x7f80, turn % 3 == 0 || row);
            assert_int_equal((z[i] & 0x7fff) > 0x7f80, turn % 3 == 0 || row || lane);
        }
        hr_kernel_destroy(kernel);
    }
}

/* Results that a rounding of f32 on the way moves far: quotients beside a half, which round to either side,
 * and what underflows before it is multiplied. */
static void test_honest_arithmetic(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t rows, columns;
    } cases[] = {
        {"kernel quantised(x: bf16[N, K]) -> (q: i8[N, K], s: f32[N])\n{\n"
         "    s[n] = max[k](abs(x[n, k])) / 127\n    q[n, k] = i8(round(x[n, k] / s[n]))\n}\n",
         64, 4096},
        {"kernel taken(x: bf16[64, K], w: i8[N, K]) -> (y: f32[64, N], t: i64[64], q: i8[64, K], z: i8[64, "
         "K])\n{\n"
         "    s[m] = max[k](abs(x[m, k])) / 127\n    r[m, k] = i32(round(x[m, k] / s[m]))\n"
         "    q[m, k] = i8(round(x[m, k] / s[m]))\n    y[m, n] = sum[k](r[m, k] * w[n, k]) * s[m]\n"
         "    t[m] = sum[k](abs(q[m, k]) - max(r[m, k], 0))\n    z[m, k] = clamp(-r[m, k] + 3, -5, 100)\n}\n",
         70, 2048},
        {"kernel gated(x: bf16[2, K], g: bf16[N, K], u: bf16[N, K]) -> (y: bf16[2, N])\n{\n"
         "    a[m, n] = sum[k](x[m, k] * g[n, k])\n    b[m, n] = sum[k](x[m, k] * u[n, k])\n"
         "    y[m, n] = silu(a[m, n]) * b[m, n]\n}\n",
         700, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_kernel *kernel;
        hr_check check = {0};
        const char *text = cases[i].text;
        good(hr_kernel_load(device, "honest.hr", text, strlen(text), NULL, &kernel), text);
        good(hr_kernel_bind_extent(kernel, "N", cases[i].rows), text);
        good(hr_kernel_bind_extent(kernel, "K", cases[i].columns), text);
        good(hr_kernel_fill(kernel, 1), text);
        good(hr_kernel_prepare(kernel, NULL), text);
        good(hr_kernel_check(kernel, EVERY, &check), text);
        if (!check.ok)
            fail_msg("error %g, tolerance %g: %s\n%s", check.max_error, check.tolerance, check.where, text);
        hr_kernel_destroy(kernel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions), cmocka_unit_test(test_stores),
                                       cmocka_unit_test(test_short_rows), cmocka_unit_test(test_long_nan),
                                       cmocka_unit_test(test_honest_arithmetic)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
