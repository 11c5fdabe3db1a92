/* Bound arrays -> a state that can be launched: plan, tune, emit, compile. States are kept by extents and
 * layouts, so that going back to earlier shapes costs a comparison.
 *
 * In: a kernel with its bindings. Out: hr_prepared states.
 */
#define _GNU_SOURCE
#include "run/data_bounds.h"
#include "run/kernel.h"

#include "base/cache.h"
#include "schedule/target.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What little work is reckoned by. */
#define BYTES_AN_OPERATION 4.0
#define SPECIAL_OPERATIONS 16.0

/* ---- states ---- */

static hr_status state_create(const hr_kernel *kernel, const int64_t *extents, bool unfused, int threads,
                              hr_prepared **out) {
    size_t extents_size = ((size_t)kernel->function->extent_count + 1) * sizeof *extents;
    hr_prepared *state = calloc(1, sizeof *state);
    if (state) state->extents = calloc(1, extents_size);
    if (state) state->layouts = calloc((size_t)kernel->argument_count + 1, sizeof *state->layouts);
    if (!state || !state->extents || !state->layouts) {
        if (state) free(state->extents);
        free(state);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to prepare kernel %s", kernel->function->name);
    }
    memcpy(state->extents, extents, (size_t)kernel->function->extent_count * sizeof *extents);
    for (int i = 0; i < kernel->argument_count; i++)
        state->layouts[i] = kernel->bindings[i].layout;
    state->unfused = unfused;
    state->threads = threads;
    *out = state;
    return HR_OK;
}

/* What stands on the plan, and the plan. */
static void state_clear(const hr_kernel *kernel, hr_prepared *state) {
    if (state->module) kernel->device->ops->unload(kernel->device, state->module);
    state->module = NULL;
    free(state->launches);
    state->launches = NULL;
    hr_emitted_clear(&state->loadable);
    hr_emitted_clear(&state->paste);
    hr_text_clear(&state->explained);
    hr_plan_destroy(state->plan);
    state->plan = NULL;
}

void hr_prepared_destroy(hr_kernel *kernel, hr_prepared *state) {
    if (!state) return;
    state_clear(kernel, state);
    hr_text_clear(&state->refused);
    free(state->extents);
    free(state->layouts);
    free(state);
}

void hr_prepared_drop(hr_kernel *kernel, hr_prepared *state) {
    hr_prepared **at = &kernel->prepared;
    while (*at && *at != state)
        at = &(*at)->next;
    if (*at) *at = state->next;
    if (kernel->current == state) kernel->current = NULL;
    hr_prepared_destroy(kernel, state);
}

static bool state_matches(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents,
                          bool unfused, int threads) {
    if (state->unfused != unfused || state->threads != threads) return false;
    for (int e = 0; e < kernel->function->extent_count; e++)
        if (state->extents[e] != extents[e]) return false;
    for (int i = 0; i < kernel->argument_count; i++)
        if (state->layouts[i] != kernel->bindings[i].layout) return false;
    return true;
}

/* The state for these extents and what is bound, moved to the front; a new one has no plan yet. */
static hr_status state_get(hr_kernel *kernel, const int64_t *extents, bool unfused, int threads,
                           hr_prepared **out) {
    int count = 0;
    hr_prepared **at = &kernel->prepared, *state = NULL;
    for (; *at && !state_matches(kernel, *at, extents, unfused, threads); at = &(*at)->next)
        if (++count == kernel->prepared_most) {
            hr_prepared_drop(kernel, *at);
            break;
        }
    if (count < kernel->prepared_most && *at) {
        state = *at;
        *at = state->next;
    } else
        HR_TRY(state_create(kernel, extents, unfused, threads, &state));
    state->next = kernel->prepared;
    kernel->prepared = state;
    *out = state;
    return HR_OK;
}

/* ---- plan, emit, compile ---- */

double hr_prepared_operations(const hr_prepared *state, const int64_t *extents) {
    hr_work work;
    if (hr_plan_work(state->plan, extents, &work) != HR_OK) return HUGE_VAL;
    double operations =
        (work.bytes_read + work.bytes_written) / BYTES_AN_OPERATION + work.vector_flops + work.tensor_flops;
    for (int i = 0; i < HR_SPECIAL_COUNT; i++)
        operations += SPECIAL_OPERATIONS * work.special[i];
    return operations;
}

