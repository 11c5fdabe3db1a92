/* A ladder on a device: each step checked against the text and measured beside the one before it.
 *
 * In: the kernel of the ladder's text with its arrays. Out: a row a step. A step is one more prepared state
 * of the kernel (run/kernel.h), whose code was not printed but written: so it is launched, checked and timed
 * by what does that for every kernel.
 */
#include "ladder/ladder.h"
#include "base/arena.h"
#include "run/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_POINTS  128
#define STEP_SECONDS 0.3
#define NAMES_BYTES  65536

/* The public result, and what its pointers point to. */
typedef struct ladder_result {
    hr_ladder_result public; /* first: hr_ladder_result_destroy gets its address */
    hr_ladder_row rows[HR_LADDER_STEPS_MAX];
    hr_arena *names;
} ladder_result;

typedef struct climbing {
    hr_kernel *kernel;
    const hr_ladder *ladder;
    hr_ladder_options options;
    hr_prepared *planned;  /* the tool's own */
    hr_prepared states[2]; /* the step's and that of the one before it, in turns */
    hr_launch launches[2][HR_LADDER_LAUNCHES_MAX];
    const hr_prepared *before; /* NULL: there is none to measure beside */
    ladder_result *result;
} climbing;

/* ---- what there is ---- */

hr_status hr_ladder_describe(int i, hr_ladder_info *out) {
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const hr_ladder *ladder = hr_ladder_at(i);
    if (!ladder) return hr_fail(HR_BAD_INPUT, "there is no ladder %d", i);
    *out = (hr_ladder_info){.name = ladder->name,
                            .kernel = ladder->kernel,
                            .title = ladder->title,
                            .sizes = ladder->sizes,
                            .step_count = ladder->step_count};
    return HR_OK;
}

/* The comment in front of a step's file, as one line of text. */
static void about_read(const char *text, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (; strncmp(text, "// ", 3) == 0; text += strcspn(text, "\n") + 1) {
        const size_t length = strcspn(text + 3, "\n");
        if (used + length + 2 > size) return;
        used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? " " : "", (int)length, text + 3);
    }
}

hr_status hr_ladder_step_describe(int i, int number, hr_ladder_step_info *out) {
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const hr_ladder *ladder = hr_ladder_at(i);
    if (!ladder) return hr_fail(HR_BAD_INPUT, "there is no ladder %d", i);
    if (number < 1 || number > ladder->step_count)
        return hr_fail(HR_BAD_INPUT, "%s has steps 1 to %d, and no %d", ladder->name, ladder->step_count,
                       number);
    const hr_ladder_step *step = &ladder->steps[number - 1];
    *out = (hr_ladder_step_info){.name = step->name,
                                 .text = (const char *)step->text,
                                 .shared = step->shared_text ? (const char *)step->shared_text : "",
                                 .needs = step->needs};
    about_read(out->text, out->about, sizeof out->about);
    return HR_OK;
}

/* ---- a step as a state of the kernel ---- */

static void state_clear(const climbing *climbing, hr_prepared *state) {
    if (state->module && state->module != climbing->planned->module)
        climbing->kernel->device->ops->unload(climbing->kernel->device, state->module);
    *state = (hr_prepared){0};
}

static hr_status state_compile(const climbing *climbing, const hr_ladder_step *step, hr_prepared *state) {
    struct hr_device *device = climbing->kernel->device;
    hr_text source = {0};
    hr_status status = hr_ladder_source(step, climbing->kernel->function, &source);
    if (status == HR_OK)
        status = device->ops->compile(device, hr_text_data(&source), source.length, 0, &state->module);
    hr_text_clear(&source);
    HR_TRY(status);
    return device->ops->launches(device, state->module, state->launches, state->launch_count);
}

/* All but its code is the planned one's: extents, the order of sums that the check allows for. */
static hr_status state_make(climbing *climbing, const hr_ladder_step *step, int turn) {
    const hr_kernel *kernel = climbing->kernel;
    hr_prepared *state = &climbing->states[turn];
    state_clear(climbing, state);
    *state = *climbing->planned;
    if (hr_ladder_step_is_planned(step)) return HR_OK;
    state->module = NULL;
    state->launches = climbing->launches[turn];
    state->launch_count = step->launch_count;
    state->aligned = (hr_tensor_set){0};
    state->scratch_size = hr_ladder_scratch(step, kernel->function, state->extents);
    HR_TRY(
        hr_ladder_launches(step, kernel->function, state->extents, &kernel->device->limits, state->launches));
    return state_compile(climbing, step, state);
}

