/* What is measured alternately with a kernel, and what a run makes of a machine that drifts, that others use,
 * or whose roof was measured in a slow moment. Clock, load, times and roofs are the tests' own. */
#define _GNU_SOURCE
#include "device/roof_store.h"
#include "support/run_device.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define DRIFT_SECONDS 1e-3

/* A machine whose memory becomes slower with every launch and, at the tenth, jumps to a third; a kernel on it
 * reaches nine tenths of a copy. */
static struct {
    double faster; /* than it was when its roof was measured; 0 = as fast */
    int events, copies, rates;
    bool disturbed, broken, functions; /* functions: they are measured, too, and have the same drift */
    bool poor;                         /* the kept roof's copy has half of the best one's speed */
    double busy;                       /* share of the time in which others wait for processors */
    double waited, clock;              /* seconds so far */
} drift;

/* The clock goes on by a millisecond with each reading, whatever the machine does. */
static void drift_load(void *context, hr_load_reading *out) {
    (void)context;
    drift.clock += DRIFT_SECONDS;
    drift.waited += DRIFT_SECONDS * drift.busy;
    *out = (hr_load_reading){.seconds = drift.clock, .waited = drift.waited};
}

static double drift_rate(void) {
    double slower = (1 + 0.01 * drift.events++) / (drift.faster > 0 ? drift.faster : 1);
    return 20e9 / (drift.events > 10 ? 3 * slower : slower);
}

static hr_status drift_time(struct hr_device *on, hr_module *module, const hr_execution *execution,
                            double *seconds) {
    double bytes = 0;
    (void)on, (void)module;
    for (int64_t i = 0; i < execution->count; i++)
        bytes += (double)execution->bytes[i];
    *seconds = bytes / (0.9 * drift_rate());
    return HR_OK;
}

static hr_status drift_copy(struct hr_device *on, const hr_roof *roof, const hr_execution *execution,
                            double bytes, double *seconds) {
    (void)on;
    assert_true(execution->count > 1 && execution->bytes[0] > 0);
    assert_true(roof->copy == 20e9);
    drift.copies++;
    *seconds = drift.disturbed ? 0 : bytes / drift_rate() * (drift.poor ? 2 : 1);
    return drift.broken ? hr_fail(HR_OUT_OF_MEMORY, "no buffers") : HR_OK;
}

static hr_status drift_choose(struct hr_device *on, const hr_execution *execution, hr_roof *roof,
                              bool *chosen) {
    *chosen = on && execution->count > 1 && drift.poor;
    drift.poor = false;
    snprintf(roof->copy_way, sizeof roof->copy_way, "best");
    return HR_OK;
}

static hr_status drift_special(struct hr_device *on, const char *source, hr_special special, double *rate) {
    (void)on;
    assert_non_null(strstr(source, "sin_rate"));
    assert_int_equal(special, HR_SPECIAL_TRIG);
    drift.rates++;
    *rate = 0.5 * drift_rate(); /* at first, as the roof says */
    return drift.broken ? hr_fail(HR_OUT_OF_MEMORY, "no buffers") : HR_OK;
}

static hr_run_result *drift_run(const char *text, int64_t rows, int64_t cache) {
    static hr_device_ops ops;
    hr_run_options options = {.size = sizeof options, .tune = HR_TUNE_QUICK, .seconds = 0.1};
    hr_run_result *result = NULL;
    int64_t l3 = device.base.limits.l3_bytes;
    ops = counting_ops;
    ops.time = drift_time;
    ops.time_copy = drift_copy;
    ops.choose_copy = drift_choose;
    ops.special_rate = drift.functions ? drift_special : NULL;
    device.base.ops = &ops;
    device.base.limits.l3_bytes = cache;
    device.base.load.read = drift_load;
    drift.events = drift.copies = drift.rates = 0;
    hr_kernel *kernel = load(text);
    fill(kernel, rows, 64, 1);
    good(hr_kernel_run(kernel, &options, &result));
    hr_kernel_destroy(kernel);
    device.base.ops = &counting_ops;
    device.base.limits.l3_bytes = l3;
    device.base.load.read = counting_load;
    return result;
}

static void test_a_drift_is_no_loss(void **state) {
    (void)state;
    hr_run_result *result = drift_run(scale_text, 5000, 1 << 20);
    const hr_floor *floor = &result->floor;
    assert_string_equal(floor->bound, "memory");
    assert_true(floor->memory == floor->seconds && floor->others < floor->memory);
    assert_int_equal(drift.copies, result->seconds.runs); /* one a round, none while it was tuned */
    assert_true(result->seconds.runs > 12 && result->roof_fraction < 0.3);
    assert_true(fabs(result->baseline.copy - 0.9) < 0.02);
    assert_true(fabs(result->baseline.roof_fraction - 0.9) < 0.02);
    assert_true(result->baseline.rate > 2e9 && result->baseline.rate < 7e9);
    assert_true(fabs(result->baseline.floor * result->baseline.rate / floor->bytes - 1) < 1e-3);
    hr_run_result_destroy(result);
}

