/* The dependency graph of a trace: what had to come before what, and how long that took.
 *
 * In: joined works and calls. Out: vertices (start and end of each call and work) in order of observed time,
 * edges with latencies. An edge that did not decide gets the usual latency of its kind; the one that decided
 * gets what was observed, so that a replay of the unchanged graph gives the trace itself.
 *
 * What the trace does not say is inferred: a stream that begins right when another one's work ends waited for
 * it; a call that ends right after its copy waited for it; a launch that takes long behind a full queue
 * waited for room.
 */
#include "base/saturate.h"
#include "diagnose/analysis.h"

#include <stdlib.h>
#include <string.h>

#define LAUNCH_NS   5000 /* where the trace shows none: from a call to its kernel */
#define STREAM_NS   1000 /* from a kernel to the next one of its stream */
#define RETURN_NS   8000 /* from the end of work to the host that waits for it */
#define WAIT_NS     2000 /* from stream to stream */
#define CALL_NS     4000 /* a call's own work, where it waits */
#define QUEUE_WORKS 200  /* launches ahead of the device from which on the queue may be full */

typedef struct builder {
    hr_analysis *analysis;
    int32_t *position; /* a vertex: its place in the order */
    hr_edge *edges;    /* as they are found */
    int64_t *latencies;
    int count, room;
    int64_t *explained; /* a work: when it could start by the edges found so far */
    int32_t *before;    /* a work: the one before it in its stream, -1 */
    int32_t *last;      /* a track: the stream's last work launched so far, -1 */
    int32_t *pending;   /* a track: the work that its next one waits for, -1 */
    int32_t *streams;   /* tracks with work, the latest first */
    int stream_count;
    int64_t launch, stream, launch_call; /* usual latencies; the usual duration of a launch */
    int64_t *events;                     /* CUDA event -> last work before its record */
    int32_t *event_works;
    uint64_t event_mask;
    int64_t launched; /* works whose calls were seen */
    bool *waits;      /* a call: it waited for the device */
    size_t mark;      /* of the analysis's arena: what this pass alone needs lies behind it */
} builder;

/* ---- order ---- */

typedef struct key {
    uint64_t value;
    int32_t vertex;
} key;

/* By digits of 11 bits, least first; digits that are all alike cost nothing. */
static key *sort_keys(key *keys, key *other, int count) {
    static const int bits = 11;
    for (int shift = 0; shift < 64; shift += bits) {
        int32_t places[1 << 11] = {0};
        for (int i = 0; i < count; i++)
            places[keys[i].value >> shift & 2047]++;
        if (count && places[keys[0].value >> shift & 2047] == count) continue;
        for (int i = 0, sum = 0; i < 2048; i++) {
            int here = places[i];
            places[i] = sum;
            sum += here;
        }
        for (int i = 0; i < count; i++)
            other[places[keys[i].value >> shift & 2047]++] = keys[i];
        key *swap = keys;
        keys = other;
        other = swap;
    }
    return keys;
}

/* At one moment ends come before starts, the host's start before that of its work. */
static void order_vertices(builder *build) {
    hr_analysis *analysis = build->analysis;
    hr_graph *graph = &analysis->graph;
    int count = 2 * graph->node_count, calls = 2 * graph->call_count;
    build->position = hr_arena_alloc(analysis->arena, (size_t)count * sizeof *build->position);
    size_t mark = hr_arena_mark(analysis->arena);
    key *keys = hr_arena_alloc(analysis->arena, (size_t)count * sizeof *keys);
    key *other = hr_arena_alloc(analysis->arena, (size_t)count * sizeof *other);
    for (int v = 0; v < count; v++) {
        uint64_t time = (uint64_t)(graph->observed[v] - analysis->start);
        uint64_t rank = v & 1 ? (v >= calls ? 0 : 1) : (v >= calls ? 3 : 2);
        keys[v] = (key){(time < (uint64_t)1 << 61 ? time : (uint64_t)1 << 61) * 4 + rank, v};
    }
    keys = sort_keys(keys, other, count);
    for (int i = 0; i < count; i++) {
        graph->order[i] = keys[i].vertex;
        build->position[keys[i].vertex] = i;
    }
    hr_arena_release(analysis->arena, mark);
}

/* ---- edges ---- */

static int work_vertex(const builder *build, int work) {
    return hr_work_vertex(build->analysis, work);
}

