/* The steps of the ladders: each is compiled by NVRTC for the architectures that have what it needs, without
 * spills, and runs on the emulated device at a small size, where its results are those of the text.
 *
 * HR_TEST_LONG=1: all steps for all architectures, more orders of the threads; HR_ONLY=swizzled keeps to one.
 */
#include "base/dtype.h"
#include "device/compiler_cuda.h"
#include "ir/extent.h"
#include "ladder/ladder.h"
#include "lang/program.h"
#include "reference/reference.h"
#include "run/check.h"
#include "run/fill.h"
#include "schedule/target.h"
#include "support/cuda_case.h"
#include "support/cuda_emulation.h"
#include "support/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cuda_test.h"

enum { TENSORS_MAX = 4, POINTS = 200, TEXT_MAX = 4096 };

/* ---- the texts ---- */

static hr_program *ladder_program(const hr_ladder *ladder) {
    char path[512], text[TEXT_MAX];
    hr_parse_options options = {.dtype_default = HR_BF16};
    hr_program *program;
    snprintf(path, sizeof path, "%s/kernels/%s.hr", HR_SOURCE_DIR, ladder->kernel);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_int_equal(hr_program_parse_for(path, text, length, &options, &program), HR_OK);
    return program;
}

static const hr_function *ladder_function(const hr_program *program, const hr_ladder *ladder) {
    const hr_function *function;
    assert_int_equal(hr_program_find(program, ladder->kernel, &function), HR_OK);
    return function;
}

static bool is_asked_for(const hr_ladder_step *step) {
    const char *only = getenv("HR_ONLY");
    return !hr_ladder_step_is_planned(step) && (!only || strcmp(only, step->name) == 0);
}

/* ---- what a step says of itself ---- */

/* Three sentences in front, each of which ends. */
static void test_steps_explain_themselves(void **state) {
    (void)state;
    for (int l = 0; hr_ladder_at(l); l++)
        for (int s = 0; s < hr_ladder_at(l)->step_count; s++) {
            const char *text = (const char *)hr_ladder_at(l)->steps[s].text;
            int lines = 0;
            for (; strncmp(text, "// ", 3) == 0; lines++) {
                const char *end = strchr(text, '\n');
                assert_non_null(end);
                assert_int_equal(end[-1], '.');
                text = end + 1;
            }
            assert_int_equal(lines, 3);
        }
}

/* ---- NVRTC ---- */

static hr_cuda_compiler compiler;

static void step_compile(const hr_ladder_step *step, const hr_function *function, int compute) {
    char arch[16];
    void *cubin = NULL;
    size_t size;
    hr_text source = {0}, log = {0};
    hr_cuda_arch_name(compute, arch, sizeof arch);
    assert_int_equal(hr_ladder_source(step, function, &source), HR_OK);
    if (hr_cuda_compiler_run(&compiler, arch, hr_text_data(&source), &cubin, &size, &log) != HR_OK)
        fail_msg("%s for %s: %s", step->name, arch, hr_last_error());
    const hr_cuda_usage usage = hr_cuda_usage_read(hr_text_data(&log));
    if (getenv("HR_VERBOSE")) print_message("%-24s %-7s %3d registers\n", step->name, arch, usage.registers);
    if (usage.stores || usage.stack)
        fail_msg("%s for %s spills %d bytes, %d of stack", step->name, arch, usage.stores, usage.stack);
    if (strstr(hr_text_data(&log), "(C75")) fail_msg("%s for %s: %s", step->name, arch, hr_text_data(&log));
    free(cubin);
    hr_text_clear(&source);
    hr_text_clear(&log);
}

static void test_steps_compile(void **state) {
    (void)state;
    static const int computes[] = {80, 90};
    size_t number = 0;
    hr_cuda_compiler_create(&compiler);
    if (hr_cuda_compiler_find(&compiler, 0) != HR_OK) {
        print_message("skipped: %s\n", hr_last_error());
        skip();
    }
    for (int l = 0; hr_ladder_at(l); l++) {
        hr_program *program = ladder_program(hr_ladder_at(l));
        const hr_function *function = ladder_function(program, hr_ladder_at(l));
        for (int s = 0; s < hr_ladder_at(l)->step_count; s++)
            for (size_t c = 0; c < 2; c++) {
                const hr_ladder_step *step = &hr_ladder_at(l)->steps[s];
                if (!is_asked_for(step) || !hr_ladder_step_fits(step, computes[c])) continue;
                if (getenv("HR_ONLY") || sample_takes(number++, 7)) step_compile(step, function, computes[c]);
            }
        hr_program_destroy(program);
    }
    hr_cuda_compiler_destroy(&compiler);
}

