/* Derived backward passes against the ones that were written by hand before there was `headroom grad`: no
 * more bytes, operations, stages or passes, on a processor and on a GPU. A block's, whose forward kernel
 * saves what is dear, makes no product again but attention's scores.
 */
#include "ir/extent.h"
#include "lang/program.h"
#include "schedule/target.h"
#include "support/cuda_case.h"
#include "support/kernel_library.h"
#include "support/lang_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { EXTENTS_MAX = 8 };

typedef struct handmade {
    const char *file, *text;
    int64_t extents[EXTENTS_MAX]; /* in the order of the kernel's own */
} handmade;

static const handmade cases[] = {
    {"layernorm_backward",
     "kernel layernorm_backward(dy: T[M, N], x: T[M, N], weight: T[N], mean: f32[M], rstd: f32[M])\n"
     "    -> (dx: T[M, N], dweight: f32[N], dbias: f32[N]) {\n"
     " normal[m, n] = (x[m, n] - mean[m]) * rstd[m]\n g[m, n] = dy[m, n] * weight[n]\n"
     " along[m] = sum[n](g[m, n] * normal[m, n]) / N\n level[m] = sum[n](g[m, n]) / N\n"
     " dx[m, n] = (g[m, n] - level[m] - normal[m, n] * along[m]) * rstd[m]\n"
     " dweight[n] = sum[m](dy[m, n] * normal[m, n])\n dbias[n] = sum[m](dy[m, n]) }",
     {16384, 4096}},
    {"rmsnorm_backward",
     "kernel rmsnorm_backward(dy: T[M, N], x: T[M, N], weight: T[N], rstd: f32[M])\n"
     "    -> (dx: T[M, N], dweight: f32[N]) {\n"
     " normal[m, n] = x[m, n] * rstd[m]\n g[m, n] = dy[m, n] * weight[n]\n"
     " along[m] = sum[n](g[m, n] * normal[m, n]) / N\n"
     " dx[m, n] = (g[m, n] - normal[m, n] * along[m]) * rstd[m]\n"
     " dweight[n] = sum[m](dy[m, n] * normal[m, n]) }",
     {16384, 4096}},
    {"cross_entropy_backward",
     "kernel cross_entropy_backward(logits: F[T, V], target: i32[T], lse: f32[T], dloss: f32[T])\n"
     "    -> (dlogits: F[T, V]) {\n"
     " dlogits[t, v] = (exp(logits[t, v] - lse[t]) - where(v == target[t], 1, 0)) * dloss[t] }",
     {8192, 32768}},
    {"swiglu_backward",
     "kernel swiglu_backward(dy: T[M, N], gate: T[M, N], up: T[M, N]) -> (dgate: T[M, N], dup: T[M, N]) {\n"
     " s[m, n] = sigmoid(gate[m, n])\n"
     " dgate[m, n] = dy[m, n] * up[m, n] * s[m, n] * (1 + gate[m, n] * (1 - s[m, n]))\n"
     " dup[m, n] = dy[m, n] * gate[m, n] * s[m, n] }",
     {16384, 4096}},
    {"embedding_backward",
     "kernel embedding_backward(dy: F[T, C], token: i32[T], dtable: inout f32[V, C]) {\n"
     " dtable[token[t], c] += dy[t, c] }",
     {16384, 1024, 32768}},
    {"attention_backward",
     "kernel attention_backward(do: T[B, H, I, E], q: T[B, H, I, D], k: T[B, H, J, D], v: T[B, H, J, E],\n"
     "    o: T[B, H, I, E], lse: f32[B, H, I]) -> (dq: T[B, H, I, D], dk: T[B, H, J, D], dv: T[B, H, J, E]) "
     "{\n"
     " s[b, h, i, j] = sum[d](q[b, h, i, d] * k[b, h, j, d]) * rsqrt(D)\n"
     " p[b, h, i, j] = where(j <= i, exp(s[b, h, i, j] - lse[b, h, i]), 0)\n"
     " along[b, h, i] = sum[e](do[b, h, i, e] * o[b, h, i, e])\n"
     " ds[b, h, i, j] = where(j <= i, p[b, h, i, j] * (sum[e](do[b, h, i, e] * v[b, h, j, e]) - along[b, h, "
     "i]) * rsqrt(D), 0)\n"
     " dv[b, h, j, e] = sum[i](T(p[b, h, i, j]) * do[b, h, i, e])\n"
     " dq[b, h, i, d] = sum[j](T(ds[b, h, i, j]) * k[b, h, j, d])\n"
     " dk[b, h, j, d] = sum[i](T(ds[b, h, i, j]) * q[b, h, i, d]) }",
     {2, 8, 512, 64, 64, 512}},
};

