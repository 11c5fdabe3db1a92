/* Memory of a device by category: traces of a few lines with the bytes that must come out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "diagnose/diagnose.h"
#include "report/report.h"
#include "support/text_trace.h"

#include <stdlib.h>
#include <string.h>

static hr_diagnosis *diagnosis_of(const char *text, const char *source) {
    hr_trace *trace;
    hr_diagnosis *diagnosis;
    if (hr_text_trace(text, &trace) != HR_OK) fail_msg("%s", hr_last_error());
    snprintf(trace->ranks.items[0].source, sizeof trace->ranks.items[0].source, "%s", source);
    if (hr_diagnose_trace(trace, NULL, &diagnosis) != HR_OK) fail_msg("%s", hr_last_error());
    diagnosis->owned = trace;
    return diagnosis;
}

/* A step that loads, computes, goes back, updates: 4000 bytes are there before, 2300 more at the peak. */
static const char step[] =
    "device 0 \"NVIDIA H100\" compute=90 memory=20000\n"
    "range main 0 1000 ProfilerStep#0\nrange main 1000 1000 ProfilerStep#1\n"
    "call main 2 2 cudaLaunchKernel #1\nkernel gpu0:7 5 900 nvjet_a #1\n"
    "call main 1002 2 cudaLaunchKernel #2\nkernel gpu0:7 1005 900 nvjet_a #2\n"
    "range main 10 20 \"enumerate(DataLoader)#1\"\n"
    "allocation main 15 0 [memory] bytes=200 address=4096 memory=device device=0 total=4200 reserved=9000\n"
    "allocation main 100 0 [memory] bytes=1000 address=8192 memory=device device=0 total=5200 reserved=9000\n"
    "allocation main 110 0 [memory] bytes=50 address=12288 memory=device device=0 total=5250 reserved=9000\n"
    "allocation main 120 0 [memory] bytes=-50 address=12288 memory=device device=0 total=5200 reserved=9000\n"
    "allocation main 130 0 [memory] bytes=77 address=12288 memory=pageable device=-1\n" /* of the host: not
                                                                                           counted */
    "range main 400 300 \"autograd::engine::evaluate_function: MmBackward0\"\n"
    "allocation main 410 0 [memory] bytes=600 address=16384 memory=device device=0 total=5800 reserved=9000\n"
    "allocation main 420 0 [memory] bytes=500 address=20480 memory=device device=0 total=6300 reserved=9000\n"
    "allocation main 430 0 [memory] bytes=-500 address=20480 memory=device device=0 total=5800 "
    "reserved=9000\n"
    "allocation main 440 0 [memory] bytes=-1000 address=8192 memory=device device=0 total=4800 "
    "reserved=9000\n"
    "range main 800 100 \"Optimizer.step#AdamW.step\"\n"
    "allocation main 810 0 [memory] bytes=300 address=24576 memory=device device=0 total=5100 reserved=9000\n"
    "allocation main 950 0 [memory] bytes=-600 address=16384 memory=device device=0 total=4500 "
    "reserved=9000\n"
    "allocation main 960 0 [memory] bytes=-40 address=99999 memory=device device=0 total=4460 reserved=9000\n"
    "allocation main 1500 0 [memory] bytes=10 address=8192 memory=device device=0 total=4470 reserved=9000\n";

