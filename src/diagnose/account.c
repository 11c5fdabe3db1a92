/* Where the time of the steps went, every moment once.
 *
 * In: works, the causes of idle time, steps. Out: ns by kind, of all counted steps and of the slow ones. A
 * moment belongs to compute where any runs, else to communication, else to the link to the host; where
 * nothing runs, to what idle.c found.
 */
#include "diagnose/analysis.h"

#include <string.h>

typedef struct account {
    hr_analysis *analysis;
    hr_account *out;
    int step; /* the one that the next moment begins in */
} account;

bool hr_is_slow_step(const hr_steps *steps, int step) {
    double seconds = (double)(steps->items[step].end - steps->items[step].start) * 1e-9;
    return steps->slow_count && seconds > 0.5 * (steps->usual + steps->slow);
}

static void add_time(account *account, int64_t from, int64_t to, hr_time_kind kind) {
    const hr_steps *steps = &account->analysis->steps;
    while (from < to) {
        while (account->step < steps->count - 1 && steps->items[account->step].end <= from)
            account->step++;
        int64_t end = steps->items[account->step].end;
        if (end > to || end <= from) end = to;
        account->out->all[kind] += end - from;
        if (hr_is_slow_step(steps, account->step)) account->out->slow[kind] += end - from;
        from = end;
    }
}

static void add_moment(void *context, const hr_moment *moment) {
    account *account = context;
    hr_analysis *analysis = account->analysis;
    if (moment->work >= 0) {
        add_time(account, moment->from, moment->to, analysis->works[moment->work].kind);
        analysis->works[moment->work].alone += moment->to - moment->from;
        return;
    }
    for (int i = hr_cause_after(analysis, moment->from);
         i < analysis->cause_count && analysis->causes[i].from < moment->to; i++) {
        const hr_cause *cause = &analysis->causes[i];
        int64_t from = cause->from > moment->from ? cause->from : moment->from;
        add_time(account, from, cause->to < moment->to ? cause->to : moment->to, cause->kind);
    }
}

void hr_analysis_account(hr_analysis *analysis, hr_account *out) {
    const hr_steps *steps = &analysis->steps;
    account account = {.analysis = analysis, .out = out, .step = steps->first};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < analysis->work_count; i++)
        analysis->works[i].alone = 0;
    hr_sweep(analysis, steps->items[steps->first].start, steps->items[steps->count - 1].end, add_moment,
             &account);
}

typedef struct overlap {
    const hr_analysis *analysis;
    int64_t compute, communication, hidden;
} overlap;

static void add_overlap(void *context, const hr_moment *moment) {
    overlap *overlap = context;
    int64_t length = moment->to - moment->from;
    bool computes = moment->work >= 0 && hr_work_priority(&overlap->analysis->works[moment->work]) == 2;
    if (computes) overlap->compute += length;
    if (moment->communicates) overlap->communication += length;
    if (moment->communicates && computes) overlap->hidden += length;
}

/* What of the trace lies outside of the steps, and what the device computes there. */
static void overlap_outside(const hr_analysis *analysis, hr_lane *lane) {
    const hr_steps *steps = &analysis->steps;
    overlap overlap = {.analysis = analysis};
    int64_t first = steps->items[0].start, last = steps->items[steps->count - 1].end;
    int64_t start = analysis->start < first ? analysis->start : first,
            end = analysis->end > last ? analysis->end : last;
    hr_sweep(analysis, start, first, add_overlap, &overlap);
    hr_sweep(analysis, last, end, add_overlap, &overlap);
    lane->trace_seconds = (double)(end - start) * 1e-9;
    lane->in_steps = (double)(last - first) * 1e-9;
    lane->before_steps = (double)(first - start) * 1e-9;
    lane->after_steps = (double)(end - last) * 1e-9;
    lane->busy_outside = (double)overlap.compute * 1e-9;
}

void hr_analysis_overlap(const hr_analysis *analysis, hr_lane *lane) {
    const hr_steps *steps = &analysis->steps;
    overlap overlap = {.analysis = analysis};
    int64_t start = steps->items[steps->first].start, end = steps->items[steps->count - 1].end;
    int counted = steps->count - steps->first;
    hr_sweep(analysis, start, end, add_overlap, &overlap);
    lane->busy = end > start ? (double)overlap.compute / (double)(end - start) : 0;
    overlap_outside(analysis, lane);
    lane->communication = (double)overlap.communication * 1e-9 / counted;
    lane->hidden_communication = (double)overlap.hidden * 1e-9 / counted;
}
