/* Sequences on the CUDA device over the fake driver: the second launch is a graph, what changes with the step
 * is patched in it, copies run beside kernels wherever the graph's edges let them, and what the driver
 * refuses is queued call by call. The test computes what the kernels would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/sequence.h"

#include "support/fake_device.h"

#include "headroom.h"

static const char text[] =
    "kernel mix(x: f32[N], y: f32[N], a: f32) -> (z: f32[N]) { z[n] = a * x[n] + y[n] }\n"
    "kernel pick(table: f32[V], at: i32[N]) -> (y: f32[N]) { y[n] = table[at[n]] }\n";

enum { MOST = 512 };

static hr_device *device;
static hr_kernel *mix, *pick;
static hr_sequence *sequence;
static double spoilt_scale; /* the calls of `mix` with this scalar are wrong in their first element */
static hr_fault fault_next; /* what `pick` leaves */

static void good(hr_status status) {
    if (status != HR_OK) fail_msg("%s", hr_last_error());
}

/* ---- what the emitted kernels would do, from their words (base/launch.h) ---- */

static void mix_kernel(const int64_t *words) { /* x y a z, 4 scalars, N, 3 strides */
    const float *x = (const float *)(intptr_t)words[0], *y = (const float *)(intptr_t)words[1];
    float *z = (float *)(intptr_t)words[3];
    double a;
    memcpy(&a, &words[6], sizeof a);
    for (int64_t n = 0; n < words[8]; n++)
        z[n * words[11]] = (float)a * x[n * words[9]] + y[n * words[10]];
    if (a == spoilt_scale) z[0] += 1;
}

static void pick_kernel(const int64_t *words) { /* table at y, 3 scalars, V N, 3 strides, scratch, fault */
    if (fault_next.access) *(hr_fault *)(intptr_t)words[12] = fault_next;
}

static void run_kernel(const char *name, void *words) {
    if (strncmp(name, "stage_0", 7) != 0) return;
    if (((int64_t *)words)[2]) /* the place of the scalar has no pointer */
        pick_kernel(words);
    else
        mix_kernel(words);
}

/* ---- around a test ---- */

static int set_up(void **state) {
    if (fake_set_up(state)) return -1;
    fault_next = (hr_fault){0};
    spoilt_scale = -1;
    fake->kernel = run_kernel;
    fake->pinned = 1;
    good(hr_device_open("cuda", &device));
    good(hr_kernel_load(device, "test.hr", text, sizeof text - 1, "mix", &mix));
    good(hr_kernel_load(device, "test.hr", text, sizeof text - 1, "pick", &pick));
    good(hr_sequence_create(device, &sequence));
    return 0;
}

static int tear_down(void **state) {
    hr_sequence_destroy(sequence);
    hr_kernel_destroy(mix);
    hr_kernel_destroy(pick);
    hr_device_destroy(device);
    bool clean = fake_living() == 0;
    return fake_tear_down(state) || !clean;
}

