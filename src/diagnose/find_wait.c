/* What the device waits for although nothing has to be launched: work that is queued, copies over the link.
 *
 * In: causes of idle time, works. Out: drafts.
 */
#include "diagnose/finding.h"

#include <math.h>
#include <string.h>

/* ---- queued work ---- */

/* The call in which some thread spends most of a stretch of time, -1 = none. */
static int call_within(const hr_analysis *analysis, int64_t from, int64_t to) {
    int64_t most = 0;
    int best = -1;
    for (int i = 0; i < analysis->call_count && analysis->calls[i].start < to; i++) {
        const hr_host_call *call = &analysis->calls[i];
        int64_t since = call->start > from ? call->start : from, until = call->end < to ? call->end : to;
        if (until - since <= most) continue;
        most = until - since;
        best = i;
    }
    return 2 * most > to - from ? best : -1;
}

/* Work of another device of the same rank that runs most of the stretch: a peer. */
static bool peer_runs(const hr_analysis *analysis, int64_t from, int64_t to, int32_t *device) {
    for (int i = 0; i < analysis->work_count && analysis->works[i].start < to; i++) {
        const hr_work *work = &analysis->works[i];
        *device = work->device;
        if (work->device != analysis->device && work->end - from > (to - from) / 2) return true;
    }
    return false;
}

static void note_meanwhile(hr_draft *draft, const hr_cause *longest) {
    const hr_analysis *analysis = draft->analysis;
    int call = call_within(analysis, longest->from, longest->to);
    int32_t device;
    if (call >= 0)
        hr_draft_note(draft, analysis->calls[call].event, 0, 0, "the host is in %s meanwhile, which %s",
                      hr_event_name(analysis, analysis->calls[call].event),
                      analysis->calls[call].kind == HR_CALL_SYNCHRONISE ||
                              analysis->calls[call].kind == HR_CALL_COPY
                          ? "waits for the device"
                          : "does not hold the device back");
    else
        hr_draft_note(draft, -1, 0, 0, "the host is in no call meanwhile");
    if (peer_runs(analysis, longest->from, longest->to, &device))
        hr_draft_note(draft, -1, 0, 0, "device %d runs meanwhile", (int)device);
}

/* The work of the device that a cause of idle time ends with, -1 = none. */
static int work_behind(const hr_analysis *analysis, const hr_cause *cause) {
    int work = hr_work_after(analysis, cause->to);
    while (work < analysis->work_count && analysis->works[work].device != analysis->device)
        work++;
    return work < analysis->work_count ? work : -1;
}

void hr_find_queued(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    const hr_steps *steps = &analysis->steps;
    hr_tally tally = {0};
    for (int i = hr_cause_after(analysis, steps->items[steps->first].start); i < analysis->cause_count; i++) {
        const hr_cause *cause = &analysis->causes[i];
        if (cause->kind != HR_TIME_QUEUED) continue;
        hr_tally_add(&tally, i, (double)(cause->to - cause->from) * 1e-9);
        int work = work_behind(analysis, cause);
        if (work >= 0) hr_draft_event(draft, analysis->works[work].event);
    }
    if (!tally.count) return;
    const hr_cause *longest = &analysis->causes[tally.longest];
    int work = work_behind(analysis, longest);
    int32_t event = work >= 0 ? analysis->works[work].event : -1;
    hr_draft_note(draft, event, tally.count, tally.seconds,
                  "launched work waits %s a step on an idle device, %s; the longest, %s, before %s",
                  hr_time_text(tally.seconds / hr_counted_steps(analysis)).text,
                  hr_count_text((double)tally.count / hr_counted_steps(analysis), "time", "times").text,
                  hr_time_text((double)(longest->to - longest->from) * 1e-9).text,
                  event >= 0 ? hr_event_name(analysis, event) : "the end");
    note_meanwhile(draft, longest);
    draft->found = draft->is_bound = true;
    draft->gain = fmin(1, analysis->accounted[HR_TIME_QUEUED] / analysis->step_seconds);
    draft->caveat = "nothing of what it waits for is needed";
}

/* ---- copies ---- */

static bool is_from_host(const hr_analysis *analysis, int work) {
    const hr_copy *copy = hr_work_copy(analysis, work);
    return (copy && copy->to == HR_MEMORY_DEVICE) ||
           strstr(hr_event_name(analysis, analysis->works[work].event), "HtoD");
}

#define SCALAR_BYTES 64 /* what the host reads to decide: the wait is what costs */

/* Those from pageable memory have a remedy of their own. */
void hr_find_copies(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    hr_tally tally = {0};
    double bytes = 0, direction[2] = {0}, exposed = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (!hr_is_counted_work(analysis, i) || work->kind != HR_TIME_HOST_LINK ||
            hr_is_pageable_copy(analysis, i))
            continue;
        const hr_copy *copy = hr_work_copy(analysis, i);
        if (copy && copy->bytes > 0 && copy->bytes <= SCALAR_BYTES) continue;
        if (copy) bytes += (double)copy->bytes;
        direction[is_from_host(analysis, i)] += hr_work_seconds(analysis, i);
        exposed += (double)work->alone * 1e-9;
        hr_tally_add(&tally, i, hr_work_seconds(analysis, i));
        hr_draft_work(draft, i, 0);
        hr_draft_event(draft, work->event);
    }
    if (!tally.count || exposed <= 0) {
        draft->found = false;
        return;
    }
    int steps = hr_counted_steps(analysis);
    int32_t event = analysis->works[tally.longest].event;
    hr_draft_note(draft, event, tally.count, tally.seconds,
                  "%s a step between host and device, in %s; %s of their time has "
                  "no compute beside it",
                  bytes > 0 ? hr_bytes_text(bytes / steps).text : "an unknown amount",
                  hr_count_text((double)tally.count / steps, "copy", "copies").text,
                  hr_time_text(exposed / steps).text);
    hr_draft_note(draft, event, 0, 0, "the longest: %s, %s", hr_event_name(analysis, event),
                  hr_time_text(tally.most).text);
    /* beside compute and beside each other, but at the link's own rate */
    draft->least_span = (int64_t)((direction[0] > direction[1] ? direction[0] : direction[1]) * 1e9);
    draft->most_seconds = exposed / steps;
    draft->otherwise =
        fmax(0, fmin(exposed, hr_counted_seconds(analysis) - (double)draft->least_span * 1e-9)) /
        hr_counted_seconds(analysis);
    draft->caveat = "what is copied is known one step ahead, and the results are not needed at once";
}
