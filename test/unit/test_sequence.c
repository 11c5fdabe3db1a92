/* Sequences: results pass from call to call through buffers that share memory, shapes and places that grow
 * with the step, and arrays that do not lie in their buffer. */
#define _GNU_SOURCE
#include "device/device.h"
#include "run/sequence.h"

#include <pthread.h>
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
    assert_true(info.calls_seconds > 0 && info.calls_seconds < info.seconds + 1e-9);
    assert_string_equal(info.refusal, "");
    hr_sequence_destroy(sequence);
}

/* Threads of the caller's, of which there are four whatever machine this is. */
enum { PARTS = 4 };

typedef struct part {
    hr_part_fn run;
    void *job;
    int64_t number, parts;
} part;

static void *part_run(void *context) {
    const part *given = context;
    given->run(given->job, given->number, given->parts);
    return NULL;
}

static void parts_run(void *context, int64_t parts, hr_part_fn run, void *job) {
    pthread_t threads[PARTS];
    part all[PARTS];
    assert_true(parts <= PARTS);
    ++*(int *)context;
    for (int64_t i = 0; i < parts; i++) {
        all[i] = (part){run, job, i, parts};
        assert_int_equal(pthread_create(&threads[i], NULL, part_run, &all[i]), 0);
    }
    for (int64_t i = 0; i < parts; i++)
        pthread_join(threads[i], NULL);
}

static int64_t meetings_of(const hr_sequence *sequence) {
    hr_sequence_info info;
    good(hr_sequence_info_get(sequence, &info));
    return info.meetings;
}

static const char mix_text[] =
    "kernel mix(x: f32[N], s: f32[16]) -> (y: f32[N])\n{\n    y[n] = x[n] + s[n % 16]\n}\n";

/* A launch is one job. Its threads meet where one needs what another makes, and where memory is written that
 * others still read; what is little each does for itself. */
static void test_threads_meet(void **state) {
    enum { MANY = 1 << 18, FEW = 16 };
    float *x = calloc(MANY, sizeof *x), *y = calloc(MANY, sizeof *y), *z = calloc(MANY, sizeof *z);
    const hr_step_size many = {MANY, 0}, few = {FEW, 0}, none = {0, 0};
    hr_device *own;
    hr_kernel *before = kernel, *mix;
    hr_device *device_before = device;
    int buffers[2], jobs = 0;
    (void)state;
    good(hr_device_open("cpu", &own));
    own->limits.threads = PARTS;
    device = own;
    good(hr_device_threads_set(own, parts_run, &jobs));
    good(hr_kernel_load(own, "test.hr", scale_text, strlen(scale_text), NULL, &kernel));
    good(hr_kernel_load(own, "test.hr", mix_text, strlen(mix_text), NULL, &mix));
    for (int i = 0; i < MANY; i++)
        x[i] = (float)(i % 61);

    hr_sequence *sequence = sequence_of(2, buffers);
    hr_sequence_array small = array(buffers[0], NULL, few, none),
                      smaller = array(buffers[1], NULL, few, none);
    good(call(sequence, array(-1, x, few, none), small)); /* each for itself */
    good(call(sequence, small, smaller));
    good(hr_sequence_call(
        sequence, mix, /* and reads its own beside the others */
        (const hr_sequence_array[]){array(-1, x, many, none), smaller, array(-1, y, many, none)}, 3));
    good(call(sequence, array(-1, y, many, none), array(-1, z, many, none))); /* 1: reads y */
    good(call(sequence, smaller, array(-1, y, few, none)));                 /* 2: y was read; one thread's */
    good(call(sequence, array(-1, y, few, none), array(-1, z, few, none))); /* the same thread's */
    for (int round = 0; round < 3; round++) {
        jobs = 0;
        good(hr_sequence_launch(sequence, 0));
        assert_int_equal(jobs, 1);
        assert_int_equal(meetings_of(sequence), 2);
        for (int i = 0; i < MANY; i++) {
            const float twice = 4 * x[i % FEW] + 3, thrice = 2 * twice + 1, mixed = x[i] + twice;
            assert_true(y[i] == (i < FEW ? thrice : mixed));
            assert_true(z[i] == 2 * y[i] + 1);
        }
    }
    hr_sequence_destroy(sequence);
    hr_kernel_destroy(kernel);
    hr_kernel_destroy(mix);
    hr_device_destroy(own);
    kernel = before;
    device = device_before;
    free(x);
    free(y);
    free(z);
}

/* More than little work, which one thread does before others start, yet little enough that each does it for
 * itself: its stages go in pieces, of which that thread has all. Twice, so that the second call finds on its
 * stack what the first one left. */
