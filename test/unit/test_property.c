/* Random programs of the language: what is compiled means what is interpreted. HR_SEEDS=first,last widens the
 * range, HR_DEVICE=cuda takes them to a GPU. */
#include "device/device.h"
#include "support/random_program.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static hr_device *device;

static hr_status bind_extents(hr_kernel *kernel, const hr_random_extent *extents) {
    hr_status status = HR_OK;
    for (int e = 0; e < hr_kernel_extent_count(kernel) && status == HR_OK; e++) {
        const char *name;
        int64_t value;
        hr_kernel_extent(kernel, e, &name, &value); /* its value is not known yet, its name is */
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            if (strcmp(name, extents[i].name) == 0)
                status = hr_kernel_bind_extent(kernel, name, extents[i].value);
    }
    return status;
}

/* Whether the compiled kernel agrees with its meaning; prints what a person needs to see otherwise. */
static bool text_agrees(const char *name, const char *text, const hr_random_extent *extents, uint64_t seed,
                        bool unfused) {
    hr_kernel *kernel = NULL;
    hr_check check = {0};
    hr_prepare_options options = {.size = sizeof options, .unfused = unfused};
    hr_status status = hr_kernel_load(device, name, text, strlen(text), NULL, &kernel);
    if (status == HR_OK) status = bind_extents(kernel, extents);
    if (status == HR_OK) status = hr_kernel_fill(kernel, seed);
    if (status == HR_OK) status = hr_kernel_prepare(kernel, &options);
    if (status == HR_OK) status = hr_kernel_check(kernel, 300, &check);
    bool good = status == HR_OK && check.ok;
    if (!good) {
        print_error("%s, seed %llu%s: %s%s, error %g, tolerance %g, at", name, (unsigned long long)seed,
                    unfused ? " unfused" : "", status == HR_OK ? "" : hr_last_error(), check.where,
                    check.max_error, check.tolerance);
        for (int i = 0; i < HR_RANDOM_EXTENTS; i++)
            print_error(" %s=%lld", extents[i].name, (long long)extents[i].value);
        print_error("\n%s\n", text);
    }
    hr_kernel_destroy(kernel);
    return good;
}

static bool agrees(uint64_t seed, bool unfused) {
    hr_text text = {0};
    hr_random_extent extents[HR_RANDOM_EXTENTS];
    assert_int_equal(hr_random_program(seed, &text, extents), HR_OK);
    bool good = text_agrees("random.hr", hr_text_data(&text), extents, seed, unfused);
    hr_text_clear(&text);
    return good;
}

static void check_seeds(unsigned long first, unsigned long last, bool unfused) {
    int wrong = 0;
    for (unsigned long seed = first; seed < last; seed++)
        if (getenv("HR_SEEDS") || sample_takes(seed, 6)) wrong += !agrees(seed, unfused);
    assert_int_equal(wrong, 0);
}

/* HR_SEEDS=first,last in place of the test's own. */
static void check_range(unsigned long first, unsigned long last) {
    const char *range = getenv("HR_SEEDS");
    if (range) sscanf(range, "%lu,%lu", &first, &last);
    check_seeds(first, last, false);
}

static void test_fused(void **state) {
    (void)state;
    check_range(0, 60);
}

/* What is planned otherwise where rows leave the caches, with rows of some tens of elements. */
static void test_small_caches(void **state) {
    (void)state;
    hr_device_limits own = device->limits;
    if (own.compute) skip(); /* a GPU's rows are chosen by their length alone */
    device->limits.l1_bytes = device->limits.l2_bytes = device->limits.l3_bytes = 128;
    check_range(2000, 2040);
    device->limits = own;
}

static void test_a_pass_a_statement(void **state) {
    (void)state;
    check_seeds(1000, 1020, true);
}

/* What random programs seldom reach: numbers drawn in one pass and used in another, with and without lanes.
 */
