/* The gradients of attention on the emulated CUDA device against their meaning: causal, dense and windowed,
 * lengths beside those of tiles, widths of queries and values, arrays that begin anywhere; and what the
 * planner makes of them; by wgmma and by mma.sync. HR_TEST_LONG=1: all cases, else half of them; HR_ONLY=3:
 * that one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "schedule/target.h"
#include "support/cuda_test.h"
#include "support/sample.h"

enum { EXTENTS_MAX = 8 };

/* `data`: further parameters. */
#define TEXT_WITH(type, data, mask, more)                                                                    \
    "kernel k(do: " type "[B, I, E], q: " type "[B, I, D], k: " type "[B, J, D], v: " type                   \
    "[B, J, E], o: " type "[B, I, E], lse: f32[B, I]" data ") -> (dq: " type "[B, I, D], dk: " type          \
    "[B, J, D], dv: " type "[B, J, E]) {\n"                                                                  \
    "    s[b, i, j] = sum[d](q[b, i, d] * k[b, j, d]) * rsqrt(D)\n"                                          \
    "    p[b, i, j] = " mask "\n"                                                                            \
    "    along[b, i] = sum[e](do[b, i, e] * o[b, i, e])\n"                                                   \
    "    ds[b, i, j] = p[b, i, j] * (sum[e](do[b, i, e] * v[b, j, e]) - along[b, i])" more " * rsqrt(D)\n"   \
    "    dv[b, j, e] = sum[i](" type "(p[b, i, j]) * do[b, i, e])\n"                                         \
    "    dq[b, i, d] = sum[j](" type "(ds[b, i, j]) * k[b, j, d])\n"                                         \
    "    dk[b, j, d] = sum[i](" type "(ds[b, i, j]) * q[b, i, d]) }"
#define WEIGHT                 "exp(s[b, i, j] - lse[b, i])"
#define TEXT(type, mask, more) TEXT_WITH(type, "", mask, more)
static const char causal[] = TEXT("bf16", "where(j <= i, " WEIGHT ", 0)", "");
static const char dense[] = TEXT("bf16", WEIGHT, "");
static const char half[] = TEXT("f16", "where(j <= i + J - I, " WEIGHT ", 0)", "");
static const char window[] = TEXT("bf16", "where(i - j < 70 and j <= i + 3, " WEIGHT ", 0)", "");
/* Scores are 5 tanh(s / 5). */
static const char softcap[] = TEXT("bf16", "where(j <= i, exp(5 * tanh(s[b, i, j] / 5) - lse[b, i]), 0)",
                                   " * (1 - tanh(s[b, i, j] / 5)^2)");
/* Documents of 64 queries, as data say; the first keys are seen by all; keys that are not there. */
static const char documents[] = TEXT_WITH(
    "bf16", ", doc: i32[J]",
    "where(j <= i and doc[i + 0] % 2 + 2 * ((i + 0) // 64) == doc[j] % 2 + 2 * (j // 64), " WEIGHT ", 0)",
    "");
static const char prefix[] =
    TEXT_WITH("bf16", ", n: i32[B]", "where(j < n[b] % 100 or j <= i, " WEIGHT ", 0)", "");
static const char padded[] =
    TEXT_WITH("f16", ", there: bool[B, J]", "where(there[b, j] or j > 60, " WEIGHT ", 0)", "");
/* As many keys as data say, and of the gradients of weights those alone. */
static const char lengths[] =
    TEXT_WITH("bf16", ", n: i32[B]", "where(j < n[b] % (J + 9), " WEIGHT ", 0)", "");
/* What the text has of a pair beside its score. */
static const char biased[] = TEXT_WITH("bf16", ", bias: f32[I, J], slope: bf16[B]",
                                       "where(j <= i, exp(s[b, i, j] + bias[i, j] - slope[b] * f32(i - j) - "
                                       "lse[b, i]), 0)",
                                       "");
