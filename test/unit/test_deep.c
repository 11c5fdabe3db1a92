/* Kernels whose locals use each other twice over, sixty deep: as a tree 2^60 nodes, as a graph a few hundred.
 * Planning and emission that walk the tree never end, and a limit of the process's own time says so. */
#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/target.h"
#include "support/cuda_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

enum { DEPTH = 60, SECONDS = 20 };

/* `link` with %d for a link's number and the one before makes the chain from a0 to a60. */
static const struct deep_case {
    const char *name, *head, *first, *link, *rest;
} cases[] = {
#define LINK  "a%d[m, n] = a%d[m, n] * a%d[m, n] + a%d[m, n] * 0.5\n"
#define PLACE "a%d[m] = min(a%d[m], a%d[m] + 1 - a%d[m])\n"
    {"map", "x: f32[M, N]) -> (y: f32[M, N]", "a0[m, n] = x[m, n]\n", LINK, "y[m, n] = a60[m, n]\n"},
    {"row", "x: f32[M, N]) -> (y: f32[M, N]", "a0[m, n] = x[m, n]\n", LINK,
     "t[m] = max[n](a60[m, n])\ny[m, n] = a60[m, n] - t[m]\n"},
    {"function", "x: f32[M, N]) -> (y: f32[M, N]", "a0[m, n] = exp(x[m, n])\n", LINK,
     "t[m] = max[n](a60[m, n])\ny[m, n] = a60[m, n] - t[m]\n"},
    {"drawn", "x: f32[M, N]) -> (y: f32[M, N]", "a0[m, n] = x[m, n] * random(1, m * N + n)\n", LINK,
     "t[m] = max[n](a60[m, n])\ny[m, n] = a60[m, n] - t[m]\n"},
    {"column", "x: f32[M, N]) -> (y: f32[N]", "a0[m, n] = x[m, n]\n", LINK, "y[n] = sum[m](a60[m, n])\n"},
    {"backward", "x: bf16[M, N], g: bf16[M, N]) -> (y: bf16[M, N], c: f32[N]", "a0[m, n] = x[m, n]\n", LINK,
     "t[m] = sum[n](a60[m, n] * g[m, n])\ny[m, n] = a60[m, n] - t[m]\nc[n] = sum[m](a60[m, n] * g[m, n])\n"},
    {"softmax", "x: f32[M, N]) -> (y: f32[M, N]", "a0[m, n] = x[m, n]\n", LINK,
     "y[m, n] = softmax[n](a60[m, n])\n"},
    {"argmax", "x: f32[M, N]) -> (y: i32[M]", "a0[m, n] = x[m, n]\n", LINK, "y[m] = argmax[n](a60[m, n])\n"},
    {"transposed", "x: f32[M, N]) -> (y: f32[N, M]", "a0[m, n] = x[m, n]\n", LINK, "y[n, m] = a60[m, n]\n"},
    {"double", "x: f64[M, N]) -> (y: f64[M, N]", "a0[m, n] = x[m, n]\n", LINK,
     "t[m] = sum[n](a60[m, n])\ny[m, n] = a60[m, n] - t[m]\n"},
    {"product", "x: f32[M, K], w: f32[K, N]) -> (y: f32[M, N]", "a0[m, n] = sum[k](x[m, k] * w[k, n])\n",
     LINK, "y[m, n] = a60[m, n]\n"},
    {"operand", "x: f32[M, N], w: f32[N, K]) -> (y: f32[M, K]", "a0[m, n] = x[m, n]\n", LINK,
     "y[m, k] = sum[n](a60[m, n] * w[n, k])\n"},
    {"scatter", "i: i32[M], x: f32[M, N], y: inout f32[V, N]", "a0[m, n] = x[m, n]\n", LINK,
     "y[i[m], n] += a60[m, n]\n"},
    {"pair", "x: f32[M, 2, N]) -> (y: f32[M, 2, N]", "a0[m, p, n] = x[m, p, n]\n",
     "a%d[m, p, n] = a%d[m, p, n] * a%d[m, p, n] + a%d[m, p, n] * 0.5\n", "y[m, p, n] = a60[m, p, n]\n"},
    {"scatter of rows", "i: i32[M], x: f32[M, N], y: inout f32[48, N]", "a0[m, n] = x[m, n]\n", LINK,
     "y[i[m], n] += a60[m, n]\n"},
    {"gather", "i: i32[M], x: f32[V, N]) -> (y: f32[M, N]", "a0[m] = i[m]\n", PLACE,
     "y[m, n] = x[a60[m], n]\n"},
    {"place", "i: i32[M], z: f32[V], x: f32[M, N]) -> (y: f32[M, N]", "a0[m] = i[m]\n", PLACE,
     "t[m] = max[n](x[m, n])\ny[m, n] = (x[m, n] - t[m]) * z[a60[m]]\n"},
    {"place of a lane", "i: i32[M, N], z: f32[V]) -> (y: f32[M, N]", "a0[m, n] = i[m, n]\n",
     "a%d[m, n] = min(a%d[m, n], a%d[m, n] + 1 - a%d[m, n])\n", "y[m, n] = z[a60[m, n]]\n"},
};

