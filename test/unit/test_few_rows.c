/* Products of few rows or columns, whose other operand is read in its place, and elements that a group of
 * neighbours shares, `scale[m, k // 32]`: against the text's meaning.
 */
#include "device/device.h"
#include "support/cpu_device.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* N: the few. */
static const char *const products[] = {
    "kernel k(x: bf16[N, K], w: bf16[M, K]) -> (y: bf16[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * w[m, k])\n}\n",
    "kernel k(x: f32[N, K], w: f32[M, K]) -> (y: f32[M, N])\n{\n"
    "    y[m, n] = sum[k](w[m, k] * x[n, k])\n}\n",
    "kernel k(x: f64[N, K], w: f64[M, K]) -> (y: f64[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * w[m, k])\n}\n",
    "kernel k(x: f32[K, N], w: f16[M, K], b: f32[M]) -> (y: f16[M, N])\n{\n"
    "    y[m, n] = gelu(sum[k](x[k, n] * w[m, k]) + b[m])\n}\n",
    "kernel k(x: f32[N, K], w: i8[M, K], s: f32[M, (K + 31) // 32]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * (w[m, k] * s[m, k // 32]))\n}\n",
    "kernel k(x: bf16[N, K], w: u8[M, K], s: f16[M, (K + 6) // 7], z: u8[M, (K + 6) // 7]) -> (y: bf16[N, "
    "M])\n"
    "{\n    y[n, m] = sum[k](x[n, k] * ((f32(w[m, k]) - f32(z[m, k // 7])) * s[m, k // 7]))\n}\n",
    "kernel k(x: f32[N, K], w: i8[K, M], s: f32[(K + 15) // 16, M]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * (w[k, m] * s[k // 16, m]))\n}\n",
    "kernel k(x: f32[N, K], w: i8[K, M], s: f32[K, (M + 15) // 16]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * (w[k, m] * s[k, m // 16]))\n}\n",
    "kernel k(x: f32[N, K, 5], w: i8[M, K, 5], s: f32[M, K]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[g, i](x[n, g, i] * (w[m, g, i] * s[m, g]))\n}\n",
    "kernel k(x: f32[N, 3, K, 5], w: i8[M, 3, K, 5], s: f32[M, 3]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[h, g, i](x[n, h, g, i] * (w[m, h, g, i] * s[m, h]))\n}\n",
    "kernel k(x: f32[N, K], w: u8[M, (K + 1) // 2], s: f32[M, (K + 31) // 32]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * (f32(where(k % 2 == 0, w[m, k // 2] % 16, w[m, k // 2] // 16) - 8) *\n"
    "        s[m, k // 32]))\n}\n",
    "kernel k(x: f32[N, K, 2, 16], w: u8[M, K, 16], s: f16[M, K]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[g, p, j](x[n, g, p, j] * (f32(where(p == 0, w[m, g, j] % 16, w[m, g, j] // 16) - 8) "
    "*\n"
    "        s[m, g]))\n}\n",
    "kernel k(x: f32[N, K, 32], w: u8[M, K, 16], s: f16[M, K]) -> (y: f32[N, M])\n{\n"
    "    q[m, g, i < 32] = where(i < 16, w[m, g, i % 16] % 16, w[m, g, i % 16] // 16) - 8\n"
    "    y[n, m] = sum[g, i](x[n, g, i] * (q[m, g, i] * s[m, g]))\n}\n",
    "kernel k(x: f32[N, 3, K, 32], w: u8[M, 3, K, 16], s: f16[M, 3, K]) -> (y: f32[M, N])\n{\n"
    "    q[m, h, g, i < 32] = where(16 > i, w[m, h, g, i % 16] % 16, w[m, h, g, i - 16] // 16) - 8\n"
    "    y[m, n] = sum[h, g, i](x[n, h, g, i] * (q[m, h, g, i] * s[m, h, g]))\n}\n",
    "kernel k(x: f32[N, K], w: u8[M, (K + 31) // 32 * 16], s: f16[M, (K + 31) // 32]) -> (y: f32[N, M])\n{\n"
    "    q[m, k < K] = where(k % 32 < 16, w[m, k // 32 * 16 + k % 16] % 16, w[m, k // 32 * 16 + k % 16] // "
    "16)\n"
    "    y[n, m] = sum[k](x[n, k] * ((q[m, k] - 8) * s[m, k // 32]))\n}\n",
    "kernel k(x: f32[N, K, 256], w: i8[M, K, 256], s: u8[M, K, 8], d: f16[M, K]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[g, i](x[n, g, i] * (w[m, g, i] * (s[m, g, i // 32] * d[m, g])))\n}\n",
    "kernel k(x: f32[N, 64], w: u8[M, 32], s: f32[M, 2 + 0 * K]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * (where(k % 2 != 0, w[m, k // 2] // 16, w[m, k // 2] % 16) * s[m, k // "
    "32]))\n}\n",
    "kernel k(x: f32[N, K], w: u8[M, (K + 1) // 2], s: f32[M, (K + 63) // 64], c: f32[16]) -> (y: f32[N, "
    "M])\n{\n"
    "    q[m, k < K] = c[where(k % 2 == 0, w[m, k // 2] // 16, w[m, k // 2] % 16)]\n"
    "    y[n, m] = sum[k](x[n, k] * (q[m, k] * s[m, k // 64]))\n}\n",
    "kernel k(x: f32[N, K], w: f32[M, K], s: f32[M, (K + 47) // 48]) -> (y: f32[N, M])\n{\n"
    "    y[n, m] = sum[k](x[n, k] * where(k < 40 or k // 16 % 3 == 1, w[m, k] * s[m, k // 48], w[m, K - 1 - "
    "k]))\n}\n",
    "kernel k(q: f32[3, N, K], k: bf16[3, M, K]) -> (s: f32[3, N, M])\n{\n"
    "    s[h, g, t] = sum[d](q[h, g, d] * k[h, t, d])\n}\n",
    "kernel k(p: f32[3, N, K], v: bf16[3, K, M]) -> (o: f32[3, N, M])\n{\n"
    "    o[h, g, d] = sum[t](p[h, g, t] * v[h, t, d])\n}\n",
};

