/* The main job: tune, check, save, measure against the floor and against the unfused version.
 *
 * In: a kernel with bound arrays. Out: all that a report says of it. Every step leaves the inout arrays as
 * the next one needs them: tuning brings them back, the check applies the kernel once, measuring comes after
 * they were saved.
 */
#include "run/data_bounds.h"
#include "run/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNFUSED_MOST   (32 << 20) /* bytes of scratch that the unfused version may take */
#define PARTS_MOST     4096
#define BASELINE_LEAST 0.1 /* part of the floor: memory that counts less needs no baseline copy */
#define STATES         2   /* that are measured: fused, unfused */
#define ROOF_PASSED    1.1 /* of the roof: no kernel is as fast */
#define ANEW_SECONDS   600 /* no roof is measured anew sooner */
#define OUTRUN         1.1 /* times a copy's speed: another copy may be the machine's best */

/* The public result, and what its pointers point to. */
typedef struct run_result {
    hr_run_result public; /* first: hr_run_result_destroy gets its address */
    hr_arena *arena;
    double samples[HR_REPEAT_MOST];
} run_result;

/* ---- the steps ---- */

typedef struct running {
    hr_kernel *kernel;
    hr_run_options options;
    hr_run_result *result;
    hr_prepared *fused, *unfused; /* unfused: NULL where it is not measured */
    hr_work work;
} running;

static hr_status step_ready(running *running) {
    const hr_run_options *options = &running->options;
    hr_preparing preparing = {.tune = options->tune,
                              .threads = running->kernel->threads,
                              .progress = options->progress,
                              .progress_context = options->progress_context,
                              .restore = options->restore,
                              .restore_context = options->restore_context};
    HR_TRY(hr_kernel_roof(running->kernel, options->progress, options->progress_context));
    HR_TRY(hr_kernel_ready(running->kernel, &preparing, &running->fused));
    running->kernel->current = running->fused;
    return HR_OK;
}

hr_status hr_kernel_unfused(hr_kernel *kernel, int threads, hr_prepared **out) {
    hr_preparing preparing = {
        .tune = HR_TUNE_NONE, .unfused = true, .threads = threads, .scratch_most = UNFUSED_MOST};
    hr_status status = HR_OUT_OF_MEMORY;
    for (int64_t divisor = 1; status == HR_OUT_OF_MEMORY && divisor <= PARTS_MOST; divisor *= 2) {
        preparing.divisor = divisor;
        status = hr_kernel_ready(kernel, &preparing, out);
    }
    return status;
}

/* What cannot be had is left out: it is an extra, not the job. */
static hr_status step_unfused_ready(running *running) {
    hr_prepared *state;
    if (running->options.no_unfused && running->options.no_verify) return HR_OK;
    if (hr_kernel_unfused(running->kernel, running->kernel->threads, &state) == HR_OK)
        running->unfused = state;
    return HR_OK;
}

/* A choice that was kept and gives a wrong result is our fault; it shall not be made again. */
static void forget_wrong(const running *running) {
    const hr_prepared *state = running->fused;
    hr_run_result *result = running->result;
    if (result->verified.ok || !state->tuned.best.count) return;
    hr_choice_label(&state->tuned.best, state->plan->stage_count, result->tune.left,
                    sizeof result->tune.left);
    hr_tune_forget(state->tuning_key);
}

/* The one application that counts: checked against the text, then saved. */
static hr_status step_apply(running *running) {
    const hr_run_options *options = &running->options;
    const hr_checking checking = {.prepared = running->fused,
                                  .other = running->unfused,
                                  .points = options->points,
                                  .restore = options->restore,
                                  .restore_context = options->restore_context,
                                  .progress = options->progress,
                                  .progress_context = options->progress_context};
    if (options->no_verify) HR_TRY(hr_launch_refresh(running->kernel, running->fused));
    if (options->no_verify)
        HR_TRY(hr_launch_once(running->kernel, running->fused));
    else {
        HR_TRY(hr_check_run(running->kernel, &checking, &running->result->verified));
        running->result->verify_done = true;
        forget_wrong(running);
    }
    return options->saved ? options->saved(options->saved_context, running->kernel) : HR_OK;
}

/* Measured alternately with the kernel, but where it is the same code; of a part, subscripts that depend on
 * data may leave their axis. */
