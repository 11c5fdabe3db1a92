/* Extents: values, solutions from arrays, checks of subscripts, defaults. */
#include "ir/count.h"
#include "ir/extent.h"
#include "lang/program.h"
#include "support/lang_text.h"

#include "base/dtype.h"

#define EXTENTS_MAX 16

static void unknown(int64_t *extents) {
    for (int i = 0; i < EXTENTS_MAX; i++)
        extents[i] = HR_EXTENT_UNKNOWN;
}

/* One parameter x of this shape; one axis solved from its size. */
static hr_status solve(const char *shape, int64_t size, int64_t known_m, int64_t *n) {
    char text[256];
    snprintf(text, sizeof text, "kernel k(m: f32[M], x: f32[%s]) -> (y: f32[N])\n{\n    y[i] = 1\n}\n",
             shape);
    hr_program *program = program_of(text);
    const hr_function *f = &program->functions[0];
    int64_t extents[EXTENTS_MAX];
    unknown(extents);
    extents[extent_named(f, "M")] = known_m;
    hr_status status = hr_extent_solve(f, 1, 0, size, extents);
    *n = extents[extent_named(f, "N")];
    hr_program_destroy(program);
    return status;
}

static void test_solve(void **state) {
    (void)state;
    const struct {
        const char *shape;
        int64_t size, m;
        hr_status status;
        int64_t n;
    } cases[] = {{"N", 7, 0, HR_OK, 7},
                 {"N", 0, 0, HR_OK, 0},
                 {"2 * N", 258, 0, HR_OK, 129},
                 {"N * 2 + 2", 258, 0, HR_OK, 128},
                 {"2 * (N + 1) - N", 5, 0, HR_OK, 3},
                 {"10 - N", 4, 0, HR_OK, 6},
                 {"M * N", 12, 4, HR_OK, 3},
                 {"M * N", 12, 0, HR_BAD_INPUT, HR_EXTENT_UNKNOWN},
                 {"M * N", 0, 0, HR_OK, HR_EXTENT_UNKNOWN},
                 {"M + N", 12, 4, HR_OK, 8},
                 {"M + N", 3, 4, HR_BAD_INPUT, HR_EXTENT_UNKNOWN},
                 {"2 * N", 259, 0, HR_BAD_INPUT, HR_EXTENT_UNKNOWN},
                 {"N * N", 9, 0, HR_OK, HR_EXTENT_UNKNOWN},
                 {"N // 2", 9, 0, HR_OK, HR_EXTENT_UNKNOWN},
                 {"M // 2 + N", 9, 5, HR_OK, 7},
                 {"M * N", 12, HR_EXTENT_UNKNOWN, HR_OK, HR_EXTENT_UNKNOWN},
                 {"N - N + 3", 3, 0, HR_OK, HR_EXTENT_UNKNOWN},
                 {"N - N + 3", 4, 0, HR_BAD_INPUT, HR_EXTENT_UNKNOWN},
                 {"M // 0 + N", 3, 4, HR_BAD_INPUT, HR_EXTENT_UNKNOWN},
                 {"4611686018427387904 * M * N", 3, 2, HR_BAD_INPUT, HR_EXTENT_UNKNOWN},
                 {"N + 9223372036854775807", 3, 2, HR_BAD_INPUT, HR_EXTENT_UNKNOWN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n;
        hr_status status = solve(cases[i].shape, cases[i].size, cases[i].m, &n);
        if (status != cases[i].status || n != cases[i].n)
            fail_msg("%s = %lld: status %d, N %lld (%s)", cases[i].shape, (long long)cases[i].size, status,
                     (long long)n, hr_last_error());
    }
}

static void test_solve_messages(void **state) {
    (void)state;
    int64_t n;
    assert_int_equal(solve("2 * N", 259, 0, &n), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(),
                        "axis 0 of x has 259 elements, and no whole number N makes its extent 2 * N so many");
    assert_int_equal(solve("M", 4, 3, &n), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "axis 0 of x has 4 elements, and its extent M is 3");
    assert_int_equal(solve("M + N", 3, 4, &n), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(),
                        "axis 0 of x has 3 elements, too few for its extent M + N: N would be -1");
}

static void test_value(void **state) {
    (void)state;
    hr_program *program = program_of("kernel k(x: f32[(M + 1) * 2 - N // 3]) -> (y: f32)\n{\n    y = 1\n}\n");
    const hr_function *f = &program->functions[0];
    int64_t extents[EXTENTS_MAX], value = -7;
    unknown(extents);
    assert_int_equal(hr_extent_value(f, f->tensors[0].shape[0], extents, &value), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "k: the extent M is not known; give it as M=NUMBER");
    extents[0] = 4;
    extents[1] = 7;
    assert_int_equal(hr_extent_value(f, f->tensors[0].shape[0], extents, &value), HR_OK);
    assert_int_equal(value, 8);
    extents[1] = 100;
    assert_int_equal(hr_extent_value(f, f->tensors[0].shape[0], extents, &value), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(),
                        "k: the extent (M + 1) * 2 - N // 3 is -23, and an extent is never negative");
    extents[0] = INT64_MAX;
    assert_int_equal(hr_extent_value(f, f->tensors[0].shape[0], extents, &value), HR_BAD_INPUT);
    assert_int_equal(value, 8);
    hr_program_destroy(program);
}

/* ---- checks of subscripts ---- */

/* Extents N and K. NULL: good; otherwise the words that the message must hold. */
static void assert_check(const char *body, int64_t n, int64_t k, const char *words) {
    char text[1024];
    snprintf(text, sizeof text,
             "kernel c(x: f32[N], z: f32[K], w: f32[N, K], t: i32[N], f: f32[N // 2], g: f32[K // 2], o: "
             "i32) -> (y: f32[N])\n"
             "{\n    %s\n}\n",
             body);
    hr_program *program = program_of(text);
    int64_t extents[EXTENTS_MAX] = {n, k};
    hr_status status = hr_extent_check(&program->functions[0], extents);
    if (words && status != HR_BAD_INPUT)
        fail_msg("%s passes at N=%lld K=%lld", body, (long long)n, (long long)k);
    if (words && !strstr(hr_last_error(), words)) fail_msg("'%s' is not in: %s", words, hr_last_error());
    if (!words && status != HR_OK) fail_msg("%s: %s", body, hr_last_error());
    hr_program_destroy(program);
}

static void test_subscripts(void **state) {
    (void)state;
    assert_check("y[i] = x[i]", 5, 1, NULL);
    assert_check("y[i] = x[i + 1]", 5, 1, "leaves axis 0: it runs from 1 to 5, and the axis has 5 elements");
    assert_check("y[i] = x[i - 1]", 5, 1, "it runs from -1 to 3");
    assert_check("y[i] = x[i] + x[-1]", 5, 1,
                 "it runs from -1 to -1, and the axis has 5 elements; places are counted from the first");
    assert_check("y[i] = x[N - 1 - i]", 5, 1, NULL);
    assert_check("y[i] = x[-i + 4]", 5, 1, NULL);
    assert_check("y[i] = where(i > 0, x[i - 1], 0)", 5, 1, NULL);
    assert_check("y[i] = where(x[i - 1] > 0, 1, 0)", 5, 1, "it runs from -1 to 3");
    assert_check("y[i] = x[0] + x[N - 1]", 1, 1, NULL);
    assert_check("y[i] = x[0] + x[1]", 1, 1, "it runs from 1 to 1, and the axis has 1 element;");
    assert_check("y[i] = x[2 * i - i]", 5, 1, NULL);
    assert_check("y[i] = sum[k](z[k] * x[K - 1 - k + i])", 5, 3, "it runs from 0 to 6");
    assert_check("y[i] = sum[k](z[k] * x[K - 1 - k])", 5, 3, NULL);
    assert_check("y[i] = sum[k < 2, j < 3](x[3 * k + j])", 6, 3, NULL);
    assert_check("y[i] = sum[k < 2, j < 3](x[3 * k + j])", 5, 3, "it runs from 0 to 5");
    /* what depends on data, or is not affine, is checked as the kernel runs */
    assert_check("y[i] = x[t[i] + 100]", 5, 1, NULL);
    assert_check("y[i] = x[i + o]", 5, 1, NULL);
    assert_check("y[i] = x[(i + 9) % N]", 5, 1, NULL);
    assert_check("y[i] = x[t[i + 1]]", 5, 1, "it runs from 1 to 5");
    /* an empty range reads nothing */
    assert_check("y[i] = x[i + 1] + z[7]", 0, 1, NULL);
    assert_check("y[i] = sum[k](z[k] * x[i + 7])", 5, 0, NULL);
    assert_check("y[i] = sum[k](z[k + 1] * z[k])", 5, 0, NULL);
    /* left sides */
    assert_check("y[i + 1] += x[i]", 5, 1, "it runs from 1 to 5");
    assert_check("y[N - 1 - i] += x[i]", 5, 1, NULL);
    assert_check("y[t[i]] += x[i]", 5, 1, NULL);
    /* locals have the extents of their indices */
    assert_check("l[k] = z[k]\n    y[i] = l[2 * i]", 3, 5, NULL);
    assert_check("l[k] = z[k]\n    y[i] = l[2 * i]", 3, 4, "it runs from 0 to 4");
    /* a shared argument of a def is looked at once, guarded or not */
    assert_check("y[i] = where(i > 0, x[i - 1], 0) + x[i - 1]", 5, 1, "it runs from -1 to 3");
    /* extents that only numbers can compare */
    assert_check("a[i] = f[i] + g[i]\n    y[i] = 1", 5, 4, NULL);
    assert_check("a[i] = f[i] + g[i]\n    y[i] = 1", 5, 6,
                 "ranges over 2 here, and axis 0 of g has 3 elements");
    /* arithmetic that leaves i64 */
    assert_check("y[i] = x[i * 4611686018427387904]", 9, 1, "leaves axis 0");
}

static void test_subscripts_are_shown_together(void **state) {
    (void)state;
    hr_program *program = program_of("kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = x[i + 1] +\n"
                                     "        x[i - 2] * x[i]\n}\n");
    int64_t extents[EXTENTS_MAX] = {8};
    assert_int_equal(hr_extent_check(&program->functions[0], extents), HR_BAD_INPUT);
    assert_string_equal(
        hr_last_error(),
        "test.hr:3:16: error: a subscript of x leaves axis 0: it runs from 1 to 8, and the axis has 8 "
        "elements; "
        "put it under where(...) or change the extents\n"
        "        y[i] = x[i + 1] +\n"
        "                   ^\n"
        "test.hr:4:13: error: a subscript of x leaves axis 0: it runs from -2 to 5, and the axis has 8 "
        "elements; put it under where(...) or change the extents\n"
        "            x[i - 2] * x[i]\n"
        "                ^");
    hr_program_destroy(program);
}

static void test_linear_in_shared_subscripts(void **state) {
    (void)state;
    char text[4096] = "def d(i) = i + i\nkernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = x[";
    for (int i = 0; i < 60; i++)
        strcat(text, "d(");
    strcat(text, "i");
    for (int i = 0; i < 60; i++)
        strcat(text, ")");
    strcat(text, "]\n}\n");
    hr_program *program = program_of(text);
    int64_t one = 1, two = 2;
    hr_work work;
    assert_int_equal(hr_extent_check(&program->functions[0], &one), HR_OK);
    assert_int_equal(hr_extent_check(&program->functions[0], &two), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "it runs from 0 to 1152921504606846976"));
    assert_int_equal(hr_work_count(&program->functions[0], &two, &work), HR_OK);
    hr_program_destroy(program);
}

