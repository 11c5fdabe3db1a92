/* Any trace can be diagnosed: random events, with wrong correlations, overlapping work, missing halves. What
 * must hold holds: accounts add up, gains lie between 0 and 1, all together gain no more than one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "diagnose/diagnose.h"
#include "support/text_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRACES 400

static uint64_t seed;

static unsigned draw(unsigned below) { /* xorshift */
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 11) % below;
}

static const char *pick(const char *const *words, unsigned count) {
    return words[draw(count)];
}

static void random_event(hr_text *text) {
    static const char *const kernels[] = {
        "ampere_sgemm_128x64_nn",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32",
        "softmax_warp_forward",
        "ncclDevKernel_AllReduce",
        "vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda, Array<char*, 2>>",
        "elementwise_kernel<addcmul>",
        "reduce_kernel<512, 1, MeanOps>",
        "multi_tensor_apply_kernel<Adam>",
        "x",
        "<<<>>>",
        "void ()"};
    static const char *const calls[] = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize",
                                        "cudaMalloc",       "cudaFree",        "cudaDeviceSynchronize",
                                        "cudaEventRecord",  "cudaGraphLaunch", "cudaStreamWaitEvent",
                                        "cuModuleLoad",     "cudaEventQuery"};
    static const char *const ranges[] = {"ProfilerStep#1",          "step 1",   "enumerate(DataLoader)",
                                         "Optimizer.step#SGD.step", "backward", "step 2",
                                         "ProfilerStep#2",          "aten::mm"};
    static const char *const threads[] = {"main", "other", "pin"};
    unsigned start = draw(3000), duration = draw(4) ? draw(200) : draw(3000), correlation = draw(40),
             stream = draw(4);
    unsigned device = draw(8) ? 0 : 1;
    switch (draw(8)) {
    case 0:
    case 1:
        hr_text_format(text, "call %s %u %u %s #%u\n", pick(threads, 3), start, duration, pick(calls, 11),
                       correlation);
        break;
    case 2:
    case 3:
        hr_text_format(text, "kernel gpu%u:%u %u %u \"%s\" #%u grid=%u,1,1 block=%u registers=%u shared=%u\n",
                       device, stream, start, duration, pick(kernels, 11), correlation,
                       draw(3) ? 1 + draw(5000) : 0, draw(2) ? 256 : draw(1025), draw(256), draw(200000));
        break;
    case 4:
        hr_text_format(text, "copy gpu0:%u %u %u \"Memcpy HtoD\" #%u bytes=%u from=%s to=device\n", stream,
                       start, duration, correlation, draw(1u << 24), draw(2) ? "pageable" : "pinned");
        break;
    case 5:
        hr_text_format(text, "range %s %u %u \"%s\"\n", pick(threads, 3), start, duration, pick(ranges, 8));
        break;
    case 6:
        hr_text_format(
            text, "operator %s %u %u aten::mm shapes=\"[[%u, %u], [%u, 7]]\" dtypes=\"[\\\"float\\\"]\"\n",
            pick(threads, 3), start, duration, draw(100), draw(5), draw(5));
        break;
    default:
        hr_text_format(text, "synchronise %s %u %u cudaStreamSynchronize #%u wait=stream stream=gpu0:%u\n",
                       pick(threads, 3), start, duration, correlation, stream);
    }
}

/* The critical path fills the steps, and while the device stands idle it tells what the account tells. */
static void check_path(const hr_diagnosis *diagnosis) {
    const hr_lane *lane = diagnosis->lane;
    double sum = 0, shares = 0, near = 1e-9 + 1e-9 * lane->steps.mean;
    for (int k = 0; k < HR_TIME_KIND_COUNT; k++) {
        sum += diagnosis->path_seconds[k];
        assert_true(diagnosis->path_idle[k] <= diagnosis->path_seconds[k] + near);
        if (hr_time_kind_group(k) == HR_GROUP_IDLE)
            assert_true(fabs(diagnosis->path_idle[k] - lane->accounted[k]) < near);
        else
            assert_true(diagnosis->path_idle[k] == 0);
    }
    assert_true(fabs(sum - lane->steps.mean) < near);
    for (int i = 0; i < diagnosis->kernel_count; i++)
        shares += diagnosis->kernels[i].share;
    assert_true(shares <= 1 + 1e-9);
}

