/* An index becomes a number. In: expressions. Out: the same where the index has that value, folded. */
#include "plan/fold.h"
#include "plan/passes.h"

/* An element whose places are all on their axes needs no condition. */
static hr_expr *drop_guard(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    if (node->op != HR_OP_ELEMENT || !hr_element_is_guarded(graph->function, node)) return NULL;
    const hr_tensor *tensor = &graph->function->tensors[node->tensor];
    for (int a = 0; a < tensor->rank; a++)
        if (!hr_subscript_is_safe(graph->function, args[a], tensor->shape[a])) return NULL;
    return hr_graph_element(graph, node->tensor, tensor->rank, args);
}

static hr_expr *before(void *context, hr_expr *node) {
    const hr_substitution *s = context;
    if (node->op == HR_OP_INDEX) return node->index == s->index ? s->number : node;
    return node->arg_count ? NULL : node;
}

static hr_expr *after(void *context, const hr_expr *node, hr_expr *const *args) {
    const hr_substitution *s = context;
    hr_expr *element = drop_guard(s->rewriting.graph, node, args);
    return element ? element : hr_fold(s->rewriting.graph, node, args);
}

hr_expr *hr_substituted(hr_substitution *substitution, hr_expr *node) {
    return hr_rewriting_of(&substitution->rewriting, node);
}

void hr_substitution_begin(hr_graph *graph, int index, int64_t value, hr_substitution *out) {
    *out = (hr_substitution){.index = index,
                             .number = hr_graph_whole(graph, value),
                             .rewriting = {graph, before, after, out, {0}}};
}

void hr_substitution_end(hr_substitution *substitution) {
    hr_rewriting_end(&substitution->rewriting);
}

hr_expr *hr_expr_at(hr_graph *graph, hr_expr *expr, int index, int64_t value) {
    hr_substitution s;
    hr_substitution_begin(graph, index, value, &s);
    hr_expr *result = hr_substituted(&s, expr);
    hr_substitution_end(&s);
    return result;
}
