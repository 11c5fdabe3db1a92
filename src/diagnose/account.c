/* Where the time of a step went, every moment once.
 *
 * In: joined works and calls. Out: ns by kind. A moment belongs to compute where any runs, else to
 * communication, else to the link to the host; where nothing runs, to what kept the host from giving the next
 * work sooner: its calls and the gaps between them, walked back from the call that ended the wait.
 */
#include "diagnose/analysis.h"

#include <string.h>

/* ---- what the host did ---- */

typedef struct walk {
    const hr_analysis *analysis;
    hr_host_visit visit;
    void *context;
    int32_t call;
} walk;

static void visit_piece(const walk *walk, int64_t from, int64_t to, hr_time_kind cause) {
    if (to > from) walk->visit(walk->context, from, to, cause, walk->call);
}

static int stretch_after(const hr_stretch *stretches, int count, int64_t time) {
    int low = 0, high = count; /* the first one that ends after `time` */
    while (low < high) {
        int middle = (low + high) / 2;
        if (stretches[middle].end <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void cut_first_use(const walk *walk, const hr_thread *thread, int64_t from, int64_t to,
                          hr_time_kind rest) {
    const hr_stretch *stretches = thread->first_use;
    for (int i = stretch_after(stretches, thread->first_use_count, from);
         i < thread->first_use_count && stretches[i].start < to && from < to; i++) {
        int64_t start = stretches[i].start > from ? stretches[i].start : from;
        int64_t end = stretches[i].end < to ? stretches[i].end : to;
        if (end <= from) continue;
        visit_piece(walk, from, start, rest);
        visit_piece(walk, start, end, HR_TIME_FIRST_USE);
        from = end;
    }
    visit_piece(walk, from, to, rest);
}

/* Host time between calls: waiting for data, loading code, the rest. */
static void cut_gap(const walk *walk, const hr_thread *thread, int64_t from, int64_t to, hr_time_kind rest) {
    const hr_stretch *stretches = thread->loader;
    for (int i = stretch_after(stretches, thread->loader_count, from);
         i < thread->loader_count && stretches[i].start < to && from < to; i++) {
        int64_t start = stretches[i].start > from ? stretches[i].start : from;
        int64_t end = stretches[i].end < to ? stretches[i].end : to;
        if (end <= from) continue;
        cut_first_use(walk, thread, from, start, rest);
        visit_piece(walk, start, end, HR_TIME_LOADER);
        from = end;
    }
    cut_first_use(walk, thread, from, to, rest);
}

/* The first launch of a kernel that takes this long loads or compiles its code. */
#define LOADING_LAUNCH_NS 500000

static hr_time_kind copy_cause(const hr_analysis *analysis, const hr_host_call *call, int64_t from) {
    if (call->work < 0) return HR_TIME_LAUNCH;
    const hr_work *work = &analysis->works[call->work];
    if (work->kind != HR_TIME_HOST_LINK || call->end - call->start < 20000) return HR_TIME_LAUNCH;
    return work->end <= from + 1 && work->end - work->start < 10000 ? HR_TIME_SYNCHRONISATION
                                                                    : HR_TIME_HOST_LINK;
}

bool hr_is_first_use(const hr_analysis *analysis, const hr_host_call *call) {
    if (call->kind == HR_CALL_FIRST_USE) return true;
    return call->kind == HR_CALL_LAUNCH && call->end - call->start > LOADING_LAUNCH_NS && call->work >= 0 &&
           (analysis->works[call->work].flags & HR_WORK_FIRST);
}

static hr_time_kind call_cause(const hr_analysis *analysis, const hr_host_call *call, int64_t from) {
    if (call->within & HR_RANGE_LOADER) return HR_TIME_LOADER;
    if (hr_is_first_use(analysis, call)) return HR_TIME_FIRST_USE;
    switch (call->kind) {
    case HR_CALL_SYNCHRONISE:
        return HR_TIME_SYNCHRONISATION;
    case HR_CALL_ALLOCATE:
        return HR_TIME_ALLOCATION;
    case HR_CALL_COPY:
        return copy_cause(analysis, call, from);
    default:
        return HR_TIME_LAUNCH;
    }
}

void hr_host_walk(const hr_analysis *analysis, int32_t at, int64_t from, int64_t to, hr_host_visit visit,
                  void *context) {
    walk walk = {analysis, visit, context, at};
    bool first = true;
    while (at >= 0 && to > from) {
        const hr_host_call *call = &analysis->calls[at];
        const hr_thread *thread = &analysis->threads[analysis->thread_of[call->track]];
        walk.call = at;
        if (first && to > call->end) {
            int64_t since = call->end > from ? call->end : from;
            cut_gap(&walk, thread, since, to, to - since > HR_LAUNCH_GAP_NS ? HR_TIME_HOST : HR_TIME_LAUNCH);
        }
        first = false;
        int64_t start = call->start > from ? call->start : from, end = call->end < to ? call->end : to;
        visit_piece(&walk, start, end, call_cause(analysis, call, start));
        if (to > call->start) to = call->start;
        if (to <= from) return;
        int64_t before = call->previous >= 0 ? analysis->calls[call->previous].end : from;
        int64_t own = call->gap - call->gap_loader - call->gap_first_use;
        bool long_gap = own > HR_LAUNCH_GAP_NS || call->previous < 0;
        if (before < from) before = from;
        cut_gap(&walk, thread, before, to, long_gap ? HR_TIME_HOST : HR_TIME_LAUNCH);
        if (before < to) to = before;
        at = call->previous;
    }
    visit_piece(&walk, from, to, HR_TIME_HOST);
}

/* ---- what the device did ---- */

/* A stretch of time in which nothing changes. `work`: the one it belongs to, -1 = idle until `next` begins.
 */
typedef struct moment {
    int64_t from, to;
    int32_t work, next; /* next: -1 = none */
    bool communicates;
} moment;

typedef void (*moment_visit)(void *context, const moment *moment);

enum { ACTIVE = 512 };

typedef struct sweep {
    const hr_analysis *analysis;
    int32_t active[ACTIVE];
    int count;
} sweep;

static int priority(const hr_work *work) {
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
static moment sweep_moment(sweep *sweep, int64_t from, int64_t to) {
    const hr_work *works = sweep->analysis->works;
    moment moment = {.from = from, .to = to, .work = -1, .next = -1};
    for (int i = 0; i < sweep->count;) {
        const hr_work *work = &works[sweep->active[i]];
        if (work->end <= from) {
            sweep->active[i] = sweep->active[--sweep->count];
            continue;
        }
        if (work->end < moment.to) moment.to = work->end;
        if (work->kind == HR_TIME_COMMUNICATION) moment.communicates = true;
        if (moment.work < 0 || priority(work) > priority(&works[moment.work]) ||
            (priority(work) == priority(&works[moment.work]) && sweep->active[i] < moment.work))
            moment.work = sweep->active[i];
        i++;
    }
    return moment;
}

static void sweep_device(const hr_analysis *analysis, int64_t start, int64_t end, moment_visit visit,
                         void *context) {
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
        moment moment = sweep_moment(&sweep, now, until);
        if (next < analysis->work_count) moment.next = next;
        visit(context, &moment);
        now = moment.to;
    }
}

/* ---- the account ---- */

typedef struct account {
    const hr_analysis *analysis;
    int64_t *out;
    int64_t idle[HR_TIME_KIND_COUNT]; /* of one wait of the device */
} account;

/* Nearest moments come first: what follows a synchronisation until the device has work again is its doing. */
static void add_idle(void *context, int64_t from, int64_t to, hr_time_kind cause, int32_t call) {
    account *account = context;
    (void)call;
    account->idle[cause] += to - from;
    if (cause != HR_TIME_SYNCHRONISATION) return;
    account->idle[HR_TIME_SYNCHRONISATION] += account->idle[HR_TIME_LAUNCH];
    account->idle[HR_TIME_LAUNCH] = 0;
}

static void add_moment(void *context, const moment *moment) {
    account *account = context;
    const hr_analysis *analysis = account->analysis;
    if (moment->work >= 0) {
        account->out[analysis->works[moment->work].kind] += moment->to - moment->from;
        return;
    }
    int32_t call = moment->next >= 0 ? analysis->works[moment->next].call : -1;
    if (call < 0 && moment->next < 0) call = hr_call_after(analysis, moment->to) - 1;
    memset(account->idle, 0, sizeof account->idle);
    if (call >= 0)
        hr_host_walk(analysis, call, moment->from, moment->to, add_idle, account);
    else
        account->idle[moment->to - moment->from > HR_LAUNCH_GAP_NS ? HR_TIME_HOST : HR_TIME_LAUNCH] =
            moment->to - moment->from;
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        account->out[i] += account->idle[i];
}

void hr_analysis_account(const hr_analysis *analysis, int64_t start, int64_t end,
                         int64_t out[HR_TIME_KIND_COUNT]) {
    account account = {.analysis = analysis, .out = out};
    memset(out, 0, HR_TIME_KIND_COUNT * sizeof *out);
    sweep_device(analysis, start, end, add_moment, &account);
}

typedef struct overlap {
    const hr_analysis *analysis;
    int64_t compute, communication, hidden;
} overlap;

static void add_overlap(void *context, const moment *moment) {
    overlap *overlap = context;
    int64_t length = moment->to - moment->from;
    bool computes = moment->work >= 0 && priority(&overlap->analysis->works[moment->work]) == 2;
    if (computes) overlap->compute += length;
    if (moment->communicates) overlap->communication += length;
    if (moment->communicates && computes) overlap->hidden += length;
}

void hr_analysis_overlap(const hr_analysis *analysis, hr_lane *lane) {
    const hr_steps *steps = &analysis->steps;
    overlap overlap = {.analysis = analysis};
    int64_t start = steps->items[steps->first].start, end = steps->items[steps->count - 1].end;
    int counted = steps->count - steps->first;
    sweep_device(analysis, start, end, add_overlap, &overlap);
    lane->busy = end > start ? (double)overlap.compute / (double)(end - start) : 0;
    lane->communication = (double)overlap.communication * 1e-9 / counted;
    lane->hidden_communication = (double)overlap.hidden * 1e-9 / counted;
}
