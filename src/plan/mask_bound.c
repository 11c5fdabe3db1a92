/* The mask bound: the keys that a query sees. In: two products with rows between them. Out: the first stage's
 * `mask_bound` and `mask_begin`. Of all sums of products what a mask lets through: hr_contract.seen.
 *
 * Where a score is -inf for keys from some place on (a causal mask) or before one (a window), and all that
 * becomes of scores is softmax, such keys change nothing: the maximum takes other ones, their exponentials
 * are 0 and add 0 to the sum. Times a value that is finite they add 0 to the result, too. A value that is not
 * finite is left out (hr_contract.seen). Where a maximum is infinite or NaN, all of its row's exponentials
 * are NaN, those before that place, too.
 */
#include "base/dtype.h"
#include "ir/graph.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <math.h>
#include <string.h>

typedef struct masking {
    const hr_plan *plan;
    const hr_contract *scores; /* of a region; NULL = whatever stage makes them */
    int key;                   /* index */
    const bool *elsewhere;     /* by tensor: other stages read it */
    int first, last;           /* stages: the first sum over keys is the last */
    hr_expr *condition;        /* of all scores; NULL = not known yet */
    bool *peak, *total;        /* by tensor: a maximum of scores, the sum of their exponentials */
    bool several;              /* products before the sums: gradients */
    bool softmax;              /* what vanishes has exponentials of scores: NaN where a whole row is */
} masking;

static const hr_statement *statement_of(const masking *r, const hr_step *step) {
    return &r->plan->normal->statements[step->statement];
}

/* Its subscripts are the indices that the statement gives values over. */
static bool is_in_its_place(const hr_expr *node, const hr_statement *made) {
    for (int i = 0; i < made->subscript_count; i++)
        if (node->args[i]->op != HR_OP_INDEX || made->subscripts[i]->op != HR_OP_INDEX ||
            node->args[i]->index != made->subscripts[i]->index)
            return false;
    return true;
}

/* The step of stages `from` to `to` that makes the element's tensor; NULL: it is a product's finished sum,
 * too. */
static const hr_step *maker_of(const masking *r, const hr_expr *node, int from, int to) {
    if (node->op != HR_OP_ELEMENT) return NULL;
    for (int k = from; k <= to; k++)
        for (int i = 0; i < r->plan->stages[k].step_count; i++) {
            const hr_step *step = &r->plan->stages[k].steps[i];
            if (statement_of(r, step)->tensor == node->tensor)
                return step->value != node && is_in_its_place(node, statement_of(r, step)) ? step : NULL;
        }
    return NULL;
}

static const hr_step *maker_of_scores(const masking *r, const hr_expr *node) {
    return maker_of(r, node, r->first, r->scores ? r->first : r->last - 1);
}

static const hr_step *maker_of_rows(const masking *r, const hr_expr *node) {
    return maker_of(r, node, r->scores ? r->first + 1 : r->first, r->last - 1);
}

/* What an element that is one a row is made from. */
static const hr_expr *row_value(const masking *r, const hr_expr *node) {
    const hr_step *made = maker_of_rows(r, node);
    return made && made->kind == HR_STEP_ROW ? made->value : node;
}

/* The sum of exponentials, and others of the row beside it. */
static bool is_total(const masking *r, const hr_expr *node) {
    node = row_value(r, node);
    if (node->op == HR_OP_ADD && node->args[1]->op == HR_OP_EXP) node = node->args[0];
    return node->op == HR_OP_ELEMENT && r->total[node->tensor];
}

/* A score: -inf, or with `zero` 0, but for where the one condition holds. */
static bool is_score(masking *r, const hr_expr *node, bool zero) {
    const hr_step *made = maker_of_scores(r, node);
    if (made) node = made->value;
    if (node->op != HR_OP_WHERE ||
        !(zero ? hr_expr_is_zero(node->args[2]) : hr_expr_is_minus_infinity(node->args[2])))
        return false;
    if (!r->condition) r->condition = node->args[0];
    return r->condition == node->args[0];
}

static bool is_of_key(const masking *r, const hr_expr *node) {
    return hr_expr_has_index(node, r->key);
}

/* The maximum, or 0 in its place where it is infinite, or something of the row that is larger. */
static bool is_largest(const masking *r, const hr_expr *node) {
    node = row_value(r, node);
    if (node->op == HR_OP_MAX && is_largest(r, node->args[0])) return !is_of_key(r, node->args[1]);
    if (node->op == HR_OP_MAX && is_largest(r, node->args[1])) return !is_of_key(r, node->args[0]);
    if (node->op == HR_OP_WHERE && hr_expr_is_zero(node->args[1])) node = node->args[2];
    return node->op == HR_OP_ELEMENT && r->peak[node->tensor];
}

