/* What steps are, whose fault idle time is, and what a file lacks: a small trace of each kind, and what must
 * be said of it. Times in us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"
#include "diagnose/diagnose.h"
#include "support/text_trace.h"

#include <math.h>
#include <string.h>

static int correlation;

/* A launch of 5 us, and its kernel on a stream of device 0. */
static void launch(hr_text *text, int at, int stream, int start, int duration, const char *name) {
    hr_text_format(text, "call main %d 5 cudaLaunchKernel #%d\n", at, ++correlation);
    hr_text_format(text, "kernel gpu0:%d %d %d %s #%d\n", stream, start, duration, name, correlation);
}

/* ---- steps ---- */

/* An embedding, layers of three kernels, a head: launched from `at` on, one after the other on the device. */
static int pass(hr_text *text, int at, int layers) {
    int device = at + 20;
    launch(text, at, 7, device, 50, "embed");
    device += 51;
    for (int i = 0; i < 3 * layers; i++, device += 101)
        launch(text, at + 10 * (i + 1), 7, device, 100,
               i % 3 == 0   ? "gemm_qkv"
               : i % 3 == 1 ? "fmha"
                            : "gemm_mlp");
    launch(text, at + 10 * (3 * layers + 1), 7, device, 200, "gemm_head");
    return device + 200;
}

static void one_pass(hr_text *text, const char *range) {
    int end = pass(text, 10, 12);
    if (range) hr_text_format(text, "range main 0 %d \"%s\"\n", end, range);
}

static void vllm_pass(hr_text *text) {
    one_pass(text, "execute_32_context_15(sq15360)_generation_0");
}

static void sglang_pass(hr_text *text) {
    one_pass(text, "step[DECODE bs=8]");
}

static void tensorrt_pass(hr_text *text) {
    one_pass(text, "ExecutionContext::enqueueV3");
}

static void own_pass(hr_text *text) {
    one_pass(text, "my benchmark");
}

static void bare_pass(hr_text *text) {
    one_pass(text, NULL);
}

static void pass_of_layers(hr_text *text) {
    int end = pass(text, 10, 12);
    hr_text_format(text, "range main 0 %d \"forward\"\n", end);
    for (int i = 0; i < 12; i++)
        hr_text_format(text, "range main %d 28 \"layer_%d\"\n", 20 + 30 * i, i);
}

static void layers_in_a_module(hr_text *text) {
    hr_text_format(text, "operator main 0 2000 \"nn.Module: Llama_0\" python\n");
    for (int i = 0; i < 36; i++)
        launch(text, 10 + 20 * i, 7, 30 + 101 * i, 100, i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c");
}

static void layers_in_a_graph(hr_text *text) {
    hr_text_format(text, "call main 10 20 cudaGraphLaunch #1\n");
    for (int i = 0; i < 36; i++)
        hr_text_format(text, "kernel gpu0:7 %d 100 %s #1\n", 40 + 101 * i,
                       i % 3 == 0   ? "a"
                       : i % 3 == 1 ? "b"
                                    : "c");
}

static void servers_passes(hr_text *text) {
    int at = 0;
    for (int i = 0; i < 6; i++) {
        int end = pass(text, at + 10, 4);
        hr_text_format(text, "range main %d %d \"execute_%d_context_0(sq0)_generation_%d(sq%d)\"\n", at,
                       end - at, 8 + i, 8 + i, 8 + i);
        at = end + 100;
    }
}

static void loop_in_a_range(hr_text *text) {
    hr_text_format(text, "range main 0 9000 train\n");
    for (int i = 0; i < 40; i++)
        launch(text, 10 + 200 * i, 7, 30 + 200 * i, 150,
               i % 4 == 0   ? "a"
               : i % 4 == 1 ? "b"
               : i % 4 == 2 ? "c"
                            : "d");
}

static void frames_around_ranges(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        int at = 100 + 1000 * i;
        hr_text_format(text, "operator main %d 30 \"profiler.py(821): step\" python\n", at - 20);
        hr_text_format(text, "range main %d 995 ProfilerStep#%d\n", at, i);
        hr_text_format(text, "operator main %d 20 \"profiler.py(600): __enter__\" python\n", at + 100);
        hr_text_format(text, "range main %d 500 forward\n", at + 110);
        launch(text, at + 130, 7, at + 150, 700, "a");
    }
}

