/* Kernels that are in no library, as users write them: the shape that each becomes, and every element of it
 * against the interpreter's at odd extents. */
#include "support/cpu_device.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

enum { EVERY = 1 << 20, EXTENTS_MOST = 8 };

typedef struct shaped {
    const char *text;
    const char *has, *lacks; /* words of the plan at the first of the extents; NULL = any */
} shaped;

static void good(hr_status status, const char *what) {
    if (status != HR_OK) fail_msg("%s: %s", what, hr_last_error());
}

static void check_plan(hr_kernel *kernel, const shaped *which) {
    const char *plan;
    good(hr_kernel_plan(kernel, &plan), which->text);
    if (which->has && !strstr(plan, which->has)) fail_msg("not %s:\n%s\n%s", which->has, plan, which->text);
    if (which->lacks && strstr(plan, which->lacks)) fail_msg("%s:\n%s\n%s", which->lacks, plan, which->text);
}

/* Extents in the order of the kernel's own. */
static void check_shaped(const shaped *which, const int64_t *sizes, bool first) {
    hr_kernel *kernel;
    hr_check check = {0};
    good(hr_kernel_load(device, "shaped.hr", which->text, strlen(which->text), NULL, &kernel), which->text);
    for (int e = 0; e < hr_kernel_extent_count(kernel); e++) {
        const char *name;
        int64_t value;
        hr_kernel_extent(kernel, e, &name, &value);
        good(hr_kernel_bind_extent(kernel, name, sizes[e]), which->text);
    }
    good(hr_kernel_fill(kernel, 3), which->text);
    good(hr_kernel_prepare(kernel, NULL), which->text);
    if (first) check_plan(kernel, which);
    good(hr_kernel_check(kernel, EVERY, &check), which->text);
    if (!check.ok)
        fail_msg("error %g, tolerance %g: %s\n%s", check.max_error, check.tolerance, check.where,
                 which->text);
    hr_kernel_destroy(kernel);
}

static void check_all(const shaped *kernels, size_t count, const int64_t (*sizes)[EXTENTS_MOST],
                      size_t size_count) {
    for (size_t k = 0; k < count; k++)
        for (size_t s = 0; s < size_count; s++)
            if (s == 0 || sample_takes(k * size_count + s, 7)) check_shaped(&kernels[k], sizes[s], s == 0);
}
#define CHECK_ALL(kernels, sizes)                                                                            \
    check_all(kernels, sizeof kernels / sizeof *kernels, sizes, sizeof sizes / sizeof *sizes)

/* ---- results a column: rows of memory are read in order, none is strided through ---- */

static const shaped columns[] = {
    {"kernel norm(x: f32[M, C], w: f32[C], eps: f32 = 1e-5) -> (y: f32[M, C], mean: f32[C], rstd: "
     "f32[C])\n{\n"
     "    mean[c] = mean[m](x[m, c])\n"
     "    rstd[c] = rsqrt(mean[m]((x[m, c] - mean[c])^2) + eps)\n"
     "    y[m, c] = (x[m, c] - mean[c]) * rstd[c] * w[c]\n}\n",
     "column over c", "scalar lanes"},
    {"kernel columns(x: f32[M, N]) -> (y: f32[M, N]) { y[m, n] = softmax[m](x[m, n]) }", "column over n",
     "scalar lanes"},
    {"kernel quantise(x: bf16[M, N]) -> (q: i8[M, N], scale: f32[N])\n{\n"
     "    scale[n] = max(max[m](abs(x[m, n])) / 127, 1e-12)\n"
     "    q[m, n] = round(x[m, n] / scale[n])\n}\n",
     "column over n", "scalar lanes"},
    {"kernel spread(x: f32[M, N]) -> (mean: f32[N], var: f32[N])\n{\n"
     "    mean[n] = sum[m](x[m, n]) / M\n"
     "    var[n] = sum[m]((x[m, n] - mean[n])^2) / M\n}\n",
     "column over n", "scalar lanes"},
    {"kernel unit(x: f32[M, N]) -> (y: f32[M, N])\n{\n"
     "    norm[n] = sqrt(sum[m](x[m, n]^2))\n"
     "    y[m, n] = x[m, n] / max(norm[n], 1e-12)\n}\n",
     "column over n", "scalar lanes"},
};

