/* What the planner makes of texts that are written for the reader: sums over products of three factors are
 * taken apart, windows whose length is a short extent are written out. The plan, its operations, the results.
 */
#include "device/device.h"
#include "support/cpu_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { EXTENTS_MOST = 5 };

typedef struct rewrite_case {
    const char *text;
    const char *extent[EXTENTS_MOST];
    int64_t size[EXTENTS_MOST];
    const char *plan; /* the plan's summary, NULL = any */
    const char *said; /* in explain; NULL = that no sum was taken apart and no extent is fixed */
    double flops;     /* of products and vectors; 0 = any */
} rewrite_case;

static const char taken_apart[] = "nested sums of parts of it";

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

static void check_case(const rewrite_case *c) {
    hr_kernel *kernel;
    const char *words;
    hr_check check = {0};
    good(hr_kernel_load(device, "rewrites.hr", c->text, strlen(c->text), NULL, &kernel));
    for (int e = 0; e < EXTENTS_MOST && c->extent[e]; e++)
        good(hr_kernel_bind_extent(kernel, c->extent[e], c->size[e]));
    good(hr_kernel_fill(kernel, 7));
    good(hr_kernel_plan(kernel, &words));
    if (c->plan && !strstr(words, c->plan)) fail_msg("not %s but\n%s", c->plan, words);
    if (c->said && !strstr(words, c->said)) fail_msg("nothing of '%s' in\n%s", c->said, words);
    if (!c->said && (strstr(words, taken_apart) || strstr(words, "holds for"))) fail_msg("%s", words);
    hr_floor floor;
    if (c->flops > 0) {
        good(hr_kernel_floor(kernel, &floor));
        const double flops = floor.tensor_flops + floor.vector_flops;
        if (!(fabs(flops - c->flops) <= c->flops / 50)) fail_msg("%g operations in\n%s", flops, c->text);
    }
    good(hr_kernel_check(kernel, 300, &check));
    if (!check.ok)
        fail_msg("error %g of %g: %s in\n%s", check.max_error, check.tolerance, check.where, c->text);
    hr_kernel_destroy(kernel);
}