/* What the device still does of the step before, on two streams, and what the step launched. */
static void work_from_before(hr_text *text) {
    for (int i = 0; i < 10; i++)
        hr_text_format(text, "kernel gpu0:7 %d 90 before #%d\n", 100 * i, 900 + i);
    hr_text_format(text, "kernel gpu0:20 500 600 ncclDevKernel_AllReduce #950\n");
    hr_text_format(text, "range main 0 5000 ProfilerStep#3\n");
    for (int i = 0; i < 20; i++)
        launch(text, 50 + 10 * i, 7, 1200 + 190 * i, 185, "now");
    launch(text, 300, 20, 5010, 90, "ncclDevKernel_AllReduce");
}

/* Before the first step nothing was launched, and the profiler stopped in the last one. */
static void empty_steps(hr_text *text) {
    hr_text_format(text, "range main 0 400 ProfilerStep#0\n");
    for (int i = 0; i < 4; i++) {
        hr_text_format(text, "range main %d 1000 ProfilerStep#%d\n", 400 + 1000 * i, 1 + i);
        launch(text, 420 + 1000 * i, 7, 440 + 1000 * i, 900, "a");
    }
    hr_text_format(text, "range main 4400 30 ProfilerStep#5\n");
}

static const struct found {
    const char *name;
    void (*write)(hr_text *text);
    const char *found_by; /* begins so */
    int steps;
    double step; /* us */
} found[] = {
    {"vLLM", vllm_pass, "the range around the work", 1, 3960},
    {"SGLang", sglang_pass, "the range around the work", 1, 3960},
    {"TensorRT", tensorrt_pass, "the range around the work", 1, 3960},
    {"any range", own_pass, "the range around the work", 1, 3960},
    {"no range", bare_pass, "the whole trace", 1, 3950},
    {"layers with ranges", pass_of_layers, "the range around the work", 1, 3960},
    {"layers in a module", layers_in_a_module, "the whole trace", 1, 3660},
    {"layers in a graph", layers_in_a_graph, "the whole trace", 1, 3670},
    {"a server", servers_passes, "ranges of the program", 5, 1600},
    {"a loop in a range", loop_in_a_range, "repetition", 9, 800},
    {"stacks", frames_around_ranges, "the profiler's steps", 4, 1000},
    {"empty ones", empty_steps, "the profiler's steps", 4, 1000},
    {"work from before", work_from_before, "the profiler's steps", 1, 3990},
};

static hr_diagnosis *diagnose(void (*write)(hr_text *), hr_trace **trace) {
    hr_diagnosis *diagnosis = NULL;
    hr_text text = {0};
    correlation = 0;
    hr_text_format(&text, "device 0 \"NVIDIA H200\" multiprocessors=132 compute=90\n");
    write(&text);
    if (hr_text_trace(hr_text_data(&text), trace) != HR_OK ||
        hr_diagnose_trace(*trace, NULL, &diagnosis) != HR_OK)
        print_error("%s\n", hr_last_error());
    hr_text_clear(&text);
    assert_non_null(diagnosis);
    return diagnosis;
}

static void test_steps(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
        hr_trace *trace;
        hr_diagnosis *diagnosis = diagnose(found[i].write, &trace);
        const hr_steps *steps = &diagnosis->lane->steps;
        int counted = steps->count - steps->first;
        bool right = strncmp(steps->found_by, found[i].found_by, strlen(found[i].found_by)) == 0 &&
                     counted == found[i].steps &&
                     fabs(steps->mean * 1e6 - found[i].step) < 0.02 * found[i].step;
        if (!right)
            print_error("%s: %d steps of %.0f us, by %s\n", found[i].name, counted, steps->mean * 1e6,
                        steps->found_by);
        wrong += !right;
        hr_diagnosis_destroy(diagnosis);
        hr_trace_destroy(trace);
    }
    assert_int_equal(wrong, 0);
}

/* ---- idle time and doubts ---- */

static void step(hr_text *text, int number, int length) {
    hr_text_format(text, "range main %d %d ProfilerStep#%d\n", number * length, length, number);
}

