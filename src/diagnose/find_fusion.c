/* Kernels that one fused kernel could replace: elementwise runs, normalisations, attention, optimizers.
 *
 * In: works in the order of their streams. Out: drafts in which one work of a run takes what the fused kernel
 * would take, and the others are gone with their launches. What a fused kernel takes comes from the bytes
 * that stay: an elementwise kernel with n operands moves n units, and fusing two of them saves the two units
 * between them.
 */
#include "diagnose/finding.h"
#include "diagnose/shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TINY_NS 4000.0 /* kernels below this take no time but their own start */

/* Consecutive works of one stream. */
typedef struct run {
    const int32_t *works;
    int count;
} run;

/* Tensors that an elementwise kernel reads and writes, by its name: "Array<char*, 3>". */
static int operands_of(const hr_analysis *analysis, int work) {
    const char *name = hr_event_name(analysis, analysis->works[work].event);
    const char *array = strstr(name, "rray<char*, ");
    if (array && array[12] >= '1' && array[12] <= '9') return array[12] - '0';
    return strstr(name, "Binary") || strstr(name, "CUDAFunctor_add") ? 3 : 2;
}

static double duration_of(const hr_analysis *analysis, int work) {
    return (double)(analysis->works[work].end - analysis->works[work].start);
}

static double threads_of(const hr_analysis *analysis, int work) {
    const hr_kernel_work *launch = hr_work_kernel(analysis, work);
    if (!launch) return 0;
    double threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= (double)launch->grid[i] * launch->block[i];
    return threads;
}

static double run_total(const hr_analysis *analysis, const run *run) {
    double sum = 0;
    for (int i = 0; i < run->count; i++)
        sum += duration_of(analysis, run->works[i]);
    return sum;
}

/* ns to move one tensor of the run once. */
static double run_unit(const hr_analysis *analysis, const run *run) {
    double unit = INFINITY, largest = 0;
    for (int i = 0; i < run->count; i++)
        largest = fmax(largest, threads_of(analysis, run->works[i]));
    for (int i = 0; i < run->count; i++) {
        const hr_work *work = &analysis->works[run->works[i]];
        if (!(work->flags & HR_WORK_FUSABLE) || threads_of(analysis, run->works[i]) < largest / 4) continue;
        unit = fmin(unit, duration_of(analysis, run->works[i]) / operands_of(analysis, run->works[i]));
    }
    return isfinite(unit) ? unit : 0;
}

/* The first work of the run takes `nanoseconds`, the others are gone. */
static void replace_run(hr_draft *draft, const run *run, double nanoseconds) {
    const hr_analysis *analysis = draft->analysis;
    double own = duration_of(analysis, run->works[0]);
    int keep = 0;
    for (int i = 1; i < run->count; i++) /* the longest one stays: it has room for the time of all */
        if (duration_of(analysis, run->works[i]) > own) own = duration_of(analysis, run->works[keep = i]);
    double kept = fmin(nanoseconds, own);
    hr_draft_work(draft, run->works[keep], kept);
    double rest = nanoseconds - kept;
    for (int i = 0; i < run->count; i++) {
        hr_draft_event(draft, analysis->works[run->works[i]].event);
        if (i == keep) continue;
        double part = fmin(rest, duration_of(analysis, run->works[i]));
        rest -= part;
        hr_draft_replace(draft, run->works[i], part);
    }
}

/* ---- shared by the runs ---- */

typedef bool (*member_fn)(const hr_analysis *analysis, int work);

/* The longest run of members from `at` on, in one stream and one step. */
static run run_from(const hr_analysis *analysis, const int32_t *order, int count, int at, member_fn member) {
    run run = {order + at, 0};
    const hr_work *first = &analysis->works[order[at]];
    for (int i = at; i < count; i++) {
        const hr_work *work = &analysis->works[order[i]];
        if (work->stream != first->stream || work->step != first->step || !member(analysis, order[i])) break;
        run.count++;
    }
    return run;
}

static bool is_pointwise(const hr_analysis *analysis, int work) {
    const hr_work *at = &analysis->works[work];
    return (at->flags & HR_WORK_FUSABLE) && at->kind != HR_TIME_OPTIMIZER;
}

static bool is_rowwise(const hr_analysis *analysis, int work) {
    const hr_work *at = &analysis->works[work];
    return is_pointwise(analysis, work) || ((at->flags & HR_WORK_REDUCES) && at->kind == HR_TIME_REDUCTION);
}