static void test_categories(void **state) {
    (void)state;
    hr_diagnosis *diagnosis = diagnosis_of(step, "kineto");
    const hr_memory_use *memory = &diagnosis->memory;
    static const int64_t right[HR_MEMORY_USE_COUNT] = {[HR_MEMORY_BEFORE_USE] = 4000,
                                                       [HR_MEMORY_INPUTS_USE] = 200,
                                                       [HR_MEMORY_ACTIVATIONS_USE] = 1000,
                                                       [HR_MEMORY_GRADIENTS_USE] = 600,
                                                       [HR_MEMORY_TEMPORARY_USE] = 500};
    assert_int_equal(memory->peak, 6300);
    assert_int_equal(memory->peak_time, 420000);
    for (int i = 0; i < HR_MEMORY_USE_COUNT; i++)
        if (memory->at_peak[i] != right[i])
            fail_msg("%s: %lld, should be %lld", hr_memory_use_name(i), (long long)memory->at_peak[i],
                     (long long)right[i]);
    const hr_memory_point *last = &memory->points[memory->point_count - 1];
    assert_int_equal(last->bytes[HR_MEMORY_STATE_USE], 300);
    assert_int_equal(last->bytes[HR_MEMORY_BEFORE_USE], 3960);
    assert_int_equal(last->bytes[HR_MEMORY_ACTIVATIONS_USE],
                     10); /* of the last step: given back behind the end */
    int64_t most = 0;
    for (int i = 0; i < memory->point_count; i++) {
        int64_t sum = 0;
        for (int k = 0; k < HR_MEMORY_USE_COUNT; k++)
            sum += memory->points[i].bytes[k];
        most = sum > most ? sum : most;
        assert_true(i == 0 || memory->points[i].time > memory->points[i - 1].time);
    }
    assert_int_equal(most, memory->peak); /* no point of the curve hides it */
    assert_int_equal(memory->reserved, 9000);
    assert_int_equal(memory->idle_reserved, 9000 - 6300);
    /* 0.95 of 20000 less the 4600 that stay, over the 1700 that grow */
    assert_true(memory->batch_factor > 8.47 && memory->batch_factor < 8.48);
    char *text;
    assert_int_equal(hr_report_diagnosis_text(diagnosis, NULL, &text), HR_OK);
    assert_non_null(strstr(text, "peak 6.30 kB of 20.0 kB, 420 us into the trace"));
    assert_non_null(
        strstr(text, "A batch about 8.5 times as large would fit: 1.70 kB of the peak grow with it"));
    assert_non_null(strstr(text, "holds 9.00 kB, of which 2.70 kB (30 %) lie unused in pieces"));
    free(text);
    assert_int_equal(hr_report_diagnosis_html(diagnosis, &text), HR_OK);
    assert_non_null(strstr(text, "<h2>Memory of the device</h2>"));
    free(text);
    hr_diagnosis_destroy(diagnosis);
}

/* Memory as the driver gave it out is pools, not tensors; without addresses nothing is told apart. */
static void test_what_is_not_known(void **state) {
    (void)state;
    hr_diagnosis *diagnosis = diagnosis_of(step, "headroom");
    assert_true(diagnosis->memory.of_driver && diagnosis->memory.batch_factor == 0);
    assert_int_equal(diagnosis->memory.at_peak[HR_MEMORY_ACTIVATIONS_USE], 0);
    hr_diagnosis_destroy(diagnosis);
    diagnosis = diagnosis_of(
        "kernel gpu0:7 5 900 nvjet_a\nallocation main 1 0 [memory] bytes=100 memory=device device=0\n"
        "allocation main 2 0 [memory] bytes=-60 memory=device device=0\n"
        "allocation main 3 0 [memory] bytes=10 memory=device device=0\n",
        "kineto");
    assert_int_equal(diagnosis->memory.peak, 100);
    assert_int_equal(diagnosis->memory.at_peak[HR_MEMORY_UNTOLD_USE], 100);
    hr_diagnosis_destroy(diagnosis);
    diagnosis = diagnosis_of("kernel gpu0:7 5 900 nvjet_a\n", "kineto");
    assert_int_equal(diagnosis->memory.allocations, 0);
    char *text;
    assert_int_equal(hr_report_diagnosis_text(diagnosis, NULL, &text), HR_OK);
    assert_null(strstr(text, "Memory of the device"));
    free(text);
    hr_diagnosis_destroy(diagnosis);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_categories),
                                       cmocka_unit_test(test_what_is_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
