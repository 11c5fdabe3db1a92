/* What the host does to the device: copies, waits, launches, data, memory, first uses.
 *
 * In: calls with the gaps before them. Out: drafts whose edits make calls or gaps shorter.
 */
#include "diagnose/finding.h"
#include "diagnose/host_cause.h"

#include <string.h>

/* ---- copies from memory that is not pinned ---- */

#define SMALL_COPY 65536 /* below, latency decides and pinning gains little */

static bool is_pageable(const hr_analysis *analysis, int work) {
    const hr_copy *copy = hr_work_copy(analysis, work);
    if (!copy) return false;
    return copy->from == HR_MEMORY_PAGEABLE || copy->to == HR_MEMORY_PAGEABLE ||
           strstr(hr_event_name(analysis, analysis->works[work].event), "ageable");
}

bool hr_is_pageable_copy(const hr_analysis *analysis, int work) {
    return is_pageable(analysis, work) && hr_work_copy(analysis, work)->bytes >= SMALL_COPY;
}

static bool is_to_device(const hr_analysis *analysis, int work) {
    const hr_copy *copy = hr_work_copy(analysis, work);
    return copy && (copy->to == HR_MEMORY_DEVICE ||
                    strstr(hr_event_name(analysis, analysis->works[work].event), "HtoD"));
}

/* The wait that a framework puts behind a copy from pageable memory, -1 = none. */
static int wait_behind(const hr_analysis *analysis, int call) {
    const hr_thread *thread = &analysis->threads[analysis->thread_of[analysis->calls[call].track]];
    int low = 0, high = thread->call_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (thread->calls[middle] <= call)
            low = middle + 1;
        else
            high = middle;
    }
    if (low >= thread->call_count) return -1;
    const hr_host_call *next = &analysis->calls[thread->calls[low]];
    return next->kind == HR_CALL_SYNCHRONISE && next->start - analysis->calls[call].end < 50000
               ? thread->calls[low]
               : -1;
}

/* Bytes a second between pinned memory and the device: the best copy of the trace, else the product's. */
static double pinned_rate(const hr_analysis *analysis) {
    double best = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_copy *copy = hr_work_copy(analysis, i);
        if (!copy || copy->bytes < (1 << 20) || analysis->works[i].kind != HR_TIME_HOST_LINK) continue;
        if (is_pageable(analysis, i)) continue;
        double rate = (double)copy->bytes / hr_work_seconds(analysis, i);
        if (rate > best) best = rate;
    }
    return best > 0 ? best : analysis->ceiling.link;
}

void hr_find_pageable_copy(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    double rate = pinned_rate(analysis), bytes = 0, back = 0; /* back: to the host */
    hr_tally tally = {0};
    for (int i = 0; i < analysis->work_count; i++) {
        if (!hr_is_counted_work(analysis, i) || !is_pageable(analysis, i)) continue;
        const hr_copy *copy = hr_work_copy(analysis, i);
        double now = hr_work_seconds(analysis, i),
               then = rate > 0 ? (double)copy->bytes / rate + 2e-6 : now / 2.5;
        int32_t call = analysis->works[i].call;
        if (copy->bytes < SMALL_COPY) continue;
        bytes += (double)copy->bytes;
        if (!is_to_device(analysis, i)) back += (double)copy->bytes;
        hr_tally_add(&tally, i, now);
        hr_draft_work(draft, i, then * 1e9);
        hr_draft_event(draft, analysis->works[i].event);
        if (call < 0 || !is_to_device(analysis, i)) continue;
        hr_draft_unblock(draft, call);
        hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(call) + 1, HR_EDGE_CALL), 8000);
        int wait = wait_behind(analysis, call);
        if (wait >= 0) hr_draft_unblock(draft, wait);
    }
    if (!tally.count) return;
    int32_t event = analysis->works[tally.longest].event;
    hr_draft_note(draft, event, tally.count, tally.seconds,
                  "%s copied from or to pageable memory a step, in %s, at %s/s",
                  hr_bytes_text(bytes / hr_counted_steps(analysis)).text,
                  hr_count_text((double)tally.count / hr_counted_steps(analysis), "copy", "copies").text,
                  hr_bytes_text(bytes / tally.seconds).text);
    if (rate > 0)
        hr_draft_note(draft, -1, 0, 0,
                      "pinned memory would allow %s/s, and the host need not wait for the copy",
                      hr_bytes_text(rate).text);
    draft->caveat =
        "the batch is already in pinned memory when the step begins (the loader pins it meanwhile)";
    if (2 * back <= bytes) return;
    draft->remedy = "Copy less back to the host: keep on the device what is used again there; what must "
                    "come, into pinned "
                    "memory and without waiting, while the next step computes.";
    draft->code =
        "host = torch.empty_like(x, device=\"cpu\", pin_memory=True); host.copy_(x, non_blocking=True)";
    draft->caveat = "the host reads the results a step later";
}

