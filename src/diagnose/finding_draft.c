/* What detectors share: edits of the graph, notes, questions about works and calls. */
#include "diagnose/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- edits ---- */

void hr_draft_edit(hr_draft *draft, int edge, int64_t latency) {
    if (edge < 0 || latency >= draft->analysis->graph.latency[edge] || draft->edit_count == draft->edit_room)
        return;
    draft->edges[draft->edit_count] = edge;
    draft->latencies[draft->edit_count++] = latency;
    draft->found = true;
}

void hr_draft_work(hr_draft *draft, int work, double nanoseconds) {
    const hr_graph *graph = &draft->analysis->graph;
    hr_draft_edit(draft, hr_graph_edge(graph, hr_work_vertex(draft->analysis, work) + 1, HR_EDGE_WORK),
                  (int64_t)(nanoseconds > 0 ? nanoseconds : 0));
}

void hr_draft_remove_call(hr_draft *draft, int call) {
    const hr_analysis *analysis = draft->analysis;
    const hr_host_call *host = &analysis->calls[call];
    int64_t own = host->gap - host->gap_loader - host->gap_first_use;
    hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(call) + 1, HR_EDGE_CALL), 0);
    if (own <= HR_LAUNCH_GAP_NS)
        hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(call), HR_EDGE_GAP),
                      host->gap - own);
}

void hr_draft_replace(hr_draft *draft, int work, double nanoseconds) {
    const hr_analysis *analysis = draft->analysis;
    const hr_graph *graph = &analysis->graph;
    int32_t call = analysis->works[work].call;
    int behind = hr_graph_edge(graph, hr_work_vertex(analysis, work), HR_EDGE_STREAM);
    hr_draft_work(draft, work, nanoseconds);
    /* what the work waited for beside its stream, what takes its place waits for, too */
    if (behind >= 0 && graph->latency[behind] <= analysis->queued_ns) hr_draft_edit(draft, behind, 0);
    if (call >= 0 && analysis->calls[call].work == analysis->calls[call].last_work)
        hr_draft_remove_call(draft, call);
}

void hr_draft_unblock(hr_draft *draft, int call) {
    const hr_graph *graph = &draft->analysis->graph;
    int vertex = hr_call_vertex(call) + 1;
    for (int i = graph->first[vertex]; i < graph->first[vertex + 1]; i++)
        if (graph->edges[i].kind == HR_EDGE_RETURN) hr_draft_edit(draft, i, HR_NEVER);
}

/* ---- notes ---- */

const char *hr_draft_text(hr_draft *draft, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return hr_arena_copy(draft->keep, line, strlen(line));
}

void hr_draft_note(hr_draft *draft, int32_t event, int64_t count, double seconds, const char *format, ...) {
    char line[1024];
    if (draft->evidence_count == (int)(sizeof draft->evidence / sizeof draft->evidence[0])) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int steps = hr_counted_steps(draft->analysis);
    draft->evidence[draft->evidence_count++] = (hr_evidence){
        hr_arena_copy(draft->keep, line, strlen(line)), event, (count + steps / 2) / steps, seconds / steps};
}

void hr_draft_event(hr_draft *draft, int32_t event) {
    const hr_step *step = &draft->analysis->steps.items[draft->analysis->steps.chosen];
    const hr_event *place = &draft->analysis->trace->events.items[event];
    if (place->start + place->duration < step->start || place->start > step->end) return;
    if (draft->event_count < (int)(sizeof draft->events / sizeof draft->events[0]))
        draft->events[draft->event_count++] = event;
}

void hr_tally_add(hr_tally *tally, int32_t item, double seconds) {
    if (!tally->count || seconds > tally->most) {
        tally->most = seconds;
        tally->longest = item;
    }
    tally->count++;
    tally->seconds += seconds;
}