static void test_sizes(void **state) {
    (void)state;
    hr_program *program = program_of("kernel k(x: f32[N, N, N, N]) -> (y: f32[N])\n{\n    y[i] = 1\n}\n");
    int64_t extent = 1 << 20;
    assert_int_equal(hr_extent_check(&program->functions[0], &extent), HR_BAD_INPUT);
    assert_string_equal(hr_last_error(), "k: tensor x has more elements than memory has addresses");
    hr_program_destroy(program);
}

/* ---- defaults ---- */

static double megabytes(const hr_function *f, const int64_t *extents) {
    double bytes = 0;
    for (int i = 0; i < f->parameter_count + f->result_count; i++) {
        double size = (double)hr_dtype_size(f->tensors[i].dtype);
        for (int axis = 0; axis < f->tensors[i].rank; axis++) {
            int64_t value;
            assert_int_equal(hr_extent_value(f, f->tensors[i].shape[axis], extents, &value), HR_OK);
            size *= (double)value;
        }
        bytes += size;
    }
    return bytes / (1 << 20);
}

static void test_defaults(void **state) {
    (void)state;
    const struct {
        const char *text;
        const char *extent;
        int64_t want;
        double least, most;
    } cases[] = {
        {"kernel k(x: bf16[M, N]) -> (y: bf16[M, N])\n{\n    y[m, n] = x[m, n]\n}\n", "N", 4096, 96, 256},
        {"kernel k(x: bf16[M, N]) -> (y: bf16[M, N])\n{\n    y[m, n] = x[m, n]\n}\n", "M", 8192, 96, 256},
        {"kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = x[n]\n}\n", "N", 1 << 24, 96, 256},
        {"kernel k(x: f32[N]) -> (y: f32)\n{\n    y = sum[n](x[n])\n}\n", "N", 1 << 25, 96, 256},
        {"kernel k(x: bf16[B, T, H, D]) -> (y: bf16[B, T, H, D])\n{\n    y[b, t, h, d] = x[b, t, h, d]\n}\n",
         "D", 128, 96, 256},
        {"kernel k(a: f32[M, K], b: f32[K, N]) -> (y: f32[M, N])\n{\n    y[m, n] = sum[k](a[m, k] * b[k, "
         "n])\n}\n",
         "M", 1024, 1, 64},
        {"kernel k(x: f32[M, 2 * N]) -> (y: f32[M, N])\n{\n    y[m, n] = x[m, n + 0] + x[m, n + N]\n}\n", "N",
         4096, 96, 256},
        {"kernel k(x: f32[M - 3]) -> (y: f32[M])\n{\n    y[m] = 1\n}\n", "M", 1 << 24, 96, 256},
        {"kernel k(x: f32[M, N]) -> (v: f32[M, K])\n{\n    v[m, r], _ = topk[n, r < K](x[m, n])\n}\n", "K", 8,
         96, 256},
        {"kernel k(x: f32[M, 5]) -> (v: f32[M, K])\n{\n    v[m, r], _ = topk[n, r < K](x[m, n])\n}\n", "K", 5,
         64, 256},
        {"kernel k() -> (y: f32)\n{\n    y = sum[k < K](1)\n}\n", "K", 16, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_program *program = program_of(cases[i].text);
        const hr_function *f = &program->functions[0];
        int64_t extents[EXTENTS_MAX];
        unknown(extents);
        assert_int_equal(hr_extent_default(f, extents), HR_OK);
        assert_int_equal(extents[extent_named(f, cases[i].extent)], cases[i].want);
        assert_int_equal(hr_extent_check(f, extents), HR_OK);
        double size = megabytes(f, extents);
        if (size < cases[i].least || size > cases[i].most) fail_msg("case %zu holds %g MB", i, size);
        hr_program_destroy(program);
    }
}

static void test_defaults_keep_what_is_known(void **state) {
    (void)state;
    hr_program *program =
        program_of("kernel k(x: f32[M, N]) -> (y: f32[M])\n{\n    y[m] = sum[n](x[m, n])\n}\n");
    int64_t extents[2] = {HR_EXTENT_UNKNOWN, 0};
    assert_int_equal(hr_extent_default(&program->functions[0], extents), HR_OK);
    assert_int_equal(extents[1], 0);
    assert_true(extents[0] > 0 && extents[0] <= 1 << 26);
    extents[0] = 3;
    extents[1] = HR_EXTENT_UNKNOWN;
    assert_int_equal(hr_extent_default(&program->functions[0], extents), HR_OK);
    assert_int_equal(extents[0], 3);
    assert_int_equal(extents[1], 4096);
    hr_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_solve),
                                       cmocka_unit_test(test_solve_messages),
                                       cmocka_unit_test(test_value),
                                       cmocka_unit_test(test_subscripts),
                                       cmocka_unit_test(test_subscripts_are_shown_together),
                                       cmocka_unit_test(test_linear_in_shared_subscripts),
                                       cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_defaults),
                                       cmocka_unit_test(test_defaults_keep_what_is_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