/* ---- the emulated device ---- */

typedef struct step_case {
    const hr_ladder_step *step;
    const hr_function *function;
    const int64_t *extents;
    int count; /* of tensors */
    int64_t shapes[TENSORS_MAX][HR_RANK_MAX], strides[TENSORS_MAX][HR_RANK_MAX], elements[TENSORS_MAX];
    char *data[TENSORS_MAX];
    uint64_t words[64];
} step_case;

/* Pointers, scalars, extents, strides, scratch, fault: base/launch.h. */
static void words_make(step_case *c) {
    uint64_t *word = c->words;
    const int64_t scratch_bytes = hr_ladder_scratch(c->step, c->function, c->extents);
    for (int i = 0; i < c->count; i++)
        *word++ = (uint64_t)(uintptr_t)c->data[i];
    word += c->count;
    for (int e = 0; e < c->function->extent_count; e++)
        *word++ = (uint64_t)c->extents[e];
    for (int i = 0; i < c->count; i++)
        for (int axis = 0; axis < c->function->tensors[i].rank; axis++)
            *word++ = (uint64_t)c->strides[i][axis];
    *word = (uint64_t)(uintptr_t)cuda_emulation_array(device, "scratch", (size_t)scratch_bytes, 0,
                                                      CUDA_READ | CUDA_WRITE);
}

static void arrays_make(step_case *c) {
    cuda_emulation_clear(device);
    c->count = c->function->parameter_count + c->function->result_count;
    assert_true(c->count <= TENSORS_MAX);
    for (int i = 0; i < c->count; i++) {
        const hr_tensor *tensor = &c->function->tensors[i];
        const bool input = i < c->function->parameter_count;
        c->elements[i] = 1;
        for (int axis = tensor->rank; axis-- > 0;) {
            assert_int_equal(
                hr_extent_value(c->function, tensor->shape[axis], c->extents, &c->shapes[i][axis]), HR_OK);
            c->strides[i][axis] = c->elements[i];
            c->elements[i] *= c->shapes[i][axis];
        }
        c->data[i] = cuda_emulation_array(device, tensor->name, (size_t)c->elements[i] * 2, 0,
                                          input ? CUDA_READ | CUDA_FILLED : CUDA_WRITE | CUDA_ONCE);
        assert_non_null(c->data[i]);
        if (input)
            hr_fill_array(HR_BF16, c->data[i], c->elements[i], &(hr_filling){.seed = (uint64_t)i * 77 + 5});
    }
    words_make(c);
}

/* What the text's own kernel may round: bf16 weights of attention, sums in parts. */
static void orders_allow(const step_case *c, hr_reference *reference) {
    const hr_device_limits limits = cuda_case_limits(90, 0);
    hr_sum_order *orders;
    hr_plan *plan;
    int count;
    assert_int_equal(hr_schedule_create(c->function, c->extents, NULL, &limits, NULL, &plan), HR_OK);
    assert_int_equal(hr_check_orders(plan, c->extents, &orders, &count), HR_OK);
    hr_reference_orders(reference, orders, count);
    free(orders);
    hr_plan_destroy(plan);
}

static void results_check(const step_case *c) {
    hr_operand operands[TENSORS_MAX] = {0};
    hr_reference *reference;
    const int result = c->function->parameter_count;
    for (int i = 0; i < result; i++)
        operands[i] = (hr_operand){.data = c->data[i], .shape = c->shapes[i], .strides = c->strides[i]};
    assert_true(cuda_emulation_written(device, c->data[result], (size_t)c->elements[result] * 2));
    assert_int_equal(hr_reference_create(c->function, c->extents, operands, &reference), HR_OK);
    orders_allow(c, reference);
    for (int64_t point = 0; point < POINTS; point++) {
        int64_t at[HR_RANK_MAX], offset = 0;
        hr_meaning meaning;
        hr_check_point(c->function->tensors[result].rank, c->shapes[result], point, 1, at);
        for (int axis = 0; axis < c->function->tensors[result].rank; axis++)
            offset += at[axis] * c->strides[result][axis];
        assert_int_equal(hr_reference_value(reference, result, at, &meaning), HR_OK);
        const double got = hr_dtype_load(HR_BF16, c->data[result], (size_t)offset);
        if (!(hr_check_ratio(HR_F32, HR_BF16, got, &meaning) <= 1))
            fail_msg("%s: element %lld is %g, should be %g", c->step->name, (long long)offset, got,
                     meaning.value);
    }
    hr_reference_destroy(reference);
}

