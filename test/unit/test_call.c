/* Calls of kernels: the text with its calls written out is what somebody would have written by hand, in
 * names, ranges, conversions and extents; and a kernel of calls gives what the kernels give one after the
 * other. */
#define _GNU_SOURCE
#include "base/text.h"
#include "ir/function_text.h"
#include "lang/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char parts[] =
    "kernel rmsnorm(x: T[M, N], w: T[N], eps: f32 = 1e-5) -> (y: T[M, N], rstd: f32[M])\n{\n"
    "    rstd[m] = rsqrt(mean[n](x[m, n]^2) + eps)\n"
    "    y[m, n] = T(x[m, n] * rstd[m] * w[n])\n}\n"
    "kernel linear(x: T[M, K], w: T[N, K]) -> (y: T[M, N])\n{\n"
    "    y[m, n] = sum[k](x[m, k] * w[n, k])\n}\n"
    "kernel keep(k: T[A, D], slot: i32[A], cache: inout T[S, D])\n{\n"
    "    cache[slot[a], d] = k[a, d] if slot[a] >= 0\n}\n"
    "kernel gate(x: f32[M, 2 * N]) -> (y: f32[M, N])\n{\n"
    "    s[m, n < N] = silu(x[m, n + 0])\n    y[m, n] = s[m, n] * x[m, n + N]\n}\n"
    "kernel fill(value: f32, low: i32) -> (y: f32[N])\n{\n"
    "    y[n] = value + max(low, 3)\n}\n"
    "kernel twice(x: f32[M, N], w: f32[N]) -> (y: f32[M, N], last: f32[M])\n{\n"
    "    a, _ = rmsnorm(x, w)\n    y, last = rmsnorm(a, w, eps=0)\n}\n"
    "kernel count(at: i32[T]) -> (n: i32[B])\n{\n    n[at[t]] += 1\n}\n"
    "kernel series(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = sum[k < K](x[n]^k)\n}\n";

static const struct {
    const char *call, *written;
} cases[] = {
    {"kernel one(x: bf16[R, C], w: bf16[C]) -> (y: bf16[R, C])\n{\n    y, _ = rmsnorm(x, w)\n}\n",
     "kernel one(x: bf16[R, C], w: bf16[C]) -> (y: bf16[R, C])\n{\n"
     "    rmsnorm_rstd[m] = rsqrt(mean[n](x[m, n]^2) + 1e-05)\n"
     "    y[m, n] = bf16(x[m, n] * rmsnorm_rstd[m] * w[n])\n}\n"},
    /* a caller's dtype variable, fixed axes, a place, an index of a name that the caller has a tensor of */
    {"kernel layer(x: E[T, C], norm: E[L, C], cache: inout E[L, S, C], slot: i32[T], l: i64, n: i32)\n"
     "    -> (m: f32[T])\n{\n"
     "    h, m = rmsnorm(x, norm[l], eps=1 / 8)\n    keep(h, slot, cache[l])\n}\n",
     "kernel layer(x: E[T, C], norm: E[L, C], cache: inout E[L, S, C], slot: i32[T], l: i64, n: i32)\n"
     "    -> (m: f32[T])\n{\n"
     "    m[rmsnorm_m] = rsqrt(mean[rmsnorm_n](x[rmsnorm_m, rmsnorm_n]^2) + f32(0.125))\n"
     "    h[rmsnorm_m, rmsnorm_n] = E(x[rmsnorm_m, rmsnorm_n] * m[rmsnorm_m] * norm[l, rmsnorm_n])\n"
     "    cache[l, slot[a], d] = h[a, d] if slot[a] >= 0\n}\n"},
    /* calls of calls, whose locals keep apart */
    {"kernel four(x: f32[R, C], w: f32[C]) -> (y: f32[R, C])\n{\n    b, _ = twice(x, w)\n"
     "    y, _ = twice(b, w)\n}\n",
     NULL},
    /* half of an axis */
    {"kernel mlp(x: f32[T, C], up: f32[2 * F, C], gate_up: f32[U, C]) -> (y: f32[T, F], z: f32[T, U // "
     "2])\n{\n"
     "    u = linear(x, up)\n    y = gate(u)\n    v = linear(x, gate_up)\n    z = gate(v)\n}\n",
     "kernel mlp(x: f32[T, C], up: f32[2 * F, C], gate_up: f32[U, C]) -> (y: f32[T, F], z: "
     "f32[T, U // 2])\n{\n"
     "    u[m, n] = sum[k](x[m, k] * up[n, k])\n"
     "    gate_s[m, n < F] = silu(u[m, n + 0])\n"
     "    y[m, n] = gate_s[m, n] * u[m, n + F]\n"
     "    v[m, n] = sum[k](x[m, k] * gate_up[n, k])\n"
     "    gate_s_2[m, n < U // 2] = silu(v[m, n + 0])\n"
     "    z[m, n] = gate_s_2[m, n] * v[m, n + U // 2]\n}\n"},
    /* scalars: a number stands as it is, what has another type is converted; extents by name and by result */
    {"kernel fills(a: f32, b: f64, at: i32[T]) -> (x: f32[P], y: f32[Q], n: i32[B], z: f32[P])\n{\n"
     "    x = fill(a, 5)\n    y = fill(b, low=T)\n    n = count(at)\n    z = series(x, K=4 * B)\n}\n",
     NULL},
};

