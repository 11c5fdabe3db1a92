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

/* What a step reads along the lane: bounds where all of it stands in choices that have some. */
typedef struct reading {
    int lane;
    hr_row_bounds *out;
    bool begins, ends; /* all choices have such a bound */
    bool any, beyond;  /* something is read in a choice; outside of one that is bounded */
} reading;

static hr_visit find_reading(void *context, const hr_expr *node) {
    reading *r = context;
    sides found = {.lane = r->lane};
    if (node->op == HR_OP_ELEMENT && hr_expr_has_index(node, r->lane)) r->beyond = true;
    if (node->op != HR_OP_WHERE || !hr_expr_has_index(node, r->lane)) return HR_VISIT_ON;
    hr_expr_visit(node->args[0], find_sides, &found);
    if (!is_of_data(found.begin) && !is_of_data(found.end)) return HR_VISIT_ON;
    take(found.begin, &r->out->begin_count, r->out->begin, &r->begins);
    take(found.end, &r->out->end_count, r->out->end, &r->ends);
    r->any = true;
    hr_expr_visit(node->args[2], find_reading, r);
    return HR_VISIT_PAST;
}

bool hr_stage_read_bounds(const hr_plan *plan, const hr_stage *stage, hr_row_bounds *out) {
    reading r = {.out = out, .begins = true, .ends = true};
    *out = (hr_row_bounds){0};
    if (stage->contract || stage->row_count != 1 || !stage->task_count || hr_plan_has_lists(plan))
        return false;
    r.lane = hr_stage_lane(stage);
    for (int i = 0; i < stage->step_count; i++)
        if (stage->steps[i].kind != HR_STEP_ROW && hr_step_is_emitted(&stage->steps[i]))
            hr_expr_visit(stage->steps[i].value, find_reading, &r);
    if (!r.begins) out->begin_count = 0;
    if (!r.ends) out->end_count = 0;
    return r.any && !r.beyond && (out->begin_count || out->end_count);
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
