/* Runs a trace again under other latencies, and finds the chain that decides.
 *
 * In: the dependency graph and a latency an edge. Out: times of all vertices; how long the steps take; the
 * critical path of the chosen step. One pass over the edges in order of observed time, so a replay costs
 * milliseconds.
 */
#include "diagnose/analysis.h"

#include <string.h>

void hr_replay(const hr_graph *graph, const int64_t *latency, int64_t *times) {
    int count = 2 * graph->node_count;
    for (int i = 0; i < count; i++) {
        int vertex = graph->order[i];
        int64_t latest = HR_NEVER / 2;
        for (int k = graph->first[vertex]; k < graph->first[vertex + 1]; k++) {
            int64_t time = times[graph->edges[k].from] + latency[k];
            if (time > latest) latest = time;
        }
        times[vertex] = latest > HR_NEVER / 2 ? latest : graph->observed[vertex];
    }
}

int hr_graph_edge(const hr_graph *graph, int vertex, hr_edge_kind kind) {
    for (int i = graph->first[vertex]; i < graph->first[vertex + 1]; i++)
        if (graph->edges[i].kind == kind) return i;
    return -1;
}

/* ---- how long the steps take ---- */

/* The first call at or after a time, of the thread whose ranges are steps where that thread calls at all. */
static int call_at(const hr_analysis *analysis, int64_t time) {
    const hr_thread *thread = NULL;
    if (analysis->step_track >= 0 && analysis->thread_of[analysis->step_track] >= 0)
        thread = &analysis->threads[analysis->thread_of[analysis->step_track]];
    if (!thread || thread->call_count == 0) return hr_call_after(analysis, time);
    int low = 0, high = thread->call_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (analysis->calls[thread->calls[middle]].start < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < thread->call_count ? thread->calls[low] : analysis->call_count;
}

/* A moment keeps its distance from a vertex near it. */
static int64_t shifted(const hr_analysis *analysis, const int64_t *times, int vertex, int64_t moment) {
    return times[vertex] + (moment - analysis->graph.observed[vertex]);
}

/* When the host reaches a boundary, which lies before some call or after all of them. Without any calls, the
 * device's next work stands for it. */
static int64_t host_time(const hr_analysis *analysis, const int64_t *times, int64_t bound) {
    if (analysis->call_count == 0) {
        int work = hr_work_after(analysis, bound), last = analysis->work_count - 1;
        if (last < 0) return bound;
        return work <= last ? shifted(analysis, times, hr_work_vertex(analysis, work), bound)
                            : shifted(analysis, times, hr_work_vertex(analysis, last) + 1, bound);
    }
    int call = call_at(analysis, bound);
    int previous =
        call < analysis->call_count ? analysis->calls[call].previous : hr_call_after(analysis, bound) - 1;
    int64_t latest = call < analysis->call_count ? times[hr_call_vertex(call)] : INT64_MAX;
    if (previous < 0) return bound < latest ? bound : latest;
    int64_t time = shifted(analysis, times, hr_call_vertex(previous) + 1, bound);
    return time < latest ? time : latest;
}

/* As steps.c has it: the host is there, and all that was launched in earlier steps has ended. */
static int64_t step_time(const hr_analysis *analysis, const int64_t *times, int step) {
    const hr_steps *steps = &analysis->steps;
    int64_t bound = step < steps->count ? steps->items[step].host_start : steps->items[step - 1].host_end;
    int64_t latest = host_time(analysis, times, bound);
    if (steps->behind >= 0) {
        int64_t begin = times[hr_work_vertex(analysis, steps->behind)];
        if (begin > latest) latest = begin;
    }
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        int64_t end = times[hr_work_vertex(analysis, i) + 1];
        if (work->device == analysis->device && work->launched < bound && end > latest) latest = end;
    }
    return latest;
}

int64_t hr_replay_span(const hr_analysis *analysis, const int64_t *times) {
    int64_t span =
        step_time(analysis, times, analysis->steps.count) - step_time(analysis, times, analysis->steps.first);
    return span > 0 ? span : 0;
}

/* ---- the critical path ---- */

typedef struct path {
    const hr_analysis *analysis;
    hr_path_piece *pieces;
    int count, room;
    int64_t from, to;                                              /* of the counted steps */
    const hr_step *step;                                           /* whose pieces are kept */
    int64_t seconds[HR_TIME_KIND_COUNT], idle[HR_TIME_KIND_COUNT]; /* ns */
} path;

static void keep_piece(path *path, int64_t start, int64_t end, int32_t event, int32_t track,
                       hr_time_kind kind) {
    path->seconds[kind] += end - start;
    if (start < path->step->start) start = path->step->start;
    if (end > path->step->end) end = path->step->end;
    if (end <= start || path->count == path->room) return;
    path->pieces[path->count++] = (hr_path_piece){start, end, event, track, kind};
}

/* A piece of the chain from its end back: while the device stands idle it is of the kind that the account
 * gives to that time, else of its own. */
static void add_piece(path *path, int64_t start, int64_t end, int32_t event, int32_t track,
                      hr_time_kind kind) {
    const hr_analysis *analysis = path->analysis;
    if (start < path->from) start = path->from;
    if (end > path->to) end = path->to;
    for (int i = hr_cause_after(analysis, end - 1); end > start; i--) {
        if (i == analysis->cause_count) continue;
        if (i < 0 || analysis->causes[i].to <= start) break;
        const hr_cause *cause = &analysis->causes[i];
        int64_t from = cause->from > start ? cause->from : start, to = cause->to < end ? cause->to : end;
        if (from >= end) continue;
        if (to < end) keep_piece(path, to, end, event, track, kind);
        keep_piece(path, from, to, event, track, cause->kind);
        path->idle[cause->kind] += to - from;
        end = from;
    }
    if (end > start) keep_piece(path, start, end, event, track, kind);
}