/* Weights are left out at random. */
#define KEPT "where(random(7, (b * I + i) * J + j) < 0.8, 1.25, 0)"
static const char dropout[] =
    "kernel k(do: bf16[B, I, E], q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], o: bf16[B, I, E], "
    "lse: "
    "f32[B, I]) -> (dq: bf16[B, I, D], dk: bf16[B, J, D], dv: bf16[B, J, E]) {\n"
    "    p[b, i, j] = where(j <= i, exp(sum[d](q[b, i, d] * k[b, j, d]) * rsqrt(D) - lse[b, i]), 0)\n"
    "    along[b, i] = sum[e](do[b, i, e] * o[b, i, e])\n"
    "    ds[b, i, j] = p[b, i, j] * (sum[e](do[b, i, e] * v[b, j, e]) * " KEPT " - along[b, i])\n"
    "    dv[b, j, e] = sum[i](bf16(p[b, i, j] * " KEPT ") * do[b, i, e])\n"
    "    dq[b, i, d] = sum[j](bf16(ds[b, i, j]) * k[b, j, d])\n"
    "    dk[b, j, d] = sum[i](bf16(ds[b, i, j]) * q[b, i, d]) }";
/* Four heads of queries read two of keys, whose gradients are sums over both. */
static const char grouped[] =
    "kernel k(do: bf16[B, 4, I, E], q: bf16[B, 4, I, D], k: bf16[B, 2, J, D], v: bf16[B, 2, J, E],\n"
    "         o: bf16[B, 4, I, E], lse: f32[B, 4, I])\n"
    "    -> (dq: bf16[B, 4, I, D], dk: f32[B, 2, J, D], dv: f32[B, 2, J, E]) {\n"
    "    p[b, h, i, j] = where(j <= i, exp(sum[d](q[b, h, i, d] * k[b, h // 2, j, d]) * rsqrt(D) - lse[b, h, "
    "i]), 0)\n"
    "    along[b, h, i] = sum[e](do[b, h, i, e] * o[b, h, i, e])\n"
    "    ds[b, h, i, j] = p[b, h, i, j] * (sum[e](do[b, h, i, e] * v[b, h // 2, j, e]) - along[b, h, i])\n"
    "    dq[b, h, i, d] = sum[j](bf16(ds[b, h, i, j]) * k[b, h // 2, j, d]) * rsqrt(D)\n"
    "    dk[b, h // 2, j, d] += sum[i](bf16(ds[b, h, i, j]) * q[b, h, i, d]) * rsqrt(D)\n"
    "    dv[b, h // 2, j, e] += sum[i](bf16(p[b, h, i, j]) * do[b, h, i, e]) }";
/* The gradient of a score is more than its weight leaves: nothing is left out. */
static const char open[] =
    "kernel k(do: bf16[B, I, E], q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], lse: f32[B, I])\n"
    "    -> (dq: bf16[B, I, D], dk: bf16[B, J, D], dv: bf16[B, J, E]) {\n"
    "    p[b, i, j] = where(j <= i, exp(sum[d](q[b, i, d] * k[b, j, d]) * rsqrt(D) - lse[b, i]), 0)\n"
    "    ds[b, i, j] = p[b, i, j] * 0.5 + sum[e](do[b, i, e] * v[b, j, e]) * 0.1\n"
    "    dv[b, j, e] = sum[i](bf16(p[b, i, j]) * do[b, i, e])\n"
    "    dq[b, i, d] = sum[j](bf16(ds[b, i, j]) * k[b, j, d])\n"
    "    dk[b, j, d] = sum[i](bf16(ds[b, i, j]) * q[b, i, d]) }";
/* A score of 0 has an infinite weight: rows past the end, of which zeros stand there, have none. */
static const char past[] = TEXT("bf16", "exp(where(s[b, i, j] == 0, 1000, s[b, i, j] - lse[b, i]))", "");