/* One thread does it sooner than others start, whom another program may keep from their processors. */
static bool is_little(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents) {
    const double most = kernel->device->limits.little_work;
    return most > 0 && hr_prepared_operations(state, extents) < most;
}

static int threads_of(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents) {
    int threads = state->threads > 0 ? state->threads : kernel->device->limits.threads;
    return threads > 1 && !is_little(kernel, state, extents) ? threads : 1;
}

hr_status hr_prepared_sizes(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents,
                            int *threads, int64_t *scratch) {
    *threads = threads_of(kernel, state, extents);
    return hr_emit_scratch(state->plan, extents, *threads, scratch);
}

hr_status hr_prepared_launches(const hr_kernel *kernel, const hr_prepared *state, const int64_t *extents,
                               hr_launch **out) {
    int count;
    *out = NULL;
    if (!state->launches ||
        memcmp(extents, state->extents, (size_t)kernel->function->extent_count * sizeof *extents) == 0)
        return HR_OK;
    *out = calloc((size_t)state->launch_count + 1, sizeof **out);
    if (!*out) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a kernel's launches");
    HR_TRY(hr_emit_launches(state->plan, extents, *out, state->launch_count, &count));
    if (count == state->launch_count) return HR_OK;
    return hr_fail(HR_INTERNAL, "kernel %s has %d launches at other extents and %d at its own",
                   kernel->function->name, count, state->launch_count);
}

static hr_status state_plan(const hr_kernel *kernel, hr_prepared *state, const hr_choice *choice) {
    hr_schedule_options options = {.unfused = state->unfused, .choice = *choice};
    hr_device_limits limits = kernel->device->limits;
    if (state->threads > 0 && state->threads < limits.threads) limits.threads = state->threads;
    state_clear(kernel, state);
    state->choice = *choice;
    HR_TRY(hr_schedule_create(kernel->function, state->extents, state->layouts, &limits, &options,
                              &state->plan));
    if (hr_plan_has_lists(state->plan)) {
        HR_TRY(hr_plan_check_lists(state->plan));
        state->piece = hr_emit_piece(state->plan);
    }
    return hr_prepared_sizes(kernel, state, state->extents, &state->launch_threads, &state->scratch_size);
}

/* ---- code ---- */

/* On the tensor cores: what they wait for, and what a thread does not hold in registers, costs more than any
 * tile gains. */
static unsigned compile_flags(const hr_prepared *state) {
    unsigned flags = HR_COMPILE_VECTOR_512;
    for (int i = 0; i < state->plan->stage_count; i++) {
        const hr_schedule_kind kind = state->plan->stages[i].schedule->kind;
        if (kind == HR_SCHEDULE_CUDA_PRODUCT || kind == HR_SCHEDULE_CUDA_ATTENTION ||
            kind == HR_SCHEDULE_CUDA_BACKWARD)
            flags |= HR_COMPILE_STRICT;
    }
    return flags;
}

static hr_status state_compile(const hr_kernel *kernel, hr_prepared *state) {
    return hr_prepared_load(kernel, state, compile_flags(state));
}

/* The code of states that the assembler refused. */
typedef struct refusals {
    int count;
    char identity[8][33];
} refusals;

enum { REFUSALS_MOST = sizeof((refusals){0}.identity) / sizeof *(refusals){0}.identity };

/* HR_NOT_AVAILABLE where its code is refused, now or before; then it is among them, and in the plan's words.
 */
static hr_status state_try(const hr_kernel *kernel, hr_prepared *state, refusals *refused) {
    char label[256], *identity = refused->identity[refused->count];
    HR_TRY(hr_prepared_identify(state, identity));
    for (int i = 0; i < refused->count; i++)
        if (strcmp(refused->identity[i], identity) == 0) return HR_NOT_AVAILABLE;
    const hr_status status = state_compile(kernel, state);
    if (status != HR_NOT_AVAILABLE) return status;
    refused->count++;
    hr_choice_label(&state->choice, state->plan->stage_count, label, sizeof label);
    hr_text_format(&state->refused, "       refused: %s: %s\n", label, hr_last_error());
    return status;
}

/* Those of the tuner's choices that are tiles of products. */
static int tiles_of(const hr_prepared *state, hr_choice *out, int max) {
    const int count = hr_schedule_candidates(state->plan, out, max);
    int kept = 0;
    for (int i = 1; i < count; i++)
        if (state->plan->stages[out[i].settings[0].stage].schedule->kind == HR_SCHEDULE_CUDA_PRODUCT)
            out[kept++] = out[i];
    return kept;
}