/* The second kernel waits for a third one on another stream, which nobody recorded. */
static void behind_a_stream(hr_text *text) {
    for (int i = 0; i < 3; i++) {
        step(text, i, 5000);
        launch(text, 5000 * i + 10, 7, 5000 * i + 20, 1000, "a");
        launch(text, 5000 * i + 20, 7, 5000 * i + 4000, 900, "b");
        hr_text_format(text, "call main %d 4800 cudaStreamSynchronize\n", 5000 * i + 100);
    }
}

/* Device 1 computes, and device 0 has its next kernel queued. */
static void behind_a_peer(hr_text *text) {
    for (int i = 0; i < 3; i++) {
        step(text, i, 5000);
        launch(text, 5000 * i + 10, 7, 5000 * i + 20, 2500, "a");
        hr_text_format(text, "call main %d 5 cudaLaunchKernel #%d\n", 5000 * i + 20, ++correlation);
        hr_text_format(text, "kernel gpu1:7 %d 1400 p #%d\n", 5000 * i + 2550, correlation);
        launch(text, 5000 * i + 30, 7, 5000 * i + 4000, 900, "b");
    }
}

/* Gaps of 10 us between kernels that were launched ahead are the device's own: no host is to blame. */
static void launched_ahead(hr_text *text) {
    for (int i = 0; i < 3; i++) {
        step(text, i, 5000);
        for (int k = 0; k < 40; k++)
            launch(text, 5000 * i + 10 + 10 * k, 7, 5000 * i + 20 + 122 * k, 112, "a");
    }
}

static void lost_launches(hr_text *text) {
    for (int i = 0; i < 3; i++) {
        step(text, i, 5000);
        for (int k = 0; k < 8; k++)
            hr_text_format(text, "call main %d 5 cudaLaunchKernel #%d\n", 5000 * i + 10 + 500 * k,
                           ++correlation);
        launch(text, 5000 * i + 4100, 7, 5000 * i + 4110, 800, "a");
    }
}

/* Launches into a graph that is captured have no work of their own. */
static void captured_launches(hr_text *text) {
    for (int i = 0; i < 3; i++) {
        step(text, i, 5000);
        hr_text_format(text, "call main %d 5 cudaStreamBeginCapture\n", 5000 * i + 1);
        for (int k = 0; k < 8; k++)
            hr_text_format(text, "call main %d 5 cudaLaunchKernel #%d\n", 5000 * i + 10 + 20 * k,
                           ++correlation);
        hr_text_format(text, "call main %d 5 cudaStreamEndCapture\n", 5000 * i + 200);
        launch(text, 5000 * i + 300, 7, 5000 * i + 310, 4600, "a");
    }
}

/* Every launch has the id 0. */
static void no_correlations(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        step(text, i, 1000);
        hr_text_format(text, "call main %d 5 cudaLaunchKernel\n", 1000 * i + 10);
        hr_text_format(text, "kernel gpu0:7 %d 600 a\n", 1000 * i + 30);
    }
}

static void whole_graphs(hr_text *text) {
    for (int i = 0; i < 3; i++) {
        step(text, i, 1000);
        hr_text_format(text, "call main %d 5 cudaGraphLaunch #%d\n", 1000 * i + 10, ++correlation);
        hr_text_format(text, "graph gpu0:7 %d 950 graph #%d\n", 1000 * i + 30, correlation);
    }
}

static void no_durations(hr_text *text) {
    for (int i = 0; i < 4; i++)
        hr_text_format(text, "kernel gpu0:7 %d 0 a%d\n", 10 * i, i);
}

/* A pinned copy of 60 % of a step, waited for before the kernel. */
static void copies(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        step(text, i, 5000);
        hr_text_format(text, "call main %d 5 cudaMemcpyAsync #%d\n", 5000 * i + 10, ++correlation);
        hr_text_format(text,
                       "copy gpu0:7 %d 3000 \"Memcpy HtoD\" #%d bytes=150000000 from=pinned to=device\n",
                       5000 * i + 20, correlation);
        launch(text, 5000 * i + 20, 7, 5000 * i + 3025, 1900, "a");
        hr_text_format(text, "call main %d 4900 cudaStreamSynchronize\n", 5000 * i + 40);
    }
}

/* The same where the waits of the host are not in the file, so that a replay finds the host in the way. */
static void paced_copies(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        step(text, i, 20000);
        hr_text_format(text, "call main %d 5 cudaMemcpyAsync #%d\n", 20000 * i + 60, ++correlation);
        hr_text_format(text,
                       "copy gpu0:7 %d 8900 \"Memcpy HtoD\" #%d bytes=300000000 from=pinned to=device\n",
                       20000 * i + 75, correlation);
        launch(text, 20000 * i + 120, 7, 20000 * i + 9000, 10900, "a");
    }
}