/* Those, or logsumexp: log(total) + peak. */
static bool is_peak(const masking *r, const hr_expr *node) {
    if (is_largest(r, node)) return true;
    node = row_value(r, node);
    return node->op == HR_OP_ADD && node->args[0]->op == HR_OP_LOG && is_total(r, node->args[0]->args[0]) &&
           is_largest(r, node->args[1]);
}

/* exp(score - peak) */
static bool is_exponential(masking *r, const hr_expr *node) {
    const bool is = node->op == HR_OP_EXP && node->args[0]->op == HR_OP_SUB &&
                    is_peak(r, node->args[0]->args[1]) && is_score(r, node->args[0]->args[0], false);
    r->softmax = r->softmax || is;
    return is;
}

/* Not what makes NaN of 0, but in rows that are all NaN. */
static bool is_harmless(const masking *r, const hr_expr *node) {
    if (node->op == HR_OP_NUMBER) return isfinite(node->number);
    if (node->op == HR_OP_WHERE) return is_harmless(r, node->args[1]) && is_harmless(r, node->args[2]);
    return node->op == HR_OP_DIV && node->args[0]->op == HR_OP_NUMBER && isfinite(node->args[0]->number) &&
           is_total(r, node->args[1]);
}

/* 0 where the condition does not hold. */
static bool vanishes(masking *r, const hr_expr *node) {
    const hr_step *made = maker_of_rows(r, node);
    if (made) return made->kind == HR_STEP_ELEMENT && vanishes(r, made->value);
    switch (node->op) {
    case HR_OP_CONVERT:
        return vanishes(r, node->args[0]);
    case HR_OP_MUL:
        return (vanishes(r, node->args[0]) && (r->several || is_harmless(r, node->args[1]))) ||
               (vanishes(r, node->args[1]) && (r->several || is_harmless(r, node->args[0])));
    case HR_OP_DIV:
        return vanishes(r, node->args[0]) && is_total(r, node->args[1]);
    default:
        return is_exponential(r, node) || is_score(r, node, true);
    }
}

/* Nobody else sees it. */
static bool is_local(const masking *r, const hr_step *step) {
    return r->plan->normal->tensors[statement_of(r, step)->tensor].role == HR_ROLE_LOCAL &&
           !r->elsewhere[statement_of(r, step)->tensor];
}

/* Rows of softmax and what follows from its sums: a maximum, then a sum. */
static bool step_ignores(masking *r, const hr_step *step) {
    const int tensor = statement_of(r, step)->tensor;
    if (step->kind == HR_STEP_ROW) return true;
    if (step->kind == HR_STEP_ELEMENT) return is_local(r, step) && vanishes(r, step->value);
    if (step->kind != HR_STEP_REDUCE_ROW) return false;
    if (step->reduce == HR_OP_REDUCE_MAX && is_score(r, step->value, false)) {
        r->peak[tensor] = true;
        return true;
    }
    if (step->reduce != HR_OP_REDUCE_SUM || !is_exponential(r, step->value)) return false;
    r->total[tensor] = true;
    return true;
}

/* ---- from where on a condition fails ---- */

static hr_visit is_index(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_INDEX);
}

static bool has_index(const hr_expr *node) {
    return hr_expr_find(node, is_index, NULL);
}

/* Of indices it has at most the last one of a product's rows, and is no smaller where that is larger. */
static bool grows(const hr_contract *c, const hr_expr *node) {
    if (node->op == HR_OP_INDEX) return node->index == c->m[c->m_count - 1];
    if (node->op == HR_OP_ADD) return grows(c, node->args[0]) && grows(c, node->args[1]);
    if (node->op == HR_OP_SUB) return grows(c, node->args[0]) && !has_index(node->args[1]);
    return !has_index(node);
}

static hr_visit is_other_index(const hr_expr *node, const void *context) {
    const hr_contract *c = context;
    return hr_visit_until(node->op == HR_OP_INDEX && !hr_indices_have(c->batch, c->batch_count, node->index));
}

/* The same for all rows of a batch, whatever it is: `length[b]`. */
static bool is_of_batch(const hr_contract *c, const hr_expr *node) {
    return !hr_expr_find(node, is_other_index, c);
}

/* Which keys a comparison leaves: those below or from a place on. */
typedef struct key_bound {
    hr_expr *place; /* NULL = it is no such comparison */
    bool below, more;
} key_bound;

static bool is_key(const hr_contract *scores, const hr_expr *node) {
    return node->op == HR_OP_INDEX && node->index == scores->n[0];
}

