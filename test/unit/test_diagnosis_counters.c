/* What a diagnosis makes of hardware counters: which steps count, what is sampled while they run, how kernels
 * are judged. */
#include "diagnose/diagnose.h"
#include "support/text_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STEPS 8

/* A product of no telling name, a long read and a small kernel a step; counters were read in the first three
 * steps, which take 20 ms more, and samples taken in all. */
static hr_diagnosis *diagnose(const char *product, const char *reading, int halted, hr_trace **trace) {
    static char text[32768];
    int length = snprintf(text, sizeof text, "device 0 \"NVIDIA H200\" multiprocessors=132 compute=90\n");
    int64_t time = 0;
    for (int step = 0; step < STEPS; step++) {
        int64_t stands = step < halted ? 20000 : 0;
        length += snprintf(text + length, sizeof text - (size_t)length, "range main %lld %lld \"step %d\"\n",
                           (long long)time, (long long)(1000 + stands), step);
        if (stands)
            length +=
                snprintf(text + length, sizeof text - (size_t)length,
                         "overhead main %lld 20000 \"" HR_OVERHEAD_COUNTERS "\"\n", (long long)time + 1);
        time += stands;
        const char *const launches[] = {product, reading, "void small_kernel<int>"};
        for (int i = 0; i < 3; i++)
            length += snprintf(text + length, sizeof text - (size_t)length,
                               "call main %lld 3 cudaLaunchKernel #%d\nkernel gpu0:7 %lld %d %s #%d\n",
                               (long long)time + 5 + 5 * i, 3 * step + i + 1, (long long)time + 20 + 450 * i,
                               i < 2 ? 440 : 20, launches[i], 3 * step + i + 1);
        length +=
            snprintf(text + length, sizeof text - (size_t)length,
                     "synchronise main %lld 930 cudaDeviceSynchronize wait=context\n", (long long)time + 25);
        for (int i = 0; i < 10; i++)
            length += snprintf(text + length, sizeof text - (size_t)length,
                               "counter gpu0:-2 %lld 100 \"SM active\" value=%s of=sm\n"
                               "counter gpu0:-2 %lld 100 \"DRAM read\" value=0.25 of=dram-read\n"
                               "counter gpu0:-2 %lld 100 \"DRAM write\" value=0.125 of=dram-written\n",
                               (long long)time + 100 * i,
                               step < halted ? "0.1"
                               : i % 2       ? "0.5"
                                             : "1",
                               (long long)time + 100 * i, (long long)time + 100 * i);
        time += 1000;
    }
    assert_true((size_t)length < sizeof text);
    assert_int_equal(hr_text_trace(text, trace), HR_OK);
    hr_diagnosis *diagnosis;
    assert_int_equal(hr_diagnose_trace(*trace, NULL, &diagnosis), HR_OK);
    return diagnosis;
}

#define FULL "grid=1056,1,1 block=256 registers=32 "

static const hr_kernel_summary *kernel_of(const hr_diagnosis *diagnosis, const char *name) {
    for (int i = 0; i < diagnosis->kernel_count; i++)
        if (strstr(hr_trace_string(diagnosis->trace, diagnosis->kernels[i].name), name))
            return &diagnosis->kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

static bool finds(const hr_diagnosis *diagnosis, const char *id) {
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].id, id) == 0) return true;
    return false;
}

static void test_steps(void **unused) {
    (void)unused;
    for (int halted = 0; halted <= STEPS; halted++) {
        hr_trace *trace;
        hr_diagnosis *diagnosis =
            diagnose("\"matmul_kernel\" " FULL, "\"read_kernel\" " FULL, halted, &trace);
        const hr_steps *steps = &diagnosis->lane->steps;
        bool too_many = halted > STEPS - 2;
        if (!too_many) {
            assert_int_equal(steps->halted, halted);
            assert_true(steps->first >= halted);
            assert_true(steps->max < 2e-3);
        }
        bool told = false;
        for (int i = 0; i < diagnosis->missing_count; i++)
            told |= strncmp(diagnosis->missing[i], "more steps", 10) == 0;
        assert_int_equal(told, too_many);
        hr_diagnosis_destroy(diagnosis);
        hr_trace_destroy(trace);
    }
}

