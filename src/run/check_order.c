/* In what order the code of a plan adds up each reduction of the text: so many partial sums side by side.
 *
 * In: a plan. Out: for hr_reference_orders. What is not found here is taken to be one chain, as sums of
 * columns, products and += are.
 */
#include "base/dtype.h"
#include "run/check.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/schedule.h"

#include <stdlib.h>

enum {
    WAYS = 4,            /* accumulators of a row's pass: emit/c/stage_c.c */
    WARP = 32,           /* CUDA: at least so many lanes share a row of */
    WARP_POINTS = 1024,  /* so many elements */
    VARIANCE_GROWTH = 8, /* a variance from sums cancels no more: f32_spread of the prelude */
};

/* A reduction that finds a position goes with one accumulator a lane. */
static int ways_of(const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (hr_op_finds_position(stage->steps[i].reduce)) return 1;
    if (hr_stage_knobs(stage)->accumulators) return hr_stage_knobs(stage)->accumulators;
    return hr_cpu_walk_of(stage)->accumulators ? hr_cpu_walk_of(stage)->accumulators : WAYS;
}

static int chains_of(const hr_plan *plan, const hr_stage *stage, const int64_t *extents) {
    int64_t row;
    if (hr_plan_points(plan, stage->row, stage->row_count, extents, &row) != HR_OK) return 1;
    if (plan->limits.compute) return row >= WARP_POINTS ? WARP : 1;
    return hr_stage_is_vector(stage) ? hr_limits_lanes(&plan->limits) * ways_of(stage) : 1;
}

static void order_add(hr_sum_order *orders, int *count, hr_sum_order one) {
    for (int i = 0; i < *count; i++) {
        hr_sum_order *known = &orders[i];
        if (known->place.line != one.place.line || known->place.column != one.place.column) continue;
        if (one.chains < known->chains) known->chains = one.chains;
        if (one.growth > known->growth) known->growth = one.growth;
        if (one.rounding > known->rounding) known->rounding = one.rounding;
        return;
    }
    orders[(*count)++] = one;
}

/* Weights of attention in one kernel are rounded as they become the operand of its second product. */
static void add_rounding(const hr_plan *plan, const hr_stage *stage, hr_sum_order *orders, int *count) {
    if (stage->schedule->kind != HR_SCHEDULE_CUDA_ATTENTION || !stage->contract) return;
    const hr_cuda_attention *attention = stage->schedule->attention;
    if (stage != &plan->stages[attention->last]) return;
    for (int s = 0; s < plan->normal->statement_count; s++) {
        const hr_statement *statement = &plan->normal->statements[s];
        if (statement->tensor != stage->contract->product) continue;
        const double rounding = hr_dtype_rounding(attention->dtype);
        order_add(orders, count, (hr_sum_order){statement->place, 1, 1, rounding});
        order_add(orders, count, (hr_sum_order){statement->value->place, 1, 1, rounding});
    }
}

hr_status hr_check_orders(const hr_plan *plan, const int64_t *extents, hr_sum_order **out, int *count) {
    int steps = 0;
    for (int s = 0; s < plan->stage_count; s++)
        steps += plan->stages[s].step_count + 1;
    *count = 0;
    *out = calloc(2 * (size_t)steps + 1, sizeof **out);
    if (!*out) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check a kernel");
    for (int s = 0; s < plan->stage_count; s++)
        add_rounding(plan, &plan->stages[s], *out, count);
    for (int s = 0; s < plan->stage_count; s++)
        for (int i = 0; i < plan->stages[s].step_count; i++) {
            const hr_step *step = &plan->stages[s].steps[i];
            const hr_statement *statement = &plan->normal->statements[step->statement];
            if (step->reduce != HR_OP_REDUCE_SUM) continue;
            const bool rows = step->kind == HR_STEP_REDUCE_ROW || step->kind == HR_STEP_REDUCE_ALL;
            const hr_sum_order one = {.place = statement->place,
                                      .chains = rows ? chains_of(plan, &plan->stages[s], extents) : 1,
                                      .growth = step->variance ? VARIANCE_GROWTH : 1};
            order_add(*out, count, one);
            order_add(*out, count, (hr_sum_order){statement->value->place, one.chains, one.growth, 0});
        }
    return HR_OK;
}
