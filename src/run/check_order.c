/* In what order the code of a plan adds up each reduction of the text: so many partial sums side by side,
 * each a chain of so many addends before a total in f64 takes it.
 *
 * In: a plan. Out: for hr_reference_orders. What is not found here is taken to be one chain.
 */
#include "base/dtype.h"
#include "run/check.h"
#include "schedule/cuda/choose_attention.h"
#include "schedule/cuda/choose_backward.h"
#include "schedule/cuda/choose_gemm.h"
#include "schedule/cuda/choose_scan.h"
#include "schedule/schedule.h"

#include <stdlib.h>

enum {
    WAYS = 4,            /* accumulators of a row's pass: emit/c/stage_c.c */
    WARP = 32,           /* CUDA: at least so many lanes share a row of */
    WARP_POINTS = 1024,  /* so many elements */
    PLACES_CHAIN = 1024, /* of a place that has no total: templates/cpu/places.h, with room for chance */
    VARIANCE_GROWTH = 8, /* a variance from sums cancels no more: f32_squares_about of the prelude */
};

/* The tensor cores cut products of f8 at 2^-13 of the largest of those that they add at once, which is some
 * times the root of their mean square. */
static const double f8_rounding = 1.0 / 1024;

/* Of 16 products that they add at once they cut each, and the sum: 600 halves of a last place at K = 8192 and
 * numbers of one sign, which is 0.15 with each (docs/facts.md). */
static const double tensor_cut = 0.25;

static const hr_sum_order one_chain = {.chains = 1, .growth = 1};

/* ---- walks ---- */

/* A reduction that finds a position goes with one accumulator a lane. */
static int ways_of(const hr_stage *stage) {
    for (int i = 0; i < stage->step_count; i++)
        if (hr_op_finds_position(stage->steps[i].reduce)) return 1;
    if (hr_stage_knobs(stage)->accumulators) return hr_stage_knobs(stage)->accumulators;
    return hr_cpu_walk_of(stage)->accumulators ? hr_cpu_walk_of(stage)->accumulators : WAYS;
}

/* The lanes of a row's accumulators that are in use: each run along its last index begins at the first. */
static int chains_of(const hr_plan *plan, const hr_stage *stage, const int64_t *extents) {
    const int lanes = hr_limits_lanes(&plan->limits), all = lanes * ways_of(stage);
    int64_t run;
    if (!stage->row_count ||
        hr_plan_points(plan, stage->row + stage->row_count - 1, 1, extents, &run) != HR_OK || run >= all)
        return all;
    return run >= lanes ? lanes : run > 1 ? (int)run : 1;
}

/* Scalars add each addend to a total. */
static void order_rows(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                       hr_sum_order *out) {
    int64_t row;
    out->addends = stage->schedule->chain;
    if (stage->schedule->kind == HR_SCHEDULE_CPU_WALK) {
        out->chains = hr_stage_is_vector(stage) ? chains_of(plan, stage, extents) : 1;
        if (!hr_stage_is_vector(stage)) out->addends = 1;
        return;
    }
    if (hr_plan_points(plan, stage->row, stage->row_count, extents, &row) == HR_OK && row >= WARP_POINTS)
        out->chains = WARP;
}

/* What a place of a += comes to: the same as in emit/c/stage_scatter.c. */
static void order_places(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                         hr_sum_order *out) {
    const hr_tensor *table =
        &plan->normal->tensors[plan->normal->statements[stage->steps[0].statement].tensor];
    hr_sizes sizes = {0};
    int64_t places, tasks, row;
    if (stage->schedule->kind != HR_SCHEDULE_CPU_WALK || table->dtype != HR_F32 ||
        hr_size_value(hr_size_elements(&sizes, table, 0, 1), plan->normal, extents, &places) != HR_OK ||
        hr_plan_points(plan, stage->task, stage->task_count, extents, &tasks) != HR_OK ||
        hr_plan_points(plan, stage->row, stage->row_count, extents, &row) != HR_OK)
        return;
    if (hr_cpu_walk_of(stage)->order != HR_ORDER_LYING) {
        out->addends = HR_CHAIN_ADDENDS;
    } else if (hr_scatter_may_be_totalled(plan, stage)) {
        const bool all = hr_scatter_is_totalled(plan, stage, places, hr_saturate_product(tasks, row));
        out->addends = all ? 1 : PLACES_CHAIN;
    }
}

/* Of a scan: the additions in f32 that an element takes part in. Lanes of a vector, or of a warp, join in
 * steps of 1, 2, 4 and so on, a thread's items behind each other; then comes what is carried, which is f64.
 * Across memory there is nothing else. Templates/cpu/scans.h, cuda/cuda_order.h. */
static void order_scan(const hr_plan *plan, const hr_stage *stage, const hr_statement *statement,
                       hr_sum_order *out) {
    const bool cpu = stage->schedule->kind == HR_SCHEDULE_CPU_WALK;
    out->addends = 1;
    if (statement->domain[statement->domain_count - 1] != stage->row[0]) return;
    for (int lanes = cpu ? hr_limits_lanes(&plan->limits) : WARP; lanes > 1; lanes /= 2)
        out->addends++;
    if (!cpu) out->addends += HR_CUDA_SCAN_ITEMS;
}

