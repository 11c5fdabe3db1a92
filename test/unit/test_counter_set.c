/* The host's half of hardware counters, with NVIDIA's own CUPTI where it is installed: no GPU is needed. */
#include "record/inject/recorder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static cupti_library cupti;
static cupti_counter_library library;

/* Of cupti_activity.c, which is not linked here. */
void record_lacks_memory(void) {}

const char *activity_code_words(int code) {
    (void)code;
    return "";
}

static bool has(const counter_set *set, const char *name) {
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->names[i], name) == 0) return true;
    return false;
}

/* Each chip has what the diagnosis lives on; in one pass. */
static void test_chips(void **unused) {
    (void)unused;
    static const char *const chips[] = {"GA100", "GA102", "AD102", "GH100", "GB100"};
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        counter_set kernels, samples;
        int code = counter_set_make(&library, CUPTI_RANGE_PROFILER, chips[i], counter_metrics_of_one_run,
                                    COUNTED_VALUES, &kernels);
        if (code == CUPTI_CHIP_UNKNOWN) continue; /* an older CUPTI */
        assert_int_equal(code, CUPTI_OK);
        assert_true(has(&kernels, "dram__bytes_read.sum") && has(&kernels, "dram__bytes_write.sum"));
        assert_true(has(&kernels, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"));
        assert_int_equal(kernels.count, 12);
        assert_true(kernels.config_bytes > 100);
        assert_int_equal(kernels.passes, 1);
        code = counter_set_make(&library, CUPTI_PM_SAMPLING, chips[i], counter_metrics_of_samples,
                                COUNTER_METRICS_OF_SAMPLES, &samples);
        assert_int_equal(code, CUPTI_OK);
        assert_int_equal(samples.passes, 1);
        assert_int_equal(samples.count, COUNTER_METRICS_OF_SAMPLES);
    }
}

static void test_hopper(void **unused) {
    (void)unused;
    counter_set set;
    assert_int_equal(counter_set_make(&library, CUPTI_RANGE_PROFILER, "GH100", counter_metrics_of_replays,
                                      COUNTED_VALUES, &set),
                     CUPTI_OK);
    assert_int_equal(set.count, 18);
    assert_int_equal(set.passes, 3);
}

/* What a chip lacks is left out and the places of the others stay. */
static void test_unknown_metrics(void **unused) {
    (void)unused;
    static const char *const names[] = {"no__such_metric.sum", "gpu__time_duration.sum",
                                        "dram__bytes_read.sum.not"};
    counter_set set;
    assert_int_equal(counter_set_make(&library, CUPTI_RANGE_PROFILER, "GH100", names, 3, &set), CUPTI_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.places[0], 1);
    assert_int_equal(set.passes, 1);
    assert_int_equal(counter_set_make(&library, CUPTI_RANGE_PROFILER, "GH100", names, 1, &set),
                     CUPTI_METRIC_UNKNOWN);
    assert_int_not_equal(counter_set_make(&library, CUPTI_RANGE_PROFILER, "XX999", names, 3, &set), CUPTI_OK);
}

/* An image that nobody counted into has no values. */
static void test_evaluation_of_rubbish(void **unused) {
    (void)unused;
    counter_set set;
    double values[COUNTED_VALUES];
    uint8_t image[4096] = {0};
    assert_int_equal(counter_set_make(&library, CUPTI_RANGE_PROFILER, "GH100", counter_metrics_of_replays,
                                      COUNTED_VALUES, &set),
                     CUPTI_OK);
    int code = counter_set_evaluate(&library, &set, image, sizeof image, 0, values);
    for (int i = 0; code != CUPTI_OK && i < COUNTED_VALUES; i++)
        assert_true(isnan(values[i]));
    assert_int_not_equal(code, CUPTI_OK);
}

int main(void) {
    char sentence[2048];
    if (!cupti_open(&cupti, sentence, sizeof sentence)) {
        printf("skipped: %s\n", sentence);
        return 77;
    }
    if (!counter_library_open(&cupti, &library, sentence, sizeof sentence)) {
        printf("skipped: %s\n", sentence);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chips),
        cmocka_unit_test(test_hopper),
        cmocka_unit_test(test_unknown_metrics),
        cmocka_unit_test(test_evaluation_of_rubbish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
