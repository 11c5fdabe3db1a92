/* The model of a trace: sorted, nested, aligned, bounded; what is left out is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/text_trace.h"
#include "trace/trace_state.h"
#include <string.h>

static hr_trace *trace_of(const char *text) {
    hr_trace *trace = NULL;
    if (hr_text_trace(text, &trace) != HR_OK) fail_msg("%s", hr_last_error());
    return trace;
}

static hr_trace_build *build_of(int64_t event_limit, int files) {
    hr_trace_build *build = NULL;
    assert_int_equal(hr_trace_build_create(&(hr_trace_options){.event_limit = event_limit}, files, &build),
                     HR_OK);
    return build;
}

static hr_trace *finished(hr_trace_build *build) {
    hr_trace *trace = NULL;
    assert_int_equal(hr_trace_build_finish(build, &trace), HR_OK);
    return trace;
}

static int64_t skipped(const hr_trace *trace, const char *words) {
    for (int64_t i = 0; i < trace->skipped.count; i++)
        if (strstr(trace->skipped.items[i].reason, words)) return trace->skipped.items[i].count;
    return 0;
}

static void text_becomes_a_trace(void **state) {
    (void)state;
    hr_trace *trace =
        trace_of("# a step\n"
                 "rank 3 of 8\n"
                 "device 0 \"NVIDIA H200\" multiprocessors=132 compute=90 bandwidth=4.8e12\n"
                 "kernel gpu0:7 20 100.5 \"void gemm<int>(float *)\" #1 grid=8,2,1 block=256 registers=32\n"
                 "range main 10 1000 ProfilerStep#0\n"
                 "operator main 10 50 aten::mm shapes=\"[[64, 32], [32, 64]]\" external=7\n"
                 "call main 12 5 cudaLaunchKernel #1 external=7 stream=gpu0:7\n"
                 "copy gpu0:7 130 10 \"Memcpy HtoD\" #2 bytes=4096 from=pageable to=device\n"
                 "synchronise main 150 30 cudaStreamSynchronize wait=stream stream=gpu0:7\n");
    assert_int_equal(trace->events.count, 6);
    static const char *const names[] = {"ProfilerStep#0",          "aten::mm",    "cudaLaunchKernel",
                                        "void gemm<int>(float *)", "Memcpy HtoD", "cudaStreamSynchronize"};
    for (int i = 0; i < 6; i++)
        assert_string_equal(hr_trace_string(trace, trace->events.items[i].name), names[i]);
    assert_int_equal(trace->events.items[0].start, 0);
    assert_int_equal(trace->events.items[2].start, 2000);
    const hr_event *kernel = &trace->events.items[3];
    assert_int_equal(kernel->duration, 100500);
    assert_int_equal(kernel->correlation, 1);
    assert_int_equal(trace->kernels.items[kernel->detail].grid[1], 2);
    assert_int_equal(trace->kernels.items[kernel->detail].registers, 32);
    assert_int_equal(trace->kernels.items[kernel->detail].counters, -1);
    assert_true(trace->tracks.items[kernel->track].is_stream);
    assert_int_equal(trace->tracks.items[kernel->track].id, 7);
    const hr_operator *mm = &trace->operators.items[trace->events.items[1].detail];
    assert_string_equal(hr_trace_string(trace, mm->shapes), "[[64, 32], [32, 64]]");
    assert_int_equal(trace->copies.items[trace->events.items[4].detail].from, HR_MEMORY_PAGEABLE);
    const hr_wait *wait = &trace->waits.items[trace->events.items[5].detail];
    assert_int_equal(wait->kind, HR_WAIT_STREAM);
    assert_int_equal(wait->stream, kernel->track);
    assert_int_equal(trace->ranks.items[0].rank, 3);
    assert_int_equal(trace->ranks.items[0].world, 8);
    assert_int_equal(trace->devices.items[0].multiprocessors, 132);
    assert_string_equal(hr_trace_string(trace, -1), "");
    hr_trace_destroy(trace);
}

static void text_with_a_mistake_is_refused(void **state) {
    (void)state;
    hr_trace *trace = NULL;
    assert_int_equal(hr_text_trace("range main 0 1 a\nkernl gpu0:7 1 2 k\n", &trace), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "line 2"));
    assert_null(trace);
}

static void nothing_is_a_trace_too(void **state) {
    (void)state;
    hr_trace *trace = trace_of("");
    assert_int_equal(trace->events.count, 0);
    assert_int_equal(trace->ranks.count, 1);
    hr_trace_destroy(trace);
}

static void longer_events_come_first(void **state) {
    (void)state;
    hr_trace *trace =
        trace_of("range main 5 1 c\nrange main 5 3 a\nrange other 5 2 b\nrange main 1 1 first\n");
    static const char *const order[] = {"first", "a", "b", "c"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(hr_trace_string(trace, trace->events.items[i].name), order[i]);
    hr_trace_destroy(trace);
}

static void overlapping_slices_are_cut(void **state) {
    (void)state;
    hr_trace *trace = trace_of("operator main 0 10 a\noperator main 5 10 b\noperator main 6 4.5 rounding\n"
                               "operator other 5 10 elsewhere\nkernel gpu0:7 0 10 k\nkernel gpu0:7 5 10 l\n"
                               "operator main 10 3 after\n");
    static const struct {
        const char *name;
        int64_t duration;
    } expected[] = {{"a", 10000}, {"k", 10000},       {"b", 5000},    {"elsewhere", 10000},
                    {"l", 10000}, {"rounding", 4000}, {"after", 3000}};
    for (int i = 0; i < 7; i++) {
        assert_string_equal(hr_trace_string(trace, trace->events.items[i].name), expected[i].name);
        assert_int_equal(trace->events.items[i].duration, expected[i].duration);
    }
    assert_int_equal(skipped(trace, "overlapping"), 1);
    hr_trace_destroy(trace);
}

static void impossible_times_are_counted(void **state) {
    (void)state;
    hr_trace_build *build = build_of(0, 1);
    hr_trace_build_file_begin(build, "f", "test");
    int32_t thread = hr_trace_build_thread(build, 1, 1), name = hr_trace_build_string(build, "a", 1);
    static const int64_t times[][2] = {{0, -1}, {INT64_MAX, 1}, {INT64_MIN, 1}, {1, INT64_MAX}, {7, 1}};
    for (int i = 0; i < 5; i++)
        hr_trace_build_event(build,
                             (hr_event){.kind = HR_EVENT_RANGE,
                                        .start = times[i][0],
                                        .duration = times[i][1],
                                        .track = thread,
                                        .name = name},
                             NULL);
    hr_trace_build_event(build, (hr_event){.kind = HR_EVENT_RANGE, .track = -1}, NULL);
    hr_trace_build_file_end(build);
    hr_trace *trace = finished(build);
    assert_int_equal(trace->events.count, 1);
    assert_int_equal(trace->events.items[0].start, 0);
    assert_int_equal(skipped(trace, "impossible times"), 4);
    assert_int_equal(skipped(trace, "65536 threads"), 1);
    hr_trace_destroy(trace);
}

/* Two tracks listed one after the other, 1000 events each at the same times, with details. */
static void the_window_is_whole(void **state) {
    (void)state;
    enum { EACH = 1000, LIMIT = 600 };
    hr_trace_build *build = build_of(LIMIT, 1);
    hr_trace_build_file_begin(build, "f", "test");
    for (int track = 0; track < 2; track++)
        for (int i = 0; i < EACH; i++) {
            hr_event event = {.start = i * 10, .duration = 5, .correlation = i + 1};
            event.kind = track ? HR_EVENT_KERNEL : HR_EVENT_CALL;
            event.track = track ? hr_trace_build_stream(build, 0, 7) : hr_trace_build_thread(build, 1, 1);
            hr_call call = {.result = i};
            hr_kernel_work work = {.registers = i};
            hr_trace_build_event(build, event, track ? (const void *)&work : (const void *)&call);
        }
    hr_trace_build_file_end(build);
    hr_trace *trace = finished(build);
    int64_t kept = trace->events.count;
    assert_in_range(kept, LIMIT / 2, LIMIT);
    assert_int_equal(skipped(trace, "beyond the limit"), 2 * EACH - kept);
    assert_int_equal(kept % 2, 0);
    assert_int_equal(trace->calls.count, kept / 2);
    assert_int_equal(trace->kernels.count, kept / 2);
    for (int64_t i = 0; i < kept; i++) {
        const hr_event *event = &trace->events.items[i];
        assert_int_equal(event->start, i / 2 * 10);
        int32_t own = event->kind == HR_EVENT_KERNEL ? trace->kernels.items[event->detail].registers
                                                     : trace->calls.items[event->detail].result;
        assert_int_equal(own, i / 2);
    }
    hr_trace_destroy(trace);
}