/* Rows and maps that such elements are in; K along the lanes. */
static const char *const shared[] = {
    "kernel k(w: i8[M, K], s: f32[M, (K + 31) // 32], x: f32[N]) -> (y: f32[M, K])\n{\n"
    "    y[m, k] = w[m, k] * s[m, k // 32] + x[0]\n}\n",
    "kernel k(w: bf16[M, K], s: bf16[M, (K + 7) // 8], x: f32[N]) -> (y: bf16[M, K])\n{\n"
    "    y[m, k] = w[m, k] * s[m, k // 8] + x[0]\n}\n",
    "kernel k(w: f32[M, K], s: i32[(K + 10) // 5], x: f32[N]) -> (y: f32[M, K])\n{\n"
    "    y[m, k] = w[m, k] * s[(k + 6) // 5] + x[0]\n}\n",
    "kernel k(w: f32[M, K], s: f32[M, (K + 3) // 4], x: f32[N]) -> (y: f32[M])\n{\n"
    "    y[m] = sum[k](w[m, k] * where(k > 4, s[m, (k - 5) // 4], x[0]))\n}\n",
    "kernel k(w: f32[M, K], s: f32[(K + 3) // 4, (K + 2) // 3], x: f32[N]) -> (y: f32[M])\n{\n"
    "    y[m] = max[k](w[m, k] * s[k // 4, k // 3] * x[0])\n}\n",
    "kernel k(w: f32[M, K], s: f32[M, K], x: f32[N]) -> (y: f32[M, K])\n{\n"
    "    y[m, k] = w[m, k] * s[m, k // 2 * 2] + x[0]\n}\n",
    "kernel k(w: u8[M, (K + 1) // 2], s: f16[M, (K + 3) // 4], x: f32[N]) -> (y: bf16[M, K])\n{\n"
    "    y[m, k] = f32(where(k % 2 == 0, w[m, k // 2] % 16, w[m, k // 2] // 16) - 8) * s[m, k // 4] + "
    "x[0]\n}\n",
    "kernel k(w: i32[(K + 2) // 2, M], s: bf16[(K + 10) // 8], x: f32[N]) -> (y: f32[M, K])\n{\n"
    "    y[m, k] = w[k // 2, m] * s[(k + 3) // 8] + x[0]\n}\n",
    "kernel k(w: i8[M, (K + 1) // 2 + 3], s: f32[(K + 7) // 8], x: f32[N], u: f32[K]) -> (y: f32[M])\n{\n"
    "    y[m] = sum[k](w[m, (k + 6) // 2] * s[k // 8] * u[k] * x[0])\n}\n",
    "kernel k(w: f32[M, K], s: f32[M, K], x: f32[N]) -> (y: f32[M, K])\n{\n"
    "    y[m, k] = w[m, k] * s[m, k % 16] + s[m, k // 64 % 2] * x[0]\n}\n",
    "kernel k(u: f32[K], w: u8[M, (K + 1) // 2], s: f16[M, (K + 31) // 32], x: f32[N]) -> (y: f32[M], z: "
    "f32[M])\n{\n"
    "    q[m, k < K] = (where(k % 2 == 0, w[m, k // 2] % 16, w[m, k // 2] // 16) - 8) * s[m, k // 32]\n"
    "    y[m] = gelu(sum[k](u[k] * q[m, k])) + x[0]\n    z[m] = max[k](abs(q[m, k]))\n}\n",
    "kernel k(u: bf16[K, 32], w: u8[M, K, 16], s: f32[M, K], x: f32[N]) -> (y: bf16[M])\n{\n"
    "    q[m, g, i < 32] = where(i < 16, w[m, g, i % 16] % 16, w[m, g, i % 16] // 16) - 8\n"
    "    y[m] = sum[g, i](u[g, i] * (q[m, g, i] * s[m, g])) * x[0]\n}\n",
    "kernel k(u: f32[K], w: u8[M, (K + 1) // 2], c: f32[16], d: bf16[4], x: f32[N]) -> (y: f32[M], z: f32[M, "
    "K])\n{\n"
    "    y[m] = sum[k](u[k] * c[where(k % 2 != 0, w[m, k // 2] // 16, w[m, k // 2] % 16)]) * x[0]\n"
    "    z[m, k] = c[w[m, k // 2] % 16] * exp(d[w[m, k // 2] // 64]) + c[15 - w[m, k // 2] % 7]\n}\n",
    "kernel k(w: i8[M, K], s: f32[M, (K + 31) // 32], t: i32[M], x: f32[N]) -> (y: f32[M], z: f32[M])\n{\n"
    "    y[m] = sum[k](where(k == t[m] % 40 or k > 2 * m, 1, w[m, k]) * s[m, k // 32]) + x[0]\n"
    "    z[m] = max[k](where(k >= m, exp(w[m, k] * s[m, k // 32] / 100), k))\n}\n",
    "kernel k(w: i8[M, K], s: f32[M, (K + 31) // 32], x: f32[N]) -> (y: f32[M])\n{\n"
    "    y[m] = sum[k](where(random(7, m * K + k) < 0.5, w[m, k] * s[m, k // 32], x[0]))\n}\n",
    "kernel k(w: i8[M, K], s: f32[M, (K + 15) // 16], x: f32[N]) -> (y: f32[M], z: i64[M])\n{\n"
    "    y[m] = min[k](w[m, k] * s[m, k // 16]) + x[0]\n    z[m] = sum[k](w[m, k] * (k // 16 % 2))\n}\n",
};

