/* Means and variances in a text. In: a unified graph. Out: which statements they are. See means.h. */
#include "plan/means.h"

#include "ir/extent_form.h"
#include "ir/visit.h"
#include "plan/assumption.h"
#include "plan/whole_range.h"

const hr_expr *hr_squared_difference(const hr_expr *value) {
    const bool power = value->op == HR_OP_POW && value->args[1]->op == HR_OP_NUMBER &&
                       value->args[1]->type == HR_I64 && value->args[1]->whole == 2;
    const bool product = value->op == HR_OP_MUL && value->args[0] == value->args[1];
    if (!power && !product) return NULL;
    return value->args[0]->op == HR_OP_SUB ? value->args[0] : NULL;
}

/* ---- which statements ---- */

/* What gives the element its value, at the same indices; NULL = nothing, or an element of others. */
static hr_statement *made_by(hr_function *function, const hr_expr *element) {
    if (element->op != HR_OP_ELEMENT) return NULL;
    for (int s = 0; s < function->statement_count; s++) {
        hr_statement *statement = &function->statements[s];
        if (statement->tensor != element->tensor || statement->store != HR_STORE_WHOLE) continue;
        if (statement->domain_count != element->arg_count) return NULL;
        for (int i = 0; i < statement->domain_count; i++)
            if (element->args[i]->op != HR_OP_INDEX || element->args[i]->index != statement->domain[i])
                return NULL;
        return statement;
    }
    return NULL;
}

static int readers_of(const hr_function *function, int tensor) {
    int count = 0;
    for (int s = 0; s < function->statement_count; s++)
        count += hr_expr_reads(function->statements[s].value, tensor);
    return count;
}

bool hr_mean_find(hr_graph *graph, hr_statement *variance, hr_mean *out) {
    hr_function *function = graph->function;
    const hr_expr *squares = variance->value;
    if (squares->op != HR_OP_REDUCE_SUM || squares->type != HR_F32) return false;
    const hr_expr *difference = hr_squared_difference(squares->args[0]);
    if (!difference) return false;
    out->variance = variance;
    out->element = difference->args[0];
    out->mean = made_by(function, difference->args[1]);
    if (!out->mean || function->tensors[out->mean->tensor].dtype != HR_F32 ||
        out->mean->value->op != HR_OP_DIV)
        return false;
    out->sum = made_by(function, out->mean->value->args[0]);
    if (!out->sum || out->sum->value->op != HR_OP_REDUCE_SUM || out->sum->value->args[0] != out->element)
        return false;
    return function->tensors[out->sum->tensor].role == HR_ROLE_LOCAL &&
           readers_of(function, out->sum->tensor) == 1;
}

static hr_visit is_no_size(const hr_expr *node, const void *context) {
    (void)context;
    return hr_visit_until(node->type != HR_I64 ||
                          (node->op != HR_OP_NUMBER && node->op != HR_OP_EXTENT && node->op != HR_OP_ADD &&
                           node->op != HR_OP_SUB && node->op != HR_OP_MUL && node->op != HR_OP_FLOORDIV));
}

bool hr_mean_counts(hr_graph *graph, const int64_t *extents, const hr_mean *mean) {
    const hr_function *function = graph->function;
    const hr_expr *sum = mean->sum->value, *divisor = mean->mean->value->args[1];
    hr_expr *count = function->indices[sum->bound[0]].extent;
    for (int i = 1; i < sum->bound_count; i++)
        count = hr_graph_binary(graph, HR_OP_MUL, HR_I64, count, function->indices[sum->bound[i]].extent);
    while (divisor->op == HR_OP_CONVERT)
        divisor = divisor->args[0];
    if (divisor->op == HR_OP_NUMBER && divisor->type != HR_I64) {
        if (!(divisor->number >= 1 && divisor->number <= 0x1p52)) return false;
        divisor = hr_graph_whole(graph, (int64_t)divisor->number);
    }
    if (hr_expr_find(divisor, is_no_size, NULL)) return false;
    if (hr_extent_compare(divisor, count) == HR_SAME) return true;
    const interval elements = hr_whole_range_of(function, extents, count);
    const interval by = hr_whole_range_of(function, extents, divisor);
    if (!elements.known || !by.known || elements.low != by.low || elements.high != by.high) return false;
    hr_assume(graph, divisor, count, count);
    return true;
}

/* ---- what their elements are ---- */

static hr_visit hinders(const hr_expr *node, const void *context) {
    const hr_function *function = context;
    if (node->op == HR_OP_RANDOM || hr_op_is_reduction(node->op)) return HR_VISIT_STOP;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    return hr_visit_until(function->tensors[node->tensor].role == HR_ROLE_INOUT ||
                          hr_element_is_guarded(function, node) || hr_element_is_checked(function, node));
}

bool hr_reduction_is_plain(const hr_function *function, const hr_expr *reduction) {
    return !hr_expr_find(reduction->args[0], hinders, function);
}

static hr_visit runs_along(const hr_expr *node, const void *context) {
    const hr_expr *last =
        node->op == HR_OP_ELEMENT && node->arg_count ? node->args[node->arg_count - 1] : NULL;
    return hr_visit_until(last && last->op == HR_OP_INDEX && last->index == *(const int *)context);
}

bool hr_expr_runs_along(const hr_expr *expr, int index) {
    return hr_expr_find(expr, runs_along, &index) != NULL;
}

/* ---- more of them ---- */

hr_expr *hr_graph_local_before(hr_graph *graph, int number, const char *name, hr_expr *value) {
    const hr_statement model = graph->function->statements[number];
    const hr_tensor *like = &graph->function->tensors[model.tensor];
    hr_expr *subscripts[HR_AXES_MAX];
    int rank = like->rank, *domain = hr_arena_alloc(graph->arena, (size_t)(rank + 1) * sizeof *domain);
    for (int i = 0; i < rank; i++) {
        domain[i] = model.domain[i];
        subscripts[i] = hr_graph_index_value(graph, domain[i]);
    }
    name = hr_arena_format(graph->arena, "%.40s_%s", like->name, name);
    const int tensor = hr_graph_add_local(graph, name, HR_F32, rank, like->shape, -1);
    hr_graph_add_statement(graph, tensor, rank, domain, value, model.place);
    hr_graph_move_before(graph, number, 1);
    return hr_graph_element(graph, tensor, rank, subscripts);
}
