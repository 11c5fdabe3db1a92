/* The gradients of attention. In: a plan. Out: its five products. See backward.h. */
#include "plan/backward.h"

#include "ir/visit.h"

#include <string.h>

typedef struct backward_search {
    const hr_plan *plan;
    hr_backward *out;
} backward_search;

static const hr_contract *contract_of(const backward_search *s, hr_backward_stage which) {
    return s->plan->stages[s->out->stage[which]].contract;
}

/* What is rounded, or the value itself. */
static const hr_expr *before_rounding(const hr_expr *value) {
    return value->op == HR_OP_CONVERT && value->type == HR_F32 ? value->args[0] : value;
}

static bool same_indices(const int *a, int a_count, const int *b, int b_count) {
    return a_count == b_count && memcmp(a, b, (size_t)a_count * sizeof *a) == 0;
}

static bool is_product_of(const hr_plan *plan, int stage) {
    const hr_contract *c = plan->stages[stage].contract;
    return c && c->left->type == HR_F32 && c->m_count == 1 && c->n_count == 1;
}

/* ---- which stages ---- */

static hr_visit makes_element(const hr_expr *node, const void *tensor) {
    return hr_visit_until(node->op == HR_OP_ELEMENT && node->tensor == *(const int *)tensor);
}

/* The expression has an element that the stage makes, its product included. */
static bool follows_from(const backward_search *s, const hr_expr *value, int stage) {
    const hr_stage *made = &s->plan->stages[stage];
    if (hr_expr_find(value, makes_element, &made->contract->product)) return true;
    for (int i = 0; i < made->step_count; i++) {
        const int tensor = s->plan->normal->statements[made->steps[i].statement].tensor;
        if (hr_expr_find(value, makes_element, &tensor)) return true;
    }
    return false;
}

/* A sum over k by `right`, whose own rows are m. NULL: any right of what follows from scores. */
static bool is_sum_over(const backward_search *s, int stage, const int *m, const int *k,
                        const hr_expr *right) {
    const hr_contract *scores = contract_of(s, HR_BACKWARD_SCORES), *c = s->plan->stages[stage].contract;
    return is_product_of(s->plan, stage) && c->k_count == 1 && c->k[0] == *k && c->m[0] == *m &&
           same_indices(c->batch, c->batch_count, scores->batch, scores->batch_count) &&
           (right ? c->right == right : follows_from(s, c->left, s->out->stage[HR_BACKWARD_SCORES]));
}

static bool is_beside_scores(const backward_search *s, int stage, const hr_expr *left) {
    const hr_contract *scores = contract_of(s, HR_BACKWARD_SCORES), *c = s->plan->stages[stage].contract;
    return stage != s->out->stage[HR_BACKWARD_SCORES] && is_product_of(s->plan, stage) && c->left == left &&
           c->m[0] == scores->m[0] && c->n[0] == scores->n[0] &&
           same_indices(c->batch, c->batch_count, scores->batch, scores->batch_count);
}

/* Each of the four others, by what it sums and what it is multiplied by. */
static bool find_stages(backward_search *s) {
    const hr_contract *scores = contract_of(s, HR_BACKWARD_SCORES);
    const int *query = scores->m, *key = scores->n;
    int *stage = s->out->stage;
    for (int i = 0; i < s->plan->stage_count; i++) {
        if (is_sum_over(s, i, query, key, scores->right)) stage[HR_BACKWARD_QUERY] = i;
        if (is_sum_over(s, i, key, query, scores->left)) stage[HR_BACKWARD_KEY] = i;
    }
    if (stage[HR_BACKWARD_QUERY] < 0 || stage[HR_BACKWARD_KEY] < 0 ||
        contract_of(s, HR_BACKWARD_QUERY)->left != contract_of(s, HR_BACKWARD_KEY)->left)
        return false;
    for (int i = 0; i < s->plan->stage_count; i++)
        if (i != stage[HR_BACKWARD_KEY] && is_sum_over(s, i, key, query, NULL)) stage[HR_BACKWARD_VALUE] = i;
    if (stage[HR_BACKWARD_VALUE] < 0) return false;
    for (int i = 0; i < s->plan->stage_count; i++)
        if (is_beside_scores(s, i, contract_of(s, HR_BACKWARD_VALUE)->right)) stage[HR_BACKWARD_PRODUCTS] = i;
    return stage[HR_BACKWARD_PRODUCTS] >= 0;
}

/* ---- what need not exist ---- */

static bool is_member(const hr_backward *b, int stage) {
    for (int i = 0; i < HR_BACKWARD_STAGES; i++)
        if (b->stage[i] == stage) return true;
    return false;
}