static const shaped weighted = {"kernel weighted(x: f32[M, N], w: f32[M]) -> (y: f32[N], total: f32)\n{\n"
                                "    total = sum[m](w[m])\n    y[n] = sum[m](x[m, n] * w[m])\n}\n",
                                "y, total add up", "scalar lanes"};

static void test_columns(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{300, 700}, {1, 1}, {7, 33}, {65, 2}, {3, 1030}};
    CHECK_ALL(columns, sizes);
    check_shaped(&weighted, sizes[0], true);
}

/* ---- a total of what is one a task leaves the lanes vectors ---- */

static const shaped totals[] = {
    {"kernel loss(x: bf16[T, V], target: i32[T], ignore: i32 = 3) -> (loss: f32[T], count: i64)\n{\n"
     "    loss[t] = where(target[t] != ignore, logsumexp[v](x[t, v]) - x[t, target[t]], 0)\n"
     "    count = sum[t](target[t] != ignore)\n}\n",
     "row over v", "scalar lanes"},
};

static void test_totals_of_tasks(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{40, 700}, {1, 1}, {7, 33}};
    CHECK_ALL(totals, sizes);
}

/* ---- a reduction over few points is written out: a map ---- */

static const shaped short_sums[] = {
    {"kernel convolve(x: bf16[B, T, C], w: f32[4, C], bias: f32[C]) -> (y: bf16[B, T, C])\n{\n"
     "    y[b, t, c] = silu(sum[k](where(t + k >= 3, x[b, t + k - 3, c] * w[k, c], 0)) + bias[c])\n}\n",
     "1 stage: map", "scalar lanes"},
    {"kernel combine(x: bf16[E, C], at: i32[T, 2], w: f32[T, 2]) -> (y: bf16[T, C])\n{\n"
     "    y[t, c] = sum[k](w[t, k] * x[at[t, k], c])\n}\n",
     "1 stage: map", "scalar lanes"},
    {"kernel pool(x: f32[N, 2 * H, 2 * W]) -> (y: f32[N, H, W], z: f32[N, H, W])\n{\n"
     "    y[n, h, w] = mean[i < 2, j < 2](x[n, 2 * h + i, 2 * w + j])\n"
     "    z[n, h, w] = min[i < 2, j < 2](x[n, 2 * h + i, 2 * w + j])\n}\n",
     "1 stage: map", "row"},
    {"kernel pool(x: i8[N, H, W]) -> (y: i8[N, H, W], z: i64[N, H, W])\n{\n"
     "    y[n, h, w] = max[i < 3, j < 3](where(h + i >= 1 and h + i <= H and w + j >= 1 and w + j <= W,\n"
     "                                         x[n, h + i - 1, w + j - 1], -128))\n"
     "    z[n, h, w] = sum[i < 3](where(h >= i, x[n, h - i, w], 0))\n}\n",
     "1 stage: map", "row"},
};

static void test_short_reductions(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{3, 40, 70}, {1, 1, 1}, {2, 3, 5}, {5, 1, 33}, {1, 17, 2}};
    CHECK_ALL(short_sums, sizes);
}

/* ---- lanes that do not lie side by side, or not all of them: what is computed from them is vectors ---- */

