/* Softmax between two products. In: a region. Out: its parts. See softmax.h. */
#include "plan/softmax.h"

#include "ir/visit.h"

#include <math.h>
#include <string.h>

typedef struct softmax_search {
    const hr_plan *plan;
    const hr_region *region;
    hr_softmax *out;
} softmax_search;

static const hr_statement *statement_of(const softmax_search *s, const hr_step *step) {
    return &s->plan->normal->statements[step->statement];
}

/* The step before the second product that makes the element's tensor. */
static const hr_step *maker_of(const softmax_search *s, const hr_expr *node) {
    if (node->op != HR_OP_ELEMENT) return NULL;
    for (int k = s->region->first; k < s->region->last; k++)
        for (int i = 0; i < s->plan->stages[k].step_count; i++) {
            const hr_step *step = &s->plan->stages[k].steps[i];
            if (statement_of(s, step)->tensor == node->tensor) return step;
        }
    return NULL;
}

static bool is_element_of(const hr_expr *node, int tensor) {
    return node->op == HR_OP_ELEMENT && node->tensor == tensor;
}

/* What an element is made from, where that is no reduction. A product that nothing follows is made from
 * itself.
 */
static const hr_expr *made_from(const softmax_search *s, const hr_expr *node) {
    const hr_step *step = maker_of(s, node);
    const bool map = step && (step->kind == HR_STEP_ELEMENT || step->kind == HR_STEP_ROW);
    return map && !is_element_of(step->value, node->tensor) ? made_from(s, step->value) : node;
}

/* Which sums have this peak, or 0 in its place where it is infinite; NULL = none. */
static hr_softmax_sums *sums_of_peak(softmax_search *s, const hr_expr *node, bool *replaced) {
    node = made_from(s, node);
    *replaced = node->op == HR_OP_WHERE && hr_expr_is_zero(node->args[1]);
    if (*replaced) node = node->args[2];
    for (int i = 0; i < s->out->count; i++)
        if (is_element_of(node, s->out->sums[i].peak)) return &s->out->sums[i];
    return NULL;
}

/* The score, or under its mask what that leaves. */
static bool is_score(const softmax_search *s, const hr_expr *node, bool masked) {
    node = made_from(s, node);
    return node == s->out->score || ((masked || s->out->summed_under_mask) && node == s->out->open);
}

/* Of exp(score - shift), or of where(mask, exp(open - shift), 0), the shift; NULL = it is anything else. */
static const hr_expr *shift_of(const softmax_search *s, const hr_expr *node) {
    node = made_from(s, node);
    const bool masked = node->op == HR_OP_WHERE && s->out->mask && node->args[0] == s->out->mask &&
                        hr_expr_is_zero(node->args[2]);
    if (masked) node = made_from(s, node->args[1]);
    const bool is = node->op == HR_OP_EXP && node->args[0]->op == HR_OP_SUB &&
                    is_score(s, node->args[0]->args[0], masked);
    return is ? node->args[0]->args[1] : NULL;
}

/* exp(score - peak): the sums that have this peak; NULL = it is anything else. */
static hr_softmax_sums *sums_of_exponential(softmax_search *s, const hr_expr *node, bool *replaced) {
    const hr_expr *shift = shift_of(s, node);
    return shift ? sums_of_peak(s, shift, replaced) : NULL;
}

static bool is_exponential(softmax_search *s, const hr_expr *node) {
    bool replaced;
    return sums_of_exponential(s, node, &replaced) != NULL;
}

static bool is_total(softmax_search *s, const hr_expr *node) {
    node = made_from(s, node);
    for (int i = 0; i < s->out->count; i++)
        if (s->out->sums[i].total >= 0 && is_element_of(node, s->out->sums[i].total)) return true;
    return false;
}

static bool is_one_over_total(softmax_search *s, const hr_expr *node) {
    node = made_from(s, node);
    return node->op == HR_OP_DIV && node->args[0]->op == HR_OP_NUMBER && node->args[0]->number == 1 &&
           is_total(s, node->args[1]);
}

/* where(mask, weight, 0), whose mask is that of scores. */
static bool is_under_mask(const softmax_search *s, const hr_expr *node) {
    return hr_expr_within(node) != node && node->args[0] == s->out->mask;
}

static bool is_weight(softmax_search *s, const hr_expr *node) {
    node = made_from(s, node);
    if (node->op == HR_OP_DIV) return is_exponential(s, node->args[0]) && is_total(s, node->args[1]);
    if (node->op != HR_OP_MUL) return false;
    return (is_exponential(s, node->args[0]) && is_one_over_total(s, node->args[1])) ||
           (is_exponential(s, node->args[1]) && is_one_over_total(s, node->args[0]));
}

/* There is one a row. */
static bool is_of_row(const softmax_search *s, const hr_expr *node) {
    return !hr_expr_has_index(node, s->plan->stages[s->region->first].contract->n[0]);
}

static hr_visit reads_any(const hr_expr *node, const void *context) {
    const softmax_search *s = context;
    return hr_visit_until(
        node->op == HR_OP_ELEMENT &&
        (maker_of(s, node) || node->tensor == s->plan->stages[s->region->first].contract->product));
}

static bool factor_take(hr_softmax_factors *list, const hr_expr *factor) {
    if (list->count == HR_SOFTMAX_FACTORS_MAX) return false;
    list->factor[list->count++] = factor;
    return true;
}

