/* The gradients of attention. In: a plan. Out: its five products. See backward.h. */
#include "plan/backward.h"

#include "ir/visit.h"
#include "plan/passes.h"

#include <string.h>

enum { DEPTH_MOST = 32 }; /* of an expression: what is deeper is not looked at */

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
    s->out->why =
        "no product sums the result's gradient by weights that follow from scores element by element";
    if (stage[HR_BACKWARD_VALUE] < 0) return false;
    s->out->why = "no product of the result's gradient and values has the scores' queries and keys";
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

/* Elements of what is made beside scores, anywhere but at the score in hand, however its indices lie. */
static hr_visit reads_elsewhere(const hr_expr *node, const void *context) {
    const backward_search *s = context;
    if (node->op != HR_OP_ELEMENT || !s->out->inner[node->tensor]) return HR_VISIT_ON;
    const hr_contract *c = contract_of(s, HR_BACKWARD_SCORES);
    int at[HR_AXES_MAX], all[HR_AXES_MAX + 2], count = 0;
    for (int i = 0; i < c->batch_count; i++)
        all[count++] = c->batch[i];
    all[count++] = c->m[0];
    all[count++] = c->n[0];
    for (int i = 0; i < node->arg_count; i++) {
        if (node->args[i]->op != HR_OP_INDEX) return HR_VISIT_STOP;
        at[i] = node->args[i]->index;
    }
    return hr_visit_until(!hr_indices_same(at, node->arg_count, all, count));
}

/* A local of their own. */
static bool is_local(const backward_search *s, int tensor) {
    const int *storage = s->plan->storage;
    for (int other = 0; other < s->plan->normal->tensor_count; other++)
        if (other != tensor && storage[other] == storage[tensor]) return false;
    return s->plan->normal->tensors[tensor].role == HR_ROLE_LOCAL && storage[tensor] == tensor;
}

/* By tensor: a stage before `end` that is none of the five reads it. */
static bool *read_elsewhere(const backward_search *s, int end) {
    const size_t tensors = (size_t)s->plan->normal->tensor_count + 1;
    bool *read = hr_arena_alloc(s->plan->arena, tensors);
    memset(read, 0, tensors);
    for (int k = 0; k < end; k++)
        if (!is_member(s->out, k)) mark_stage_read(s, &s->plan->stages[k], read);
    return read;
}

/* What the first two products give is read by the five alone. */
static bool is_closed(backward_search *s) {
    hr_backward *b = s->out;
    const hr_plan *plan = s->plan;
    const bool *elsewhere = read_elsewhere(s, plan->stage_count);
    b->why = "something as large as scores is a result, or is read by more than these products";
    for (int i = 0; i < HR_BACKWARD_STAGES; i++) {
        const hr_stage *stage = &plan->stages[b->stage[i]];
        if (b->stage[i] > b->last) b->last = b->stage[i];
        for (int k = 0; k < stage->step_count; k++) {
            const int tensor = plan->normal->statements[stage->steps[k].statement].tensor;
            const bool first = i <= HR_BACKWARD_PRODUCTS;
            if (stage->steps[k].kind != HR_STEP_ELEMENT) return false;
            if (first && stage->steps[k].stored && (elsewhere[tensor] || !is_local(s, tensor))) return false;
            b->inner[tensor] = first;
        }
        if (i <= HR_BACKWARD_PRODUCTS) b->inner[stage->contract->product] = true;
    }
    for (int i = HR_BACKWARD_VALUE; i < HR_BACKWARD_STAGES; i++)
        if (hr_expr_find(contract_of(s, i)->left, reads_elsewhere, s)) return false;
    b->why = NULL;
    return true;
}

/* The value of an element that one of the first two stages makes, or the expression itself. */
static const hr_expr *made_from(const backward_search *s, const hr_expr *value) {
    for (int which = HR_BACKWARD_PRODUCTS; which >= HR_BACKWARD_SCORES; which--) {
        const hr_stage *stage = &s->plan->stages[s->out->stage[which]];
        for (int i = stage->step_count - 1; i >= 0 && value->op == HR_OP_ELEMENT; i--)
            if (s->plan->normal->statements[stage->steps[i].statement].tensor == value->tensor &&
                stage->steps[i].value != value)
                value = stage->steps[i].value;
    }
    return value;
}

/* It is 0 wherever the mask does not hold: weights are, and what they are a factor of. */
static bool is_masked(const backward_search *s, const hr_expr *value, const hr_expr *mask, int depth) {
    value = made_from(s, value);
    if (depth == 0) return false;
    switch (value->op) {
    case HR_OP_NUMBER:
        return hr_expr_is_zero(value);
    case HR_OP_WHERE:
        return (value->args[0] == mask || is_masked(s, value->args[1], mask, depth - 1)) &&
               is_masked(s, value->args[2], mask, depth - 1);
    case HR_OP_CONVERT:
    case HR_OP_NEG:
    case HR_OP_DIV:
        return is_masked(s, value->args[0], mask, depth - 1);
    case HR_OP_MUL:
        return is_masked(s, value->args[0], mask, depth - 1) || is_masked(s, value->args[1], mask, depth - 1);
    case HR_OP_ADD:
    case HR_OP_SUB:
        return is_masked(s, value->args[0], mask, depth - 1) && is_masked(s, value->args[1], mask, depth - 1);
    default:
        return false;
    }
}

