/* Scores: as many as queries times keys, made from far less, and gone when their rows are added up. In: a
 * function. Out: which of its locals they are. The backward pass makes them again.
 */
#include "grad/derivation.h"
#include "ir/extent_form.h"

#include <string.h>

typedef struct score_search {
    const hr_function *function;
    const hr_expr *over;      /* the reduction at hand */
    const hr_statement *made; /* the statement at hand */
    bool *scores;             /* by tensor */
    bool *keys;               /* by extent: they go over it */
    bool has_exponentials, found;
} score_search;

static bool same_range(const hr_function *function, int a, int b) {
    return strcmp(function->indices[a].name, function->indices[b].name) == 0 &&
           hr_extent_identical(function->indices[a].extent, function->indices[b].extent);
}

/* An axis of the element is what the node goes over. */
static bool is_along(const hr_function *function, const hr_expr *over, const hr_expr *element) {
    for (int i = 0; i < over->bound_count; i++)
        for (int a = 0; a < element->arg_count; a++)
            if (element->args[a]->op == HR_OP_INDEX &&
                same_range(function, element->args[a]->index, over->bound[i]))
                return true;
    return false;
}

static bool is_local(const hr_function *function, int tensor) {
    return function->tensors[tensor].role == HR_ROLE_LOCAL;
}

/* Locals along the reduction: inside `over` those that it goes over. */
static hr_visit mark_along(void *context, const hr_expr *node) {
    score_search *s = context;
    if (node->op == HR_OP_ELEMENT && is_local(s->function, node->tensor) &&
        is_along(s->function, s->over, node))
        s->scores[node->tensor] = true;
    return hr_op_is_reduction(node->op) && node != s->over ? HR_VISIT_PAST : HR_VISIT_ON;
}

static hr_visit is_exponential(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_EXP);
}

static hr_visit mark_extent(void *context, const hr_expr *node) {
    if (node->op == HR_OP_EXTENT) ((bool *)context)[node->extent] = true;
    return HR_VISIT_ON;
}

/* Softmax, in one word or in its parts. */
static hr_visit mark_rows(void *context, const hr_expr *node) {
    score_search *s = context;
    const bool peak = node->op == HR_OP_REDUCE_MAX && s->has_exponentials;
    if (!peak && node->op != HR_OP_REDUCE_LOGSUMEXP && node->op != HR_OP_SOFTMAX) return HR_VISIT_ON;
    score_search inner = *s;
    inner.over = node;
    hr_expr_visit(node->args[0], mark_along, &inner);
    for (int i = 0; i < node->bound_count; i++)
        hr_expr_visit(s->function->indices[node->bound[i]].extent, mark_extent, s->keys);
    return HR_VISIT_ON;
}

/* What is made from a score element by element is as large, and so is what a score is made from so. */
static hr_visit mark_like(void *context, const hr_expr *node) {
    score_search *s = context;
    if (hr_op_is_reduction(node->op)) return HR_VISIT_PAST;
    if (node->op != HR_OP_ELEMENT || !is_local(s->function, node->tensor) ||
        node->arg_count != s->made->domain_count)
        return HR_VISIT_ON;
    bool *a = &s->scores[node->tensor], *b = &s->scores[s->made->tensor];
    if (*a != *b && is_local(s->function, s->made->tensor)) *a = *b = s->found = true;
    return HR_VISIT_ON;
}

/* A score along the sum, which gives something with an index that the score lacks. */
static hr_visit is_weight(const hr_expr *node, const void *context) {
    const score_search *s = context;
    if (node->op != HR_OP_ELEMENT || !s->scores[node->tensor] || !is_along(s->function, s->over, node))
        return HR_VISIT_ON;
    for (int i = 0; i < s->made->domain_count; i++) {
        bool has = false;
        for (int a = 0; a < node->arg_count; a++)
            has = has || (node->args[a]->op == HR_OP_INDEX &&
                          same_range(s->function, node->args[a]->index, s->made->domain[i]));
        if (!has) return HR_VISIT_STOP;
    }
    return HR_VISIT_ON;
}

static hr_visit is_weighted_sum(const hr_expr *node, const void *context) {
    score_search inner = *(const score_search *)context;
    inner.over = node;
    return hr_visit_until(node->op == HR_OP_REDUCE_SUM && hr_expr_find(node->args[0], is_weight, &inner));
}

bool hr_scores_find(const hr_function *function, bool *scores, bool *keys) {
    score_search s = {.function = function, .scores = scores, .keys = keys};
    bool weighted = false;
    memset(scores, 0, (size_t)function->tensor_count);
    memset(keys, 0, (size_t)function->extent_count);
    for (int i = 0; i < function->statement_count; i++)
        s.has_exponentials =
            s.has_exponentials || hr_expr_find(function->statements[i].value, is_exponential, NULL);
    for (int i = 0; i < function->statement_count; i++)
        hr_expr_visit(function->statements[i].value, mark_rows, &s);
    do {
        s.found = false;
        for (int i = 0; i < function->statement_count; i++) {
            s.made = &function->statements[i];
            hr_expr_visit(s.made->value, mark_like, &s);
        }
    } while (s.found);
    for (int i = 0; i < function->statement_count; i++) {
        s.made = &function->statements[i];
        weighted = weighted || hr_expr_find(s.made->value, is_weighted_sum, &s);
    }
    return weighted;
}
