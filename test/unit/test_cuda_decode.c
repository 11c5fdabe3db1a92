/* Attention of few queries on the emulated CUDA device against its meaning: one query of each head against a
 * long cache, heads that share keys and heads that do not, lengths of each sequence from data, pages by a
 * table, several queries, results beside the values, keys in parts, arrays that begin anywhere, values that
 * are not finite, and other architectures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lang/program.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/target.h"
#include "support/cuda_test.h"

enum { EXTENTS_MAX = 16 };

#define SCORE     "sum[d](q[b, h, d] * k[b, j, h // (H // G), d]) * rsqrt(D)"
#define VALUE     "    o[b, h, e] = sum[j](softmax[j](s[b, h, j]) * v[b, j, h // (H // G), e]) }"
#define ARGUMENTS "q: bf16[B, H, D], k: bf16[B, J, G, D], v: bf16[B, J, G, E]"

static const char grouped[] = "kernel k(" ARGUMENTS ") -> (o: bf16[B, H, E]) {\n"
                              "    s[b, h, j] = " SCORE "\n" VALUE;
static const char ragged[] = "kernel k(" ARGUMENTS ", length: i32[B]) -> (o: bf16[B, H, E]) {\n"
                             "    s[b, h, j] = where(j < length[b] % (J + 1), " SCORE ", -inf)\n" VALUE;
/* The last 40 keys of what is there. */
static const char window[] =
    "kernel k(" ARGUMENTS ", length: i32[B]) -> (o: bf16[B, H, E]) {\n"
    "    s[b, h, j] = where(j < length[b] % (J + 1) and j >= length[b] % (J + 1) - 40, " SCORE
    ", -inf)\n" VALUE;
/* The same, as ranges: a sequence without keys gives 0. */
static const char bounded[] = "kernel k(" ARGUMENTS ", length: i32[B]) -> (o: bf16[B, H, E]) {\n"
                              "    s[b, h, j] = " SCORE "\n"
                              "    o[b, h, e] = sum[j < length[b] % (J + 1)](softmax[j < length[b] % (J + "
                              "1)](s[b, h, j]) * v[b, j, h // (H // G), e]) }";
static const char between[] =
    "kernel k(" ARGUMENTS ", begin: i32[B], end: i32[B]) -> (o: bf16[B, H, E], l: f32[B, H]) {\n"
    "    s[b, h, j] = " SCORE "\n"
    "    l[b, h] = logsumexp[j from begin[b] % J to end[b] % (J + 9)](s[b, h, j])\n"
    "    o[b, h, e] = sum[j from begin[b] % J to end[b] % (J + 9)](\n"
    "        softmax[j from begin[b] % J to end[b] % (J + 9)](s[b, h, j]) * v[b, j, h // (H // G), e]) }";
static const char logsum[] = "kernel k(" ARGUMENTS ") -> (o: f32[B, H, E], l: f32[B, H]) {\n"
                             "    s[b, h, j] = where(j % 3 != 1, 2 * tanh(" SCORE "), -inf)\n"
                             "    l[b, h] = logsumexp[j](s[b, h, j])\n" VALUE;
static const char alone[] =
    "kernel k(q: f16[B, H, D], k: f16[B, J, H, D], v: f16[B, J, H, E], slope: f32[H]) -> "
    "(o: f16[B, H, E]) {\n"
    "    s[b, h, j] = sum[d](q[b, h, d] * k[b, j, h, d]) * rsqrt(D) - slope[h]\n"
    "    o[b, h, e] = sum[j](softmax[j](s[b, h, j]) * v[b, j, h, e]) }";
static const char paged[] =
    "kernel k(q: bf16[B, H, D], k: bf16[X, 16, G, D], v: bf16[X, 16, G, E], page: i32[B, L], length: "
    "i32[B])\n"
    "    -> (o: bf16[B, H, E]) {\n"
    "    s[b, h, j < L * 16] = where(j < length[b] % (L * 16 + 1),\n"
    "        sum[d](q[b, h, d] * k[page[b, j // 16], j % 16, h // (H // G), d]) * rsqrt(D), -inf)\n"
    "    o[b, h, e] = sum[j < L * 16](softmax[j](s[b, h, j]) * v[page[b, j // 16], j % 16, h // (H // G), "
    "e]) }";
