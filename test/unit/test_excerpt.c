/* Steps taken out of a long trace: whole steps around the chosen one, each with its work, and the same
 * answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "diagnose/excerpt.h"
#include "support/text_trace.h"

#include <stdlib.h>

enum { STEPS = 40, EVENTS_A_STEP = 5 };

/* The host is a step ahead of the device: a step's work runs while the host makes the next one. The work of
 * step i takes 900 + i us, so that the step in the middle is the chosen one. */
static hr_trace *trace_of_steps(void) {
    hr_text text = {0};
    hr_trace *trace;
    double device = 1000;
    for (int i = 0; i < STEPS; i++) {
        double at = i * 1000.0;
        hr_text_format(&text, "range main %g 1000 ProfilerStep#%d\n", at, i);
        for (int k = 0; k < 2; k++) {
            hr_text_format(&text, "call main %g 5 cudaLaunchKernel #%d\n", at + 100 + 10 * k, 2 * i + k + 1);
            hr_text_format(&text, "kernel gpu0:7 %g %g nvjet_%d #%d grid=132,1,1\n", device, 450 + i / 2.0, k,
                           2 * i + k + 1);
            device += 451 + i / 2.0;
        }
    }
    if (hr_text_trace(hr_text_data(&text), &trace) != HR_OK) fail_msg("%s", hr_last_error());
    hr_text_clear(&text);
    return trace;
}

static hr_analysis analysis_of(const hr_trace *trace) {
    hr_analysis analysis = {.trace = trace, .device = -1};
    if (hr_analysis_join(&analysis) != HR_OK) fail_msg("%s", hr_last_error());
    hr_analysis_steps(&analysis);
    return analysis;
}

static void test_steps_with_their_work(void **state) {
    (void)state;
    enum { WANTED = 10 };
    hr_trace *trace = trace_of_steps();
    hr_analysis whole = analysis_of(trace);
    hr_excerpt excerpt;
    int counted = whole.steps.count - whole.steps.first; /* a first step may count as warm-up */
    assert_true(counted > STEPS / 2);
    assert_int_equal(hr_excerpt_make(&whole, WANTED * trace->events.count / counted + 1, &excerpt), HR_OK);
    assert_non_null(excerpt.places);
    assert_int_equal(excerpt.trace.events.count, WANTED * EVENTS_A_STEP);
    for (int64_t i = 0; i < excerpt.trace.events.count; i++) {
        const hr_event *taken = &excerpt.trace.events.items[i], *of = &trace->events.items[excerpt.places[i]];
        assert_memory_equal(taken, of, sizeof *of);
        assert_true(i == 0 || excerpt.places[i] > excerpt.places[i - 1]);
    }
    hr_analysis part = analysis_of(&excerpt.trace);
    assert_int_equal(part.steps.count, WANTED);
    assert_int_equal(part.work_count, 2 * WANTED); /* though most of it runs behind the host's last step */
    const hr_step *chosen = &whole.steps.items[whole.steps.chosen];
    bool found = false;
    for (int i = 0; i < part.work_count; i++)
        assert_true(part.works[i].call >= 0 && part.works[i].step >= 0);
    for (int i = 0; i < part.steps.count; i++)
        found |=
            part.steps.items[i].host_start == chosen->host_start && part.steps.items[i].end == chosen->end;
    assert_true(found);
    hr_arena_destroy(part.arena);
    hr_arena_destroy(whole.arena);
    hr_excerpt_clear(&excerpt);
    hr_trace_destroy(trace);
}

/* Short traces, and long ones of few steps, stay as they are. */
static void test_nothing_to_take(void **state) {
    (void)state;
    hr_trace *trace = trace_of_steps();
    hr_analysis whole = analysis_of(trace);
    static const int64_t most[] = {STEPS * EVENTS_A_STEP, 7 * EVENTS_A_STEP, 1};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        hr_excerpt excerpt;
        assert_int_equal(hr_excerpt_make(&whole, most[i], &excerpt), HR_OK);
        assert_null(excerpt.places);
        hr_excerpt_clear(&excerpt);
    }
    hr_arena_destroy(whole.arena);
    hr_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_with_their_work),
                                       cmocka_unit_test(test_nothing_to_take)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
