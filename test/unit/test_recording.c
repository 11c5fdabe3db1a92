/* Our recorder's file, there and back: every kind of record, files cut at each byte, chunks damaged at each
 * byte; and what the summary of a run says of it. */
#include "base/trace_file.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/test_recording.XXXXXX";

typedef struct bytes {
    uint8_t data[8192];
    size_t length;
} bytes;

static void append(bytes *file, const void *data, size_t length) {
    assert_true(file->length + length <= sizeof file->data);
    memcpy(file->data + file->length, data, length);
    file->length += length;
}

static void begin_file(bytes *file, hr_trace_file_header header) {
    memcpy(header.magic, HR_TRACE_FILE_MAGIC, sizeof header.magic);
    header.version = 1;
    header.bytes = sizeof header;
    header.process = 77;
    file->length = 0;
    append(file, &header, sizeof header);
}

static void append_chunk(bytes *file, hr_trace_encoder *encoder) {
    assert_true(hr_trace_encode_chunk(encoder));
    append(file, encoder->data, encoder->length);
    hr_trace_encode_next(encoder);
}

static void put_string(hr_trace_encoder *encoder, int64_t id, const char *text) {
    hr_trace_encode_string(encoder, id, text, strlen(text));
}

enum { LAUNCH, GEMM, STEP, RECORD, WAIT, SYNCHRONIZE, OPERATOR, DOMAIN, DEVICE };

static void put_names(hr_trace_encoder *encoder) {
    static const char *const names[] = {"cudaLaunchKernel",
                                        "gemm",
                                        "step 1",
                                        "cudaEventRecord",
                                        "cudaStreamWaitEvent",
                                        "cudaStreamSynchronize",
                                        "aten::mm, op_id = 7, sizes = [[64, 32], [32, 8]], input_op_ids = []",
                                        "NCCL",
                                        "NVIDIA H200"};
    for (int i = 0; i < 9; i++)
        put_string(encoder, i, names[i]);
}

/* Three chunks: names and devices; a step; the end. */
static void make_file(bytes *file) {
    hr_trace_encoder encoder = {0};
    begin_file(file, (hr_trace_file_header){.epoch = 1000, .rank = 1, .world = 2});
    put_names(&encoder);
    hr_trace_encode(&encoder, HR_RECORD_device,
                    &(hr_record_device){.id = 1, .name = DEVICE, .multiprocessors = 132, .compute = 90});
    hr_trace_encode(&encoder, HR_RECORD_context, &(hr_record_context){3, 1});
    append_chunk(file, &encoder);

    hr_trace_encode(&encoder, HR_RECORD_range_begin, &(hr_record_range_begin){5000, 78, STEP, -1, 0});
    hr_trace_encode(&encoder, HR_RECORD_range_begin, &(hr_record_range_begin){5100, 78, OPERATOR, -1, 0});
    hr_trace_encode(&encoder, HR_RECORD_call, &(hr_record_call){5200, 300, 78, 11, LAUNCH, 0});
    hr_trace_encode(&encoder, HR_RECORD_kernel,
                    &(hr_record_kernel){.start = 5600,
                                        .duration = 4000,
                                        .device = 1,
                                        .context = 3,
                                        .stream = 7,
                                        .correlation = 11,
                                        .name = GEMM,
                                        .grid_x = 132,
                                        .grid_y = 2,
                                        .grid_z = 1,
                                        .block_x = 256,
                                        .block_y = 1,
                                        .block_z = 1,
                                        .registers = 168,
                                        .shared_dynamic = 65536,
                                        .cluster = 2});
    hr_trace_encode(&encoder, HR_RECORD_range_end, &(hr_record_range_end){5700, 78, -1, 0});
    hr_trace_encode(&encoder, HR_RECORD_copy,
                    &(hr_record_copy){.start = 5650,
                                      .duration = 50,
                                      .device = 1,
                                      .context = 3,
                                      .stream = 8,
                                      .correlation = 12,
                                      .bytes = 1 << 20,
                                      .direction = 1,
                                      .from = 1,
                                      .to = 3});
    hr_trace_encode(&encoder, HR_RECORD_fill,
                    &(hr_record_fill){.start = 5660,
                                      .duration = 1,
                                      .device = 1,
                                      .context = 3,
                                      .stream = 8,
                                      .bytes = 64,
                                      .to = 3,
                                      .asynchronous = 1});
    hr_trace_encode(&encoder, HR_RECORD_call, &(hr_record_call){5710, 10, 78, 13, RECORD, 0});
    hr_trace_encode(&encoder, HR_RECORD_event_record, &(hr_record_event_record){13, 3, 7, 40});
    hr_trace_encode(&encoder, HR_RECORD_call, &(hr_record_call){5730, 10, 78, 14, WAIT, 0});
    hr_trace_encode(&encoder, HR_RECORD_wait, &(hr_record_wait){5731, 0, 2, 14, 3, 9, 40});
    hr_trace_encode(&encoder, HR_RECORD_wait,
                    &(hr_record_wait){5750, 3900, 3, 15, 3, 7, -1}); /* before its call */
    hr_trace_encode(&encoder, HR_RECORD_call, &(hr_record_call){5745, 3910, 78, 15, SYNCHRONIZE, 0});
    hr_trace_encode(&encoder, HR_RECORD_allocation, &(hr_record_allocation){5800, -4096, 0x7000, 3, 1});
    hr_trace_encode(&encoder, HR_RECORD_overhead, &(hr_record_overhead){5810, 20, 78, LAUNCH});
    hr_trace_encode(&encoder, HR_RECORD_range_begin, &(hr_record_range_begin){5820, 79, GEMM, DOMAIN, 5});
    hr_trace_encode(&encoder, HR_RECORD_range_end,
                    &(hr_record_range_end){5830, 80, DOMAIN, 5}); /* another thread */
    hr_trace_encode(&encoder, HR_RECORD_range_end, &(hr_record_range_end){9700, 78, -1, 0});
    append_chunk(file, &encoder);

    hr_trace_encode(&encoder, HR_RECORD_end, &(hr_record_end){9800, 0});
    append_chunk(file, &encoder);
    hr_trace_encoder_clear(&encoder);
}