static const shaped gathered[] = {
    {"kernel shift(x: f32[N, T], w: f32[3]) -> (y: f32[N, T])\n{\n"
     "    y[n, t] = where(t >= 2, x[n, t - 2] * w[0], 0) + where(t + 1 < T, x[n, t + 1], 9)\n}\n",
     "map", "scalar lanes"},
    {"kernel pool(x: bf16[N, H, W]) -> (y: bf16[N, H, W])\n{\n"
     "    y[n, h, w] = max[i < 3, j < 3](where(h + i >= 1 and h + i <= H and w + j >= 1 and w + j <= W,\n"
     "                                         x[n, h + i - 1, w + j - 1], -inf))\n}\n",
     "map", "scalar lanes"},
    {"kernel join(a: f32[M, A], b: f16[M, B]) -> (y: f32[M, A + B])\n{\n"
     "    y[m, n] = where(n < A, a[m, n + 0], b[m, n - A])\n}\n",
     "map", "scalar lanes"},
    {"kernel pairs(x: bf16[M, N, 2], b: i8[2 * N]) -> (y: bf16[M, N], z: i16[M, N])\n{\n"
     "    y[m, n] = gelu_tanh(x[m, n, 0]) * x[m, n, 1]\n"
     "    z[m, n] = b[2 * n + 1] // 4 - b[n + N] % 8 + b[2 * N - 1 - n] // 3\n}\n",
     "map", "scalar lanes"},
    {"kernel up(x: f32[C, H, W]) -> (y: f32[C, 2 * H, 2 * W], z: bool[C, H, W])\n{\n"
     "    y[c, h, w] = x[c, h // 2, w // 2]\n    z[c, h, w] = x[c, H - 1 - h, W - 1 - w] > 0\n}\n",
     "map", "scalar lanes"},
    {"kernel look(table: f32[V, K], at: i32[M, N], weight: f32[M, N]) -> (y: f32[M, N], s: f32[M])\n{\n"
     "    y[m, n] = exp(table[at[m, n], 0]) * weight[m, n]\n"
     "    s[m] = sum[n](table[at[m, n], 1] * weight[m, n])\n}\n",
     "row", "scalar lanes"},
    {"kernel one_hot(at: i32[T], keep: bool[V]) -> (y: f32[T, V], z: i8[T, V])\n{\n"
     "    y[t, v] = where(v == at[t], 1, 0)\n    z[t, v] = where(keep[V - 1 - v], 3, v % 4)\n}\n",
     "map", "scalar lanes"},
    {"kernel soft(x: bf16[M, N, 3], y: inout bf16[M, N], n0: i32 = 1)\n{\n"
     "    y[m, n] = softmax[n](where(n >= n0, x[m, n, 2] * x[m, n - n0, 0], -inf)) + y[m, n]\n}\n",
     "row", "scalar lanes"},
};

static void test_gathered_lanes(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{40, 4, 700}, {1, 2, 2},    {3, 5, 16}, {5, 2, 33},
                                                  {2, 17, 64},  {2, 3, 1100}, {9, 31, 3}, {300, 70, 129}};
    CHECK_ALL(gathered, sizes);
}

/* One that counts and is off its axis is told. */
static void test_a_gathered_lane_is_off(void **state) {
    (void)state;
    static const char text[] = "kernel off(x: f32[M, N], o: i32) -> (y: f32[M, N])\n{\n"
                               "    y[m, n] = where(n >= 40, x[m, n - o], 0)\n}\n";
    for (int offset = 39; offset < 42; offset++) {
        hr_kernel *kernel;
        good(hr_kernel_load(device, "off.hr", text, sizeof text - 1, NULL, &kernel), text);
        good(hr_kernel_bind_extent(kernel, "M", 6), text);
        good(hr_kernel_bind_extent(kernel, "N", 100), text);
        good(hr_kernel_bind_scalar(kernel, "o", offset), text);
        good(hr_kernel_fill(kernel, 3), text);
        assert_int_equal(hr_kernel_launch(kernel), offset == 41 ? HR_OUT_OF_RANGE : HR_OK);
        hr_kernel_destroy(kernel);
    }
}

/* ---- an inout that is overwritten after the row's last pass, and what is made of its new value ---- */

