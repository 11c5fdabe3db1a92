/* What kernels of the library, and some over an axis that is not the last, take of memory beside their
 * arrays: little, however long their rows are and however many tasks they have, on a CPU of few threads or
 * many. */
#include "emit/emit.h"
#include "lang/program.h"
#include "schedule/target.h"
#include "support/cuda_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SCRATCH_MOST = 64 << 20 };

static const char softmax_text[] =
    "kernel k(x: f32[B, C, P]) -> (y: f32[B, C, P])\n{\n    y[b, c, p] = softmax[c](x[b, c, p])\n}\n";
static const char norm_text[] =
    "kernel k(x: bf16[B, C, P]) -> (y: bf16[B, C, P])\n{\n    mu[b, p] = mean[c](x[b, c, p])\n"
    "    va[b, p] = mean[c]((x[b, c, p] - mu[b, p])^2)\n"
    "    y[b, c, p] = (x[b, c, p] - mu[b, p]) * rsqrt(va[b, p] + 0.001)\n}\n";

static const struct scratch_case {
    const char *file, *name; /* or the text itself, where there is no name */
    hr_dtype dtype;
    int64_t extents[6]; /* in the order of the text */
    const char *stages; /* on a CPU and on a GPU; NULL = they may be any */
} cases[] = {
    {"layernorm_backward", "layernorm_backward", HR_BF16, {64, 1 << 22}, "2 stages: row, column"},
    {"layernorm_backward", "layernorm_backward", HR_BF16, {1024, 1 << 20}, "2 stages: row, column"},
    {"layernorm_backward", "layernorm_backward", HR_F32, {4096, 1 << 14}, "1 stage: row"},
    {"rmsnorm_backward", "rmsnorm_backward", HR_F32, {16, 1 << 24}, "2 stages: row, column"},
    {"sum", "column_sum", HR_F32, {16, 1 << 24}, "1 stage: column"},
    {"sum", "column_sum", HR_BF16, {1 << 16, 1 << 18}, "1 stage: column"},
    {"residual_norm", "residual_norm", HR_BF16, {4, 1 << 26}, "1 stage: row"},
    {"softmax", "softmax", HR_BF16, {4, 1 << 26}, "1 stage: row"},
    {"softmax", "softmax", HR_F32, {1 << 10, 1 << 18}, "1 stage: row"},
    {"layernorm", "layernorm", HR_BF16, {2, 1 << 27}, "1 stage: row"},
    {"embedding_backward", "embedding_backward", HR_BF16, {1 << 23, 512, 50257}, NULL},
    {"embedding", "embedding", HR_BF16, {1 << 23, 50257, 2048}, NULL},
    {"swiglu_backward", "swiglu_backward", HR_BF16, {1 << 12, 1 << 16}, "1 stage: map"},
    {"dropout", "dropout", HR_BF16, {1 << 12, 1 << 16}, "1 stage: map"},
    {"clip_norm", "clip_norm", HR_BF16, {1 << 28}, NULL},
    {"adamw", "adamw", HR_BF16, {1 << 28}, "1 stage: map"},
    {"attention", "attention", HR_BF16, {1, 32, 8192, 128, 8192, 128}, NULL},
    {"attention", "attention", HR_F32, {8, 16, 2048, 64, 2048, 64}, NULL},
    {softmax_text, NULL, HR_F32, {64, 4, 1 << 20}, NULL},
    {norm_text, NULL, HR_F32, {64, 21, 1 << 18}, NULL},
    {norm_text, NULL, HR_F32, {1024, 256, 1 << 12}, NULL},
};

static void check_case(const struct scratch_case *c, const hr_function *function,
                       const hr_device_limits *limits) {
    hr_plan *plan;
    int64_t bytes = 0;
    assert_int_equal(hr_schedule_create(function, c->extents, NULL, limits, NULL, &plan), HR_OK);
    if (c->stages && strcmp(plan->summary, c->stages) != 0)
        fail_msg("%s of %lld x %lld: %s, not %s", c->file, (long long)c->extents[0], (long long)c->extents[1],
                 plan->summary, c->stages);
    if (!limits->compute) assert_int_equal(hr_emit_scratch(plan, c->extents, limits->threads, &bytes), HR_OK);
    if (bytes > SCRATCH_MOST)
        fail_msg("%s of %lld x %lld takes %lld bytes for %d threads", c->file, (long long)c->extents[0],
                 (long long)c->extents[1], (long long)bytes, limits->threads);
    hr_plan_destroy(plan);
}

static const char *read_kernel(const char *name) {
    static char text[1 << 14];
    char path[512];
    snprintf(path, sizeof path, "%s/kernels/%s.hr", HR_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static void test_scratch(void **state) {
    (void)state;
    const hr_device_limits cuda = cuda_case_limits(90, 0);
    const hr_device_limits few = {.threads = 2,
                                  .vector_bytes = 32,
                                  .l1_bytes = 32 << 10,
                                  .l2_bytes = 512 << 10,
                                  .l3_bytes = 32 << 20,
                                  .isa = "avx2"};
    hr_device_limits many = few;
    many.threads = 16;
    many.vector_bytes = 64;
    many.l1_bytes = 48 << 10;
    many.l2_bytes = 2 << 20;
    many.l3_bytes = 300 << 20;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct scratch_case *c = &cases[i];
        hr_program *program;
        const hr_function *function;
        const char *source = c->name ? read_kernel(c->file) : c->file;
        hr_parse_options options = {.dtype_default = c->dtype};
        assert_int_equal(hr_program_parse_for("scratch.hr", source, strlen(source), &options, &program),
                         HR_OK);
        assert_int_equal(hr_program_find(program, c->name ? c->name : "k", &function), HR_OK);
        check_case(c, function, &few);
        check_case(c, function, &many);
        if (c->stages) check_case(c, function, &cuda);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scratch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
