/* A scheduled plan in words. In: a plan. Out: text. */
#define _GNU_SOURCE /* memmem */
#include "base/dtype.h"
#include "schedule/schedule.h"
#include "schedule/schedule_passes.h"

#include <inttypes.h>
#include <string.h>

typedef struct span {
    const char *text;
    size_t length;
} span;

static void explain_materialised(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                                 hr_text *out) {
    for (int i = 0; i < stage->step_count; i++) {
        int t = plan->normal->statements[stage->steps[i].statement].tensor;
        const hr_tensor *tensor = &plan->normal->tensors[t];
        if (!plan->materialised[t] || hr_plan_is_in_hand(plan, t) || tensor->role != HR_ROLE_LOCAL ||
            plan->storage[t] != t)
            continue;
        int64_t size = (int64_t)hr_dtype_size(tensor->dtype), axis;
        for (int a = 0; a < tensor->rank; a++)
            size *= hr_extent_value(plan->normal, tensor->shape[a], extents, &axis) == HR_OK ? axis : 0;
        hr_text_format(out, "       materialised: %.60s, %.3f MB, because a later stage reads it\n",
                       tensor->name, (double)size / 1e6);
    }
}

static void explain_choice(const hr_stage *stage, hr_text *out) {
    static const hr_knobs none = {0};
    char label[256];
    if (memcmp(hr_stage_knobs(stage), &none, sizeof none) == 0) return;
    hr_knobs_label(hr_stage_knobs(stage), label, sizeof label);
    hr_text_format(out, "       chosen: %s\n", label);
}

static void explain_stash(const hr_stage *stage, hr_text *out) {
    int once = 0;
    for (int i = 0; i < hr_stash_of(stage)->count; i++)
        once += hr_stash_of(stage)->once[i];
    int between = hr_stash_of(stage)->count - once;
    if (between)
        hr_text_format(out, "       stashed in cache between passes: %d value%s an element\n", between,
                       between == 1 ? "" : "s");
    if (once)
        hr_text_format(out, "       stashed in cache for all tasks: %d row%s\n", once, once == 1 ? "" : "s");
}

static int tensor_of(const hr_plan *plan, const hr_step *step) {
    return plan->normal->statements[step->statement].tensor;
}

/* What it computes, each name once: an axis that is written out has a step for each of its elements. */
static void explain_pass(const hr_plan *plan, const hr_stage *stage, int pass, hr_text *out) {
    bool any = false;
    for (int i = 0; i < stage->step_count; i++) {
        int tensor = tensor_of(plan, &stage->steps[i]);
        bool told = stage->steps[i].pass != pass;
        for (int j = 0; j < i && !told; j++)
            told = stage->steps[j].pass == pass && tensor_of(plan, &stage->steps[j]) == tensor;
        if (told) continue;
        if (any)
            hr_text_append(out, ", ", 2);
        else if (stage->pass_count == 1)
            hr_text_format(out, "       computes: ");
        else
            hr_text_format(out, "       pass %d%s: ", pass + 1,
                           pass && pass == stage->fallback_pass ? ", which most rows skip" : "");
        hr_text_format(out, "%.40s", plan->normal->tensors[tensor].name);
        any = true;
    }
    if (any) hr_text_append(out, "\n", 1);
}

/* Extents that the plan takes as numbers. */
static void explain_fixed(const hr_graph *graph, hr_text *out) {
    for (int e = 0; graph->fixed && e < graph->function->extent_count; e++)
        if (graph->fixed_extent[e])
            hr_text_format(out, "       holds for %.60s = %" PRId64 ": so few are written out\n",
                           graph->function->extents[e], graph->fixed[e]);
}

/* The line above a place of a text, up to its end; empty where there is none. */
static span line_above(const hr_origin *origin, int line) {
    span above = {origin->text, 0}, rest = {origin->text, origin->length};
    for (int at = 1; at < line; at++) {
        const char *end = rest.length ? memchr(rest.text, '\n', rest.length) : NULL;
        if (!end) return (span){origin->text, 0}; /* of another file */
        above = (span){rest.text, (size_t)(end - rest.text)};
        rest = (span){end + 1, rest.length - above.length - 1};
    }
    return above;
}

/* What a derived kernel was derived from: the comment in front of it, "# NAME: the gradient of ...". */
static void explain_derived(const hr_function *source, hr_text *out) {
    span above = line_above(source->origin, source->place.line);
    const char *words = memmem(above.text, above.length, ": ", 2);
    if (!words || above.text[0] != '#' ||
        !memmem(above.text, above.length, HR_DERIVED_BY, strlen(HR_DERIVED_BY)))
        return;
    for (size_t i = 0; i < above.length; i++)
        if (above.text[i] < ' ' || above.text[i] > '~') return; /* it was not grad that wrote it */
    hr_text_format(out, "text   %.*s\n", (int)(above.text + above.length - words - 2), words + 2);
}

void hr_schedule_explain(const hr_plan *plan, const int64_t *extents, hr_text *out) {
    const hr_function *source = plan->source;
    hr_text_format(out, "kernel %.120s", source->title);
    for (int e = 0; e < source->extent_count; e++)
        hr_text_format(out, "%s%.60s=%" PRId64, e ? " " : "  at ", source->extents[e], extents[e]);
    hr_text_format(out, "\n");
    explain_derived(source, out);
    hr_text_format(out, "plan   %s\n", plan->summary);
    explain_fixed(plan->graph, out);
    if (plan->graph->sums_apart)
        hr_text_format(out, "       a sum over a product is nested sums of parts of it: fewer operations\n");
    hr_schedule_explain_regions(plan, out);
    for (int i = 0; i < plan->stage_count; i++) {
        const hr_stage *stage = &plan->stages[i];
        hr_text_format(out, "\n%4d.  %s\n       why: %s\n", i + 1, stage->name, stage->why);
        for (int pass = 0; pass < stage->pass_count; pass++)
            explain_pass(plan, stage, pass, out);
        explain_choice(stage, out);
        explain_stash(stage, out);
        explain_materialised(plan, stage, extents, out);
    }
}
