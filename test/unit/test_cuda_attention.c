/* Attention as one kernel on the emulated CUDA device against its meaning: causal and dense, head dimensions
 * of queries and values, lengths beside those of tiles, other score texts, grouped heads, log-sum-exp as a
 * result, rows without keys, non-finite values, arrays that begin anywhere; and what is left to three stages.
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
#include "support/sample.h"

enum { EXTENTS_MAX = 8 };

#define HEAD "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E]) -> (o: bf16[B, I, E]) {\n"
#define TAIL "    o[b, i, e] = sum[j](softmax[j](s[b, i, j]) * v[b, j, e]) }"
#define DOT  "sum[d](q[b, i, d] * k[b, j, d])"

static const char causal[] = HEAD "    s[b, i, j] = where(j <= i, " DOT " * rsqrt(D), -inf)\n" TAIL;
static const char dense[] = HEAD "    s[b, i, j] = " DOT " * rsqrt(D)\n" TAIL;
/* The last query sees the last key. */
static const char shifted[] = HEAD "    s[b, i, j] = where(j <= i + J - I, " DOT " * rsqrt(D), -inf)\n" TAIL;
static const char window[] =
    HEAD "    s[b, i, j] = where(j <= i and j > i - 40, " DOT " * rsqrt(D), -inf)\n" TAIL;
static const char alibi[] =
    HEAD "    s[b, i, j] = where(j <= i, " DOT " * rsqrt(D) + (j - i) * 0.05, -inf)\n" TAIL;
/* Both ends of a window, in two ways of writing. */
static const char between[] =
    HEAD "    s[b, i, j] = where(i - j < 130 and j <= i + 9, " DOT " * rsqrt(D), -inf)\n" TAIL;
/* A bias that is there for some keys alone. */
static const char distances[] =
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], far: f32[I]) -> (o: bf16[B, I, E]) {\n"
    "    s[b, i, j] = where(j <= i, " DOT " * rsqrt(D) + far[i - j], -inf)\n" TAIL;
static const char softcap[] = HEAD "    s[b, i, j] = where(j <= i, 3 * tanh(" DOT " * 0.1), -inf)\n" TAIL;
static const char half[] =
    "kernel k(q: f16[B, I, D], k: f16[B, J, D], v: f16[B, J, E]) -> (o: f32[B, I, E]) {\n"
    "    s[b, i, j] = " DOT " * -0.25\n" TAIL;
static const char summed[] =
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E]) -> (o: bf16[B, I, E], l: f32[B, I]) {\n"
    "    s[b, i, j] = where(j <= i, " DOT " * rsqrt(D), -inf)\n"
    "    l[b, i] = logsumexp[j](s[b, i, j])\n" TAIL;
static const char grouped[] =
    "kernel k(q: bf16[B, H, I, D], k: bf16[B, G, J, D], v: bf16[B, G, J, E]) -> (o: bf16[B, H, I, E]) {\n"
    "    s[b, h, i, j] = where(j <= i, sum[d](q[b, h, i, d] * k[b, h // (H // G), j, d]) * rsqrt(D), -inf)\n"
    "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h // (H // G), j, e]) }";
static const char transposed[] =
    "kernel k(q: bf16[B, I, 2, D], k: bf16[B, J, 2, D], v: bf16[B, J, 2, E]) -> (o: bf16[B, I, 2, E]) {\n"
    "    s[b, h, i, j] = where(j <= i, sum[d](q[b, i, h, d] * k[b, j, h, d]) * rsqrt(D), -inf)\n"
    "    o[b, i, h, e] = 2 * sum[j](softmax[j](s[b, h, i, j]) * v[b, j, h, e]) }";
static const char weighed[] = "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E]) -> (o: bf16[B, "
                              "I, E], p: f32[B, I, J]) {\n"
                              "    s[b, i, j] = " DOT " * rsqrt(D)\n"
                              "    p[b, i, j] = softmax[j](s[b, i, j])\n"
                              "    o[b, i, e] = sum[j](p[b, i, j] * v[b, j, e]) }";
static const char linear[] =
    HEAD "    s[b, i, j] = where(j <= i, " DOT ", 0)\n    o[b, i, e] = sum[j](s[b, i, j] * v[b, j, e]) }";

/* As many keys as data say: of the first batches none, one, and so on. */
static const char bounded[] =
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], n: i32[B]) -> "
    "(o: bf16[B, I, E]) {\n"
    "    s[b, i, j] = " DOT " * rsqrt(D)\n"
    "    o[b, i, e] = sum[j from n[b] % 9 to n[b] % (J + 9)](\n"
    "        softmax[j from n[b] % 9 to n[b] % (J + 9)](s[b, i, j]) * v[b, j, e]) }";