/* key < place; place < key; row - key < place; each with <=, >, >= as well. */
static key_bound bound_of(hr_graph *graph, const hr_contract *scores, const hr_expr *condition) {
    const hr_op op = condition->op;
    const bool less = op == HR_OP_LE || op == HR_OP_LT, equal = op == HR_OP_LE || op == HR_OP_GE;
    if (!less && op != HR_OP_GE && op != HR_OP_GT) return (key_bound){0};
    hr_expr *low = condition->args[less ? 0 : 1], *high = condition->args[less ? 1 : 0];
    if (is_key(scores, low)) return (key_bound){high, true, equal};
    if (is_key(scores, high)) return (key_bound){low, false, !equal};
    if (low->op == HR_OP_SUB && is_key(scores, low->args[1]))
        return (key_bound){hr_graph_binary(graph, HR_OP_SUB, low->type, low->args[0], high), false, !equal};
    return (key_bound){0};
}

/* Takes what the condition says of keys; false where it says more than that. */
static bool take_bounds(const hr_plan *plan, const hr_contract *scores, const hr_expr *condition,
                        hr_key_bounds *out) {
    if (condition->op == HR_OP_AND) {
        const bool whole = take_bounds(plan, scores, condition->args[0], out);
        return take_bounds(plan, scores, condition->args[1], out) && whole;
    }
    const key_bound bound = bound_of(plan->graph, scores, condition);
    hr_expr **place = bound.below ? &out->bound : &out->begin;
    if (!bound.place || *place) return false;
    if (!is_of_batch(scores, bound.place) && !(hr_expr_is_affine(bound.place) && grows(scores, bound.place)))
        return false;
    *place = bound.place;
    *(bound.below ? &out->bound_more : &out->begin_more) = bound.more;
    return true;
}

/* Keys from a place on alone bound nothing. */
void hr_key_bounds_find(const hr_plan *plan, const hr_contract *scores, const hr_expr *condition,
                        hr_key_bounds *out) {
    *out = (hr_key_bounds){0};
    out->whole = take_bounds(plan, scores, condition, out);
    if (!out->bound) *out = (hr_key_bounds){0};
}

/* Rows that are keys: under a causal mask the queries from some place on. */
static void take_begin(const masking *r, hr_key_bounds *out) {
    out->whole = take_bounds(r->plan, r->scores, r->condition, out);
    if (!out->begin) *out = (hr_key_bounds){0};
    if (out->begin && !out->bound) out->bound = r->plan->normal->indices[r->scores->n[0]].extent;
}

/* Nobody else sees what the stage makes; and what it makes of a score that does not count does not either. */
static bool stage_ignores(masking *r, const hr_stage *stage) {
    bool ignores = true;
    for (int i = 0; i < stage->step_count; i++) /* all of them: maxima and sums are noted */
        ignores =
            (stage->contract ? is_local(r, &stage->steps[i]) : step_ignores(r, &stage->steps[i])) && ignores;
    return ignores;
}

/* ---- what a sum leaves out ---- */

typedef struct condition_search {
    const hr_function *function;
    const hr_contract *product;
    int key;
} condition_search;

/* Not known beside queries and keys: it is made by a stage, or has another index. */
static hr_visit is_elsewhere(const hr_expr *node, const void *context) {
    const condition_search *search = context;
    const hr_function *function = search->function;
    const hr_contract *c = search->product;
    if (node->op == HR_OP_INDEX)
        return hr_visit_until(!hr_indices_have(c->batch, c->batch_count, node->index) &&
                              !hr_indices_have(c->m, c->m_count, node->index) && node->index != search->key);
    return hr_visit_until(
        hr_op_is_reduction(node->op) || node->op == HR_OP_RANDOM ||
        (node->op == HR_OP_ELEMENT &&
         (function->tensors[node->tensor].role != HR_ROLE_INPUT || hr_element_is_checked(function, node))));
}

/* The condition can be asked of the product's queries and keys. */
static bool is_known(const masking *r, const hr_contract *product) {
    const condition_search search = {r->plan->normal, product, r->key};
    return r->condition && !hr_expr_find(r->condition, is_elsewhere, &search);
}

/* where(condition, 1, 0) */
static hr_expr *mask_of(const masking *r, hr_expr *condition, hr_dtype type) {
    hr_graph *graph = r->plan->graph;
    return hr_graph_where(graph, condition, hr_graph_number(graph, type, 1), hr_graph_number(graph, type, 0));
}