static void step_run(step_case *c, uint64_t seed) {
    const hr_device_limits limits = {.threads = 2, .compute = 90};
    const char *entries[HR_LADDER_LAUNCHES_MAX];
    hr_launch launches[HR_LADDER_LAUNCHES_MAX];
    cuda_object *object;
    hr_text source = {0};
    for (int i = 0; i < c->step->launch_count; i++)
        entries[i] = c->step->launches[i].entry;
    assert_int_equal(hr_ladder_source(c->step, c->function, &source), HR_OK);
    hr_status status = cuda_object_compile(hr_text_data(&source), entries, c->step->launch_count, &object);
    if (status == HR_NOT_AVAILABLE) skip();
    if (status != HR_OK) fail_msg("%s: %s", c->step->name, hr_last_error());
    assert_int_equal(hr_ladder_launches(c->step, c->function, c->extents, &limits, launches), HR_OK);
    arrays_make(c);
    for (int i = 0; i < c->step->launch_count; i++)
        if (cuda_emulation_launch(device, object, &launches[i], c->words, seed) != HR_OK)
            fail_msg("%s: %s", c->step->name, hr_last_error());
    results_check(c);
    cuda_object_destroy(object);
    hr_text_clear(&source);
}

/* Small, but every tile, stage and turn occurs. Extents in the order of the text. */
static const struct small {
    const char *ladder;
    int from; /* the first step, from 0, that these are for */
    int64_t extents[HR_LADDER_EXTENTS_MAX];
} smalls[] = {
    {"gemm", 0, {64, 64, 64}},
    {"gemm", 3, {128, 64, 128}},
    {"gemm", 9, {128, 384, 128}},
    {"gemm", 10, {256, 384, 256}},
    {"gemm", 12, {384, 448, 256}},
    {"softmax", 0, {130, 104}},
    {"softmax", 3, {3, 4104}},
    {"attention", 0, {1, 2, 128, 128, 128, 128}},
    {"attention", 3, {1, 1, 384, 128, 384, 128}},
};

/* The emulator knows no wmma: what differs from mma.sync is how fragments lie, which the hardware keeps to
 * itself. */
static bool is_emulated(const hr_ladder_step *step) {
    return strstr((const char *)step->text, "wmma.load") == NULL;
}

static const int64_t *small_of(const hr_ladder *ladder, int step) {
    const int64_t *extents = NULL;
    for (size_t i = 0; i < sizeof smalls / sizeof *smalls; i++)
        if (strcmp(smalls[i].ladder, ladder->name) == 0 && step >= smalls[i].from)
            extents = smalls[i].extents;
    assert_non_null(extents);
    return extents;
}

static void test_steps_are_right(void **state) {
    (void)state;
    const uint64_t seeds = getenv("HR_TEST_LONG") ? 4 : 1;
    size_t number = 0;
    for (int l = 0; hr_ladder_at(l); l++) {
        const hr_ladder *ladder = hr_ladder_at(l);
        hr_program *program = ladder_program(ladder);
        for (int s = 0; s < ladder->step_count; s++) {
            step_case one = {&ladder->steps[s], ladder_function(program, ladder), small_of(ladder, s),
                             .count = 0};
            if (!is_asked_for(one.step) || !is_emulated(one.step)) continue;
            if (!getenv("HR_ONLY") && !sample_takes(number++, 5)) continue;
            for (uint64_t seed = 0; seed < seeds; seed++)
                step_run(&one, seed);
        }
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_explain_themselves),
                                       cmocka_unit_test(test_steps_compile),
                                       cmocka_unit_test(test_steps_are_right)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
