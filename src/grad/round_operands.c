/* Operands of the matrix products of a derived kernel. In: the body of a sum; statements. Out: the same,
 * where a computed operand is rounded to the 16 bits of the other one, once where it can be.
 */
#include "grad/derivation.h"
#include "ir/types.h"
#include "ir/visit.h"

static bool is_declared(const hr_derivation *derivation, const hr_expr *element) {
    if (element->op != HR_OP_ELEMENT) return false;
    const hr_tensor *tensor = &derivation->algebra->graph->function->tensors[element->tensor];
    return tensor->variable || tensor->dtype == HR_BF16 || tensor->dtype == HR_F16;
}

/* A matrix product takes both operands in 16 bits: a computed one is rounded to the dtype of the other, in
 * the text, so that the check knows of it. */
static hr_expr *rounded_like(hr_derivation *derivation, hr_expr *value, const hr_expr *other) {
    const hr_tensor *like = &derivation->algebra->graph->function->tensors[other->tensor];
    return hr_graph_intern(derivation->algebra->graph, &(hr_expr){.op = HR_OP_CONVERT,
                                                                  .type = hr_compute_type(like->dtype),
                                                                  .dtype = like->dtype,
                                                                  .variable = like->variable,
                                                                  .arg_count = 1,
                                                                  .args = &value});
}

/* The conversion with which a value, or a local's own statement, is rounded to 16 bits; NULL = it is not. */
static const hr_expr *rounding_of(const hr_derivation *derivation, const hr_expr *element) {
    const hr_function *function = derivation->algebra->graph->function;
    if (hr_rounds_to_half(element)) return element;
    if (element->op != HR_OP_ELEMENT) return NULL;
    for (int i = 0; i < function->statement_count; i++)
        if (function->statements[i].tensor == element->tensor)
            return hr_rounds_to_half(function->statements[i].value) ? function->statements[i].value : NULL;
    return NULL;
}

static bool is_rounded(const hr_derivation *derivation, const hr_expr *element) {
    return rounding_of(derivation, element) != NULL;
}

/* The body of a sum over `bound` as a matrix product's; the same where it is none. */
hr_expr *hr_product_rounded(hr_derivation *derivation, hr_expr *body, hr_index_set bound) {
    if (body->op != HR_OP_MUL) return body;
    hr_expr *sides[2] = {body->args[0], body->args[1]};
    const hr_index_set left = hr_free_indices(derivation->algebra, sides[0]),
                       right = hr_free_indices(derivation->algebra, sides[1]);
    if ((left & right & bound) != bound || !(left & ~right) || !(right & ~left)) return body;
    for (int i = 0; i < 2; i++) {
        const hr_expr *other = body->args[1 - i];
        const bool computed =
            sides[i]->op == HR_OP_ELEMENT && sides[i]->type == HR_F32 &&
            derivation->algebra->graph->function->tensors[sides[i]->tensor].role == HR_ROLE_LOCAL &&
            sides[i]->tensor >= derivation->source->tensor_count &&
            !hr_is_cotangent(derivation, sides[i]->tensor);
        if (!computed || is_rounded(derivation, sides[i])) continue;
        if (is_declared(derivation, other))
            sides[i] = rounded_like(derivation, sides[i], other);
        else if (rounding_of(derivation, other))
            sides[i] =
                hr_graph_with_args(derivation->algebra->graph, rounding_of(derivation, other), &sides[i]);
    }
    return hr_graph_with_args(derivation->algebra->graph, body, sides);
}

/* ---- rounded once ---- */

/* How statements read a local: as an operand that they round, in a sum of it alone, or in another way. */
typedef struct reading {
    int tensor, operands, sums, others;
    const hr_expr *rounding; /* of the operands */
} reading;

static bool is_element_of(const hr_expr *node, int tensor) {
    return node->op == HR_OP_ELEMENT && node->tensor == tensor;
}

static hr_visit note_reading(void *context, const hr_expr *node) {
    reading *r = context;
    const hr_expr *arg = node->arg_count == 1 ? node->args[0] : NULL;
    if (is_element_of(node, r->tensor)) r->others++;
    if (!arg || !is_element_of(arg, r->tensor)) return HR_VISIT_ON;
    if (node->op == HR_OP_REDUCE_SUM) {
        r->sums++;
        return HR_VISIT_PAST;
    }
    const bool same =
        !r->rounding || (r->rounding->dtype == node->dtype && r->rounding->variable == node->variable);
    if (!hr_rounds_to_half(node) || !same) return HR_VISIT_ON;
    r->rounding = node;
    r->operands++;
    return HR_VISIT_PAST;
}

/* The rounding belongs into the local's own statement: products take it, what else there is adds it up. It is
 * kept in 16 bits then. */
static bool is_rounded_once(const hr_function *function, const hr_statement *statement, reading *r) {
    *r = (reading){.tensor = statement->tensor};
    if (function->tensors[statement->tensor].role != HR_ROLE_LOCAL || statement->value->type != HR_F32 ||
        statement->store != HR_STORE_WHOLE || hr_rounds_to_half(statement->value))
        return false;
    for (int i = 0; i < function->statement_count; i++)
        hr_expr_visit(function->statements[i].value, note_reading, r);
    return r->operands && r->sums && !r->others;
}

/* A rounded element of the local is the element. */
static hr_expr *bare(void *context, hr_expr *node) {
    const reading *r = context;
    return hr_rounds_to_half(node) && is_element_of(node->args[0], r->tensor) ? node->args[0] : NULL;
}

void hr_round_once(hr_derivation *derivation) {
    hr_graph *graph = derivation->graph;
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        hr_statement *made = &function->statements[s];
        reading r;
        if (made->tensor < derivation->source->tensor_count || !is_rounded_once(function, made, &r)) continue;
        hr_rewriting rewriting = {.graph = graph, .before = bare, .context = &r};
        for (int i = 0; i < function->statement_count && !graph->full; i++)
            function->statements[i].value = hr_rewriting_of(&rewriting, function->statements[i].value);
        hr_rewriting_end(&rewriting);
        made->value = hr_graph_with_args(graph, r.rounding, &made->value);
    }
}
