/* Handles that were destroyed, in a debug build: this program has src/base/handle.c with HR_DEBUG_HANDLES. */
#include "headroom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static const char text[] = "kernel twice(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = 2 * x[n]\n}\n";

static void says(hr_status status, const char *words) {
    assert_int_equal(status, HR_BAD_INPUT);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" says nothing of \"%s\"", hr_last_error(), words);
}

static void test_destroyed_kernel(void **state) {
    (void)state;
    hr_device *device;
    hr_kernel *kernel;
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    assert_int_equal(hr_kernel_load(device, NULL, text, strlen(text), NULL, &kernel), HR_OK);
    assert_int_equal(hr_kernel_bind_extent(kernel, "N", 3), HR_OK);
    hr_kernel_destroy(kernel);
    says(hr_kernel_launch(kernel), "hr_kernel_launch got a kernel that was destroyed before");
    says(hr_kernel_bind_extent(kernel, "N", 4), "hr_kernel_bind_extent got a kernel that was destroyed");
    says(hr_kernel_execute(kernel, NULL, 0, NULL), "hr_kernel_execute got a kernel that was destroyed");
    assert_int_equal(hr_kernel_argument_count(kernel), 0);
    assert_null(hr_kernel_name(kernel));
    hr_kernel_destroy(kernel); /* once more does nothing */
    hr_device_destroy(device);
}

static void test_destroyed_device(void **state) {
    (void)state;
    hr_device *device;
    hr_kernel *kernel;
    void *memory;
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    hr_device_destroy(device);
    says(hr_kernel_load(device, NULL, text, strlen(text), NULL, &kernel),
         "hr_kernel_load got a device that was destroyed");
    says(hr_device_allocate(device, 8, &memory), "hr_device_allocate got a device that was destroyed");
    says(hr_device_synchronise(device), "a device that was destroyed");
    assert_null(hr_device_name(device));
    hr_device_destroy(device);
}

/* One handle for another. */
static void test_another_handle(void **state) {
    (void)state;
    hr_device *device;
    assert_int_equal(hr_device_open("cpu", &device), HR_OK);
    says(hr_kernel_launch((hr_kernel *)(void *)device), "got something else where a kernel is wanted");
    hr_device_destroy(device);
}

static void test_no_handle(void **state) {
    (void)state;
    says(hr_kernel_launch(NULL), "hr_kernel_launch got no kernel (NULL)");
    hr_kernel_destroy(NULL);
    hr_device_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_destroyed_kernel), cmocka_unit_test(test_destroyed_device),
        cmocka_unit_test(test_another_handle), cmocka_unit_test(test_no_handle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