static void sequence_anew(void) {
    hr_sequence_destroy(sequence);
    good(hr_sequence_create(device, &sequence));
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

static void call(hr_sequence_array x, hr_sequence_array y, double *a, hr_sequence_array z) {
    const hr_sequence_array scalar = {.size = sizeof scalar, .buffer = -1, .data = a, .dtype = HR_F64};
    good(hr_sequence_call(sequence, mix, (const hr_sequence_array[]){x, y, scalar, z}, 4));
}

static float *device_floats(int count) {
    void *data;
    good(hr_device_allocate(device, (size_t)count * sizeof(float), &data));
    for (int i = 0; i < count; i++)
        ((float *)data)[i] = (float)(i % 7);
    return data;
}

static void give_back(float *data, int count) {
    hr_device_release(device, data, (size_t)count * sizeof *data);
}

static int times_called(const char *symbol) {
    int count = 0;
    for (const char *at = fake->calls; (at = strstr(at, symbol)); at += strlen(symbol))
        count += at[strlen(symbol)] == ' ';
    return count;
}

static hr_sequence_info info(void) {
    hr_sequence_info out;
    good(hr_sequence_info_get(sequence, &out));
    return out;
}

/* ---- graphs ---- */

static double a = 3, b = 2;

/* z[s ..] = b * (a * x + x) + x over 200 - s numbers, through a buffer. */
static void two_calls(float *x, float *z) {
    const hr_step_size rest = {200, -1}, from = {0, 1}, none = {0, 0};
    int held;
    good(hr_sequence_buffer(sequence, "held", MOST * sizeof(float), &held));
    call(array(-1, x, rest, none), array(-1, x, rest, none), &a, array(held, NULL, rest, none));
    call(array(held, NULL, rest, none), array(-1, x, rest, none), &b, array(-1, z, rest, from));
}

static void two_calls_check(const float *x, float *z, int step) {
    for (int i = 0; i < 200; i++) {
        const float here = x[i < step ? 0 : i - step];
        assert_true(i < step || z[i] == (float)b * ((float)a * here + here) + here);
        z[i] = -1;
    }
}

static void test_replay(void **state) {
    (void)state;
    float *x = device_floats(MOST), *z = device_floats(MOST);
    two_calls(x, z);
    good(hr_sequence_launch(sequence, 1)); /* compiles; call by call, so that the driver loads the code */
    two_calls_check(x, z, 1);
    assert_int_equal(info().captures, 0);
    fake->calls[0] = '\0';
    fake->launch_count = 0;
    for (int step = 2; step < 8; step++) {
        good(hr_sequence_launch(sequence, step));
        two_calls_check(x, z, step);
    }
    const hr_sequence_info seen = info();
    assert_int_equal(times_called("cuStreamBeginCapture_v2"), 1);
    assert_int_equal(times_called("cuLaunchKernelEx"), 2); /* into the graph */
    assert_int_equal(times_called("cuGraphLaunch"), 6);
    assert_int_equal(times_called("cuGraphExecKernelNodeSetParams"), 2 * 5);
    assert_int_equal(times_called("cuMemAlloc_v2"), 0);
    assert_int_equal(times_called("cuStreamSynchronize"), 0);
    assert_int_equal(seen.captures, 1);
    assert_int_equal(seen.replays, 6);
    assert_int_equal(seen.patches, 2 * 5);
    assert_string_equal(seen.refusal, "");
    assert_int_equal(seen.launches, 7);
    /* in their order */
    assert_int_equal(fake->launch_count, 2 * 6);
    for (int i = 0; i < fake->launch_count; i += 2)
        assert_int_equal(fake->launches[i].words[3], fake->launches[i + 1].words[0]);
    give_back(x, MOST);
    give_back(z, MOST);
}

/* What a step needs is patched ahead of it; nothing is patched that did not change. */
static void test_prepare(void **state) {
    (void)state;
    float *x = device_floats(MOST), *z = device_floats(MOST);
    two_calls(x, z);
    good(hr_sequence_prepare(sequence, 1));
    assert_int_equal(fake->launch_count, 0);
    assert_true(fake->compiles > 0);
    const int compiles = fake->compiles;
    good(hr_sequence_launch(sequence, 1));
    good(hr_sequence_prepare(sequence, 2));
    assert_int_equal(info().captures, 1);
    good(hr_sequence_launch(sequence, 2));
    two_calls_check(x, z, 2);
    good(hr_sequence_launch(sequence, 2));
    assert_int_equal(info().patches, 0);
    b = 5; /* a scalar is read anew */
    good(hr_sequence_prepare(sequence, 2));
    assert_int_equal(info().patches, 1);
    good(hr_sequence_launch(sequence, 2));
    two_calls_check(x, z, 2);
    good(hr_sequence_launch(sequence, 150)); /* 50 numbers: code of another size, in the same graph */
    two_calls_check(x, z, 150);
    assert_true(fake->compiles >= compiles);
    assert_int_equal(info().captures, 1);
    give_back(x, MOST);
    give_back(z, MOST);
}

static bool stop(void *context, const char *what, double done, double total) {
    (void)what, (void)done, (void)total;
    ++*(int *)context;
    return false;
}

/* Two kernels are made ready before the first call is; who watches may stop that, and it is made up for. */
static void test_made_ready(void **state) {
    (void)state;
    const hr_step_size all = {16, 0}, none = {0, 0};
    float *x = device_floats(MOST), *z = device_floats(MOST), *y = device_floats(MOST);
    int asked = 0;
    two_calls(x, z);
    hr_sequence_array at = array(-1, x, all, none);
    at.dtype = HR_I32;
    const hr_sequence_array picked[] = {array(-1, z, all, none), at, array(-1, y, all, none)};
    good(hr_sequence_call(sequence, pick, picked, 3));
    hr_sequence_watch(sequence, stop, &asked);
    assert_int_equal(hr_sequence_prepare(sequence, 1), HR_CANCELLED);
    assert_int_equal(asked, 1);
    hr_sequence_watch(sequence, NULL, NULL);
    good(hr_sequence_prepare(sequence, 1));
    const int compiles = fake->compiles;
    assert_true(compiles > 0 && fake->launch_count == 0);
    good(hr_sequence_launch(sequence, 1));
    assert_int_equal(fake->compiles, compiles);
    give_back(x, MOST);
    give_back(y, MOST);
    give_back(z, MOST);
}

/* A call more is another graph. */
static void test_calls_are_added(void **state) {
    (void)state;
    const hr_step_size all = {200, 0}, none = {0, 0};
    float *x = device_floats(MOST), *z = device_floats(MOST), *more = device_floats(MOST);
    two_calls(x, z);
    for (int i = 0; i < 3; i++)
        good(hr_sequence_launch(sequence, 0));
    call(array(-1, z, all, none), array(-1, x, all, none), &a, array(-1, more, all, none));
    for (int i = 0; i < 3; i++) {
        memset(more, 0, MOST * sizeof *more);
        good(hr_sequence_launch(sequence, 0));
        for (int k = 0; k < 200; k++)
            assert_true(more[k] == (float)a * z[k] + x[k]);
    }
    give_back(x, MOST);
    give_back(z, MOST);
    give_back(more, MOST);
}

/* Whatever call of the driver fails: the values are right, the reason is told, and it is not asked for ever.
 */
static void test_refusals(void **state) {
    static const char *const symbols[] = {
        "cuStreamBeginCapture_v2",     "cuStreamGetCaptureInfo_v2",      "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch"};
    (void)state;
    float *x = device_floats(MOST), *z = device_floats(MOST);
    fake->fail_result = 900;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        sequence_anew();
        two_calls(x, z);
        good(hr_sequence_launch(sequence, 0));
        fake->fail_symbol = symbols[i];
        fake->fail_at = 1;
        for (int step = 1; step < 4; step++) {
            good(hr_sequence_launch(sequence, step));
            two_calls_check(x, z, step);
            if (fake->fail_at > 0) continue;
            if (info().captures == 2) break; /* what cannot be patched is captured anew */
            if (!strstr(info().refusal, "as the test wants it"))
                fail_msg("%s: %s", symbols[i], info().refusal);
            break;
        }
        assert_true(fake->fail_at <= 0);
        good(hr_sequence_launch(sequence, 4)); /* all is well again */
        two_calls_check(x, z, 4);
        assert_string_equal(info().refusal, "");
    }

    sequence_anew();
    two_calls(x, z);
    fake->fail_symbol = "cuStreamEndCapture";
    for (int step = 0; step < 9; step++) {
        fake->fail_at = 1;
        good(hr_sequence_launch(sequence, step));
        two_calls_check(x, z, step);
    }
    fake->fail_symbol = NULL;
    assert_int_equal(info().replays, 0);
    assert_int_equal(fake->fail_at, 1); /* it was not asked in the last steps */
    give_back(x, MOST);
    give_back(z, MOST);
}

