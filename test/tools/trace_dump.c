/* Trace files as plain lines, to be compared with another reading of the same files. For tests only.
 *
 * trace_dump [--limit EVENTS] [--quiet] FILE...     tab-separated; the first word says what the line is:
 *   rank      RANK WORLD SOURCE ZERO TRUNCATED
 *   device    RANK ID NAME MULTIPROCESSORS COMPUTE
 *   skipped   COUNT OFFSET REASON
 *   event     KIND RANK TRACK START DURATION CORRELATION EXTERNAL NAME DETAIL...
 * With --quiet: only the time taken and the number of events, for measuring.
 */
#include "trace/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const char *const kinds[HR_EVENT_KIND_COUNT] = {"range", "operator", "call",        "kernel",
                                                       "copy",  "fill",     "synchronise", "device-range",
                                                       "graph", "overhead", "allocation",  "counter"};

static void track_print(const hr_track *track) {
    if (track->is_stream)
        printf("\tgpu%d:%lld", track->device, (long long)track->id);
    else
        printf("\t%lld/%lld", (long long)track->process, (long long)track->id);
}

static void kernel_print(const hr_trace *trace, const hr_kernel_work *work) {
    printf("\tgrid=%d,%d,%d block=%d,%d,%d registers=%d shared=%d+%d occupancy=%g graph=%lld", work->grid[0],
           work->grid[1], work->grid[2], work->block[0], work->block[1], work->block[2], work->registers,
           work->shared_static, work->shared_dynamic, (double)work->occupancy, (long long)work->graph);
    if (work->collective >= 0) {
        const hr_collective *collective = &trace->collectives.items[work->collective];
        printf(" collective=%s bytes=%lld ranks=%d", hr_trace_string(trace, collective->name),
               (long long)collective->bytes, collective->ranks);
    }
    if (work->counters >= 0) {
        const hr_counters *counters = &trace->counters.items[work->counters];
        printf(
            " seconds=%.9g dram=%.12g+%.12g l1=%.6g l2=%.6g load=%.6g store=%.6g tensor=%.12g vector=%.12g "
            "tensor_active=%.6g warps=%.6g dram_of_peak=%.6g sm_of_peak=%.6g",
            counters->seconds, counters->dram_read, counters->dram_written, counters->l1_hit,
            counters->l2_hit, counters->sectors_per_load, counters->sectors_per_store,
            counters->tensor_instructions, counters->vector_instructions, counters->tensor_active,
            counters->warps_active, counters->dram_of_peak, counters->sm_of_peak);
    }
}

static void detail_print(const hr_trace *trace, const hr_event *event) {
    if (event->detail < 0) return;
    switch ((hr_event_kind)event->kind) {
    case HR_EVENT_KERNEL:
        kernel_print(trace, &trace->kernels.items[event->detail]);
        break;
    case HR_EVENT_COPY:
    case HR_EVENT_FILL: {
        const hr_copy *copy = &trace->copies.items[event->detail];
        printf("\tbytes=%lld from=%d to=%d asynchronous=%d", (long long)copy->bytes, copy->from, copy->to,
               copy->asynchronous);
        break;
    }
    case HR_EVENT_SYNCHRONISE: {
        const hr_wait *wait = &trace->waits.items[event->detail];
        printf("\twait=%d event=%lld record=%lld", (int)wait->kind, (long long)wait->event,
               (long long)wait->record);
        if (wait->stream >= 0) track_print(&trace->tracks.items[wait->stream]);
        break;
    }
    case HR_EVENT_OPERATOR: {
        const hr_operator *operation = &trace->operators.items[event->detail];
        printf("\tsequence=%lld python=%d shapes=%s dtypes=%s", (long long)operation->sequence,
               operation->is_python, hr_trace_string(trace, operation->shapes),
               hr_trace_string(trace, operation->dtypes));
        break;
    }
    case HR_EVENT_CALL:
        printf("\tresult=%d", trace->calls.items[event->detail].result);
        break;
    case HR_EVENT_ALLOCATION: {
        const hr_allocation *allocation = &trace->allocations.items[event->detail];
        printf("\tbytes=%lld address=%lld memory=%d device=%d", (long long)allocation->bytes,
               (long long)allocation->address, (int)allocation->memory, allocation->device);
        break;
    }
    case HR_EVENT_COUNTER:
        printf("\tvalue=%.17g", trace->samples.items[event->detail].value);
        if (trace->samples.items[event->detail].kind != HR_SAMPLE_OTHER)
            printf(" of=%d", (int)trace->samples.items[event->detail].kind);
        break;
    default:
        break;
    }
}

static void trace_print(const hr_trace *trace) {
    for (int64_t i = 0; i < trace->ranks.count; i++) {
        const hr_rank *rank = &trace->ranks.items[i];
        printf("rank\t%d\t%d\t%s\t%lld\t%d\n", rank->rank, rank->world, rank->source, (long long)rank->zero,
               rank->truncated);
    }
    for (int64_t i = 0; i < trace->devices.count; i++) {
        const hr_trace_device *device = &trace->devices.items[i];
        printf("device\t%d\t%d\t%s\t%d\t%d\n", device->rank, device->id, device->name,
               device->multiprocessors, device->compute);
    }
    for (int64_t i = 0; i < trace->skipped.count; i++)
        printf("skipped\t%lld\t%lld\t%s\n", (long long)trace->skipped.items[i].count,
               (long long)trace->skipped.items[i].offset, trace->skipped.items[i].reason);
    for (int64_t i = 0; i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        const hr_track *track = &trace->tracks.items[event->track];
        printf("event\t%s\t%d", kinds[event->kind], track->rank);
        track_print(track);
        printf("\t%lld\t%lld\t%lld\t%lld\t%s", (long long)event->start, (long long)event->duration,
               (long long)event->correlation, (long long)event->external,
               hr_trace_string(trace, event->name));
        detail_print(trace, event);
        putchar('\n');
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **words) {
    hr_trace_options options = {0};
    bool quiet = false;
    int first = 1;
    for (; first < count && words[first][0] == '-'; first++) {
        if (strcmp(words[first], "--quiet") == 0) quiet = true;
        if (strcmp(words[first], "--limit") == 0 && first + 1 < count)
            options.event_limit = atoll(words[++first]);
    }
    hr_trace *trace;
    double begin = now();
    hr_status status = hr_trace_read((const char *const *)words + first, count - first, &options, &trace);
    if (status != HR_OK) {
        fprintf(stderr, "%s\n", hr_last_error());
        return hr_status_exit_code(status);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (quiet)
        printf("%.3f s, %lld events, %ld MB\n", now() - begin, (long long)trace->events.count,
               usage.ru_maxrss >> 10);
    else
        trace_print(trace);
    hr_trace_destroy(trace);
    return 0;
}