static const shaped overwritten[] = {
    {"kernel late(x: f32[M, N], w: f32[K, N], a: inout f32[N]) -> (r: f32[M, N], p: f32[M, N])\n{\n"
     "    r[m, n] = logsumexp[k < K](a[n] + a[n]) + w[0, n]\n    a[n] = 0.5\n"
     "    p[m, n] = cumsum[m](where(x[m, n] > 0.25, a[n]^3, 2))\n}\n",
     "total_2, a, a_once", NULL},
};

static void test_overwritten_late(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{3, 129, 70}, {40, 3, 33}};
    CHECK_ALL(overwritten, sizes);
}

/* ---- maps that read an array across their lanes take it by tiles ---- */

static const shaped transposed[] = {
    {"kernel turn(x: f32[M, N]) -> (y: f32[N, M]) { y[n, m] = x[m, n] }", "map", "scalar lanes"},
    {"kernel turn(x: bf16[M, N], b: f32[M]) -> (y: bf16[N, M]) { y[n, m] = silu(x[m, n]) + b[m] }", "map",
     "scalar lanes"},
    {"kernel turn(x: f8e4m3[B, M, N], r: f16[B, N, M]) -> (y: f16[B, N, M])\n{\n"
     "    y[k, n, m] = x[k, m, n] * 2 + r[k, n, m]\n}\n",
     "map", "scalar lanes"},
    {"kernel turn(x: bf16[M, N], z: f32[M, 2, N], w: f32[N]) -> (y: f32[N, M])\n{\n"
     "    y[n, m] = where(m > 3, x[m, n] * w[n], z[m, 1, n])\n}\n",
     "map", "scalar lanes"},
    {"kernel turn(x: inout f32[M, N], y: f16[N, M]) { x[m, n] = x[m, n] + y[n, m] }", "map", "scalar lanes"},
};

static void test_transposed(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{70, 300, 65}, {1, 1, 1},     {0, 5, 2},
                                                  {3, 130, 64},  {129, 33, 3},  {300, 129, 31},
                                                  {64, 256, 2},  {257, 16, 17}, {2, 0, 3}};
    CHECK_ALL(transposed, sizes);
    for (size_t k = 0; k < sizeof transposed / sizeof *transposed; k++) {
        hr_kernel *kernel;
        const char *source;
        good(hr_kernel_load(device, "turn.hr", transposed[k].text, strlen(transposed[k].text), NULL, &kernel),
             "turn");
        for (int e = 0; e < hr_kernel_extent_count(kernel); e++) {
            const char *name;
            int64_t value;
            hr_kernel_extent(kernel, e, &name, &value);
            good(hr_kernel_bind_extent(kernel, name, 300), "turn");
        }
        good(hr_kernel_fill(kernel, 3), "turn");
        good(hr_kernel_prepare(kernel, NULL), "turn");
        good(planned_source(kernel, &source), "turn");
        if (!strstr(source, "vf_transpose(square)")) fail_msg("no tiles: %s", transposed[k].text);
        hr_kernel_destroy(kernel);
    }
}

/* ---- products of 8-bit whole numbers are products, and exact ---- */

static const shaped bytes[] = {
    {"kernel scaled(a: i8[M, K], w: i8[N, K], sa: f32[M], sw: f32[N]) -> (c: bf16[M, N])\n{\n"
     "    c[m, n] = sum[k](a[m, k] * w[n, k]) * sa[m] * sw[n]\n}\n",
     "contract", "row"},
    {"kernel whole(a: u8[M, K], w: i8[K, N], b: i32[N]) -> (c: i32[M, N], d: i64[M, N], e: i8[M, N])\n{\n"
     "    s[m, n] = sum[k](a[m, k] * w[k, n])\n    c[m, n] = s[m, n] + b[n]\n"
     "    d[m, n] = s[m, n] % 1000\n    e[m, n] = s[m, n]\n}\n",
     "contract", "row"},
    {"kernel plain(a: i8[B, M, K], w: u8[B, N, K]) -> (c: i32[B, M, N])\n{\n"
     "    c[z, m, n] = sum[k](a[z, m, k] * w[z, n, k])\n}\n",
     "contract", "row"},
};