/* ---- a row ---- */

static hr_status row_measure(climbing *climbing, hr_prepared *state, hr_ladder_row *row) {
    const hr_ladder_options *options = &climbing->options;
    hr_prepared *states[2] = {state, (hr_prepared *)climbing->before};
    hr_timing timings[2] = {0};
    const hr_checking checking = {.prepared = state,
                                  .points = STEP_POINTS,
                                  .progress = options->progress,
                                  .progress_context = options->progress_context};
    const hr_measuring measuring = {.states = states,
                                    .count = climbing->before ? 2 : 1,
                                    .seconds = options->seconds > 0 ? options->seconds : STEP_SECONDS,
                                    .progress = options->progress,
                                    .progress_context = options->progress_context};
    HR_TRY(hr_check_run(climbing->kernel, &checking, &row->verified));
    HR_TRY(hr_measure_states(climbing->kernel, &measuring, timings));
    const double floor = climbing->result->public.floor.seconds;
    row->seconds = timings[0];
    row->gain = climbing->before && timings[0].median > 0 ? timings[1].median / timings[0].median : 0;
    row->headroom = floor > 0 ? row->seconds.median / floor : 0;
    row->scratch = (double)state->scratch_size;
    return HR_OK;
}

/* A step that this GPU has not the instructions for, or that failed, is a row that says so; the others go on.
 */
static hr_status row_make(climbing *climbing, int number) {
    const hr_ladder_step *step = &climbing->ladder->steps[number - 1];
    ladder_result *result = climbing->result;
    hr_ladder_row *row = &result->rows[result->public.row_count];
    const int turn = number % 2;
    *row = (hr_ladder_row){.number = number, .name = step->name};
    hr_status status = HR_OK;
    if (!hr_ladder_step_fits(step, climbing->kernel->device->limits.compute)) {
        row->fault = hr_arena_format(result->names, "needs %s", step->needs);
    } else {
        status = state_make(climbing, step, turn);
        if (status == HR_OK) status = row_measure(climbing, &climbing->states[turn], row);
        if (status == HR_CANCELLED) return status;
        if (status != HR_OK) row->fault = hr_arena_format(result->names, "%.1000s", hr_last_error());
    }
    climbing->before = row->fault ? NULL : &climbing->states[turn];
    result->public.row_count++;
    return HR_OK;
}

/* The first of a single step's two rows is only measured beside it. */
static hr_status rows_make(climbing *climbing) {
    const int only = climbing->options.only, first = only > 1 ? only - 1 : 1;
    const int last = only ? only : climbing->ladder->step_count;
    for (int number = first; number <= last; number++) {
        const hr_ladder_options *options = &climbing->options;
        if (options->progress &&
            !options->progress(options->progress_context, climbing->ladder->steps[number - 1].name,
                               number - first, last - first + 1))
            return hr_fail(HR_CANCELLED, "the ladder was stopped");
        HR_TRY(row_make(climbing, number));
        if (only && number < only) climbing->result->public.row_count = 0;
    }
    return HR_OK;
}

/* ---- the whole ---- */

static hr_status kernel_check(const hr_kernel *kernel, const hr_ladder *ladder) {
    if (!kernel->device->limits.compute)
        return hr_fail(HR_NOT_AVAILABLE,
                       "the steps of a ladder are CUDA, and %s is no such device: run it where a GPU is. Its "
                       "steps can be listed and shown anywhere",
                       kernel->device->name);
    if (strcmp(kernel->function->name, ladder->kernel) != 0)
        return hr_fail(HR_BAD_INPUT, "the ladder %s is of kernel %s, not of %s", ladder->name, ladder->kernel,
                       kernel->function->name);
    for (int i = 0; i < kernel->argument_count; i++)
        if (hr_kernel_tensor(kernel, i)->dtype != HR_BF16)
            return hr_fail(HR_BAD_INPUT, "the steps of %s take bf16, and %s is %s", ladder->name,
                           hr_kernel_tensor(kernel, i)->name,
                           hr_dtype_name(hr_kernel_tensor(kernel, i)->dtype));
    return HR_OK;
}

static hr_status extents_check(const hr_kernel *kernel, const hr_ladder *ladder) {
    int64_t extents[kernel->function->extent_count + 1];
    HR_TRY(hr_kernel_solve(kernel, extents));
    HR_TRY(hr_extent_default(kernel->function, extents));
    return hr_ladder_extents_check(ladder, kernel->function, extents);
}

