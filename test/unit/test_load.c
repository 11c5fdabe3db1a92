/* What else runs: the system's texts, and the share between two readings. */
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

static void near(double got, double right) {
    if (!(fabs(got - right) <= 1e-9 * fabs(right))) fail_msg("%g, should be %g", got, right);
}

static void test_texts(void **state) {
    (void)state;
    near(hr_load_waited(
             "some avg10=98.83 avg60=98.83 avg300=98.07 total=6576222308\nfull avg10=0.00 total=7\n"),
         6576.222308);
    near(hr_load_waited(""), 0);
    near(hr_load_waited("full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"), 0);
    near(hr_load_waited("some avg10=0.00 total=-5"), 0);
    near(hr_load_stolen("cpu  787617 382221 205823 34823 447 0 1366 2077 0 0\ncpu0 398989 1 2\n", 100, 2),
         10.385);
    near(hr_load_stolen("cpu  787617 382221 205823 34823 447 0 1366\n", 100, 2), 0); /* an old kernel's */
    near(hr_load_stolen("cpu  1 2 3 4 5 6 7 8\n", 0, 2), 0);
    near(hr_load_stolen("", 100, 2), 0);
    near(hr_load_throttled("usage_usec 5\nnr_periods 3\nnr_throttled 2\nthrottled_usec 2500000\n"), 2.5);
    near(hr_load_throttled("nr_periods 3\nnr_throttled 2\nthrottled_time 1500000000\n"), 1.5);
    near(hr_load_throttled(""), 0);
}

static void test_quotas(void **state) {
    (void)state;
    assert_int_equal(hr_load_quota("max 100000\n", ""), 0);
    assert_int_equal(hr_load_quota("150000 100000\n", ""), 2);
    assert_int_equal(hr_load_quota("400000 100000\n", ""), 4);
    assert_int_equal(hr_load_quota("-1\n", "100000\n"), 0); /* version 1 without a limit */
    assert_int_equal(hr_load_quota("50000\n", "100000\n"), 1);
    assert_int_equal(hr_load_quota("250000\n", "100000\n"), 3);
    assert_int_equal(hr_load_quota("250000\n", ""), 0);
    assert_int_equal(hr_load_quota("250000\n", "0\n"), 0);
    assert_int_equal(hr_load_quota("nan 1\n", ""), 0);
    assert_int_equal(hr_load_quota("", ""), 0);
}

static void test_between(void **state) {
    (void)state;
    const hr_load_reading begun = {100, 7, 3, 2, 1000};
    near(hr_load_between(&begun, &(hr_load_reading){110, 7, 3, 2, 1000}, 4), 0);
    near(hr_load_between(&begun, &(hr_load_reading){110, 9, 3, 2, 1000}, 4), 0.2);
    near(hr_load_between(&begun, &(hr_load_reading){110, 8, 6, 2, 1000}, 4), 0.3); /* the largest counts */
    near(hr_load_between(&begun, &(hr_load_reading){110, 7, 3, 22, 1000}, 4), 0.5);
    near(hr_load_between(&begun, &(hr_load_reading){110, 7, 3, 2, 9000}, 4), 0.6);
    near(hr_load_between(&begun, &(hr_load_reading){110, 37, 3, 2, 1000}, 4), 1);
    near(hr_load_between(&begun, &(hr_load_reading){110, 5, 1, 0, 0}, 4), 0); /* the other way round */
    near(hr_load_between(&begun, &begun, 4), 0);
    near(hr_load_between(&begun, &(hr_load_reading){99, 9, 9, 9, 2000}, 0), 0);
}

static void told(void *context, hr_load_reading *out) {
    *out = *(const hr_load_reading *)context;
}

static void test_sources(void **state) {
    (void)state;
    hr_load_reading right = {1, 2, 3, 4, 5}, got, later;
    struct hr_device device = {.load = {.read = told, .context = &right}};
    hr_load_read(&device, &got);
    assert_memory_equal(&got, &right, sizeof got);
    device.load = (hr_load_source){0};
    setenv("HEADROOM_LOAD", "0.25", 1);
    hr_load_read(&device, &got);
    do
        hr_load_read(&device, &later);
    while (later.seconds == got.seconds);
    assert_true(fabs(hr_load_between(&got, &later, 2) - 0.25) < 1e-3);
    unsetenv("HEADROOM_LOAD");
    hr_load_read(&device, &later); /* the machine's: sums never fall */
    hr_load_read(&device, &got);
    assert_true(got.seconds >= later.seconds && got.waited >= later.waited && got.switches >= later.switches);
    device.limits.compute = 90;
    hr_load_read(&device, &got);
    assert_true(got.waited == 0 && got.stolen == 0 && got.throttled == 0 && got.switches == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_quotas),
                                       cmocka_unit_test(test_between), cmocka_unit_test(test_sources)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