/* By the choice of the state, or by the next tile whose code is not refused. Where all are, the choice stays:
 * slow code is better than none. */
static hr_status state_compile_some(const hr_kernel *kernel, hr_prepared *state) {
    enum { CANDIDATES = 64 };
    const hr_choice own = state->choice;
    hr_choice choices[CANDIDATES];
    refusals refused = {0};
    if (state->module) return HR_OK;
    if (!(compile_flags(state) & HR_COMPILE_STRICT)) return state_compile(kernel, state);
    const hr_status status = state_try(kernel, state, &refused);
    if (status != HR_NOT_AVAILABLE) return status;
    const int count = tiles_of(state, choices, CANDIDATES);
    for (int i = 0; i < count && refused.count < REFUSALS_MOST; i++) {
        if (state_plan(kernel, state, &choices[i]) != HR_OK) continue;
        const hr_status next = state_try(kernel, state, &refused);
        if (next != HR_NOT_AVAILABLE) return next;
    }
    HR_TRY(state_plan(kernel, state, &own));
    return hr_prepared_load(kernel, state, HR_COMPILE_VECTOR_512);
}

/* ---- tuning ---- */

/* A choice of the search and what was made of it, until the best one becomes the kernel's. */
typedef struct candidate {
    struct candidate *next;
    hr_choice choice;
    hr_prepared *state;
    char identity[33]; /* "" = nobody asked */
    bool warm;         /* it was launched once */
} candidate;

typedef struct tuning {
    hr_kernel *kernel;
    const hr_prepared *model; /* extents, layouts, fusion, threads */
    const hr_preparing *preparing;
    pthread_mutex_t lock; /* of the list */
    candidate *candidates;
    hr_keeping keeping;
    bool keeping_begun;
    hr_status failure; /* of a launch: ends the search */
    char sentence[2048];
} tuning;

static void candidate_destroy(const tuning *tuning, candidate *candidate) {
    hr_prepared_destroy(tuning->kernel, candidate->state);
    free(candidate);
}

/* Planned, and not in the list yet. */
static hr_status candidate_create(const tuning *tuning, const hr_choice *choice, candidate **out) {
    candidate *candidate = calloc(1, sizeof *candidate);
    if (!candidate) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a candidate");
    candidate->choice = *choice;
    hr_status status = state_create(tuning->kernel, tuning->model->extents, tuning->model->unfused,
                                    tuning->model->threads, &candidate->state);
    if (status == HR_OK) status = state_plan(tuning->kernel, candidate->state, choice);
    if (status == HR_OK)
        *out = candidate;
    else
        candidate_destroy(tuning, candidate);
    return status;
}

static void candidate_keep(tuning *tuning, candidate *candidate) {
    pthread_mutex_lock(&tuning->lock);
    candidate->next = tuning->candidates;
    tuning->candidates = candidate;
    pthread_mutex_unlock(&tuning->lock);
}

static candidate *candidate_find(tuning *tuning, const hr_choice *choice) {
    pthread_mutex_lock(&tuning->lock);
    candidate *found = tuning->candidates;
    while (found && !hr_choice_is(&found->choice, choice))
        found = found->next;
    pthread_mutex_unlock(&tuning->lock);
    return found;
}

static hr_status tuning_prepare(void *context, const hr_choice *choice) {
    tuning *tuning = context;
    candidate *known = candidate_find(tuning, choice), *new = NULL;
    if (known) return state_compile(tuning->kernel, known->state);
    HR_TRY(candidate_create(tuning, choice, &new));
    hr_status status = state_compile(tuning->kernel, new->state);
    if (status == HR_OK)
        candidate_keep(tuning, new);
    else
        candidate_destroy(tuning, new);
    return status;
}

static bool is_made(const tuning *tuning, const char *identity) {
    for (const candidate *made = tuning->candidates; made; made = made->next)
        if (strcmp(made->identity, identity) == 0) return true;
    return false;
}

/* What is planned and printed for this waits for `prepare`, but for a candidate like one before it. */
static hr_status tuning_identify(void *context, const hr_choice *choice, char identity[33]) {
    tuning *tuning = context;
    candidate *new;
    HR_TRY(candidate_create(tuning, choice, &new));
    hr_status status = hr_prepared_identify(new->state, new->identity);
    if (status == HR_OK) memcpy(identity, new->identity, sizeof new->identity);
    if (status == HR_OK && !is_made(tuning, identity))
        candidate_keep(tuning, new);
    else
        candidate_destroy(tuning, new);
    return status;
}