/* Numbers of 8 bits with a scale a head, and beside a query of 16 bits. */
static const char eighths[] =
    "kernel k(q: f8e4m3[B, H, I, D], k: f8e4m3[B, H, J, D], v: f8e4m3[B, H, J, E], qk: f32[H], w: f32[H])\n"
    "    -> (o: bf16[B, H, I, E]) {\n"
    "    s[b, h, i, j] = where(j <= i, sum[d](q[b, h, i, d] * k[b, h, j, d]) * qk[h], -inf)\n"
    "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h, j, e]) * w[h] }";
/* With a scale for each 16 keys of a head. */
static const char blocks[] =
    "kernel k(q: f8e4m3[B, H, I, D], k: f8e4m3[B, H, J, D], v: f8e4m3[B, H, J, E], qs: f32[B, H],\n"
    "         ks: f32[B, H, J // 16 + 1], vs: f32[B, H, J // 16 + 1]) -> (o: bf16[B, H, I, E]) {\n"
    "    s[b, h, i, j] = where(j <= i, sum[d](q[b, h, i, d] * k[b, h, j, d]) * (qs[b, h] * ks[b, h, j // 16])"
    ", -inf)\n"
    "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * (v[b, h, j, e] * vs[b, h, j // 16])) }";
static const char cached[] =
    "kernel k(q: bf16[B, I, D], k: f8e4m3[B, J, D], v: f8e5m2[B, J, E]) -> (o: bf16[B, I, E]) {\n"
    "    s[b, i, j] = " DOT " * rsqrt(D)\n" TAIL;
/* Documents of 150 keys, whatever the numbers are; the first keys of a batch are seen by all, as many as data
 * say; keys that are not there; and what compares other than whole numbers. */
#define DOCUMENT(index) "(doc[" index "] % 2 + 2 * ((" index ") // 150)) // 2"
static const char documents[] = "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], doc: i32[J]) "
                                "-> (o: bf16[B, I, E], l: f32[B, "
                                "I]) {\n"
                                "    s[b, i, j] = where(j <= i and not (" DOCUMENT("i + 0") " != " DOCUMENT(
                                    "j") "), " DOT " * rsqrt(D), -inf)\n"
                                         "    l[b, i] = logsumexp[j](s[b, i, j])\n" TAIL;
