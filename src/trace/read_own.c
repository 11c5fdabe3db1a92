/* What our own recorder wrote (base/trace_file.h) -> events.
 *
 * In: a file, plain or gzip, whole or cut anywhere. Out: events in the build; a chunk whose hash is wrong is
 * left out and counted, and a file that breaks off gives what came before.
 *
 * Chunks are found by their mark and believed by their hash. What their records become: own_reader.h.
 */
#include "base/saturate.h"
#include "trace/own_reader.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_MAX 4096 /* bytes; later versions may append to it */

/* ---- records ---- */

/* CUPTI gives no times of launches that its profiler counts. */
static void take_kernel(hr_own_reader *reader, const hr_record_kernel *at) {
    if (at->start == 0 && at->duration == 0)
        HR_OWN_APPEND(reader, counted, *at);
    else
        hr_own_add_kernel(reader, at, -1);
}

static void take_device(hr_own_reader *reader, const hr_record_device *at) {
    hr_trace_device *device = hr_trace_build_device(reader->build, hr_saturate_int(at->id));
    if (!device) return;
    snprintf(device->name, sizeof device->name, "%s",
             hr_trace_build_text(reader->build, hr_own_string(reader, at->name)));
    device->multiprocessors = hr_saturate_int(at->multiprocessors);
    device->compute = hr_saturate_int(at->compute);
    device->warps_multiprocessor = hr_saturate_int(at->warps);
    device->registers_multiprocessor = hr_saturate_int(at->registers);
    device->threads_multiprocessor = hr_saturate_int(at->threads);
    device->shared_multiprocessor = at->shared;
    device->shared_block = at->shared_block;
    device->memory_bytes = (double)at->memory;
    device->bandwidth = (double)at->bandwidth;
}

static void name_thread(hr_own_reader *reader, const hr_record_thread *at) {
    hr_track *track = hr_trace_build_track(reader->build, hr_own_thread(reader, at->id));
    if (track) track->name = hr_own_string(reader, at->name);
}

static void take_dropped(hr_own_reader *reader, int64_t count) {
    for (int64_t i = 0; i < count && i < 1000000; i++)
        hr_trace_build_skip(reader->build, "records that the recorder had no room for", reader->offset);
}

static void take_record(hr_own_reader *reader, const hr_trace_record *at) {
    switch (at->kind) {
    case HR_RECORD_kernel:
        take_kernel(reader, &at->kernel);
        break;
    case HR_RECORD_copy:
        hr_own_add_copy(reader, &at->copy);
        break;
    case HR_RECORD_fill:
        hr_own_add_fill(reader, &at->fill);
        break;
    case HR_RECORD_call:
        hr_own_take_call(reader, &at->call);
        break;
    case HR_RECORD_wait:
        HR_OWN_APPEND(reader, waits, at->wait);
        break;
    case HR_RECORD_event_record:
        HR_OWN_APPEND(reader, records, at->event_record);
        break;
    case HR_RECORD_range_begin:
        hr_own_begin_range(reader, &at->range_begin);
        break;
    case HR_RECORD_range_end:
        hr_own_end_range(reader, &at->range_end);
        break;
    case HR_RECORD_mark:
        hr_own_add_mark(reader, &at->mark);
        break;
    case HR_RECORD_overhead:
        hr_own_add_overhead(reader, &at->overhead);
        break;
    case HR_RECORD_allocation:
        hr_own_add_allocation(reader, &at->allocation);
        break;
    case HR_RECORD_device:
        take_device(reader, &at->device);
        break;
    case HR_RECORD_context:
        hr_own_set_device(reader, at->context.id, at->context.device);
        break;
    case HR_RECORD_thread:
        name_thread(reader, &at->thread);
        break;
    case HR_RECORD_dropped:
        take_dropped(reader, at->dropped.count);
        break;
    case HR_RECORD_counters:
        HR_OWN_APPEND(reader, counters, at->counters);
        break;
    case HR_RECORD_sample:
        hr_own_add_sample(reader, &at->sample);
        break;
    case HR_RECORD_end:
        reader->ended = true;
        break;
    case HR_RECORD_string:
        hr_own_set_string(reader, at->string.id,
                          hr_trace_build_string(reader->build, at->text, (size_t)at->string.length));
        break;
    default:
        break; /* notes, windows, programs: for people, or of a later version */
    }
}

/* ---- chunks ---- */

/* At least `wanted` bytes from the current place on, unless the file ends. */
static hr_status fill(hr_own_reader *reader, size_t wanted) {
    if (reader->length >= wanted) return HR_OK;
    if (wanted > reader->capacity) {
        uint8_t *data = realloc(reader->data, wanted + 65536);
        if (!data) return hr_fail(HR_OUT_OF_MEMORY, "no memory to read a chunk of %zu bytes", wanted);
        reader->data = data;
        reader->capacity = wanted + 65536;
    }
    size_t got = 0;
    HR_TRY(hr_trace_input_read(reader->input, (char *)reader->data + reader->length,
                               reader->capacity - reader->length, &got));
    reader->length += got;
    return HR_OK;
}