static void print_case(const struct deep_case *one, hr_text *text) {
    hr_text_format(text, "kernel deep(%s)\n{\n%s", one->head, one->first);
    for (int i = 0; i < DEPTH; i++)
        hr_text_format(text, one->link, i + 1, i, i, i);
    hr_text_format(text, "%s}\n", one->rest);
}

static void plan_and_emit(const hr_function *function, const hr_device_limits *limits, int64_t row) {
    int64_t extents[4] = {16, row, 48, 48};
    hr_text words = {0};
    hr_emitted emitted;
    hr_plan *plan;
    assert_int_equal(hr_schedule_create(function, extents, NULL, limits, NULL, &plan), HR_OK);
    hr_schedule_explain(plan, extents, &words);
    hr_status status =
        limits->compute ? hr_emit_cuda(plan, extents, NULL, &emitted) : hr_emit_c(plan, NULL, &emitted);
    assert_int_equal(status, HR_OK);
    hr_emitted_clear(&emitted);
    hr_text_clear(&words);
    hr_plan_destroy(plan);
}

/* 0 = none any more */
static void limit_set(int seconds) {
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

static const hr_device_limits cpu = {
    .threads = 2, .vector_bytes = 64, .l1_bytes = 49152, .l2_bytes = 2 << 20, .isa = "avx512"};

static void test_deep(void **state) {
    hr_device_limits cuda = cuda_case_limits(90, 0);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_text text = {0};
        hr_program *program;
        const hr_function *function;
        print_case(&cases[i], &text);
        limit_set(SECONDS);
        if (hr_program_parse(cases[i].name, text.data, text.length, &program) != HR_OK)
            fail_msg("%s", hr_last_error());
        assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
        for (int64_t row = 64; row <= 65536; row *= getenv("HR_TEST_LONG") ? 32 : 1024) {
            plan_and_emit(function, &cpu, row);
            plan_and_emit(function, &cuda, row);
        }
        limit_set(0);
        hr_program_destroy(program);
        hr_text_clear(&text);
    }
}

/* Each statement is a stage, and each stage's function looks at every name: what is too much is refused. */
static void test_many_stages(void **state) {
    hr_device_limits cuda = cuda_case_limits(90, 0);
    (void)state;
    static const int counts[] = {400, 3000};
    for (int i = 0; i < 2; i++) {
        hr_text text = {0};
        hr_program *program;
        int64_t extents[] = {33};
        hr_text_format(&text, "kernel many(x: f32[N]) -> (y: f32[N])\n{\nt0 = x[0]\n");
        for (int n = 1; n < counts[i]; n++)
            hr_text_format(&text, "t%d = t%d + 1\n", n, n - 1);
        hr_text_format(&text, "y[n] = t%d\n}\n", counts[i] - 1);
        limit_set(SECONDS);
        assert_int_equal(hr_program_parse("many.hr", text.data, text.length, &program), HR_OK);
        const hr_function *function = &program->functions[0];
        if (i == 0) {
            plan_and_emit(function, &cpu, 33);
            plan_and_emit(function, &cuda, 33);
        } else {
            hr_plan *plan;
            assert_int_equal(hr_schedule_create(function, extents, NULL, &cpu, NULL, &plan), HR_BAD_INPUT);
            assert_string_equal(hr_last_error(), "kernel many is too large to plan: split it into several");
        }
        limit_set(0);
        hr_program_destroy(program);
        hr_text_clear(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_deep), cmocka_unit_test(test_many_stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