/* Left out where its cause came after its effect: clocks of host and device differ a little. */
static bool link(builder *build, int from, int to, hr_edge_kind kind, int64_t usual) {
    const int64_t *observed = build->analysis->graph.observed;
    if (build->position[from] >= build->position[to] || build->count == build->room) return false;
    int64_t seen = observed[to] - observed[from], latency = seen < usual ? seen : usual;
    build->edges[build->count] = (hr_edge){from, to, (uint8_t)kind};
    build->latencies[build->count++] = latency;
    int work = to / 2 - build->analysis->call_count;
    if (work >= 0 && work < build->analysis->work_count && !(to & 1) &&
        observed[from] + latency > build->explained[work])
        build->explained[work] = observed[from] + latency;
    return true;
}

static int compare_times(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static int64_t quantile(int64_t *samples, int count, double part, int64_t otherwise) {
    if (count < 8) return otherwise;
    qsort(samples, (size_t)count, sizeof *samples, compare_times);
    return samples[(int)((count - 1) * part)];
}

/* What is usual in this trace: taken where nothing else can have decided. */
static void measure_usual(builder *build) {
    enum { SAMPLES = 4096 };
    hr_analysis *analysis = build->analysis;
    int64_t *launch = hr_arena_alloc(analysis->arena, SAMPLES * sizeof *launch);
    int64_t *stream = hr_arena_alloc(analysis->arena, SAMPLES * sizeof *stream);
    int64_t *calls = hr_arena_alloc(analysis->arena, SAMPLES * sizeof *calls);
    int launches = 0, gaps = 0, call_count = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (work->call < 0) continue;
        const hr_host_call *call = &analysis->calls[work->call];
        int64_t idle = build->before[i] >= 0 ? analysis->works[build->before[i]].end : INT64_MIN;
        if (idle <= call->start && call->start <= work->start && launches < SAMPLES)
            launch[launches++] = work->start - call->start;
        if (call->end < idle && idle <= work->start && gaps < SAMPLES) stream[gaps++] = work->start - idle;
        if (call->kind == HR_CALL_LAUNCH && call_count < SAMPLES)
            calls[call_count++] = call->end - call->start;
    }
    build->launch = quantile(launch, launches, 0.25, LAUNCH_NS);
    build->stream = quantile(stream, gaps, 0.25, STREAM_NS);
    build->launch_call = quantile(calls, call_count, 0.5, LAUNCH_NS);
}

/* ---- what calls wait for ---- */

static const hr_wait *wait_of(const builder *build, const hr_host_call *call) {
    const hr_trace *trace = build->analysis->trace;
    if (call->wait < 0) return NULL;
    int32_t detail = trace->events.items[call->wait].detail;
    return detail >= 0 && detail < trace->waits.count ? &trace->waits.items[detail] : NULL;
}

static const hr_call *detail_of(const builder *build, const hr_host_call *call) {
    const hr_trace *trace = build->analysis->trace;
    const hr_event *event = &trace->events.items[call->event];
    return event->kind == HR_EVENT_CALL && event->detail >= 0 && event->detail < trace->calls.count
               ? &trace->calls.items[event->detail]
               : NULL;
}

static bool is_stream(const builder *build, int32_t track) {
    const hr_trace *trace = build->analysis->trace;
    return track >= 0 && track < trace->tracks.count && trace->tracks.items[track].is_stream &&
           trace->tracks.items[track].rank == build->analysis->rank;
}

static int32_t *event_slot(builder *build, int64_t event) {
    uint64_t slot = ((uint64_t)event * 0x9e3779b97f4a7c15u) >> 20 & build->event_mask;
    while (build->events[slot] && build->events[slot] != event)
        slot = (slot + 1) & build->event_mask;
    if (!build->events[slot]) {
        build->events[slot] = event;
        build->event_works[slot] = -1;
    }
    return &build->event_works[slot];
}

static void note_record(builder *build, const hr_host_call *call) {
    const hr_call *detail = detail_of(build, call);
    if (detail && detail->event && is_stream(build, detail->stream))
        *event_slot(build, detail->event) = build->last[detail->stream];
}

/* What a wait waits for by the call that recorded its event: the last work launched to that stream before it.
 */