/* ---- waits of the host ---- */

static bool blocks(const hr_analysis *analysis, int call) {
    const hr_host_call *host = &analysis->calls[call];
    if (host->within & HR_RANGE_LOADER) return false;
    if (host->kind == HR_CALL_SYNCHRONISE) {
        int32_t before = host->previous; /* the wait behind a pageable copy is that copy's fault */
        if (before < 0 || analysis->calls[before].kind != HR_CALL_COPY || analysis->calls[before].work < 0)
            return true;
        int work = analysis->calls[before].work;
        const hr_copy *copy = hr_work_copy(analysis, work);
        return !(copy && copy->bytes >= SMALL_COPY && is_pageable(analysis, work) &&
                 is_to_device(analysis, work) && host->gap < 50000);
    }
    if (host->kind != HR_CALL_COPY || host->work < 0) return false;
    const hr_copy *copy = hr_work_copy(analysis, host->work);
    return copy && !is_to_device(analysis, host->work) &&
           analysis->works[host->work].kind == HR_TIME_HOST_LINK;
}

static bool waits(const hr_analysis *analysis, int call) {
    const hr_graph *graph = &analysis->graph;
    int vertex = hr_call_vertex(call) + 1;
    for (int i = graph->first[vertex]; i < graph->first[vertex + 1]; i++)
        if (graph->edges[i].kind == HR_EDGE_RETURN) return true;
    return false;
}

/* A scalar that the host reads: the copy, the wait for it, and a kernel of few threads that computed just
 * that. */
#define SCALAR_BYTES   64
#define SCALAR_THREADS 1024

static void remove_read(hr_draft *draft, int call) {
    const hr_analysis *analysis = draft->analysis;
    const hr_graph *graph = &analysis->graph;
    int32_t copy_call = analysis->calls[call].kind == HR_CALL_COPY ? call : analysis->calls[call].previous;
    hr_draft_edit(draft, hr_graph_edge(graph, hr_call_vertex(call) + 1, HR_EDGE_CALL), 0);
    if (copy_call < 0 || analysis->calls[copy_call].kind != HR_CALL_COPY ||
        analysis->calls[copy_call].work < 0)
        return;
    int work = analysis->calls[copy_call].work;
    const hr_copy *copy = hr_work_copy(analysis, work);
    if (!copy || copy->bytes > SCALAR_BYTES || is_to_device(analysis, work)) return;
    hr_draft_replace(draft, work, 0);
    hr_draft_remove_call(draft, call);
    int edge = hr_graph_edge(graph, hr_work_vertex(analysis, work), HR_EDGE_STREAM);
    int before = edge >= 0 ? graph->edges[edge].from / 2 - analysis->call_count : -1;
    const hr_kernel_work *launch = before >= 0 ? hr_work_kernel(analysis, before) : NULL;
    if (!launch || analysis->works[before].step != analysis->works[work].step) return;
    int64_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= (int64_t)launch->grid[i] * launch->block[i];
    if (threads <= SCALAR_THREADS && analysis->works[before].kind != HR_TIME_MATRIX)
        hr_draft_replace(draft, before, 0);
}