static void a_window_without_time_ends(void **state) {
    (void)state;
    hr_trace_build *build = build_of(10, 1);
    hr_trace_build_file_begin(build, "f", "test");
    for (int i = 0; i < 1000; i++)
        hr_trace_build_event(build, (hr_event){.start = 5, .track = hr_trace_build_thread(build, 1, 1)},
                             NULL);
    hr_trace_build_file_end(build);
    hr_trace *trace = finished(build);
    assert_int_equal(trace->events.count, 10);
    assert_int_equal(skipped(trace, "beyond the limit"), 990);
    hr_trace_destroy(trace);
}

static void add_file(hr_trace_build *build, int64_t epoch, int64_t first, int64_t last) {
    hr_trace_build_file_begin(build, "f", "test");
    if (epoch) hr_trace_build_clock(build, epoch);
    int32_t thread = hr_trace_build_thread(build, 1, 1);
    hr_trace_build_event(build, (hr_event){.start = first, .duration = 1, .track = thread}, NULL);
    hr_trace_build_event(build, (hr_event){.start = last, .duration = 1, .track = thread}, NULL);
    hr_trace_build_file_end(build);
}

static void ranks_of_one_clock_keep_their_distance(void **state) {
    (void)state;
    static const struct {
        int64_t epochs[2], starts[4]; /* of the two files; of the events, sorted */
    } cases[] = {
        {{1000000, 1000200}, {0, 200, 500, 700}}, /* both known and overlapping: a common zero */
        {{1000000, 9000000}, {0, 0, 500, 500}},   /* far apart: a zero each */
        {{1000000, 0}, {0, 0, 500, 500}},         /* one not known: a zero each */
    };
    for (int c = 0; c < 3; c++) {
        hr_trace_build *build = build_of(0, 2);
        for (int file = 0; file < 2; file++)
            add_file(build, cases[c].epochs[file], 50, 550);
        hr_trace *trace = finished(build);
        assert_int_equal(trace->ranks.count, 2);
        for (int i = 0; i < 4; i++)
            assert_int_equal(trace->events.items[i].start, cases[c].starts[i]);
        assert_int_equal(trace->ranks.items[0].zero, cases[c].epochs[0] + 50);
        hr_trace_destroy(trace);
    }
}