/* Operands that are locals: part of the product, or in memory where others read them, too. */
static const struct local_case {
    const char *text, *plan;
} locals[] = {
    {"kernel k(x: f32[N, K], q: i8[M, K], s: f32[M, (K + 31) // 32]) -> (y: f32[N, M])\n{\n"
     "    w[m, k] = q[m, k] * s[m, k // 32]\n    y[n, m] = sum[k](x[n, k] * w[m, k])\n}\n",
     "1 stage: contract"},
    {"kernel k(x: bf16[N, K], q: u8[M, (K + 1) // 2], s: f16[M, (K + 31) // 32]) -> (y: bf16[N, M])\n{\n"
     "    w[m, k < K] = where(k % 2 == 0, q[m, k // 2] % 16, q[m, k // 2] // 16) - 8\n"
     "    v[m, k] = bf16(w[m, k] * s[m, k // 32])\n    y[n, m] = sum[k](x[n, k] * v[m, k])\n}\n",
     "1 stage: contract"},
    {"kernel k(x: f32[N, K], q: i8[M, K], s: f32[M]) -> (y: f32[N, M], t: f32[M])\n{\n"
     "    w[m, k] = q[m, k] * s[m]\n    y[n, m] = sum[k](x[n, k] * w[m, k])\n    t[m] = max[k](w[m, k])\n}\n",
     NULL},
    {"kernel k(x: f32[N, K], q: inout f32[M, K], s: f32[M]) -> (y: f32[N, M])\n{\n"
     "    w[m, k] = q[m, k] * s[m]\n    q[m, k] = q[m, k] + 1\n    y[n, m] = sum[k](x[n, k] * w[m, k])\n}\n",
     NULL},
    {"kernel k(x: f32[N, K], q: f32[M, K], s: f32[M, K]) -> (y: f32[N, M])\n{\n"
     "    u[n, k] = x[n, k] + 1\n    w[m, k] = q[m, k] * s[m, k]\n"
     "    y[n, m] = sum[k](u[n, k] * w[m, k]) + u[n, 0]\n}\n",
     NULL},
    {"kernel k(x: f32[N, K], q: f32[K, M], s: f32[K]) -> (y: f32[N, M])\n{\n"
     "    w[m, k] = q[k, m] * s[k]\n"
     "    y[n, m] = sum[k](x[n, k] * where(k > 2, w[m, k - 3], 0))\n}\n",
     NULL},
};

typedef struct shape {
    int64_t n, m, k;
} shape;

