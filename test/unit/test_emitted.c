/* The emitted C and CUDA C of a few kernels, as it was when somebody last looked at it. HR_UPDATE_GOLDEN=1
 * writes it anew; a change of the emitter then shows as a diff to read. The prelude stays out: its own tests
 * cover it.
 */
#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/cuda/launches_cuda.h"
#include "schedule/target.h"
#include "support/cuda_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct golden_case {
    const char *name, *text;
    int64_t extents[4];
} cases[] = {
    {"map",
     "kernel k(x: f32[M, N], b: f32[N]) -> (y: bf16[M, N])\n{\n    y[m, n] = gelu(x[m, n] + b[n])\n}\n",
     {64, 1000}},
    {"row",
     "kernel k(x: bf16[M, N]) -> (y: bf16[M, N])\n{\n    y[m, n] = softmax[n](x[m, n])\n}\n",
     {64, 1000}},
    {"short",
     "kernel k(x: bf16[M, N]) -> (y: bf16[M, N])\n{\n    y[m, n] = softmax[n](x[m, n])\n}\n",
     {64, 100}},
    {"column",
     "kernel k(dy: f32[M, N], r: f32[M]) -> (dw: f32[N])\n{\n    dw[n] = sum[m](dy[m, n] * r[m])\n}\n",
     {64, 1000}},
    {"strips",
     "kernel k(dy: bf16[M, N], r: f32[M]) -> (dw: f32[N])\n{\n    dw[n] = sum[m](dy[m, n] * r[m])\n}\n",
     {64, 1 << 20}},
    {"few",
     "kernel k(x: f16[M, N], b: f32[N]) -> (y: f16[M, N])\n{\n    y[m, n] = x[m, n] + b[n]\n}\n",
     {2, 1 << 20}},
    {"scatter",
     "kernel k(at: i32[T], dy: bf16[T, C], d: inout f32[V, C])\n{\n    d[at[t], c] += dy[t, c]\n}\n",
     {64, 1000, 50}},
    {"order",
     "kernel k(at: i32[T], dy: bf16[T, C], d: inout f32[V, C])\n{\n    d[at[t], c] += dy[t, c]\n}\n",
     {64, 1000, 50000}},
    {"gather",
     "kernel k(at: i32[T], table: f16[V, C]) -> (y: f32[T, C])\n{\n    y[t, c] = table[at[t], c]\n}\n",
     {64, 50, 1000}},
    {"guard", "kernel k(x: f32[N]) -> (y: f32[N])\n{\n    y[i] = where(i > 0, x[i - 1], 0)\n}\n", {1000}},
    {"large", /* what is read leaves the L2 last; on the CPU the last pass walks rows from the end */
     "kernel k(x: f32[M, N], w: f32[N]) -> (y: f32[M, N], r: f32[M])\n{\n"
     "    r[m] = rsqrt(sum[n](x[m, n]^2) / N)\n    y[m, n] = x[m, n] * r[m] * w[n]\n}\n",
     {65536, 4096}},
    {"grouped", /* on the CPU groups of rows take each block of columns together */
     "kernel k(x: f32[M, N], w: f32[N], b: f32[N]) -> (y: f32[M, N])\n{\n"
     "    r[m] = rsqrt(sum[n](x[m, n]^2) / N)\n    y[m, n] = x[m, n] * r[m] * w[n] + b[n]\n}\n",
     {4096, 4096}},
    {"drawn", /* words of random numbers are compared as they are */
     "kernel k(x: f32[M, N], p: f32[M]) -> (y: f32[M, N])\n{\n"
     "    y[m, n] = where(random(7, m * N + n) < p[m], x[m, n], random(8, m * N + n))\n}\n",
     {64, 1000}},
    {"inout", "kernel k(p: inout f32[N], g: bf16[N], lr: f32)\n{\n    p[i] = p[i] - lr * g[i]\n}\n", {1000}},
};

/* What stands after the prelude. */
static const char *own_part(const char *source) {
    const char *own = strstr(source, "typedef struct fault_record");
    return own ? own : source;
}

/* From the first stage on, with the words in front of it. */
static const char *own_part_cuda(const char *source) {
    const char *own = strstr(source, "stage_0");
    while (own && own > source + 1 && !(own[-1] == '\n' && own[-2] == '\n'))
        own--;
    return own ? own : source;
}