static void write_bytes(const bytes *file) {
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(file->data, 1, file->length, stream), file->length);
    fclose(stream);
}

static hr_status read_bytes(const bytes *file, hr_trace **out) {
    const char *paths[] = {path};
    write_bytes(file);
    return hr_trace_read(paths, 1, NULL, out);
}

static const hr_event *find(const hr_trace *trace, hr_event_kind kind, const char *name) {
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind == kind && strcmp(hr_trace_string(trace, event->name), name) == 0) return event;
    }
    fail_msg("no event %s", name);
    return NULL;
}

static const hr_track *track_of(const hr_trace *trace, const hr_event *event) {
    return &trace->tracks.items[event->track];
}

static void check_device_work(const hr_trace *trace) {
    const hr_event *kernel = find(trace, HR_EVENT_KERNEL, "gemm");
    const hr_kernel_work *work = &trace->kernels.items[kernel->detail];
    assert_int_equal(kernel->start, 600); /* the trace begins with the step */
    assert_int_equal(kernel->duration, 4000);
    assert_int_equal(kernel->correlation, 11);
    assert_true(track_of(trace, kernel)->is_stream);
    assert_int_equal(track_of(trace, kernel)->device, 1);
    assert_int_equal(track_of(trace, kernel)->id, 7);
    assert_int_equal(work->grid[1], 2);
    assert_int_equal(work->block[0], 256);
    assert_int_equal(work->registers, 168);
    assert_int_equal(work->shared_dynamic, 65536);
    assert_int_equal(work->cluster, 2);
    const hr_event *copy = find(trace, HR_EVENT_COPY, "Memcpy HtoD (Pageable -> Device)");
    assert_int_equal(trace->copies.items[copy->detail].bytes, 1 << 20);
    assert_int_equal(trace->copies.items[copy->detail].from, HR_MEMORY_PAGEABLE);
    assert_int_equal(trace->copies.items[copy->detail].to, HR_MEMORY_DEVICE);
    assert_false(trace->copies.items[copy->detail].asynchronous);
    const hr_event *fill = find(trace, HR_EVENT_FILL, "Memset (Device)");
    assert_int_equal(trace->copies.items[fill->detail].bytes, 64);
    assert_true(trace->copies.items[fill->detail].asynchronous);
}

