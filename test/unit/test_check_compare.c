/* Two arrays that should hold the same: on the host, and by the device's kernels on an emulated device. */
#include "run/check_compare.h"
#include "run/check_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/dtype.h"
#include "device/cuda_text.h"
#include "support/cuda_emulation.h"

enum { COUNT = 5003, BLOCKS = HR_COMPARE_BLOCKS };

static const hr_dtype floats[] = {HR_F64, HR_F32, HR_F16, HR_BF16, HR_F8E4M3, HR_F8E5M2};
enum { FLOATS = sizeof floats / sizeof *floats };

static void fill(hr_dtype dtype, void *got, void *expected) {
    const hr_filling filling = {.seed = 3, .low = -100, .high = 100};
    hr_fill_array(dtype, got, COUNT, &filling);
    memcpy(expected, got, COUNT * hr_dtype_size(dtype));
}

static int suspects(const hr_suspect *all, hr_suspect *worst) {
    int count = 0;
    *worst = (hr_suspect){0};
    for (int b = 0; b < BLOCKS; b++) {
        count += all[b].score > 0;
        if (all[b].score > worst->score) *worst = all[b];
    }
    return count;
}

static void test_scores(void **state) {
    (void)state;
    assert_true(hr_compare_score(HR_F32, 1, 1, 0) == 0);
    assert_true(hr_compare_score(HR_F32, NAN, NAN, 0) == 0);
    assert_true(hr_compare_score(HR_F32, INFINITY, INFINITY, 0) == 0);
    assert_true(isinf(hr_compare_score(HR_F32, NAN, 1, 0)));
    assert_true(isinf(hr_compare_score(HR_F32, 1, NAN, 0)));
    assert_true(isinf(hr_compare_score(HR_F32, INFINITY, 1, 0)));
    assert_true(hr_compare_score(HR_F32, 1 + 0x1p-23, 1, 0) == 1); /* neighbours */
    assert_true(hr_compare_score(HR_BF16, 1.5 + 0x1p-7, 1.5, 0) == 1);
    assert_true(hr_compare_score(HR_F32, 1 + 0x1p-23, 1, 0x1p-23) == 0.5);
    assert_true(hr_compare_score(HR_I32, 8, 7, 0) == 1);
}

/* One wrong element is the worst of its block, and nothing else is suspected. */
static void test_the_host_finds_one_element(void **state) {
    (void)state;
    static double got[COUNT], expected[COUNT];
    for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++)
        for (int64_t at = 0; at < COUNT; at += 617) {
            hr_suspect all[BLOCKS], worst;
            fill((hr_dtype)dtype, got, expected);
            const hr_comparing comparing = {(hr_dtype)dtype, got, expected, COUNT, 0};
            hr_compare_host(&comparing, all);
            assert_int_equal(suspects(all, &worst), 0);
            const double value = hr_dtype_load((hr_dtype)dtype, expected, (size_t)at);
            hr_dtype_store((hr_dtype)dtype, got, (size_t)at,
                           dtype == HR_BOOL ? !value
                           : value >= 100   ? value / 2
                                            : value * 1.5 + 1);
            hr_compare_host(&comparing, all);
            assert_int_equal(suspects(all, &worst), 1);
            assert_int_equal(worst.at, at);
        }
}

static void test_digests(void **state) {
    (void)state;
    static unsigned char bytes[200001];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 >> 3);
    const uint64_t digest = hr_digest_host(bytes, sizeof bytes);
    for (size_t at = 0; at < sizeof bytes; at += 9973) {
        bytes[at] ^= 16;
        assert_true(hr_digest_host(bytes, sizeof bytes) != digest);
        bytes[at] ^= 16;
    }
    assert_true(hr_digest_host(bytes, sizeof bytes) == digest);
    assert_true(hr_digest_host(bytes, 0) == 0);
}

/* ---- the device's ---- */

static const char *const entries[] = {"hr_compare_f64",  "hr_compare_f32",    "hr_compare_f16",
                                      "hr_compare_bf16", "hr_compare_f8e4m3", "hr_compare_f8e5m2",
                                      "hr_compare_i32",  "hr_digest"};
static cuda_emulation *device;
static cuda_object *object;

static bool device_open(void) {
    if (object) return true;
    if (cuda_object_compile((const char *)hr_cuda_check_kernels_text, entries,
                            sizeof entries / sizeof *entries, &object) != HR_OK) {
        print_message("skipped: %s\n", hr_last_error());
        return false;
    }
    assert_int_equal(cuda_emulation_create(&device), HR_OK);
    return true;
}