static const char prefix[] =
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], n: i32[B]) -> (o: bf16[B, I, E]) {\n"
    "    s[b, i, j] = where(j < n[b] % 200 or j <= i, " DOT " * rsqrt(D), -inf)\n" TAIL;
static const char padded[] =
    "kernel k(q: bf16[B, H, I, D], k: bf16[B, H, J, D], v: bf16[B, H, J, E], there: bool[B, J], bias: f32[I, "
    "J])\n"
    "    -> (o: bf16[B, H, I, E]) {\n"
    "    s[b, h, i, j] = where((there[b, j] or j < 130) and max(i - j, j - i) <= 200,\n"
    "        sum[d](q[b, h, i, d] * k[b, h, j, d]) * 0.1 + bias[i, j], -inf)\n"
    "    o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h, j, e]) }";
static const char later[] =
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], t: f32[J]) -> (o: bf16[B, I, E]) {\n"
    "    s[b, i, j] = where(t[i + 0] >= t[j], " DOT " * rsqrt(D), -inf)\n" TAIL;

static const struct attention_case {
    const char *text;
    int64_t b, i, j, d, e;
    int offset;
    bool nonfinite, apart; /* apart: it stays three stages */
} cases[] = {
    {causal, 2, 200, 200, 64, 64, 0, false, false},    {dense, 2, 129, 200, 64, 64, 0, false, false},
    {causal, 1, 1, 1, 64, 64, 0, false, false},        {dense, 1, 2, 2, 32, 64, 0, false, false},
    {causal, 1, 63, 64, 128, 128, 0, false, false},    {dense, 1, 64, 65, 128, 64, 0, false, false},
    {causal, 1, 65, 63, 32, 128, 0, false, false},     {dense, 1, 127, 127, 40, 80, 0, false, false},
    {causal, 3, 128, 128, 64, 32, 0, false, false},    {dense, 1, 33, 300, 256, 16, 0, false, false},
    {causal, 1, 300, 500, 192, 128, 0, false, false},  {dense, 1, 5, 130, 16, 256, 0, false, false},
    {shifted, 2, 70, 200, 64, 64, 0, false, false},    {shifted, 1, 200, 70, 64, 64, 0, false, false},
    {window, 1, 300, 300, 64, 64, 0, false, false},    {alibi, 1, 200, 200, 64, 64, 0, false, false},
    {between, 1, 700, 700, 64, 64, 0, false, false},   {between, 2, 400, 500, 128, 128, 0, false, false},
    {window, 1, 300, 300, 128, 64, 2, false, false},   {distances, 1, 200, 200, 64, 64, 0, false, false},
    {causal, 1, 500, 500, 96, 112, 0, false, false},   {dense, 1, 130, 64, 80, 80, 0, false, false},
    {causal, 70, 140, 130, 64, 64, 0, false, false},   {dense, 2, 200, 100, 256, 256, 0, false, false},
    {softcap, 1, 200, 200, 64, 64, 0, false, false},   {half, 2, 70, 140, 64, 72, 0, false, false},
    {summed, 2, 150, 150, 64, 64, 0, false, false},    {summed, 1, 30, 200, 128, 64, 0, true, false},
    {grouped, 2, 150, 150, 64, 64, 0, false, false},   {transposed, 2, 150, 150, 64, 64, 0, false, false},
    {causal, 2, 200, 200, 64, 64, 0, true, false},     {dense, 2, 70, 200, 64, 64, 0, true, false},
    {causal, 2, 200, 200, 64, 64, 3, false, false},    {dense, 1, 70, 150, 40, 24, 1, true, false},
    {causal, 1, 70, 70, 36, 64, 0, false, false},      {dense, 1, 20, 20, 264, 64, 0, false, true},
    {bounded, 7, 70, 300, 64, 64, 0, false, false},    {bounded, 5, 40, 90, 128, 40, 0, true, false},
    {documents, 2, 700, 700, 64, 64, 0, false, false}, {documents, 1, 300, 900, 128, 64, 1, true, false},
    {prefix, 3, 400, 400, 64, 64, 0, false, false},    {padded, 2, 300, 700, 64, 64, 0, false, false},
    {later, 1, 200, 300, 64, 64, 0, false, false},     {eighths, 1, 200, 200, 64, 64, 0, false, false},
    {eighths, 1, 130, 140, 128, 72, 3, true, false},   {cached, 2, 150, 300, 64, 64, 0, false, false},
    {cached, 2, 20, 300, 80, 40, 0, false, false},     {cached, 2, 20, 100, 80, 40, 1, false, false},
    {weighed, 1, 70, 70, 64, 64, 0, false, true},      {linear, 1, 70, 70, 64, 64, 0, false, true},
    {blocks, 1, 150, 150, 64, 64, 0, false, false},
};

static void extents_set(const hr_function *function, const struct attention_case *one, int64_t *extents) {
    for (int x = 0; x < function->extent_count; x++) {
        const char name = *function->extents[x];
        extents[x] = name == 'B'   ? one->b
                     : name == 'I' ? one->i
                     : name == 'J' ? one->j
                     : name == 'D' ? one->d
                     : name == 'E' ? one->e
                     : name == 'H' ? 4
                                   : 2;
    }
}

/* One launch, or as many as there are stages; and words for either. */
static void expect_kernel(const cuda_case *one, bool apart) {
    hr_plan *plan;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    const hr_stage *first = &plan->stages[plan->region_count ? plan->regions[0].first : 0];
    const bool attends = first->schedule->kind == HR_SCHEDULE_CUDA_ATTENTION;
    if (attends == apart) fail_msg("%s", first->why);
    if (plan->region_count)
        assert_non_null(strstr(first->why, apart ? "not one kernel" : "one kernel with the products"));
    hr_plan_destroy(plan);
}

static void test_attention(void **state) {
    (void)state;
    const char *only = getenv("HR_ONLY");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hr_program *program;
        int64_t extents[EXTENTS_MAX];
        cuda_case one = {.extents = extents,
                         .limits = cuda_case_limits(90, 132),
                         .offset = cases[c].offset,
                         .nonfinite = cases[c].nonfinite,
                         .seed = c,
                         .points = 300};
        if (only && (size_t)atoi(only) != c) continue;
        if (hr_program_parse("attention.hr", cases[c].text, strlen(cases[c].text), &program) != HR_OK)
            fail_msg("case %zu: %s", c, hr_last_error());
        assert_int_equal(hr_program_find(program, NULL, &one.function), HR_OK);
        extents_set(one.function, &cases[c], extents);
        expect_kernel(&one, cases[c].apart);
        if (only || sample_takes(c, 3)) expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
}

/* ---- texts, on both kinds of tensor cores ---- */

#define TEXT_AFTER(more, before, score, value)                                                               \
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E]" more                                     \
    ") -> (o: bf16[B, I, E]) {\n" before "    s[b, i, j] = " score "\n"                                      \
    "    o[b, i, e] = " value " }"