static void check_host(const hr_trace *trace) {
    const hr_event *step = find(trace, HR_EVENT_RANGE, "step 1");
    assert_int_equal(step->start, 0);
    assert_int_equal(step->duration, 4700);
    assert_int_equal(track_of(trace, step)->process, 77);
    assert_int_equal(track_of(trace, step)->id, 78);
    const hr_event *product = find(trace, HR_EVENT_OPERATOR, "aten::mm");
    assert_string_equal(hr_trace_string(trace, trace->operators.items[product->detail].shapes),
                        "[[64, 32], [32, 8]]");
    const hr_event *library = find(trace, HR_EVENT_OPERATOR, "gemm"); /* a library's range */
    assert_int_equal(library->duration, 10);
    const hr_event *launch = find(trace, HR_EVENT_CALL, "cudaLaunchKernel");
    assert_int_equal(launch->correlation, 11);
    assert_int_equal(launch->duration, 300);
    const hr_event *freed = find(trace, HR_EVENT_ALLOCATION, "freed");
    assert_int_equal(trace->allocations.items[freed->detail].bytes, -4096);
    find(trace, HR_EVENT_OVERHEAD, "cudaLaunchKernel");
}

static void check_waits(const hr_trace *trace) {
    const hr_event *recorded = find(trace, HR_EVENT_CALL, "cudaEventRecord");
    const hr_call *record = &trace->calls.items[recorded->detail];
    assert_int_equal(record->event, 41);
    assert_int_equal(trace->tracks.items[record->stream].id, 7);
    const hr_event *waiting = find(trace, HR_EVENT_SYNCHRONISE, "Stream Wait Event");
    const hr_wait *wait = &trace->waits.items[waiting->detail];
    assert_int_equal(wait->kind, HR_WAIT_STREAM_EVENT);
    assert_int_equal(track_of(trace, waiting)->id, 9); /* the stream that waits */
    assert_int_equal(trace->tracks.items[wait->stream].id, 7);
    assert_int_equal(wait->event, 41);
    const hr_event *host = find(trace, HR_EVENT_SYNCHRONISE, "Stream Sync");
    assert_int_equal(track_of(trace, host)->id, 78); /* from the call of the same correlation */
    assert_int_equal(trace->waits.items[host->detail].kind, HR_WAIT_STREAM);
    assert_int_equal(trace->tracks.items[trace->waits.items[host->detail].stream].id, 7);
}

static void test_round_trip(void **unused) {
    (void)unused;
    bytes file;
    hr_trace *trace;
    make_file(&file);
    assert_int_equal(read_bytes(&file, &trace), HR_OK);
    assert_string_equal(trace->ranks.items[0].source, "headroom");
    assert_int_equal(trace->ranks.items[0].rank, 1);
    assert_int_equal(trace->ranks.items[0].world, 2);
    assert_false(trace->ranks.items[0].killed);
    assert_false(trace->ranks.items[0].truncated);
    assert_int_equal(trace->skipped.count, 0);
    assert_string_equal(trace->devices.items[0].name, "NVIDIA H200");
    assert_int_equal(trace->devices.items[0].multiprocessors, 132);
    check_device_work(trace);
    check_host(trace);
    check_waits(trace);
    hr_trace_destroy(trace);
}

/* Two launches of one kernel were counted, of which the first one by half; a third ran free; a fourth, of
 * another grid, lost its counters. */
