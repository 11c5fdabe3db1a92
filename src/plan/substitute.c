/* An index becomes a number. In: expressions. Out: the same where the index has that value, folded. */
#include "base/memory.h"
#include "plan/fold.h"
#include "plan/passes.h"

#include <stdlib.h>

/* An element whose places are all on their axes needs no condition. */
static hr_expr *drop_guard(hr_graph *graph, const hr_expr *node, hr_expr *const *args) {
    if (node->op != HR_OP_ELEMENT || !hr_element_is_guarded(graph->function, node)) return NULL;
    const hr_tensor *tensor = &graph->function->tensors[node->tensor];
    for (int a = 0; a < tensor->rank; a++)
        if (!hr_subscript_is_safe(graph->function, args[a], tensor->shape[a])) return NULL;
    return hr_graph_element(graph, node->tensor, tensor->rank, args);
}

hr_expr *hr_substituted(hr_substitution *w, hr_expr *node) {
    if (node->op == HR_OP_INDEX) return node->index == w->index ? w->number : node;
    if (!node->arg_count) return node;
    if (node->id < w->memo_count && w->memo[node->id]) return w->memo[node->id];
    hr_expr *args[HR_AXES_MAX + 2];
    for (int i = 0; i < node->arg_count; i++)
        args[i] = hr_substituted(w, node->args[i]);
    hr_expr *result = drop_guard(w->graph, node, args);
    if (!result) result = hr_fold(w->graph, node, args);
    if (node->id < w->memo_count) w->memo[node->id] = result;
    return result;
}

hr_substitution hr_substitution_begin(hr_graph *graph, int index, int64_t value) {
    hr_substitution w = {.graph = graph,
                         .index = index,
                         .number = hr_graph_whole(graph, value),
                         .memo_count = graph->function->expr_count};
    w.memo = hr_memory_zeros((size_t)w.memo_count + 1, sizeof *w.memo);
    if (!w.memo) graph->full = true;
    return w;
}

void hr_substitution_end(hr_substitution *w) {
    free(w->memo);
}

hr_expr *hr_expr_at(hr_graph *graph, hr_expr *expr, int index, int64_t value) {
    hr_substitution w = hr_substitution_begin(graph, index, value);
    hr_expr *result = w.memo ? hr_substituted(&w, expr) : graph->placeholder;
    hr_substitution_end(&w);
    return result;
}