#define TEXT(more, score, value) TEXT_AFTER(more, "", score, value)
#define SCALED                   DOT " * rsqrt(D)"
#define CAUSAL                   "where(j <= i, " SCALED ", -inf)"
#define WEIGHED                  "sum[j](softmax[j](s[b, i, j]) * v[b, j, e])"
#define RANGED(range)            "sum[" range "](softmax[" range "](s[b, i, j]) * v[b, j, e])"

static const char *const texts[] = {
    /* what follows the values: a gate, a residual, the query's log-sum-exp */
    TEXT(", g: bf16[B, I, E]", CAUSAL, WEIGHED " * sigmoid(g[b, i, e])"),
    TEXT(", x: bf16[B, I, E]", CAUSAL, "x[b, i, e] + " WEIGHED),
    TEXT(", sink: f32[B]", CAUSAL, WEIGHED " * sigmoid(logsumexp[j](s[b, i, j]) - sink[b])"),
    /* sinks beside the scores; weights that are divided later; dropout */
    TEXT(", sink: f32[B]",
         CAUSAL "\n    m[b, i] = max(max[j](s[b, i, j]), sink[b])\n"
                "    t[b, i] = sum[j](exp(s[b, i, j] - m[b, i])) + exp(sink[b] - m[b, i])",
         "sum[j](exp(s[b, i, j] - m[b, i]) / t[b, i] * v[b, j, e])"),
    TEXT("", CAUSAL "\n    m[b, i] = max[j](s[b, i, j])\n    p[b, i, j] = exp(s[b, i, j] - m[b, i])",
         "sum[j](p[b, i, j] * v[b, j, e]) / sum[j](p[b, i, j])"),
    TEXT(", seed: i64", CAUSAL,
         "sum[j](softmax[j](s[b, i, j]) * where(random(seed, (b * I + i) * J + j) < 0.8, 1.25, 0) * v[b, j, "
         "e])"),
    TEXT(", seed: i64, keep: f32[1]", CAUSAL "\n    p[b, i, j] = softmax[j](s[b, i, j])",
         "sum[j](where(random(seed, (b * I + i) * J + j) < 0.7, p[b, i, j] / (0.5 + keep[0]^2), 0) * v[b, j, "
         "e])"),
    /* matrices of biases, of each pair, key, distance; a table that others choose from */
    TEXT(", x: bf16[B, I, J]", SCALED " + x[b, i, j]", WEIGHED),
    TEXT(", x: f32[B, J]", "where(j <= i, " SCALED " + x[b, j], -inf)", WEIGHED),
    TEXT(", x: f32[I + J]", SCALED " + x[i - j + J - 1]", WEIGHED),
    TEXT(", x: f32[8], c: i32[I, J]", "where(j <= i, " SCALED " + x[c[i, j] & 7], -inf)", WEIGHED),
    /* queries and keys that are turned, or normalised, and rounded to 16 bits before they meet */
    TEXT_AFTER(
        ", c: f32[J, D]",
        "    x[b, i, d] = bf16(q[b, i, d] * c[i + 0, d] + q[b, i, (d + D // 2) % D] * c[i + 0, D - 1 - d])\n"
        "    y[b, j, d] = bf16(k[b, j, d] * c[j, d] + k[b, j, (d + D // 2) % D] * c[j, D - 1 - d])\n",
        "sum[d](x[b, i, d] * y[b, j, d]) * rsqrt(D)", WEIGHED),
    TEXT_AFTER(", w: f32[D]",
               "    a[b, i] = rsqrt(sum[d](q[b, i, d]^2) / D + 1e-6)\n"
               "    c[b, j] = rsqrt(sum[d](k[b, j, d]^2) / D + 1e-6)\n"
               "    x[b, i, d] = bf16(q[b, i, d] * a[b, i] * w[d])\n"
               "    y[b, j, d] = bf16(k[b, j, d] * c[b, j] * w[d])\n",
               "where(j <= i, sum[d](x[b, i, d] * y[b, j, d]) * rsqrt(D), -inf)", WEIGHED),
    /* of a query and a key the first elements alone, whose last are no whole piece of 16 bytes */
    TEXT("", "sum[d < 12](q[b, i, d + 0] * k[b, j, d + 0]) * 0.2", WEIGHED),
    /* scores that are the product itself */
    TEXT("", DOT, WEIGHED),
    TEXT("", "where(j <= i, " DOT ", -inf)", WEIGHED),
    /* all three */
    TEXT_AFTER(", w: f32[D], u: f32[E]",
               "    x[b, i, d] = bf16(q[b, i, d] * w[d])\n"
               "    y[b, j, d] = bf16(k[b, j, d] * w[d])\n"
               "    z[b, j, e] = bf16(v[b, j, e] * u[e])\n",
               "where(j <= i, sum[d](x[b, i, d] * y[b, j, d]) * rsqrt(D), -inf)",
               "sum[j](softmax[j](s[b, i, j]) * z[b, j, e])"),
    /* the first keys beside a window */
    TEXT("", "where(j <= i and (j > i - 40 or j < 4), " SCALED ", -inf)", WEIGHED),
    /* ranges of a query: its own place, a window, data; rows without keys are 0 */
    TEXT("", SCALED, RANGED("j < i + 1")),
    TEXT("", SCALED, RANGED("j from i - 39 to i + 1")),
    TEXT(", low: i32[I], high: i32[I]", SCALED, RANGED("j from low[i] % 90 to high[i] % J")),
    TEXT(", low: i32[B, I]", "where((j + i) % 3 != 0, " SCALED ", -inf)", RANGED("j < low[b, i] % 4")),
};