static const char *const written[] = {
    "kernel drawn(x: f32[M, N], seed: i64 = 7) -> (y: f32[M, N])\n{\n"
    "    a[m, n] = x[m, n] * random(seed, m * N + n)\n"
    "    t[m] = max[n](a[m, n])\n"
    "    y[m, n] = a[m, n] - t[m]\n}\n",
    "kernel drawn_a_row(x: f32[M, N], seed: i64 = 7) -> (y: f32[M, N], c: f32[N])\n{\n"
    "    t[m] = sum[n](x[m, n] * random(seed, m))\n"
    "    y[m, n] = x[m, n] * random(seed, m) - t[m]\n"
    "    c[n] = sum[m](y[m, n] * random(seed, m * N + n))\n}\n",
    "kernel drawn_peak(x: f32[M, N], seed: i64 = 7) -> (y: f32[M], p: f32[M, N])\n{\n"
    "    y[m] = logsumexp[n < N](random(seed, m + n))\n"
    "    p[m, n] = softmax[n](x[m, n] + random(seed, m + n))\n}\n",
    "kernel drawn_compared(x: bf16[M, N], q: f32[M], seed: i64 = 7) -> (y: bf16[M, N], z: f32[M, N])\n{\n"
    "    y[m, n] = where(random(seed, m * N + n + 3) >= 0.3, x[m, n], 2)\n"
    "    z[m, n] = where(random(seed, m * N + n) < q[m] + 0.5, x[m, n], 2) +\n"
    "              where(random(seed + 1, m * N + n) < 0.25, 1, random(seed + 1, m * N + n))\n}\n",
    "kernel drawn_always(x: f32[M, N], seed: i64 = 7) -> (y: f32[M, N], z: f32[M, N])\n{\n"
    "    y[m, n] = where(random(seed, m * N + n) >= 0, x[m, n], 2) +\n"
    "              where(random(seed + 1, m * N + n) < 1, x[m, n], 2)\n"
    "    z[m, n] = where(random(seed, m * N + n) >= 0 / 0, 1, 2) +\n"
    "              where(random(seed + 1, m * N + n) < 0 / 0, 1, 2)\n}\n",
    "kernel drawn_never(x: f32[M, N], seed: i64 = 7) -> (y: f32[M, N])\n{\n"
    "    y[m, n] = where(random(seed, m * N + n) >= 1, x[m, n], 2) +\n"
    "              where(random(seed + 1, m * N + n) < 0, x[m, n], 2)\n}\n",
    "kernel drawn_anywhere(x: bf16[M, N], seed: i64 = 7) -> (y: bf16[M, N])\n{\n"
    "    a[m, n] = where(random(seed, (m * N + n) * 3) < 0.5, exp(x[m, n]), 0)\n"
    "    t[m] = sum[n](a[m, n])\n"
    "    y[m, n] = a[m, n] / (1 + t[m])\n}\n",
};

/* What is one a task, or one in all, and replaces what every thread reads. */
static const char *const replaced[] = {
    "kernel one(x: f32[M, N], s: inout f32) -> (y: f32[M, N])\n{\n"
    "    s = 0.5 * s + 1\n"
    "    y[m, n] = x[m, n] * s\n}\n",
    "kernel summed(x: f32[N, M], s: inout f32) -> (y: f32)\n{\n"
    "    s = 0.5 * s + 1\n"
    "    y = sum[n, m](x[n, m] * s)\n}\n",
    "kernel each(x: f32[M, N], s: inout f32[M]) -> (y: f32[M, N])\n{\n"
    "    s[m] = 0.5 * s[m] + 1\n"
    "    y[m, n] = x[m, n] * s[m]\n}\n",
    "kernel reduced(x: f32[M, N], s: inout f32[M]) -> (y: f32[M, N])\n{\n"
    "    t[m] = sum[n](x[m, n])\n"
    "    s[m] = 0.5 * s[m] + t[m]\n"
    "    y[m, n] = x[m, n] * s[m]\n}\n",
};

static void check_texts(const char *const *texts, int count) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {5, 257}, {2, 1031}, {67, 3}, {2, 70001}};
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            hr_random_extent extents[HR_RANDOM_EXTENTS] = {
                {"M", sizes[k][0]}, {"N", sizes[k][1]}, {"", 0}, {"", 0}};
            if (!sample_takes((size_t)i * 6 + k, 7)) continue;
            assert_true(text_agrees("written.hr", texts[i], extents, 1, false));
            assert_true(text_agrees("written.hr", texts[i], extents, 2, true));
        }
}

static void test_written(void **state) {
    (void)state;
    check_texts(written, (int)(sizeof written / sizeof *written));
    check_texts(replaced, (int)(sizeof replaced / sizeof *replaced));
}

static int open_device(void **state) {
    (void)state;
    const char *name = getenv("HR_DEVICE");
    if (hr_device_open(name ? name : "cpu", &device) == HR_OK) return 0;
    print_error("%s\n", hr_last_error());
    return -1;
}

static int close_device(void **state) {
    (void)state;
    hr_device_destroy(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fused), cmocka_unit_test(test_small_caches),
                                       cmocka_unit_test(test_written),
                                       cmocka_unit_test(test_a_pass_a_statement)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