/* The kept roof was measured in a slow moment: this run has the fast one's, and so has the next. */
static void test_a_slow_roof_is_raised(void **state) {
    (void)state;
    hr_roof kept = {0};
    drift.faster = 20;
    hr_run_result *result = drift_run(scale_text, 5000, 1 << 20);
    const hr_roof *roof = &result->roof;
    assert_true(result->roof_was == 20e9 && roof->copy > 21e9 && roof->copy <= result->baseline.rate);
    assert_true(roof->read == 25e9 && roof->write == 15e9 &&
                roof->triad == 21e9); /* measured by nobody yet */
    assert_true(fabs(result->floor.memory * roof->copy / result->floor.bytes - 1) < 1e-3);
    assert_true(fabs(result->baseline.floor * result->baseline.rate / result->floor.bytes - 1) < 1e-3);
    assert_true(fabs(result->headroom * result->floor.seconds / result->seconds.median - 1) < 1e-9);
    good(hr_device_roof(&device.base, false, NULL, NULL, &kept));
    assert_true(kept.copy == roof->copy);
    hr_run_result_destroy(result);
    drift.faster = 0;
    good(hr_device_roof(&device.base, true, NULL, NULL, &kept));
    assert_true(kept.copy == 20e9);
    result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(result->roof_was == 0 && result->roof.copy == 20e9);
    hr_run_result_destroy(result);
}

/* The kernel has 1.8 times the speed of the kept roof's copy: another is chosen, measured and kept. */
static void test_an_outrun_copy_is_chosen_anew(void **state) {
    (void)state;
    drift.poor = true;
    hr_run_result *result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(!drift.poor && fabs(result->baseline.copy - 0.9) < 0.02 && result->roof.copy == 20e9);
    assert_string_equal(result->roof.copy_way, "best");
    hr_run_result_destroy(result);
}

static const char sines_text[] = "kernel rows(x: f32[M, N]) -> (y: f32[M, N])\n"
                                 "{\n    y[m, n] = x[m, n] * sum[k < N](sin(x[m, k] * x[m, n]))\n}\n";

static void test_busy_cores_are_no_loss(void **state) {
    (void)state;
    drift.functions = true;
    hr_run_result *result = drift_run(sines_text, 5000, 1 << 20);
    const hr_baseline *baseline = &result->baseline;
    double work = result->floor.others * 10e9; /* as functions */
    assert_true(drift.copies == 0 && baseline->copy == 0);
    assert_int_equal(drift.rates, result->seconds.runs);
    assert_int_equal(baseline->special, HR_SPECIAL_TRIG);
    assert_true(baseline->special_rate > 1e7 && baseline->special_rate < 4e9);
    assert_true(fabs(baseline->roof_fraction / (work * 0.9 / 0.5 / result->floor.bytes) - 1) < 0.02);
    assert_true(fabs(baseline->floor * baseline->special_rate / work - 1) < 1e-9);
    hr_run_result_destroy(result);
    drift.faster = 20; /* the roof was measured in a slow moment */
    result = drift_run(sines_text, 5000, 1 << 20);
    assert_true(result->special_was == 10e9 && result->roof_was == 0);
    assert_true(result->roof.special[HR_SPECIAL_TRIG] == result->baseline.special_rate);
    assert_true(result->baseline.special_rate > 10.5e9);
    assert_true(fabs(result->baseline.floor / result->floor.others - 1) < 1e-9);
    hr_run_result_destroy(result);
    drift.faster = 0;
    hr_roof kept;
    good(hr_device_roof(&device.base, true, NULL, NULL, &kept));
    drift.broken = true; /* the kept roof stands in */
    result = drift_run(sines_text, 5000, 1 << 20);
    assert_true(drift.rates == 1 && result->baseline.special_rate == 0);
    assert_true(result->baseline.roof_fraction == result->roof_fraction);
    hr_run_result_destroy(result);
    drift.broken = false;
    result = drift_run(scale_text, 5000, 1 << 20); /* has none of them */
    assert_true(drift.rates == 0 && result->baseline.copy > 0);
    hr_run_result_destroy(result);
    drift.functions = false;
}

static void test_what_has_no_baseline_copy(void **state) {
    (void)state;
    hr_run_result *result = drift_run(scale_text, 5000, 1 << 30); /* the caches hold it */
    assert_true(drift.copies == 0 && result->baseline.copy == 0 && result->baseline.roof_fraction == 0);
    hr_run_result_destroy(result);
    result = drift_run(sines_text, 5000, 1 << 20); /* arithmetic: its floor stands still */
    assert_true(drift.copies == 0 && result->baseline.copy == 0);
    assert_true(result->baseline.roof_fraction == result->roof_fraction);
    hr_run_result_destroy(result);
    drift.disturbed = true; /* no copy was left alone */
    result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(drift.copies > 0 && result->baseline.copy == 0 && result->baseline.roof_fraction == 0);
    hr_run_result_destroy(result);
    drift.disturbed = false;
    drift.broken = true;
    result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(drift.copies == 1 && result->baseline.copy == 0 && result->seconds.runs >= 5);
    hr_run_result_destroy(result);
    drift.broken = false;
}