/* A normalisation written out: it reduces, and takes a root or an exponential. */
static bool is_normalisation(const hr_analysis *analysis, const run *run) {
    unsigned flags = 0;
    int pointwise = 0;
    for (int i = 0; i < run->count; i++) {
        flags |= analysis->works[run->works[i]].flags;
        pointwise += is_pointwise(analysis, run->works[i]);
    }
    return (flags & HR_WORK_REDUCES) && (flags & HR_WORK_ROOT) && pointwise >= 2;
}

/* Totals of what a finding replaces, for its evidence. */
typedef struct tally {
    int64_t runs, kernels;
    double before, after; /* ns */
    run longest;
} tally;

static void tally_run(tally *tally, const run *run, double before, double after) {
    tally->runs++;
    tally->kernels += run->count;
    tally->before += before;
    tally->after += after;
    if (run->count > tally->longest.count) tally->longest = *run;
}

/* "mul x 3, add x 2": the kernels of a run, each once. */
static void name_kernels(const hr_analysis *analysis, const run *run, char *names, size_t room) {
    enum { NAMED = 6 };
    int kernels[NAMED], counts[NAMED] = {0}, named = 0, others = 0;
    for (int i = 0; i < run->count; i++) {
        int kernel = analysis->kernel_of[run->works[i]], k = 0;
        while (k < named && kernels[k] != kernel)
            k++;
        if (k == named && named < NAMED) kernels[named++] = kernel;
        if (k < named)
            counts[k]++;
        else
            others++;
    }
    size_t used = 0;
    for (int k = 0; k < named && used < room; k++) {
        const char *name = kernels[k] >= 0 ? analysis->kernels[kernels[k]].short_name : "?";
        used += (size_t)snprintf(names + used, room - used, counts[k] > 1 ? "%s%.60s x %d" : "%s%.60s",
                                 k ? ", " : "", name, counts[k]);
    }
    if (others && used < room) snprintf(names + used, room - used, ", %d others", others);
}

static void note_run(hr_draft *draft, const tally *tally, const char *one, const char *many) {
    const hr_analysis *analysis = draft->analysis;
    int steps = hr_counted_steps(analysis);
    char names[512] = "";
    hr_draft_note(draft, analysis->works[tally->longest.works[0]].event, tally->kernels, tally->before * 1e-9,
                  "%s a step in %s take %s; fused they would take about %s",
                  hr_count_text((double)tally->kernels / steps, "kernel", "kernels").text,
                  hr_count_text((double)tally->runs / steps, one, many).text,
                  hr_time_text(tally->before * 1e-9 / steps).text,
                  hr_time_text(tally->after * 1e-9 / steps).text);
    name_kernels(analysis, &tally->longest, names, sizeof names);
    hr_draft_note(draft, analysis->works[tally->longest.works[0]].event, tally->longest.count, 0,
                  "the longest run, %d kernels: %s", tally->longest.count, names);
}

/* ---- elementwise ---- */

/* Pointwise kernels of one size in a row, cut where the size changes. */
static int same_size(const hr_analysis *analysis, const run *run) {
    double first = threads_of(analysis, run->works[0]);
    int count = 1;
    while (count < run->count) {
        double threads = threads_of(analysis, run->works[count]);
        if (threads > 4 * first || threads < first / 4) break;
        count++;
    }
    return count;
}

/* How often a run repeats the same kernels: a function that is called so often becomes so many kernels. */
static int repetitions(const hr_analysis *analysis, const run *run) {
    for (int period = 2; period <= run->count / 2; period++) {
        int same = 0;
        while (same < run->count - period &&
               analysis->kernel_of[run->works[same]] == analysis->kernel_of[run->works[same + period]])
            same++;
        bool alike = analysis->kernel_of[run->works[0]] == analysis->kernel_of[run->works[1]];
        if (run->count % period == 0 && same == run->count - period && !alike) return run->count / period;
    }
    return 1;
}

/* The fused kernel reads and writes what the shortest of them does; of two that may both have operands of
 * their own, only what lies between them is saved. */
static double fused_pointwise(const hr_analysis *analysis, const run *run) {
    double total = run_total(analysis, run), unit = run_unit(analysis, run), least = INFINITY;
    for (int i = 0; i < run->count; i++)
        least = fmin(least, duration_of(analysis, run->works[i]));
    if (run->count > 3 || least < TINY_NS) return least * repetitions(analysis, run);
    return fmax(total - (run->count - 1) * 2 * unit, least);
}