static void test_samples(void **unused) {
    (void)unused;
    hr_trace *trace;
    hr_diagnosis *diagnosis = diagnose("\"matmul_kernel\" " FULL, "\"read_kernel\" " FULL, 3, &trace);
    const hr_sampled *sampled = &diagnosis->lane->sampled;
    assert_true(sampled->samples >= 40 && sampled->samples <= 50);
    assert_float_equal(sampled->sm_active, 0.75, 0.02); /* of the steps that count alone */
    assert_float_equal(sampled->dram, 0.375, 1e-9);     /* both directions */
    assert_true(sampled->tensor_active < 0 && sampled->warps_active < 0);
    assert_int_equal(diagnosis->lane_count, 1);
    hr_diagnosis_destroy(diagnosis);
    hr_trace_destroy(trace);
}

static void test_units(void **unused) {
    (void)unused;
    static const struct {
        const char *counters;
        hr_unit unit;
        bool found;
    } cases[] = {
        {"", HR_UNIT_UNKNOWN, false},
        {"tensor_active=0 sm_of_peak=0.5 dram_of_peak=0.1", HR_UNIT_VECTOR, true},
        {"tensor_active=0.005 sm_of_peak=0.5 dram_of_peak=0.1", HR_UNIT_VECTOR, true},
        {"tensor_active=0.6 sm_of_peak=0.6 dram_of_peak=0.1", HR_UNIT_TENSOR, false},
        {"tensor_active=0 sm_of_peak=0.1 dram_of_peak=0.5", HR_UNIT_UNKNOWN, false}, /* waits for memory */
        {"tensor=0 sm_of_peak=0.5 dram_of_peak=0.1", HR_UNIT_VECTOR, true},
        {"tensor=1000 sm_of_peak=0.5 dram_of_peak=0.1", HR_UNIT_TENSOR, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char product[256];
        hr_trace *trace;
        snprintf(product, sizeof product, "\"matmul_kernel\" " FULL "%s", cases[i].counters);
        hr_diagnosis *diagnosis = diagnose(product, "\"read_kernel\" " FULL, 0, &trace);
        assert_int_equal(kernel_of(diagnosis, "matmul")->unit, cases[i].unit);
        assert_int_equal(finds(diagnosis, "full-precision-matrix"), cases[i].found);
        hr_diagnosis_destroy(diagnosis);
        hr_trace_destroy(trace);
    }
}

static bool says(const hr_diagnosis *diagnosis, const char *words) {
    for (int i = 0; i < diagnosis->finding_count; i++)
        for (int k = 0; k < diagnosis->findings[i].evidence_count; k++)
            if (strstr(diagnosis->findings[i].evidence[k].text, words)) return true;
    return false;
}

static void test_bandwidth(void **unused) {
    (void)unused;
    static const struct {
        const char *counters;
        bool slow, scattered;
    } cases[] = {
        {"dram_read=1e8 dram_written=1e8 dram_of_peak=0.1 sm_of_peak=0.05", true, false},
        {"dram_read=1e8 dram_written=1e8 dram_of_peak=0.1 sm_of_peak=0.05 l1_hit=0.1 l2_hit=0.05", true,
         false},
        {"dram_read=1e8 dram_written=1e8 dram_of_peak=0.1 sm_of_peak=0.05 l2_hit=0.95", false, false},
        {"dram_read=1e9 dram_written=8e8 dram_of_peak=0.85 sm_of_peak=0.05", false, false},
        {"dram_read=1e9 dram_written=8e8 dram_of_peak=0.85 sm_of_peak=0.05 sectors_per_load=32", false, true},
        {"dram_read=1e9 dram_written=8e8 dram_of_peak=0.85 sm_of_peak=0.05 sectors_per_load=16", false,
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char reading[256];
        hr_trace *trace;
        snprintf(reading, sizeof reading, "\"read_kernel\" " FULL "%s", cases[i].counters);
        hr_diagnosis *diagnosis = diagnose("\"matmul_kernel\" " FULL, reading, 0, &trace);
        const hr_kernel_summary *kernel = kernel_of(diagnosis, "read");
        assert_true(kernel->counted && kernel->dram_bytes > 1e8);
        assert_int_equal(kernel->bound, HR_BOUND_MEMORY);
        assert_int_equal(finds(diagnosis, "low-bandwidth"), cases[i].slow);
        assert_int_equal(finds(diagnosis, "uncoalesced-access"), cases[i].scattered);
        assert_int_equal(says(diagnosis, "L1 has 10 % and L2 5 %"), i == 1);
        hr_diagnosis_destroy(diagnosis);
        hr_trace_destroy(trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