void hr_find_blocking_sync(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    int64_t last_step = 0;
    hr_tally tally = {0};
    for (int i = 0; i < analysis->call_count; i++) {
        if (!hr_is_counted_call(analysis, i) || !blocks(analysis, i) || !waits(analysis, i)) continue;
        const hr_host_call *call = &analysis->calls[i];
        last_step = call->step;
        hr_tally_add(&tally, i, (double)(call->end - call->start) * 1e-9);
        hr_draft_unblock(draft, i);
        remove_read(draft, i);
        hr_draft_event(draft, call->event);
    }
    if (!tally.count) return;
    if (tally.count == 1 && last_step == analysis->steps.count - 1 && analysis->steps.count > 1) {
        draft->found = false; /* one wait at the end of all is how a program ends */
        return;
    }
    const hr_host_call *call = &analysis->calls[tally.longest];
    const char *around = hr_event_name(analysis, call->operation);
    hr_draft_note(draft, call->event, tally.count, tally.seconds,
                  "the host waits for the device %s a step, %s in all: %s%s%s",
                  hr_count_text((double)tally.count / hr_counted_steps(analysis), "time", "times").text,
                  hr_time_text(tally.seconds / hr_counted_steps(analysis)).text,
                  hr_event_name(analysis, call->event), around[0] ? " in " : "", around);
    if (strstr(around, "local_scalar") || strstr(around, "item"))
        draft->remedy = "Keep scalars on the device: .item(), float(loss) and print(loss) make the host wait "
                        "for all work "
                        "launched so far. Add them up in a tensor and read it every 100 steps.";
    draft->caveat = "the value that is waited for is not needed to go on";
}

/* ---- launches ---- */

#define LEAST_CAPTURE   10 /* launches between two waits, for a graph of them to be worth its own launch */
#define GRAPH_LAUNCH_NS 10000
#define GRAPH_GAP_NS    50 /* between kernels of a graph: seen on an H200 */

typedef struct captures {
    int64_t launches, left_out; /* left out: between waits that are too close */
    double seconds;             /* of the host, for the launches */
} captures;

/* What a graph cannot hold: it ends a capture. */
static bool ends_capture(const hr_analysis *analysis, int call) {
    const hr_host_call *host = &analysis->calls[call];
    if (host->kind == HR_CALL_ALLOCATE || host->kind == HR_CALL_FIRST_USE || (host->within & HR_RANGE_LOADER))
        return true;
    return (host->kind == HR_CALL_SYNCHRONISE || host->kind == HR_CALL_COPY) && waits(analysis, call);
}

/* Calls [from, to) of a thread become one graph launch. */
static void capture(hr_draft *draft, const hr_thread *thread, int from, int to, captures *sum) {
    const hr_analysis *analysis = draft->analysis;
    const hr_graph *graph = &analysis->graph;
    int launches = 0;
    bool first = true;
    for (int k = from; k < to; k++)
        launches += analysis->calls[thread->calls[k]].work >= 0;
    sum->launches += launches;
    if (launches < LEAST_CAPTURE) sum->left_out += launches;
    for (int k = from; k < to; k++) {
        int i = thread->calls[k];
        const hr_host_call *call = &analysis->calls[i];
        int64_t own = call->gap - call->gap_loader - call->gap_first_use;
        int edge = hr_graph_edge(graph, hr_call_vertex(i) + 1, HR_EDGE_CALL);
        int64_t cost = edge >= 0 ? graph->latency[edge] : 0; /* without what it waited for */
        sum->seconds += (double)(cost + (own <= HR_LAUNCH_GAP_NS ? own : 0)) * 1e-9;
        if (launches < LEAST_CAPTURE) continue;
        bool launch = call->work >= 0;
        hr_draft_edit(draft, edge, launch && first ? GRAPH_LAUNCH_NS : 0);
        first &= !launch;
        if (own <= HR_LAUNCH_GAP_NS)
            hr_draft_edit(draft, hr_graph_edge(graph, hr_call_vertex(i), HR_EDGE_GAP), call->gap - own);
        if (launch) hr_draft_event(draft, call->event);
        for (int32_t work = call->work; work >= 0; work = analysis->works[work].next)
            hr_draft_edit(draft, hr_graph_edge(graph, hr_work_vertex(analysis, work), HR_EDGE_STREAM),
                          GRAPH_GAP_NS);
    }
}