static hr_status step_unfuse(running *running) {
    hr_prepared *state = running->unfused;
    running->unfused = NULL;
    if (running->options.no_unfused || !state) return HR_OK;
    if (strcmp(hr_text_data(&state->loadable.source), hr_text_data(&running->fused->loadable.source)) == 0)
        return HR_OK;
    if (memcmp(state->extents, running->fused->extents,
               (size_t)running->kernel->function->extent_count * sizeof *state->extents) != 0) {
        HR_TRY(hr_launch_refresh(running->kernel, state));
        if (hr_launch_once(running->kernel, state) != HR_OK) return HR_OK;
    }
    running->unfused = state;
    return HR_OK;
}

static hr_status step_floor(running *running) {
    const hr_kernel *kernel = running->kernel;
    HR_TRY(hr_bounded_work(kernel, running->fused, &running->work));
    hr_floor_of_state(kernel, running->fused, &running->work, &running->result->floor);
    return HR_OK;
}

/* Whether the floor depends on how fast the memory is at the moment. */
static bool memory_matters(const running *running) {
    const hr_floor *floor = &running->result->floor;
    return floor->bytes > 0 && floor->memory >= BASELINE_LEAST * floor->seconds;
}

/* Arrays that the caches hold are too small for a baseline copy. */
static bool baseline_wanted(const running *running) {
    const struct hr_device *device = running->kernel->device;
    return device->ops->time_copy && running->result->floor.bytes > (double)device->limits.l3_bytes;
}

/* Whose rate decides how long the arithmetic takes, where that matters. */
static hr_special special_that_matters(const running *running) {
    const hr_floor *floor = &running->result->floor;
    if (floor->others < BASELINE_LEAST * floor->seconds) return HR_SPECIAL_NONE;
    return hr_work_special(&running->work, &running->kernel->roof);
}

/* The floor, had the roof's copy and functions run at the speeds that the baseline's had. Parts of
 * the kernel's time come from pairs, so that there is no drift in them. */
static void baseline_finish(const running *running, bool copies, double function) {
    hr_run_result *result = running->result;
    hr_baseline *baseline = &result->baseline;
    const hr_floor *floor = &result->floor;
    const hr_roof *roof = &running->kernel->roof;
    double median = result->seconds.median;
    if (!baseline_wanted(running) || !(median > 0)) return;
    bool paired = function > 0 && baseline->special_rate > 0;
    double work =
        floor->others * roof->special[baseline->special]; /* as if all were functions of that kind */
    double others = paired ? work / baseline->special_rate : floor->others;
    double others_part = paired ? work * function : floor->others / median;
    if (!copies) {
        baseline->floor = fmax(floor->memory, others);
        baseline->roof_fraction = fmax(floor->memory / median, others_part);
    } else if (baseline->copy > 0) {
        double memory = floor->memory * roof->copy;
        baseline->floor = fmax(memory / baseline->rate, others);
        baseline->roof_fraction = fmax(memory / floor->bytes * baseline->copy, others_part);
    }
}

/* Memory or cores that were slow when the roof was measured are no reason to call more than all of it
 * reached. Three of four copies, or runs of the functions, must have passed it, so that no short burst does.
 * A GPU's memory is its own. */
static hr_status roof_raise(running *running, const hr_roof_seen *steady, bool chosen) {
    hr_kernel *kernel = running->kernel;
    hr_run_result *result = running->result;
    const hr_baseline *baseline = &result->baseline;
    const hr_roof kept = kernel->roof;
    hr_roof_seen seen = {.special = baseline->special};
    if (chosen && result->busy <= HR_LOAD_BUSY) {
        seen.copy_way = kept.copy_way;
        seen.copy_threads = kept.copy_threads;
    }
    if (steady->copy > kept.copy) seen.copy = baseline->rate;
    if (steady->special_rate > kept.special[baseline->special]) seen.special_rate = baseline->special_rate;
    if (kernel->device->limits.compute || !hr_roof_store_raise(kernel->device, &seen, &kernel->roof))
        return HR_OK;
    if (kernel->roof.copy > kept.copy) result->roof_was = kept.copy;
    if (kernel->roof.special[baseline->special] > kept.special[baseline->special])
        result->special_was = kept.special[baseline->special];
    return step_floor(running);
}

/* A kernel that outruns the copy may show that this was the machine's best in a busy moment alone: where
 * another is, both are measured again. */