static void test_texts(void **state) {
    (void)state;
    static const struct attention_case size = {.b = 2, .i = 70, .j = 150, .d = 64, .e = 64};
    const char *only = getenv("HR_ONLY");
    for (size_t t = 0; t < 2 * sizeof texts / sizeof *texts; t++) {
        int64_t extents[EXTENTS_MAX];
        hr_program *program = program_of(texts[t / 2]);
        cuda_case one = {.function = &program->functions[0],
                         .extents = extents,
                         .limits = cuda_case_limits(t % 2 ? 80 : 90, 132),
                         .nonfinite = t / 2 % 2,
                         .seed = t,
                         .points = 300};
        extents_set(one.function, &size, extents);
        if (only && (size_t)atoi(only) != t) continue;
        expect_kernel(&one, false);
        if (sample_takes(t, 23)) expect_right(&one, (int)t);
        hr_program_destroy(program);
    }
}

/* ---- tiles that data leave ---- */

/* The same mask, in words of which ranges say nothing. */
static const char scanned[] =
    "kernel k(q: bf16[B, I, D], k: bf16[B, J, D], v: bf16[B, J, E], doc: i32[J]) -> (o: bf16[B, I, E], l: "
    "f32[B, "
    "I]) {\n"
    "    s[b, i, j] = where((j - i) * 1 <= 0 and f32(" DOCUMENT("i + 0") ") == f32(" DOCUMENT(
        "j") "), " DOT " * rsqrt(D), -inf)\n"
             "    l[b, i] = logsumexp[j](s[b, i, j])\n" TAIL;