void hr_find_launch_bound(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    captures sum = {0};
    for (int t = 0; t < analysis->thread_count; t++) {
        const hr_thread *thread = &analysis->threads[t];
        int from = 0;
        for (int k = 0; k <= thread->call_count; k++) {
            bool ends = k == thread->call_count || ends_capture(analysis, thread->calls[k]) ||
                        analysis->calls[thread->calls[k]].step != analysis->calls[thread->calls[from]].step;
            if (!ends) continue;
            if (k > from && hr_is_counted_call(analysis, thread->calls[from]))
                capture(draft, thread, from, k, &sum);
            from = k + (k < thread->call_count && ends_capture(analysis, thread->calls[k]));
        }
    }
    if (sum.launches == sum.left_out) {
        draft->found = false;
        return;
    }
    int steps = hr_counted_steps(analysis);
    hr_draft_note(draft, -1, sum.launches, sum.seconds,
                  "%.4g launches a step cost the host %s each, with the work that leads to them",
                  (double)sum.launches / steps, hr_time_text(sum.seconds / (double)sum.launches).text);
    hr_draft_note(draft, -1, 0, analysis->accounted[HR_TIME_LAUNCH] * steps,
                  "the device stands idle for launches for %s of a step",
                  hr_time_text(analysis->accounted[HR_TIME_LAUNCH]).text);
    if (sum.left_out * 20 > sum.launches)
        hr_draft_note(draft, -1, sum.left_out, 0,
                      "%.4g of them stand between waits of the host and cannot be captured",
                      (double)sum.left_out / steps);
    if (analysis->accounted[HR_TIME_GAP] > 0.01 * analysis->step_seconds)
        hr_draft_note(draft, -1, 0, analysis->accounted[HR_TIME_GAP] * steps,
                      "from one kernel to the next that was launched ahead it stands idle for %s of a step",
                      hr_time_text(analysis->accounted[HR_TIME_GAP]).text);
    draft->most_seconds = analysis->accounted[HR_TIME_LAUNCH] + analysis->accounted[HR_TIME_GAP] +
                          analysis->accounted[HR_TIME_SYNCHRONISATION];
    draft->caveat = "shapes are fixed, so that a step can be captured once and launched again";
}

/* ---- host work ---- */

void hr_find_host_bound(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    hr_host_time *times = hr_arena_alloc(analysis->arena, (size_t)analysis->call_count * sizeof *times);
    hr_tally tally = {0};
    for (int i = 0; i < analysis->call_count; i++) {
        const hr_host_call *call = &analysis->calls[i];
        int64_t own = call->gap - call->gap_loader - call->gap_first_use;
        if (!hr_is_counted_call(analysis, i) || own <= HR_LAUNCH_GAP_NS) continue;
        if (!analysis->threads[analysis->thread_of[call->track]].launches) continue;
        times[tally.count] = (hr_host_time){call->track, call->start - call->gap, call->start};
        hr_tally_add(&tally, i, (double)own * 1e-9);
        hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(i), HR_EDGE_GAP),
                      call->gap - own);
        hr_draft_event(draft, call->event);
    }
    if (!tally.count) return;
    const hr_host_call *call = &analysis->calls[tally.longest];
    hr_draft_note(
        draft, call->event, tally.count, tally.seconds,
        "the host works %s a step without launching anything, in %s",
        hr_time_text(tally.seconds / hr_counted_steps(analysis)).text,
        hr_count_text((double)tally.count / hr_counted_steps(analysis), "stretch", "stretches").text);
    hr_short_text longest = hr_time_text((double)call->gap * 1e-9);
    if (hr_draft_note_cause(draft, times, (int)tally.count, -1))
        hr_draft_note(draft, call->event, 0, 0, "the longest stretch takes %s", longest.text);
    else
        hr_draft_note(draft, call->event, 0, 0, "the longest one takes %s and ends with %s", longest.text,
                      hr_event_name(analysis, call->event));
    draft->most_seconds = analysis->accounted[HR_TIME_HOST];
    draft->caveat = "all of that work can be done beside the device's or ahead of it";
}