static hr_status measure_baseline(running *running, const hr_measuring *measuring, hr_timing *timings,
                                  bool *chosen) {
    hr_kernel *kernel = running->kernel;
    const hr_device_ops *ops = kernel->device->ops;
    hr_execution execution;
    bool other = false;
    HR_TRY(hr_measure_states(kernel, measuring, timings));
    if (!ops->choose_copy || measuring->measured->baseline.copy < OUTRUN) return HR_OK;
    hr_launch_make(kernel, running->fused, &execution);
    if (ops->choose_copy(kernel->device, &execution, &kernel->roof, &other) != HR_OK || !other)
        return HR_OK; /* an extra, not the job */
    *chosen = true;
    return hr_measure_states(kernel, measuring, timings);
}

/* Once more where other programs were in the way; the quieter time counts. */
static hr_status measure_quietly(running *running, const hr_measuring *measuring, hr_timing *timings,
                                 bool *chosen) {
    hr_measured first;
    hr_timing before[STATES];
    double samples[HR_REPEAT_MOST];
    *chosen = false;
    HR_TRY(measure_baseline(running, measuring, timings, chosen));
    if (measuring->measured->busy <= HR_LOAD_BUSY) return HR_OK;
    first = *measuring->measured;
    memcpy(before, timings, sizeof before);
    memcpy(samples, measuring->samples, sizeof samples);
    HR_TRY(measure_baseline(running, measuring, timings, chosen));
    if (measuring->measured->busy < first.busy) return HR_OK;
    *measuring->measured = first;
    memcpy(timings, before, sizeof before);
    memcpy(measuring->samples, samples, sizeof samples);
    return HR_OK;
}

/* No kernel passes the machine's best: where one does, the roof was measured in a slow moment. But caches
 * pass memory, and the formulas of gelu are faster than the functions that its floor counts. */
static bool roof_is_passed(const running *running) {
    static const char *const passed_rightly[] = {"launch", "tanh", "erf"};
    const hr_run_result *result = running->result;
    if (!(result->floor.seconds > ROOF_PASSED * result->seconds.median)) return false;
    for (size_t i = 0; i < sizeof passed_rightly / sizeof *passed_rightly; i++)
        if (strcmp(result->floor.bound, passed_rightly[i]) == 0) return false;
    return strcmp(result->floor.bound, "memory") != 0 || baseline_wanted(running);
}

/* Measured anew, unless that was done a short while ago, and taken where nobody hindered it. */
static hr_status roof_measure_anew(running *running) {
    hr_kernel *kernel = running->kernel;
    const hr_run_options *options = &running->options;
    hr_roof roof;
    if (kernel->device->limits.compute || !roof_is_passed(running)) return HR_OK;
    if ((double)time(NULL) - kernel->roof.measured_at < ANEW_SECONDS) return HR_OK;
    hr_status status =
        hr_device_roof(kernel->device, true, options->progress, options->progress_context, &roof);
    if (status == HR_CANCELLED) return status;
    if (status != HR_OK || roof.busy > HR_LOAD_BUSY) return HR_OK; /* an extra, not the job */
    kernel->roof = roof;
    return step_floor(running);
}

/* The fastest run began its threads, too: no start takes longer than that. */
static hr_status launch_lower(running *running) {
    const hr_run_result *result = running->result;
    hr_roof *roof = &running->kernel->roof;
    if (strcmp(result->floor.bound, "launch") != 0 || !(result->seconds.min < roof->launch)) return HR_OK;
    roof->launch = result->seconds.min;
    return step_floor(running);
}

/* The time of all the work from that of a part. */
static void unfused_reckon(const running *running) {
    hr_run_result *result = running->result;
    double share = hr_extents_share(running->kernel, running->unfused->extents, running->fused->extents);
    result->unfused_part = share;
    result->unfused.median /= share;
    result->unfused.min /= share;
    result->unfused.max /= share;
}