/* ---- copies beside kernels ---- */

enum { LAYERS = 6, SIZE = 64 };

/* x of a layer is a * x + the layer's weights, which are copied from the host into buffers that share memory.
 * Whatever the driver does first of what it may, each layer finds its own weights. */
static void layers_make(float *host, float *x, float *out) {
    const hr_step_size size = {SIZE, 0}, none = {0, 0};
    int weights[LAYERS], held[2];
    for (int l = 0; l < LAYERS; l++)
        good(hr_sequence_buffer(sequence, "weights", SIZE * sizeof(float), &weights[l]));
    for (int i = 0; i < 2; i++)
        good(hr_sequence_buffer(sequence, "held", SIZE * sizeof(float), &held[i]));
    hr_sequence_array last = array(-1, x, size, none);
    for (int l = 0; l <= LAYERS; l++) {
        hr_sequence_array from = array(-1, host, size, (hr_step_size){l * SIZE, 0});
        hr_sequence_array to = array(l < LAYERS ? weights[l] : -1, NULL, size, none);
        if (l < LAYERS) good(hr_sequence_copy(sequence, &to, &from));
        if (l == 0) continue; /* a layer's weights are loaded while the one before runs */
        hr_sequence_array y = l == LAYERS ? array(-1, out, size, none) : array(held[l % 2], NULL, size, none);
        call(last, array(weights[l - 1], NULL, size, none), &a, y);
        last = y;
    }
}

