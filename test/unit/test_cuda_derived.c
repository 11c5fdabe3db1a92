/* Gradients that `headroom grad` derives of attention's texts, on the emulated CUDA device: the five products
 * are two kernels, scores are never in memory, and results are right against the derived text's meaning in
 * f64; infinities and NaN past the mask change nothing. HR_TEST_LONG=1: all texts, else a part; HR_ONLY=3:
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

#define TEXT(more, before, scores, after)                                                                    \
    "kernel k(q: bf16[H, S, D], k: bf16[H, S, D], v: bf16[H, S, E]" more                                     \
    ") -> (o: bf16[H, S, E]) {\n" before "    s[h, i, j] = " scores "\n" after "}\n"
#define DOT  "sum[d](q[h, i, d] * k[h, j, d]) * rsqrt(D)"
#define MADE "where(j <= i, sum[d](qr[h, i, d] * kr[h, j, d]) * rsqrt(D), -inf)"
#define OUT  "    o[h, i, e] = sum[j](softmax[j](s[h, i, j]) * v[h, j, e])\n"

/* In parts: the sums that softmax has are the text's own. */
#define PARTS(range, peak, total)                                                                            \
    "    m[h, i] = " peak "\n    t[h, i] = sum[" range "](exp(s[h, i, j] - m[h, i]))" total "\n"             \
    "    o[h, i, e] = sum[" range "](exp(s[h, i, j] - m[h, i]) / t[h, i] * v[h, j, e])\n"

/* x turned by its row's angles: halves, or pairs. */
#define HALVES(x, i)                                                                                         \
    "    " x "r[h, " i ", d] = bf16(" x "[h, " i ", d] * cosine[" i ", d] + where(d < D // 2, -" x "[h, " i  \
    ", d + D // 2], " x "[h, " i ", d - D // 2]) * sine[" i ", d])\n"
#define PAIRS(x, i)                                                                                          \
    "    " x "r[h, " i ", d] = bf16(" x "[h, " i ", d] * cosine[" i ", d] + where(d % 2 == 0, -" x "[h, " i  \
    ", d + 1], " x "[h, " i ", d - 1]) * sine[" i ", d])\n"
#define NORM(x, i, w)                                                                                        \
    "    " x "s[h, " i "] = rsqrt(sum[d](" x "[h, " i ", d]^2) / D + 1e-5)\n"                                \
    "    " x "r[h, " i ", d] = bf16(" x "[h, " i ", d] * " x "s[h, " i "] * " w "[d])\n"
#define TABLES ", cosine: const f32[S, D], sine: const f32[S, D]"

static const struct derived_case {
    const char *text;
    int64_t h, s, d, e;
    int compute;
} cases[] = {
    {TEXT("", "", "where(j <= i, " DOT ", -inf)", OUT), 2, 90, 64, 64, 90},
    {TEXT(", sink: f32[H]", "", "where(j <= i, " DOT ", -inf)",
          PARTS("j", "max(max[j](s[h, i, j]), sink[h])", " + exp(sink[h] - m[h, i])")),
     2, 90, 64, 64, 90},
    {TEXT(", n: i32[H]", "", DOT,
          "    o[h, i, e] = sum[j < n[h]](softmax[j < n[h]](s[h, i, j]) * v[h, j, e])\n"),
     2, 70, 64, 64, 90},
    {TEXT(", n: i32[H]", "", DOT, PARTS("j < n[h]", "max[j < n[h]](s[h, i, j])", "")), 2, 70, 64, 64, 90},
    {TEXT("", "", "where(j <= i, " DOT ", -inf)",
          "    o[h, i, e] = sum[j](softmax[j](s[h, i, j]) * where(random(7, (h * S + i) * S + j) < 0.75, 1 / "
          "0.75, 0) * v[h, j, e])\n"),
     2, 80, 64, 64, 90},
    {TEXT(TABLES, HALVES("q", "i") HALVES("k", "j"), MADE, OUT), 1, 80, 64, 64, 90},
    {TEXT(TABLES, PAIRS("q", "i") PAIRS("k", "j"), MADE, OUT), 1, 80, 64, 64, 90},
    {TEXT(", wq: bf16[D], wk: bf16[D]", NORM("q", "i", "wq") NORM("k", "j", "wk"), MADE, OUT), 1, 80, 64, 64,
     90},
    {TEXT(", slope: const f32[H]", "", "where(j <= i, " DOT " - slope[h] * f32(i - j), -inf)", OUT), 2, 70,
     64, 64, 90},
    {TEXT(", bias: const bf16[H, S, S]", "", DOT " + bias[h, i, j]", OUT), 1, 70, 64, 64, 90},
    {TEXT("", "", "where(j <= i, 20 * tanh(" DOT " / 20), -inf)", OUT), 1, 80, 64, 64, 90},
    {TEXT(", doc: i32[S]", "", "where(doc[i] % 2 == doc[j] % 2, " DOT ", -inf)", OUT), 1, 80, 64, 64, 90},
    {TEXT(", n: i32[H]", "", "where(j < n[h] or j <= i, " DOT ", -inf)", OUT), 1, 80, 64, 64, 90},
    {TEXT(", gate: bf16[H, S, E]", "", "where(j <= i, " DOT ", -inf)",
          "    o[h, i, e] = sigmoid(gate[h, i, e]) * sum[j](softmax[j](s[h, i, j]) * v[h, j, e])\n"),
     1, 80, 64, 64, 90},
    {"kernel k(q: bf16[S, H, D], k: bf16[S, G, D], v: bf16[S, G, E]" TABLES ") -> (o: bf16[S, H, E]) {\n"
     "    kr[j, g, d] = bf16(k[j, g, d] * cosine[j, d] + where(d < D // 2, -k[j, g, d + D // 2], k[j, g, d - "
     "D // 2]) * sine[j, d])\n"
     "    s[h, i, j] = where(j <= i, sum[d](q[i, h, d] * kr[j, h // (H // G), d]) * rsqrt(D), -inf)\n"
     "    o[i, h, e] = sum[j](softmax[j](s[h, i, j]) * v[j, h // (H // G), e]) }\n",
     4, 70, 64, 64, 90},
    {TEXT(", sink: f32[H]", "", "where(j <= i, " DOT ", -inf)",
          PARTS("j", "max(max[j](s[h, i, j]), sink[h])", " + exp(sink[h] - m[h, i])")),
     2, 70, 40, 72, 80},
    {TEXT(TABLES, HALVES("q", "i") HALVES("k", "j"), MADE, OUT), 1, 70, 32, 64, 80},
};