/* The condition of where(mask, ..., 0), which the value is or has as a factor, if gradients of scores are
 * masked by it, too; NULL = there is none. */
static hr_expr *mask_of(const backward_search *s, const hr_expr *value, int depth) {
    value = made_from(s, value);
    if (depth == 0) return NULL;
    if (value->op == HR_OP_WHERE && hr_expr_is_zero(value->args[2]))
        return is_masked(s, s->out->gradient, value->args[0], DEPTH_MOST) ? value->args[0] : NULL;
    if (value->op != HR_OP_MUL && value->op != HR_OP_DIV && value->op != HR_OP_CONVERT) return NULL;
    hr_expr *mask = mask_of(s, value->args[0], depth - 1);
    return mask || value->op != HR_OP_MUL ? mask : mask_of(s, value->args[1], depth - 1);
}

/* What the last three products give. */
static bool gives(const backward_search *s, int tensor) {
    for (int i = HR_BACKWARD_VALUE; i < HR_BACKWARD_STAGES; i++)
        if (hr_stage_makes(s->plan, &s->plan->stages[s->out->stage[i]], tensor)) return true;
    return false;
}

/* The five, whether or not others stand between them that read what they give. */
static bool find_five(backward_search *s, int scores) {
    const size_t tensors = (size_t)s->plan->normal->tensor_count + 1;
    *s->out = (hr_backward){.stage = {scores, -1, -1, -1, -1}};
    if (!is_product_of(s->plan, scores) || hr_plan_has_lists(s->plan) || !find_stages(s)) return false;
    s->out->inner = hr_arena_alloc(s->plan->arena, tensors);
    memset(s->out->inner, 0, tensors);
    return is_closed(s);
}

bool hr_backward_find(const hr_plan *plan, int scores, hr_backward *out) {
    backward_search s = {plan, out};
    if (!find_five(&s, scores)) return false;
    const bool *between = read_elsewhere(&s, out->last);
    for (int t = 0; t < plan->normal->tensor_count; t++)
        if (between[t] && gives(&s, t)) {
            out->why = "another stage between them needs one of the gradients";
            return false;
        }
    out->weight = before_rounding(contract_of(&s, HR_BACKWARD_VALUE)->left);
    out->gradient = before_rounding(contract_of(&s, HR_BACKWARD_KEY)->left);
    out->mask = mask_of(&s, out->weight, DEPTH_MOST);
    return true;
}

/* ---- who reads them comes behind them ---- */

/* The stage reads something of `made`. */
static bool reads_any(const backward_search *s, const hr_stage *stage, const bool *made) {
    const int tensors = s->plan->normal->tensor_count;
    bool *read = hr_arena_alloc(s->plan->arena, (size_t)tensors + 1);
    memset(read, 0, (size_t)tensors + 1);
    mark_stage_read(s, stage, read);
    for (int t = 0; t < tensors; t++)
        if (read[t] && made[t]) return true;
    return false;
}

/* Marks stages before the last of the five that follow from what they give. False where they cannot move:
 * one of the five needs them, or a memory has two versions, which must stay in their order. */
static bool mark_late(const backward_search *s, bool *late) {
    const hr_function *normal = s->plan->normal;
    const size_t tensors = (size_t)normal->tensor_count + 1;
    bool *follows = hr_arena_alloc(s->plan->arena, tensors), *moves = hr_arena_alloc(s->plan->arena, tensors);
    memset(moves, 0, tensors);
    for (int t = 0; t < normal->tensor_count; t++) {
        if (s->plan->storage[t] != t) return false;
        follows[t] = gives(s, t);
    }
    for (int k = 0; k < s->out->last; k++) {
        const hr_stage *stage = &s->plan->stages[k];
        late[k] = !is_member(s->out, k) && reads_any(s, stage, follows);
        for (int i = 0; i < stage->step_count && late[k]; i++) {
            const int tensor = normal->statements[stage->steps[i].statement].tensor;
            follows[tensor] = moves[tensor] = true;
        }
    }
    for (int i = 0; i < HR_BACKWARD_STAGES; i++)
        if (reads_any(s, &s->plan->stages[s->out->stage[i]], moves)) return false;
    return true;
}

void hr_pass_backward(hr_plan *plan) {
    const size_t stages = (size_t)plan->stage_count + 1;
    hr_stage *order = hr_arena_alloc(plan->arena, stages * sizeof *order);
    bool *late = hr_arena_alloc(plan->arena, stages);
    for (int scores = 0; scores < plan->stage_count; scores++) {
        hr_backward five;
        backward_search s = {plan, &five};
        int count = 0;
        memset(late, 0, stages);
        if (!find_five(&s, scores) || !mark_late(&s, late)) continue;
        for (int moved = 0; moved < 2; moved++)
            for (int k = 0; k <= five.last; k++)
                if (late[k] == moved) order[count++] = plan->stages[k];
        memcpy(plan->stages, order, (size_t)count * sizeof *order);
    }
}