static hr_kernel *load(const char *text, const shape *s) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "few.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "N", s->n));
    good(hr_kernel_bind_extent(kernel, "M", s->m));
    good(hr_kernel_bind_extent(kernel, "K", s->k));
    good(hr_kernel_fill(kernel, 7));
    return kernel;
}

static void check(const char *text, const shape *s) {
    hr_kernel *kernel = load(text, s);
    hr_check result = {0};
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, 300, &result));
    if (!result.ok)
        fail_msg("%lld, %lld and %lld: error %g, tolerance %g: %s in\n%s", (long long)s->n, (long long)s->m,
                 (long long)s->k, result.max_error, result.tolerance, result.where, text);
    hr_kernel_destroy(kernel);
}

static void test_products(void **state) {
    (void)state;
    static const shape shapes[] = {{2, 300, 1100}, {4, 67, 515}, {7, 131, 96},  {8, 64, 64}, {9, 130, 70},
                                   {16, 99, 33},   {3, 5, 7},    {17, 100, 80}, {5, 0, 40},  {5, 40, 0}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (sample_takes(i * (sizeof shapes / sizeof *shapes) + s, 13)) check(products[i], &shapes[s]);
}

static void test_locals(void **state) {
    (void)state;
    static const shape shapes[] = {{3, 70, 96}, {20, 33, 65}, {2, 40, 1}, {5, 40, 0}, {0, 7, 5}};
    for (size_t i = 0; i < sizeof locals / sizeof *locals; i++) {
        const char *plan;
        hr_kernel *kernel = load(locals[i].text, &shapes[0]);
        good(hr_kernel_plan(kernel, &plan));
        if (locals[i].plan && !strstr(plan, locals[i].plan)) fail_msg("%s of\n%s", plan, locals[i].text);
        hr_kernel_destroy(kernel);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if ((shapes[s].k || !strstr(locals[i].text, "u[n, 0]")) && sample_takes(i * 5 + s, 10))
                check(locals[i].text, &shapes[s]);
    }
}

static void test_threads(void **state) {
    (void)state;
    static const shape shapes[] = {{2, 300, 130}, {6, 1000, 600}};
    hr_device_limits own = device->limits;
    for (int threads = 1; threads < 4; threads++)
        for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
            device->limits.threads = threads;
            if (!sample_takes((size_t)threads * 31 + i, 13)) continue;
            check(products[i], &shapes[i % 2]);
        }
    device->limits = own;
}

static void test_shared(void **state) {
    (void)state;
    static const shape shapes[] = {{1, 5, 1}, {1, 3, 15}, {1, 4, 64}, {1, 33, 257}, {1, 2, 1000}, {1, 3, 0}};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if ((shapes[s].k >= 16 || !strstr(shared[i], "% 16")) && sample_takes(i * 6 + s, 10))
                check(shared[i], &shapes[s]);
}

/* The last group is not whole, and there is no scale for it. */
static void test_out_of_range(void **state) {
    (void)state;
    static const char *const texts[] = {
        "kernel k(x: f32[N, K], w: i8[M, K], s: f32[M, K // 32]) -> (y: f32[N, M])\n{\n"
        "    y[n, m] = sum[k](x[n, k] * (w[m, k] * s[m, k // 32]))\n}\n",
        "kernel k(x: f32[N], w: i8[M, K], s: f32[M, K // 32]) -> (y: f32[M, K])\n{\n"
        "    y[m, k] = w[m, k] * s[m, k // 32] * x[0]\n}\n",
        "kernel k(x: f32[N, K], w: u8[M, K // 32 * 16], s: f32[M]) -> (y: f32[N, M])\n{\n"
        "    y[n, m] = sum[k](x[n, k] * (where(k % 32 < 16, w[m, k // 32 * 16 + k % 16] % 16, s[m])))\n}\n",
        "kernel k(x: f32[K], w: u8[M, K // 32 * 16], s: f32[N]) -> (y: f32[M])\n{\n"
        "    y[m] = sum[k](x[k] * where(k % 32 < 16, w[m, k // 32 * 16 + k % 16] % 16, s[0]))\n}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int64_t n = 1; n <= 9; n += 4)
            for (int64_t k = 96; k <= 97; k++) {
                const shape s = {n, 40, k};
                hr_kernel *kernel = load(texts[i], &s);
                assert_int_equal(hr_kernel_launch(kernel), k % 32 ? HR_OUT_OF_RANGE : HR_OK);
                if (k % 32 && !strstr(hr_last_error(), "few.hr:3:")) fail_msg("%s", hr_last_error());
                hr_kernel_destroy(kernel);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_locals),
                                       cmocka_unit_test(test_threads), cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_out_of_range)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
