/* Maps whose lanes are not all alike, a place that one lane of a row is at, and maps over a short axis. Every
 * element of every result is compared with the interpreter's. */
#include "device/device.h"
#include "support/core_kinds.h"
#include "support/cpu_device.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, EVERY = 1 << 20 };

static void good(hr_status status, const char *what) {
    if (status != HR_OK) fail_msg("%s: %s", what, hr_last_error());
}

static void *data_of(hr_kernel *kernel, const char *name) {
    hr_array array = {.size = sizeof array};
    good(hr_kernel_array(kernel, name, &array), name);
    return array.data;
}

static void check_all(hr_kernel *kernel, const char *text) {
    hr_check check = {0};
    good(hr_kernel_check(kernel, EVERY, &check), text);
    if (!check.ok)
        fail_msg("error %g, tolerance %g: %s\n%s", check.max_error, check.tolerance, check.where, text);
}

static const char *const seeking[] = {
    "kernel seek(x: bf16[M, N], at: i32[M]) -> (y: bf16[M, N])\n{\n"
    "    y[m, n] = exp(x[m, n]) - where(n == at[m], 1, 0)\n}\n",
    "kernel seek(x: f32[M, N], at: i32[M]) -> (y: f32[M, N])\n{\n"
    "    y[m, n] = where(at[m] == n, 7, x[m, n])\n}\n",
    "kernel seek(x: inout bf16[M, N], at: i32[M])\n{\n"
    "    x[m, n] = where(n == at[m] + 1, -x[m, n], 2 * x[m, n])\n}\n",
    "kernel seek(x: f16[M, N], at: i32[M]) -> (y: f16[M, N], s: f32[M])\n{\n"
    "    y[m, n] = x[m, n] * where(n == at[m], 3, 1)\n"
    "    s[m] = sum[n](where(n == at[m], 100, x[m, n]))\n}\n",
    "kernel seek(x: bf16[M, N], at: i32[M]) -> (y: bf16[M, N])\n{\n"
    "    y[m, n] = where(n == at[m], where(n == 3, 1, 2), where(not (n == at[m]), x[m, n], 4))\n}\n",
    "kernel seek(x: bf16[M, N], at: i32[M]) -> (y: bf16[M, N], z: bf16[M, N])\n{\n"
    "    y[m, n] = exp(x[m, n]) - where(n == at[m], 1, 0)\n    z[m, n] = exp(x[m, n]) * x[m, n]\n}\n",
};

/* At the beginning, the end, the ends of vectors, between, and nowhere. */
static void set_places(int32_t *at, int64_t columns) {
    const int32_t last = (int32_t)columns - 1;
    const int32_t places[ROWS] = {0, last, 15, 16, last / 2, -1, last + 1, INT32_MIN, 31};
    memcpy(at, places, sizeof places);
}

static void check_seeking(const char *text, int64_t columns) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "seek.hr", text, strlen(text), NULL, &kernel), text);
    good(hr_kernel_bind_extent(kernel, "M", ROWS), text);
    good(hr_kernel_bind_extent(kernel, "N", columns), text);
    good(hr_kernel_fill(kernel, 5), text);
    set_places(data_of(kernel, "at"), columns);
    check_all(kernel, text);
    hr_kernel_destroy(kernel);
}

static void test_one_lane_matches(void **state) {
    (void)state;
    static const int64_t columns[] = {1, 15, 16, 33, 64, 131, 1000};
    for (size_t t = 0; t < sizeof seeking / sizeof *seeking; t++)
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            if (sample_takes(t * (sizeof columns / sizeof *columns) + c, 3))
                check_seeking(seeking[t], columns[c]);
}

/* Each is written out where a row is whole lines, and says so. */
static const char *const short_axes[] = {
    "kernel turn(x: bf16[T, H, 2, D], c: f32[T, D], s: f32[T, D]) -> (y: bf16[T, H, 2, D])\n{\n"
    "    y[t, h, p, d] = x[t, h, p, d] * c[t, d] + (2 * p - 1) * x[t, h, 1 - p, d] * s[t, d]\n}\n",
    "kernel turn(x: inout f32[T, H, 2, D], c: f32[T, D], s: f32[T, D])\n{\n"
    "    x[t, h, p, d] = x[t, h, p, d] * c[t, d] + (1 - 2 * p) * s[t, d]\n}\n",
    "kernel turn(x: bf16[T, H, 2, D], c: f32[T, D]) -> (y: f16[T, H, 2, D], z: f32[T, H, 2, D])\n{\n"
    "    y[t, h, p, d] = where(p == 0, x[t, h, 0, d] - x[t, h, 1, d], x[t, h, 1, d] * c[t, d])\n"
    "    z[t, h, p, d] = where(p > 0, x[t, h, p - 1, d], exp(c[t, d])) + y[t, h, p, d]\n}\n",
    "kernel turn(x: f32[T, H, 4, D], c: bf16[D]) -> (y: f32[T, H, 4, D])\n{\n"
    "    y[t, h, p, d] = x[t, h, 3 - p, d] * c[d] - x[t, h, p // 2, d] * (p % 2)\n}\n",
    "kernel turn(x: bf16[T, 3, D], w: f32[D]) -> (y: bf16[T, 3, D])\n{\n"
    "    y[t, p, d] = x[t, p, d] * w[d] + where(d == p, 1, 0)\n}\n",
};