static void launch(const char *entry, const void *words) {
    hr_launch launch = {.grid = {BLOCKS, 1, 1}, .threads = 32, .cluster = 1};
    snprintf(launch.entry, sizeof launch.entry, "%s", entry);
    if (cuda_emulation_launch(device, object, &launch, words, 5) != HR_OK) fail_msg("%s", hr_last_error());
}

static void *array(const char *name, const void *from, size_t bytes, unsigned access) {
    void *data = cuda_emulation_array(device, name, bytes, 0, access);
    assert_non_null(data);
    if (from) memcpy(data, from, bytes);
    return data;
}

/* What the host's comparison says of the same arrays, NaN, infinities and denormals among them. */
static void test_the_device_compares_as_the_host(void **state) {
    (void)state;
    static double got[COUNT], expected[COUNT];
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e-40, -0.0, 1e9};
    if (!device_open()) skip();
    for (int d = 0; d < FLOATS + 1; d++) {
        const hr_dtype dtype = d < FLOATS ? floats[d] : HR_I32;
        const size_t size = hr_dtype_size(dtype);
        struct {
            double apart, allowed;
            int64_t at;
        } * out;
        fill(dtype, got, expected);
        for (size_t i = 7; i < COUNT; i += 97)
            hr_dtype_store(dtype, i % 2 ? (void *)got : (void *)expected, i, odd[i % 6]);
        for (size_t i = 11; i < COUNT; i += 53)
            hr_dtype_store(dtype, got, i, hr_dtype_load(dtype, expected, i) * 1.1);
        cuda_emulation_clear(device);
        const int digits = d < FLOATS ? (int)-log2(hr_dtype_rounding(dtype)) : 0, bits = (int)size * 8;
        const double error = 1e-5;
        uint64_t words[8] = {
            (uint64_t)(uintptr_t)array("got", got, COUNT * size, CUDA_READ | CUDA_FILLED),
            (uint64_t)(uintptr_t)array("expected", expected, COUNT * size, CUDA_READ | CUDA_FILLED)};
        memcpy(&words[2], &error, sizeof error);
        words[4] = COUNT;
        words[5] = (uint64_t)(bits >= 32 ? digits : (bits - digits) * 16 + digits - 1);
        out = array("out", NULL, BLOCKS * sizeof *out, CUDA_READ | CUDA_WRITE);
        words[6] = (uint64_t)(uintptr_t)out;
        launch(entries[d], words);
        for (int b = 0; b < BLOCKS; b++) {
            const int64_t per = (COUNT + BLOCKS - 1) / BLOCKS, from = b * per,
                          to = from + per < COUNT ? from + per : COUNT;
            double score = 0;
            for (int64_t i = from; i < to; i++)
                score = fmax(score, hr_compare_score(dtype, hr_dtype_load(dtype, got, (size_t)i),
                                                     hr_dtype_load(dtype, expected, (size_t)i), error));
            const double found = out[b].apart / out[b].allowed;
            if (!(found == score || fabs(found - score) < 1e-9 * score))
                fail_msg("%s, block %d: %g at %lld, not %g", entries[d], b, found, (long long)out[b].at,
                         score);
        }
    }
}

static void test_the_device_digests_as_the_host(void **state) {
    (void)state;
    static unsigned char bytes[10007];
    if (!device_open()) skip();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i >> 2);
    for (int64_t size = 1; size <= (int64_t)sizeof bytes; size = size * 3 + 2) {
        cuda_emulation_clear(device);
        uint64_t *out = array("out", NULL, BLOCKS * sizeof *out, CUDA_READ | CUDA_WRITE), sum = 0;
        uint64_t words[5] = {(uint64_t)(uintptr_t)array("data", bytes, (size_t)size, CUDA_READ | CUDA_FILLED),
                             0, (uint64_t)size, (uint64_t)(uintptr_t)out};
        launch("hr_digest", words);
        for (int b = 0; b < BLOCKS; b++)
            sum += out[b];
        assert_true(sum == hr_digest_host(bytes, size));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores), cmocka_unit_test(test_the_host_finds_one_element),
        cmocka_unit_test(test_digests), cmocka_unit_test(test_the_device_compares_as_the_host),
        cmocka_unit_test(test_the_device_digests_as_the_host)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_object_destroy(object);
    cuda_emulation_destroy(device);
    return failed;
}
