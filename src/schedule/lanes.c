/* Whether a stage's lanes can be vectors of 32-bit values. In: a stage. Out: its schedule's lanes. */
#include "schedule/dependence.h"
#include "schedule/schedule_passes.h"

#include "base/dtype.h"
#include "ir/visit.h"
#include "plan/passes.h"
#include "plan/whole_range.h"

typedef struct lane_check {
    const hr_plan *plan;
    const hr_stage *stage;
    const int64_t *extents;
    bool gathers; /* an element at any place can be a lane */
    hr_dependence depends;
} lane_check;

static bool is_dense(const lane_check *c, int tensor) {
    return !hr_layout_has_strides(hr_plan_layout(c->plan, tensor));
}

static bool element_is_lanes(const lane_check *c, const hr_expr *e) {
    const hr_tensor *tensor = &c->plan->normal->tensors[e->tensor];
    if (!is_dense(c, e->tensor)) return false;
    if (hr_element_is_guarded(c->plan->normal, e) && hr_varies_by_lane(&c->depends, e->args[tensor->rank]))
        return false;
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = e->args[a];
        if (!hr_varies_by_lane(&c->depends, subscript)) continue;
        if (a != tensor->rank - 1 || !hr_is_lane_plus(&c->depends, subscript)) return false;
        if (!hr_expr_is_affine(subscript)) return false; /* each element is checked */
        if (hr_element_is_guarded(c->plan->normal, e) &&
            !hr_subscript_is_safe(c->plan->normal, subscript, tensor->shape[a]))
            return false;
    }
    return true;
}

/* Of a row of a few elements for each lane: `x[m, 2]` of x: f32[M, 3]. */
static bool is_of_short_rows(const lane_check *c, const hr_expr *e) {
    const hr_tensor *tensor = &c->plan->normal->tensors[e->tensor];
    const int last = tensor->rank - 1;
    return last > 0 && e->args[last]->op == HR_OP_NUMBER && tensor->shape[last]->op == HR_OP_NUMBER &&
           e->args[last - 1]->op == HR_OP_INDEX && e->args[last - 1]->index == hr_stage_lane(c->stage);
}

/* The compiler reads vectors of such rows and sorts their elements by place, better than one by one. */
static bool is_left_to_compiler(const lane_check *c, const hr_expr *e) {
    if (!is_of_short_rows(c, e)) return false;
    for (int i = 0; i < c->stage->step_count; i++)
        if (hr_expr_computes_special(c->stage->steps[i].value)) return false;
    return true;
}

/* A CPU reads each lane's element on its own and computes with vectors all the same. */
static bool element_is_brought(const lane_check *c, const hr_expr *e) {
    for (int i = 0; i < c->stage->step_count; i++)
        if (c->plan->normal->statements[c->stage->steps[i].statement].tensor == e->tensor) return false;
    return c->gathers && hr_plan_layout(c->plan, e->tensor) == HR_LAYOUT_DENSE && !is_left_to_compiler(c, e);
}

/* Whole-number lanes are 32 bits wide: values must provably stay inside that. */
static bool fits_lanes(const lane_check *c, const hr_expr *e) {
    return hr_whole_fits_lanes(c->plan->graph, c->extents, e);
}

/* Positions are lanes, too: those of all elements of a row. */
static bool positions_fit(const lane_check *c) {
    hr_graph *graph = c->plan->graph;
    hr_expr *row = NULL;
    for (int i = 0; i < c->stage->row_count; i++) {
        hr_expr *extent = graph->function->indices[c->stage->row[i]].extent;
        row = row ? hr_graph_binary(graph, HR_OP_MUL, HR_I64, row, extent) : extent;
    }
    return fits_lanes(c, row);
}

/* A whole-number sum that the stage makes in 32 bits. */
static bool is_dot(const lane_check *c, const hr_expr *element) {
    for (int i = 0; i < c->stage->dots_count; i++)
        if (c->stage->dots[i].sum == element->tensor) return true;
    return false;
}

static bool is_random_along(const lane_check *c, const hr_expr *node) {
    return !hr_varies_by_lane(&c->depends, node->args[0]) && hr_is_lane_plus(&c->depends, node->args[1]);
}

