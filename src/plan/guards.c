/* Guards that these extents make needless. In: a normalised graph and numbers for extents. Out: elements that
 * stay inside their axes wherever they are read, without the guard.
 *
 * A guard makes an element depend on all that its condition does: `k[b, h // G, j, d]` under `where(j <= i,
 * ...)` would be another one for each i, and no operand of a product. What is not a plain sum of indices is
 * compared with its axis as the kernel runs, with a guard or without: none outside is ever read. At other
 * extents elements that are not chosen would be reported, though; so that they stay inside is assumed.
 */
#include "ir/visit.h"
#include "plan/assumption.h"
#include "plan/passes.h"

typedef struct guards {
    hr_graph *graph;
    const int64_t *extents;
} guards;

static hr_assumption inside(hr_graph *graph, const hr_expr *subscript, hr_expr *axis) {
    hr_expr *zero = hr_graph_whole(graph, 0), *one = hr_graph_whole(graph, 1);
    return (hr_assumption){subscript, zero, hr_graph_binary(graph, HR_OP_SUB, HR_I64, axis, one), NULL};
}

/* Each subscript cannot leave its axis, or does not at these extents and is compared all the same. */
static bool stays_inside(const guards *g, const hr_expr *element) {
    const hr_function *function = g->graph->function;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = element->args[a];
        if (hr_subscript_is_safe(function, subscript, tensor->shape[a])) continue;
        if (hr_expr_is_affine(subscript)) return false;
        const hr_assumption assumption = inside(g->graph, subscript, tensor->shape[a]);
        if (!hr_assumption_holds(function, &assumption, g->extents)) return false;
    }
    return true;
}

static void assume_inside(const guards *g, const hr_expr *element) {
    const hr_function *function = g->graph->function;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++) {
        if (hr_subscript_is_safe(function, element->args[a], tensor->shape[a])) continue;
        const hr_assumption assumption = inside(g->graph, element->args[a], tensor->shape[a]);
        hr_assume(g->graph, assumption.value, assumption.least, assumption.most);
    }
}

static hr_expr *without(void *context, const hr_expr *node, hr_expr *const *args) {
    const guards *g = context;
    const hr_function *function = g->graph->function;
    if (node->op != HR_OP_ELEMENT || !hr_element_is_guarded(function, node) || !stays_inside(g, node))
        return hr_graph_with_args(g->graph, node, args);
    assume_inside(g, node);
    hr_expr *plain = hr_graph_element(g->graph, node->tensor, function->tensors[node->tensor].rank, args);
    plain->place = node->place;
    return plain;
}

hr_status hr_pass_guards(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    guards g = {.graph = graph, .extents = graph->any_extents ? NULL : extents};
    hr_rewriting rewriting = {.graph = graph, .after = without, .context = &g};
    for (int i = 0; i < function->statement_count; i++)
        function->statements[i].value = hr_rewriting_of(&rewriting, function->statements[i].value);
    hr_rewriting_end(&rewriting);
    return hr_graph_status(graph);
}
