/* What is known of a derived kernel's locals by their statements: sums that are parts of others, masks. In: a
 * sum, an element. Out: the sum with a local in the place of the terms that it holds already; a condition. */
#include "grad/derivation.h"
#include "ir/types.h"
#include "ir/visit.h"

enum { PART_LEAST = 3 }; /* terms of a local that are worth reading in their place */

static int place_of_term(hr_terms sum, const hr_term *term, const bool *taken) {
    for (int i = 0; i < sum.count; i++)
        if (!taken[i] && sum.terms[i].coefficient == term->coefficient &&
            hr_term_is_like(&sum.terms[i], term))
            return i;
    return -1;
}

/* The sum with the local that the statement makes in the place of its terms; none where it lacks one. */
static hr_terms with_part(hr_algebra *algebra, hr_terms sum, const hr_statement *statement) {
    hr_graph *graph = algebra->graph;
    const hr_terms part = hr_terms_of(algebra, statement->value);
    bool *taken = hr_algebra_take(algebra, (size_t)sum.count + 1);
    hr_terms rest = {.terms = hr_algebra_take(algebra, (size_t)(sum.count + 1) * sizeof(hr_term))};
    if (part.count < PART_LEAST || part.count >= sum.count) return rest;
    for (int i = 0; i < part.count; i++) {
        const int at = place_of_term(sum, &part.terms[i], taken);
        if (at < 0) return rest;
        taken[at] = true;
    }
    for (int i = 0; i < sum.count; i++)
        if (!taken[i]) rest.terms[rest.count++] = sum.terms[i];
    return hr_terms_add(
        algebra, rest,
        hr_terms_of(algebra, hr_graph_element(graph, statement->tensor, statement->subscript_count,
                                              statement->subscripts)));
}

/* A sum that holds all of a local's is that local and the rest: dx = dr + ... */
hr_expr *hr_with_parts(hr_algebra *algebra, hr_expr *value) {
    const hr_function *function = algebra->graph->function;
    const hr_terms sum = hr_terms_of(algebra, value);
    for (int i = function->statement_count; i-- && !algebra->graph->full;) {
        const hr_statement *statement = &function->statements[i];
        const bool adds = statement->value->op == HR_OP_ADD || statement->value->op == HR_OP_SUB;
        if (!adds || statement->store != HR_STORE_WHOLE || statement->value->type != value->type ||
            function->tensors[statement->tensor].role != HR_ROLE_LOCAL)
            continue;
        const hr_terms less = with_part(algebra, sum, statement);
        if (less.count) return hr_terms_compose(algebra, less);
    }
    return value;
}

/* ---- masks of locals ---- */

static hr_visit is_float(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(hr_type_is_float(node->type));
}

/* The condition says something of where, not of how much. */
static bool is_of_places(const hr_expr *condition) {
    return !hr_expr_find(condition, is_float, NULL);
}

hr_expr *hr_mask_of_local(const hr_derivation *derivation, const hr_expr *element) {
    const hr_function *function = derivation->graph->function;
    if (element->op != HR_OP_ELEMENT || element->tensor < derivation->source->tensor_count) return NULL;
    for (int i = 0; i < function->statement_count; i++) {
        const hr_expr *value = function->statements[i].value;
        if (function->statements[i].tensor == element->tensor)
            return value->op == HR_OP_WHERE && hr_expr_is_zero(value->args[2]) &&
                           value->args[0]->type == HR_BOOL && is_of_places(value->args[0])
                       ? value->args[0]
                       : NULL;
    }
    return NULL;
}
