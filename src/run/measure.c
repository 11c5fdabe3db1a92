/* How long the bound kernel takes. In: prepared states. Out: median, least, most. */
#define _GNU_SOURCE
#include "run/kernel.h"

#include <stdlib.h>
#include <time.h>

#define RUNS_MIN        5
#define RUNS_MAX        101
#define STATES_MAX      8
#define DEFAULT_SECONDS 1.0

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void time_insert(double *times, int count, double seconds) {
    int i = count;
    for (; i > 0 && times[i - 1] > seconds; i--)
        times[i] = times[i - 1];
    times[i] = seconds;
}

static hr_status time_once(hr_kernel *kernel, const hr_prepared *state, double *seconds) {
    hr_launch launch;
    HR_TRY(hr_launch_refresh(kernel, state));
    hr_launch_make(kernel, state, &launch);
    bool cooled =
        !kernel->device->ops->synchronise; /* a CPU empties its caches within: no range of a kernel */
    if (!cooled) hr_annotate_begin(kernel, state);
    hr_status status = kernel->device->ops->time(kernel->device, state->module, &launch, seconds);
    if (!cooled) hr_annotate_end();
    return status;
}

static hr_timing timing_of(const double *times, int runs) {
    double median = runs % 2 ? times[runs / 2] : 0.5 * (times[runs / 2 - 1] + times[runs / 2]);
    return (hr_timing){.median = median, .min = times[0], .max = times[runs - 1], .runs = runs};
}

hr_status hr_measure_states(hr_kernel *kernel, hr_prepared *const *states, int count, double seconds,
                            hr_progress_fn progress, void *progress_context, hr_timing *out) {
    double times[STATES_MAX][RUNS_MAX];
    int runs = 0;
    if (count > STATES_MAX) return hr_fail(HR_INTERNAL, "%d states to measure", count);
    if (!(seconds > 0)) seconds = DEFAULT_SECONDS;
    for (int s = 0; s < count; s++) { /* memory is touched, code is loaded, faults are found */
        HR_TRY(hr_launch_refresh(kernel, states[s]));
        HR_TRY(hr_launch_once(kernel, states[s]));
    }
    double begun = now();
    while (runs < RUNS_MIN || (runs < RUNS_MAX && now() - begun < seconds)) {
        for (int s = 0; s < count; s++) {
            int state = runs % 2 ? count - 1 - s : s;
            double taken;
            HR_TRY(time_once(kernel, states[state], &taken));
            time_insert(times[state], runs, taken);
        }
        runs++;
        double done = now() - begun;
        if (progress && !progress(progress_context, "measuring", done < seconds ? done : seconds, seconds))
            return hr_fail(HR_CANCELLED, "measuring was stopped");
    }
    for (int s = 0; s < count; s++)
        out[s] = timing_of(times[s], runs);
    return HR_OK;
}

hr_status hr_kernel_measure(hr_kernel *kernel, hr_timing *out) {
    if (!kernel->current) HR_TRY(hr_kernel_launch(kernel));
    hr_prepared *state = kernel->current;
    hr_timing timing;
    HR_TRY(hr_measure_states(kernel, &state, 1, 0, NULL, NULL, &timing));
    kernel->current = state;
    *out = timing;
    return HR_OK;
}