static void compare(const char *name, const char *ending, const char *got) {
    char path[512];
    snprintf(path, sizeof path, "%s/test/golden/emitted/%s%s", HR_SOURCE_DIR, name, ending);
    if (getenv("HR_UPDATE_GOLDEN")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(got, file);
        fclose(file);
        return;
    }
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s is missing: run with HR_UPDATE_GOLDEN=1", path);
    char *want = calloc(1, 1 << 17);
    size_t length = fread(want, 1, (1 << 17) - 1, file);
    fclose(file);
    if (length != strlen(got) || strcmp(want, got) != 0)
        fail_msg("the emitted %s%s changed: read it, then run with HR_UPDATE_GOLDEN=1", name, ending);
    free(want);
}

static void check_plan(const struct golden_case *golden, const hr_function *function,
                       const hr_device_limits *limits) {
    hr_plan *plan;
    hr_emitted emitted;
    assert_int_equal(hr_schedule_create(function, golden->extents, NULL, limits, NULL, &plan), HR_OK);
    if (limits->compute) {
        const hr_emit_options fast = {.size = sizeof fast, .form = HR_SOURCE_THESE_EXTENTS};
        assert_int_equal(hr_emit_cuda(plan, golden->extents, &fast, &emitted), HR_OK);
        compare(golden->name, ".cu", own_part_cuda(hr_text_data(&emitted.source)));
    } else {
        assert_int_equal(hr_emit_c(plan, NULL, &emitted), HR_OK);
        compare(golden->name, ".c", own_part(hr_text_data(&emitted.source)));
    }
    hr_emitted_clear(&emitted);
    hr_plan_destroy(plan);
}