static void layers_check(const float *host, const float *x, const float *out) {
    for (int i = 0; i < SIZE; i++) {
        float value = x[i];
        for (int l = 0; l < LAYERS; l++)
            value = (float)a * value + host[l * SIZE + i];
        assert_true(out[i] == value);
    }
}

static void test_copies(void **state) {
    (void)state;
    void *host;
    float *x = device_floats(SIZE), *out = device_floats(SIZE);
    good(hr_device_allocate_pinned(device, LAYERS * SIZE * sizeof(float), &host));
    for (int i = 0; i < LAYERS * SIZE; i++)
        ((float *)host)[i] = (float)(i % 11);
    layers_make(host, x, out);
    for (int launch = 0; launch < 6; launch++) {
        fake->copies_of_graphs = launch % 3;
        memset(out, 0, SIZE * sizeof *out);
        good(hr_sequence_launch(sequence, 0));
        layers_check(host, x, out);
        ((float *)host)[launch] += 1; /* the graph reads it anew */
    }
    assert_int_equal(info().captures, 1);
    assert_int_equal(info().replays, 5);
    assert_true(hr_sequence_memory(sequence) <= 4 * 256); /* two layers' weights at once, two of x */
    good(hr_sequence_launch_timed(sequence, 0, HR_TIMING_WHOLE));
    good(hr_sequence_launch_timed(sequence, 0, HR_TIMING_CALLS));
    char *report = NULL; /* two milliseconds between any events: six copies, six kernels, and all together */
    good(hr_report_sequence_text(sequence, NULL, NULL, &report));
    assert_non_null(strstr(report, "copies take 12.0 ms, none of them exposed"));
    free(report);
    hr_device_release_pinned(device, host, LAYERS * SIZE * sizeof(float));
    give_back(x, SIZE);
    give_back(out, SIZE);
}

static void test_copies_that_cannot_be(void **state) {
    (void)state;
    const hr_step_size size = {SIZE, 0}, less = {SIZE - 1, 0}, none = {0, 0};
    float mine[SIZE];
    float *x = device_floats(SIZE);
    hr_sequence_array to = array(-1, x, size, none), from = array(-1, mine, size, none);
    fake->pinned = 0;
    assert_int_equal(hr_sequence_copy(sequence, &to, &from), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "hr_device_allocate_pinned"));
    fake->pinned = 1;
    from = array(-1, mine, less, none);
    good(hr_sequence_copy(sequence, &to, &from));
    assert_int_equal(hr_sequence_launch(sequence, 0), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "call 0 of the sequence, a copy: a copy is given 252 bytes"));
    to.strided = true;
    assert_int_equal(hr_sequence_copy(sequence, &to, &from), HR_BAD_INPUT);
    give_back(x, SIZE);
}

