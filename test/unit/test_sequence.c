/* Sequences: results pass from call to call through buffers that share memory, shapes and places that grow
 * with the step, and arrays that do not lie in their buffer. */
#define _GNU_SOURCE
#include "headroom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 4096

static const char scale_text[] = "kernel scale(x: f32[N], a: f32 = 2) -> (y: f32[N])\n"
                                 "{\n    y[n] = a * x[n] + 1\n}\n";
static char cache[] = "/tmp/hr-test-sequence-XXXXXX";
static hr_device *device;
static hr_kernel *kernel;

static void good(hr_status status) {
    if (status != HR_OK) print_message("%s: %s\n", hr_status_name(status), hr_last_error());
    assert_int_equal(status, HR_OK);
}

static void bad(hr_status status, const char *words) {
    assert_int_equal(status, HR_BAD_INPUT);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" says nothing of \"%s\"", hr_last_error(), words);
}

static int start(void **state) {
    (void)state;
    if (!mkdtemp(cache)) return -1;
    setenv("HEADROOM_CACHE", cache, 1);
    setenv("HEADROOM_CC", HR_SOURCE_DIR "/test/support/cc_quick", 0);
    return hr_device_open("cpu", &device) == HR_OK &&
                   hr_kernel_load(device, "test.hr", scale_text, strlen(scale_text), NULL, &kernel) == HR_OK
               ? 0
               : -1;
}

static int end(void **state) {
    char command[128];
    (void)state;
    hr_kernel_destroy(kernel);
    hr_device_destroy(device);
    snprintf(command, sizeof command, "rm -rf %s", cache);
    return system(command);
}

static hr_sequence_array array(int buffer, void *data, hr_step_size count, hr_step_size offset) {
    return (hr_sequence_array){.size = sizeof(hr_sequence_array),
                               .buffer = buffer,
                               .data = data,
                               .dtype = HR_F32,
                               .rank = 1,
                               .shape = {count},
                               .offset = offset};
}

static hr_status call(hr_sequence *sequence, hr_sequence_array x, hr_sequence_array y) {
    const hr_sequence_array none = {.size = sizeof none, .buffer = -1, .dtype = HR_F32};
    return hr_sequence_call(sequence, kernel, (const hr_sequence_array[]){x, none, y}, 3);
}

static hr_sequence *sequence_of(int buffers, int *out) {
    hr_sequence *sequence;
    good(hr_sequence_create(device, &sequence));
    for (int i = 0; i < buffers; i++)
        good(hr_sequence_buffer(sequence, "held", BYTES, &out[i]));
    return sequence;
}

static void test_buffers_share_memory(void **state) {
    enum { CALLS = 6, COUNT = BYTES / sizeof(float) };
    static float x[COUNT], y[COUNT];
    const hr_step_size count = {COUNT, 0}, none = {0, 0};
    int buffers[CALLS - 1];
    (void)state;
    hr_sequence *sequence = sequence_of(CALLS - 1, buffers);
    hr_sequence_array from = array(-1, x, count, none);
    for (int i = 0; i < CALLS; i++) {
        hr_sequence_array to =
            i + 1 < CALLS ? array(buffers[i], NULL, count, none) : array(-1, y, count, none);
        good(call(sequence, from, to));
        from = to;
    }
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 61);
    good(hr_sequence_launch(sequence, 0));
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 64 * x[i] + 63);
    assert_int_equal(hr_sequence_memory(sequence), 2 * BYTES);
    hr_sequence_destroy(sequence);
}

static void test_sizes_grow_with_the_step(void **state) {
    float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[8] = {0};
    const hr_step_size rest = {8, -1}, step = {0, 1};
    (void)state;
    hr_sequence *sequence = sequence_of(0, NULL);
    good(call(sequence, array(-1, x, rest, step), array(-1, y, rest, step)));
    good(hr_sequence_launch(sequence, 6));
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == (i < 6 ? 0 : 2 * x[i] + 1));
    hr_sequence_destroy(sequence);
}

static void test_arrays_beyond_their_buffer(void **state) {
    enum { COUNT = BYTES / sizeof(float) };
    static float x[COUNT];
    int buffer, first;
    (void)state;
    hr_sequence *sequence = sequence_of(1, &buffer);
    good(call(sequence, array(-1, x, (hr_step_size){16, 0}, (hr_step_size){0, 0}),
              array(buffer, NULL, (hr_step_size){16, 0}, (hr_step_size){COUNT - 20, 4})));
    good(hr_sequence_launch(sequence, 1));
    bad(hr_sequence_launch(sequence, 2), "does not lie in the 4096 bytes of buffer held");
    bad(hr_sequence_launch(sequence, -COUNT), "does not lie in");
    bad(hr_sequence_launch(sequence, INT64_MAX), "larger than any memory");
    bad(hr_sequence_buffer(sequence, "huge", SIZE_MAX, &first), "larger than any memory");
    hr_sequence_destroy(sequence);

    sequence = sequence_of(1, &buffer);
    hr_sequence_array strided = array(buffer, NULL, (hr_step_size){16, 0}, (hr_step_size){15, 0});
    strided.strided = true;
    strided.strides[0] = -1;
    good(call(sequence, strided, array(-1, x, (hr_step_size){16, 0}, (hr_step_size){0, 0})));
    good(hr_sequence_launch(sequence, 0));
    strided.offset.fixed = 14;
    good(call(sequence, strided, array(-1, x, (hr_step_size){16, 0}, (hr_step_size){0, 0})));
    bad(hr_sequence_launch(sequence, 0), "call 1 of the sequence");
    hr_sequence_destroy(sequence);
}

/* Each call against its text, on what the calls before it made; a copy between them, and sizes of the step.
 */
static void test_check(void **state) {
    enum { COUNT = 100 };
    float x[COUNT], y[COUNT] = {0}, copied[COUNT] = {0};
    const hr_step_size rest = {COUNT, -1}, none = {0, 0};
    hr_check check;
    hr_sequence_info info;
    int buffer;
    (void)state;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i / 3;
    hr_sequence *sequence = sequence_of(1, &buffer);
    hr_sequence_array to = array(-1, copied, rest, none), from = array(buffer, NULL, rest, none);
    good(call(sequence, array(-1, x, rest, none), from));
    good(hr_sequence_copy(sequence, &to, &from));
    good(call(sequence, to, array(-1, y, rest, none)));
    good(hr_sequence_prepare(sequence, 9));
    good(hr_sequence_check(sequence, 10, 0, &check));
    assert_true(check.ok);
    assert_int_equal(check.points, 2 * 64);
    assert_memory_equal(check.where, "call ", 5);
    for (int i = 0; i < COUNT; i++) {
        const float once = 2 * x[i] + 1;
        assert_true(copied[i] == (i < 90 ? once : 0) && y[i] == (i < 90 ? 2 * once + 1 : 0));
    }
    bad(hr_sequence_check(sequence, 10, -1, &check), "cannot be checked");
    good(hr_sequence_launch(sequence, 0));
    good(hr_sequence_launch_timed(sequence, 0, HR_TIMING_CALLS));
    good(hr_sequence_info_get(sequence, &info));
    assert_int_equal(info.launches, 2);
    assert_true(info.seconds > 0 && info.seconds == info.calls_seconds);
    assert_string_equal(info.refusal, "");
    hr_sequence_destroy(sequence);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_share_memory),
        cmocka_unit_test(test_sizes_grow_with_the_step),
        cmocka_unit_test(test_arrays_beyond_their_buffer),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, start, end);
}