/* As `headroom grad` writes it: the row comes behind the product that it belongs to. */
static const char derived[] = "kernel k(do: bf16[B, I, E], q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, "
                              "E], o: bf16[B, I, E], lse: "
                              "f32[B, I]) -> (dq: bf16[B, I, D], dk: bf16[B, J, D], dv: bf16[B, J, E]) {\n"
                              "    total[b, i, j] = sum[d](q[b, i, d] * k[b, j, d])\n"
                              "    t[b, i, j] = tanh(total[b, i, j] * (rsqrt(D) * 0.2))\n"
                              "    p[b, i, j] = where(j <= i, exp(t[b, i, j] * 5 - lse[b, i]), 0)\n"
                              "    along[b, i, j] = sum[e](do[b, i, e] * v[b, j, e])\n"
                              "    along2[b, i] = sum[e](do[b, i, e] * o[b, i, e])\n"
                              "    ds[b, i, j] = p[b, i, j] * (along[b, i, j] - along2[b, i])\n"
                              "    g[b, i, j] = ds[b, i, j] * (1 - t[b, i, j]^2)\n"
                              "    dq[b, i, d] = sum[j](k[b, j, d] * bf16(g[b, i, j])) * rsqrt(D)\n"
                              "    dk[b, j, d] = sum[i](q[b, i, d] * bf16(g[b, i, j])) * rsqrt(D)\n"
                              "    dv[b, j, e] = sum[i](do[b, i, e] * bf16(p[b, i, j])) }";
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
    int compute, offset;
    const char *says; /* in the words of the first product; NULL = they stay stages of their own */
} cases[] = {
    {causal, 2, 200, 200, 64, 64, 90, 0, "one kernel"},
    {dense, 1, 130, 70, 64, 128, 90, 0, "two kernels"},
    {causal, 1, 1, 1, 64, 64, 90, 0, "wgmma"},
    {dense, 1, 64, 300, 128, 128, 90, 0, "one kernel"},
    {causal, 1, 129, 127, 128, 64, 90, 0, "one kernel"},
    {half, 2, 100, 180, 40, 72, 90, 0, "two kernels"},
    {half, 1, 180, 100, 32, 32, 90, 0, "wgmma"},
    {window, 1, 300, 300, 64, 64, 90, 0, "past the mask"},
    {derived, 1, 150, 150, 64, 64, 90, 0, "wgmma"},
    {causal, 2, 150, 150, 64, 64, 90, 3, "wgmma"},
    {dense, 1, 70, 65, 96, 80, 90, 1, "wgmma"},
    {causal, 1, 257, 257, 112, 96, 90, 0, "wgmma"},
    {documents, 1, 200, 200, 64, 64, 90, 0, "lists the tiles"},
    {prefix, 2, 150, 190, 64, 64, 90, 0, "lists the tiles"},
    {padded, 2, 150, 130, 64, 64, 90, 3, "lists the tiles"},
    {lengths, 3, 70, 150, 64, 64, 90, 0, "past the mask"},
    {biased, 2, 90, 90, 64, 64, 90, 0, "past the mask"},
    {dropout, 1, 90, 90, 64, 64, 90, 0, "past the mask"},
    {open, 1, 190, 190, 64, 64, 90, 0, "wgmma"},
    {grouped, 1, 90, 90, 64, 64, 90, 0, "wgmma"},
    {past, 1, 70, 70, 64, 64, 90, 0, "wgmma"},
    {causal, 1, 70, 70, 136, 64, 90, 0, "two kernels"},
    {causal, 1, 200, 200, 256, 256, 90, 0, "by wgmma"},
    {half, 2, 70, 150, 192, 128, 90, 1, "by wgmma"},
    {causal, 1, 70, 70, 36, 64, 90, 0, "mma.sync"},
    {causal, 2, 130, 130, 64, 64, 80, 0, "past the mask"},
    {dense, 1, 65, 150, 256, 256, 80, 0, "mma.sync"},
    {half, 2, 100, 90, 192, 128, 80, 0, "mma.sync"},
    {causal, 1, 1, 1, 1, 3, 80, 0, "mma.sync"},
    {half, 2, 90, 70, 36, 72, 80, 1, "mma.sync"},
    {window, 1, 200, 200, 32, 96, 80, 0, "past the mask"},
    {softcap, 1, 70, 70, 80, 112, 80, 0, "mma.sync"},
    {documents, 1, 200, 200, 64, 40, 80, 0, "lists the tiles"},
    {prefix, 2, 150, 190, 64, 64, 80, 0, "lists the tiles"},
    {dropout, 1, 90, 90, 64, 64, 80, 0, "past the mask"},
    {lengths, 3, 70, 150, 64, 64, 80, 0, "past the mask"},
    {past, 1, 70, 70, 64, 64, 80, 0, "mma.sync"},
    {grouped, 1, 90, 90, 64, 64, 80, 0, "mma.sync"},
    {open, 1, 90, 90, 64, 64, 80, 0, "mma.sync"},
    {causal, 1, 70, 70, 264, 64, 80, 0, NULL},
    {causal, 1, 70, 70, 64, 64, 75, 0, NULL},
    {kept, 1, 70, 70, 64, 64, 90, 0, NULL},
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

/* Its last axis is that of keys. */
static bool is_of_pairs(const hr_plan *plan, int tensor) {
    const hr_tensor *t = &plan->normal->tensors[tensor];
    const hr_expr *last = t->shape[t->rank - 1];
    return last->op == HR_OP_EXTENT && plan->normal->extents[last->extent][0] == 'J';
}

/* One kernel or two for five products, and no memory for scores; or what they were. */
static void expect_kernels(const cuda_case *one, const char *says) {
    hr_plan *plan;
    int joined = 0;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    for (int s = 0; s < plan->stage_count; s++)
        joined += plan->stages[s].schedule->kind == HR_SCHEDULE_CUDA_BACKWARD;
    if (joined != (says ? 5 : 0) || (says && !strstr(plan->stages[0].why, says)))
        fail_msg("%d products go together: %s", joined, plan->stages[0].why);
    for (int t = 0; t < plan->normal->tensor_count && says; t++)
        if (hr_plan_is_scratch(plan, t) && plan->normal->tensors[t].rank > 2 && is_of_pairs(plan, t))
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
                         .limits = cuda_case_limits(cases[c].compute, 132),
                         .offset = cases[c].offset,
                         .seed = c,
                         .points = 300};
        if (only ? (size_t)atoi(only) != c : !sample_takes(c, 4)) continue;
        if (hr_program_parse("backward.hr", cases[c].text, strlen(cases[c].text), &program) != HR_OK)
            fail_msg("case %zu: %s", c, hr_last_error());
        assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
        extents_set(one.function, &cases[c], extents);
        expect_kernels(&one, cases[c].says);
        expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
}