/* Where other programs are in the way, it is measured twice, and the report says so. */
static void test_a_busy_machine_is_told(void **state) {
    (void)state;
    hr_run_result *result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(result->busy == 0);
    assert_int_equal(drift.copies, result->seconds.runs);
    hr_run_result_destroy(result);
    drift.busy = 0.5;
    result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(fabs(result->busy - 0.5) < 1e-6);
    assert_int_equal(drift.copies, 2 * result->seconds.runs);
    hr_run_result_destroy(result);
    drift.busy = 0.05; /* little enough */
    result = drift_run(scale_text, 5000, 1 << 20);
    assert_true(fabs(result->busy - 0.05) < 1e-6);
    assert_int_equal(drift.copies, result->seconds.runs);
    hr_run_result_destroy(result);
    drift.busy = 0;
}

/* What was measured on a busy machine serves this device, is no later process's roof, and leaves a better one
 * where it is. */
static void test_a_busy_roof_is_not_kept(void **state) {
    (void)state;
    hr_roof roof, kept;
    good(hr_device_roof(&device.base, true, NULL, NULL, &roof));
    device.base.load.read = drift_load;
    drift.busy = 0.3;
    good(hr_device_roof(&device.base, true, NULL, NULL, &roof));
    assert_true(fabs(roof.busy - 0.3) < 1e-6);
    good(hr_device_roof_kept(&device.base, &kept));
    assert_true(kept.busy == 0);
    device.base.limits.threads++; /* a machine without a roof */
    assert_int_equal(hr_device_roof_kept(&device.base, &kept), HR_NOT_AVAILABLE);
    good(hr_device_roof(&device.base, true, NULL, NULL, &roof));
    assert_int_equal(hr_device_roof_kept(&device.base, &kept), HR_NOT_AVAILABLE);
    drift.busy = 0;
    good(hr_device_roof(&device.base, false, NULL, NULL, &roof)); /* not measured anew for each kernel */
    assert_true(fabs(roof.busy - 0.3) < 1e-6);
    good(hr_device_roof(&device.base, true, NULL, NULL, &roof));
    good(hr_device_roof_kept(&device.base, &kept));
    assert_true(roof.busy == 0 && kept.busy == 0 && device.base.roof.threads == 0);
    device.base.limits.threads--;
    device.base.load.read = counting_load;
}

static int roofs;

static hr_status better_roof(struct hr_device *self, const hr_roof_sources *sources, hr_progress_fn progress,
                             void *context, hr_roof *out) {
    hr_status status = given_roof(self, sources, progress, context, out);
    for (int s = 1; roofs > 0 && s < HR_SPECIAL_COUNT; s++)
        out->special[s] *= 100;
    if (roofs++ == 0) out->measured_at = 1; /* long ago, in a slow moment */
    return status;
}

/* A kernel faster than the roof allows shows that the roof is wrong: once, since then it is new. */
static void test_a_passed_roof_is_measured_anew(void **state) {
    (void)state;
    hr_roof roof;
    hr_run_options options = {.size = sizeof options, .tune = HR_TUNE_NONE, .seconds = 0.1};
    hr_device_ops ops = counting_ops;
    ops.time = drift_time;
    ops.measure_roof = better_roof;
    device.base.ops = &ops;
    good(hr_device_roof(&device.base, true, NULL, NULL, &roof));
    device.base.load.read = drift_load;
    drift.events = 0;
    for (int run = 0; run < 2; run++) {
        hr_run_result *result = NULL;
        hr_kernel *kernel = load(sines_text);
        fill(kernel, 500, 64, 1);
        good(hr_kernel_run(kernel, &options, &result));
        assert_int_equal(roofs, 2);
        assert_true(result->roof.special[HR_SPECIAL_TRIG] == 1e12);
        hr_run_result_destroy(result);
        hr_kernel_destroy(kernel);
    }
    device.base.ops = &counting_ops;
    device.base.load.read = counting_load;
    good(hr_device_roof(&device.base, true, NULL, NULL, &roof));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_drift_is_no_loss),
        TEST(test_a_slow_roof_is_raised),
        TEST(test_an_outrun_copy_is_chosen_anew),
        TEST(test_busy_cores_are_no_loss),
        TEST(test_what_has_no_baseline_copy),
        TEST(test_a_busy_machine_is_told),
        TEST(test_a_busy_roof_is_not_kept),
        TEST(test_a_passed_roof_is_measured_anew),
    };
    return cmocka_run_group_tests(tests, start, end);
}