static int32_t recorded_work(const builder *build, const hr_wait *wait) {
    const hr_analysis *analysis = build->analysis;
    int32_t record = wait ? hr_correlated_call(analysis, wait->record) : -1;
    if (record < 0 || !is_stream(build, wait->stream)) return -1;
    int32_t work = build->last[wait->stream];
    while (work >= 0 && analysis->works[work].call > record)
        work = build->before[work];
    return work;
}

static void note_stream_wait(builder *build, const hr_host_call *call) {
    const hr_trace *trace = build->analysis->trace;
    const hr_wait *wait = wait_of(build, call);
    const hr_call *detail = detail_of(build, call);
    int32_t waiting = call->wait >= 0 ? trace->events.items[call->wait].track : -1, target = -1;
    if (!is_stream(build, waiting)) waiting = detail ? detail->stream : -1;
    if (!is_stream(build, waiting)) return;
    int64_t event = wait && wait->event ? wait->event : detail ? detail->event : 0;
    target = recorded_work(build, wait);
    if (target < 0 && event) target = *event_slot(build, event);
    if (target < 0 && wait && is_stream(build, wait->stream) && wait->stream != waiting)
        target = build->last[wait->stream];
    if (target >= 0) build->pending[waiting] = target;
}

/* The last work of a stream that had ended when the call did. */
static void wait_for_stream(builder *build, int call, int32_t work, bool exact) {
    const hr_analysis *analysis = build->analysis;
    const hr_host_call *host = &analysis->calls[call];
    int steps = 0;
    while (!exact && work >= 0 && analysis->works[work].end > host->end && steps++ < 4096)
        work = build->before[work];
    if (work < 0 || analysis->works[work].end > host->end) return;
    if (link(build, work_vertex(build, work) + 1, hr_call_vertex(call) + 1, HR_EDGE_RETURN, RETURN_NS) &&
        analysis->works[work].end > host->start)
        build->waits[call] = true;
}

static void note_synchronise(builder *build, int call) {
    const hr_host_call *host = &build->analysis->calls[call];
    const hr_wait *wait = wait_of(build, host);
    const hr_call *detail = detail_of(build, host);
    int64_t event = wait && wait->event ? wait->event : detail ? detail->event : 0;
    int32_t stream = wait && wait->kind != HR_WAIT_CONTEXT && is_stream(build, wait->stream) ? wait->stream
                     : detail && is_stream(build, detail->stream)                            ? detail->stream
                                                                                             : -1;
    int32_t target = recorded_work(build, wait);
    if (target < 0 && event) target = *event_slot(build, event);
    if (target >= 0) {
        wait_for_stream(build, call, target, true);
        return;
    }
    bool for_event = wait ? wait->kind == HR_WAIT_EVENT : stream < 0;
    if (stream >= 0) {
        wait_for_stream(build, call, build->last[stream], !for_event);
        return;
    }
    for (int i = 0; i < build->stream_count && i < 32; i++)
        wait_for_stream(build, call, build->last[build->streams[i]], !for_event);
}

/* ---- passes over works and calls ---- */

static void link_streams(builder *build) {
    const hr_analysis *analysis = build->analysis;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        int vertex = work_vertex(build, i), before = build->before[i];
        link(build, vertex, vertex + 1, HR_EDGE_WORK, INT64_MAX);
        if (before < 0) continue;
        bool apart = analysis->works[before].end <= work->start;
        link(build, work_vertex(build, before) + apart, vertex, HR_EDGE_STREAM,
             apart && work->call >= 0 ? build->stream : INT64_MAX);
    }
}