static void make_counted(bytes *file) {
    hr_trace_encoder encoder = {0};
    begin_file(file, (hr_trace_file_header){.rank = -1});
    put_names(&encoder);
    const hr_record_kernel launch = {.device = 1, .stream = 7, .name = GEMM, .grid_x = 8, .block_x = 32};
    for (int i = 1; i <= 4; i++) {
        hr_record_kernel kernel = launch;
        kernel.correlation = i;
        if (i == 3) kernel.start = 9000, kernel.duration = 50;
        if (i == 4) kernel.grid_x = 9;
        hr_trace_encode(&encoder, HR_RECORD_kernel, &kernel);
    }
    hr_trace_encode(&encoder, HR_RECORD_counters,
                    &(hr_record_counters){.time = 5000,
                                          .duration = 1000,
                                          .correlation = 2,
                                          .known = 0x1007f,
                                          .nanoseconds = 60,
                                          .dram_read = 300,
                                          .dram_written = 20,
                                          .dram_of_peak = 500000,
                                          .tensor = 8,
                                          .vector = 0,
                                          .warps_active = 250000,
                                          .thread = 78,
                                          .tensor_active = 125000});
    hr_trace_encode(&encoder, HR_RECORD_counters,
                    &(hr_record_counters){.time = 2000,
                                          .duration = 500,
                                          .correlation = 1,
                                          .known = 0x307,
                                          .nanoseconds = 40,
                                          .dram_read = 100,
                                          .dram_written = 40,
                                          .l2_hits = 3,
                                          .l2_misses = 1,
                                          .thread = 78});
    hr_trace_encode(&encoder, HR_RECORD_sample,
                    &(hr_record_sample){.time = 2000,
                                        .duration = 200,
                                        .device = 1,
                                        .sm_active = 900000,
                                        .tensor_active = -1,
                                        .warps_active = 0,
                                        .dram_of_peak = 500000,
                                        .dram_read = 7,
                                        .dram_written = 9});
    hr_trace_encode(&encoder, HR_RECORD_end, &(hr_record_end){9800, 0});
    append_chunk(file, &encoder);
    hr_trace_encoder_clear(&encoder);
}

static void check_samples(const hr_trace *trace) {
    static const struct {
        const char *name;
        double value;
    } expected[] = {{"SM active", 0.9}, {"warps active", 0}, {"DRAM bandwidth", 0.5}};
    assert_int_equal(trace->samples.count, 3); /* what is not known has none */
    for (int i = 0; i < 3; i++) {
        const hr_event *event = find(trace, HR_EVENT_COUNTER, expected[i].name);
        assert_int_equal(event->duration, 200);
        assert_int_equal(track_of(trace, event)->device, 1);
        assert_int_equal(track_of(trace, event)->id, HR_STREAM_OF_SAMPLES);
        assert_float_equal(trace->samples.items[event->detail].value, expected[i].value, 1e-12);
    }
}

static void test_counters(void **unused) {
    (void)unused;
    bytes file;
    hr_trace *trace;
    int64_t starts[3], durations[3];
    int kernels = 0, halts = 0;
    make_counted(&file);
    assert_int_equal(read_bytes(&file, &trace), HR_OK);
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        halts += event->kind == HR_EVENT_OVERHEAD && track_of(trace, event)->id == 78 &&
                 strcmp(hr_trace_string(trace, event->name), HR_OVERHEAD_COUNTERS) == 0;
        if (event->kind != HR_EVENT_KERNEL) continue;
        assert_true(kernels < 3);
        starts[kernels] = event->start;
        durations[kernels++] = event->duration;
        const hr_kernel_work *work = &trace->kernels.items[event->detail];
        assert_float_equal(work->occupancy, 0.25, 1e-6);
        const hr_counters *counters = &trace->counters.items[work->counters]; /* means of what is known */
        assert_float_equal(counters->seconds, 50e-9, 1e-15);
        assert_float_equal(counters->dram_read, 200, 1e-9);
        assert_float_equal(counters->dram_written, 30, 1e-9);
        assert_float_equal(counters->l2_hit, 0.75, 1e-9);
        assert_float_equal(counters->dram_of_peak, 0.5, 1e-9);
        assert_float_equal(counters->tensor_instructions, 8, 1e-9);
        assert_float_equal(counters->vector_instructions, 0, 1e-9);
        assert_float_equal(counters->tensor_active, 0.125, 1e-9);
        assert_true(counters->l1_hit != counters->l1_hit && counters->sm_of_peak != counters->sm_of_peak);
    }
    assert_int_equal(kernels, 3);
    assert_int_equal(halts, 2);
    assert_int_equal(durations[0], 40);
    assert_int_equal(durations[1], 60);
    assert_int_equal(starts[1] - starts[0], 5000 + 1000 - 60 - (2000 + 500 - 40));
    assert_int_equal(starts[2] - starts[0], 9000 - (2000 + 500 - 40));
    assert_int_equal(trace->skipped.count, 1);
    assert_string_equal(trace->skipped.items[0].reason, "launches without a time");
    check_samples(trace);
    hr_trace_destroy(trace);
}