/* The first launch of a candidate warms up and is looked at for faults; it needs old values to be kept. */
static hr_status candidate_warm(tuning *tuning, candidate *candidate) {
    hr_status status = HR_OK;
    candidate->warm = true;
    if (!tuning->keeping_begun)
        status = hr_keeping_begin(tuning->kernel, tuning->preparing->restore, &tuning->keeping);
    tuning->keeping_begun = true;
    if (status == HR_OK) status = hr_launch_refresh(tuning->kernel, candidate->state);
    if (status == HR_OK) status = hr_launch_once(tuning->kernel, candidate->state);
    if (status == HR_OK) return HR_OK;
    tuning->failure = status;
    snprintf(tuning->sentence, sizeof tuning->sentence, "%s", hr_last_error());
    return HR_CANCELLED;
}

static hr_status tuning_time(void *context, const hr_choice *choice, double *seconds) {
    tuning *tuning = context;
    candidate *candidate = candidate_find(tuning, choice);
    hr_execution execution;
    if (!candidate || !candidate->state->module)
        return hr_fail(HR_INTERNAL, "a candidate was timed before it was prepared");
    if (!candidate->warm) HR_TRY(candidate_warm(tuning, candidate));
    HR_TRY(hr_launch_refresh(tuning->kernel, candidate->state));
    hr_launch_make(tuning->kernel, candidate->state, &execution);
    return tuning->kernel->device->ops->time(tuning->kernel->device, candidate->state->module, &execution,
                                             seconds);
}

/* Plan and code of the best candidate become those of `state`; plans anew where the database knew the answer.
 */
static hr_status tuning_adopt(tuning *tuning, hr_prepared *state) {
    const candidate *best = candidate_find(tuning, &state->tuned.best);
    if (!best) return state_plan(tuning->kernel, state, &state->tuned.best);
    hr_prepared given = *state; /* extents and layouts are the same */
    *state = *best->state;
    state->next = given.next;
    state->tuned = given.tuned;
    memcpy(state->tuning_key, given.tuning_key, sizeof state->tuning_key);
    *best->state = given;
    return HR_OK;
}

static hr_status tuning_end(tuning *tuning, hr_status status) {
    if (tuning->keeping_begun) {
        hr_status restored = hr_keeping_restore(tuning->kernel, &tuning->keeping, tuning->preparing->restore,
                                                tuning->preparing->restore_context);
        hr_keeping_end(tuning->kernel, &tuning->keeping);
        if (status == HR_OK) status = restored;
    }
    while (tuning->candidates) {
        candidate *first = tuning->candidates;
        tuning->candidates = first->next;
        candidate_destroy(tuning, first);
    }
    pthread_mutex_destroy(&tuning->lock);
    return status;
}

/* All that the best choice depends on, as a hash. `state` is planned as the cost model would: what is emitted
 * for that stands for all that makes plans and code, so that nothing outlives a change of either. */
static hr_status tuning_key(const hr_kernel *kernel, hr_prepared *state, char key[33]) {
    const hr_device_limits *limits = &kernel->device->limits;
    char identity[33];
    hr_text text = {0};
    HR_TRY(hr_prepared_identify(state, identity));
    const char *compiler = kernel->device->compiler ? kernel->device->compiler : "";
    hr_text_format(&text, "headroom %s\n%s %s %s%s%s%s%s threads %d\n%s\n%s%s threads %d\n", hr_version(),
                   kernel->device->ops->kind, kernel->device->name, limits->isa,
                   limits->matrix_bf16 ? " tiles" : "", limits->matrix_bytes ? " byte tiles" : "",
                   limits->dots_bf16 ? " dots" : "", limits->dots_bytes ? " byte dots" : "", limits->threads,
                   compiler, kernel->function->title, state->unfused ? " unfused" : "", state->threads);
    for (int e = 0; e < kernel->function->extent_count; e++)
        hr_text_format(&text, "%s=%lld\n", kernel->function->extents[e], (long long)state->extents[e]);
    for (int i = 0; i < kernel->argument_count; i++)
        hr_text_format(&text, "%d ", (int)state->layouts[i]);
    hr_text_format(&text, "%s\n", identity);
    hr_text_append(&text, kernel->program->origin.text, kernel->program->origin.length);
    for (int i = 0; i < kernel->program->origin.source_count; i++)
        hr_text_append(&text, kernel->program->origin.sources[i].text,
                       kernel->program->origin.sources[i].length);
    hr_status status = hr_text_status(&text);
    if (status == HR_OK) hr_cache_hash(text.data, text.length, key);
    hr_text_clear(&text);
    return status;
}

