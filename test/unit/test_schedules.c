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
    const hr_schedule_options options = {.knobs = *knobs};
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
        {{.cluster = 2}, 0, "no stage of this plan"},
        {{.jam = 2}, 90, "no stage of this plan"},
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
        cmocka_unit_test(test_document_has_every_kind),
        cmocka_unit_test(test_document_has_every_tunable),
        cmocka_unit_test(test_help_names_every_tunable),
        cmocka_unit_test(test_illegal_knobs_are_refused),
        cmocka_unit_test(test_illegal_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
