/* Single kernels: too small for the device, too few at once, too far from its bandwidth.
 *
 * In: the table of kernels with their launches, shapes and counters. Out: drafts with other durations.
 * Without shapes or counters nothing is said of bandwidth.
 */
#include "diagnose/finding.h"

#include <math.h>

#define LEAST_SHARE 0.02 /* of a step, for a kernel to be worth a word */

#define LOW_L2   0.3  /* hits; for a kernel that is slow beside */
#define IN_CACHE 0.85 /* of the sectors that it asks L2 for; what is written counts as found */

/* Every counted launch of a kernel takes `part` of its time. */
static void scale_kernel(hr_draft *draft, int kernel, double part) {
    const hr_analysis *analysis = draft->analysis;
    for (int i = 0; i < analysis->work_count; i++) {
        if (analysis->kernel_of[i] != kernel) continue;
        hr_draft_work(draft, i, part * hr_work_seconds(analysis, i) * 1e9);
        hr_draft_event(draft, analysis->works[i].event);
    }
}

static int32_t launch_of(const hr_analysis *analysis, int kernel) {
    for (int i = 0; i < analysis->work_count; i++)
        if (analysis->kernel_of[i] == kernel) return analysis->works[i].event;
    return -1;
}

void hr_find_small_batch(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    double small = 0, all = 0, waves_time = 0;
    int64_t count = 0;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (!hr_is_counted_work(analysis, i) || hr_time_kind_group(work->kind) != HR_GROUP_COMPUTE) continue;
        double waves = hr_work_waves(analysis, i), seconds = hr_work_seconds(analysis, i);
        all += seconds;
        if (waves <= 0 || waves > 0.5 || work->kind == HR_TIME_OPTIMIZER) continue;
        small += seconds;
        waves_time += waves * seconds;
        count++;
        hr_draft_work(draft, i, seconds * 1e9 / 2);
        hr_draft_event(draft, work->event);
    }
    if (small < 0.3 * all || !count) {
        draft->found = false;
        return;
    }
    int steps = hr_counted_steps(analysis);
    hr_draft_note(draft, -1, count, small,
                  "more than half of the device is empty in %s a step: %s, %.0f %% of the time it computes",
                  hr_count_text((double)count / steps, "kernel", "kernels").text,
                  hr_time_text(small / steps).text, 100 * small / all);
    hr_draft_note(draft, -1, 0, 0, "%.0f %% of it is filled then, on average", 100 * waves_time / small);
    draft->caveat = "the gain is per sample: a step of twice the batch takes less than twice the time";
}

/* The part of the device's warps that are there while it runs: as counted, else what a block leaves room for
 * and the grid fills. */
static double resident(const hr_kernel_summary *kernel) {
    if (kernel->achieved >= 0) return kernel->achieved;
    return kernel->occupancy * fmin(1, kernel->waves > 0 ? kernel->waves : 1);
}

static bool has_few_warps(const hr_kernel_summary *kernel) {
    bool own_way = kernel->kind == HR_TIME_MATRIX || kernel->kind == HR_TIME_ATTENTION ||
                   kernel->kind == HR_TIME_COMMUNICATION; /* these do with few, or wait for others */
    bool limited = kernel->limiter != HR_LIMITER_UNKNOWN && kernel->limiter != HR_LIMITER_NONE;
    bool far = kernel->roof_fraction > 0 && kernel->roof_fraction < 0.6;
    return !own_way && limited && far && kernel->share >= LEAST_SHARE && resident(kernel) < 0.3;
}

void hr_find_low_occupancy(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    for (int i = 0; i < analysis->kernel_count && draft->evidence_count < 5; i++) {
        const hr_kernel_summary *kernel = &analysis->kernels[i];
        if (!has_few_warps(kernel)) continue;
        double part = fmax(kernel->roof_fraction / 0.8, resident(kernel) / 0.5);
        if (part >= 0.95) continue;
        scale_kernel(draft, i, part);
        hr_draft_note(
            draft, launch_of(analysis, i), kernel->count, kernel->seconds * hr_counted_steps(analysis),
            "%s: %.0f %% of the warps are there, limited by its %s (%d blocks of %d threads, %d registers a "
            "thread, %s of shared memory a block), at %.0f %% of the roof",
            kernel->short_name, 100 * resident(kernel), hr_limiter_name(kernel->limiter), kernel->grid,
            kernel->block, kernel->registers, hr_bytes_text(kernel->shared).text,
            100 * kernel->roof_fraction);
        if (kernel->limiter == HR_LIMITER_GRID) {
            draft->remedy = "Give it more blocks: split its longest axis, or let each block do less.";
            draft->code = "";
        }
    }
    draft->caveat = "with half of the warps there, latency is hidden up to 80 % of the roof";
}

void hr_find_low_bandwidth(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    for (int i = 0; i < analysis->kernel_count && draft->evidence_count < 5; i++) {
        const hr_kernel_summary *kernel = &analysis->kernels[i];
        if (kernel->share < LEAST_SHARE || kernel->bound != HR_BOUND_MEMORY || kernel->median < 10e-6)
            continue;
        if (kernel->roof_fraction <= 0 || kernel->roof_fraction > 0.5 || kernel->kind == HR_TIME_MATRIX)
            continue;
        if (kernel->l2_hit > IN_CACHE) continue; /* its data does not come from memory */
        scale_kernel(draft, i, kernel->roof_fraction / 0.8);
        hr_draft_note(
            draft, launch_of(analysis, i), kernel->count, kernel->seconds * hr_counted_steps(analysis),
            "%s moves %s in %s: %.0f %% of the bandwidth (%s, %s)", kernel->short_name,
            hr_bytes_text(kernel->bytes).text, hr_time_text(kernel->median).text, 100 * kernel->roof_fraction,
            kernel->counted ? "counted" : "by its shapes", analysis->ceiling.source);
        if (kernel->l2_hit >= 0 && kernel->l2_hit < LOW_L2 && kernel->l1_hit < LOW_L2)
            hr_draft_note(
                draft, -1, 0, 0,
                "of what %s asks for, L1 has %.0f %% and L2 %.0f %%: what it uses twice should stay nearer",
                kernel->short_name, 100 * fmax(0, kernel->l1_hit), 100 * kernel->l2_hit);
    }
    draft->caveat = "a good kernel reaches 80 % of the bandwidth";
}

/* A request of 32 threads for 4 bytes each takes 4 sectors where addresses follow each other, 32 where they
 * don't. */
void hr_find_uncoalesced(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    for (int i = 0; i < analysis->kernel_count && draft->evidence_count < 5; i++) {
        const hr_kernel_summary *kernel = &analysis->kernels[i];
        double worst = fmax(kernel->sectors_per_load, kernel->sectors_per_store);
        if (kernel->share < LEAST_SHARE || worst < 18) continue;
        scale_kernel(draft, i, fmax(0.3, 8 / worst));
        hr_draft_note(draft, launch_of(analysis, i), kernel->count,
                      kernel->seconds * hr_counted_steps(analysis),
                      "%s touches %.1f sectors a request on average; 4 to 16 are enough where neighbours "
                      "read neighbours",
                      kernel->short_name, worst);
    }
}