hr_short_text hr_time_text(double seconds) {
    hr_short_text out;
    if (seconds >= 0.9995)
        snprintf(out.text, sizeof out.text, "%.3g s", seconds);
    else if (seconds >= 0.9995e-3)
        snprintf(out.text, sizeof out.text, "%.3g ms", seconds * 1e3);
    else
        snprintf(out.text, sizeof out.text, "%.3g us", seconds * 1e6);
    return out;
}

hr_short_text hr_count_text(double count, const char *one, const char *many) {
    hr_short_text out;
    snprintf(out.text, sizeof out.text, "%.4g %s", count, count > 0.995 && count < 1.005 ? one : many);
    return out;
}

hr_short_text hr_bytes_text(double bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    hr_short_text out;
    int i = 0;
    for (; bytes >= 999.5 && i < 4; i++)
        bytes /= 1000;
    snprintf(out.text, sizeof out.text, "%.3g %s", bytes, units[i]);
    return out;
}

/* ---- questions ---- */

int hr_counted_steps(const hr_analysis *analysis) {
    return analysis->steps.count - analysis->steps.first;
}

double hr_counted_seconds(const hr_analysis *analysis) {
    const hr_steps *steps = &analysis->steps;
    return (double)(steps->items[steps->count - 1].end - steps->items[steps->first].start) * 1e-9;
}

bool hr_is_counted_call(const hr_analysis *analysis, int call) {
    return analysis->calls[call].step >= analysis->steps.first;
}

bool hr_is_counted_work(const hr_analysis *analysis, int work) {
    return analysis->works[work].step >= analysis->steps.first &&
           analysis->works[work].device == analysis->device;
}

const char *hr_event_name(const hr_analysis *analysis, int32_t event) {
    return event < 0 ? "" : hr_trace_string(analysis->trace, analysis->trace->events.items[event].name);
}

const hr_copy *hr_work_copy(const hr_analysis *analysis, int work) {
    const hr_trace *trace = analysis->trace;
    const hr_event *event = &trace->events.items[analysis->works[work].event];
    return event->kind == HR_EVENT_COPY && event->detail >= 0 && event->detail < trace->copies.count
               ? &trace->copies.items[event->detail]
               : NULL;
}

const hr_kernel_work *hr_work_kernel(const hr_analysis *analysis, int work) {
    const hr_trace *trace = analysis->trace;
    const hr_event *event = &trace->events.items[analysis->works[work].event];
    return event->kind == HR_EVENT_KERNEL && event->detail >= 0 && event->detail < trace->kernels.count
               ? &trace->kernels.items[event->detail]
               : NULL;
}

double hr_work_seconds(const hr_analysis *analysis, int work) {
    return (double)(analysis->works[work].end - analysis->works[work].start) * 1e-9;
}

double hr_work_waves(const hr_analysis *analysis, int work) {
    const hr_kernel_work *launch = hr_work_kernel(analysis, work);
    int kernel = analysis->kernel_of[work];
    if (!launch || kernel < 0 || analysis->kernels[kernel].waves <= 0 || analysis->kernels[kernel].grid <= 0)
        return 0;
    double grid = (double)launch->grid[0] * launch->grid[1] * launch->grid[2];
    return analysis->kernels[kernel].waves * grid / analysis->kernels[kernel].grid;
}

typedef struct stream_place {
    int32_t stream, work;
} stream_place;

static int compare_places(const void *left, const void *right) {
    const stream_place *a = left, *b = right;
    return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream)
                                  : (a->work > b->work) - (a->work < b->work);
}

int hr_stream_order(const hr_analysis *analysis, hr_arena *arena, int32_t **out) {
    size_t works = (size_t)analysis->work_count;
    stream_place *places = hr_arena_alloc(arena, works * sizeof *places);
    int count = 0;
    for (int32_t i = 0; i < analysis->work_count; i++)
        if (hr_is_counted_work(analysis, i)) places[count++] = (stream_place){analysis->works[i].stream, i};
    qsort(places, (size_t)count, sizeof *places, compare_places);
    *out = hr_arena_alloc(arena, (size_t)count * sizeof **out);
    for (int i = 0; i < count; i++)
        (*out)[i] = places[i].work;
    return count;
}