/* ---- what a kernel costs ---- */

typedef struct cost {
    double bytes, operations;
    int stages[2], passes[2]; /* on a processor, on a GPU */
} cost;

static hr_device_limits limits_of(int target) {
    const hr_device_limits cpu = {.threads = 16,
                                  .vector_bytes = 64,
                                  .l1_bytes = 48 << 10,
                                  .l2_bytes = 1 << 20,
                                  .l3_bytes = 32 << 20,
                                  .isa = "avx512"};
    return target ? cuda_case_limits(90, 132) : cpu;
}

static void stages_count(const hr_function *function, const int64_t *extents, int target, cost *out) {
    const hr_device_limits limits = limits_of(target);
    hr_plan *plan;
    if (hr_schedule_create(function, extents, NULL, &limits, NULL, &plan) != HR_OK)
        fail_msg("%s: %s", function->name, hr_last_error());
    out->stages[target] = plan->stage_count;
    for (int i = 0; i < plan->stage_count; i++)
        out->passes[target] += plan->stages[i].pass_count;
    hr_plan_destroy(plan);
}

static cost cost_of(const char *path, const char *text, size_t length, const int64_t *extents) {
    hr_program *program;
    hr_work work;
    cost found = {0};
    if (hr_program_parse(path, text, length, &program) != HR_OK) fail_msg("%s", hr_last_error());
    const hr_function *function = &program->functions[0];
    assert_int_equal(hr_work_count(function, extents, &work), HR_OK);
    found.bytes = work.bytes_read + work.bytes_written;
    found.operations = work.tensor_flops + work.vector_flops;
    for (int s = 0; s < HR_SPECIAL_COUNT; s++)
        found.operations += work.special[s];
    for (int target = 0; target < 2; target++)
        stages_count(function, extents, target, &found);
    hr_program_destroy(program);
    return found;
}

static void is_no_dearer(const handmade *one) {
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/kernels/%s.hr", HR_SOURCE_DIR, one->file);
    char *text = file_text(path, &length);
    assert_non_null(text);
    const cost derived = cost_of(path, text, length, one->extents);
    const cost hand = cost_of(one->file, one->text, strlen(one->text), one->extents);
    /* rstd^2 is two operations a row: a 25000th */
    if (derived.bytes > hand.bytes || derived.operations > 1.0001 * hand.operations)
        fail_msg("%s: %.0f bytes and %.0f operations, by hand %.0f and %.0f", one->file, derived.bytes,
                 derived.operations, hand.bytes, hand.operations);
    for (int t = 0; t < 2; t++)
        if (derived.stages[t] > hand.stages[t] || derived.passes[t] > hand.passes[t])
            fail_msg("%s on a %s: %d stages and %d passes, by hand %d and %d", one->file, t ? "GPU" : "CPU",
                     derived.stages[t], derived.passes[t], hand.stages[t], hand.passes[t]);
    free(text);
}

static void test_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_no_dearer(&cases[i]);
}

/* ---- a block ---- */

static cost block_cost(const char *file) {
    static const struct {
        char name;
        int64_t size;
    } sizes[] = {{'T', 1024}, {'C', 768}, {'H', 12}, {'D', 64}, {'F', 3072}};
    char path[512];
    size_t length;
    hr_program *program;
    int64_t extents[EXTENTS_MAX] = {0};
    snprintf(path, sizeof path, "%s/examples/%s.hr", HR_SOURCE_DIR, file);
    char *text = file_text(path, &length);
    assert_non_null(text);
    if (hr_program_parse(path, text, length, &program) != HR_OK) fail_msg("%s", hr_last_error());
    for (int e = 0; e < program->functions[0].extent_count; e++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (program->functions[0].extents[e][0] == sizes[s].name) extents[e] = sizes[s].size;
    hr_program_destroy(program);
    const cost found = cost_of(path, text, length, extents);
    free(text);
    return found;
}

/* Each product of the forward pass has two in the backward one, and scores are made once more; on a processor
 * twice, for sums over keys and for those over queries, which are regions there. */
static void test_block(void **state) {
    (void)state;
    const cost forward = block_cost("gpt2_block"), training = block_cost("gpt2_block_training"),
               backward = block_cost("gpt2_block_backward");
    static const int most[] = {23, 21}; /* stages of the backward pass */
    const double scores = 2.0 * 12 * 1024 * 1024 * 64;
    assert_true(training.operations <= 1.02 * forward.operations);
    if (backward.operations > 2 * forward.operations + scores * 1.2)
        fail_msg("%.4g operations, forwards %.4g", backward.operations, forward.operations);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(training.stages[t], forward.stages[t]);
        assert_in_range(backward.stages[t], 1, most[t]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hand), cmocka_unit_test(test_block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
