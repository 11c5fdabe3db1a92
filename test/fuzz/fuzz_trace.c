/* Any bytes as a trace file, whatever reader they look like: no crash, no leak, no hang; what comes out keeps
 * the promises of trace/trace.h.
 *
 * cmake -B build-fuzz -DHEADROOM_FUZZ=ON -DCMAKE_C_COMPILER=clang
 * build-fuzz/test/fuzz_trace -dict=test/fuzz/traces.dict NEW_FOLDER test/fuzz/corpus_trace
 */
#define _GNU_SOURCE
#include "base/trace_file.h"
#include "trace/trace.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#define EVENT_LIMIT 2000 /* low, so that the window is shrunk as well */

static void demand(bool holds) {
    if (!holds) abort();
}

static void check_detail(const hr_trace *trace, const hr_event *event) {
    const int64_t counts[HR_EVENT_KIND_COUNT] = {
        [HR_EVENT_OPERATOR] = trace->operators.count,
        [HR_EVENT_CALL] = trace->calls.count,
        [HR_EVENT_KERNEL] = trace->kernels.count,
        [HR_EVENT_COPY] = trace->copies.count,
        [HR_EVENT_FILL] = trace->copies.count,
        [HR_EVENT_SYNCHRONISE] = trace->waits.count,
        [HR_EVENT_ALLOCATION] = trace->allocations.count,
        [HR_EVENT_COUNTER] = trace->samples.count,
    };
    demand(event->kind < HR_EVENT_KIND_COUNT);
    demand(event->detail >= -1 && event->detail < (counts[event->kind] ? counts[event->kind] : 1));
    if (event->kind != HR_EVENT_KERNEL || event->detail < 0) return;
    const hr_kernel_work *work = &trace->kernels.items[event->detail];
    demand(work->collective < trace->collectives.count && work->counters < trace->counters.count);
}

static void check(const hr_trace *trace) {
    demand(trace->ranks.count > 0 && trace->events.count <= EVENT_LIMIT);
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i], *last = event - 1;
        demand(event->start >= 0 && event->duration >= 0 && event->start <= INT64_MAX - event->duration);
        demand(event->track >= 0 && event->track < trace->tracks.count);
        demand(hr_trace_string(trace, event->name) != NULL);
        demand(i == 0 || event->start >= last->start);
        check_detail(trace, event);
    }
    for (int64_t i = 0; i < trace->tracks.count; i++)
        demand(trace->tracks.items[i].rank >= 0 && trace->tracks.items[i].rank < trace->ranks.count);
    for (int64_t i = 0; i < trace->waits.count; i++)
        demand(trace->waits.items[i].stream < trace->tracks.count);
}

/* Chunks of our own format carry a hash; made right again, so that what they hold is read. */
static void chunks_hash(uint8_t *data, size_t size) {
    size_t at = sizeof(hr_trace_file_header);
    hr_trace_chunk_header chunk;
    if (size < at || memcmp(data, HR_TRACE_FILE_MAGIC, 8) != 0) return;
    while (size - at >= sizeof chunk) {
        memcpy(&chunk, data + at, sizeof chunk);
        at += sizeof chunk;
        if (chunk.length > size - at) return;
        chunk.hash = XXH3_64bits(data + at, chunk.length);
        memcpy(data + at - sizeof chunk, &chunk, sizeof chunk);
        at += chunk.length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    const char *paths[] = {path};
    hr_trace *trace = NULL;
    int file = memfd_create("trace", 0);
    uint8_t *copy = malloc(size + 1);
    demand(file >= 0 && copy);
    memcpy(copy, data, size);
    chunks_hash(copy, size);
    demand(write(file, copy, size) == (ssize_t)size);
    free(copy);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    hr_trace_options options = {.event_limit = EVENT_LIMIT};
    if (hr_trace_read(paths, 1, &options, &trace) == HR_OK) {
        check(trace);
        hr_trace_destroy(trace);
    } else
        demand(!trace && *hr_last_error());
    close(file);
    return 0;
}