/* Stops at what cannot be lanes, or cannot stand beside them. */
static hr_visit look_at_lanes(void *context, const hr_expr *node) {
    const lane_check *c = context;
    const bool wide = node->type == HR_F64 || (node->op == HR_OP_CONVERT && node->dtype == HR_F64);
    if (!hr_varies_by_lane(&c->depends, node))
        return node->type == HR_I64 && !fits_lanes(c, node) ? HR_VISIT_STOP : HR_VISIT_PAST;
    if (node->op == HR_OP_ELEMENT && is_dot(c, node)) return HR_VISIT_PAST;
    if (node->op == HR_OP_ELEMENT)
        return node->type != HR_F64 && node->type != HR_I64 &&
                       (element_is_lanes(c, node) || element_is_brought(c, node))
                   ? HR_VISIT_PAST
                   : HR_VISIT_STOP;
    if (wide || (node->type == HR_I64 && !fits_lanes(c, node))) return HR_VISIT_STOP;
    if (node->op == HR_OP_RANDOM) return is_random_along(c, node) ? HR_VISIT_PAST : HR_VISIT_STOP;
    return HR_VISIT_ON;
}

/* Of a reduction: lanes add up f32, and find the largest of i32, too. */
static bool reduction_is_lanes(const lane_check *c, const hr_step *step) {
    const hr_dtype type = c->plan->normal->statements[step->statement].value->type;
    if (hr_op_finds_position(step->reduce)) return positions_fit(c);
    if (!step->reduce || c->stage->contract) return true;
    return type == HR_F32 || (type == HR_I32 && step->reduce != HR_OP_REDUCE_SUM);
}

/* Of a result: four bytes an element at most, one after the other along the lane. */
static bool store_is_lanes(const lane_check *c, const hr_step *step) {
    const hr_statement *statement = &c->plan->normal->statements[step->statement];
    const hr_dtype dtype = c->plan->normal->tensors[statement->tensor].dtype;
    const int last = statement->subscript_count - 1;
    if (dtype == HR_F64 || dtype == HR_I64 || step->value->type == HR_F64) return false;
    return last >= 0 && statement->domain[last] == hr_stage_lane(c->stage) && is_dense(c, statement->tensor);
}

static bool step_is_lanes(const lane_check *c, const hr_step *step, hr_walk *walk) {
    const bool element = step->kind == HR_STEP_ELEMENT;
    if (step->kind == HR_STEP_SCATTER) return false;
    if (step->kind == HR_STEP_ROW || hr_step_is_row_total(c->plan, c->stage, step)) return true;
    if (!reduction_is_lanes(c, step)) return false;
    if (element && !step->stored) return true; /* part of other values */
    if (element && !store_is_lanes(c, step)) return false;
    if (step->value->type == HR_I64 && hr_varies_by_lane(&c->depends, step->value) &&
        (!element || !fits_lanes(c, step->value)))
        return false;
    return !hr_varies_by_lane(&c->depends, step->value) || !hr_walk_through(walk, step->value);
}

hr_status hr_schedule_lanes(const int64_t *extents, bool gathers, const hr_plan *plan, hr_stage *stage) {
    lane_check c = {.plan = plan, .stage = stage, .extents = extents, .gathers = gathers};
    const struct hr_assumption *before = plan->graph->assumptions;
    hr_walk walk = {.enter = look_at_lanes, .context = &c};
    hr_status status = hr_dependence_begin(plan, stage, &c.depends);
    if (status == HR_OK) {
        bool wide = stage->contract && stage->contract->left->type == HR_F64;
        bool vector = stage->row_count > 0 && !wide;
        for (int i = 0; i < stage->step_count && vector; i++)
            vector = step_is_lanes(&c, &stage->steps[i], &walk);
        stage->schedule->lanes = vector ? HR_LANES_VECTOR : HR_LANES_SCALAR;
        if (!vector) plan->graph->assumptions = before; /* scalars are as wide as the text says */
        hr_dependence_end(&c.depends);
    }
    hr_walk_end(&walk); /* what is asked twice is answered the same */
    return status;
}
