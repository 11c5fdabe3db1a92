/* Regions in words: which stages go together, what a mask leaves out, or why scores are in memory. In: a
 * scheduled plan. Out: text. */
#include "base/dtype.h"
#include "ir/function_text.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/cuda/choose_backward.h"
#include "schedule/schedule_passes.h"

/* Stages between two products: their scores are in memory a block at a time, or nowhere. */
typedef struct joined {
    int first, last;
    const hr_key_bounds bounds;
    bool ends;    /* each block looks where the keys begin and end that its rows see */
    bool by_data; /* what is known of queries and keys, from data or their places, tells which blocks count */
} joined;

static void append_index(const hr_plan *plan, int index, hr_text *out) {
    hr_text_format(out, "%.40s", plan->normal->indices[index].name);
}

/* Without the conversion that a place from data has. */
static void append_place(const hr_plan *plan, const hr_expr *place, hr_text *out) {
    const bool whole = place->op == HR_OP_CONVERT && !hr_dtype_is_float(place->args[0]->type);
    hr_expr_append(plan->normal, whole ? place->args[0] : place, 120, out);
}

/* "j > i - 20 and j <= i" */
static void append_bounds(const hr_plan *plan, int key, const hr_key_bounds *bounds, hr_text *out) {
    if (bounds->begin) {
        append_index(plan, key, out);
        hr_text_format(out, bounds->begin_more ? " > " : " >= ");
        append_place(plan, bounds->begin, out);
    }
    if (bounds->begin && bounds->bound) hr_text_format(out, " and ");
    if (bounds->bound) {
        append_index(plan, key, out);
        hr_text_format(out, bounds->bound_more ? " <= " : " < ");
        append_place(plan, bounds->bound, out);
    }
}

static bool sums_are_masked(const hr_plan *plan, const joined *region) {
    for (int k = region->first; k <= region->last; k++)
        if (plan->stages[k].contract && plan->stages[k].contract->seen) return true;
    return false;
}

static void explain_mask(const hr_plan *plan, const joined *region, hr_text *out) {
    const int key = plan->stages[region->first].contract->n[0];
    if (region->bounds.bound || region->bounds.begin) {
        hr_text_format(out, "       mask: blocks are left out but for ");
        append_bounds(plan, key, &region->bounds, out);
        hr_text_format(out, "%s\n", region->bounds.whole ? "" : "; within them it is asked pair by pair");
    }
    if (region->ends)
        hr_text_format(
            out,
            "       mask: keys before the first and past the last that a block of rows sees are left out\n");
    if (region->by_data)
        hr_text_format(out,
                       "       mask: blocks of queries and keys of which no pair can count are left out\n");
    else if (!region->ends && !region->bounds.bound && !region->bounds.begin && sums_are_masked(plan, region))
        hr_text_format(out, "       mask: no block is left out: it is asked pair by pair\n");
    else if (!region->ends && !region->bounds.bound && !region->bounds.begin)
        hr_text_format(out, "       no mask leaves out a block: all %.40s count\n",
                       plan->normal->indices[key].name);
}

/* What of the region's locals is never in memory as a whole. */
static void explain_inner(const hr_plan *plan, const joined *region, hr_text *out) {
    int count = 0;
    for (int k = region->first; k <= region->last; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++) {
            const int tensor = plan->normal->statements[plan->stages[k].steps[i].statement].tensor;
            if (!plan->in_blocks || !plan->in_blocks[tensor] || count == 8) continue;
            hr_text_format(out, "%s%.40s",
                           count++ ? ", " : "; never whole in memory: ", plan->normal->tensors[tensor].name);
        }
    hr_text_format(out, "\n");
}

static void explain_joined(const hr_plan *plan, const joined *region, hr_text *out) {
    hr_text_format(out, "region stages %d to %d: a block of rows at a time goes through all of them",
                   region->first + 1, region->last + 1);
    explain_inner(plan, region, out);
    explain_mask(plan, region, out);
}

static hr_key_bounds bounds_of(const hr_stage *stage) {
    return (hr_key_bounds){stage->mask_bound, stage->mask_begin, stage->mask_bound_more,
                           stage->mask_begin_more, stage->mask_whole};
}

/* The region that begins at the stage, or why its scores are in memory. Returns the last stage that is told.
 */
static int explain_region(const hr_plan *plan, int first, hr_text *out) {
    const hr_stage *stage = &plan->stages[first];
    const hr_schedule *schedule = stage->schedule;
    if (schedule->kind == HR_SCHEDULE_CUDA_BACKWARD && stage->contract) {
        explain_joined(
            plan, &(joined){first, schedule->backward->text.last, schedule->backward->bounds, false, false},
            out);
        return schedule->backward->text.last;
    }
    if (!hr_schedule_attends(plan, first)) {
        if (stage->apart) hr_text_format(out, "region none from stage %d on: %s\n", first + 1, stage->apart);
        return first;
    }
    const bool cuda = schedule->kind == HR_SCHEDULE_CUDA_ATTENTION;
    const bool by_data = cuda && (schedule->attention->class_bytes || schedule->attention->begin_blocks);
    const bool ends = schedule->kind == HR_SCHEDULE_CPU_PRODUCT && stage->contract->mask;
    const int last = hr_schedule_run(plan, first).last;
    explain_joined(plan, &(joined){first, last, bounds_of(stage), ends, by_data}, out);
    return last;
}

void hr_schedule_explain_regions(const hr_plan *plan, hr_text *out) {
    for (int i = 0; i < plan->stage_count; i++)
        i = explain_region(plan, i, out);
}
