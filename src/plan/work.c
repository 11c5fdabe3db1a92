/* The work of a plan: what the text asks for, less what softmax of -inf and nested sums make needless. In: a
 * plan. Out: hr_work. Declared in plan.h.
 */
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/plan.h"

#include <math.h>

/* The value of a sum of indices and extents where the one index that it has is `index`. */
static hr_status affine_value(const hr_plan *plan, const hr_expr *node, const int64_t *extents, double index,
                              double *out) {
    double a = 0, b = 0;
    if (node->op == HR_OP_INDEX) {
        *out = index;
        return HR_OK;
    }
    if (node->op != HR_OP_ADD && node->op != HR_OP_SUB && node->op != HR_OP_MUL && node->op != HR_OP_NEG) {
        int64_t value;
        HR_TRY(hr_extent_value(plan->normal, node, extents, &value));
        *out = (double)value;
        return HR_OK;
    }
    HR_TRY(affine_value(plan, node->args[0], extents, index, &a));
    if (node->arg_count > 1) HR_TRY(affine_value(plan, node->args[1], extents, index, &b));
    *out = node->op == HR_OP_ADD ? a + b : node->op == HR_OP_SUB ? a - b : node->op == HR_OP_MUL ? a * b : -a;
    return HR_OK;
}

static hr_visit is_unknown(const hr_expr *node, const void *context) {
    const int *index = context;
    return hr_visit_until(node->op == HR_OP_ELEMENT || (node->op == HR_OP_INDEX && node->index != *index));
}

/* The sum over i < rows of first + i * step, each no less than 0 and no more than `most`. */
static double clamped_sum(double rows, double first, double step, double most) {
    if (!(step > 0)) return rows * fmin(fmax(first, 0), most);
    const double from = fmin(fmax(ceil(-first / step), 0), rows);
    const double to = fmin(fmax(ceil((most - first) / step), from), rows);
    const double last = to - 1;
    return (to - from) * (first + step * (from + last) / 2) + (rows - to) * most;
}

/* The stage that has the mask bound of the given one; NULL = none. */
static const hr_stage *head_of(const hr_plan *plan, int stage) {
    for (int k = stage; k >= 0; k--)
        if (plan->stages[k].mask_bound && plan->stages[k].mask_bound_last >= stage) return &plan->stages[k];
    return NULL;
}

/* The keys below `bound`, those of all rows together; left alone where that depends on data. */
static hr_status keys_below(const hr_plan *plan, const hr_contract *scores, const hr_expr *bound, bool more,
                            const int64_t *extents, double rows, double keys, double *out) {
    double first, second;
    if (hr_expr_find(bound, is_unknown, &scores->m[scores->m_count - 1])) return HR_OK;
    HR_TRY(affine_value(plan, bound, extents, 0, &first));
    HR_TRY(affine_value(plan, bound, extents, 1, &second));
    *out = clamped_sum(rows, first + more, second - first, keys);
    return HR_OK;
}

hr_status hr_plan_unmasked(const hr_plan *plan, int stage, const int64_t *extents, double *out) {
    const hr_stage *head = head_of(plan, stage);
    int64_t rows, keys;
    double before = 0;
    *out = 1;
    if (!head) return HR_OK;
    const hr_contract *scores = head->contract;
    HR_TRY(hr_plan_points(plan, scores->m + scores->m_count - 1, 1, extents, &rows));
    HR_TRY(hr_plan_points(plan, scores->n, scores->n_count, extents, &keys));
    const double all = (double)rows * (double)keys;
    double below = all;
    HR_TRY(keys_below(plan, scores, head->mask_bound, head->mask_bound_more, extents, (double)rows,
                      (double)keys, &below));
    if (head->mask_begin)
        HR_TRY(keys_below(plan, scores, head->mask_begin, head->mask_begin_more, extents, (double)rows,
                          (double)keys, &before));
    if (all > 0) *out = fmax(below - before, 0) / all;
    return HR_OK;
}

static void take(hr_work *work, hr_dtype dtype, double flops) {
    work->tensor_flops -= fmin(flops, work->products[dtype]);
    work->products[dtype] -= fmin(flops, work->products[dtype]);
}

static bool is_again(const hr_plan *plan, const hr_contract *product) {
    return product->product >= plan->again_begin && product->product < plan->again_end;
}

/* What the stages from `stage` to the last of its region need not do. Products that are made again are none
 * of the text's. */
static hr_status leave_out(const hr_plan *plan, int stage, const int64_t *extents, hr_work *work) {
    const hr_stage *head = &plan->stages[stage];
    const hr_contract *scores = head->contract;
    int64_t batch, rows, keys;
    double unmasked;
    HR_TRY(hr_plan_points(plan, scores->batch, scores->batch_count, extents, &batch));
    HR_TRY(hr_plan_points(plan, scores->m, scores->m_count, extents, &rows));
    HR_TRY(hr_plan_points(plan, scores->n, scores->n_count, extents, &keys));
    HR_TRY(hr_plan_unmasked(plan, stage, extents, &unmasked));
    const double spared = (1 - unmasked) * (double)batch * (double)rows * (double)keys;
    for (int k = stage; k <= head->mask_bound_last; k++) {
        const hr_contract *c = plan->stages[k].contract;
        int64_t width;
        if (!c || is_again(plan, c)) continue;
        const bool sums = c->k[0] == scores->n[0];
        HR_TRY(hr_plan_points(plan, sums ? c->n : c->k, sums ? c->n_count : c->k_count, extents, &width));
        take(work, hr_product_dtype(plan->normal, c->left, c->right), 2 * spared * (double)width);
    }
    return HR_OK;
}

/* Sums that are taken apart ask for fewer operations, and for no other bytes. */
static hr_status count_apart(const hr_plan *plan, const int64_t *extents, hr_work *work) {
    hr_work apart;
    if (!plan->graph->sums_apart) return HR_OK;
    HR_TRY(hr_work_count(plan->normal, extents, &apart));
    apart.bytes_read = work->bytes_read;
    apart.bytes_written = work->bytes_written;
    if (apart.tensor_flops + apart.vector_flops < work->tensor_flops + work->vector_flops) *work = apart;
    return HR_OK;
}

hr_status hr_plan_work(const hr_plan *plan, const int64_t *extents, hr_work *out) {
    HR_TRY(hr_work_count(plan->source, extents, out));
    HR_TRY(count_apart(plan, extents, out));
    for (int k = 0; k < plan->stage_count; k++)
        if (plan->stages[k].mask_bound) HR_TRY(leave_out(plan, k, extents, out));
    return HR_OK;
}