/* ---- data ---- */

#define FETCH_NS 20000 /* to take a batch that is there */

/* The longest range of a loader in the time before a call, -1 = none. */
static int32_t loader_before(const hr_analysis *analysis, const hr_host_call *call) {
    const hr_trace *trace = analysis->trace;
    int32_t range = -1;
    for (int64_t i = 0; i < trace->events.count && trace->events.items[i].start < call->start; i++) {
        const hr_event *event = &trace->events.items[i];
        bool before = event->track == call->track && event->kind <= HR_EVENT_OPERATOR &&
                      event->duration > 0 && event->start + event->duration > call->start - call->gap;
        if (!before || !(hr_classify_range(hr_trace_string(trace, event->name)) & HR_RANGE_LOADER)) continue;
        if (range < 0 || event->duration > trace->events.items[range].duration) range = (int32_t)i;
    }
    return range;
}

/* What kind of loader it is, by its name in PyTorch. */
static void note_loader(hr_draft *draft, const char *name) {
    if (strstr(name, "SingleProcess"))
        hr_draft_note(draft, -1, 0, 0,
                      "the loader has no workers: it prepares each batch in the training loop itself");
    if (!strstr(name, "MultiProcess")) return;
    draft->remedy = "The workers cannot keep up: use more of them, a larger prefetch_factor, or cheaper "
                    "transforms (decode "
                    "and augment on the device).";
    draft->code =
        "DataLoader(..., num_workers=16, prefetch_factor=4, persistent_workers=True, pin_memory=True)";
}

/* The time before a call in which its thread waited for data. */
static int loader_times(const hr_analysis *analysis, const hr_host_call *call, hr_host_time *out) {
    const hr_thread *thread = &analysis->threads[analysis->thread_of[call->track]];
    int64_t from = call->start - call->gap;
    int low = 0, high = thread->loader_count, count = 0;
    while (low < high) {
        int middle = (low + high) / 2;
        if (thread->loader[middle].end <= from)
            low = middle + 1;
        else
            high = middle;
    }
    for (int i = low; i < thread->loader_count && thread->loader[i].start < call->start; i++) {
        int64_t start = thread->loader[i].start > from ? thread->loader[i].start : from;
        int64_t end = thread->loader[i].end < call->start ? thread->loader[i].end : call->start;
        if (end > start) out[count++] = (hr_host_time){call->track, start, end};
    }
    return count;
}

void hr_find_input_pipeline(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    size_t stretches = 0;
    for (int i = 0; i < analysis->thread_count; i++) /* a stretch may lie before two calls */
        stretches += (size_t)analysis->threads[i].loader_count + (size_t)analysis->threads[i].call_count;
    hr_host_time *times = hr_arena_alloc(analysis->arena, stretches * sizeof *times);
    int time_count = 0;
    hr_tally tally = {0};
    for (int i = 0; i < analysis->call_count; i++) {
        const hr_host_call *call = &analysis->calls[i];
        bool counted = hr_is_counted_call(analysis, i) || (i && hr_is_counted_call(analysis, i - 1));
        if (!counted || call->gap_loader <= 0) continue;
        time_count += loader_times(analysis, call, times + time_count);
        hr_tally_add(&tally, i, (double)call->gap_loader * 1e-9);
        hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(i), HR_EDGE_GAP),
                      call->gap - call->gap_loader + FETCH_NS);
    }
    if (!tally.count) return;
    const hr_host_call *call = &analysis->calls[tally.longest];
    int32_t range = loader_before(analysis, call);
    hr_short_text step = hr_time_text(tally.seconds / hr_counted_steps(analysis));
    if (range >= 0) {
        hr_draft_event(draft, range);
        hr_draft_note(draft, range, tally.count, tally.seconds,
                      "the host waits %s a step for its next batch, in %s", step.text,
                      hr_event_name(analysis, range));
        note_loader(draft, hr_event_name(analysis, range));
    } else
        hr_draft_note(draft, call->event, tally.count, tally.seconds,
                      "the host works %s a step before it copies input to the device", step.text);
    bool named = hr_draft_note_cause(draft, times, time_count, range);
    if (range < 0 && !named)
        hr_draft_note(
            draft, -1, 0, 0,
            "no range and no frame says what it does: name it with torch.profiler.record_function or NVTX, "
            "or record with_stack=True");
    if (range < 0) draft->confidence = named ? 0.7 : 0.6;
    draft->caveat = "enough workers prepare batches while the device computes";
}

