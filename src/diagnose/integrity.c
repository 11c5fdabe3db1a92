/* What a file lacks, and whether that could change the verdict.
 *
 * In: joined works and calls. Out: counts; calls whose work is not in the file; for a whole diagnosis the
 * sentence that its verdict begins with, what to record instead, and notes on the files.
 *
 * Profilers lose records: buffers run full, a graph is recorded as one kernel, recording begins while the
 * device still runs what was launched before. What is lost looks like an idle device.
 */
#include "diagnose/finding.h"

#include <stdio.h>
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

/* Where as many works lack their launch, the ids are lost and not the works. */
static bool are_lost(const hr_integrity *sums) {
    return sums->lost > 2 * (sums->orphans - sums->before);
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
    bool noise = (double)sums->lost <= NOISE * (double)sums->launches || !are_lost(sums);
    for (int i = 0; i < analysis->call_count && noise; i++)
        analysis->calls[i].lost = analysis->calls[i].after_lost = false;
}

/* ---- what could change the verdict ---- */

#define DECISIVE 0.1 /* of a step, or of the works */

static const char *times_text(hr_draft *draft, int64_t count, const char *one, const char *many) {
    return hr_draft_text(draft, "%lld %s", (long long)count, count == 1 ? one : many);
}

/* The name of the copy that held the host longest without work in the file. */
static const char *held_in(const hr_analysis *analysis) {
    const hr_host_call *longest = NULL;
    for (int i = 0; i < analysis->call_count; i++) {
        const hr_host_call *call = &analysis->calls[i];
        if (call->kind != HR_CALL_COPY || call->work >= 0) continue;
        if (!longest || call->end - call->start > longest->end - longest->start) longest = call;
    }
    return longest ? hr_event_name(analysis, longest->event) : "a copy";
}

/* Seconds of a step in graphs that are one piece of work. */
static double in_graphs(const hr_analysis *analysis) {
    int64_t sum = 0;
    for (int i = 0; i < analysis->work_count; i++)
        if (analysis->trace->events.items[analysis->works[i].event].kind == HR_EVENT_GRAPH)
            sum += analysis->works[i].alone;
    return (double)sum * 1e-9 / hr_counted_steps(analysis);
}

/* The first that holds: each is a doubt about the whole. */
static void doubt(const hr_analysis *analysis, hr_draft *draft, hr_diagnosis *out) {
    const hr_integrity *sums = &analysis->integrity;
    const hr_rank *rank = &analysis->trace->ranks.items[analysis->rank];
    double step = analysis->step_seconds, unrecorded = analysis->accounted[HR_TIME_UNRECORDED];
    double idle = unrecorded + analysis->accounted[HR_TIME_QUEUED];
    double works = (double)sums->works,
           stands = 0; /* idle for any reason: where it is not, no cause matters */
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        if (hr_time_kind_group(i) == HR_GROUP_IDLE) stands += analysis->accounted[i];
    bool waits = stands > DECISIVE * step;
    if (out->apart) {
        out->caution = hr_draft_text(draft, "These files are not ranks of one run: %s", out->apart);
        out->record = "all ranks of one run at the same time, or diagnose the files one by one";
    } else if (!analysis->work_count && rank->truncated) {
        out->caution = "The file breaks off before the work of the device, which is written last";
        out->record = "the whole file: let the profiler finish writing it, and copy it again";
    } else if (waits && sums->repeated > DECISIVE * (double)sums->launches && sums->repeated > 2) {
        out->caution = hr_draft_text(
            draft,
            "%lld of %lld launches carry an id that another one has: which kernel each started is a guess",
            (long long)sums->repeated, (long long)sums->launches);
        out->record = "with a profiler that numbers its launches: torch.profiler, nsys, headroom record";
    } else if ((double)sums->timeless > 0.5 * works) { /* writers that cut off to whole us leave a few */
        out->caution = hr_draft_text(draft, "%lld of %lld kernels have no duration in this file",
                                     (long long)sums->timeless, (long long)sums->works);
        out->record = "durations too (ncu: gpu__time_duration.sum), or the times of a whole run";
    } else if (are_lost(sums) && unrecorded > DECISIVE * step) {
        out->caution =
            hr_draft_text(draft,
                          "%s%lld of %lld launches have no kernel in this file, so %.0f %% of a step "
                          "that look idle may be work that was not recorded",
                          rank->truncated ? "The file breaks off: " : "", (long long)sums->lost,
                          (long long)sums->launches, 100 * unrecorded / step);
        out->record = rank->truncated
                          ? "the whole file: let the profiler finish writing it, and copy it again"
                          : "fewer steps at a time, so that no record is dropped, and the kernels of graphs "
                            "one by one (nsys: --cuda-graph-trace=node)";
    } else if (sums->copies_lost && unrecorded > DECISIVE * step) {
        out->caution = hr_draft_text(
            draft,
            "The host is held in %s for %.0f %% of a step, and what the device does meanwhile is "
            "not in this file",
            held_in(analysis), 100 * unrecorded / step);
        out->record = "the copies and all work of the device beside the calls of the host";
    } else if (sums->graphs && 2 * sums->graphs_as_one > sums->graphs && idle > DECISIVE * step) {
        out->caution =
            hr_draft_text(draft,
                          "%s show one kernel each in this file: what the others of the graph did for %.0f "
                          "%% of a step is not "
                          "in it",
                          times_text(draft, sums->graphs_as_one, "launch of a graph", "launches of graphs"),
                          100 * idle / step);
        out->record =
            "the kernels of graphs one by one (nsys: --cuda-graph-trace=node; torch.profiler of a newer "
            "release; headroom record)";
    } else if (in_graphs(analysis) > DECISIVE * step) {
        out->caution =
            hr_draft_text(draft,
                          "Graphs are recorded as one piece: which kernels run for %.0f %% of a step is "
                          "not in this file",
                          100 * in_graphs(analysis) / step);
        out->record = "the kernels of graphs one by one (nsys: --cuda-graph-trace=node; headroom record)";
    } else if (waits && (double)(sums->orphans - sums->before) > DECISIVE * works && sums->works > 2) {
        out->caution =
            hr_draft_text(draft,
                          "%lld of %lld kernels have no launch in this file: what kept the device waiting "
                          "before them is not known",
                          (long long)(sums->orphans - sums->before), (long long)sums->works);
        out->record = "the calls of the host with the work of the device, in one file";
    } else if (waits && (double)sums->early > DECISIVE * works && sums->works > 2) {
        out->caution =
            hr_draft_text(draft,
                          "%lld of %lld kernels begin before their launch: the clocks of host and device "
                          "differ, and so do the causes of waiting",
                          (long long)sums->early, (long long)sums->works);
        out->record = "again: these times cannot be";
    }
}