static hr_time_kind gap_kind(const hr_host_call *call) {
    int64_t own = call->gap - call->gap_loader - call->gap_first_use;
    if (call->gap_loader * 2 > call->gap) return HR_TIME_LOADER;
    if (call->gap_first_use * 2 > call->gap) return HR_TIME_FIRST_USE;
    return own > HR_LAUNCH_GAP_NS ? HR_TIME_HOST : HR_TIME_LAUNCH;
}

static hr_time_kind call_kind(const hr_host_call *call) {
    switch (call->kind) {
    case HR_CALL_SYNCHRONISE:
        return HR_TIME_SYNCHRONISATION;
    case HR_CALL_ALLOCATE:
        return HR_TIME_ALLOCATION;
    case HR_CALL_FIRST_USE:
        return HR_TIME_FIRST_USE;
    default:
        return HR_TIME_LAUNCH;
    }
}

static void add_edge(path *path, const hr_edge *edge) {
    const hr_analysis *analysis = path->analysis;
    const int64_t *observed = analysis->graph.observed;
    int64_t start = observed[edge->from], end = observed[edge->to];
    int node = edge->to / 2, work = node - analysis->call_count;
    if (work == analysis->work_count) return; /* the origin */
    if (edge->kind == HR_EDGE_WORK) {
        const hr_work *done = &analysis->works[work];
        add_piece(path, start, end, done->event, done->stream, done->kind);
    } else if (work >= 0) {
        add_piece(path, start, end, -1, analysis->works[work].stream, HR_TIME_LAUNCH);
    } else {
        const hr_host_call *call = &analysis->calls[node];
        hr_time_kind kind = edge->kind == HR_EDGE_CALL  ? call_kind(call)
                            : edge->kind == HR_EDGE_GAP ? gap_kind(call)
                                                        : HR_TIME_SYNCHRONISATION;
        add_piece(path, start, end, edge->kind == HR_EDGE_GAP ? -1 : call->event, call->track, kind);
    }
}

/* The last vertex before a time: of the device, where its work ends then, else of the host. */
static int last_vertex(const hr_analysis *analysis, int64_t end) {
    const hr_graph *graph = &analysis->graph;
    int best = -1, calls = 2 * analysis->call_count;
    for (int i = 2 * graph->node_count - 1; i >= 0; i--) {
        int vertex = graph->order[i];
        if (graph->observed[vertex] > end) continue;
        if (best < 0) best = vertex;
        if (graph->observed[vertex] < end) break;
        bool is_origin = vertex / 2 == graph->node_count - 1;
        if (vertex >= calls && (vertex & 1) && !is_origin) return vertex;
    }
    return best;
}

static int binding_edge(const hr_graph *graph, int vertex) {
    int binding = -1;
    int64_t latest = INT64_MIN;
    for (int i = graph->first[vertex]; i < graph->first[vertex + 1]; i++) {
        int64_t time = graph->observed[graph->edges[i].from] + graph->latency[i];
        if (time <= latest) continue;
        latest = time;
        binding = i;
    }
    return binding;
}

int hr_critical_path(const hr_analysis *analysis, hr_arena *keep, hr_path_piece **out,
                     double seconds[HR_TIME_KIND_COUNT], double idle[HR_TIME_KIND_COUNT]) {
    const hr_graph *graph = &analysis->graph;
    const hr_steps *steps = &analysis->steps;
    path path = {.analysis = analysis,
                 .step = &steps->items[steps->chosen],
                 .from = steps->items[steps->first].start,
                 .to = steps->items[steps->count - 1].end};
    path.room = 1 << 20;
    size_t fits = hr_arena_room(keep) / 2 / sizeof *path.pieces;
    size_t most = 2 * (size_t)graph->node_count + (size_t)analysis->cause_count + 4;
    if ((size_t)path.room > fits) path.room = (int)fits;
    if ((size_t)path.room > most) path.room = (int)most;
    path.pieces = hr_arena_alloc(keep, (size_t)path.room * sizeof *path.pieces);
    int vertex = last_vertex(analysis, path.to);
    if (vertex >= 0) add_piece(&path, graph->observed[vertex], path.to, -1, 0, HR_TIME_HOST);
    while (vertex >= 0 && graph->observed[vertex] > path.from) {
        int binding = binding_edge(graph, vertex);
        if (binding < 0) {
            add_piece(&path, path.from, graph->observed[vertex], -1, 0, HR_TIME_HOST);
            break;
        }
        add_edge(&path, &graph->edges[binding]);
        vertex = graph->edges[binding].from;
    }
    if (vertex < 0) add_piece(&path, path.from, path.to, -1, 0, HR_TIME_HOST);
    for (int i = 0; i < path.count / 2; i++) {
        hr_path_piece swap = path.pieces[i];
        path.pieces[i] = path.pieces[path.count - 1 - i];
        path.pieces[path.count - 1 - i] = swap;
    }
    int counted = steps->count - steps->first;
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        seconds[i] = (double)path.seconds[i] * 1e-9 / counted;
        idle[i] = (double)path.idle[i] * 1e-9 / counted;
    }
    *out = path.pieces;
    return path.count;
}