static void launch_works(builder *build, int call) {
    hr_analysis *analysis = build->analysis;
    hr_host_call *host = &analysis->calls[call];
    for (int32_t i = host->work; i >= 0; i = analysis->works[i].next) {
        const hr_work *work = &analysis->works[i];
        link(build, hr_call_vertex(call), work_vertex(build, i), HR_EDGE_LAUNCH, build->launch);
        if (build->pending[work->stream] >= 0)
            link(build, work_vertex(build, build->pending[work->stream]) + 1, work_vertex(build, i),
                 HR_EDGE_WAIT, WAIT_NS);
        build->pending[work->stream] = -1;
        if (build->last[work->stream] < 0) build->streams[build->stream_count++] = work->stream;
        if (build->last[work->stream] < 0 || analysis->works[build->last[work->stream]].end < work->end)
            build->last[work->stream] = i;
        build->launched++;
        bool copies = host->kind == HR_CALL_COPY && work->end <= host->end;
        if (copies &&
            link(build, work_vertex(build, i) + 1, hr_call_vertex(call) + 1, HR_EDGE_RETURN, RETURN_NS))
            build->waits[call] = true;
    }
    int started = hr_work_after(analysis, host->end);
    bool slow = host->end - host->start > 50000 && host->end - host->start > 8 * build->launch_call;
    if (host->kind == HR_CALL_LAUNCH && slow && build->launched - started >= QUEUE_WORKS && started > 0 &&
        link(build, work_vertex(build, started - 1), hr_call_vertex(call) + 1, HR_EDGE_QUEUE, INT64_MAX))
        build->waits[call] = true;
}

static void link_calls(builder *build) {
    hr_analysis *analysis = build->analysis;
    int32_t *last = hr_arena_alloc(analysis->arena, (size_t)analysis->thread_count * sizeof *last);
    for (int i = 0; i < analysis->thread_count; i++)
        last[i] = -1;
    for (int32_t i = 0; i < analysis->call_count; i++) {
        hr_host_call *call = &analysis->calls[i];
        int32_t *own = &last[analysis->thread_of[call->track]];
        if (call->previous >= 0)
            link(build, hr_call_vertex(call->previous) + 1, hr_call_vertex(i), HR_EDGE_GAP, INT64_MAX);
        else if (call->gap > 0)
            link(build, 2 * (analysis->graph.node_count - 1), hr_call_vertex(i), HR_EDGE_GAP, INT64_MAX);
        if (*own >= 0 && *own != call->previous)
            link(build, hr_call_vertex(*own) + 1, hr_call_vertex(i), HR_EDGE_ORDER, 0);
        *own = i;
        if (call->kind == HR_CALL_EVENT_RECORD) note_record(build, call);
        if (call->kind == HR_CALL_STREAM_WAIT) note_stream_wait(build, call);
        if (call->kind == HR_CALL_SYNCHRONISE) note_synchronise(build, i);
        launch_works(build, i);
        link(build, hr_call_vertex(i), hr_call_vertex(i) + 1, HR_EDGE_CALL,
             build->waits[i] ? CALL_NS : INT64_MAX);
    }
}

/* Works that begin right after another stream's work ended, with nothing else to explain when. */
static void infer_waits(builder *build) {
    const hr_analysis *analysis = build->analysis;
    const hr_graph *graph = &analysis->graph;
    int32_t ended = -1;
    for (int i = 0; i < 2 * graph->node_count; i++) {
        int vertex = graph->order[i], work = vertex / 2 - analysis->call_count;
        if (work < 0 || work == analysis->work_count) continue;
        if (vertex & 1) {
            ended = work;
            continue;
        }
        int64_t start = analysis->works[work].start;
        if (ended < 0 || analysis->works[ended].stream == analysis->works[work].stream) continue;
        if (start - build->explained[work] > 5000 && start - analysis->works[ended].end < 4000)
            link(build, work_vertex(build, ended) + 1, vertex, HR_EDGE_WAIT, WAIT_NS);
    }
}

/* What made the device wait for a work that was launched and free to begin takes its time there, whatever the
 * host does: the work before it in the stream is followed as late as it was. */
static void keep_queued(hr_analysis *analysis, int vertex) {
    hr_graph *graph = &analysis->graph;
    int launch = hr_graph_edge(graph, vertex, HR_EDGE_LAUNCH),
        stream = hr_graph_edge(graph, vertex, HR_EDGE_STREAM);
    if (stream < 0) return;
    int64_t free = graph->observed[graph->edges[stream].from],
            launched = graph->observed[graph->edges[launch].from];
    int64_t waited = graph->observed[vertex] - (free > launched ? free : launched);
    if (waited > graph->latency[stream]) graph->latency[stream] = waited;
}