static void take_mask(const masking *r, hr_stage *stage, int last) {
    hr_key_bounds bounds;
    hr_key_bounds_find(r->plan, r->scores, r->condition, &bounds);
    if (!bounds.bound && r->several) take_begin(r, &bounds);
    stage->mask_bound = bounds.bound;
    stage->mask_begin = bounds.begin;
    stage->mask_bound_more = bounds.bound_more;
    stage->mask_begin_more = bounds.begin_more;
    stage->mask_whole = bounds.whole;
    if (!(bounds.bound && bounds.whole) && is_known(r, stage->contract))
        stage->contract->mask = mask_of(r, r->condition, HR_F32);
    if (bounds.bound) stage->mask_bound_last = last;
}

/* The sum goes on as far as its left operand does not vanish. An exponential counts where it is not 0: it is
 * NaN in rows that no key is left of. */
static bool take_seen(masking *r, hr_contract *sum) {
    hr_graph *graph = r->plan->graph;
    const hr_dtype type = sum->left->type;
    r->softmax = false;
    if (!vanishes(r, sum->left)) return false;
    if (!is_known(r, sum) || sum->stacked_count || sum->group) return true;
    hr_expr *some = hr_graph_binary(graph, HR_OP_NE, HR_BOOL, sum->left, hr_graph_number(graph, type, 0));
    hr_expr *seen = r->softmax ? hr_graph_binary(graph, HR_OP_OR, HR_BOOL, r->condition, some) : r->condition;
    sum->seen = mask_of(r, seen, type);
    return true;
}

void hr_mask_bound_find(hr_plan *plan, const hr_region *region, const bool *elsewhere) {
    hr_stage *stage = &plan->stages[region->first];
    const hr_contract *scores = stage->contract;
    const size_t tensors = (size_t)plan->normal->tensor_count + 1;
    bool *marks = hr_arena_alloc(plan->arena, 2 * tensors * sizeof *marks);
    memset(marks, 0, 2 * tensors * sizeof *marks);
    masking r = {.plan = plan,
                 .scores = scores,
                 .key = scores->n[0],
                 .elsewhere = elsewhere,
                 .first = region->first,
                 .last = region->sums,
                 .peak = marks,
                 .total = marks + tensors};
    for (int k = region->first + 1; k < region->sums; k++)
        r.several = r.several || plan->stages[k].contract;
    bool ignores = true;
    for (int k = region->first + 1; k < region->sums; k++)
        ignores = stage_ignores(&r, &plan->stages[k]) && ignores;
    ignores = stage_ignores(&r, stage) && ignores;
    for (int k = region->sums; k <= region->last; k++)
        ignores = take_seen(&r, plan->stages[k].contract) && ignores;
    if (ignores && r.condition) take_mask(&r, stage, region->last);
}

/* ---- sums of no region ---- */

static hr_visit may_vanish(const hr_expr *node, const void *context) {
    const hr_function *function = context;
    return hr_visit_until(node->op == HR_OP_WHERE || (node->op == HR_OP_ELEMENT &&
                                                      function->tensors[node->tensor].role == HR_ROLE_LOCAL));
}

enum { STAGES_MOST = 8 }; /* before a sum, that its left operand follows from */

/* What its left operand follows from begins at stage `first`. */
static void find_seen(hr_plan *plan, int first, int number, bool *marks, const bool *nowhere) {
    const size_t tensors = (size_t)plan->normal->tensor_count + 1;
    hr_contract *sum = plan->stages[number].contract;
    masking r = {.plan = plan,
                 .key = sum->k[0],
                 .elsewhere = nowhere,
                 .first = first,
                 .last = number,
                 .peak = marks,
                 .total = marks + tensors};
    memset(marks, 0, 2 * tensors * sizeof *marks);
    for (int k = first; k < number; k++)
        if (!plan->stages[k].contract) stage_ignores(&r, &plan->stages[k]);
    take_seen(&r, sum);
}

void hr_masked_sums_find(hr_plan *plan) {
    const size_t tensors = (size_t)plan->normal->tensor_count + 1;
    bool *marks = hr_arena_alloc(plan->arena, 3 * tensors * sizeof *marks), *nowhere = marks + 2 * tensors;
    memset(nowhere, 0, tensors * sizeof *nowhere);
    for (int k = 0; k < plan->stage_count; k++) {
        const hr_contract *sum = plan->stages[k].contract;
        if (!sum || sum->k_count != 1 || !hr_dtype_is_float(sum->left->type) ||
            !hr_expr_find(sum->left, may_vanish, plan->normal))
            continue;
        for (int first = k - 1; first >= 0 && first >= k - STAGES_MOST && !sum->seen; first--)
            find_seen(plan, first, k, marks, nowhere);
    }
}