static void mark_stage_read(const backward_search *s, const hr_stage *stage, bool *read) {
    for (int i = 0; i < stage->step_count; i++) {
        const hr_statement *made = &s->plan->normal->statements[stage->steps[i].statement];
        hr_expr_mark_read(stage->steps[i].value, read);
        for (int a = 0; a < made->subscript_count; a++)
            hr_expr_mark_read(made->subscripts[a], read);
    }
    if (!stage->contract) return;
    hr_expr_mark_read(stage->contract->left, read);
    hr_expr_mark_read(stage->contract->right, read);
}

/* Elements of what is made beside scores, anywhere but at the score in hand. */
static hr_visit reads_elsewhere(const hr_expr *node, const void *context) {
    const backward_search *s = context;
    if (node->op != HR_OP_ELEMENT || !s->out->inner[node->tensor]) return HR_VISIT_ON;
    const hr_contract *c = contract_of(s, HR_BACKWARD_SCORES);
    const int rank = c->batch_count + 2;
    for (int i = 0; i < rank && node->arg_count == rank; i++) {
        const int index = i < c->batch_count ? c->batch[i] : i == c->batch_count ? c->m[0] : c->n[0];
        if (node->args[i]->op != HR_OP_INDEX || node->args[i]->index != index) return HR_VISIT_STOP;
    }
    return hr_visit_until(node->arg_count != rank);
}

/* A local of their own. */
static bool is_local(const backward_search *s, int tensor) {
    const int *storage = s->plan->storage;
    for (int other = 0; other < s->plan->normal->tensor_count; other++)
        if (other != tensor && storage[other] == storage[tensor]) return false;
    return s->plan->normal->tensors[tensor].role == HR_ROLE_LOCAL && storage[tensor] == tensor;
}

/* What the first two products give is read by the five alone, and what these give by none between them. */
static bool is_closed(backward_search *s) {
    hr_backward *b = s->out;
    const hr_plan *plan = s->plan;
    const size_t tensors = (size_t)plan->normal->tensor_count + 1;
    bool *elsewhere = hr_arena_alloc(plan->arena, tensors);
    memset(elsewhere, 0, tensors);
    for (int k = 0; k < plan->stage_count; k++)
        if (!is_member(b, k)) mark_stage_read(s, &plan->stages[k], elsewhere);
    for (int i = 0; i < HR_BACKWARD_STAGES; i++) {
        const hr_stage *stage = &plan->stages[b->stage[i]];
        if (b->stage[i] > b->last) b->last = b->stage[i];
        for (int k = 0; k < stage->step_count; k++) {
            const int tensor = plan->normal->statements[stage->steps[k].statement].tensor;
            const bool first = i <= HR_BACKWARD_PRODUCTS;
            if (stage->steps[k].kind != HR_STEP_ELEMENT) return false;
            if (first && stage->steps[k].stored && (elsewhere[tensor] || !is_local(s, tensor))) return false;
            if (!first && elsewhere[tensor]) return false;
            b->inner[tensor] = first;
        }
        if (i <= HR_BACKWARD_PRODUCTS) b->inner[stage->contract->product] = true;
    }
    for (int i = HR_BACKWARD_VALUE; i < HR_BACKWARD_STAGES; i++)
        if (hr_expr_find(contract_of(s, i)->left, reads_elsewhere, s)) return false;
    return true;
}

/* The value of an element that one of the first two stages makes, or the expression itself. */
static const hr_expr *made_from(const backward_search *s, const hr_expr *value) {
    const hr_stage *stage = &s->plan->stages[s->out->stage[HR_BACKWARD_SCORES]];
    for (int i = 0; i < stage->step_count && value->op == HR_OP_ELEMENT; i++)
        if (s->plan->normal->statements[stage->steps[i].statement].tensor == value->tensor)
            value = stage->steps[i].value;
    return value;
}

bool hr_backward_find(const hr_plan *plan, int scores, hr_backward *out) {
    const size_t tensors = (size_t)plan->normal->tensor_count + 1;
    backward_search s = {plan, out};
    *out = (hr_backward){.stage = {scores, -1, -1, -1, -1}};
    if (!is_product_of(plan, scores) || hr_plan_has_lists(plan) || !find_stages(&s)) return false;
    out->inner = hr_arena_alloc(plan->arena, tensors);
    memset(out->inner, 0, tensors);
    if (!is_closed(&s)) return false;
    out->weight = before_rounding(contract_of(&s, HR_BACKWARD_VALUE)->left);
    out->gradient = before_rounding(contract_of(&s, HR_BACKWARD_KEY)->left);
    const hr_expr *weight = made_from(&s, out->weight);
    if (weight->op == HR_OP_WHERE && hr_expr_is_zero(weight->args[2])) out->mask = weight->args[0];
    return true;
}