/* What is read, in units of all that there is; `listed`: whether it is said that tiles, or steps, are left
 * out. */
static double read_by(const char *text, int compute, bool listed) {
    const int64_t length = compute == 90 ? 700 : 330;
    const struct attention_case size = {.b = 1, .i = length, .j = length, .d = 64, .e = 64};
    const char *words = compute == 90 ? "lists the tiles" : "finds the steps";
    int64_t extents[EXTENTS_MAX];
    hr_program *program = program_of(text);
    hr_plan *plan;
    cuda_case one = {.function = &program->functions[0],
                     .extents = extents,
                     .limits = cuda_case_limits(compute, 132),
                     .points = 100};
    cuda_outcome outcome = {0};
    extents_set(one.function, &size, extents);
    assert_int_equal(hr_schedule_create(one.function, extents, NULL, &one.limits, NULL, &plan), HR_OK);
    assert_int_equal(strstr(plan->stages[0].why, words) != NULL, listed);
    hr_plan_destroy(plan);
    if (run_or_skip(&one, &outcome) != HR_OK) fail_msg("%s", hr_last_error());
    hr_program_destroy(program);
    return outcome.read;
}

static void test_lists(void **state) {
    (void)state;
    for (int compute = 80; compute <= 90; compute += 10) {
        const double listed = read_by(documents, compute, true), all = read_by(scanned, compute, false);
        if (!(listed < 0.6 * all)) fail_msg("compute %d: %g of %g are read", compute, listed, all);
    }
}

/* Blocks that find these themselves: their steps begin and end with keys that are not there, whole parts of
 * the keys are empty, and what is left out may be anything. */
static void test_steps(void **state) {
    (void)state;
    static const struct attention_case masked[] = {{documents, 2, 40, 330, 64, 64, 0, true, false},
                                                   {prefix, 2, 40, 300, 64, 40, 0, false, false},
                                                   {padded, 1, 20, 290, 64, 64, 1, false, false},
                                                   {later, 1, 33, 200, 144, 64, 0, true, false}};
    for (size_t c = 0; c < sizeof masked / sizeof *masked; c++) {
        int64_t extents[EXTENTS_MAX];
        hr_program *program = program_of(masked[c].text);
        cuda_case one = {.function = &program->functions[0],
                         .extents = extents,
                         .limits = cuda_case_limits(80, 108),
                         .offset = masked[c].offset,
                         .nonfinite = masked[c].nonfinite,
                         .seed = c,
                         .points = 300};
        extents_set(one.function, &masked[c], extents);
        expect_kernel(&one, false);
        expect_right(&one, (int)c);
        hr_program_destroy(program);
    }
}

/* ---- what a text does not say ---- */

static const char unmasked_values[] =
    HEAD "    s[b, i, j] = where(j <= i, " DOT " * rsqrt(D), -inf)\n"
         "    p[b, i, j] = softmax[j](s[b, i, j])\n"
         "    o[b, i, e] = sum[j](where(j <= i, p[b, i, j] * v[b, j, e], 0)) }";
static const char less[] = HEAD "    s[b, i, j] = where(j <= i, " DOT " * rsqrt(D), -inf)\n"
                                "    o[b, i, e] = sum[j](softmax[j](s[b, i, j]) * (v[b, j, e] * 0.95)) }";