void hr_find_elementwise(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    int32_t *order;
    int count = hr_stream_order(analysis, analysis->arena, &order);
    tally tally = {0};
    for (int i = 0; i < count;) {
        run wide = run_from(analysis, order, count, i, is_rowwise);
        if (wide.count > 3 && is_normalisation(analysis, &wide)) { /* a finding of its own */
            i += wide.count;
            continue;
        }
        run run = run_from(analysis, order, count, i, is_pointwise);
        if (run.count) run.count = same_size(analysis, &run);
        if (run.count >= 2) {
            double fused = fused_pointwise(analysis, &run);
            tally_run(&tally, &run, run_total(analysis, &run), fused);
            replace_run(draft, &run, fused);
        }
        i += run.count ? run.count : 1;
    }
    if (!tally.runs) return;
    note_run(draft, &tally, "run of elementwise work", "runs of elementwise work");
    draft->caveat = "kernels that follow each other work on each other's results";
}

/* ---- normalisation ---- */

void hr_find_normalisation(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    int32_t *order;
    int count = hr_stream_order(analysis, analysis->arena, &order);
    tally tally = {0};
    for (int i = 0; i < count;) {
        run run = run_from(analysis, order, count, i, is_rowwise);
        if (run.count > 3 && is_normalisation(analysis, &run)) {
            double total = run_total(analysis, &run),
                   fused = fmin(total, fmax(3 * run_unit(analysis, &run), 2000));
            tally_run(&tally, &run, total, fused);
            replace_run(draft, &run, fused);
        }
        i += run.count ? run.count : 1;
    }
    if (tally.runs) note_run(draft, &tally, "normalisation written out", "normalisations written out");
}

/* ---- attention ---- */

static bool is_product(const hr_analysis *analysis, int work) {
    return analysis->works[work].kind == HR_TIME_MATRIX &&
           !(analysis->works[work].flags & HR_WORK_CONVOLUTION);
}

static bool is_between(const hr_analysis *analysis, int work) {
    const hr_work *at = &analysis->works[work];
    return is_rowwise(analysis, work) || (at->flags & HR_WORK_SOFTMAX) || at->kind == HR_TIME_ELEMENTWISE ||
           at->kind == HR_TIME_COPY;
}

/* A softmax, as one kernel or written out. */
static bool has_softmax(const hr_analysis *analysis, const run *run) {
    bool reduces = false, exponential = false;
    for (int i = 0; i < run->count; i++) {
        const hr_work *work = &analysis->works[run->works[i]];
        const char *name = hr_event_name(analysis, work->event);
        if (work->flags & HR_WORK_LOSS) return false;
        if (work->flags & HR_WORK_SOFTMAX) return true;
        reduces |= (work->flags & HR_WORK_REDUCES) != 0;
        exponential |= strstr(name, "exp_kernel") != NULL;
    }
    return reduces && exponential;
}

/* Exponentials a second of a multiprocessor: 16 a cycle at 1.75 GHz. */
#define EXPONENTIALS 2.8e10

/* ns of a product of scores inside of a fused kernel. `pass`: ns of a pass that reads and writes the scores,
 * two bytes each, at the 88 % of the bandwidth that such a pass reaches. Tensor cores reach three quarters of
 * their rate, and three quarters of the exponentials are not hidden behind them, half for each of two
 * products: on an H200 and an H100 that is 0.55 ps a score of heads of 64 (bench/whatif: 1.18 ms, and 1.18 ms
 * were measured on both), and for heads of 128 within 12 % of cuDNN's. Heads are 64 wide where no shapes say
 * what the product is. Negative: the device's rates are not known. */
static double fused_product(const hr_analysis *analysis, int work, double pass) {
    const hr_ceiling *ceiling = &analysis->ceiling;
    if (ceiling->memory <= 0 || ceiling->tensor_half <= 0 || ceiling->multiprocessors <= 0) return -1;
    double scores = pass * 1e-9 * 0.88 * ceiling->memory / 4, bytes, flops = 0;
    hr_shapes shapes;
    const char *name;
    if (hr_work_shapes(analysis, work, &shapes, &name))
        hr_shapes_work(name, &shapes, HR_TIME_MATRIX, &bytes, &flops);
    if (flops <= 0) flops = 2 * 64 * scores;
    double exponentials = scores / (ceiling->multiprocessors * EXPONENTIALS);
    return 1e9 * (flops / (0.75 * ceiling->tensor_half) + 0.375 * exponentials);
}

