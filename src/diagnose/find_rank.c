/* Between devices: communication that nothing hides, ranks that make the others wait.
 *
 * In: works of the kind communication; lanes of several ranks. Out: drafts.
 */
#include "diagnose/finding.h"

#include <math.h>
#include <string.h>

/* Seconds a step that the wire takes: the rank that waits least in its collectives is the one that others
 * wait for. 0 = not known, with the file of one rank. */
static double wire_seconds(const hr_draft *draft) {
    const hr_diagnosis *diagnosis = draft->diagnosis;
    double least = 0;
    if (diagnosis->lane_count < 2 || diagnosis->apart) return 0;
    for (int i = 0; i < diagnosis->lane_count; i++)
        if (i == 0 || diagnosis->lanes[i].communication < least) least = diagnosis->lanes[i].communication;
    return least;
}

/* The part of a step that is gained where all is hidden, and what cannot be hidden takes `least` seconds. */
static double hideable(const hr_analysis *analysis, double exposed, double least) {
    double step = analysis->step_seconds;
    return fmax(0, step - fmax(step - exposed, least)) / step;
}

/* What the longest one moved, where the file says how much. */
static void note_rate(hr_draft *draft, int work) {
    const hr_trace *trace = draft->analysis->trace;
    const hr_kernel_work *kernel = hr_work_kernel(draft->analysis, work);
    if (!kernel || kernel->collective < 0 || kernel->collective >= trace->collectives.count) return;
    const hr_collective *collective = &trace->collectives.items[kernel->collective];
    double seconds = hr_work_seconds(draft->analysis, work);
    if (collective->bytes <= 0 || seconds <= 0) return;
    hr_draft_note(draft, -1, 0, 0, "it carries %s among %d ranks, %s/s",
                  hr_bytes_text((double)collective->bytes).text, (int)collective->ranks,
                  hr_bytes_text((double)collective->bytes / seconds).text);
}

void hr_find_communication(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    double seconds = 0;
    int64_t count = 0;
    int32_t longest = -1;
    for (int i = 0; i < analysis->work_count; i++) {
        if (!hr_is_counted_work(analysis, i) || analysis->works[i].kind != HR_TIME_COMMUNICATION) continue;
        count++;
        seconds += hr_work_seconds(analysis, i);
        if (longest < 0 || hr_work_seconds(analysis, i) > hr_work_seconds(analysis, longest)) longest = i;
        hr_draft_work(draft, i, 0);
        hr_draft_event(draft, analysis->works[i].event);
    }
    double exposed = analysis->accounted[HR_TIME_COMMUNICATION];
    if (!count || exposed <= 0) {
        draft->found = false;
        return;
    }
    int steps = hr_counted_steps(analysis);
    hr_draft_note(draft, analysis->works[longest].event, count, seconds,
                  "%s a step, %s in all, of which %s have no compute beside them; the longest: %s, %s",
                  hr_count_text((double)count / steps, "collective", "collectives").text,
                  hr_time_text(seconds / steps).text, hr_time_text(exposed).text,
                  hr_event_name(analysis, analysis->works[longest].event),
                  hr_time_text(hr_work_seconds(analysis, longest)).text);
    note_rate(draft, longest);
    draft->most_seconds = exposed;
    double wire = wire_seconds(draft);
    if (wire > 0) {
        draft->least_span = (int64_t)(wire * steps * 1e9); /* it may all be hidden, but it takes its time */
        draft->caveat = "the results are not needed before other work of the step is done";
        draft->otherwise = hideable(analysis, exposed, wire);
        return;
    }
    draft->is_bound = true;
    draft->gain = exposed / analysis->step_seconds;
    draft->confidence = 0.3;
    hr_draft_note(
        draft, -1, 0, 0,
        "this rank waits for the others or for the wire; its file alone does not tell which: the rank that "
        "waits least in the same collective is the late one");
    draft->remedy =
        "Record all ranks and diagnose them together: a late rank is a matter of its work, else overlap the "
        "communication with compute.";
    draft->code =
        "headroom diagnose rank*.json  # then bucket_cap_mb, prefetching of parameters, a stream of its own";
    draft->caveat = "all that is exposed can be hidden or need not be waited for";
}

/* ---- stragglers ---- */

/* What a rank does itself: its step without the time it is in collectives with nothing beside them. */
static double own_seconds(const hr_lane *lane) {
    return lane->steps.mean - (lane->communication - lane->hidden_communication);
}

void hr_find_straggler(const hr_analysis *analysis, hr_diagnosis *out, hr_draft *draft) {
    double sum = 0, most = 0, waiting = 0;
    int slowest = -1, ranks = 0;
    for (int i = 0; i < out->lane_count; i++) {
        const hr_lane *lane = &out->lanes[i];
        double own = own_seconds(lane);
        sum += own;
        ranks++;
        waiting = fmax(waiting, lane->communication - lane->hidden_communication);
        if (own <= most) continue;
        most = own;
        slowest = i;
    }
    if (ranks < 2 || slowest < 0 || waiting <= 0 || out->apart) return;
    double behind = most - sum / ranks, step = out->lanes[slowest].steps.mean;
    if (behind < 0.01 * step) return;
    const hr_lane *lane = &out->lanes[slowest];
    draft->found = true;
    draft->gain = fmin(1, fmin(behind, waiting) / step);
    int32_t rank = lane->rank >= 0 && lane->rank < analysis->trace->ranks.count
                       ? analysis->trace->ranks.items[lane->rank].rank
                       : lane->rank;
    int steps = hr_counted_steps(analysis);
    hr_draft_note(draft, -1, 0, behind * steps,
                  "rank %d, device %d works %s a step; the mean of %d ranks is %s", rank, lane->device,
                  hr_time_text(most).text, ranks, hr_time_text(sum / ranks).text);
    hr_draft_note(draft, -1, 0, waiting * steps, "the others wait for it in collectives, up to %s a step",
                  hr_time_text(waiting).text);
    draft->caveat = "the ranks share the work evenly then";
}