static const char paged_bounded[] =
    "kernel k(q: bf16[B, H, D], k: bf16[X, 16, G, D], v: bf16[X, 16, G, E], page: i32[B, L], length: "
    "i32[B])\n"
    "    -> (o: bf16[B, H, E]) {\n"
    "    s[b, h, j < L * 16] = sum[d](q[b, h, d] * k[page[b, j // 16], j % 16, h // (H // G), d]) * "
    "rsqrt(D)\n"
    "    o[b, h, e] = sum[j < length[b] % (L * 16 + 1)](softmax[j < length[b] % (L * 16 + 1)](s[b, h, j])\n"
    "        * v[page[b, j // 16], j % 16, h // (H // G), e]) }";
/* Each query sees the keys up to its own, which are the last. */
static const char several[] =
    "kernel k(q: bf16[B, I, H, D], k: bf16[B, J, G, D], v: bf16[B, J, G, E]) -> (o: bf16[B, I, H, E]) {\n"
    "    s[b, i, h, j] = where(j <= i + J - I, sum[d](q[b, i, h, d] * k[b, j, h // (H // G), d]) * rsqrt(D), "
    "-inf)\n"
    "    o[b, i, h, e] = sum[j](softmax[j](s[b, i, h, j]) * v[b, j, h // (H // G), e]) }";

static const struct decode_case {
    const char *text;
    int64_t b, h, g, j, d, e;
    int offset, compute;
    bool nonfinite;
} cases[] = {
    {grouped, 2, 8, 1, 1, 64, 64, 0, 90, false},       {grouped, 1, 16, 2, 2, 128, 128, 0, 90, false},
    {grouped, 2, 4, 2, 63, 64, 128, 0, 80, false},     {grouped, 1, 32, 2, 64, 128, 64, 0, 90, false},
    {grouped, 1, 40, 2, 65, 80, 96, 0, 90, false},     {grouped, 1, 8, 1, 127, 40, 24, 0, 80, false},
    {grouped, 3, 2, 2, 128, 64, 64, 0, 90, false},     {grouped, 1, 8, 2, 129, 36, 70, 0, 90, false},
    {grouped, 1, 8, 1, 1000, 256, 256, 0, 90, false},  {grouped, 1, 8, 2, 4097, 64, 64, 0, 90, false},
    {grouped, 2, 4, 1, 300, 64, 64, 3, 90, false},     {grouped, 1, 12, 4, 500, 112, 33, 1, 80, true},
    {ragged, 5, 8, 2, 200, 64, 64, 0, 90, false},      {ragged, 9, 4, 1, 1000, 128, 64, 0, 90, true},
    {ragged, 3, 4, 1, 130, 64, 64, 2, 80, false},      {window, 5, 4, 2, 300, 64, 64, 0, 90, false},
    {window, 3, 8, 1, 1000, 64, 64, 0, 80, true},      {logsum, 2, 8, 2, 700, 64, 64, 0, 90, false},
    {logsum, 1, 3, 3, 1, 17, 9, 0, 90, true},          {alone, 2, 3, 3, 400, 64, 64, 0, 90, false},
    {alone, 1, 5, 5, 77, 128, 96, 0, 80, true},        {paged, 3, 8, 2, 13, 64, 64, 0, 90, false},
    {paged, 5, 4, 1, 60, 128, 128, 0, 90, false},      {paged, 2, 4, 2, 20, 40, 72, 1, 80, false},
    {bounded, 5, 8, 2, 200, 64, 64, 0, 90, false},     {bounded, 9, 4, 1, 1000, 128, 64, 3, 80, true},
    {between, 7, 4, 2, 300, 64, 64, 0, 90, false},     {between, 5, 8, 1, 70, 80, 33, 0, 80, true},
    {paged_bounded, 3, 8, 2, 13, 64, 64, 0, 90, true}, {several, 2, 8, 2, 200, 64, 64, 0, 90, false},
    {several, 1, 4, 4, 33, 64, 64, 0, 80, true},
};