static void test_written_out(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_text text = {0}, written = {0}, again = {0};
        hr_program *program = NULL, *back = NULL;
        const hr_function *function;
        hr_text_format(&text, "%s%s", cases[i].call, parts); /* what is called may stand below */
        if (hr_program_parse("k.hr", hr_text_data(&text), text.length, &program) != HR_OK)
            fail_msg("%s\n%s", cases[i].call, hr_last_error());
        function = &program->functions[0];
        assert_int_equal(hr_function_text(function, &written), HR_OK);
        if (cases[i].written) assert_string_equal(hr_text_data(&written), cases[i].written);
        if (hr_program_parse("k.hr", hr_text_data(&written), written.length, &back) != HR_OK)
            fail_msg("%s\n%s", hr_text_data(&written), hr_last_error());
        assert_int_equal(hr_function_text(&back->functions[0], &again), HR_OK);
        assert_string_equal(hr_text_data(&written), hr_text_data(&again));
        if (getenv("HR_VERBOSE")) print_message("%s", hr_text_data(&written));
        hr_program_destroy(program);
        hr_program_destroy(back);
        hr_text_clear(&text);
        hr_text_clear(&written);
        hr_text_clear(&again);
    }
}

/* ---- other files ---- */

static char folder[] = "/tmp/headroom-use-XXXXXX";

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void expect_mistake(const char *text, const char *said) {
    hr_program *program = NULL;
    assert_int_equal(hr_program_parse(path_of("main.hr"), text, strlen(text), &program), HR_BAD_INPUT);
    if (!strstr(hr_last_error(), said)) fail_msg("%s\nhas no '%s'", hr_last_error(), said);
}

static void test_use(void **state) {
    (void)state;
    static const char text[] = "use \"parts.hr\"\nuse \"rmsnorm.hr\"\n"
                               "kernel two(x: f32[M, N], w: f32[N]) -> (y: f32[M, N])\n{\n"
                               "    a, _ = rmsnorm(x, w)\n    b = flip(a)\n    y[m, n] = half(b[m, n])\n}\n";
    static const char written[] = "kernel two(x: f32[M, N], w: f32[N]) -> (y: f32[M, N])\n{\n"
                                  "    rmsnorm_rstd[m] = rsqrt(sum[n](x[m, n]^2) / N + 1e-06)\n"
                                  "    a[m, n] = x[m, n] * rmsnorm_rstd[m] * w[n]\n"
                                  "    b[m, n < N] = a[m, N - 1 - n]\n    y[m, n] = b[m, n] / 2\n}\n";
    hr_program *program = NULL;
    hr_text out = {0};
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("HEADROOM_KERNELS", HR_SOURCE_DIR "/kernels", 1), 0);
    write_file("parts.hr",
               "use \"main.hr\" # the text itself\nuse \"parts.hr\"\ndef half(x) = x / 2\n"
               "kernel flip(x: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = x[m, N - 1 - n]\n}\n"
               "kernel bad(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = z[n]\n}\n");
    if (hr_program_parse(path_of("main.hr"), text, strlen(text), &program) != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_int_equal(program->function_count, 1);
    assert_int_equal(hr_function_text(&program->functions[0], &out), HR_OK);
    assert_string_equal(hr_text_data(&out), written);
    size_t length;
    int line = program->functions[0].statements[2].value->place.line; /* of parts.hr */
    const char *shown = hr_program_line(program, line, &length);
    assert_int_equal(length, 29);
    assert_memory_equal(shown, "    y[m, n] = x[m, N - 1 - n]", 29);
    assert_non_null(strstr(hr_origin_path(&program->origin, &line), "/parts.hr"));
    assert_int_equal(line, 6);
    hr_program_destroy(program);
    hr_text_clear(&out);
    expect_mistake("use \"parts.hr\"\nkernel k(x: f32[N]) -> (y: f32[N]) { y = bad(x) }\n",
                   "parts.hr:10:12: error");
    expect_mistake("use \"parts.hr\"\nkernel k(x: f32[N]) -> (y: f32[N]) { y = bad(x) }\n",
                   "main.hr:2:42: error: this call of bad leads to the mistake on line 10 of ");
    expect_mistake("use \"nowhere.hr\"\n", "there is no file nowhere.hr");
    expect_mistake("use \"rmsnorm\"\n", "ends in .hr");
    expect_mistake("use \"../main.hr\"\n", "a file is named as it lies");
    expect_mistake("use \"/etc/hostname\"\n", "a file is named as it lies");
    expect_mistake("use parts\n", "the name of a file between quotes");
    expect_mistake("use \"parts.hr\"\n", "the text holds no kernel");
    expect_mistake("use \"parts.hr\"\ndef half(x) = x\nkernel k() -> (y: f32) { y = half(1) }\n",
                   "a second time");
    assert_int_equal(unlink(path_of("parts.hr")), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_out),
        cmocka_unit_test(test_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