static double floor_seconds(const hr_kernel *kernel, const hr_prepared *state) {
    hr_work work;
    hr_floor floor = {0};
    if (!kernel->roof_known || hr_plan_work(state->plan, state->extents, &work) != HR_OK) return 0;
    hr_floor_of_state(kernel, state, &work, &floor);
    return floor.seconds;
}

/* A GPU's compiler works in this process, on one core a kernel; a CPU's measures on those it would take. */
static int compiles_at_once(const hr_kernel *kernel) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return kernel->device->limits.compute && processors > 2 ? (int)processors : 2;
}

/* Without tiles that blocks share, which are added up in another order than others. False: there are no
 * products of tiles. */
static bool choose_alike(const hr_prepared *state, hr_choice *out) {
    *out = (hr_choice){0};
    for (int i = 0; i < state->plan->stage_count; i++)
        if (state->plan->stages[i].schedule->kind == HR_SCHEDULE_CUDA_PRODUCT)
            hr_choice_add(out, i, &(hr_knobs){.last_wave = HR_LAST_WAVE_WHOLE});
    return out->count > 0;
}

/* Plans `state` with the best choice that is known, or is found now. */
static hr_status state_choose(hr_kernel *kernel, hr_prepared *state, const hr_preparing *preparing) {
    hr_choice alike;
    tuning tuning = {.kernel = kernel, .model = state, .preparing = preparing};
    hr_trial trial = {tuning_prepare, tuning_time, &tuning, compiles_at_once(kernel), tuning_identify};
    bool lists = hr_kernel_has_lists(kernel); /* one choice serves them, and their old values are not kept */
    hr_tune mode = preparing->tune == HR_TUNE_DEFAULT || lists ? HR_TUNE_NONE : preparing->tune;
    HR_TRY(state_plan(kernel, state, &(hr_choice){0}));
    if (preparing->rows_alike && choose_alike(state, &alike)) return state_plan(kernel, state, &alike);
    HR_TRY(tuning_key(kernel, state, state->tuning_key));
    pthread_mutex_init(&tuning.lock, NULL);
    hr_status status =
        hr_tune_search(state->plan, state->tuning_key, mode, floor_seconds(kernel, state), &trial,
                       preparing->progress, preparing->progress_context, &state->tuned);
    if (status == HR_CANCELLED && tuning.failure != HR_OK)
        status = hr_fail_again(tuning.failure, tuning.sentence);
    if (status == HR_OK && (state->tuned.cached || state->tuned.tried_count))
        status = tuning_adopt(&tuning, state);
    if (status == HR_OK) state->searched = mode;
    return tuning_end(&tuning, status);
}

/* ---- all of it ---- */

hr_status hr_kernel_ready_at(hr_kernel *kernel, const int64_t *extents, const hr_preparing *preparing,
                             hr_prepared **out) {
    hr_prepared *state;
    HR_TRY(state_get(kernel, extents, preparing->unfused, preparing->threads, &state));
    hr_status status = HR_OK;
    if (!state->plan || (preparing->tune > state->searched && !hr_kernel_has_lists(kernel)))
        status = state_choose(kernel, state, preparing);
    if (status == HR_OK && preparing->scratch_most > 0 && state->scratch_size > preparing->scratch_most)
        status = hr_fail(HR_OUT_OF_MEMORY, "kernel %s would need %.0f MB for locals that exist in memory",
                         kernel->function->name, (double)state->scratch_size / (1 << 20));
    if (status == HR_OK) status = state_compile_some(kernel, state);
    if (status == HR_OK)
        *out = state;
    else
        hr_prepared_drop(kernel, state);
    return status;
}

hr_status hr_kernel_ready(hr_kernel *kernel, const hr_preparing *preparing, hr_prepared **out) {
    int64_t extents[kernel->function->extent_count + 1];
    hr_prepared *state;
    HR_TRY(hr_kernel_resolve(kernel, extents));
    HR_TRY(hr_overlap_check(kernel));
    if (preparing->divisor > 1) HR_TRY(hr_extents_divide(kernel, preparing->divisor, extents));
    HR_TRY(hr_kernel_ready_at(kernel, extents, preparing, &state));
    hr_status status = hr_launch_refresh(kernel, state);
    if (status == HR_OK)
        *out = state;
    else
        hr_prepared_drop(kernel, state);
    return status;
}