static void test_products_of_bytes(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{33, 70, 45, 20}, {1, 1, 1, 1}, {5, 0, 3, 2},
                                                  {2, 1100, 17, 5}, {0, 5, 3, 1}, {64, 3, 64, 64}};
    CHECK_ALL(bytes, sizes);
}

/* ---- counts in few places: each thread counts its share on its own ---- */

static const shaped counts[] = {
    {"kernel histogram(x: f32[N], low: f32 = -1, width: f32 = 0.125) -> (count: i32[B])\n{\n"
     "    count[clamp(i32(floor((x[n] - low) / width)), 0, B - 1)] += 1\n}\n",
     "scatter", NULL},
    {"kernel one(at: i32 = 0, n: i64 = 7, c: inout i64[B + 1], x: f32[N]) -> (s: f32)\n{\n    c[at] += n\n"
     "    s = sum[i](x[i])\n}\n",
     "scatter", NULL},
    {"kernel pairs(a: i32[N, M], c: inout i64[B, D], w: i16[N])\n{\n    c[abs(a[n, m]) % B, m % D] += "
     "w[n]\n}\n",
     "scatter", NULL},
};

static void test_counts(void **state) {
    (void)state;
    static const int64_t sizes[][EXTENTS_MOST] = {{3000, 16, 7, 5}, {1, 1, 1, 1},        {0, 3, 2, 2},
                                                  {77, 2048, 3, 2}, {100, 2049, 50, 70}, {5000, 3000, 1, 1}};
    CHECK_ALL(counts, sizes);
}

/* A place that is off is told by the text's own names, wherever it is added up. */
static void test_a_count_is_off(void **state) {
    (void)state;
    static const char text[] =
        "kernel off(at: i32[N]) -> (count: i32[B])\n{\n    count[at[n] - at[n] + 9] += 1\n}\n";
    for (int places = 9; places < 12; places++) {
        hr_kernel *kernel;
        good(hr_kernel_load(device, "off.hr", text, sizeof text - 1, NULL, &kernel), text);
        good(hr_kernel_bind_extent(kernel, "N", 100), text);
        good(hr_kernel_bind_extent(kernel, "B", places), text);
        good(hr_kernel_fill(kernel, 3), text);
        assert_int_equal(hr_kernel_launch(kernel), places == 9 ? HR_OUT_OF_RANGE : HR_OK);
        if (places == 9 && (!strstr(hr_last_error(), "off.hr:3:") || !strstr(hr_last_error(), "count")))
            fail_msg("%s", hr_last_error());
        hr_kernel_destroy(kernel);
    }
}

static void test_each_thread_counts_its_share(void **state) {
    (void)state;
    const char *source;
    hr_kernel *kernel;
    good(hr_kernel_load(device, "count.hr", counts[0].text, strlen(counts[0].text), NULL, &kernel), "count");
    good(hr_kernel_bind_extent(kernel, "N", 100), "count");
    good(hr_kernel_bind_extent(kernel, "B", 16), "count");
    good(hr_kernel_fill(kernel, 3), "count");
    good(hr_kernel_prepare(kernel, NULL), "count");
    good(planned_source(kernel, &source), "count");
    assert_non_null(strstr(source, "own[place] += 1"));
    hr_kernel_destroy(kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_totals_of_tasks),
                                       cmocka_unit_test(test_short_reductions),
                                       cmocka_unit_test(test_gathered_lanes),
                                       cmocka_unit_test(test_transposed),
                                       cmocka_unit_test(test_counts),
                                       cmocka_unit_test(test_a_count_is_off),
                                       cmocka_unit_test(test_each_thread_counts_its_share),
                                       cmocka_unit_test(test_products_of_bytes),
                                       cmocka_unit_test(test_overwritten_late),
                                       cmocka_unit_test(test_a_gathered_lane_is_off)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