/* Edges by the vertex they lead to; what decided gets the latency that was observed. */
static void settle(builder *build) {
    hr_analysis *analysis = build->analysis;
    hr_graph *graph = &analysis->graph;
    int vertices = 2 * graph->node_count;
    graph->edge_count = build->count;
    int32_t *first = graph->first + 1;
    for (int i = 0; i < build->count; i++)
        first[build->edges[i].to + 1]++;
    for (int v = 0; v <= vertices; v++)
        first[v] += graph->first[v];
    for (int i = 0; i < build->count; i++) {
        int place = first[build->edges[i].to]++;
        graph->edges[place] = build->edges[i];
        graph->latency[place] = build->latencies[i];
    }
    for (int v = 0; v < vertices; v++) {
        int binding = -1;
        int64_t latest = INT64_MIN;
        for (int i = graph->first[v]; i < graph->first[v + 1]; i++) {
            int64_t time = graph->observed[graph->edges[i].from] + graph->latency[i];
            if (time <= latest) continue;
            latest = time;
            binding = i;
        }
        if (binding < 0) continue;
        int64_t late = graph->observed[v] - latest;
        graph->latency[binding] += late;
        if (graph->edges[binding].kind == HR_EDGE_LAUNCH && late > analysis->queued_ns)
            keep_queued(analysis, v);
    }
}

static void prepare(builder *build) {
    hr_analysis *analysis = build->analysis;
    hr_arena *arena = analysis->arena;
    hr_graph *graph = &analysis->graph;
    size_t works = (size_t)analysis->work_count, calls = (size_t)analysis->call_count;
    size_t tracks = (size_t)analysis->trace->tracks.count, records = 8;
    graph->call_count = analysis->call_count;
    graph->node_count = analysis->call_count + analysis->work_count + 1;
    graph->observed = hr_arena_alloc(arena, 2 * (works + calls + 1) * sizeof *graph->observed);
    build->room = hr_saturate_int((int64_t)(4 * works + 5 * calls + 4096));
    size_t vertices = 2 * (size_t)graph->node_count;
    graph->order = hr_arena_alloc(arena, vertices * sizeof *graph->order);
    graph->first = hr_arena_alloc(arena, (vertices + 2) * sizeof *graph->first);
    /* room for all that may come costs address space alone; what follows is of this pass and goes with it */
    graph->edges = hr_arena_alloc(arena, (size_t)build->room * sizeof *graph->edges);
    graph->latency = hr_arena_alloc(arena, (size_t)build->room * sizeof *graph->latency);
    build->mark = hr_arena_mark(arena);
    build->edges = hr_arena_alloc(arena, (size_t)build->room * sizeof *build->edges);
    build->latencies = hr_arena_alloc(arena, (size_t)build->room * sizeof *build->latencies);
    build->explained = hr_arena_alloc(arena, works * sizeof *build->explained);
    build->before = hr_arena_alloc(arena, works * sizeof *build->before);
    build->last = hr_arena_alloc(arena, tracks * sizeof *build->last);
    build->pending = hr_arena_alloc(arena, tracks * sizeof *build->pending);
    build->streams = hr_arena_alloc(arena, tracks * sizeof *build->streams);
    build->waits = hr_arena_alloc(arena, calls);
    for (size_t i = 0; i < tracks; i++)
        build->last[i] = build->pending[i] = -1;
    for (size_t i = 0; i < calls; i++) {
        graph->observed[2 * i] = analysis->calls[i].start;
        graph->observed[2 * i + 1] = analysis->calls[i].end;
    }
    for (size_t i = 0; i < works; i++) {
        hr_work *work = &analysis->works[i];
        graph->observed[2 * (calls + i)] = work->start;
        graph->observed[2 * (calls + i) + 1] = work->end;
        build->before[i] = build->last[work->stream];
        build->last[work->stream] = (int32_t)i;
        build->explained[i] = HR_NEVER;
    }
    for (size_t i = 0; i < tracks; i++)
        build->last[i] = -1;
    graph->observed[2 * (calls + works)] = graph->observed[2 * (calls + works) + 1] = analysis->origin;
    while (records < 4 * calls)
        records *= 2;
    build->event_mask = records - 1;
    build->events = hr_arena_alloc(arena, records * sizeof *build->events);
    build->event_works = hr_arena_alloc(arena, records * sizeof *build->event_works);
}

void hr_analysis_graph(hr_analysis *analysis) {
    builder build = {.analysis = analysis};
    prepare(&build);
    measure_usual(&build);
    order_vertices(&build);
    link_streams(&build);
    link_calls(&build);
    infer_waits(&build);
    settle(&build);
    hr_arena_release(analysis->arena, build.mark);
}
