/* What is missing in a file and could change its verdict: the verdict begins with it.
 *
 * In: counts of integrity.c, the account. Out: the first doubt that holds, with what to record instead; notes
 * on all that is odd.
 */
#include "diagnose/finding.h"

#include <string.h>

#define DECISIVE  0.1 /* of a step, or of the works */
#define WHOLE     "the whole file: let the profiler finish writing it, and copy it again"
#define BY_KERNEL "the kernels of graphs one by one (nsys: --cuda-graph-trace=node; headroom record)"

/* What the doubts ask. Parts are of a step. */
typedef struct facts {
    const hr_analysis *analysis;
    const hr_integrity *sums;
    hr_draft *draft; /* for its texts */
    bool truncated;
    double works, launches;
    double unrecorded, queued, idle;
} facts;

/* What to record instead, and the doubt; NULL = it does not hold. */
typedef const char *(*doubt_fn)(const facts *facts, const char **record);

static const char *times_text(hr_draft *draft, int64_t count, const char *one, const char *many) {
    return hr_draft_text(draft, "%lld %s", (long long)count, count == 1 ? one : many);
}

/* ---- files ---- */

static const char *of_several_runs(const facts *facts, const char **record) {
    const char *apart = facts->draft->diagnosis->apart;
    if (!apart) return NULL;
    *record = "all ranks of one run at the same time, or diagnose the files one by one";
    return hr_draft_text(facts->draft, "These files are not ranks of one run: %s", apart);
}

static const char *breaks_off(const facts *facts, const char **record) {
    if (facts->works > 0 || !facts->truncated) return NULL;
    *record = WHOLE;
    return "The file breaks off before the work of the device, which is written last";
}

/* What was skipped for a reason that begins so. */
static int64_t skipped(const facts *facts, const char *reason) {
    const hr_trace *trace = facts->analysis->trace;
    int64_t sum = 0;
    for (int64_t i = 0; i < trace->skipped.count; i++)
        if (strncmp(trace->skipped.items[i].reason, reason, strlen(reason)) == 0)
            sum += trace->skipped.items[i].count;
    return sum;
}

static const char *of_unknown_kinds(const facts *facts, const char **record) {
    int64_t unknown = skipped(facts, "unknown ");
    if (facts->works > 0 || !unknown) return NULL;
    *record = "with `headroom record`, torch.profiler or nsys";
    return hr_draft_text(
        facts->draft,
        "%lld events are of kinds that are not known here, and none of the others is work of a device",
        (long long)unknown);
}

/* ---- ids and times ---- */

static const char *repeats_ids(const facts *facts, const char **record) {
    bool many = facts->sums->repeated > 2 && (double)facts->sums->repeated > DECISIVE * facts->launches;
    if (!many || facts->idle <= DECISIVE) return NULL;
    *record = "with a profiler that numbers its launches: torch.profiler, nsys, headroom record";
    return hr_draft_text(
        facts->draft,
        "%lld of %lld launches carry an id that another one has: which kernel each started is a guess",
        (long long)facts->sums->repeated, (long long)facts->sums->launches);
}

/* Writers that cut off to whole us leave a few. */
static const char *has_no_durations(const facts *facts, const char **record) {
    if ((double)facts->sums->timeless <= 0.5 * facts->works) return NULL;
    *record = "durations too (ncu: gpu__time_duration.sum), or the times of a whole run";
    return hr_draft_text(facts->draft, "%lld of %lld kernels have no duration in this file",
                         (long long)facts->sums->timeless, (long long)facts->sums->works);
}

static const char *works_too_early(const facts *facts, const char **record) {
    bool many = facts->works > 2 && (double)facts->sums->early > DECISIVE * facts->works;
    if (!many || facts->idle <= DECISIVE) return NULL;
    *record = "again: these times cannot be";
    return hr_draft_text(
        facts->draft,
        "%lld of %lld kernels begin before their launch: the clocks of host and device differ, and so "
        "do the causes of waiting",
        (long long)facts->sums->early, (long long)facts->sums->works);
}

static const char *impossible_times(const facts *facts, const char **record) {
    int64_t beyond = skipped(facts, "times beyond");
    int64_t wrong = skipped(facts, "events of negative or impossible times") + skipped(facts, "events whose");
    if (!beyond && (double)wrong <= DECISIVE * (double)facts->analysis->trace->events.count) return NULL;
    *record = "again, or convert the file anew: the times in it are damaged";
    return hr_draft_text(facts->draft, "%lld events have times that cannot be", (long long)(wrong + beyond));
}

/* ---- work that is not there ---- */

static const char *captures_graphs(const facts *facts, const char **record) {
    int64_t captured = facts->sums->captured;
    if (captured <= facts->sums->launches || facts->idle <= DECISIVE) return NULL;
    *record = "the steps that launch the graph, after it was captured";
    return hr_draft_text(
        facts->draft,
        "%lld of %lld launches are captured into a graph and run later: this is how the graph is "
        "made, not a step",
        (long long)captured, (long long)(captured + facts->sums->launches));
}