/* Busy, but 12 % of a step is a collective that nothing hides. */
static void busy_and_exposed(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        step(text, i, 5000);
        launch(text, 5000 * i + 10, 7, 5000 * i + 20, 4300, "a");
        launch(text, 5000 * i + 20, 9, 5000 * i + 4330, 600, "ncclDevKernel_AllReduce");
    }
}

static void busy_and_hidden(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        step(text, i, 5000);
        launch(text, 5000 * i + 10, 7, 5000 * i + 20, 4900, "a");
        launch(text, 5000 * i + 20, 9, 5000 * i + 2000, 600, "ncclDevKernel_AllReduce");
    }
}

/* Two kernels side by side all the time. */
static void side_by_side(hr_text *text) {
    for (int i = 0; i < 4; i++) {
        step(text, i, 5000);
        launch(text, 5000 * i + 10, 7, 5000 * i + 20, 4900, "a");
        launch(text, 5000 * i + 20, 9, 5000 * i + 30, 4900, "b");
    }
}

static const struct said {
    const char *name;
    void (*write)(hr_text *text);
    const char *first; /* finding; NULL = any */
    hr_time_kind kind; /* with so much of a step */
    double part;
    const char *verdict; /* holds */
} said[] = {
    {"behind a stream", behind_a_stream, "queued-work", HR_TIME_QUEUED, 0.596, "waits behind something else"},
    {"behind a peer", behind_a_peer, "queued-work", HR_TIME_QUEUED, 0.296, "waits behind something else"},
    {"launched ahead", launched_ahead, "launch-bound", HR_TIME_GAP, 0.078, "computes 90 %"},
    {"lost", lost_launches, "incomplete-recording", HR_TIME_UNRECORDED, 0.82,
     "24 of 27 launches have no kernel"},
    {"captured", captured_launches, "healthy", HR_TIME_UNRECORDED, 0, "computes 92 %"},
    {"no ids", no_correlations, "incomplete-recording", HR_TIME_ELEMENTWISE, 0,
     "4 of 4 kernels have no launch"},
    {"graphs as one", whole_graphs, "incomplete-recording", HR_TIME_OTHER, 0.95,
     "Graphs are recorded as one piece"},
    {"no durations", no_durations, "incomplete-recording", HR_TIME_MATRIX, 0,
     "4 of 4 kernels have no duration"},
    {"copies", copies, "copy-bound", HR_TIME_HOST_LINK, 0.6, "copies to and from the host"},
    {"paced copies", paced_copies, "copy-bound", HR_TIME_HOST_LINK, 0.445, "computes 54 %"},
    {"busy and exposed", busy_and_exposed, "exposed-communication", HR_TIME_COMMUNICATION, 0.12,
     "computes 86 %"},
    {"busy and hidden", busy_and_hidden, "healthy", HR_TIME_COMMUNICATION, 0, "computes 98 %"},
    {"side by side", side_by_side, NULL, HR_TIME_OTHER, 0.982, "computes 98 %"},
};

static bool holds(const struct said *want, const hr_diagnosis *diagnosis) {
    double part = diagnosis->lane->accounted[want->kind] / diagnosis->lane->steps.mean, shares = 0;
    const char *first = diagnosis->finding_count ? diagnosis->findings[0].id : "none";
    for (int i = 0; i < diagnosis->kernel_count; i++)
        shares += diagnosis->kernels[i].share;
    bool right = (!want->first || strcmp(first, want->first) == 0) && fabs(part - want->part) < 0.02 &&
                 strstr(diagnosis->verdict, want->verdict) && shares < 1 + 1e-9;
    if (!right)
        print_error("%s: %s, %.3f of %s, shares %.3f: %s\n", want->name, first, part,
                    hr_time_kind_name(want->kind), shares, diagnosis->verdict);
    return right;
}

static void test_said(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        hr_trace *trace;
        hr_diagnosis *diagnosis = diagnose(said[i].write, &trace);
        wrong += !holds(&said[i], diagnosis);
        hr_diagnosis_destroy(diagnosis);
        hr_trace_destroy(trace);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
