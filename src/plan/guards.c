/* Guards that these extents make needless. In: a normalised graph and numbers for extents. Out: elements that
 * stay inside their axes wherever they are read, without the guard.
 *
 * A guard makes an element depend on all that its condition does: `k[b, h // G, j, d]` under `where(j <= i,
 * ...)` would be another one for each i, and no operand of a product. What is not a plain sum of indices is
 * compared with its axis as the kernel runs, with a guard or without: a text that is emitted for these
 * extents and called with others says so of an element that it does not choose, too, and reads none outside.
 */
#include "ir/visit.h"
#include "plan/passes.h"
#include "plan/whole_range.h"

typedef struct guards {
    hr_graph *graph;
    const int64_t *extents;
} guards;

/* Each subscript cannot leave its axis, or does not at these extents and is compared all the same. */
static bool stays_inside(const guards *g, const hr_expr *element) {
    const hr_function *function = g->graph->function;
    const hr_tensor *tensor = &function->tensors[element->tensor];
    for (int a = 0; a < tensor->rank; a++) {
        const hr_expr *subscript = element->args[a];
        hr_whole_range range;
        int64_t size;
        if (hr_subscript_is_safe(function, subscript, tensor->shape[a])) continue;
        if (hr_expr_is_affine(subscript)) return false;
        if (hr_extent_value(function, tensor->shape[a], g->extents, &size) != HR_OK) return false;
        if (!hr_whole_range_of(function, g->extents, subscript, &range)) return false;
        if (range.low < 0 || range.high >= size) return false;
    }
    return true;
}

static hr_expr *without(void *context, const hr_expr *node, hr_expr *const *args) {
    const guards *g = context;
    const hr_function *function = g->graph->function;
    if (node->op != HR_OP_ELEMENT || !hr_element_is_guarded(function, node) || !stays_inside(g, node))
        return hr_graph_with_args(g->graph, node, args);
    hr_expr *plain = hr_graph_element(g->graph, node->tensor, function->tensors[node->tensor].rank, args);
    plain->place = node->place;
    return plain;
}

hr_status hr_pass_guards(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    guards g = {.graph = graph, .extents = extents};
    hr_rewriting rewriting = {.graph = graph, .after = without, .context = &g};
    for (int i = 0; i < function->statement_count; i++)
        function->statements[i].value = hr_rewriting_of(&rewriting, function->statements[i].value);
    hr_rewriting_end(&rewriting);
    return hr_graph_status(graph);
}
