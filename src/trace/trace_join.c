/* What two events know together: which call a copy came from, which thread waited.
 *
 * In: the events of one file, unsorted. Out: copies that know whether their call was asynchronous, and waits
 * of the host on the thread that waited.
 */
#include "trace/trace_state.h"

#include <stdlib.h>
#include <string.h>

typedef struct call_map {
    int64_t *slots; /* place of the call + 1, 0 = free */
    uint64_t mask;
} call_map;

static int32_t rank_of(const hr_trace *trace, const hr_event *event) {
    return trace->tracks.items[event->track].rank;
}

static uint64_t hash_of(int32_t rank, int64_t correlation) {
    uint64_t hash = ((uint64_t)correlation ^ (uint64_t)rank << 40) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static int64_t *slot_of(const hr_trace *trace, const call_map *map, int32_t rank, int64_t correlation) {
    uint64_t slot = hash_of(rank, correlation) & map->mask;
    for (; map->slots[slot]; slot = (slot + 1) & map->mask) {
        const hr_event *call = &trace->events.items[map->slots[slot] - 1];
        if (call->correlation == correlation && rank_of(trace, call) == rank) break;
    }
    return &map->slots[slot];
}

static bool map_fill(const hr_trace *trace, int64_t first, call_map *map) {
    int64_t calls = 0;
    uint64_t size = 64;
    for (int64_t i = first; i < trace->events.count; i++)
        calls += trace->events.items[i].kind == HR_EVENT_CALL && trace->events.items[i].correlation;
    while (size < 2 * (uint64_t)calls)
        size *= 2;
    map->slots = calloc(size, sizeof *map->slots);
    map->mask = size - 1;
    for (int64_t i = first; map->slots && i < trace->events.count; i++) {
        const hr_event *event = &trace->events.items[i];
        if (event->kind != HR_EVENT_CALL || !event->correlation) continue;
        int64_t *slot = slot_of(trace, map, rank_of(trace, event), event->correlation);
        if (!*slot) *slot = i + 1;
    }
    return map->slots != NULL;
}

static void event_join(hr_trace *trace, const call_map *map, hr_event *event) {
    const hr_track *track = &trace->tracks.items[event->track];
    if (!event->correlation || event->detail < 0 || !track->is_stream) return;
    int64_t place = *slot_of(trace, map, track->rank, event->correlation) - 1;
    if (place < 0) return;
    const hr_event *call = &trace->events.items[place];
    if (event->kind == HR_EVENT_SYNCHRONISE) {
        hr_wait *wait = &trace->waits.items[event->detail];
        if (wait->kind == HR_WAIT_STREAM_EVENT) return;
        if (wait->kind == HR_WAIT_STREAM && wait->stream < 0) wait->stream = event->track;
        event->track = call->track;
    } else
        trace->copies.items[event->detail].asynchronous |=
            strstr(hr_trace_string(trace, call->name), "Async") != NULL;
}

bool hr_trace_join(hr_trace_build *build, int64_t first_event) {
    hr_trace *trace = build->trace;
    call_map map;
    if (!map_fill(trace, first_event, &map)) return false;
    for (int64_t i = first_event; i < trace->events.count; i++) {
        hr_event *event = &trace->events.items[i];
        bool joins = event->kind == HR_EVENT_SYNCHRONISE || event->kind == HR_EVENT_COPY ||
                     event->kind == HR_EVENT_FILL;
        if (joins) event_join(trace, &map, event);
    }
    free(map.slots);
    return true;
}