/* A product that takes no longer than a pass over the scores does little but move them, which fused attention
 * does not. */
static void shorten_product(hr_draft *draft, int work, const run *between) {
    double pass = INFINITY, longest = 0, own = duration_of(draft->analysis, work);
    for (int i = 0; i < between->count; i++)
        longest = fmax(longest, duration_of(draft->analysis, between->works[i]));
    for (int i = 0; i < between->count; i++) {
        double duration = duration_of(draft->analysis, between->works[i]);
        if (duration > longest / 8) pass = fmin(pass, duration); /* the others move no scores */
    }
    if (own > pass) return;
    double fused = fused_product(draft->analysis, work, pass);
    hr_draft_work(draft, work, fused < 0 ? 0.5 * own : fmin(own, fused));
}

void hr_find_attention(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    int32_t *order;
    int count = hr_stream_order(analysis, analysis->arena, &order);
    tally tally = {0};
    for (int i = 0; i + 2 < count; i++) {
        if (!is_product(analysis, order[i])) continue;
        run run = run_from(analysis, order, count, i + 1, is_between);
        int after = i + 1 + run.count;
        if (!run.count || run.count > 12 || after >= count || !is_product(analysis, order[after])) continue;
        if (analysis->works[order[after]].step != analysis->works[order[i]].step ||
            !has_softmax(analysis, &run))
            continue;
        double total = run_total(analysis, &run);
        tally_run(&tally, &run, total, 0);
        shorten_product(draft, order[i], &run);
        shorten_product(draft, order[after], &run);
        for (int k = 0; k < run.count; k++) {
            hr_draft_replace(draft, run.works[k], 0);
            hr_draft_event(draft, analysis->works[run.works[k]].event);
        }
    }
    if (!tally.runs) return;
    int steps = hr_counted_steps(analysis);
    hr_draft_note(draft, analysis->works[tally.longest.works[0]].event, tally.kernels, tally.before * 1e-9,
                  "%.3g times a step a softmax stands between two products as kernels of their own: %s a "
                  "step for scores that a "
                  "fused kernel never writes",
                  (double)tally.runs / steps, hr_time_text(tally.before * 1e-9 / steps).text);
    draft->caveat = "heads are 64 wide where the trace has no shapes";
}

/* ---- optimizer ---- */

static bool is_stepping(const hr_analysis *analysis, int work) {
    const hr_work *at = &analysis->works[work];
    const char *name = hr_event_name(analysis, at->event);
    return at->kind == HR_TIME_OPTIMIZER && !strstr(name, "Fused") && !strstr(name, "_fused");
}

/* An Adam step in a kernel a statement moves 21 tensors, fused 7; where a kernel's start is most of its time,
 * that goes too. */
static double fused_stepping(const hr_analysis *analysis, const run *run) {
    double moved = 0, tensors = 0;
    for (int i = 0; i < run->count; i++) {
        moved += fmax(0, duration_of(analysis, run->works[i]) - 2000);
        tensors += threads_of(analysis, run->works[i]) > 0 ? 0.1 : 0;
    }
    return fmax(moved / 3, 5000 * fmax(1, tensors / 60));
}

void hr_find_optimizer(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    int32_t *order;
    int count = hr_stream_order(analysis, analysis->arena, &order);
    tally tally = {0};
    bool multi = false;
    for (int i = 0; i < count;) {
        run run = run_from(analysis, order, count, i, is_stepping);
        int each = 0;
        for (int k = 0; k < run.count; k++)
            each += !(analysis->works[run.works[k]].flags & HR_WORK_MULTI);
        bool multiple = run.count >= 3 && each * 4 < run.count;
        if (run.count >= 12 || multiple) {
            double total = run_total(analysis, &run);
            double fused = multiple ? total / 2.5 : fmin(total, fused_stepping(analysis, &run));
            multi |= multiple;
            tally_run(&tally, &run, total, fused);
            replace_run(draft, &run, fused);
        }
        i += run.count ? run.count : 1;
    }
    if (!tally.runs) return;
    note_run(draft, &tally, "run of the optimizer", "runs of the optimizer");
    if (multi)
        draft->remedy = "The optimizer handles many tensors at once, but makes a pass over them for each "
                        "statement of its "
                        "update; the fused form makes one.";
}