static void check_case(const struct golden_case *golden) {
    hr_program *program;
    const hr_function *function;
    hr_device_limits cuda = cuda_case_limits(90, 0), limits = {.threads = 2,
                                                               .vector_bytes = 64,
                                                               .l1_bytes = 32768,
                                                               .l2_bytes = 1 << 20,
                                                               .isa = "avx512"};
    assert_int_equal(hr_program_parse(golden->name, golden->text, strlen(golden->text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    check_plan(golden, function, &limits);
    check_plan(golden, function, &cuda);
    hr_program_destroy(program);
}

static void test_golden(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

/* A launch has a block for each row, or as many as it may have, which then take rows in turn. */
static void test_more_rows_than_blocks(void **state) {
    (void)state;
    const char *text =
        "kernel k(x: bf16[M, N]) -> (y: bf16[M, N])\n{\n    y[m, n] = softmax[n](x[m, n])\n}\n";
    const int64_t most = INT64_C(2147483647);
    hr_device_limits limits = cuda_case_limits(90, 0);
    hr_program *program;
    const hr_function *function;
    hr_launch launches[4];
    int count;
    assert_int_equal(hr_program_parse("rows", text, strlen(text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    for (int64_t rows = most; rows <= most + 1; rows++) {
        int64_t extents[] = {rows, 4096};
        hr_plan *plan;
        assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        assert_int_equal(hr_cuda_launches(plan, extents, launches, 4, &count), HR_OK);
        assert_int_equal(launches[0].grid[0], most);
        hr_emitted emitted;
        assert_int_equal(hr_emit_cuda(plan, extents, NULL, &emitted), HR_OK);
        assert_int_equal(strstr(hr_text_data(&emitted.source), "for (int64_t first") != NULL, rows > most);
        hr_emitted_clear(&emitted);
        hr_plan_destroy(plan);
    }
    hr_program_destroy(program);
}

static void emit_for(const char *text, const int64_t *extents, const hr_device_limits *limits,
                     const hr_knobs *knobs, hr_emitted *emitted) {
    const hr_schedule_options options = {.choice = hr_choice_of(0, knobs)};
    hr_program *program;
    const hr_function *function;
    hr_plan *plan;
    assert_int_equal(hr_program_parse("k", text, strlen(text), &program), HR_OK);
    assert_int_equal(hr_program_find(program, NULL, &function), HR_OK);
    assert_int_equal(hr_schedule_create(function, extents, NULL, limits, &options, &plan), HR_OK);
    assert_int_equal(hr_emit_c(plan, NULL, emitted), HR_OK);
    hr_plan_destroy(plan);
    hr_program_destroy(program);
}

/* For a core with vectors of `lanes` and a first-level cache of `l1` KB, of which 48 tell one that sees far.
 */
static void emit_lanes(const char *text, const int64_t *extents, int lanes, int l1, const hr_knobs *knobs,
                       hr_emitted *emitted) {
    const hr_device_limits limits = {
        .threads = 2, .vector_bytes = 4 * lanes, .l1_bytes = l1 << 10, .l2_bytes = 1 << 20, .isa = "given"};
    emit_for(text, extents, &limits, knobs, emitted);
}

static void emit_tuned(const char *text, const int64_t *extents, const hr_knobs *knobs, hr_emitted *emitted) {
    emit_lanes(text, extents, 16, 32, knobs, emitted);
}

/* Two passes over rows of `columns` elements, with or without a sum of columns. */
static void emit_rows(const char *type, bool sums, int64_t columns, int lanes, int l1, const hr_knobs *knobs,
                      hr_emitted *emitted) {
    char text[512];
    snprintf(text, sizeof text,
             "kernel k(dy: %s[M, N], x: %s[M, N]) -> (dx: %s[M, N]%s)\n{\n"
             "    along[m] = sum[n](dy[m, n] * x[m, n])\n"
             "    dx[m, n] = dy[m, n] - x[m, n] * along[m]\n%s}\n",
             type, type, type, sums ? ", dw: f32[N]" : "",
             sums ? "    dw[n] = sum[m](dy[m, n] * x[m, n])\n" : "");
    emit_lanes(text, (const int64_t[]){64, columns}, lanes, l1, knobs, emitted);
}

/* Rows side by side wait for what they read where they and their column sums fill the first-level cache, but
 * for those that narrow on a core that does not see far. They do not with short vectors, of which those with
 * 16-bit results go pass after pass, or as the tuner says. */
static void test_throttle(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int lanes, l1;
        int64_t columns;
        bool sums;
        hr_throttle asked, made; /* made = 0: pass after pass */
    } paces[] = {
        {"f32", 16, 48, 4096, true, 0, HR_THROTTLE_ADDRESSES},
        {"f32", 16, 32, 4096, true, 0, HR_THROTTLE_ADDRESSES},
        {"f32", 16, 48, 256, true, 0, HR_THROTTLE_NONE},
        {"f32", 16, 32, 256, true, 0, HR_THROTTLE_NONE},
        {"bf16", 16, 48, 4096, true, 0, HR_THROTTLE_ADDRESSES},
        {"bf16", 16, 32, 4096, true, 0, HR_THROTTLE_NONE},
        {"f32", 16, 48, 4096, false, 0, HR_THROTTLE_NONE},
        {"f32", 16, 48, 4096, true, HR_THROTTLE_NONE, HR_THROTTLE_NONE},
        {"f32", 16, 48, 4096, true, HR_THROTTLE_ADDRESSES, HR_THROTTLE_ADDRESSES},
        {"f32", 16, 32, 4096, false, HR_THROTTLE_ADDRESSES, HR_THROTTLE_ADDRESSES},
        {"bf16", 16, 32, 4096, false, HR_THROTTLE_ADDRESSES, HR_THROTTLE_ADDRESSES},
        {"f32", 8, 32, 4096, true, 0, HR_THROTTLE_NONE},
        {"f32", 8, 32, 4096, true, HR_THROTTLE_ADDRESSES, HR_THROTTLE_ADDRESSES},
        {"bf16", 8, 32, 4096, true, 0, 0},
        {"bf16", 8, 32, 4096, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
        const hr_knobs knobs = {.throttle = paces[i].asked};
        hr_emitted emitted;
        emit_rows(paces[i].type, paces[i].sums, paces[i].columns, paces[i].lanes, paces[i].l1, &knobs,
                  &emitted);
        const char *own = own_part(hr_text_data(&emitted.source));
        assert_int_equal(strstr(own, "stage_0_together(") != NULL, paces[i].made != 0);
        assert_int_equal(strstr(own, "i += stage_0_arrival(") != NULL,
                         paces[i].made == HR_THROTTLE_ADDRESSES);
        hr_emitted_clear(&emitted);
    }
}

/* Rows whose column sums leave the first-level cache beside them add them up two by two, where lanes are
 * narrowed and the core sees far. */
static void test_pairs(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int lanes, l1;
        int64_t columns;
        int asked;
        bool made;
    } pairs[] = {
        {"bf16", 16, 48, 8192, 0, true},  {"bf16", 16, 48, 1024, 0, false}, {"bf16", 16, 48, 8192, 1, false},
        {"bf16", 16, 32, 8192, 0, false}, {"bf16", 16, 32, 8192, 2, true},  {"f32", 16, 48, 8192, 0, false},
        {"f32", 16, 48, 8192, 2, true},   {"f32", 16, 48, 256, 4, true},    {"bf16", 8, 48, 8192, 0, false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        hr_emitted emitted;
        emit_rows(pairs[i].type, true, pairs[i].columns, pairs[i].lanes, pairs[i].l1,
                  &(hr_knobs){.jam = pairs[i].asked}, &emitted);
        const char *own = own_part(hr_text_data(&emitted.source));
        assert_int_equal(strstr(own, "stage_0_pair(a, live, area") != NULL, pairs[i].made);
        hr_emitted_clear(&emitted);
    }
}

/* Column sums alone are added up over four rows in registers, or row by row, as the tuner says, which asks
 * for lines further ahead. */
static void test_column_group(void **state) {
    (void)state;
    const char *text = "kernel k(x: bf16[M, N]) -> (y: f32[N])\n{\n    y[n] = sum[m](x[m, n])\n}\n";
    for (int group = 0; group < 2; group++) {
        hr_emitted emitted;
        emit_tuned(text, (const int64_t[]){64, 4096}, &(hr_knobs){.jam = group}, &emitted);
        const char *own = own_part(hr_text_data(&emitted.source));
        assert_int_equal(strstr(own, "group + 4 <= end") != NULL, group == 0);
        assert_int_equal(strstr(own, "prefetch_near(p1 + i + 4096)") != NULL, group == 1);
        hr_emitted_clear(&emitted);
    }
}

/* Maps over whole arrays are one axis, whatever their shape; what asks for one index alone is not. */
static void test_one_axis(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool flat;
    } cases[] = {
        {"kernel k(a: bf16[M, N], b: bf16[M, N]) -> (y: bf16[M, N])\n{\n    y[m, n] = a[m, n] * b[m, n]\n}\n",
         true},
        {"kernel k(a: f32[M, N], s: f32) -> (y: f64[M, N])\n{\n    y[m, n] = a[m, n] * s\n}\n", true},
        {"kernel k(a: inout f32[M, N])\n{\n    a[m, n] = 2 * a[m, n]\n}\n", true},
        {"kernel k(a: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = a[m, n] * random(3, n + m * N)\n}\n",
         true},
        {"kernel k(a: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = a[m, n] * random(3, n * M + m)\n}\n",
         false},
        {"kernel k(a: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = a[m, n] * random(n, m * N + n)\n}\n",
         false},
        {"kernel k(a: f32[M, N], b: f32[N]) -> (y: f32[M, N])\n{\n    y[m, n] = a[m, n] + b[n]\n}\n", false},
        {"kernel k(a: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = where(n > 0, a[m, n - 1], 0)\n}\n",
         false},
        {"kernel k(a: f32[M, N]) -> (y: f32[M, N])\n{\n    y[m, n] = a[m, n] * m\n}\n", false},
        {"kernel k(a: f32[M, 2 * N]) -> (y: f32[M, N])\n{\n    y[m, n] = a[m, n + 0]\n}\n", false},
        {"kernel k(a: f32[N, M]) -> (y: f32[M, N])\n{\n    y[m, n] = a[n, m]\n}\n", false},
    };
    static const int64_t shapes[][2] = {{1000, 64}, {2, 100000}, {5, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int s = 0; s < 3; s++) {
            hr_emitted emitted;
            emit_tuned(cases[i].text, shapes[s], &(hr_knobs){0}, &emitted);
            const char *own = own_part(hr_text_data(&emitted.source));
            if ((strstr(own, "as one axis") != NULL) != cases[i].flat) fail_msg("%s", cases[i].text);
            hr_emitted_clear(&emitted);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden),
                                       cmocka_unit_test(test_one_axis),
                                       cmocka_unit_test(test_more_rows_than_blocks),
                                       cmocka_unit_test(test_throttle),
                                       cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_column_group)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