static void test_sums_are_taken_apart(void **state) {
    (void)state;
    static const char three[] = "kernel k(a: f32[I, J], b: f32[J, K], c: f32[K, L]) -> (y: f32[I, L])\n{\n"
                                "    y[i, l] = sum[j, k](a[i, j] * b[j, k] * c[k, l])\n}\n";
    static const char inside[] = "kernel k(a: f32[I, J], b: f32[J, K], c: f32[K, L]) -> (y: f32[I, L])\n{\n"
                                 "    y[i, l] = exp(-abs(sum[j, k](a[i, j] * (b[j, k] * c[k, l])))) + i\n}\n";
    static const char four[] =
        "kernel k(a: f32[I, J], b: f32[J, K], c: f32[K, L], d: f32[L, M]) -> (y: f32[I, M])\n{\n"
        "    y[i, m] = sum[j, k, l](a[i, j] * b[j, k] * c[k, l] * d[l, m])\n}\n";
    static const char form[] = "kernel k(x: f32[B, I], w: f32[I, J], z: f32[B, J]) -> (y: f32[B])\n{\n"
                               "    y[b] = sum[i, j](x[b, i] * w[i, j] * z[b, j])\n}\n";
    static const char same[] = "kernel k(a: f32[I, J], b: f32[I, J], c: f32[I, J]) -> (y: f32)\n{\n"
                               "    y = sum[i, j](a[i, j] * b[i, j] * c[i, j])\n}\n";
    static const rewrite_case cases[] = {
        {three,
         {"I", "J", "K", "L"},
         {40, 50, 60, 70},
         "2 stages: contract, contract",
         taken_apart,
         2 * 40 * 60 * (50. + 70)},
        {three,
         {"I", "J", "K", "L"},
         {200, 90, 30, 3},
         "2 stages: contract, contract",
         taken_apart,
         2 * 90 * 3 * (30. + 200)},
        {three, {"I", "J", "K", "L"}, {3, 3, 3, 3}, NULL, NULL, 0},
        {inside, {"I", "J", "K", "L"}, {40, 50, 60, 70}, NULL, taken_apart, 0},
        {four, {"I", "J", "K", "L", "M"}, {30, 31, 32, 33, 34}, "3 stages", taken_apart, 0},
        {form, {"B", "I", "J"}, {33, 65, 129}, NULL, NULL, 0},
        {same, {"I", "J"}, {330, 650}, NULL, NULL, 0},
        {three, {"I", "J", "K", "L"}, {40, 0, 60, 70}, NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

static void test_short_axes_are_written_out(void **state) {
    (void)state;
    static const char causal[] =
        "kernel k(x: f32[B, L], w: f32[K]) -> (y: f32[B, L])\n{\n"
        "    y[b, l] = sum[k](w[k] * where(l + k >= K - 1, x[b, l + k - (K - 1)], 0))\n}\n";
    static const char plane[] = "kernel k(x: f32[H + R - 1, W + S - 1], w: f32[R, S]) -> (y: f32[H, W])\n{\n"
                                "    y[h, v] = sum[r, s](w[r, s] * x[h + r, v + s])\n}\n";
    static const char columns[] = "kernel k(x: f32[K, L]) -> (y: f32[L])\n{\n    y[l] = sum[k](x[k, l])\n}\n";
    static const char rows[] = "kernel k(x: f32[M, K]) -> (y: f32[M])\n{\n    y[m] = sum[k](x[m, k])\n}\n";
    static const char narrow[] = "kernel k(x: bf16[B, M, K], v: f32[K]) -> (y: bf16[B, M])\n{\n"
                                 "    y[b, m] = exp(max[k](x[b, m, k] * v[k]) / 8)\n}\n";
    static const char three[] = "kernel k(x: f16[M, 3]) -> (y: f32[M], z: f32[M])\n{\n"
                                "    y[m] = mean[k](x[m, k]^2)\n    z[m] = sqrt(y[m]) - min[k](x[m, k])\n}\n";
    static const char product[] = "kernel k(x: f32[M, K], w: f32[N, K]) -> (y: f32[M, N])\n{\n"
                                  "    y[m, n] = sum[k](x[m, k] * w[n, k])\n}\n";
    static const char soft[] = "kernel k(x: f32[M, K]) -> (y: f32[M, K])\n{\n"
                               "    y[m, k] = softmax[k](x[m, k])\n}\n";
    static const char norm[] = "kernel k(x: f32[M, K], w: f32[K]) -> (y: f32[M, K])\n{\n"
                               "    y[m, k] = x[m, k] * rsqrt(mean[j](x[m, j]^2) + 1e-6) * w[k]\n}\n";
    static const char scan[] = "kernel k(x: f32[M, K]) -> (y: f32[M, K])\n{\n"
                               "    y[m, k] = cumsum[k](x[m, k])\n}\n";
    static const char prod[] = "kernel k(x: f32[M, K]) -> (y: f32[M])\n{\n    y[m] = prod[k](x[m, k])\n}\n";
    static const char place[] =
        "kernel k(x: bf16[M, K]) -> (y: i64[M])\n{\n    y[m] = argmax[k](x[m, k])\n}\n";
    static const char total[] =
        "kernel k(x: f32[M, K]) -> (y: f32[M])\n{\n    y[m] = logsumexp[k](x[m, k])\n}\n";
    static const char pooled[] = "kernel k(x: f32[M, N]) -> (y: i32[M // 2, N // 2])\n{\n"
                                 "    y[m, n] = argmin[i < 2, j < 2](x[2 * m + i, 2 * n + j])\n}\n";
    static const char shift[] = "kernel k(x: f32[M, K], b: f32[K]) -> (y: f32[M, K])\n{\n"
                                "    y[m, k] = x[m, k] + b[k]\n}\n";
    static const rewrite_case cases[] = {
        {rows, {"M", "K"}, {3001, 3}, "1 stage: map", "holds for K = 3", 0},
        {rows, {"M", "K"}, {7, 8}, "1 stage: map", "holds for K = 8", 0},
        {rows, {"M", "K"}, {300, 9}, "1 stage: row", NULL, 0},
        {narrow, {"B", "M", "K"}, {3, 77, 5}, "1 stage: map", "holds for K = 5", 0},
        {three, {"M"}, {1003}, "1 stage: map", NULL, 0},
        {product, {"M", "N", "K"}, {30, 40, 3}, "1 stage: contract", NULL, 0},
        {soft, {"M", "K"}, {300, 3}, "1 stage: row", "holds for K = 3", 0},
        {soft, {"M", "K"}, {3, 9}, "1 stage: row", NULL, 0},
        {norm, {"M", "K"}, {300, 5}, "1 stage: row", "holds for K = 5", 0},
        {scan, {"M", "K"}, {300, 4}, "1 stage: scan", "holds for K = 4", 0},
        {prod, {"M", "K"}, {300, 7}, "1 stage: map", "holds for K = 7", 0},
        {place, {"M", "K"}, {300, 3}, "1 stage: map", "holds for K = 3", 0},
        {total, {"M", "K"}, {300, 3}, "1 stage: map", "holds for K = 3", 0},
        {total, {"M", "K"}, {300, 1}, "1 stage: map", "holds for K = 1", 0},
        {pooled, {"M", "N"}, {31, 67}, "1 stage: map", NULL, 0},
        {shift, {"M", "K"}, {300, 3}, "1 stage: map", "holds for K = 3", 0},
        {shift, {"M", "K"}, {3, 300}, "1 stage: map", NULL, 0},
        {causal, {"B", "L", "K"}, {5, 300, 4}, "1 stage: map", "holds for K = 4", 0},
        {causal, {"B", "L", "K"}, {5, 300, 1}, "1 stage: map", "holds for K = 1", 0},
        {causal, {"B", "L", "K"}, {5, 3, 7}, "1 stage: map", "holds for K = 7", 0},
        {causal, {"B", "L", "K"}, {5, 300, 40}, NULL, NULL, 0},
        {plane, {"H", "W", "R", "S"}, {31, 67, 3, 3}, "1 stage: map", "holds for S = 3", 0},
        {columns, {"K", "L"}, {4, 300}, "1 stage: map", "holds for K = 4", 0},
        {columns, {"K", "L"}, {5, 300}, NULL, NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_are_taken_apart),
                                       cmocka_unit_test(test_short_axes_are_written_out)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