static hr_sum_order order_of(const hr_plan *plan, const hr_stage *stage, const hr_step *step,
                             const int64_t *extents) {
    hr_sum_order out = one_chain;
    if (step->variance) out.growth = VARIANCE_GROWTH;
    switch (step->kind) {
    case HR_STEP_REDUCE_ROW:
    case HR_STEP_REDUCE_ALL:
        order_rows(plan, stage, extents, &out);
        break;
    case HR_STEP_REDUCE_COLUMN:
        out.addends = stage->schedule->chain;
        break;
    case HR_STEP_SCATTER:
        order_places(plan, stage, extents, &out);
        break;
    case HR_STEP_ORDERED:
        order_scan(plan, stage, &plan->normal->statements[step->statement], &out);
        break;
    default:
        break;
    }
    return out;
}

/* ---- the list ---- */

/* More addends a chain err more; 0 = all of them. */
static bool is_longer(int64_t a, int64_t b) {
    return b != 0 && (a == 0 || a > b);
}

static void order_add(hr_sum_order *orders, int *count, hr_sum_order one) {
    for (int i = 0; i < *count; i++) {
        hr_sum_order *known = &orders[i];
        if (known->place.line != one.place.line || known->place.column != one.place.column) continue;
        if (one.chains < known->chains) known->chains = one.chains;
        if (is_longer(one.addends, known->addends)) known->addends = one.addends;
        if (one.growth > known->growth) known->growth = one.growth;
        if (one.rounding > known->rounding) known->rounding = one.rounding;
        if (one.cut > known->cut) known->cut = one.cut;
        known->leaves_out = known->leaves_out || one.leaves_out;
        return;
    }
    orders[(*count)++] = one;
}

/* A statement, and the reduction that is all of it. */
static void statement_add(const hr_statement *statement, hr_sum_order one, hr_sum_order *orders, int *count) {
    one.place = statement->place;
    order_add(orders, count, one);
    one.place = statement->value->place;
    order_add(orders, count, one);
}

/* What the tensor cores lose of a product's sums. Chains of them lose of their own sums alone. */
static void order_tensor_cores(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                               hr_sum_order *out) {
    const hr_contract *c = stage->contract;
    hr_cuda_gemm gemm;
    int64_t k;
    if (hr_cuda_gemm_choose(plan, stage, extents, HR_GEMM_HOPPER, &gemm) != HR_OK ||
        hr_plan_points(plan, c->k, c->k_count, extents, &k) != HR_OK)
        return;
    if (gemm.mainloop == HR_GEMM_PLAIN || hr_gemm_is_whole(&gemm)) return;
    const int chain = hr_gemm_chain(&gemm) * hr_gemm_step(&gemm);
    out->cut = tensor_cut * (chain && chain < k ? (double)chain / (double)k : 1);
    if (hr_gemm_is_f8(&gemm)) out->rounding = f8_rounding;
}

/* Weights of attention in one kernel are rounded as they become the operand of its second product. Elsewhere
 * a product's sums are one chain along k before a total takes them: on a GPU all of k. */
static void product_add(const hr_plan *plan, const hr_stage *stage, const int64_t *extents,
                        hr_sum_order *orders, int *count) {
    if (!stage->contract) return;
    hr_sum_order one = one_chain;
    one.leaves_out = stage->contract->seen != NULL;
    if (stage->schedule->kind == HR_SCHEDULE_CUDA_PRODUCT) order_tensor_cores(plan, stage, extents, &one);
    if (stage->schedule->kind == HR_SCHEDULE_CPU_PRODUCT) {
        const hr_contract_choice *choice = &stage->schedule->product;
        one.addends = choice->bf16 ? contract_chain(&choice->packed) * choice->packed.together
                                   : contract_chain(&choice->blocks) * choice->blocks.together;
    }
    if (stage->schedule->kind == HR_SCHEDULE_CUDA_BACKWARD)
        one.leaves_out = stage->schedule->backward->text.mask != NULL;
    if (stage->schedule->kind == HR_SCHEDULE_CUDA_ATTENTION) {
        const hr_cuda_attention *attention = stage->schedule->attention;
        one.cut = tensor_cut;
        if (stage == &plan->stages[attention->last]) {
            one.rounding = hr_dtype_rounding(attention->dtype);
            one.leaves_out = attention->softmax.mask != NULL;
        }
    }
    for (int s = 0; s < plan->normal->statement_count; s++)
        if (hr_contract_makes(stage->contract, plan->normal->statements[s].tensor))
            statement_add(&plan->normal->statements[s], one, orders, count);
}

hr_status hr_check_orders(const hr_plan *plan, const int64_t *extents, hr_sum_order **out, int *count) {
    int steps = 0;
    for (int s = 0; s < plan->stage_count; s++)
        steps += plan->stages[s].step_count + 1;
    *count = 0;
    *out = calloc(2 * (size_t)(steps + plan->normal->statement_count) + 1, sizeof **out);
    if (!*out) return hr_fail(HR_OUT_OF_MEMORY, "no memory to check a kernel");
    for (int s = 0; s < plan->stage_count; s++)
        product_add(plan, &plan->stages[s], extents, *out, count);
    for (int s = 0; s < plan->stage_count; s++)
        for (int i = 0; i < plan->stages[s].step_count; i++) {
            const hr_step *step = &plan->stages[s].steps[i];
            const hr_statement *statement = &plan->normal->statements[step->statement];
            const bool adds = step->reduce == HR_OP_REDUCE_SUM && step->kind != HR_STEP_ELEMENT;
            if (!adds && step->kind != HR_STEP_SCATTER && !hr_op_is_scan(step->reduce)) continue;
            hr_sum_order one = order_of(plan, &plan->stages[s], step, extents);
            one.leaves_out = hr_indices_have(plan->masked, plan->masked_count, statement->tensor);
            statement_add(statement, one, *out, count);
        }
    return HR_OK;
}
