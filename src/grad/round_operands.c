/* Operands of the matrix products of a derived kernel. In: the body of a sum. Out: the same, where a computed
 * operand is rounded to the 16 bits of the other one.
 */
#include "grad/derivation.h"
#include "ir/types.h"

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