static hr_status step_measure(running *running) {
    const hr_run_options *options = &running->options;
    hr_run_result *result = running->result;
    hr_prepared *states[STATES] = {running->fused, running->unfused};
    hr_measured measured = {0};
    hr_measuring measuring = {.states = states,
                              .count = running->unfused ? 2 : 1,
                              .seconds = options->seconds,
                              .repeat = options->repeat,
                              .samples = ((run_result *)(void *)result)->samples,
                              .progress = options->progress,
                              .progress_context = options->progress_context,
                              .bytes = result->floor.bytes,
                              .measured = &measured};
    hr_timing timings[STATES] = {0};
    bool chosen;
    if (baseline_wanted(running)) {
        measuring.copies = memory_matters(running);
        measuring.special = special_that_matters(running);
    }
    HR_TRY(measure_quietly(running, &measuring, timings, &chosen));
    result->baseline = measured.baseline;
    result->busy = measured.busy;
    result->seconds = timings[0];
    result->unfused = timings[1];
    result->samples = measuring.samples;
    if (running->unfused) unfused_reckon(running);
    HR_TRY(roof_raise(running, &measured.steady, chosen));
    HR_TRY(roof_measure_anew(running));
    HR_TRY(launch_lower(running));
    baseline_finish(running, measuring.copies, measured.function);
    hr_launch_trim(running->kernel, running->fused);
    HR_TRY(hr_launch_refresh(running->kernel, running->fused));
    running->kernel->current = running->fused;
    return HR_OK;
}

/* ---- the result ---- */

static void result_tuning(hr_run_result *result, const hr_prepared *state, hr_arena *arena) {
    const hr_tuned *tuned = &state->tuned;
    const int stages = state->plan->stage_count;
    int count = tuned->tried_count ? tuned->tried_count : 1;
    hr_variant *variants = hr_arena_alloc(arena, (size_t)count * sizeof *variants);
    result->tune.tried = tuned->tried_count;
    result->tune.seconds = tuned->seconds;
    result->tune.cached = tuned->cached;
    for (int v = 0; v < tuned->tried_count; v++) {
        hr_choice_label(&tuned->tried[v].choice, stages, variants[v].label, sizeof variants[v].label);
        variants[v].seconds = tuned->tried[v].seconds;
        variants[v].chosen = hr_choice_is(&tuned->tried[v].choice, &tuned->best);
    }
    if (!tuned->tried_count) {
        hr_choice_label(&state->choice, stages, variants[0].label, sizeof variants[0].label);
        variants[0].seconds = result->seconds.median;
        variants[0].chosen = true;
    }
    result->variant_count = count;
    result->variants = variants;
}

static void result_extents(hr_run_result *result, const hr_kernel *kernel, const hr_prepared *state,
                           hr_arena *arena) {
    int count = kernel->function->extent_count;
    const char **names = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *names);
    int64_t *extents = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *extents);
    for (int e = 0; e < count; e++) {
        names[e] = hr_arena_copy(arena, kernel->function->extents[e], strlen(kernel->function->extents[e]));
        extents[e] = state->extents[e];
    }
    result->extent_count = count;
    result->extent_names = names;
    result->extents = extents;
}

static const char *copied(hr_arena *arena, const char *text) {
    return text ? hr_arena_copy(arena, text, strlen(text)) : "";
}

static void result_dtypes(hr_run_result *result, const hr_kernel *kernel, hr_arena *arena) {
    int count = kernel->function->variable_count;
    const char **names = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *names);
    hr_dtype *dtypes = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *dtypes);
    for (int i = 0; i < count; i++) {
        names[i] = copied(arena, kernel->function->variables[i].name);
        dtypes[i] = kernel->function->variables[i].dtype;
    }
    result->dtype_count = count;
    result->dtype_names = names;
    result->dtypes = dtypes;
}

static hr_status result_stages(hr_run_result *result, const hr_kernel *kernel, const hr_prepared *state,
                               hr_arena *arena) {
    int count = state->plan->stage_count;
    hr_stage_info *stages = hr_arena_alloc(arena, (size_t)(count + 1) * sizeof *stages);
    HR_TRY(hr_stages_describe(state->plan, state->extents, &kernel->roof, stages, arena));
    for (int s = 0; s < count; s++) {
        stages[s].shape = copied(arena, stages[s].shape);
        stages[s].name = copied(arena, stages[s].name);
        stages[s].why = copied(arena, stages[s].why);
    }
    result->stage_count = count;
    result->stages = stages;
    return HR_OK;
}

static size_t texts_size(const hr_kernel *kernel, const hr_prepared *state, const char *source) {
    size_t size = strlen(source) + strlen(state->plan->summary) + strlen(kernel->file) +
                  2 * strlen(kernel->function->title) + (1 << 20);
    for (int e = 0; e < kernel->function->extent_count; e++)
        size += strlen(kernel->function->extents[e]) + 64;
    for (int s = 0; s < state->plan->stage_count; s++) {
        const hr_stage *stage = &state->plan->stages[s];
        size += sizeof(hr_stage_info) + 64 + (stage->name ? strlen(stage->name) : 0) +
                (stage->why ? strlen(stage->why) : 0) +
                128 * (size_t)stage->step_count * (size_t)stage->step_count;
    }
    return size;
}