/* ---- times, faults ---- */

static void test_times(void **state) {
    (void)state;
    hr_call_info one;
    float *x = device_floats(MOST), *z = device_floats(MOST);
    two_calls(x, z);
    good(hr_sequence_launch(sequence, 0));
    good(hr_sequence_launch_timed(sequence, 0, HR_TIMING_WHOLE));
    good(hr_sequence_launch_timed(sequence, 1, HR_TIMING_CALLS));
    two_calls_check(x, z, 1);
    hr_sequence_info seen = info();
    assert_int_equal(seen.launches, 3);
    assert_true(seen.seconds > 0.00199 && seen.seconds < 0.00201); /* two milliseconds between any events */
    assert_true(seen.calls_seconds > 0.00399 && seen.calls_seconds < 0.00401);
    good(hr_sequence_call_info(sequence, 1, NULL, &one));
    assert_int_equal(one.launches, 3);
    assert_true(one.seconds > 0.00599 && one.seconds < 0.00601);
    assert_true(one.bytes == (3 * 199 + 1) * sizeof(float));
    char *report = NULL;
    good(hr_report_sequence_text(sequence, NULL, NULL, &report));
    assert_non_null(strstr(report, "a step"));
    assert_non_null(strstr(report, "as one graph"));
    free(report);
    hr_sequence_times_clear(sequence);
    seen = info();
    assert_true(seen.launches == 0 && seen.seconds == 0 && seen.calls_seconds == 0);
    give_back(x, MOST);
    give_back(z, MOST);
}

/* Each call is checked on what the one before it made; of the wrong one it is told which it is. */
static void test_check(void **state) {
    (void)state;
    hr_check check;
    float *x = device_floats(MOST), *z = device_floats(MOST);
    two_calls(x, z);
    good(hr_sequence_launch(sequence, 3));
    good(hr_sequence_check(sequence, 5, 0, &check));
    if (!check.ok) fail_msg("%s", check.where);
    assert_int_equal(check.points, 2 * 64);
    two_calls_check(x, z, 5);
    spoilt_scale = b;
    good(hr_sequence_check(sequence, 5, 0, &check));
    assert_false(check.ok);
    if (!strstr(check.where, "call 1, kernel mix: z[0]")) fail_msg("%s", check.where);
    spoilt_scale = a;
    good(hr_sequence_check(sequence, 5, 16, &check));
    assert_true(!check.ok && strstr(check.where, "call 0, kernel mix: z[0]"));
    assert_int_equal(check.points, 2 * 16);
    give_back(x, MOST);
    give_back(z, MOST);
}

/* Told by the next launch, with its place in the text; then the sequence goes on. */
static void test_fault(void **state) {
    (void)state;
    const hr_step_size size = {SIZE, 0}, none = {0, 0};
    float *x = device_floats(SIZE), *y = device_floats(SIZE), *at = device_floats(SIZE);
    hr_sequence_array places = array(-1, at, size, none);
    places.dtype = HR_I32;
    good(hr_sequence_call(
        sequence, pick,
        (const hr_sequence_array[]){array(-1, x, size, none), places, array(-1, y, size, none)}, 3));
    good(hr_sequence_launch(sequence, 0));
    fault_next = (hr_fault){1, 99};
    good(hr_sequence_launch(sequence, 0));
    fault_next.access = 0;
    assert_int_equal(hr_sequence_launch(sequence, 0), HR_OUT_OF_RANGE);
    assert_non_null(strstr(hr_last_error(), "in an earlier launch: a subscript of kernel pick"));
    assert_non_null(strstr(hr_last_error(), "the value 99"));
    good(hr_sequence_launch(sequence, 0));
    give_back(x, SIZE);
    give_back(y, SIZE);
    give_back(at, SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prepare, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_made_ready, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calls_are_added, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies_that_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_times, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_check, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fault, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