hr_status hr_kernel_planned(hr_kernel *kernel, hr_prepared **out) {
    int64_t extents[kernel->function->extent_count + 1];
    hr_preparing preparing = {.tune = HR_TUNE_NONE};
    hr_prepared *state;
    if (kernel->current) {
        *out = kernel->current;
        return HR_OK;
    }
    HR_TRY(hr_kernel_dtypes_agree(kernel));
    HR_TRY(hr_kernel_solve(kernel, extents));
    HR_TRY(hr_extent_default(kernel->function, extents));
    HR_TRY(hr_extent_check(kernel->function, extents));
    HR_TRY(state_get(kernel, extents, kernel->unfused, kernel->threads, &state));
    hr_status status = state->plan ? HR_OK : state_choose(kernel, state, &preparing);
    if (status == HR_OK)
        *out = state;
    else
        hr_prepared_drop(kernel, state);
    return status;
}

hr_status hr_kernel_prepare(hr_kernel *kernel, const hr_prepare_options *options) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    hr_prepare_options given = {.size = sizeof given};
    hr_prepared *state;
    if (options && options->size < sizeof options->size)
        return hr_fail(HR_BAD_INPUT, "hr_prepare_options does not say its size: begin it with "
                                     "{.size = sizeof(hr_prepare_options)}");
    if (options) memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    if (given.tune > HR_TUNE_FULL) return hr_fail(HR_BAD_INPUT, "hr_prepare_options.tune is %d", given.tune);
    HR_TRY(hr_threads_check(kernel->device, given.threads));
    hr_preparing preparing = {.tune = given.tune,
                              .unfused = given.unfused,
                              .threads = given.threads,
                              .progress = given.progress,
                              .progress_context = given.progress_context};
    HR_TRY(hr_kernel_ready(kernel, &preparing, &state));
    kernel->unfused = preparing.unfused;
    kernel->threads = preparing.threads;
    kernel->current = state;
    return HR_OK;
}

/* ---- what a state says of itself ---- */

hr_status hr_kernel_plan(hr_kernel *kernel, const char **out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_prepared *state;
    HR_TRY(hr_kernel_planned(kernel, &state));
    if (!state->explained.length) {
        hr_schedule_explain(state->plan, state->extents, &state->explained);
        hr_text_append(&state->explained, hr_text_data(&state->refused), state->refused.length);
    }
    HR_TRY(hr_text_status(&state->explained));
    *out = hr_text_data(&state->explained);
    return HR_OK;
}

/* Of the caller's size, which may be that of an older library. */
static hr_status options_read(const hr_emit_options *given, hr_emit_options *out) {
    *out = (hr_emit_options){.size = sizeof *out};
    if (given && given->size < sizeof given->size)
        return hr_fail(HR_BAD_INPUT, "the options of hr_kernel_emit begin with their size");
    if (given) memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (!out->name || hr_emit_name_is_good(out->name)) return HR_OK;
    return hr_fail(
        HR_BAD_INPUT,
        "\"%.80s\" is no name for a function: it takes letters, digits and _, no more than %d, and "
        "begins with no digit",
        out->name, HR_SYMBOL_MAX);
}

hr_status hr_kernel_emit(hr_kernel *kernel, const hr_emit_options *options, const char **source,
                         const char **header) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    hr_prepared *state;
    hr_emit_options read;
    HR_TRY(options_read(options, &read));
    HR_TRY(hr_kernel_planned(kernel, &state));
    hr_emitted_clear(&state->paste);
    HR_TRY(hr_emit_source(state->plan, state->extents, &read, &state->paste));
    if (source) *source = hr_text_data(&state->paste.source);
    if (header) *header = hr_text_data(&state->paste.header);
    return HR_OK;
}

hr_status hr_kernel_source(hr_kernel *kernel, const char **source, const char **header) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    return hr_kernel_emit(kernel, NULL, source, header);
}

hr_status hr_kernel_floor(hr_kernel *kernel, hr_floor *out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_prepared *state;
    hr_work work;
    HR_TRY(hr_kernel_planned(kernel, &state));
    HR_TRY(hr_kernel_roof(kernel, NULL, NULL));
    HR_TRY(hr_bounded_work(kernel, state, &work));
    hr_floor_of_state(kernel, state, &work, out);
    return HR_OK;
}
