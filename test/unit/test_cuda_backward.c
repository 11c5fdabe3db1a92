/* The gradients of attention on the emulated CUDA device against their meaning: causal, dense and windowed,
 * lengths beside those of tiles, widths of queries and values, arrays that begin anywhere; and what the
 * planner makes of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "schedule/target.h"
#include "support/cuda_test.h"

enum { EXTENTS_MAX = 8 };

#define TEXT(type, mask, more)                                                                               \
    "kernel k(do: " type "[B, I, E], q: " type "[B, I, D], k: " type "[B, J, D], v: " type                   \
    "[B, J, E], o: " type "[B, I, E], lse: f32[B, I]) -> (dq: " type "[B, I, D], dk: " type                  \
    "[B, J, D], dv: " type "[B, J, E]) {\n"                                                                  \
    "    s[b, i, j] = sum[d](q[b, i, d] * k[b, j, d]) * rsqrt(D)\n"                                          \
    "    p[b, i, j] = " mask "\n"                                                                            \
    "    along[b, i] = sum[e](do[b, i, e] * o[b, i, e])\n"                                                   \
    "    ds[b, i, j] = p[b, i, j] * (sum[e](do[b, i, e] * v[b, j, e]) - along[b, i])" more " * rsqrt(D)\n"   \
    "    dv[b, j, e] = sum[i](" type "(p[b, i, j]) * do[b, i, e])\n"                                         \
    "    dq[b, i, d] = sum[j](" type "(ds[b, i, j]) * k[b, j, d])\n"                                         \
    "    dk[b, j, d] = sum[i](" type "(ds[b, i, j]) * q[b, i, d]) }"
#define WEIGHT "exp(s[b, i, j] - lse[b, i])"

static const char causal[] = TEXT("bf16", "where(j <= i, " WEIGHT ", 0)", "");
static const char dense[] = TEXT("bf16", WEIGHT, "");
static const char half[] = TEXT("f16", "where(j <= i + J - I, " WEIGHT ", 0)", "");
static const char window[] = TEXT("bf16", "where(i - j < 70 and j <= i + 3, " WEIGHT ", 0)", "");
/* Scores are 5 tanh(s / 5). */
static const char softcap[] = TEXT("bf16", "where(j <= i, exp(5 * tanh(s[b, i, j] / 5) - lse[b, i]), 0)",
                                   " * (1 - tanh(s[b, i, j] / 5)^2)");
/* Weights are a result, too. */
static const char kept[] = "kernel k(do: bf16[B, I, E], q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, "
                           "E], lse: f32[B, I]) -> (dq: "
                           "bf16[B, I, D], dk: bf16[B, J, D], dv: bf16[B, J, E], p: f32[B, I, J]) {\n"
                           "    p[b, i, j] = exp(sum[d](q[b, i, d] * k[b, j, d]) * rsqrt(D) - lse[b, i])\n"
                           "    ds[b, i, j] = p[b, i, j] * sum[e](do[b, i, e] * v[b, j, e])\n"
                           "    dv[b, j, e] = sum[i](bf16(p[b, i, j]) * do[b, i, e])\n"
                           "    dq[b, i, d] = sum[j](bf16(ds[b, i, j]) * k[b, j, d])\n"
                           "    dk[b, j, d] = sum[i](bf16(ds[b, i, j]) * q[b, i, d]) }";

static const struct backward_case {
    const char *text;
    int64_t b, i, j, d, e;
    int offset;
    bool apart; /* they stay stages of their own */
} cases[] = {
    {causal, 2, 200, 200, 64, 64, 0, false},  {dense, 1, 130, 70, 64, 128, 0, false},
    {causal, 1, 1, 1, 64, 64, 0, false},      {dense, 1, 64, 300, 128, 128, 0, false},
    {causal, 1, 129, 127, 128, 64, 0, false}, {half, 2, 100, 180, 40, 72, 0, false},
    {half, 1, 180, 100, 32, 32, 0, false},    {window, 1, 300, 300, 64, 64, 0, false},
    {softcap, 1, 150, 150, 64, 64, 0, false}, {causal, 2, 150, 150, 64, 64, 3, false},
    {dense, 1, 70, 65, 96, 80, 1, false},     {causal, 3, 257, 257, 112, 96, 0, false},
    {causal, 1, 70, 70, 136, 64, 0, true},    {causal, 1, 70, 70, 36, 64, 0, true},
    {kept, 1, 70, 70, 64, 64, 0, true},
};

static void extents_set(const hr_function *function, const struct backward_case *one, int64_t *extents) {
    for (int x = 0; x < function->extent_count; x++) {
        const char name = *function->extents[x];
        extents[x] = name == 'B'   ? one->b
                     : name == 'I' ? one->i
                     : name == 'J' ? one->j
                     : name == 'D' ? one->d
                                   : one->e;
    }
}

/* Two kernels for five products, and no memory for scores; or what they were. */
static void expect_kernels(const cuda_case *one, bool apart) {
    hr_plan *plan;
    int joined = 0;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    for (int s = 0; s < plan->stage_count; s++)
        joined += plan->stages[s].schedule->kind == HR_SCHEDULE_CUDA_BACKWARD;
    if (joined != (apart ? 0 : 5)) fail_msg("%d products go together: %s", joined, plan->stages[0].why);
    for (int t = 0; t < plan->normal->tensor_count && !apart; t++)
        if (hr_plan_is_scratch(plan, t) && plan->normal->tensors[t].rank > 2)
            fail_msg("%s is in memory", plan->normal->tensors[t].name);
    hr_plan_destroy(plan);
}

