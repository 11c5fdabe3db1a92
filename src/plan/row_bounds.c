/* Rows that end where data say. In: steps whose values are where(begin <= i and i < end, e, what changes
 * nothing). Out: the bounds, so that a loop over the row goes no further. The conditions stay: a bound may be
 * beyond the row's own end, and vectors may go past it. See row_bounds.h. */
#include "plan/row_bounds.h"

#include "ir/types.h"
#include "ir/visit.h"

#include <math.h>

/* What one step says of either side. */
typedef struct sides {
    int lane; /* the index that has them */
    const hr_expr *begin, *end;
} sides;

/* The value changes nothing in the reduction. */
static bool is_neutral(hr_op reduce, const hr_expr *value) {
    const bool real = hr_type_is_float(value->type);
    if (value->op == HR_OP_CONVERT) return is_neutral(reduce, value->args[0]);
    if (value->op != HR_OP_NUMBER) return false;
    switch (reduce) {
    case HR_OP_REDUCE_SUM:
        return real ? value->number == 0 : value->whole == 0;
    case HR_OP_REDUCE_PROD:
        return real ? value->number == 1 : value->whole == 1;
    case HR_OP_REDUCE_MAX:
    case HR_OP_REDUCE_ARGMAX:
        return real ? isinf(value->number) && value->number < 0
                    : value->whole == (value->type == HR_I32 ? INT32_MIN : INT64_MIN);
    case HR_OP_REDUCE_MIN:
    case HR_OP_REDUCE_ARGMIN:
        return real ? isinf(value->number) && value->number > 0
                    : value->whole == (value->type == HR_I32 ? INT32_MAX : INT64_MAX);
    default:
        return false;
    }
}

static bool is_lane(const hr_expr *expr, int lane) {
    return expr->op == HR_OP_INDEX && expr->index == lane;
}

/* Of a condition that may be several: i < end, begin <= i. */
static hr_visit find_sides(void *context, const hr_expr *condition) {
    sides *out = context;
    if (condition->op == HR_OP_AND) return HR_VISIT_ON;
    if (condition->arg_count != 2) return HR_VISIT_PAST;
    const hr_expr *a = condition->args[0], *b = condition->args[1];
    if (condition->op == HR_OP_LT && is_lane(a, out->lane) && !hr_expr_has_index(b, out->lane)) out->end = b;
    if (condition->op == HR_OP_LE && is_lane(b, out->lane) && !hr_expr_has_index(a, out->lane))
        out->begin = a;
    return HR_VISIT_PAST;
}

static bool is_of_data(const hr_expr *bound) {
    return bound && bound->op != HR_OP_NUMBER && bound->op != HR_OP_EXTENT;
}

/* A bound of no step, or of more than there is room for, is none. */
static void take(const hr_expr *bound, int *count, const hr_expr **out, bool *all) {
    if (!bound || *count == HR_ROW_BOUNDS_MOST) {
        *all = false;
        return;
    }
    for (int k = 0; k < *count; k++)
        if (out[k] == bound) return;
    out[(*count)++] = bound;
}

bool hr_stage_row_bounds(const hr_plan *plan, const hr_stage *stage, hr_row_bounds *out) {
    bool begins = true, ends = true, any = false, data = false;
    *out = (hr_row_bounds){0};
    if (stage->contract || stage->row_count != 1 || !stage->task_count || hr_plan_has_lists(plan))
        return false;
    for (int i = 0; i < stage->step_count; i++) {
        const hr_step *step = &stage->steps[i];
        sides found = {.lane = hr_stage_lane(stage)};
        if (step->kind == HR_STEP_ROW || !hr_step_is_emitted(step)) continue;
        if (step->kind != HR_STEP_REDUCE_ROW || step->pass || step->value->op != HR_OP_WHERE ||
            !is_neutral(step->reduce, step->value->args[2]))
            return false;
        hr_expr_visit(step->value->args[0], find_sides, &found);
        take(found.begin, &out->begin_count, out->begin, &begins);
        take(found.end, &out->end_count, out->end, &ends);
        data = data || is_of_data(found.begin) || is_of_data(found.end);
        any = true;
    }
    if (!begins) out->begin_count = 0;
    if (!ends) out->end_count = 0;
    return any && data && (out->begin_count || out->end_count);
}
