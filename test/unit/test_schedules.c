/* Schedules: the list of tunables and of kinds against docs/schedules.md; what cannot be combined is refused.
 */
#include "schedule/target.h"

#include "lang/program.h"
#include "support/cuda_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DOCUMENT_MOST = 1 << 16 };

static char *read_document(void) {
    static char text[DOCUMENT_MOST];
    FILE *file = fopen(HR_SOURCE_DIR "/docs/schedules.md", "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

/* The document has these rows and no others in the table that begins with `head`. */
static void check_table(const char *head, const hr_text *rows) {
    const char *table = strstr(read_document(), head), *own = hr_text_data(rows);
    if (!table) fail_msg("docs/schedules.md has no table that begins with\n%s", head);
    table += strlen(head);
    size_t length = strlen(own);
    const char *end = strstr(table, "\n\n");
    if (strncmp(table, own, length) != 0 || (end && (size_t)(end + 1 - table) != length))
        fail_msg("docs/schedules.md should have, after\n%s\n%s", head, own);
}

static const char *targets[] = {"cpu", "cuda"};

static void add_kinds(hr_text *rows, unsigned scope) {
    const char *between = "";
    for (int k = 0; k < HR_SCHEDULE_KINDS; k++) {
        if (!(hr_kind_list[k].scope & scope)) continue;
        hr_text_format(rows, "%s%s %s", between, targets[hr_kind_list[k].target], hr_kind_list[k].word);
        between = ", ";
    }
}

static void test_document_has_every_kind(void **state) {
    (void)state;
    hr_text rows = {0};
    for (int k = 0; k < HR_SCHEDULE_KINDS; k++) {
        const hr_kind *kind = &hr_kind_list[k];
        const char *between = "";
        hr_text_format(&rows, "| %s | %s | %s | %s | ", targets[kind->target], kind->word, kind->what,
                       kind->when);
        for (int i = 0; i < HR_KNOB_COUNT; i++) {
            if (!(hr_knob_list[i].schedules & kind->scope)) continue;
            hr_text_format(&rows, "%s%s", between, hr_knob_list[i].label);
            between = ", ";
        }
        hr_text_format(&rows, " |\n");
    }
    check_table("| target | schedule | stages | when | tunables |\n|---|---|---|---|---|\n", &rows);
    hr_text_clear(&rows);
}

static void test_document_has_every_tunable(void **state) {
    (void)state;
    hr_text rows = {0};
    for (int i = 0; i < HR_KNOB_COUNT; i++) {
        const hr_knob *knob = &hr_knob_list[i];
        hr_text_format(&rows, "| %s | ", knob->label);
        if (!knob->values) hr_text_format(&rows, "%d to %d", knob->least, knob->most);
        for (const char *c = knob->values; c && *c; c++)
            hr_text_format(&rows, *c == '|' ? ", " : "%c", *c);
        hr_text_format(&rows, " | ");
        add_kinds(&rows, knob->schedules);
        hr_text_format(&rows, " | %s |\n", knob->words);
    }
    check_table("| tunable | values | schedules | what it is |\n|---|---|---|---|\n", &rows);
    hr_text_clear(&rows);
}

static void test_help_names_every_tunable(void **state) {
    (void)state;
    for (int i = 0; i < HR_KNOB_COUNT; i++) {
        assert_non_null(strstr(hr_tuning_help(), hr_knob_list[i].label));
        assert_non_null(strstr(hr_tuning_help(), hr_knob_list[i].words));
    }
}

/* ---- what is refused ---- */

static const char norm[] = "kernel k(x: f32[M, N]) -> (y: f32[M, N])\n{\n"
                           "    r[m] = rsqrt(sum[n](x[m, n]^2))\n    y[m, n] = x[m, n] * r[m]\n}\n";

static hr_status schedule(const hr_knobs *knobs, int compute, hr_program **program, hr_plan **plan) {
    const hr_function *function;
    hr_device_limits cpu = {.threads = 2, .vector_bytes = 64, .l1_bytes = 48 << 10, .l2_bytes = 2 << 20},
                     cuda = cuda_case_limits(90, 0);
    const hr_schedule_options options = {.choice = hr_choice_of(0, knobs)};
    assert_int_equal(hr_program_parse("test.hr", norm, strlen(norm), program), HR_OK);
    assert_int_equal(hr_program_find(*program, NULL, &function), HR_OK);
    return hr_schedule_create(function, (const int64_t[]){64, 4096}, NULL, compute ? &cuda : &cpu, &options,
                              plan);
}

static void test_illegal_knobs_are_refused(void **state) {
    (void)state;
    static const struct {
        hr_knobs knobs;
        int compute;
        const char *sentence;
    } cases[] = {
        {{.jam = 17}, 0, "from 1 to 16"},
        {{.accumulators = -1}, 0, "from 1 to 8"},
        {{.prefetch = (hr_prefetch_knob)6}, 0, "from 1 to 5"},
        {{.cluster = 2}, 0, "stage 1, whose schedule (walk) has none"},
        {{.jam = 2}, 90, "stage 1, whose schedule (grid) has none"},
        {{.pipeline = HR_PIPELINE_OFF, .throttle = HR_THROTTLE_ADDRESSES}, 0, "\"pipeline\" is off"},
        {{.pipeline = HR_PIPELINE_ON, .chunk = 16}, 0, "cannot go with \"pipeline\""},
        {{.jam = 4, .chunk = 16}, 0, "cannot go with \"jam\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_program *program;
        hr_plan *plan;
        assert_int_equal(schedule(&cases[i].knobs, cases[i].compute, &program, &plan), HR_BAD_INPUT);
        if (!strstr(hr_last_error(), cases[i].sentence))
            fail_msg("%s: %s", cases[i].sentence, hr_last_error());
        hr_program_destroy(program);
    }
}

/* A product, and a map: two stages, each with knobs of its own. */
static const char stages[] = "kernel k(x: f32[M, N], w: f32[N, K]) -> (y: f32[M, K], z: f32[M, N])\n{\n"
                             "    y[m, k] = sum[n](x[m, n] * w[n, k])\n"
                             "    z[m, n] = exp(x[m, n])\n}\n";

static hr_status schedule_stages(const hr_choice *choice, hr_program **program, hr_plan **plan) {
    const hr_function *function;
    const hr_device_limits cpu = {
        .threads = 2, .vector_bytes = 64, .l1_bytes = 48 << 10, .l2_bytes = 2 << 20, .isa = "avx512"};
    const hr_schedule_options options = {.choice = *choice};
    assert_int_equal(hr_program_parse("test.hr", stages, strlen(stages), program), HR_OK);
    assert_int_equal(hr_program_find(*program, NULL, &function), HR_OK);
    return hr_schedule_create(function, (const int64_t[]){64, 256, 64}, NULL, &cpu, &options, plan);
}

/* A knob is one stage's: the others stay as they were, a stage that has no such knob refuses it, and the
 * candidates of a plan change one stage each. */
static void test_knobs_are_a_stages_own(void **state) {
    (void)state;
    hr_program *program;
    hr_plan *plan;
    hr_text text = {0};
    hr_choice list[64], choice = hr_choice_of(0, &(hr_knobs){.block_k = 128});
    assert_true(hr_choice_add(&choice, 1, &(hr_knobs){.chunk = 16}));
    assert_int_equal(schedule_stages(&choice, &program, &plan), HR_OK);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(plan->stages[0].schedule->product.blocks.depth, 128);
    assert_int_equal(hr_stage_knobs(&plan->stages[0])->chunk, 0);
    assert_int_equal(hr_stage_knobs(&plan->stages[1])->block_k, 0);
    assert_int_equal(hr_cpu_walk_of(&plan->stages[1])->chunk, 16);
    hr_schedule_explain(plan, (const int64_t[]){64, 256, 64}, &text);
    assert_non_null(strstr(hr_text_data(&text), "chosen: block k 128\n"));
    assert_non_null(strstr(hr_text_data(&text), "chosen: chunk 16\n"));
    hr_text_clear(&text);
    int count = hr_schedule_candidates(plan, list, 64), product = 0, walk = 0;
    assert_int_equal(list[0].count, 0);
    for (int i = 1; i < count; i++) {
        assert_int_equal(hr_schedule_obeys(plan, &list[i]), HR_OK);
        assert_int_equal(hr_choice_check(&list[i], 2), HR_OK);
        assert_int_equal(list[i].settings[0].stage, list[i].settings[list[i].count - 1].stage);
        product += list[i].settings[0].stage == 0;
        walk += list[i].settings[0].stage == 1;
    }
    assert_true(product > 4 && walk > 4);
    hr_plan_destroy(plan);
    hr_program_destroy(program);

    choice = hr_choice_of(1, &(hr_knobs){.block_k = 128});
    assert_int_equal(schedule_stages(&choice, &program, &plan), HR_BAD_INPUT);
    assert_non_null(
        strstr(hr_last_error(), "\"block k\" is set for stage 2, whose schedule (walk) has none"));
    hr_program_destroy(program);
    choice = hr_choice_of(2, &(hr_knobs){.chunk = 16});
    assert_int_equal(schedule_stages(&choice, &program, &plan), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "stage 3 of a plan that has 2"));
    hr_program_destroy(program);
}

/* Each change of a good schedule makes one that cannot be. */
static void make_columns(hr_stage *stage) {
    hr_cpu_walk_of(stage)->partition = HR_PARTITION_COLUMNS;
    hr_cpu_walk_of(stage)->strip = 64;
}
static void make_shallow(hr_stage *stage) {
    hr_cpu_walk_of(stage)->pipeline.depth = 1;
}
static void make_scalar(hr_stage *stage) {
    stage->schedule->lanes = HR_LANES_SCALAR;
}
static void make_gathered(hr_stage *stage) {
    hr_cpu_walk_of(stage)->order = HR_ORDER_GATHERED;
}
static void make_reversed(hr_stage *stage) {
    hr_cpu_walk_of(stage)->pipeline.direction = HR_REVERSED;
    hr_cpu_walk_of(stage)->jam = 2;
}
static void make_wide_jam(hr_stage *stage) {
    hr_cpu_walk_of(stage)->jam = 17;
}
static void make_product(hr_stage *stage) {
    stage->schedule->kind = HR_SCHEDULE_CPU_PRODUCT;
}
static void make_grid(hr_stage *stage) {
    stage->schedule->kind = HR_SCHEDULE_CUDA_GRID;
}
static void make_segments(hr_stage *stage) {
    hr_cpu_walk_of(stage)->segments.run = 32;
}

static void test_illegal_schedules_are_refused(void **state) {
    (void)state;
    static void (*const changes[])(hr_stage * stage) = {make_columns,  make_shallow,  make_scalar,
                                                        make_gathered, make_reversed, make_wide_jam,
                                                        make_product,  make_grid,     make_segments};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        hr_program *program;
        hr_plan *plan;
        assert_int_equal(schedule(&(hr_knobs){.pipeline = HR_PIPELINE_ON}, 0, &program, &plan), HR_OK);
        assert_int_equal(hr_schedule_check(plan), HR_OK);
        assert_int_equal(hr_cpu_walk_of(plan->stages)->pipeline.depth, 2);
        changes[i](plan->stages);
        if (hr_schedule_check(plan) != HR_INTERNAL) fail_msg("change %zu is taken", i);
        assert_non_null(strstr(hr_last_error(), "stage 1"));
        hr_plan_destroy(plan);
        hr_program_destroy(program);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_has_every_kind),  cmocka_unit_test(test_document_has_every_tunable),
        cmocka_unit_test(test_help_names_every_tunable), cmocka_unit_test(test_illegal_knobs_are_refused),
        cmocka_unit_test(test_knobs_are_a_stages_own),   cmocka_unit_test(test_illegal_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