/* ---- memory, first uses ---- */

void hr_find_allocation(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    hr_tally tally = {0};
    for (int i = 0; i < analysis->call_count; i++) {
        const hr_host_call *call = &analysis->calls[i];
        if (call->kind != HR_CALL_ALLOCATE || !hr_is_counted_call(analysis, i)) continue;
        hr_tally_add(&tally, i, (double)(call->end - call->start) * 1e-9);
        hr_draft_unblock(draft, i);
        hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(i) + 1, HR_EDGE_CALL), 1000);
        hr_draft_event(draft, call->event);
    }
    if (!tally.count) return;
    const hr_host_call *call = &analysis->calls[tally.longest];
    hr_draft_note(draft, call->event, tally.count, tally.seconds,
                  "%s a step to allocate or free memory, %s in all; the longest: %s, %s",
                  hr_count_text((double)tally.count / hr_counted_steps(analysis), "call", "calls").text,
                  hr_time_text(tally.seconds / hr_counted_steps(analysis)).text,
                  hr_event_name(analysis, call->event),
                  hr_time_text((double)(call->end - call->start) * 1e-9).text);
}

/* What a call launched begins as much sooner as the call is shorter. */
static void begin_sooner(hr_draft *draft, const hr_host_call *call, int64_t by) {
    const hr_graph *graph = &draft->analysis->graph;
    for (int32_t work = call->work; work >= 0; work = draft->analysis->works[work].next) {
        int edge = hr_graph_edge(graph, hr_work_vertex(draft->analysis, work), HR_EDGE_LAUNCH);
        if (edge >= 0 && graph->latency[edge] > by) hr_draft_edit(draft, edge, graph->latency[edge] - by);
    }
}

void hr_find_first_use(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    hr_tally tally = {0};
    for (int i = 0; i < analysis->call_count; i++) {
        const hr_host_call *call = &analysis->calls[i];
        int64_t own = call->end - call->start, loading = call->gap_first_use;
        bool slow = hr_is_first_use(analysis, call);
        if (!hr_is_counted_call(analysis, i)) continue;
        if (slow && hr_graph_edge(&analysis->graph, hr_call_vertex(i) + 1, HR_EDGE_QUEUE) < 0) {
            loading += own;
            hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(i) + 1, HR_EDGE_CALL), 10000);
            begin_sooner(draft, call, own);
        }
        if (loading <= 0) continue;
        hr_draft_edit(draft, hr_graph_edge(&analysis->graph, hr_call_vertex(i), HR_EDGE_GAP),
                      call->gap - call->gap_first_use);
        hr_tally_add(&tally, i, (double)loading * 1e-9);
        hr_draft_event(draft, call->event);
    }
    if (!tally.count) return;
    const hr_host_call *call = &analysis->calls[tally.longest];
    hr_draft_note(
        draft, call->event, tally.count, tally.seconds,
        "code is loaded or compiled in steps that should be warm: %lld times, %s in all, for example %s",
        (long long)tally.count, hr_time_text(tally.seconds).text, hr_event_name(analysis, call->event));
    draft->caveat = "the steps to come need no code that has not been loaded by then";
}