static void extents_set(const hr_function *function, const struct derived_case *one, int64_t *extents) {
    for (int x = 0; x < function->extent_count; x++) {
        const char name = *function->extents[x];
        extents[x] = name == 'H'   ? one->h
                     : name == 'G' ? 2
                     : name == 'S' ? one->s
                     : name == 'D' ? one->d
                                   : one->e;
    }
}

/* Its last two axes are those of queries and keys. */
static bool is_of_pairs(const hr_plan *plan, int tensor) {
    const hr_tensor *t = &plan->normal->tensors[tensor];
    for (int a = t->rank - 2; a < t->rank; a++)
        if (a < 0 || t->shape[a]->op != HR_OP_EXTENT || plan->normal->extents[t->shape[a]->extent][0] != 'S')
            return false;
    return true;
}

static void expect_kernels(const cuda_case *one, const char *text) {
    hr_plan *plan;
    int joined = 0;
    assert_int_equal(hr_schedule_create(one->function, one->extents, NULL, &one->limits, NULL, &plan), HR_OK);
    for (int s = 0; s < plan->stage_count; s++)
        joined += plan->stages[s].schedule->kind == HR_SCHEDULE_CUDA_BACKWARD;
    if (joined != 5) fail_msg("%d products go together in\n%s", joined, text);
    for (int t = 0; t < plan->normal->tensor_count; t++)
        if (hr_plan_is_scratch(plan, t) && is_of_pairs(plan, t))
            fail_msg("%s is in memory in\n%s", plan->normal->tensors[t].name, text);
    hr_plan_destroy(plan);
}

/* The gradient's text; to be freed. */
static char *derived_text(const char *text) {
    const hr_gradient_options options = {.size = sizeof options};
    char *out, *notes;
    if (hr_gradient_text("derived.hr", text, strlen(text), NULL, &options, &out, &notes) != HR_OK)
        fail_msg("%s", hr_last_error());
    free(notes);
    return out;
}

static void test_derived(void **state) {
    (void)state;
    const char *only = getenv("HR_ONLY");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t extents[EXTENTS_MAX];
        char *text = derived_text(cases[c].text);
        hr_program *program = program_of(text);
        const cuda_case one = {.function = &program->functions[0],
                               .extents = extents,
                               .limits = cuda_case_limits(cases[c].compute, 132),
                               .seed = c,
                               .points = 200};
        extents_set(one.function, &cases[c], extents);
        expect_kernels(&one, text);
        if (only ? (size_t)atoi(only) == c : sample_takes(c, 6)) expect_right(&one, (int)c);
        hr_program_destroy(program);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_derived)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