static void test_backward(void **state) {
    (void)state;
    const char *only = getenv("HR_ONLY");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hr_program *program;
        int64_t extents[EXTENTS_MAX];
        cuda_case one = {.extents = extents,
                         .limits = cuda_case_limits(90, 132),
                         .offset = cases[c].offset,
                         .seed = c,
                         .points = 300};
        if (only && (size_t)atoi(only) != c) continue;
        if (hr_program_parse("backward.hr", cases[c].text, strlen(cases[c].text), &program) != HR_OK)
            fail_msg("case %zu: %s", c, hr_last_error());
        assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
        extents_set(one.function, &cases[c], extents);
        expect_kernels(&one, cases[c].apart);
        expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
}

/* A transformer's block, the same for training and its derived backward pass: what is rounded is kept in 16
 * bits; attention is one kernel, and its gradients are two, though others read them. */
static void test_block(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int narrow, attention, gradients; /* locals of 16 bits, stages */
    } files[] = {{"gpt2_block", 6, 3, 0}, {"gpt2_block_training", 3, 3, 0}, {"gpt2_block_backward", 9, 0, 5}};
    for (int f = 0; f < 3; f++) {
        char path[512];
        hr_program *program;
        hr_plan *plan;
        size_t length;
        int64_t extents[EXTENTS_MAX];
        cuda_case one = {.extents = extents, .limits = cuda_case_limits(90, 132), .seed = 3, .points = 60};
        snprintf(path, sizeof path, "%s/examples/%s.hr", HR_SOURCE_DIR, files[f].name);
        char *text = file_text(path, &length);
        assert_non_null(text);
        if (hr_program_parse(path, text, length, &program) != HR_OK) fail_msg("%s", hr_last_error());
        one.function = &program->functions[0];
        for (int e = 0; e < one.function->extent_count; e++) {
            static const struct {
                char name;
                int64_t size;
            } sizes[] = {{'T', 33}, {'C', 64}, {'H', 2}, {'D', 32}, {'F', 72}};
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                if (one.function->extents[e][0] == sizes[s].name) extents[e] = sizes[s].size;
        }
        assert_int_equal(hr_schedule_create(one.function, extents, NULL, &one.limits, NULL, &plan), HR_OK);
        int narrow = 0, attention = 0, gradients = 0;
        for (int i = 0; i < plan->stage_count; i++) {
            const hr_schedule *schedule = plan->stages[i].schedule;
            attention += schedule->kind == HR_SCHEDULE_CUDA_ATTENTION;
            gradients += schedule->kind == HR_SCHEDULE_CUDA_BACKWARD;
        }
        assert_int_equal(attention, files[f].attention);
        assert_int_equal(gradients, files[f].gradients);
        for (int t = hr_function_arguments(plan->normal); t < plan->normal->tensor_count; t++)
            narrow += plan->materialised[t] && plan->normal->tensors[t].dtype == HR_BF16;
        if (narrow < files[f].narrow) fail_msg("%d locals of %s are kept in 16 bits", narrow, files[f].name);
        expect_right(&one, f);
        hr_plan_destroy(plan);
        hr_program_destroy(program);
        free(text);
    }
}

/* The block at extents that are used, planned alone: no operand is laid out by a kernel of its own, results
 * are read again by no stage for their sums, and queries, keys and values are one walk. */
static void test_block_stages(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t tokens;
        int stages;
    } cases[] = {{"gpt2_block", 1024, 9},
                 {"gpt2_block_training", 1024, 9},
                 {"gpt2_block_training", 4096, 9},
                 {"gpt2_block_backward", 1024, 21},
                 {"gpt2_block_backward", 4096, 21}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t sizes[] = {['T'] = cases[i].tokens, ['C'] = 768, ['H'] = 12, ['D'] = 64, ['F'] = 3072};
        const hr_device_limits limits = cuda_case_limits(90, 132);
        char path[512];
        hr_program *program;
        hr_plan *plan;
        size_t length;
        int64_t extents[EXTENTS_MAX];
        snprintf(path, sizeof path, "%s/examples/%s.hr", HR_SOURCE_DIR, cases[i].name);
        char *text = file_text(path, &length);
        assert_non_null(text);
        if (hr_program_parse(path, text, length, &program) != HR_OK) fail_msg("%s", hr_last_error());
        const hr_function *function = &program->functions[0];
        for (int e = 0; e < function->extent_count; e++)
            extents[e] = sizes[(int)function->extents[e][0]];
        assert_int_equal(hr_schedule_create(function, extents, NULL, &limits, NULL, &plan), HR_OK);
        if (plan->stage_count > cases[i].stages)
            fail_msg("%s has %d stages", cases[i].name, plan->stage_count);
        for (int s = 0; s < plan->stage_count; s++) {
            const hr_schedule *schedule = plan->stages[s].schedule;
            const char *why = plan->stages[s].why;
            const bool joined =
                schedule->kind == HR_SCHEDULE_CUDA_ATTENTION || schedule->kind == HR_SCHEDULE_CUDA_BACKWARD;
            if (strstr(why, "laid out anew") || (joined && !strstr(why, "kernel")))
                fail_msg("%s, %d: %s", cases[i].name, s, why);
        }
        hr_plan_destroy(plan);
        hr_program_destroy(program);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_backward), cmocka_unit_test(test_block),
                                       cmocka_unit_test(test_block_stages)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
