/* A function in f64. In: a function. Out: the same with nothing rounded on the way. */
#include "grad/gradient.h"
#include "ir/types.h"
#include "ir/visit.h"

static hr_dtype widened(hr_dtype dtype) {
    return hr_type_is_float(hr_compute_type(dtype)) ? HR_F64 : dtype;
}

static hr_expr *in_f64(void *context, const hr_expr *node, hr_expr *const *args) {
    hr_graph *graph = context;
    hr_expr model = *node;
    model.args = (hr_expr **)args;
    model.type = widened(node->type);
    model.dtype = widened(node->dtype);
    if (node->op == HR_OP_CONVERT && args[0]->type == HR_F64 && model.dtype == HR_F64) return args[0];
    return hr_graph_intern(graph, &model);
}

hr_status hr_function_in_f64(const hr_function *function, hr_arena *arena, const hr_function **out) {
    hr_graph *graph = hr_graph_create(function, arena);
    hr_function *wide = graph->function;
    for (int t = hr_function_arguments(function); t < function->tensor_count; t++) {
        const hr_tensor *local = &function->tensors[t];
        hr_graph_add_local(graph, local->name, local->dtype, local->rank, local->shape, -1);
    }
    for (int t = 0; t < wide->tensor_count; t++)
        wide->tensors[t].dtype = widened(wide->tensors[t].dtype);
    hr_rewriting rewriting = {.graph = graph, .after = in_f64, .context = graph};
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        const hr_statement *old = &function->statements[s];
        hr_statement *statement = hr_graph_add_statement(graph, old->tensor, old->domain_count, old->domain,
                                                         hr_rewriting_of(&rewriting, old->value), old->place);
        statement->store = old->store;
        statement->subscript_count = old->subscript_count;
        statement->subscripts =
            hr_arena_alloc(arena, (size_t)(old->subscript_count + 1) * sizeof *old->subscripts);
        for (int a = 0; a < old->subscript_count; a++)
            statement->subscripts[a] = hr_rewriting_of(&rewriting, old->subscripts[a]);
    }
    hr_rewriting_end(&rewriting);
    *out = wide;
    return hr_graph_status(graph);
}
