/* How long the bound kernel takes, and its baseline, measured alternately: a copy of as many bytes, and the
 * functions that it computes most of.
 *
 * In: prepared states. Out: median, least, most; the medians over rounds of the copy's time and of a
 * function's over the kernel's.
 */
#define _GNU_SOURCE
#include "run/kernel.h"

#include "run/roof_functions.h"

#define RUNS_MIN        5
#define PAIRS_MIN       3
#define STEADY_MIN      8
#define TAKEN_AWAY      3    /* processors that a round may lose to other programs, and */
#define TAKEN_AWAY_RATE 50.0 /* a second and thread */
#define RUNS_MAX        101  /* unless more are asked for */
#define STATES_MAX      8
#define DEFAULT_SECONDS 1.0

static void time_insert(double *times, int count, double seconds) {
    int i = count;
    for (; i > 0 && times[i - 1] > seconds; i--)
        times[i] = times[i - 1];
    times[i] = seconds;
}

static double median_of(const double *sorted, int count) {
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

static hr_status time_once(hr_kernel *kernel, const hr_prepared *state, double *seconds) {
    hr_execution execution;
    HR_TRY(hr_launch_refresh(kernel, state));
    hr_launch_make(kernel, state, &execution);
    bool cooled =
        !kernel->device->ops->synchronise; /* a CPU empties its caches within: no range of a kernel */
    if (!cooled) hr_annotate_begin(kernel, state, state->extents);
    hr_status status = kernel->device->ops->time(kernel->device, state->module, &execution, seconds);
    if (!cooled) hr_annotate_end();
    return status;
}

static hr_timing timing_of(const double *times, int runs) {
    return (hr_timing){
        .median = median_of(times, runs), .min = times[0], .max = times[runs - 1], .runs = runs};
}

/* What was measured alternately with the kernel, in rounds that nobody disturbed, sorted. */
typedef struct pairs {
    int count;
    double ratios[HR_REPEAT_MOST]; /* its seconds over the kernel's */
    double rates[HR_REPEAT_MOST];
} pairs;

/* All that is timed, sorted but for the round at hand. */
typedef struct rounds {
    hr_kernel *kernel;
    const hr_measuring *measuring;
    int runs;
    double times[STATES_MAX][HR_REPEAT_MOST];
    double first; /* of this round: the first state's seconds; 0 = another program was in the way */
    bool copies;  /* they are measured */
    double copy;  /* of this round: its seconds; 0 = as above */
    pairs copied;
    hr_text functions; /* the text of special functions; empty = they are not measured */
    double special;    /* of this round: functions a second */
    pairs computed;    /* seconds are those of one function */
    double busy;
} rounds;

static hr_status state_time(rounds *rounds, int state) {
    const struct hr_device *device = rounds->kernel->device;
    double taken;
    hr_load_reading begun, ended;
    hr_load_read(device, &begun);
    HR_TRY(time_once(rounds->kernel, rounds->measuring->states[state], &taken));
    hr_load_read(device, &ended);
    time_insert(rounds->times[state], rounds->runs, taken);
    if (state > 0) return HR_OK;
    if (rounds->measuring->samples) rounds->measuring->samples[rounds->runs] = taken;
    double most = TAKEN_AWAY + TAKEN_AWAY_RATE * device->limits.threads * (ended.seconds - begun.seconds);
    rounds->first = ended.switches - begun.switches <= most ? taken : 0;
    return HR_OK;
}

static void copy_time(rounds *rounds) {
    struct hr_device *device = rounds->kernel->device;
    hr_execution execution;
    if (!rounds->copies) return;
    hr_launch_make(rounds->kernel, rounds->measuring->states[0], &execution);
    /* An extra, not the job: what cannot be had is left out. */
    rounds->copies = device->ops->time_copy(device, &rounds->kernel->roof, &execution,
                                            rounds->measuring->bytes, &rounds->copy) == HR_OK;
}

static void functions_time(rounds *rounds) {
    struct hr_device *device = rounds->kernel->device;
    if (rounds->functions.length &&
        device->ops->special_rate(device, hr_text_data(&rounds->functions), rounds->measuring->special,
                                  &rounds->special) != HR_OK)
        hr_text_clear(&rounds->functions); /* an extra, as the copy is */
}

static void baseline_time(rounds *rounds) {
    copy_time(rounds);
    functions_time(rounds);
}

static void pairs_add(pairs *pairs, double seconds, double kernel, double rate) {
    time_insert(pairs->ratios, pairs->count, seconds / kernel);
    time_insert(pairs->rates, pairs->count, rate);
    pairs->count++;
}

/* Forwards and backwards alternately, the baseline always next to the first state. */
static hr_status round_time(rounds *rounds) {
    int count = rounds->measuring->count;
    bool forwards = rounds->runs % 2 == 0;
    if (forwards) baseline_time(rounds);
    for (int s = 0; s < count; s++)
        HR_TRY(state_time(rounds, forwards ? s : count - 1 - s));
    if (!forwards) baseline_time(rounds);
    if (rounds->copies && rounds->first > 0 && rounds->copy > 0)
        pairs_add(&rounds->copied, rounds->copy, rounds->first, rounds->measuring->bytes / rounds->copy);
    if (rounds->functions.length && rounds->first > 0 && rounds->special > 0)
        pairs_add(&rounds->computed, 1 / rounds->special, rounds->first, rounds->special);
    rounds->runs++;
    return HR_OK;
}

/* Part of the measuring that is done, by rounds or by time. */
static double rounds_done(const rounds *rounds, double taken) {
    const hr_measuring *measuring = rounds->measuring;
    double seconds = measuring->seconds > 0 ? measuring->seconds : DEFAULT_SECONDS;
    if (measuring->repeat) return (double)rounds->runs / measuring->repeat;
    if (rounds->runs < RUNS_MIN) return 0;
    return rounds->runs < RUNS_MAX ? taken / seconds : 1;
}

static hr_status rounds_time(rounds *rounds) {
    const hr_measuring *measuring = rounds->measuring;
    const struct hr_device *device = rounds->kernel->device;
    double done = 0;
    hr_load_reading begun, now;
    if (measuring->repeat < 0 || measuring->repeat > HR_REPEAT_MOST)
        return hr_fail(HR_BAD_INPUT, "repeat is %d: it is at most %d", measuring->repeat, HR_REPEAT_MOST);
    hr_load_read(device, &begun);
    while (done < 1) {
        HR_TRY(round_time(rounds));
        hr_load_read(device, &now);
        done = rounds_done(rounds, now.seconds - begun.seconds);
        if (measuring->progress &&
            !measuring->progress(measuring->progress_context, "measuring", done < 1 ? done : 1, 1))
            return hr_fail(HR_CANCELLED, "measuring was stopped");
    }
    rounds->busy = hr_load_between(&begun, &now, device->limits.threads);
    return HR_OK;
}

/* What the baseline can be. */
static hr_status baseline_begin(rounds *rounds) {
    const hr_kernel *kernel = rounds->kernel;
    const hr_device_ops *ops = kernel->device->ops;
    if (!rounds->measuring->measured || !kernel->roof_known) return HR_OK;
    rounds->copies = ops->time_copy && rounds->measuring->copies;
    if (!ops->special_rate || rounds->measuring->special == HR_SPECIAL_NONE) return HR_OK;
    return hr_roof_functions_source(&rounds->functions);
}

/* Medians, and what three of four passed; all stays as it is where there were too few rounds. */
static void pairs_end(const pairs *pairs, double *ratio, double *rate, double *steady) {
    if (pairs->count < PAIRS_MIN) return;
    *ratio = median_of(pairs->ratios, pairs->count);
    *rate = median_of(pairs->rates, pairs->count);
    if (pairs->count >= STEADY_MIN) *steady = pairs->rates[pairs->count / 4];
}

static void baseline_end(const rounds *rounds) {
    hr_measured *out = rounds->measuring->measured;
    if (!out) return;
    *out = (hr_measured){.busy = rounds->busy};
    hr_baseline *baseline = &out->baseline;
    pairs_end(&rounds->copied, &baseline->copy, &baseline->rate, &out->steady.copy);
    pairs_end(&rounds->computed, &out->function, &baseline->special_rate, &out->steady.special_rate);
    if (baseline->special_rate > 0) baseline->special = rounds->measuring->special;
}

hr_status hr_measure_states(hr_kernel *kernel, const hr_measuring *measuring, hr_timing *out) {
    rounds rounds = {.kernel = kernel, .measuring = measuring};
    if (measuring->count > STATES_MAX) return hr_fail(HR_INTERNAL, "%d states to measure", measuring->count);
    for (int s = 0; s < measuring->count; s++) { /* memory is touched, code is loaded, faults are found */
        HR_TRY(hr_launch_refresh(kernel, measuring->states[s]));
        HR_TRY(hr_launch_once(kernel, measuring->states[s]));
    }
    hr_status status = baseline_begin(&rounds);
    if (status == HR_OK) status = rounds_time(&rounds);
    hr_text_clear(&rounds.functions);
    HR_TRY(status);
    baseline_end(&rounds);
    for (int s = 0; s < measuring->count; s++)
        out[s] = timing_of(rounds.times[s], rounds.runs);
    return HR_OK;
}

hr_status hr_kernel_measure(hr_kernel *kernel, hr_timing *out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (!kernel->current) HR_TRY(hr_kernel_launch(kernel));
    hr_prepared *state = kernel->current;
    hr_timing timing;
    HR_TRY(hr_measure_states(kernel, &(hr_measuring){.states = &state, .count = 1}, &timing));
    kernel->current = state;
    *out = timing;
    return HR_OK;
}