/* A range says of values past it that they are not there. */
static const char ranged[] = TEXT("", SCALED, RANGED("j < i + 1"));

/* Of the same arguments, against the meaning of another text. */
static hr_status compare(const char *text, const char *meaning, const struct attention_case *size,
                         const char *spoiled) {
    int64_t extents[EXTENTS_MAX];
    hr_program *program = program_of(text);
    extents_set(&program->functions[0], size, extents);
    hr_program_destroy(program);
    return run_against(text, meaning, extents, spoiled);
}

/* Infinities and NaN in keys and values past the mask change nothing, in the same tile as what is seen, too.
 */
static void test_past_the_mask(void **state) {
    (void)state;
    static const struct attention_case sizes[] = {{.b = 2, .i = 200, .j = 200, .d = 64, .e = 64},
                                                  {.b = 1, .i = 150, .j = 150, .d = 128, .e = 40}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        if (compare(causal, unmasked_values, &sizes[s], "v") != HR_OK ||
            compare(causal, unmasked_values, &sizes[s], "k") != HR_OK ||
            compare(causal, causal, &sizes[s], "v") != HR_OK ||
            compare(ranged, unmasked_values, &sizes[s], "v") != HR_OK)
            fail_msg("%s", hr_last_error());
}

/* The rounding of weights leaves room for no fault of 5 %. */
static void test_fault(void **state) {
    (void)state;
    const struct attention_case size = {.b = 1, .i = 300, .j = 300, .d = 64, .e = 64};
    assert_int_equal(compare(causal, causal, &size, NULL), HR_OK);
    assert_int_equal(compare(causal, less, &size, NULL), HR_WRONG_RESULT);
}

/* What explain says of texts that are more, or less, than one kernel. */
static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } said[] = {
        {"kernel k(q: f32[B, I, D], k: f32[B, J, D], v: f32[B, J, E]) -> (o: f32[B, I, E]) {\n"
         "    s[b, i, j] = " DOT "\n" TAIL,
         "products of f32 are kept exact; rounded by statements of their own"},
        {"kernel k(q: f32[B, I, D], k: f32[B, J, D], v: f32[B, J, E]) -> (o: f32[B, I, E]) {\n"
         "    s[b, i, j] = sum[d](bf16(q[b, i, d]) * bf16(k[b, j, d]))\n"
         "    o[b, i, e] = sum[j](softmax[j](s[b, i, j]) * bf16(v[b, j, e])) }",
         "round each by a statement of its own"},
        {"kernel k(q: f32[B, I, D], k: f32[B, J, D], v: bf16[B, J, E]) -> (o: f32[B, I, E]) {\n"
         "    x[b, i, d] = bf16(q[b, i, d])\n    y[b, j, d] = bf16(k[b, j, d])\n"
         "    s[b, i, j] = sum[d](x[b, i, d] * y[b, j, d])\n" TAIL,
         "; queries and keys that the text makes are made once"},
    };
    static const struct attention_case size = {.b = 2, .i = 512, .j = 512, .d = 64, .e = 64};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        hr_program *program = program_of(said[i].text);
        const hr_device_limits limits = cuda_case_limits(90, 132);
        int64_t extents[EXTENTS_MAX];
        hr_plan *plan;
        bool is_said = false;
        extents_set(&program->functions[0], &size, extents);
        assert_int_equal(hr_schedule_create(&program->functions[0], extents, NULL, &limits, NULL, &plan),
                         HR_OK);
        for (int s = 0; s < plan->stage_count; s++)
            is_said = is_said || strstr(plan->stages[s].why, said[i].words);
        if (!is_said) fail_msg("%zu: nobody says '%s'", i, said[i].words);
        hr_plan_destroy(plan);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention), cmocka_unit_test(test_words),
                                       cmocka_unit_test(test_texts),     cmocka_unit_test(test_lists),
                                       cmocka_unit_test(test_steps),     cmocka_unit_test(test_past_the_mask),
                                       cmocka_unit_test(test_fault)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