static void extents_set(const hr_function *function, const struct decode_case *one, int64_t *extents) {
    const struct {
        char name;
        int64_t value;
    } values[] = {{'B', one->b}, {'H', one->h}, {'G', one->g}, {'J', one->j},    {'L', one->j},
                  {'D', one->d}, {'E', one->e}, {'I', 3},      {'X', 2 * one->j}};
    for (int x = 0; x < function->extent_count; x++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            if (*function->extents[x] == values[i].name) extents[x] = values[i].value;
}

/* It is one region, and keys are shared out. */
static void expect_split(const cuda_case *one, int number) {
    hr_plan *plan;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    const hr_schedule *schedule = plan->stages[0].schedule;
    if (schedule->kind != HR_SCHEDULE_CUDA_ATTENTION || schedule->attention->mainloop != HR_ATTENTION_SPLIT)
        fail_msg("case %d: %s", number, plan->stages[0].why);
    hr_plan_destroy(plan);
}

static void test_decode(void **state) {
    (void)state;
    const char *only = getenv("HR_ONLY");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t extents[EXTENTS_MAX];
        cuda_case one = {.extents = extents,
                         .limits = cuda_case_limits(cases[c].compute, 132),
                         .offset = cases[c].offset,
                         .nonfinite = cases[c].nonfinite,
                         .seed = c,
                         .points = 300};
        if (only && (size_t)atoi(only) != c) continue;
        hr_program *program = program_of(cases[c].text);
        one.function = &program->functions[0];
        extents_set(one.function, &cases[c], extents);
        expect_split(&one, (int)c);
        expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
}

/* ---- what a text does not say ---- */

static const char unmasked_values[] =
    "kernel k(" ARGUMENTS ", length: i32[B]) -> (o: bf16[B, H, E]) {\n"
    "    s[b, h, j] = where(j < length[b] % (J + 1), " SCORE ", -inf)\n"
    "    p[b, h, j] = softmax[j](s[b, h, j])\n"
    "    o[b, h, e] = sum[j](where(j < length[b] % (J + 1), p[b, h, j] * v[b, j, h // (H // G), e], 0)) }";
static const char less[] =
    "kernel k(" ARGUMENTS ", length: i32[B]) -> (o: bf16[B, H, E]) {\n"
    "    s[b, h, j] = where(j < length[b] % (J + 1), " SCORE ", -inf)\n"
    "    o[b, h, e] = sum[j](softmax[j](s[b, h, j]) * (v[b, j, h // (H // G), e] * 0.95)) }";

/* Of the same arguments, against the meaning of another text. */
static hr_status compare(const char *text, const char *meaning, const struct decode_case *size,
                         const char *spoiled) {
    int64_t extents[EXTENTS_MAX];
    hr_program *program = program_of(text);
    extents_set(&program->functions[0], size, extents);
    hr_program_destroy(program);
    return run_against(text, meaning, extents, spoiled);
}

/* Infinities and NaN past the length change nothing, in the same step as what is seen, too; and the rounding
 * of weights leaves room for no fault of 5 %. */
static void test_past_the_length(void **state) {
    (void)state;
    static const struct decode_case size = {.b = 5, .h = 8, .g = 2, .j = 300, .d = 64, .e = 64};
    if (compare(ragged, unmasked_values, &size, "v") != HR_OK ||
        compare(ragged, unmasked_values, &size, "k") != HR_OK ||
        compare(bounded, bounded, &size, "v") != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_int_equal(compare(ragged, less, &size, NULL), HR_WRONG_RESULT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode), cmocka_unit_test(test_past_the_length)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