static void check(const hr_diagnosis *diagnosis) {
    double sum = 0;
    for (int i = 0; i < diagnosis->lane_count; i++) {
        const hr_lane *lane = &diagnosis->lanes[i];
        const hr_steps *steps = &lane->steps;
        int64_t total = 0;
        for (int k = 0; k < HR_TIME_KIND_COUNT; k++) {
            assert_true(lane->accounted_ns[k] >= 0);
            total += lane->accounted_ns[k];
        }
        assert_int_equal(total, steps->items[steps->count - 1].end - steps->items[steps->first].start);
    }
    check_path(diagnosis);
    for (int i = 0; i < diagnosis->finding_count; i++) {
        assert_true(diagnosis->findings[i].gain >= 0 && diagnosis->findings[i].gain <= 1);
        bool after_first = i > 1 || (i == 1 && diagnosis->findings[0].gain > 0);
        assert_true(!after_first || diagnosis->findings[i].gain <= diagnosis->findings[i - 1].gain);
        sum += diagnosis->findings[i].gain;
    }
    assert_true(diagnosis->combined_gain <= sum + 1e-9 && diagnosis->combined_gain <= 1);
    assert_true(diagnosis->replay_error < 0.03);
    assert_non_null(diagnosis->verdict);
}

static void diagnose_text(const char *text) {
    hr_trace *trace = NULL;
    hr_diagnosis *diagnosis = NULL;
    char *report = NULL;
    if (hr_text_trace(text, &trace) != HR_OK) return;
    if (hr_diagnose_trace(trace, NULL, &diagnosis) == HR_OK) {
        check(diagnosis);
        assert_int_equal(hr_report_diagnosis_text(diagnosis, NULL, &report), HR_OK);
        free(report);
        assert_int_equal(hr_report_diagnosis_json(diagnosis, &report), HR_OK);
        free(report);
    } else {
        assert_true(strlen(hr_last_error()) > 10);
    }
    hr_diagnosis_destroy(diagnosis);
    hr_trace_destroy(trace);
}

static void test_random_traces(void **state) {
    (void)state;
    for (int i = 0; i < TRACES; i++) {
        hr_text text = {0};
        seed = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
        unsigned events = i % 10 == 0 ? 3 : i % 7 == 0 ? 400 : 60;
        if (draw(2)) hr_text_format(&text, "device 0 \"NVIDIA H200\" multiprocessors=132 compute=90\n");
        if (draw(4) == 0) hr_text_format(&text, "rank 0 of 2\n");
        for (unsigned k = 0; k < events; k++) {
            if (k == events / 2 && draw(4) == 0) hr_text_format(&text, "rank 1 of 2\n");
            random_event(&text);
        }
        diagnose_text(hr_text_data(&text));
        hr_text_clear(&text);
    }
}

static void test_edges(void **state) {
    (void)state;
    diagnose_text("");
    diagnose_text("range main 0 0 x\n");
    diagnose_text("range main 0 100 ProfilerStep#0\n");
    diagnose_text("kernel gpu0:7 0 0 k\n");
    diagnose_text("kernel gpu0:7 0 10 k\nkernel gpu0:7 0 10 k\nkernel gpu0:7 0 10 k\nkernel gpu0:7 0 10 k\n");
    diagnose_text("call main 0 10 cudaLaunchKernel #1\n");
    diagnose_text("call main 100 10 cudaLaunchKernel #1\nkernel gpu0:7 0 10 k #1\n"); /* before its call */
    diagnose_text("counter main 5 0 used value=0.5\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_traces),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