static void check_short_axis(const char *text, const int64_t *sizes) {
    hr_kernel *kernel;
    const char *source, *plan;
    good(hr_kernel_load(device, "turn.hr", text, strlen(text), NULL, &kernel), text);
    for (int e = 0; e < hr_kernel_extent_count(kernel); e++) {
        const char *name;
        int64_t value;
        hr_kernel_extent(kernel, e, &name, &value);
        good(hr_kernel_bind_extent(kernel, name, sizes[name[0] == 'T' ? 0 : name[0] == 'H' ? 1 : 2]), text);
    }
    good(hr_kernel_fill(kernel, 11), text);
    check_all(kernel, text);
    good(planned_source(kernel, &source), text);
    bool lines = sizes[2] % 32 == 0;
    if (lines != (strstr(source, "all of axis p at a time") != NULL)) fail_msg("%s", source);
    good(hr_kernel_plan(kernel, &plan), text);
    assert_null(strstr(plan, "y, y")); /* written out, and still one result */
    assert_null(strstr(plan, "x, x"));
    hr_kernel_destroy(kernel);
}

static void test_a_short_axis_is_written_out(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{3, 2, 32}, {2, 3, 64}, {1, 1, 96}, {0, 2, 64}, {2, 0, 64},
                                       {2, 2, 0},  {2, 2, 1},  {3, 1, 31}, {2, 3, 33}};
    for (size_t t = 0; t < sizeof short_axes / sizeof *short_axes; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (sample_takes(t * (sizeof sizes / sizeof *sizes) + s, 3))
                check_short_axis(short_axes[t], sizes[s]);
}

/* Places that a scalar moves: how far is not known before the launch. */
static const char *const moved[] = {
    "kernel moved(x: f32[N], o: i32) -> (y: f32[N])\n{\n"
    "    y[n] = where(n + o >= 0 and n + o < N, x[n + o], 7)\n}\n",
    "kernel moved(x: bf16[N], o: i64) -> (y: bf16[N])\n{\n"
    "    y[n] = where(o + 2 * n >= 0 and min(2 * n + o, N) < N, x[(2 * n + o) % N], x[n])\n}\n",
    "kernel moved(x: f32[N], o: i8) -> (y: f32[N], z: i32[N])\n{\n"
    "    y[n] = x[clamp(n - o, 0, N - 1)] + where(n == o, 1, 0)\n    z[n] = max(n, o) - n * o\n}\n",
};

static void test_a_scalar_moves_places(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof moved / sizeof *moved; t++)
        for (int64_t columns = 1; columns < 300; columns += 149)
            for (int offset = -3; offset < 4; offset += 3) {
                if (!sample_takes(t * 6 + (size_t)(columns / 149 * 3 + offset / 3 + 1), 2)) continue;
                hr_kernel *kernel;
                good(hr_kernel_load(device, "moved.hr", moved[t], strlen(moved[t]), NULL, &kernel), moved[t]);
                good(hr_kernel_bind_extent(kernel, "N", columns), moved[t]);
                good(hr_kernel_bind_scalar(kernel, "o", offset), moved[t]);
                good(hr_kernel_fill(kernel, 5), moved[t]);
                check_all(kernel, moved[t]);
                hr_kernel_destroy(kernel);
            }
}

/* Walked as one axis, drawn a tile ahead: tiles, blocks and threads end anywhere. */
static const char *const flat[] = {
    "kernel flat(x: bf16[A, B, C], z: f32[A, B, C], p: f32 = 0.3) -> (y: bf16[A, B, C], w: f32[A, B, C])\n{\n"
    "    y[a, b, c] = where(random(5, (a * B + b) * C + c) >= p, x[a, b, c] * 2, 0)\n"
    "    w[a, b, c] = z[a, b, c] * random(6, (a * B + b) * C + c) + y[a, b, c]\n}\n",
    "kernel flat(x: f32[A, B, C], z: inout f64[A, B, C]) -> (y: f16[A, B, C])\n{\n"
    "    z[a, b, c] = z[a, b, c] + x[a, b, c]\n    y[a, b, c] = abs(x[a, b, c] * 10)\n}\n",
    "kernel flat(x: bf16[A, B, C], z: f32[A, B, C]) -> (y: f32[A, B, C], w: bf16[A, B, C], v: i32[A, B, "
    "C])\n{\n"
    "    y[a, b, c] = x[a, b, c] * z[a, b, c]\n    w[a, b, c] = exp(x[a, b, c])\n"
    "    v[a, b, c] = where(z[a, b, c] > 0, 1, -1)\n}\n",
    "kernel flat(x: bf16[A, B, C], z: bf16[A, B, C]) -> (y: bf16[A, B, C], w: bf16[A, B, C])\n{\n"
    "    y[a, b, c] = silu(x[a, b, c]) * z[a, b, c]\n    w[a, b, c] = silu(x[a, b, c]) + x[a, b, c]\n}\n",
};