static void test_each_does_several_stages(void **state) {
    enum { ROWS = 64, COLUMNS = 200, MANY = 1 << 18 };
    static const char two_text[] = "kernel two(x: f32[M, N], v: f32[K, N]) -> (y: f32[M], z: f32[K])\n{\n"
                                   "    y[m] = sum[n](x[m, n])\n    z[k] = sum[n](2 * v[k, n])\n}\n";
    static const char last_text[] = "kernel last(y: f32[M], z: f32[M], u: f32[M], w: f32[M], x: f32[N]) -> "
                                    "(t: f32[N])\n{\n    t[n] = y[n % M] + 3 * z[n % M] + 5 * u[n % M] + 7 "
                                    "* w[n % M] + x[n]\n}\n";
    static float x[ROWS][COLUMNS], sums[ROWS], zeros[MANY], t[MANY];
    const hr_step_size rows = {ROWS, 0}, many = {MANY, 0}, none = {0, 0};
    hr_device *own;
    hr_kernel *two, *last;
    hr_device *before = device;
    int jobs = 0, buffers[4];
    (void)state;
    good(hr_device_open("cpu", &own));
    own->limits.threads = PARTS;
    device = own;
    good(hr_device_threads_set(own, parts_run, &jobs));
    good(hr_kernel_load(own, "test.hr", two_text, strlen(two_text), NULL, &two));
    good(hr_kernel_load(own, "test.hr", last_text, strlen(last_text), NULL, &last));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        sums[i / COLUMNS] += x[i / COLUMNS][i % COLUMNS] = (float)(i % 7);

    hr_sequence *sequence = sequence_of(4, buffers);
    hr_sequence_array from = array(-1, x, rows, none), held[4];
    from.rank = 2;
    from.shape[1] = (hr_step_size){COLUMNS, 0};
    for (int i = 0; i < 4; i++)
        held[i] = array(buffers[i], NULL, rows, none);
    for (int i = 0; i < 4; i += 2)
        good(hr_sequence_call(sequence, two, (const hr_sequence_array[]){from, from, held[i], held[i + 1]},
                              4));
    good(hr_sequence_call(sequence, last,
                          (const hr_sequence_array[]){held[0], held[1], held[2], held[3],
                                                      array(-1, zeros, many, none), array(-1, t, many, none)},
                          6));
    for (int round = 0; round < 3; round++) {
        memset(t, 0, sizeof t);
        good(hr_sequence_launch(sequence, 0));
        assert_int_equal(meetings_of(sequence), 0);
        for (int i = 0; i < MANY; i++)
            if (t[i] != 26 * sums[i % ROWS]) fail_msg("%d is %g, should be %g", i, t[i], 26 * sums[i % ROWS]);
    }
    hr_sequence_destroy(sequence);
    hr_kernel_destroy(two);
    hr_kernel_destroy(last);
    hr_device_destroy(own);
    device = before;
}

/* The whole of a launch that a subscript leaves: who needs what it makes has not run. */
static void test_subscript_leaves(void **state) {
    static const char text[] = "kernel pick(x: f32[N], i: i32[M]) -> (y: f32[M])\n{\n    y[m] = x[i[m]]\n}\n";
    float x[4] = {1, 2, 3, 4}, y[2] = {0}, z[2] = {7, 7};
    int32_t at[2] = {3, 1};
    hr_kernel *pick;
    const hr_step_size two = {2, 0}, four = {4, 0}, none = {0, 0};
    (void)state;
    good(hr_kernel_load(device, "pick.hr", text, strlen(text), NULL, &pick));
    hr_sequence *sequence = sequence_of(0, NULL);
    hr_sequence_array from = array(-1, x, four, none), places = array(-1, at, two, none);
    places.dtype = HR_I32;
    good(hr_sequence_call(sequence, pick, (const hr_sequence_array[]){from, places, array(-1, y, two, none)},
                          3));
    good(call(sequence, array(-1, y, two, none), array(-1, z, two, none)));
    good(hr_sequence_launch(sequence, 0));
    assert_true(y[0] == 4 && y[1] == 2 && z[0] == 9 && z[1] == 5);
    at[1] = 4;
    z[0] = z[1] = 7;
    assert_int_equal(hr_sequence_launch(sequence, 0), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "call 0 of the sequence, kernel pick"));
    assert_non_null(strstr(hr_last_error(), "had the value 4"));
    assert_true(z[0] == 7 && z[1] == 7);
    at[1] = 0;
    good(hr_sequence_launch(sequence, 0));
    assert_true(z[0] == 9 && z[1] == 3);
    hr_sequence_destroy(sequence);
    hr_kernel_destroy(pick);
}

typedef struct watched {
    int calls, most; /* that may begin */
} watched;

static bool watch(void *context, const char *what, double done, double total) {
    watched *seen = context;
    (void)what, (void)total;
    seen->calls++;
    return done < seen->most;
}

/* Behind the call that was not wanted nothing is run. */
static void test_stopped(void **state) {
    enum { COUNT = 8 };
    float x[COUNT] = {1}, y[COUNT] = {0}, z[COUNT] = {0};
    const hr_step_size count = {COUNT, 0}, none = {0, 0};
    watched seen = {0, 9};
    (void)state;
    hr_sequence *sequence = sequence_of(0, NULL);
    good(call(sequence, array(-1, x, count, none), array(-1, y, count, none)));
    good(call(sequence, array(-1, y, count, none), array(-1, z, count, none)));
    hr_sequence_watch(sequence, watch, &seen);
    good(hr_sequence_launch(sequence, 0));
    assert_true(z[0] == 7);
    x[0] = 2;
    seen = (watched){0, 1};
    assert_int_equal(hr_sequence_launch(sequence, 0), HR_CANCELLED);
    assert_int_equal(seen.calls, 2);
    assert_true(z[0] == 7 && y[0] == 5);
    hr_sequence_destroy(sequence);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers_share_memory),
        cmocka_unit_test(test_sizes_grow_with_the_step),
        cmocka_unit_test(test_arrays_beyond_their_buffer),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_threads_meet),
        cmocka_unit_test(test_each_does_several_stages),
        cmocka_unit_test(test_subscript_leaves),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, start, end);
}
