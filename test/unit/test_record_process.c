/* A process that records itself, twice, on a CUPTI without a GPU: each file holds what happened in its
 * recording, and nothing of what came between. */
#include "headroom.h"
#include "support/fake_cupti.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/test_record_process.XXXXXX";
static char path[sizeof folder + 16];
static fake_launch_function launch;

static void launch_some(int count) {
    for (int i = 0; i < count; i++)
        launch("plain_kernel", 7, 500);
}

static hr_recording *begin(void) {
    const hr_record_options options = {.size = sizeof options, .output = path};
    hr_recording *recording = NULL;
    assert_int_equal(hr_recording_begin(&options, &recording), HR_OK);
    return recording;
}

static void test_only_what_is_inside(void **unused) {
    (void)unused;
    launch_some(5);
    const int counts[] = {10, 3, 0};
    for (int i = 0; i < 3; i++) {
        hr_recording *recording = begin();
        launch_some(counts[i]);
        assert_int_equal(hr_recording_end(recording), HR_OK);
        launch_some(7);
        assert_int_equal(hr_recording_file_count(recording), counts[i] > 0);
        if (counts[i]) {
            const hr_recorded_file *file = hr_recording_file(recording, 0);
            assert_string_equal(file->path, path);
            assert_int_equal(file->kernels, counts[i]);
            assert_int_equal(file->process, getpid());
            assert_true(file->complete);
            assert_null(file->notes);
        }
        assert_int_equal(hr_recording_end(recording), HR_OK); /* it has ended */
        hr_recording_destroy(recording);
    }
}

/* Names and threads that the first recording wrote stand in the second one's file, too. */
static void test_second_is_whole(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        hr_recording *recording = begin();
        launch_some(4);
        hr_recording_destroy(recording); /* ends it */
        const char *const paths[] = {path};
        hr_diagnosis *diagnosis = NULL;
        const hr_diagnose_options options = {.size = sizeof options};
        assert_int_equal(hr_diagnose(paths, 1, &options, &diagnosis), HR_OK);
        char *text = NULL;
        assert_int_equal(hr_report_diagnosis_json(diagnosis, &text), HR_OK);
        assert_non_null(strstr(text, "plain_kernel"));
        free(text);
        hr_diagnosis_destroy(diagnosis);
    }
}

static void test_one_at_a_time(void **unused) {
    (void)unused;
    hr_recording *recording = begin(), *second = NULL;
    assert_int_equal(hr_recording_begin(NULL, &second), HR_BAD_INPUT);
    assert_null(second);
    assert_non_null(strstr(hr_last_error(), "being recorded already"));
    hr_recording_destroy(recording);
    assert_null(getenv("HEADROOM_RECORD_FILE"));
    assert_string_equal(getenv("CUDA_INJECTION64_PATH"), "of the user"); /* as it was */
}

static void test_refused(void **unused) {
    (void)unused;
    hr_recording *recording = NULL;
    hr_record_options options = {.size = sizeof options, .output = "/no/such/folder/run.hrt"};
    assert_int_equal(hr_recording_begin(&options, &recording), HR_IO);
    options = (hr_record_options){.size = sizeof options, .output = path, .counters = HR_COUNTERS_KERNELS};
    assert_int_equal(hr_recording_begin(&options, &recording), HR_NOT_AVAILABLE);
    assert_non_null(strstr(hr_last_error(), "headroom record"));
    assert_null(recording);
}

int main(void) {
    void *cupti = dlopen(HR_FAKE_CUPTI, RTLD_NOW);
    if (cupti) *(void **)&launch = dlsym(cupti, "fake_launch");
    if (!launch || !mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/run.hrt", folder);
    setenv("HEADROOM_CUPTI", HR_FAKE_CUPTI, 1);
    setenv("HEADROOM_RECORD_LIBRARY", HR_RECORDER, 1);
    setenv("CUDA_INJECTION64_PATH", "of the user", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_what_is_inside),
                                       cmocka_unit_test(test_second_is_whole),
                                       cmocka_unit_test(test_one_at_a_time), cmocka_unit_test(test_refused)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