/* One exponential, and factors beside it. */
static bool factors_take(softmax_search *s, const hr_expr *node) {
    hr_softmax *out = s->out;
    if (is_of_row(s, node)) return factor_take(&out->times, node);
    node = made_from(s, node);
    if (node->op == HR_OP_MUL) return factors_take(s, node->args[0]) && factors_take(s, node->args[1]);
    if (node->op == HR_OP_DIV)
        return is_of_row(s, node->args[1]) && factor_take(&out->over, node->args[1]) &&
               factors_take(s, node->args[0]);
    if (node->op == HR_OP_WHERE && hr_expr_is_zero(node->args[2]) &&
        !hr_expr_find(node->args[0], reads_any, s) && hr_expr_find(node->args[1], reads_any, s))
        return factor_take(&out->conditions, node->args[0]) && factors_take(s, node->args[1]);
    const hr_expr *shift = shift_of(s, node);
    if (!shift) return !hr_expr_find(node, reads_any, s) && factor_take(&out->pairs, node);
    if (out->shift || !is_of_row(s, shift)) return false;
    out->shift = shift;
    return true;
}

/* Of them those of rows are the ones of softmax. */
static bool is_normalised(softmax_search *s) {
    const hr_softmax *out = s->out;
    bool replaced;
    if (!sums_of_peak(s, out->shift, &replaced) || out->times.count + out->over.count != 1) return false;
    return out->over.count ? is_total(s, out->over.factor[0]) : is_one_over_total(s, out->times.factor[0]);
}

static bool weight_take(softmax_search *s, const hr_expr *node) {
    s->out->normalised = is_weight(s, node);
    if (s->out->normalised) return true;
    if (!factors_take(s, node) || !s->out->shift) return false;
    s->out->normalised = is_normalised(s);
    return true;
}

/* An element that the region makes, but for the first product. */
static hr_visit reads_inner(const hr_expr *node, const void *context) {
    const softmax_search *s = context;
    return hr_visit_until(node->op == HR_OP_ELEMENT && maker_of(s, node) &&
                          node->tensor != s->plan->stages[s->region->first].contract->product);
}

static bool peak_take(softmax_search *s, const hr_step *step) {
    const hr_expr *score = made_from(s, step->value);
    hr_softmax *out = s->out;
    if (out->count == HR_SOFTMAX_SUMS_MAX || (out->count && score != out->score)) return false;
    out->score = score;
    out->sums[out->count++] = (hr_softmax_sums){.peak = statement_of(s, step)->tensor, .total = -1};
    const bool masked = score->op == HR_OP_WHERE && hr_expr_is_minus_infinity(score->args[2]);
    out->mask = masked ? score->args[0] : NULL;
    out->open = masked ? made_from(s, score->args[1]) : score;
    return !hr_expr_find(out->open, reads_inner, s) && !(masked && hr_expr_find(out->mask, reads_inner, s));
}

/* A sum of exponentials relative to something else than a peak. */
static bool total_take(softmax_search *s, const hr_step *step) {
    hr_softmax *out = s->out;
    const hr_expr *shift = out->score ? shift_of(s, step->value) : NULL;
    if (!shift || !is_of_row(s, shift) || out->count == HR_SOFTMAX_SUMS_MAX) return false;
    out->sums[out->count++] =
        (hr_softmax_sums){.peak = -1, .total = statement_of(s, step)->tensor, .shift = shift};
    return true;
}

/* Maxima of scores, sums of their exponentials, and nothing else. */
static bool reductions_take(softmax_search *s, const hr_step *step) {
    bool replaced;
    if (step->kind != HR_STEP_REDUCE_ROW) return true;
    if (step->reduce == HR_OP_REDUCE_MAX) return peak_take(s, step);
    if (step->reduce != HR_OP_REDUCE_SUM) return false;
    hr_softmax_sums *sums = sums_of_exponential(s, step->value, &replaced);
    if (!sums || sums->total >= 0) return total_take(s, step);
    sums->total = statement_of(s, step)->tensor;
    sums->replaced = replaced;
    return true;
}

/* Where an element of the row is kept for others than the region. */
static bool keeps_elements(const softmax_search *s) {
    for (int k = s->region->first; k < s->region->last; k++)
        for (int i = 0; i < s->plan->stages[k].step_count; i++) {
            const hr_step *step = &s->plan->stages[k].steps[i];
            if (step->kind == HR_STEP_ELEMENT && step->stored &&
                !s->region->inner[statement_of(s, step)->tensor])
                return true;
        }
    return false;
}

bool hr_softmax_find(const hr_plan *plan, const hr_region *region, hr_softmax *out, const char **why) {
    softmax_search s = {plan, region, out};
    const hr_contract *values = plan->stages[region->last].contract;
    *out = (hr_softmax){0};
    *why = "scores or weights are results or are read again";
    if (keeps_elements(&s)) return false;
    *why = "between the products there is more than softmax, or something else";
    for (int k = region->first; k < region->last; k++)
        for (int i = 0; i < plan->stages[k].step_count; i++)
            if (!reductions_take(&s, &plan->stages[k].steps[i])) return false;
    if (!out->score) return false;
    out->bounded = out->mask && plan->stages[region->first].mask_whole;
    const hr_expr *left = made_from(&s, values->left);
    out->summed_under_mask = is_under_mask(&s, left);
    if (!weight_take(&s, out->summed_under_mask ? left->args[1] : left)) return false;
    out->value = is_under_mask(&s, values->right) ? values->right->args[1] : values->right;
    *why = NULL;
    return true;
}