/* A file that was cut keeps every whole chunk; one without a header is refused. */
static void test_cut_anywhere(void **unused) {
    (void)unused;
    bytes whole;
    make_file(&whole);
    for (size_t length = 1; length < whole.length; length++) {
        bytes cut = whole;
        hr_trace *trace = NULL;
        cut.length = length;
        hr_status status = read_bytes(&cut, &trace);
        if (length < sizeof(hr_trace_file_header)) {
            assert_int_equal(status, HR_BAD_INPUT);
            assert_non_null(strstr(hr_last_error(), "byte 0"));
            continue;
        }
        if (status == HR_OK) {
            assert_true(trace->ranks.items[0].killed);
            if (trace->kernels.count) check_waits(trace);
        }
        hr_trace_destroy(status == HR_OK ? trace : NULL);
    }
}

/* One wrong byte costs one chunk: what the others say still stands. */
static void test_damaged_anywhere(void **unused) {
    (void)unused;
    bytes whole;
    make_file(&whole);
    int lost = 0;
    for (size_t at = sizeof(hr_trace_file_header); at < whole.length; at++) {
        bytes damaged = whole;
        hr_trace *trace = NULL;
        damaged.data[at] ^= 0x55;
        if (read_bytes(&damaged, &trace) != HR_OK) continue;
        assert_int_equal(trace->skipped.count > 0, true);
        assert_true(trace->ranks.items[0].truncated);
        lost += trace->kernels.count == 0;
        hr_trace_destroy(trace);
    }
    assert_true(lost > 0 && lost < (int)whole.length);
}

static void test_later_versions(void **unused) {
    (void)unused;
    bytes file;
    hr_trace *trace;
    make_file(&file);
    file.data[8] = 2;
    assert_int_equal(read_bytes(&file, &trace), HR_BAD_INPUT);
    assert_non_null(strstr(hr_last_error(), "version"));
}

/* Numbers at the ends of their range, and fields that this version does not know. */
static void test_numbers(void **unused) {
    (void)unused;
    static const int64_t values[] = {0, 1, -1, 63, 64, -64, -65, INT64_MAX, INT64_MIN, INT32_MAX};
    hr_trace_encoder encoder = {0};
    for (int i = 0; i < 10; i++)
        hr_trace_encode(&encoder, HR_RECORD_mark, &(hr_record_mark){values[i], values[9 - i], 3, 4});
    assert_true(hr_trace_encode_chunk(&encoder));
    hr_trace_decoder decoder = {.data = encoder.data + sizeof(hr_trace_chunk_header),
                                .length = encoder.length - sizeof(hr_trace_chunk_header)};
    hr_trace_record record;
    for (int i = 0; i < 10; i++) {
        assert_true(hr_trace_decode(&decoder, &record));
        assert_int_equal(record.kind, HR_RECORD_mark);
        assert_int_equal(record.mark.time, values[i]);
        assert_int_equal(record.mark.thread, values[9 - i]);
    }
    assert_false(hr_trace_decode(&decoder, &record));
    hr_trace_encoder_clear(&encoder);
    static const uint8_t later[] = {200, 3, 2, 4, 6, HR_RECORD_mark, 5, 2, 2, 2, 2, 8};
    decoder = (hr_trace_decoder){.data = later, .length = sizeof later};
    assert_true(hr_trace_decode(&decoder, &record));
    assert_int_equal(record.kind, 200);
    assert_true(hr_trace_decode(&decoder, &record));
    assert_int_equal(record.mark.domain, 1);
    assert_int_equal(decoder.at, sizeof later);
}

/* A note among other threads' strings, and one that is said again: the summary of a run has each once. The
 * program that is recorded here copies a file to where a recorder would have written it. */
