/* Positions along an axis that is not the last. In: a unified graph. Out: the same, where argmax and argmin
 * of such elements are a maximum or minimum of columns and the first place that has it.
 *
 * Both are column sums, which go through memory as it lies; a search along each column would take one element
 * of every line.
 */
#include "plan/assumption.h"
#include "plan/passes.h"

/* Positions are told apart as f32, which column sums are. Of fewer columns a vector is mostly empty. */
enum { POSITIONS_MOST = 1 << 24, COLUMNS_LEAST = 8 };

static bool lies_across(const hr_function *function, const hr_statement *s) {
    const hr_expr *value = s->value, *body = value->args[0];
    if (!hr_op_finds_position(value->op) || s->store != HR_STORE_WHOLE || value->bound_count != 1)
        return false;
    if (body->op != HR_OP_ELEMENT || body->type != HR_F32 || hr_element_is_checked(function, body))
        return false;
    int rank = function->tensors[body->tensor].rank;
    const hr_expr *last = body->args[rank - 1];
    for (int i = 0; i < s->domain_count; i++)
        if (last->op == HR_OP_INDEX && last->index == s->domain[i]) return true;
    return false;
}

/* NAME[domain] = `reduce` over the statement's bound index of `body`; its element. */
static hr_expr *add_reduced(hr_graph *graph, const hr_statement *s, const char *name, hr_op reduce,
                            hr_expr *body) {
    hr_function *function = graph->function;
    hr_expr *shape[HR_AXES_MAX], *place[HR_AXES_MAX];
    for (int a = 0; a < s->domain_count; a++) {
        shape[a] = function->indices[s->domain[a]].extent;
        place[a] = hr_graph_index_value(graph, s->domain[a]);
    }
    int tensor = hr_graph_add_local(graph, name, HR_F32, s->domain_count, shape, -1);
    hr_expr *value = hr_graph_reduce(graph, reduce, HR_F32, 1, s->value->bound, body);
    hr_graph_add_statement(graph, tensor, s->domain_count, s->domain, value, s->place);
    return hr_graph_element(graph, tensor, s->domain_count, place);
}

/* The first place whose element is the largest (smallest) or, where there is one, NaN; of no elements 0. */
static hr_expr *position_of(hr_graph *graph, const hr_statement *s) {
    hr_expr *body = s->value->args[0];
    bool largest = hr_op_seeks_largest(s->value->op);
    hr_expr *most = add_reduced(graph, s, "most", largest ? HR_OP_REDUCE_MAX : HR_OP_REDUCE_MIN, body);
    hr_expr *found =
        hr_graph_binary(graph, HR_OP_OR, HR_BOOL, hr_graph_binary(graph, HR_OP_EQ, HR_BOOL, body, most),
                        hr_graph_binary(graph, HR_OP_NE, HR_BOOL, body, body));
    hr_expr *at = hr_graph_convert(graph, HR_F32, hr_graph_index_value(graph, s->value->bound[0]));
    hr_expr *none = hr_graph_number(graph, HR_F32, POSITIONS_MOST);
    hr_expr *first = add_reduced(graph, s, "first", HR_OP_REDUCE_MIN, hr_graph_where(graph, found, at, none));
    hr_expr *there = hr_graph_binary(graph, HR_OP_LT, HR_BOOL, first, none);
    return hr_graph_convert(graph, s->value->type,
                            hr_graph_where(graph, there, first, hr_graph_number(graph, HR_F32, 0)));
}

hr_status hr_pass_positions(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    for (int i = 0; i < function->statement_count && !graph->full; i++) {
        hr_statement statement = function->statements[i];
        double places, columns;
        if (!hr_op_finds_position(statement.value->op) || !lies_across(function, &statement)) continue;
        HR_TRY(hr_function_points(function, statement.value->bound, 1, extents, &places));
        HR_TRY(hr_function_points(function, statement.domain + statement.domain_count - 1, 1, extents,
                                  &columns));
        if (places >= POSITIONS_MOST || columns < COLUMNS_LEAST) continue;
        hr_assume(graph, function->indices[statement.value->bound[0]].extent, hr_graph_whole(graph, 0),
                  hr_graph_whole(graph, POSITIONS_MOST - 1));
        hr_expr *value = position_of(graph, &statement);
        function->statements[i].value = value;
        hr_graph_move_before(graph, i, 2);
        i += 2;
    }
    return hr_graph_status(graph);
}
