/* Operands of the matrix products of a derived kernel. In: the body of a sum; statements. Out: the same,
 * where a computed operand is rounded to the 16 bits of the other one, once where it can be.
 */
#include "grad/affine.h"
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

typedef struct rounded_search {
    const hr_expr *element;
    const hr_expr *rounding;
} rounded_search;

static hr_visit find_rounded(void *context, const hr_expr *node) {
    rounded_search *s = context;
    if (hr_rounds_to_half(node) && node->args[0] == s->element) s->rounding = node;
    return HR_VISIT_ON;
}

/* How another product takes the element. */
static const hr_expr *rounding_elsewhere(const hr_derivation *derivation, const hr_expr *element) {
    const hr_function *function = derivation->algebra->graph->function;
    rounded_search s = {element, NULL};
    for (int i = 0; i < function->statement_count && !s.rounding; i++)
        hr_expr_visit(function->statements[i].value, find_rounded, &s);
    return s.rounding;
}

static bool is_computed(const hr_derivation *derivation, const hr_expr *side) {
    side = hr_expr_within(side);
    return side->op == HR_OP_ELEMENT && side->type == HR_F32 &&
           derivation->algebra->graph->function->tensors[side->tensor].role == HR_ROLE_LOCAL &&
           side->tensor >= derivation->source->tensor_count && !hr_is_cotangent(derivation, side->tensor);
}

/* where(c, a * b, 0) is where(c, a, 0) * b, if `a` is computed and has all indices of the condition. */
static void sides_of(hr_derivation *derivation, hr_expr *body, hr_expr **sides) {
    hr_algebra *algebra = derivation->algebra;
    sides[0] = sides[1] = NULL;
    hr_expr *product = body->op == HR_OP_WHERE && hr_expr_is_zero(body->args[2]) ? body->args[1] : body;
    if (product->op != HR_OP_MUL) return;
    if (product == body) {
        for (int i = 0; i < 2; i++)
            sides[i] = body->args[i];
        return;
    }
    const hr_index_set asked = hr_free_indices(algebra, body->args[0]);
    for (int i = 0; i < 2 && !sides[0]; i++) {
        hr_expr *within[] = {body->args[0], product->args[i], body->args[2]};
        if (!is_computed(derivation, product->args[i]) ||
            (asked & ~hr_free_indices(algebra, product->args[i])) || !hr_is_in_range(algebra, product))
            continue;
        sides[i] = hr_make(algebra, HR_OP_WHERE, 3, within);
        sides[1 - i] = product->args[1 - i];
    }
}

/* The body of a sum over `bound` as a matrix product's; the same where it is none. */
hr_expr *hr_product_rounded(hr_derivation *derivation, hr_expr *body, hr_index_set bound) {
    hr_graph *graph = derivation->algebra->graph;
    hr_expr *sides[2];
    sides_of(derivation, body, sides);
    if (!sides[0]) return body;
    const hr_index_set left = hr_free_indices(derivation->algebra, sides[0]),
                       right = hr_free_indices(derivation->algebra, sides[1]);
    if ((left & right & bound) != bound || !(left & ~right) || !(right & ~left)) return body;
    for (int i = 0; i < 2; i++) { /* one that is rounded already says how the other one is */
        const hr_expr *rounding = rounding_elsewhere(derivation, sides[i]);
        if (rounding && is_computed(derivation, sides[i]))
            sides[i] = hr_graph_with_args(graph, rounding, &sides[i]);
    }
    for (int i = 0; i < 2; i++) {
        const hr_expr *other = sides[1 - i];
        if (!is_computed(derivation, sides[i]) || is_rounded(derivation, sides[i])) continue;
        if (is_declared(derivation, other))
            sides[i] = rounded_like(derivation, sides[i], other);
        else if (rounding_of(derivation, other))
            sides[i] = hr_graph_with_args(graph, rounding_of(derivation, other), &sides[i]);
    }
    return hr_make_binary(derivation->algebra, HR_OP_MUL, sides[0], sides[1]);
}

/* ---- rounded once ---- */

/* How statements read a local: as an operand that they round, in a sum of it alone, or in another way. */
typedef struct reading {
    hr_graph *graph;
    int tensor, operands, sums, others;
    const hr_expr *rounding; /* of the operands */
    int rounded;             /* the local that is the rounded one; -1 = itself */
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

/* Products take the local, which its own statement does not round. */
static bool is_rounded_by_products(const hr_function *function, const hr_statement *statement, reading *r) {
    *r = (reading){.tensor = statement->tensor};
    if (function->tensors[statement->tensor].role != HR_ROLE_LOCAL || statement->value->type != HR_F32 ||
        statement->store != HR_STORE_WHOLE || hr_rounds_to_half(statement->value))
        return false;
    for (int i = 0; i < function->statement_count; i++)
        hr_expr_visit(function->statements[i].value, note_reading, r);
    return r->operands > 0;
}

/* A rounded element of the local is the element, or that of the local which is rounded. */
static hr_expr *bare(void *context, hr_expr *node) {
    const reading *r = context;
    if (!hr_rounds_to_half(node) || !is_element_of(node->args[0], r->tensor)) return NULL;
    hr_expr *element = node->args[0];
    return r->rounded < 0 ? element
                          : hr_graph_element(r->graph, r->rounded, element->arg_count, element->args);
}

/* A local of what products take of that one: its statement comes behind the one that makes it. */
static int rounded_add(hr_graph *graph, int number, const hr_expr *rounding) {
    hr_function *function = graph->function;
    const hr_statement made = function->statements[number];
    const hr_tensor *tensor = &function->tensors[made.tensor];
    const char *name = hr_arena_format(graph->arena, "%.40s16", tensor->name);
    hr_expr *value =
        hr_graph_element(graph, made.tensor, made.subscript_count, (hr_expr *const *)made.subscripts);
    const int local =
        hr_graph_add_local(graph, hr_name_fresh(graph, name), HR_F32, tensor->rank, tensor->shape, -1);
    hr_graph_add_statement(graph, local, made.domain_count, made.domain,
                           hr_graph_with_args(graph, rounding, &value), made.place);
    hr_graph_move_before(graph, number + 1, 1);
    return local;
}

/* Once in all: where what else there is adds the local up, in its own statement, which keeps it in 16 bits
 * then; elsewhere as a local of its own. */
void hr_round_once(hr_derivation *derivation) {
    hr_graph *graph = derivation->graph;
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        const int tensor = function->statements[s].tensor;
        reading r;
        if (tensor < derivation->source->tensor_count ||
            !is_rounded_by_products(function, &function->statements[s], &r))
            continue;
        const bool own = r.sums && !r.others;
        if (!own && !(r.others && r.operands > 1)) continue;
        r.graph = graph;
        r.rounded = own ? -1 : rounded_add(graph, s, r.rounding);
        hr_rewriting rewriting = {.graph = graph, .before = bare, .context = &r};
        for (int i = own ? 0 : s + 2; i < function->statement_count && !graph->full; i++)
            function->statements[i].value = hr_rewriting_of(&rewriting, function->statements[i].value);
        hr_rewriting_end(&rewriting);
        if (own)
            function->statements[s].value =
                hr_graph_with_args(graph, r.rounding, &function->statements[s].value);
    }
}