static void test_axes_are_one(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},    {2, 3, 5},     {1, 2, 1023},  {7, 0, 9},    {3, 191, 1},
                                        {2, 1, 8191}, {2, 2, 32800}, {1, 1, 65537}, {31, 17, 449}};
    for (size_t t = 0; t < sizeof flat / sizeof *flat; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            hr_kernel *kernel;
            good(hr_kernel_load(device, "flat.hr", flat[t], strlen(flat[t]), NULL, &kernel), flat[t]);
            const char *source;
            for (int e = 0; e < 3; e++)
                good(hr_kernel_bind_extent(kernel, (const char[]){"ABC"[e], 0}, shapes[s][e]), flat[t]);
            good(hr_kernel_fill(kernel, 3), flat[t]);
            check_all(kernel, flat[t]);
            good(planned_source(kernel, &source), flat[t]);
            assert_non_null(strstr(source, "as one axis"));
            hr_kernel_destroy(kernel);
        }
}

/* Lines go between the rounds of numbers where a core's stores wait for long, and bf16 goes as even and odd
 * lanes with words that are drawn in that order: groups of numbers that begin with a block, that do not, and
 * that go over the end of the lower word of a block's number; results that begin anywhere.
 */
static void check_drawn(const char *name, const char *body, const char *counter, int64_t length, int offset) {
    char text[320];
    hr_kernel *kernel;
    hr_dtype dtype = strcmp(name, "f32") == 0 ? HR_F32 : HR_BF16;
    size_t size = dtype == HR_F32 ? 4 : 2, bytes = (size_t)length * size;
    char *const memory = aligned_alloc(64, (bytes + 128 + 63) / 64 * 64);
    assert_non_null(memory);
    char value[160];
    snprintf(value, sizeof value, body, counter, counter);
    snprintf(text, sizeof text, "kernel drop(x: %s[N]) -> (y: %s[N])\n{\n    y[i] = %s\n}\n", name, name,
             value);
    const hr_array y = {.size = sizeof y,
                        .data = memory + (size_t)offset * size,
                        .dtype = dtype,
                        .rank = 1,
                        .shape = &length};
    good(hr_kernel_load(device, "drop.hr", text, strlen(text), NULL, &kernel), text);
    good(hr_kernel_bind(kernel, "y", &y), text);
    good(hr_kernel_fill(kernel, 5), text);
    check_all(kernel, text);
    const char *source;
    good(planned_source(kernel, &source), text);
    const bool wide = hr_limits_lanes(&device->limits) == 16, single = strstr(body, ">=") != NULL;
    const bool beside = dtype == HR_F32 && wide && single;
    if (beside != (strstr(source, "random_group_round(drawn") != NULL))
        fail_msg("%s: %lld", text, (long long)length);
    const bool turns = dtype == HR_BF16 && wide;
    if (turns != (strstr(source, "if (even_odd) {") != NULL)) fail_msg("%s: %lld", text, (long long)length);
    hr_kernel_destroy(kernel);
    free(memory);
}

static void test_numbers_beside_lanes(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16"};
    static const char *const bodies[] = {"where(random(5, %s) >= 0.3, 2 * x[i], 0)",
                                         "where(random(5, %s) < 0.3, x[i], 0) - random(5, %s + 1)"};
    static const char *const counters[] = {"i", "i + 3", "i - 8", "4 * 4294967296 - 1024 + i"};
    static const int64_t lengths[] = {1, 255, 256, 300, 512, 1029, 5000, 7008, 70001, 70048};
    const hr_device_limits own = device->limits;
    core_kind(&device->limits, CORE_STORES_WAIT);
    for (int t = 0; t < 2; t++)
        for (int b = 0; b < 2; b++)
            for (size_t c = 0; c < sizeof counters / sizeof *counters; c++)
                for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++)
                    check_drawn(types[t], bodies[b], counters[c], lengths[n], (int)(n % 3 * 5));
    device->limits = own;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_lane_matches), cmocka_unit_test(test_a_scalar_moves_places),
        cmocka_unit_test(test_a_short_axis_is_written_out), cmocka_unit_test(test_axes_are_one),
        cmocka_unit_test(test_numbers_beside_lanes)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