static void strings_are_clean_and_kept_once(void **state) {
    (void)state;
    hr_trace_build *build = build_of(0, 1);
    static const struct {
        const char *bytes, *text;
        size_t length;
    } cases[] = {
        {"plain", "plain", 5},
        {"a\0b", "a?b", 3},
        {"a\nb\x01", "a?b?", 4},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f", 6},
        {"\xf0\x9f\x9a\x80", "\xf0\x9f\x9a\x80", 4},
        {"\xc3", "?", 1},
        {"\xc0\x80", "??", 2},
        {"\xed\xa0\x80", "???", 3},
        {"\xf5\x80\x80\x80", "????", 4},
        {"", "", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t id = hr_trace_build_string(build, cases[i].bytes, cases[i].length);
        assert_string_equal(hr_trace_build_text(build, id), cases[i].text);
        assert_int_equal(hr_trace_build_string(build, cases[i].bytes, cases[i].length), id);
    }
    char name[32];
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < 5000; i++) {
            int length = snprintf(name, sizeof name, "kernel_%d", i);
            assert_int_equal(hr_trace_build_string(build, name, (size_t)length),
                             i + (int)(sizeof cases / sizeof *cases));
        }
    hr_trace_build_destroy(build);
}

static void tracks_are_made_once_and_not_without_end(void **state) {
    (void)state;
    hr_trace_build *build = build_of(0, 1);
    hr_trace_build_file_begin(build, "f", "test");
    for (int again = 0; again < 2; again++) {
        assert_int_equal(hr_trace_build_thread(build, 1, 7), 0);
        assert_int_equal(hr_trace_build_stream(build, 1, 7), 1);
        assert_int_equal(hr_trace_build_thread(build, 2, 7), 2);
        assert_int_equal(hr_trace_build_stream(build, 0, 7), 3);
    }
    int32_t first = build ? hr_trace_build_rank_add(build) : -1;
    hr_trace_build_rank_choose(build, first);
    assert_int_equal(hr_trace_build_thread(build, 1, 7), 4);
    for (int i = 5; i < 65536; i++)
        assert_int_equal(hr_trace_build_thread(build, 1, INT64_C(1) << 40 | i), i);
    assert_int_equal(hr_trace_build_thread(build, 9, 9), -1);
    assert_int_equal(hr_trace_build_thread(build, 1, 7), 4);
    assert_null(hr_trace_build_track(build, -1));
    hr_trace_build_destroy(build);
}

/* A small packed file that holds millions keeps what its bytes may stand for; others are not affected. */
static void a_packed_file_keeps_fewer(void **state) {
    (void)state;
    static const struct {
        int64_t events, packed, kept;
        int files;
    } cases[] = {{0, 0, 8 << 20, 1},         {0, 9600000, 2400000, 1}, {0, 40, 1 << 20, 1},
                 {0, INT64_MAX, 8 << 20, 1}, {1000, 40, 1000, 1},      {0, 40000000, 4 << 20, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hr_trace_build *build = build_of(cases[i].events, cases[i].files);
        hr_trace_build_packed(build, cases[i].packed);
        hr_trace_build_file_begin(build, "a.json.gz", "kineto");
        assert_int_equal(build->window.limit, cases[i].kept);
        hr_trace_build_destroy(build);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_file_keeps_fewer),
        cmocka_unit_test(text_becomes_a_trace),
        cmocka_unit_test(text_with_a_mistake_is_refused),
        cmocka_unit_test(nothing_is_a_trace_too),
        cmocka_unit_test(longer_events_come_first),
        cmocka_unit_test(overlapping_slices_are_cut),
        cmocka_unit_test(impossible_times_are_counted),
        cmocka_unit_test(the_window_is_whole),
        cmocka_unit_test(a_window_without_time_ends),
        cmocka_unit_test(ranks_of_one_clock_keep_their_distance),
        cmocka_unit_test(strings_are_clean_and_kept_once),
        cmocka_unit_test(tracks_are_made_once_and_not_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