/* What was skipped for a reason that begins so. */
static int64_t skipped(const hr_trace *trace, const char *reason) {
    int64_t sum = 0;
    for (int64_t i = 0; i < trace->skipped.count; i++)
        if (strncmp(trace->skipped.items[i].reason, reason, strlen(reason)) == 0)
            sum += trace->skipped.items[i].count;
    return sum;
}

static void doubt_times(const hr_analysis *analysis, hr_draft *draft, hr_diagnosis *out) {
    const hr_trace *trace = analysis->trace;
    int64_t beyond = skipped(trace, "times beyond");
    int64_t impossible =
        skipped(trace, "events of negative or impossible times") + skipped(trace, "events whose");
    int64_t unknown = skipped(trace, "unknown ");
    if (!out->caution && (beyond || (double)impossible > DECISIVE * (double)trace->events.count)) {
        out->caution =
            hr_draft_text(draft, "%lld events have times that cannot be", (long long)(impossible + beyond));
        out->record = "again, or convert the file anew: the times in it are damaged";
    }
    if (!out->caution && unknown && !analysis->work_count) {
        out->caution =
            hr_draft_text(draft,
                          "%lld events are of kinds that are not known here, and none of the others is "
                          "work of a device",
                          (long long)unknown);
        out->record = "with `headroom record`, torch.profiler or nsys";
    }
}

void hr_integrity_judge(const hr_analysis *analysis, hr_diagnosis *out) {
    hr_draft draft = {.analysis = analysis, .keep = out->arena};
    const hr_integrity *sums = &analysis->integrity;
    const char **notes = hr_arena_alloc(out->arena, 8 * sizeof *notes);
    int count = 0;
    doubt(analysis, &draft, out);
    doubt_times(analysis, &draft, out);
    if (sums->before)
        notes[count++] =
            hr_draft_text(&draft, "%s launched before the recording began, and %s to no step",
                          times_text(&draft, sums->before, "kernel or copy was", "kernels and copies were"),
                          sums->before == 1 ? "belongs" : "belong");
    if (sums->lost)
        notes[count++] = hr_draft_text(&draft, "%lld of %lld launches have no work in the file",
                                       (long long)sums->lost, (long long)sums->launches);
    if (sums->orphans > sums->before)
        notes[count++] = hr_draft_text(&draft, "%lld of %lld works have no launch in the file",
                                       (long long)(sums->orphans - sums->before), (long long)sums->works);
    if (sums->repeated)
        notes[count++] = hr_draft_text(
            &draft, "%s repeated", times_text(&draft, sums->repeated, "correlation is", "correlations are"));
    if (sums->early)
        notes[count++] = hr_draft_text(&draft, "%lld of %lld works begin before their launch",
                                       (long long)sums->early, (long long)sums->works);
    if (sums->graphs_as_one && sums->graphs_as_one < sums->graphs + 1)
        notes[count++] = hr_draft_text(&draft, "%lld of %lld launches of graphs show one kernel",
                                       (long long)sums->graphs_as_one, (long long)sums->graphs);
    out->notes = notes;
    out->note_count = count;
}
