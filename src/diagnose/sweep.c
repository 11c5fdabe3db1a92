/* What the chosen device did, moment after moment.
 *
 * In: works in order of start. Out: stretches in which nothing changes, each with the work it belongs to:
 * compute where any runs, else communication, else the link to the host, else none.
 */
#include "diagnose/analysis.h"

enum { ACTIVE = 512 };

typedef struct sweep {
    const hr_analysis *analysis;
    int32_t active[ACTIVE];
    int count;
} sweep;

int hr_work_priority(const hr_work *work) {
    if (work->kind == HR_TIME_HOST_LINK) return 0;
    if (work->kind == HR_TIME_COMMUNICATION) return 1;
    return 2;
}

static void sweep_add(sweep *sweep, int32_t work) {
    int place = sweep->count;
    if (sweep->count == ACTIVE) { /* the one that ends first makes room */
        const hr_work *works = sweep->analysis->works;
        place = 0;
        for (int i = 1; i < ACTIVE; i++)
            if (works[sweep->active[i]].end < works[sweep->active[place]].end) place = i;
    } else {
        sweep->count++;
    }
    sweep->active[place] = work;
}

/* The segment from `from` up to the next change, at most `to`; ended works leave. */
static hr_moment sweep_moment(sweep *sweep, int64_t from, int64_t to) {
    const hr_work *works = sweep->analysis->works;
    hr_moment moment = {.from = from, .to = to, .work = -1, .next = -1};
    for (int i = 0; i < sweep->count;) {
        const hr_work *work = &works[sweep->active[i]];
        if (work->end <= from) {
            sweep->active[i] = sweep->active[--sweep->count];
            continue;
        }
        if (work->end < moment.to) moment.to = work->end;
        if (work->kind == HR_TIME_COMMUNICATION) moment.communicates = true;
        if (moment.work < 0 || hr_work_priority(work) > hr_work_priority(&works[moment.work]) ||
            (hr_work_priority(work) == hr_work_priority(&works[moment.work]) &&
             sweep->active[i] < moment.work))
            moment.work = sweep->active[i];
        i++;
    }
    return moment;
}

void hr_sweep(const hr_analysis *analysis, int64_t start, int64_t end, hr_moment_visit visit, void *context) {
    sweep sweep = {.analysis = analysis};
    int64_t now = start;
    int next = 0;
    while (now < end) {
        while (next < analysis->work_count &&
               (analysis->works[next].device != analysis->device || analysis->works[next].start <= now)) {
            const hr_work *work = &analysis->works[next];
            if (work->device == analysis->device && work->end > now) sweep_add(&sweep, next);
            next++;
        }
        int64_t until = next < analysis->work_count && analysis->works[next].start < end
                            ? analysis->works[next].start
                            : end;
        hr_moment moment = sweep_moment(&sweep, now, until);
        if (next < analysis->work_count) moment.next = next;
        visit(context, &moment);
        now = moment.to;
    }
}
