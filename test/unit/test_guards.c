/* Elements under `where` whose subscripts stay inside their axes at some extents and leave them at others:
 * where they leave them without being chosen, nothing is wrong.
 */
#include "device/device.h"
#include "support/cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* M: of the axis that is read. Each text leaves it at some of the extents below, but not where it is chosen.
 */
static const char *const texts[] = {
    "kernel k(x: f32[M]) -> (y: f32[N])\n{\n    y[n] = where(n < M, x[n % 7], 0)\n}\n",
    "kernel k(x: f32[M]) -> (y: f32[N])\n{\n    y[n] = where(n // 3 < M, x[n // 3], 0)\n}\n",
    "kernel k(x: f32[M]) -> (y: f32[N])\n{\n    y[n] = where(n > 2 and n // 2 - 1 < M, x[n // 2 - 1], "
    "0)\n}\n",
    "kernel k(x: f32[M]) -> (y: f32[N])\n{\n    y[n] = where(n < M and M > 4, x[min(n, 4)], 1)\n}\n",
    "kernel k(x: f32[M]) -> (y: f32[N])\n{\n    y[n] = where(n - 5 < M, x[max(n - 5, 0)], 1)\n}\n",
    "kernel k(x: f32[M], z: f32[N, M]) -> (y: f32[N])\n{\n"
    "    y[n] = sum[m](where(m <= n and n * 2 // 3 < M, z[n, m] * x[n * 2 // 3], 0))\n}\n",
    "kernel k(x: f32[M, 4], z: f32[N, 4]) -> (y: f32[N, 40])\n{\n"
    "    y[n, l] = where(l <= n and l % 9 < M, sum[d](z[n, d] * x[l % 9, d]), 0)\n}\n",
};

static void check_case(const char *text, int64_t m, int64_t n) {
    hr_kernel *kernel;
    hr_check check = {0};
    good(hr_kernel_load(device, "guards.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "M", m));
    good(hr_kernel_bind_extent(kernel, "N", n));
    good(hr_kernel_fill(kernel, 7));
    good(hr_kernel_prepare(kernel, NULL));
    good(hr_kernel_check(kernel, 400, &check));
    if (!check.ok)
        fail_msg("%lld and %lld: error %g: %s in\n%s", (long long)m, (long long)n, check.max_error,
                 check.where, text);
    hr_kernel_destroy(kernel);
}

static void test_guards(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 3, 7, 9, 40};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (int m = 0; m < 5; m++)
            for (int n = 0; n < 5; n++)
                check_case(texts[t], sizes[m], sizes[n]);
}

/* A product again, whose operand would be another one for each of its rows. */
static void test_products(void **state) {
    (void)state;
    static const char text[] = "kernel k(q: f32[H, I, D], k: f32[K, J, D]) -> (s: f32[H, I, J])\n{\n"
                               "    s[h, i, j] = where(j <= i, sum[d](q[h, i, d] * k[h // 2, j, d]), 0)\n}\n";
    static const int64_t sizes[][2] = {{4, 2}, {5, 2}}; /* of H and K: h // 2 reaches 1 and 2 */
    for (int i = 0; i < 2; i++) {
        hr_kernel *kernel;
        const char *plan;
        good(hr_kernel_load(device, "guards.hr", text, sizeof text - 1, NULL, &kernel));
        good(hr_kernel_bind_extent(kernel, "H", sizes[i][0]));
        good(hr_kernel_bind_extent(kernel, "K", sizes[i][1]));
        good(hr_kernel_bind_extent(kernel, "I", 50));
        good(hr_kernel_bind_extent(kernel, "J", 50));
        good(hr_kernel_bind_extent(kernel, "D", 32));
        good(hr_kernel_fill(kernel, 7));
        good(hr_kernel_plan(kernel, &plan));
        assert_int_equal(strstr(plan, "contract") != NULL, i == 0);
        assert_int_equal(hr_kernel_launch(kernel), i == 0 ? HR_OK : HR_OUT_OF_RANGE);
        hr_kernel_destroy(kernel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_guards), cmocka_unit_test(test_products)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
