/* What a file lacks: counts.
 *
 * In: joined works and calls of a rank. Out: counts; calls whose work is not in the file.
 *
 * Profilers lose records: buffers run full, a graph is recorded as one kernel, recording begins while the
 * device still runs what was launched before. What is lost looks like an idle device. doubts.c says what
 * follows for the verdict.
 */
#include "diagnose/analysis.h"

#include <string.h>

/* ---- counts ---- */

#define NOISE          0.01  /* of the launches: so many lack their work where a recording ends */
#define HOLDING_NS     20000 /* a copy that takes longer held the host */
#define CLOCK_DRIFT_NS 2000  /* a work may begin so much before its call: clocks of host and device differ */

typedef struct thread_state {
    bool captures; /* launches into a graph: no work follows them */
    bool lost;     /* launched work that is not in the file, and nobody has waited since */
} thread_state;

static bool failed(const hr_analysis *analysis, const hr_host_call *call) {
    const hr_trace *trace = analysis->trace;
    const hr_event *event = &trace->events.items[call->event];
    return event->kind == HR_EVENT_CALL && event->detail >= 0 && event->detail < trace->calls.count &&
           trace->calls.items[event->detail].result != 0;
}

static void count_call(hr_analysis *analysis, hr_host_call *call, thread_state *state) {
    hr_integrity *sums = &analysis->integrity;
    const char *name = hr_trace_string(analysis->trace, analysis->trace->events.items[call->event].name);
    bool launches =
        (call->kind == HR_CALL_LAUNCH || call->kind == HR_CALL_GRAPH_LAUNCH) && strstr(name, "aunch");
    call->after_lost = state->lost;
    if (strstr(name, "BeginCapture")) state->captures = true;
    if (strstr(name, "EndCapture")) state->captures = false;
    sums->captured += launches && state->captures;
    if (launches && !state->captures && !strstr(name, "HostFunc") && !failed(analysis, call)) {
        sums->launches++;
        call->lost = call->work < 0;
        sums->lost += call->lost;
        state->lost = call->lost;
    }
    if (call->kind == HR_CALL_GRAPH_LAUNCH && call->work >= 0) {
        sums->graphs++;
        sums->graphs_as_one += call->work == call->last_work;
    }
    if (call->kind == HR_CALL_COPY && call->work < 0 && call->end - call->start > HOLDING_NS)
        sums->copies_lost++;
    if (call->kind == HR_CALL_SYNCHRONISE || call->kind == HR_CALL_COPY) state->lost = false;
}

void hr_analysis_integrity(hr_analysis *analysis) {
    hr_integrity *sums = &analysis->integrity;
    thread_state *states = hr_arena_alloc(analysis->arena, (size_t)analysis->thread_count * sizeof *states);
    bool *known = hr_arena_alloc(analysis->arena, (size_t)analysis->trace->tracks.count);
    int64_t joined = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        joined += work->call >= 0;
        sums->timeless += analysis->trace->events.items[work->event].duration == 0;
        known[work->stream] |= work->call >= 0;
        if (work->call < 0) continue;
        sums->early += work->start < analysis->calls[work->call].start - CLOCK_DRIFT_NS;
    }
    for (int i = 0; i < analysis->call_count; i++)
        count_call(analysis, &analysis->calls[i], &states[analysis->thread_of[analysis->calls[i].track]]);
    sums->works = analysis->work_count;
    sums->orphans = analysis->call_count ? sums->works - joined : 0;
    for (int i = 0; joined && i < analysis->work_count && sums->before < sums->orphans; i++) {
        const hr_work *work = &analysis->works[i];
        if (work->call >= 0)
            known[work->stream] = false; /* from here on launches of its stream were recorded */
        sums->before += work->call < 0 && known[work->stream];
    }
    bool noise = (double)sums->lost <= NOISE * (double)sums->launches || !hr_works_are_lost(sums);
    for (int i = 0; i < analysis->call_count && noise; i++)
        analysis->calls[i].lost = analysis->calls[i].after_lost = false;
}