static const char *lacks_kernels(const facts *facts, const char **record) {
    if (!hr_works_are_lost(facts->sums) || facts->unrecorded <= DECISIVE) return NULL;
    *record = facts->truncated
                  ? WHOLE
                  : "fewer steps at a time, so that no record is dropped, and the kernels of graphs one by "
                    "one (nsys: --cuda-graph-trace=node)";
    return hr_draft_text(
        facts->draft,
        "%s%lld of %lld launches have no kernel in this file, so %.0f %% of a step that look idle may "
        "be work that was not recorded",
        facts->truncated ? "The file breaks off: " : "", (long long)facts->sums->lost,
        (long long)facts->sums->launches, 100 * facts->unrecorded);
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

static const char *lacks_copies(const facts *facts, const char **record) {
    if (!facts->sums->copies_lost || facts->unrecorded <= DECISIVE) return NULL;
    *record = "the copies and all work of the device beside the calls of the host";
    return hr_draft_text(facts->draft,
                         "The host is held in %s for %.0f %% of a step, and what the device does meanwhile "
                         "is not in this file",
                         held_in(facts->analysis), 100 * facts->unrecorded);
}

static const char *graphs_of_one_kernel(const facts *facts, const char **record) {
    double waits = facts->unrecorded + facts->queued;
    if (2 * facts->sums->graphs_as_one <= facts->sums->graphs || waits <= DECISIVE) return NULL;
    *record = BY_KERNEL;
    return hr_draft_text(
        facts->draft,
        "%s show one kernel each in this file: what the others of the graph did for %.0f %% of a step is not "
        "in it",
        times_text(facts->draft, facts->sums->graphs_as_one, "launch of a graph", "launches of graphs"),
        100 * waits);
}

static const char *whole_graphs(const facts *facts, const char **record) {
    const hr_analysis *analysis = facts->analysis;
    int64_t sum = 0;
    for (int i = 0; i < analysis->work_count; i++)
        if (analysis->trace->events.items[analysis->works[i].event].kind == HR_EVENT_GRAPH)
            sum += analysis->works[i].alone;
    double part = (double)sum * 1e-9 / hr_counted_seconds(analysis);
    if (part <= DECISIVE) return NULL;
    *record = BY_KERNEL;
    return hr_draft_text(
        facts->draft,
        "Graphs are recorded as one piece: which kernels run for %.0f %% of a step is not in this file",
        100 * part);
}

static const char *lacks_launches(const facts *facts, const char **record) {
    int64_t orphans = facts->sums->orphans - facts->sums->before;
    bool many = facts->works > 2 && (double)orphans > DECISIVE * facts->works;
    if (!many || facts->idle <= DECISIVE) return NULL;
    *record = "the calls of the host with the work of the device, in one file";
    return hr_draft_text(
        facts->draft,
        "%lld of %lld kernels have no launch in this file: what kept the device waiting before them is "
        "not known",
        (long long)orphans, (long long)facts->sums->works);
}

/* In the order in which they are asked: each is a doubt about the whole. */
static const doubt_fn doubts[] = {of_several_runs, breaks_off,     repeats_ids,     has_no_durations,
                                  captures_graphs, lacks_kernels,  lacks_copies,    graphs_of_one_kernel,
                                  whole_graphs,    lacks_launches, works_too_early, impossible_times,
                                  of_unknown_kinds};

/* ---- notes ---- */

static int list_notes(const hr_integrity *sums, hr_draft *draft, const char **notes) {
    const hr_analysis *analysis = draft->analysis;
    const hr_work *behind = analysis->steps.behind < 0 ? NULL : &analysis->works[analysis->steps.behind];
    const struct {
        int64_t count, of;
        const char *format;
    } rows[] = {
        {sums->lost, sums->launches, "%lld of %lld launches have no work in the file"},
        {sums->orphans - sums->before, sums->works, "%lld of %lld works have no launch in the file"},
        {sums->repeated, sums->launches, "%lld correlations are repeated, among %lld launches"},
        {sums->early, sums->works, "%lld of %lld works begin before their launch"},
        {sums->graphs_as_one, sums->graphs, "%lld of %lld launches of graphs show one kernel"},
    };
    int count = 0;
    if (behind)
        notes[count++] = hr_draft_text(
            draft,
            "the device's first work here began %s after its launch, behind work from before the "
            "recording: the first step begins with it",
            hr_time_text((double)(behind->start - behind->launched) * 1e-9).text);
    if (sums->before)
        notes[count++] =
            hr_draft_text(draft, "%s launched before the recording began, and %s to no step",
                          times_text(draft, sums->before, "kernel or copy was", "kernels and copies were"),
                          sums->before == 1 ? "belongs" : "belong");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].count > 0)
            notes[count++] =
                hr_draft_text(draft, rows[i].format, (long long)rows[i].count, (long long)rows[i].of);
    return count;
}

void hr_integrity_judge(const hr_analysis *analysis, hr_diagnosis *out) {
    enum { NOTES = 8 };
    hr_draft draft = {.analysis = analysis, .diagnosis = out, .keep = out->arena};
    double step = analysis->step_seconds;
    facts facts = {.analysis = analysis,
                   .sums = &analysis->integrity,
                   .draft = &draft,
                   .truncated = analysis->trace->ranks.items[analysis->rank].truncated,
                   .works = (double)analysis->integrity.works,
                   .launches = (double)analysis->integrity.launches,
                   .unrecorded = analysis->accounted[HR_TIME_UNRECORDED] / step,
                   .queued = analysis->accounted[HR_TIME_QUEUED] / step};
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        if (hr_time_kind_group(i) == HR_GROUP_IDLE) facts.idle += analysis->accounted[i] / step;
    for (size_t i = 0; i < sizeof doubts / sizeof *doubts && !out->caution; i++)
        out->caution = doubts[i](&facts, &out->record);
    const char **notes = hr_arena_alloc(out->arena, NOTES * sizeof *notes);
    out->note_count = list_notes(&analysis->integrity, &draft, notes);
    out->notes = notes;
}