static void skip_bytes(hr_own_reader *reader, size_t count) {
    reader->length -= count;
    reader->offset += (int64_t)count;
    memmove(reader->data, reader->data + count, reader->length);
}

static void take_chunk(hr_own_reader *reader, const uint8_t *payload, size_t length) {
    hr_trace_decoder decoder = {.data = payload, .length = length};
    hr_trace_record record;
    while (!reader->failed && hr_trace_decode(&decoder, &record))
        take_record(reader, &record);
    if (decoder.at < length) /* its hash is right, so a recorder of ours wrote it */
        hr_trace_build_skip(reader->build, "records of an unknown form",
                            reader->offset + (int64_t)decoder.at);
}

/* Behind a damaged chunk: the next place where a mark stands. */
static hr_status find_mark(hr_own_reader *reader) {
    hr_trace_build_skip(reader->build, "damaged chunks", reader->offset);
    hr_trace_build_rank(reader->build)->truncated = true;
    size_t at = 1;
    for (;;) {
        uint32_t word;
        for (; at + sizeof word <= reader->length; at++) {
            memcpy(&word, reader->data + at, sizeof word);
            if (word != HR_TRACE_CHUNK_MARK) continue;
            skip_bytes(reader, at);
            return HR_OK;
        }
        size_t before = reader->length;
        skip_bytes(reader, at < before ? at : before);
        at = 0;
        before = reader->length;
        HR_TRY(fill(reader, before + sizeof word));
        if (reader->length == before) {
            skip_bytes(reader, before);
            return HR_OK;
        }
    }
}

static hr_status read_chunk(hr_own_reader *reader) {
    hr_trace_chunk_header header;
    HR_TRY(fill(reader, sizeof header));
    if (reader->length == 0) return HR_OK;
    if (reader->length < sizeof header) {
        hr_trace_build_rank(reader->build)->truncated = true;
        skip_bytes(reader, reader->length);
        return HR_OK;
    }
    memcpy(&header, reader->data, sizeof header);
    if (header.mark != HR_TRACE_CHUNK_MARK || header.length > HR_TRACE_CHUNK_MAX) return find_mark(reader);
    HR_TRY(fill(reader, sizeof header + header.length));
    if (reader->length < sizeof header + header.length ||
        !hr_trace_chunk_check(&header, reader->data + sizeof header))
        return find_mark(reader);
    take_chunk(reader, reader->data + sizeof header, header.length);
    skip_bytes(reader, sizeof header + header.length);
    return hr_trace_build_progress(reader->build, hr_trace_input_done(reader->input),
                                   hr_trace_input_size(reader->input));
}

static hr_status read_header(hr_own_reader *reader) {
    hr_trace_file_header header;
    HR_TRY(fill(reader, sizeof header));
    if (!hr_trace_header_check(reader->data, reader->length, &header) || header.bytes > HEADER_MAX)
        return hr_fail(
            HR_BAD_INPUT,
            "byte 0: the header is cut or of a version that this headroom does not read (it reads %d)",
            HR_TRACE_FILE_VERSION);
    HR_TRY(fill(reader, header.bytes));
    skip_bytes(reader, header.bytes < reader->length ? header.bytes : reader->length);
    hr_rank *rank = hr_trace_build_rank(reader->build);
    rank->rank = header.rank;
    rank->world = header.world;
    reader->process = header.process;
    hr_trace_build_clock(reader->build, header.epoch);
    return HR_OK;
}

static hr_status read_chunks(hr_own_reader *reader) {
    HR_TRY(read_header(reader));
    for (;;) {
        HR_TRY(fill(reader, 1));
        if (reader->length == 0) break;
        HR_TRY(read_chunk(reader));
        if (reader->failed) break;
    }
    hr_own_add_joined(reader);
    hr_own_add_counted(reader);
    if (reader->failed) return hr_fail(HR_OUT_OF_MEMORY, "no memory for what it holds");
    hr_rank *rank = hr_trace_build_rank(reader->build);
    rank->killed = !reader->ended;
    rank->truncated |= hr_trace_input_damaged(reader->input);
    return HR_OK;
}

hr_status hr_trace_read_own(hr_trace_build *build, const char *path) {
    hr_own_reader reader = {.build = build};
    HR_TRY(hr_trace_input_open(path, &reader.input));
    hr_trace_build_file_begin(build, path, "headroom");
    hr_status status = read_chunks(&reader);
    hr_trace_build_file_end(build);
    hr_trace_input_close(reader.input);
    free(reader.data);
    free(reader.strings.items);
    free(reader.devices.items);
    free(reader.ranges.items);
    free(reader.calls.items);
    free(reader.waits.items);
    free(reader.records.items);
    free(reader.counted.items);
    free(reader.counters.items);
    return status == HR_OK || status == HR_CANCELLED ? status : hr_fail_context(status, "%s", path);
}
