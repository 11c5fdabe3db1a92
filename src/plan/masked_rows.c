/* Sums of rows whose weights a mask makes 0. In: a unified graph whose operands are inlined. Out: the same,
 * where such a sum leaves out what the mask does.
 *
 *     o[e] = sum[j](softmax[j](where(c, s[j], -inf)) * v[j, e])
 *
 * Past the mask weights are 0, and what they weigh changes nothing: be it infinite or NaN, as in a cache that
 * is not full. A weight that is NaN, as all are in a row of which nothing is left, still counts. Products of
 * matrices leave it out by themselves (hr_contract.seen).
 */
#include "base/dtype.h"
#include "ir/visit.h"
#include "plan/passes.h"

#include <math.h>

enum { DEPTH_MOST = 12 }; /* of an expression: what is deeper is not looked at */

/* The condition outside of which a value is 0, or NaN where it has exponentials; NULL = none is known. */
typedef struct row_mask {
    hr_expr *condition;
    bool softmax;
} row_mask;

static row_mask mask_of(hr_graph *graph, hr_expr *value, int depth);

/* What a local's element is made from; the element itself where it is no local's, or is not in range just so.
 */
static hr_expr *made_from(hr_graph *graph, hr_expr *element) {
    const hr_function *function = graph->function;
    if (element->op != HR_OP_ELEMENT || function->tensors[element->tensor].role != HR_ROLE_LOCAL ||
        element->arg_count != function->tensors[element->tensor].rank)
        return element;
    for (int i = 0; i < function->statement_count; i++) {
        const hr_statement *s = &function->statements[i];
        if (s->tensor != element->tensor) continue;
        if (s->store != HR_STORE_WHOLE || s->domain_count != element->arg_count ||
            hr_op_is_reduction(s->value->op) || hr_op_is_scan(s->value->op))
            return element;
        return hr_graph_substitute(graph, s->value, s->domain_count, s->domain, element->args);
    }
    return element;
}

/* exp(score - shift), whose score is -inf where the mask does not hold. */
static row_mask mask_of_exponential(hr_graph *graph, const hr_expr *node) {
    hr_expr *score = node->args[0]->op == HR_OP_SUB ? node->args[0]->args[0] : node->args[0];
    for (int depth = 0; depth < DEPTH_MOST && score->op == HR_OP_ELEMENT; depth++) {
        hr_expr *made = made_from(graph, score);
        if (made == score) break;
        score = made;
    }
    const bool masked = score->op == HR_OP_WHERE && hr_expr_is_minus_infinity(score->args[2]);
    return (row_mask){masked ? score->args[0] : NULL, true};
}

static row_mask mask_of(hr_graph *graph, hr_expr *value, int depth) {
    if (!depth || graph->full) return (row_mask){0};
    switch (value->op) {
    case HR_OP_ELEMENT: {
        hr_expr *made = made_from(graph, value);
        return made == value ? (row_mask){0} : mask_of(graph, made, depth - 1);
    }
    case HR_OP_WHERE:
        return (row_mask){hr_expr_is_zero(value->args[2]) ? value->args[0] : NULL, false};
    case HR_OP_EXP:
        return mask_of_exponential(graph, value);
    case HR_OP_MUL: {
        const row_mask left = mask_of(graph, value->args[0], depth - 1);
        return left.condition ? left : mask_of(graph, value->args[1], depth - 1);
    }
    case HR_OP_CONVERT:
    case HR_OP_NEG:
    case HR_OP_DIV:
        return mask_of(graph, value->args[0], depth - 1);
    default:
        return (row_mask){0};
    }
}

/* It can be asked wherever the sum stands, and says which places count: indices and whole-number inputs
 * alone, in range. */
static hr_visit is_elsewhere(const hr_expr *node, const void *context) {
    const hr_function *function = context;
    return hr_visit_until(
        hr_op_is_reduction(node->op) || node->op == HR_OP_RANDOM || hr_dtype_is_float(node->type) ||
        (node->op == HR_OP_ELEMENT &&
         (function->tensors[node->tensor].role != HR_ROLE_INPUT || hr_element_is_checked(function, node))));
}

static hr_visit is_weighed(const hr_expr *node, const void *nothing) {
    (void)nothing;
    return hr_visit_until(node->op == HR_OP_ELEMENT);
}

/* The sum's body under the mask of one of its two factors; the same where there is none. */
static hr_expr *masked_body(hr_graph *graph, hr_expr *body) {
    for (int side = 0; side < 2; side++) {
        hr_expr *weight = body->args[side];
        if (!hr_expr_find(body->args[1 - side], is_weighed, NULL)) continue;
        const row_mask mask = mask_of(graph, weight, DEPTH_MOST);
        if (!mask.condition || hr_expr_find(mask.condition, is_elsewhere, graph->function)) continue;
        hr_expr *zero = hr_graph_number(graph, body->type, 0), *seen = mask.condition;
        if (mask.softmax)
            seen = hr_graph_binary(graph, HR_OP_OR, HR_BOOL, seen,
                                   hr_graph_binary(graph, HR_OP_NE, HR_BOOL, weight, zero));
        return hr_graph_where(graph, seen, body, zero);
    }
    return body;
}

hr_status hr_pass_masked_rows(hr_graph *graph, hr_plan *plan) {
    hr_function *function = graph->function;
    hr_contract product;
    plan->masked_count = 0;
    plan->masked =
        hr_arena_alloc(plan->arena, ((size_t)function->statement_count + 1) * sizeof *plan->masked);
    for (int i = 0; i < function->statement_count && !graph->full; i++) {
        hr_expr *value = function->statements[i].value;
        if (value->op != HR_OP_REDUCE_SUM || value->args[0]->op != HR_OP_MUL || value->type == HR_I64 ||
            hr_contract_match(graph, &function->statements[i], plan->facts.set, &product))
            continue;
        hr_expr *body = masked_body(graph, value->args[0]);
        if (body == value->args[0]) continue;
        function->statements[i].value = hr_graph_with_args(graph, value, &body);
        plan->masked[plan->masked_count++] = function->statements[i].tensor;
    }
    return hr_graph_status(graph);
}
