/* Classes of blocks. In: a condition on queries and keys. Out: its terms. See mask_class.h. */
#include "plan/mask_class.h"

#include "ir/graph.h"
#include "ir/visit.h"

enum { DEPTH_MOST = 32 }; /* of a condition: what is deeper is unknown */

/* ---- what a node is ---- */

typedef struct index_group {
    const int *index;
    int count;
} index_group;

static hr_visit is_of_group(const hr_expr *node, const void *context) {
    const index_group *group = context;
    return hr_visit_until(node->op == HR_OP_INDEX &&
                          hr_indices_have(group->index, group->count, node->index));
}

static bool has(const hr_expr *node, index_group group) {
    return hr_expr_find(node, is_of_group, &group);
}

static hr_visit is_element_of_group(const hr_expr *node, const void *context) {
    return hr_visit_until(node->op == HR_OP_ELEMENT && hr_expr_find(node, is_of_group, context));
}

/* Something that is read where it is may be read for whole blocks. */
static hr_visit is_in_the_way(const hr_expr *node, const void *context) {
    const hr_function *function = context;
    return hr_visit_until(hr_op_is_reduction(node->op) || node->op == HR_OP_RANDOM ||
                          (node->op == HR_OP_ELEMENT && hr_element_is_checked(function, node)));
}

static bool is_whole(hr_dtype type) {
    return type == HR_I32 || type == HR_I64 || type == HR_BOOL;
}

static bool combines(const hr_expr *node) {
    switch (node->op) {
    case HR_OP_LT:
    case HR_OP_LE:
    case HR_OP_GT:
    case HR_OP_GE:
    case HR_OP_EQ:
    case HR_OP_NE:
        return is_whole(node->args[0]->type) && is_whole(node->args[1]->type);
    case HR_OP_AND:
    case HR_OP_OR:
    case HR_OP_NOT:
    case HR_OP_ADD:
    case HR_OP_SUB:
    case HR_OP_NEG:
    case HR_OP_MIN:
    case HR_OP_MAX:
        return true;
    default:
        return false;
    }
}

hr_mask_part hr_mask_part_of(const hr_plan *plan, const hr_contract *scores, const hr_expr *node) {
    const index_group queries = {scores->m, scores->m_count}, keys = {scores->n, scores->n_count};
    const bool of_query = has(node, queries), of_key = has(node, keys);
    if (!is_whole(node->type) || hr_expr_find(node, is_in_the_way, plan->normal)) return HR_MASK_UNKNOWN;
    if (!of_query && !of_key) return HR_MASK_NUMBER;
    if (of_query && !of_key && hr_expr_find(node, is_element_of_group, &queries)) return HR_MASK_QUERIES;
    if (of_key && !of_query && hr_expr_find(node, is_element_of_group, &keys)) return HR_MASK_KEYS;
    if (node->op == HR_OP_INDEX) return HR_MASK_PLACE;
    return combines(node) ? HR_MASK_OPERATION : HR_MASK_UNKNOWN;
}

/* ---- its terms ---- */

typedef struct term_search {
    const hr_plan *plan;
    const hr_contract *scores;
    hr_mask_classes *out;
    bool full;
} term_search;

static void add_term(term_search *s, const hr_expr **terms, int *count, const hr_expr *term) {
    for (int i = 0; i < *count; i++)
        if (terms[i] == term) return;
    if (*count == HR_MASK_TERMS_MOST)
        s->full = true;
    else
        terms[(*count)++] = term;
}

/* Collects the node's terms; false where it may be anything. */
static bool collect(term_search *s, const hr_expr *node, int depth) {
    hr_mask_classes *out = s->out;
    const hr_mask_part part =
        depth < DEPTH_MOST ? hr_mask_part_of(s->plan, s->scores, node) : HR_MASK_UNKNOWN;
    if (part == HR_MASK_QUERIES) add_term(s, out->of_query, &out->query_count, node);
    if (part == HR_MASK_KEYS) add_term(s, out->of_key, &out->key_count, node);
    if (part != HR_MASK_OPERATION) return part != HR_MASK_UNKNOWN;
    const bool either = node->op == HR_OP_AND || node->op == HR_OP_OR;
    int known = 0;
    for (int i = 0; i < node->arg_count; i++)
        known += collect(s, node->args[i], depth + 1);
    return either ? known > 0 : known == node->arg_count;
}

bool hr_mask_classes_find(const hr_plan *plan, const hr_contract *scores, const hr_expr *condition,
                          hr_mask_classes *out) {
    *out = (hr_mask_classes){0};
    if (!condition || scores->n_count != 1) return false;
    term_search s = {plan, scores, out, false};
    const bool known = collect(&s, condition, 0) && !s.full;
    out->batch = hr_arena_alloc(plan->arena, ((size_t)scores->batch_count + 1) * sizeof *out->batch);
    for (int i = 0; i < scores->batch_count; i++)
        if (hr_expr_has_index(condition, scores->batch[i])) out->batch[out->batch_count++] = scores->batch[i];
    return known;
}