static hr_status result_describe(running *running, hr_arena **arena) {
    const hr_kernel *kernel = running->kernel;
    const hr_prepared *state = running->fused;
    hr_run_result *result = running->result;
    const char *source;
    HR_TRY(hr_kernel_source(running->kernel, &source, NULL));
    HR_TRY(hr_arena_create(texts_size(kernel, state, source), arena));
    result->kernel = copied(*arena, kernel->function->name);
    result->file = copied(*arena, kernel->file);
    result->device_kind = copied(*arena, kernel->device->ops->kind);
    result->device_name = copied(*arena, kernel->device->name);
    result->plan_summary = copied(*arena, state->plan->summary);
    result->source = copied(*arena, source);
    result->roof = kernel->roof;
    result->threads = state->launch_threads;
    result_extents(result, kernel, state, *arena);
    result_dtypes(result, kernel, *arena);
    result_tuning(result, state, *arena);
    HR_TRY(result_stages(result, kernel, state, *arena));
    if (result->floor.seconds > 0 && result->seconds.median > 0) {
        result->headroom = result->seconds.median / result->floor.seconds;
        result->roof_fraction = result->floor.seconds / result->seconds.median;
    }
    return HR_OK;
}

hr_status hr_kernel_run(hr_kernel *kernel, const hr_run_options *options, hr_run_result **out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    running running = {.kernel = kernel, .options = {.size = sizeof running.options}};
    if (options && options->size < sizeof options->size)
        return hr_fail(HR_BAD_INPUT, "hr_run_options does not say its size: begin it with "
                                     "{.size = sizeof(hr_run_options)}");
    if (options)
        memcpy(&running.options, options,
               options->size < sizeof running.options ? options->size : sizeof running.options);
    if (running.options.tune > HR_TUNE_FULL)
        return hr_fail(HR_BAD_INPUT, "hr_run_options.tune is %d", (int)running.options.tune);
    HR_TRY(hr_threads_check(kernel->device, running.options.threads));
    if (running.options.threads > 0) kernel->threads = running.options.threads;
    run_result *made = calloc(1, sizeof *made);
    if (!made) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the result of a run");
    running.result = &made->public;
    hr_status status = step_ready(&running);
    if (status == HR_OK) status = step_unfused_ready(&running);
    if (status == HR_OK) status = step_apply(&running);
    if (status == HR_OK) status = step_unfuse(&running);
    if (status == HR_OK) status = step_floor(&running);
    if (status == HR_OK) status = step_measure(&running);
    if (status == HR_OK) status = result_describe(&running, &made->arena);
    if (status == HR_OK)
        *out = &made->public;
    else
        hr_run_result_destroy(&made->public);
    return status;
}

/* By the roof that is kept: nothing is measured here. Without one, the work is known and no time. */
static hr_status explain_floor(running *running) {
    hr_kernel *kernel = running->kernel;
    hr_status kept = kernel->roof_known ? HR_OK : hr_device_roof_kept(kernel->device, &kernel->roof);
    if (kept != HR_OK && kept != HR_NOT_AVAILABLE) return kept;
    kernel->roof_known = kept == HR_OK;
    HR_TRY(step_floor(running));
    if (!kernel->roof_known) running->result->floor.bound = NULL;
    return HR_OK;
}

hr_status hr_kernel_explain(hr_kernel *kernel, hr_run_result **out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    run_result *made = calloc(1, sizeof *made);
    if (!made) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel's plan");
    running running = {.kernel = kernel, .result = &made->public};
    hr_status status = hr_kernel_planned(kernel, &running.fused);
    if (status == HR_OK) status = explain_floor(&running);
    if (status == HR_OK) status = result_describe(&running, &made->arena);
    if (status == HR_OK)
        *out = &made->public;
    else
        hr_run_result_destroy(&made->public);
    return status;
}

void hr_run_result_destroy(hr_run_result *result) {
    if (!result) return;
    run_result *made = (run_result *)(void *)result;
    hr_arena_destroy(made->arena);
    free(made);
}
