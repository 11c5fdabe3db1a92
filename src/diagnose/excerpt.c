/* Events of some steps. In: an analysis. Out: a smaller trace.
 *
 * A step's work belongs to it by its launch, however late it runs, so that events are chosen by when the host
 * did what led to them.
 */
#include "diagnose/excerpt.h"

#include <stdlib.h>

/* The first and the last + 1 of the steps to take; false where there are too few. */
static bool steps_choose(const hr_steps *steps, int64_t events, int64_t most, int *first, int *end) {
    int counted = steps->count - steps->first;
    int wanted = (int)((double)counted * (double)most / (double)events);
    if (wanted < HR_EXCERPT_STEPS || wanted >= counted) return false;
    *first = steps->chosen - wanted / 2;
    if (*first > steps->count - wanted) *first = steps->count - wanted;
    if (*first < steps->first) *first = steps->first;
    *end = *first + wanted;
    return true;
}

/* When the host did what led to an event. */
static int64_t cause_time(const hr_analysis *analysis, const hr_event *event) {
    if (!analysis->trace->tracks.items[event->track].is_stream) return event->start;
    int32_t call = hr_correlated_call(analysis, event->correlation);
    return call >= 0 ? analysis->calls[call].start : event->start;
}

hr_status hr_excerpt_make(const hr_analysis *analysis, int64_t most, hr_excerpt *out) {
    const hr_trace *trace = analysis->trace;
    const hr_steps *steps = &analysis->steps;
    int first, end;
    *out = (hr_excerpt){.trace = *trace};
    if (trace->ranks.count != 1 || trace->events.count <= most ||
        !steps_choose(steps, trace->events.count, most, &first, &end))
        return HR_OK;
    int64_t from = steps->items[first].host_start, to = steps->items[end - 1].host_end, count = 0;
    for (int64_t i = 0; i < trace->events.count; i++) {
        int64_t time = cause_time(analysis, &trace->events.items[i]);
        count += time >= from && time < to;
    }
    hr_event *events = malloc((size_t)(count + 1) * sizeof *events);
    int32_t *places = malloc((size_t)(count + 1) * sizeof *places);
    if (!events || !places) {
        free(events);
        free(places);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for %lld events of a trace", (long long)count);
    }
    count = 0;
    for (int64_t i = 0; i < trace->events.count; i++) {
        int64_t time = cause_time(analysis, &trace->events.items[i]);
        if (time < from || time >= to) continue;
        places[count] = (int32_t)i;
        events[count++] = trace->events.items[i];
    }
    out->trace.events.items = events;
    out->trace.events.count = out->trace.events.capacity = count;
    out->places = places;
    out->from = from;
    return HR_OK;
}

void hr_excerpt_clear(hr_excerpt *excerpt) {
    if (!excerpt->places) return;
    free(excerpt->trace.events.items);
    free(excerpt->places);
    *excerpt = (hr_excerpt){.places = NULL};
}
