/* One counting device for all tests of a program, with a cache of its own, and kernels on it. For tests only.
 */
#ifndef TEST_SUPPORT_RUN_DEVICE_H
#define TEST_SUPPORT_RUN_DEVICE_H

#include "run/kernel.h"
#include "support/counting_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char cache[] = "/tmp/hr-test-run-XXXXXX";
static counting_device device;

static int start(void **state) {
    (void)state;
    if (!mkdtemp(cache)) return -1;
    setenv("HEADROOM_CACHE", cache, 1);
    return counting_open(&device) == HR_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    char command[128];
    counting_close(&device);
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command);
}

static int reset(void **state) {
    (void)state;
    device.before = device.after = NULL;
    device.compiles = device.launches = device.timings = 0;
    return 0;
}

static void good(hr_status status) {
    if (status != HR_OK) print_message("%s: %s\n", hr_status_name(status), hr_last_error());
    assert_int_equal(status, HR_OK);
}

static hr_kernel *load(const char *text) {
    hr_kernel *kernel = NULL;
    good(hr_kernel_load(&device.base, "test.hr", text, strlen(text), NULL, &kernel));
    return kernel;
}

static const char scale_text[] = "kernel scale(x: f32[M, N], a: f32 = 2) -> (y: f32[M, N])\n"
                                 "{\n    y[m, n] = a * x[m, n] + 1\n}\n";

/* Random arrays of M x N elements. */
static void fill(hr_kernel *kernel, int64_t rows, int64_t columns, uint64_t seed) {
    good(hr_kernel_bind_extent(kernel, "M", rows));
    good(hr_kernel_bind_extent(kernel, "N", columns));
    good(hr_kernel_fill(kernel, seed));
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

#endif
