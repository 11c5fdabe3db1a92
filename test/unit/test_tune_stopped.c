/* A search that a signal stops between two timings: what it had found by then is kept, and it says so. */
#include "support/run_device.h"

#include <signal.h>

static const char text[] = "kernel norm(x: f32[M, N]) -> (y: f32[M, N])\n{\n"
                           "    y[m, n] = x[m, n] / sqrt(sum[k](x[m, k]^2))\n}\n";

/* As the command has it: the handler notes the signal, and the next progress says no. */
static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    interrupted = number;
}

typedef struct stop {
    const char *at; /* what is told then, */
    double done;    /* so often */
} stop;

static bool progress(void *context, const char *what, double done, double total) {
    const stop *stop = context;
    (void)total;
    if (strcmp(what, stop->at) == 0 && done == stop->done) raise(SIGINT);
    return !interrupted;
}

static void stop_search(stop stop, const char *words) {
    hr_kernel *kernel = load(text);
    const hr_prepare_options options = {
        .size = sizeof options, .tune = HR_TUNE_QUICK, .progress = progress, .progress_context = &stop};
    fill(kernel, 24, 500, 1);
    interrupted = 0;
    assert_int_equal(hr_kernel_prepare(kernel, &options), HR_CANCELLED);
    if (!strstr(hr_last_error(), words)) fail_msg("\"%s\" says nothing of \"%s\"", hr_last_error(), words);
    hr_kernel_destroy(kernel);
}

/* What another run of the same kernel begins with. */
static hr_tuned known(hr_tune mode) {
    hr_kernel *kernel = load(text);
    fill(kernel, 24, 500, 1);
    good(hr_kernel_prepare(kernel, &(hr_prepare_options){.size = sizeof(hr_prepare_options), .tune = mode}));
    const hr_tuned tuned = kernel->current->tuned;
    hr_kernel_destroy(kernel);
    return tuned;
}

static void test_stopped(void **state) {
    (void)state;
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    stop_search((stop){"compiling candidates", 0}, "nothing is kept");
    assert_false(known(HR_TUNE_NONE).cached);
    stop_search((stop){"timing candidates", 1}, "nothing is kept"); /* there is nothing to compare it with */
    assert_false(known(HR_TUNE_NONE).cached);
    stop_search((stop){"timing candidates", 3}, "of the 3 candidates that were timed the fastest, ");
    hr_tuned tuned = known(HR_TUNE_NONE);
    assert_true(tuned.cached);
    assert_int_equal(tuned.tried_count, 3);
    tuned = known(HR_TUNE_QUICK); /* a search is none that somebody stopped */
    assert_false(tuned.cached);
    assert_true(tuned.tried_count > 3);
}

/* Nothing of a whole search is lost. */
static void test_stopped_later(void **state) {
    (void)state;
    hr_kernel *kernel = load(text);
    stop stop = {"timing candidates", 3};
    const hr_prepare_options options = {
        .size = sizeof options, .tune = HR_TUNE_FULL, .progress = progress, .progress_context = &stop};
    fill(kernel, 24, 500, 1);
    interrupted = 0;
    assert_int_equal(hr_kernel_prepare(kernel, &options), HR_CANCELLED);
    assert_non_null(strstr(hr_last_error(), "what an earlier search found stays"));
    hr_kernel_destroy(kernel);
    assert_true(known(HR_TUNE_QUICK).cached);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_stopped), TEST(test_stopped_later)};
    return cmocka_run_group_tests(tests, start, end);
}