static hr_status layouts_check(const hr_kernel *kernel, const hr_ladder *ladder) {
    for (int i = 0; i < kernel->argument_count; i++)
        if (kernel->bindings[i].layout != HR_LAYOUT_DENSE)
            return hr_fail(HR_BAD_INPUT, "the steps of %s take arrays without gaps, and %s has some",
                           ladder->name, hr_kernel_tensor(kernel, i)->name);
    return HR_OK;
}

static hr_status planned_make(climbing *climbing) {
    hr_kernel *kernel = climbing->kernel;
    const hr_ladder_options *options = &climbing->options;
    hr_work work;
    const hr_preparing preparing = {
        .tune = options->tune, .progress = options->progress, .progress_context = options->progress_context};
    HR_TRY(kernel_check(kernel, climbing->ladder));
    HR_TRY(extents_check(kernel, climbing->ladder));
    HR_TRY(hr_kernel_fill(kernel, 0));
    HR_TRY(layouts_check(kernel, climbing->ladder));
    HR_TRY(hr_kernel_roof(kernel, options->progress, options->progress_context));
    HR_TRY(hr_kernel_ready(kernel, &preparing, &climbing->planned));
    HR_TRY(hr_plan_work(climbing->planned->plan, climbing->planned->extents, &work));
    hr_floor_of_state(kernel, climbing->planned, &work, &climbing->result->public.floor);
    return HR_OK;
}

static hr_status result_describe(const climbing *climbing, int i) {
    const hr_kernel *kernel = climbing->kernel;
    hr_ladder_result *out = &climbing->result->public;
    hr_text sizes = {0};
    for (int e = 0; e < kernel->function->extent_count; e++)
        hr_text_format(&sizes, "%s%s=%lld", e ? " " : "", kernel->function->extents[e],
                       (long long)climbing->planned->extents[e]);
    HR_TRY(hr_text_status(&sizes));
    out->sizes = hr_arena_format(climbing->result->names, "%s", hr_text_data(&sizes));
    hr_text_clear(&sizes);
    out->device_kind = kernel->device->ops->kind;
    out->device_name = hr_arena_format(climbing->result->names, "%s", kernel->device->name);
    out->roof = kernel->roof;
    out->rows = climbing->result->rows;
    return hr_ladder_describe(i, &out->ladder);
}

static hr_status options_read(const hr_ladder *ladder, const hr_ladder_options *given,
                              hr_ladder_options *out) {
    *out = (hr_ladder_options){.size = sizeof *out};
    if (given && given->size < sizeof given->size)
        return hr_fail(HR_BAD_INPUT, "hr_ladder_options does not say its size: begin it with "
                                     "{.size = sizeof(hr_ladder_options)}");
    if (given) memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (out->only < 0 || out->only > ladder->step_count)
        return hr_fail(HR_BAD_INPUT, "%s has steps 1 to %d, and no %d", ladder->name, ladder->step_count,
                       out->only);
    return HR_OK;
}

hr_status hr_ladder_run(hr_kernel *kernel, int i, const hr_ladder_options *options, hr_ladder_result **out) {
    HR_TRY(hr_handle_check(kernel, HR_HANDLE_KERNEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    climbing climbing = {.kernel = kernel, .ladder = hr_ladder_at(i)};
    if (!climbing.ladder) return hr_fail(HR_BAD_INPUT, "there is no ladder %d", i);
    HR_TRY(options_read(climbing.ladder, options, &climbing.options));
    climbing.result = calloc(1, sizeof *climbing.result);
    if (!climbing.result) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the rows of a ladder");
    hr_status status = hr_arena_create(NAMES_BYTES, &climbing.result->names);
    if (status == HR_OK) status = planned_make(&climbing);
    if (status == HR_OK) status = result_describe(&climbing, i);
    if (status == HR_OK) status = rows_make(&climbing);
    for (int turn = 0; turn < 2; turn++)
        state_clear(&climbing, &climbing.states[turn]);
    if (climbing.planned) hr_launch_trim(kernel, climbing.planned);
    if (status == HR_OK)
        *out = &climbing.result->public;
    else
        hr_ladder_result_destroy(&climbing.result->public);
    return status;
}

void hr_ladder_result_destroy(hr_ladder_result *result) {
    if (!result) return;
    ladder_result *made = (ladder_result *)(void *)result;
    hr_arena_destroy(made->names);
    free(made);
}
