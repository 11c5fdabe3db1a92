/* Prints what a trace holds, for scripts: a line a kind of event, tracks and the file's state.
 *
 * in: show_trace FILE...    out: "kernels 20", ...; exit 2 with a sentence where nothing can be read */
#include "trace/trace.h"

#include <stdio.h>

int main(int count, char **paths) {
    static const char *const names[HR_EVENT_KIND_COUNT] = {"ranges", "operators", "calls",       "kernels",
                                                           "copies", "fills",     "waits",       "device",
                                                           "graphs", "overheads", "allocations", "counters"};
    int64_t counts[HR_EVENT_KIND_COUNT] = {0};
    hr_trace *trace;
    if (hr_trace_read((const char *const *)paths + 1, count - 1, NULL, &trace) != HR_OK) {
        fprintf(stderr, "%s\n", hr_last_error());
        return 2;
    }
    for (int64_t i = 0; i < trace->events.count; i++)
        counts[trace->events.items[i].kind]++;
    for (int i = 0; i < HR_EVENT_KIND_COUNT; i++)
        if (counts[i]) printf("%s %lld\n", names[i], (long long)counts[i]);
    int64_t threads = 0;
    for (int64_t i = 0; i < trace->tracks.count; i++)
        threads += !trace->tracks.items[i].is_stream;
    printf("threads %lld\nstreams %lld\n", (long long)threads, (long long)trace->tracks.count - threads);
    for (int64_t i = 0; i < trace->ranks.count; i++) {
        const hr_rank *rank = &trace->ranks.items[i];
        printf("rank %d of %d%s%s\n", rank->rank, rank->world, rank->truncated ? " truncated" : "",
               rank->killed ? " killed" : "");
    }
    for (int64_t i = 0; i < trace->skipped.count; i++)
        printf("skipped %lld %s\n", (long long)trace->skipped.items[i].count, trace->skipped.items[i].reason);
    hr_trace_destroy(trace);
    return 0;
}
