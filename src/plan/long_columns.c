/* Sums of columns that are too long to stand beside the passes over a row. In: a unified graph. Out: the
 * same, where cheap locals are made anew by whoever reads them.
 *
 * Such sums are a stage of their own, a strip of columns at a time: in the rows' stage they
 * would go to memory and back with every row. What both stages read would be written and read as a local:
 * each makes it anew from its inputs instead. Within a stage equal expressions are computed once all the
 * same.
 */
#include "ir/visit.h"
#include "plan/passes.h"

bool hr_columns_are_long(const hr_plan *plan, double columns) {
    return columns > plan->facts.columns_most;
}

/* The last subscript of some element is an index of the result: lanes run along the result. */
typedef struct sums {
    const hr_function *function;
    const hr_statement *statement;
} sums;

static hr_visit runs_along(const hr_expr *node, const void *context) {
    const sums *of = context;
    const int rank = node->op == HR_OP_ELEMENT ? of->function->tensors[node->tensor].rank : 0;
    const hr_expr *last = rank ? node->args[rank - 1] : NULL;
    return hr_visit_until(last && last->op == HR_OP_INDEX &&
                          hr_indices_have(of->statement->domain, of->statement->domain_count, last->index));
}

/* The sums of a product of two tensors are another stage's anyway. */
static hr_status sums_long_columns(const hr_plan *plan, hr_graph *graph, const int64_t *extents,
                                   const hr_statement *s, bool *out) {
    const hr_function *function = graph->function;
    hr_contract product;
    double columns;
    *out = false;
    if (!hr_op_is_reduction(s->value->op) || s->store != HR_STORE_WHOLE) return HR_OK;
    HR_TRY(hr_function_points(function, s->domain, s->domain_count, extents, &columns));
    if (!hr_columns_are_long(plan, columns) ||
        hr_contract_match(graph, s, plan->facts.set & HR_FACT_ROWS_CHOOSE, &product))
        return HR_OK;
    *out = hr_expr_find(s->value, runs_along, &(sums){function, s});
    return HR_OK;
}

hr_status hr_pass_long_columns(hr_graph *graph, const int64_t *extents, const hr_plan *plan) {
    const hr_function *function = graph->function;
    bool any = false;
    for (int i = 0; i < function->statement_count && !any; i++)
        HR_TRY(sums_long_columns(plan, graph, extents, &function->statements[i], &any));
    if (any) HR_TRY(hr_graph_inline_cheap(graph, plan->facts.set));
    if (any && !graph->full) hr_graph_drop_unread(graph);
    return hr_graph_status(graph);
}
