/* Axes that are counted in groups, heads that share keys: two axes in the plan, against the text's meaning,
 * at extents of which they are multiples and at others.
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

/* `split`: what the plan is where H is a multiple of J. */
static const struct split_case {
    const char *text, *split;
} cases[] = {
    {"kernel k(q: f32[B, H, D], k: i8[B, J, T, D], s: f32[B, J, T]) -> (y: f32[B, H, T])\n{\n"
     "    y[b, h, t] = sum[d](q[b, h, d] * k[b, h // (H // J), t, d]) * s[b, h // (H // J), t]\n}\n",
     "1 stage: contract"},
    {"kernel k(q: bf16[B, H, D], k: bf16[B, J, T, D], v: bf16[B, J, T, D]) -> (o: bf16[B, H, D])\n{\n"
     "    s[b, h, t] = sum[d](q[b, h, d] * k[b, h // (H // J), t, d]) * rsqrt(f32(D))\n"
     "    p[b, h, t] = softmax[t](s[b, h, t])\n"
     "    o[b, h, d] = sum[t](p[b, h, t] * v[b, h // (H // J), t, d])\n}\n",
     "3 stages: contract, row, contract"},
    {"kernel k(q: f32[B, H, D], k: f32[B, J, T, D]) -> (y: f32[B, H, T], h0: f32[B, T])\n{\n"
     "    y[b, h, t] = sum[d](q[b, h, d] * k[b, h // (H // J), t, d])\n"
     "    h0[b, t] = sum[h](y[b, h, t]) + y[b, 0, t]\n}\n",
     NULL},
    {"kernel k(q: f32[B, H, D], k: f32[B, J, T, D], a: f32[H]) -> (y: f32[B, H, T])\n{\n"
     "    y[b, h, t] = sum[d](q[b, h, d] * k[b, h // (H // J), t, d]) * a[h]\n}\n",
     NULL},
    {"kernel k(q: f32[B, H, D], k: f32[B, J, T, D]) -> (y: f32[B, H, T])\n{\n"
     "    y[b, h, t] = sum[d](q[b, h, d] * k[b, h // (H // J), t, d]) + where(h > 1, 1, 0)\n}\n",
     NULL},
    {"kernel k(p: f32[B, H, T], v: f32[B, J, T, D], w: f32[H, J]) -> (o: f32[B, H, D], m: i64[B, D])\n{\n"
     "    o[b, h, d] = sum[t](p[b, h, t] * v[b, h // (H // J), t, d])\n"
     "    m[b, d] = argmax[h](o[b, h, d])\n}\n",
     NULL},
};

typedef struct shape {
    int64_t b, h, j, t, d;
} shape;

static hr_kernel *load(const char *text, const shape *s) {
    hr_kernel *kernel;
    good(hr_kernel_load(device, "split.hr", text, strlen(text), NULL, &kernel));
    good(hr_kernel_bind_extent(kernel, "B", s->b));
    good(hr_kernel_bind_extent(kernel, "H", s->h));
    good(hr_kernel_bind_extent(kernel, "J", s->j));
    good(hr_kernel_bind_extent(kernel, "T", s->t));
    good(hr_kernel_bind_extent(kernel, "D", s->d));
    good(hr_kernel_fill(kernel, 3));
    return kernel;
}

static void check(const struct split_case *c, const shape *s, bool unfused) {
    hr_kernel *kernel = load(c->text, s);
    hr_check result = {0};
    hr_prepare_options options = {.size = sizeof options, .unfused = unfused};
    good(hr_kernel_prepare(kernel, &options));
    good(hr_kernel_check(kernel, 300, &result));
    if (!result.ok)
        fail_msg("%lld heads, %lld of keys: error %g, tolerance %g: %s in\n%s", (long long)s->h,
                 (long long)s->j, result.max_error, result.tolerance, result.where, c->text);
    hr_kernel_destroy(kernel);
}

static void test_results(void **state) {
    (void)state;
    static const shape shapes[] = {{2, 8, 2, 67, 40}, {1, 6, 3, 1, 5}, {3, 4, 4, 33, 16}, {2, 5, 1, 19, 64},
                                   {0, 8, 2, 5, 7},   {2, 8, 2, 0, 7}, {1, 12, 4, 130, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int unfused = 0; unfused < 2; unfused++)
                check(&cases[i], &shapes[s], unfused);
}

static void test_plans(void **state) {
    (void)state;
    const shape s = {2, 8, 2, 67, 40};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *plan;
        hr_kernel *kernel = load(cases[i].text, &s);
        good(hr_kernel_plan(kernel, &plan));
        if (cases[i].split && !strstr(plan, cases[i].split)) fail_msg("%s of\n%s", plan, cases[i].text);
        hr_kernel_destroy(kernel);
    }
}

/* Where groups do not come out even, heads of the last one leave the keys' axis, and the text says so. */
static void test_uneven_groups(void **state) {
    (void)state;
    const shape s = {2, 9, 4, 10, 8};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_kernel *kernel = load(cases[i].text, &s);
        assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
        hr_kernel_destroy(kernel);
    }
}

/* An axis after one that is split is named by its number in the text. */
static void test_named_axis(void **state) {
    (void)state;
    static const char text[] =
        "kernel k(q: f32[B, H, D], e: i32[D], k: f32[B, J, T, D]) -> (y: f32[B, H, T])\n{\n"
        "    y[b, h, t] = sum[d](q[b, h, e[d]] * k[b, h // (H // J), t, d])\n}\n";
    int32_t places[8] = {0, 1, 2, 3, 4, 5, 6, 8};
    const int64_t size[] = {8};
    const shape s = {2, 8, 2, 10, 8};
    const hr_array array = {.size = sizeof array, .data = places, .dtype = HR_I32, .rank = 1, .shape = size};
    for (int turn = 0; turn < 2; turn++) {
        hr_kernel *kernel = load(text, &s);
        hr_prepare_options options = {.size = sizeof options, .unfused = turn};
        good(hr_kernel_bind(kernel, "e", &array));
        good(hr_kernel_prepare(kernel, &options));
        assert_int_equal(hr_kernel_launch(kernel), HR_OUT_OF_RANGE);
        if (!strstr(hr_last_error(), "its axis 2 has 8 elements")) fail_msg("%s", hr_last_error());
        hr_kernel_destroy(kernel);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_results), cmocka_unit_test(test_plans),
                                       cmocka_unit_test(test_uneven_groups),
                                       cmocka_unit_test(test_named_axis)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