/* The same mask as in `documents`, in words of which ranges say nothing. */
static const char scanned[] = TEXT_WITH(
    "bf16", ", doc: i32[J]",
    "where((j - i) * 1 <= 0 and f32(doc[i + 0] % 2 + 2 * ((i + 0) // 64)) == f32(doc[j] % 2 + 2 * (j "
    "// 64)), " WEIGHT ", 0)",
    "");

/* What the kernels read. */
static double read_by(const char *text, int compute) {
    const struct backward_case size = {text, 1, 330, 330, 32, 32, compute, 0, NULL};
    int64_t extents[EXTENTS_MAX];
    hr_program *program = program_of(text);
    cuda_case one = {.function = &program->functions[0],
                     .extents = extents,
                     .limits = cuda_case_limits(compute, 132),
                     .points = 60};
    cuda_outcome outcome = {0};
    extents_set(one.function, &size, extents);
    if (run_or_skip(&one, &outcome) != HR_OK) fail_msg("%s", hr_last_error());
    hr_program_destroy(program);
    return outcome.read;
}

/* Tiles that data leave out are not read. */
static void test_lists(void **state) {
    (void)state;
    for (int compute = 80; compute <= 90; compute += 10) {
        const double listed = read_by(documents, compute), all = read_by(scanned, compute);
        if (!(listed < 0.6 * all)) fail_msg("compute %d: %g of %g are read", compute, listed, all);
    }
}

/* A transformer's block, the same for training and its derived backward pass: what is rounded is kept in 16
 * bits; attention and its gradients are a kernel each, though others read them. */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_backward), cmocka_unit_test(test_lists),
                                       cmocka_unit_test(test_block), cmocka_unit_test(test_block_stages)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