static void test_notes(void **unused) {
    (void)unused;
    bytes file;
    hr_trace_encoder encoder = {0};
    begin_file(&file, (hr_trace_file_header){.rank = -1});
    put_string(&encoder, 0, "a sentence");
    put_string(&encoder, 1, "step 1");
    hr_trace_encode(&encoder, HR_RECORD_note, &(hr_record_note){5000, 0, 0});
    append_chunk(&file, &encoder);
    put_string(&encoder, 2, "step 2");
    put_string(&encoder, 3, "another one");
    hr_trace_encode(&encoder, HR_RECORD_note, &(hr_record_note){6000, 0, 0});
    hr_trace_encode(&encoder, HR_RECORD_note, &(hr_record_note){7000, 3, 0});
    append_chunk(&file, &encoder);
    hr_trace_encoder_clear(&encoder);
    write_bytes(&file);

    char output[64];
    snprintf(output, sizeof output, "%s.hrt", path);
    const hr_record_options options = {.size = sizeof options, .output = output};
    const char *const program[] = {"sh", "-c", "cp \"$0\" \"$HEADROOM_RECORD_FILE.77.hrt\"", path, NULL};
    hr_recording *recording;
    setenv("HEADROOM_RECORD_LIBRARY", path, 1); /* sh uses neither CUDA nor NVTX: it is never loaded */
    assert_int_equal(hr_program_record(&options, program, &recording), HR_OK);
    assert_int_equal(hr_recording_exit_code(recording), 0);
    assert_int_equal(hr_recording_file_count(recording), 1);
    assert_string_equal(hr_recording_file(recording, 0)->notes, "a sentence\nanother one");
    hr_recording_destroy(recording);
    unlink(output);
}

/* A recording may hold any number where a driver gives small ones. */
static void test_sizes_beyond_int(void **state) {
    (void)state;
    static const int64_t sizes[] = {((int64_t)1 << 32) + 132, INT64_MAX, INT64_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t size = sizes[i];
        const char *paths[] = {path};
        hr_trace_encoder encoder = {0};
        bytes file;
        hr_trace *trace;
        hr_diagnosis *diagnosis;
        begin_file(&file, (hr_trace_file_header){.epoch = 1000});
        put_names(&encoder);
        hr_trace_encode(&encoder, HR_RECORD_device,
                        &(hr_record_device){.id = 1,
                                            .name = DEVICE,
                                            .multiprocessors = size,
                                            .compute = size,
                                            .warps = size,
                                            .registers = size,
                                            .shared = size,
                                            .threads = size});
        hr_trace_encode(&encoder, HR_RECORD_context, &(hr_record_context){3, 1});
        hr_trace_encode(&encoder, HR_RECORD_call, &(hr_record_call){5200, 300, 78, 11, LAUNCH, 0});
        hr_trace_encode(&encoder, HR_RECORD_kernel,
                        &(hr_record_kernel){.start = 5600,
                                            .duration = 4000,
                                            .device = 1,
                                            .context = 3,
                                            .stream = 7,
                                            .correlation = 11,
                                            .name = GEMM,
                                            .grid_x = size,
                                            .grid_y = size,
                                            .grid_z = size,
                                            .block_x = size,
                                            .block_y = size,
                                            .block_z = size,
                                            .registers = size,
                                            .shared_static = size,
                                            .shared_dynamic = size,
                                            .cluster = size});
        append_chunk(&file, &encoder);
        hr_trace_encode(&encoder, HR_RECORD_end, &(hr_record_end){9800, 0});
        append_chunk(&file, &encoder);
        hr_trace_encoder_clear(&encoder);
        assert_int_equal(read_bytes(&file, &trace), HR_OK);
        const hr_kernel_work *work = &trace->kernels.items[find(trace, HR_EVENT_KERNEL, "gemm")->detail];
        assert_int_equal(work->grid[0], size < 0 ? INT32_MIN : INT32_MAX);
        assert_int_equal(work->registers, size < 0 ? INT32_MIN : INT32_MAX);
        hr_trace_destroy(trace);
        assert_int_equal(hr_diagnose(paths, 1, NULL, &diagnosis), HR_OK);
        hr_diagnosis_destroy(diagnosis);
    }
}

int main(void) {
    int descriptor = mkstemp(path);
    if (descriptor >= 0) close(descriptor);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_damaged_anywhere), cmocka_unit_test(test_later_versions),
        cmocka_unit_test(test_numbers),          cmocka_unit_test(test_counters),
        cmocka_unit_test(test_sizes_beyond_int), cmocka_unit_test(test_notes)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
