/* Rows that stand behind a product and before what follows from both: gradients of scores from the product of
 * the result's gradient with values, and from a number for each query. In: a graph. Out: the same, such a row
 * in front of the product, where nothing that it reads is made later.
 *
 * A product's stage ends with what can be made of it by then. Done before, the row does not part them, and
 * the product need not be kept.
 */
#include "ir/visit.h"
#include "plan/passes.h"

#include <string.h>

typedef struct row_search {
    const hr_function *function;
    int before; /* statement */
} row_search;

/* An element that a statement from `before` on makes. */
static hr_visit is_made_later(const hr_expr *node, const void *context) {
    const row_search *search = context;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    for (int s = search->before; s < search->function->statement_count; s++)
        if (search->function->statements[s].tensor == node->tensor) return HR_VISIT_STOP;
    return HR_VISIT_ON;
}

/* Some statement over the product's indices reads both. */
static bool meets(const hr_function *function, int product, int row) {
    for (int s = product + 1; s < function->statement_count; s++) {
        const hr_statement *statement = &function->statements[s];
        if (!hr_op_is_reduction(statement->value->op) &&
            statement->domain_count == function->statements[product].domain_count &&
            hr_expr_reads(statement->value, function->statements[product].tensor) &&
            hr_expr_reads(statement->value, function->statements[row].tensor))
            return true;
    }
    return false;
}

/* A row behind the product that may stand before it; -1 = there is none. */
static int row_of(hr_graph *graph, unsigned facts, int product) {
    const hr_function *function = graph->function;
    const row_search search = {function, product};
    for (int row = product + 1; row < function->statement_count; row++) {
        const hr_statement *s = &function->statements[row];
        hr_contract found;
        if (s->store == HR_STORE_WHOLE && hr_op_is_reduction(s->value->op) &&
            s->domain_count < function->statements[product].domain_count &&
            graph->storage[s->tensor] == s->tensor && meets(function, product, row) &&
            !hr_expr_find(s->value, is_made_later, &search) && !hr_contract_match(graph, s, facts, &found))
            return row;
    }
    return -1;
}

hr_status hr_pass_rows_first(hr_graph *graph, const hr_plan *plan) {
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count; s++) {
        hr_contract product;
        if (!hr_op_is_reduction(function->statements[s].value->op) ||
            !hr_contract_match(graph, &function->statements[s], plan->facts.set, &product))
            continue;
        const int row = row_of(graph, plan->facts.set, s);
        if (row < 0) continue;
        const hr_statement moved = function->statements[row];
        memmove(&function->statements[s + 1], &function->statements[s],
                (size_t)(row - s) * sizeof *function->statements);
        function->statements[s] = moved;
    }
    return hr_graph_status(graph);
}
