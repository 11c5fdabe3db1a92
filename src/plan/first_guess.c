/* Rows whose mean and variance are sums about their first element. In: a unified graph. Out: the same, where
 * the sum of a row's elements f, of which its mean is made, is that of f - g.
 *
 *     mean = sum(f) / N = g + sum(f - g) / N,    sum((f - mean)^2) from sums of f - g and (f - g)^2
 *
 * for any g. Where elements are far from 0 and near each other, the first of them is one: sums of what is
 * left lose no digits. The mean of a row of equal numbers is that number, its variance is 0, as a running
 * mean (Welford's) has it, and the variance of rows with a large mean follows from sums of their only walk,
 * too (variance.c). Elsewhere g is 0, which loses nothing: a guess that is as large as the elements differ
 * would cost the mean digits, and one that is far from all others most of them. So some elements are asked
 * first whether they are near.
 */
#include "ir/visit.h"
#include "plan/assumption.h"
#include "plan/passes.h"

#include <string.h>

#define GUESS_MOST 1e30 /* no difference to it leaves f32's range before the elements do */
#define FAR        64.0 /* from 0, in their greatest distance */
enum {
    NEAR = 3,
    ELEMENTS_LEAST = 64
}; /* elements after the first that are asked, beside the last; of a row */

typedef struct mean_of {
    hr_statement *sum, *mean;
    hr_expr *element; /* f */
} mean_of;

/* ---- where it is so ---- */

/* f - mean squared: the difference, else NULL. */
static const hr_expr *squared_difference(const hr_expr *value) {
    const bool power = value->op == HR_OP_POW && value->args[1]->op == HR_OP_NUMBER &&
                       value->args[1]->type == HR_I64 && value->args[1]->whole == 2;
    const bool product = value->op == HR_OP_MUL && value->args[0] == value->args[1];
    if (!power && !product) return NULL;
    return value->args[0]->op == HR_OP_SUB ? value->args[0] : NULL;
}

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

/* A row is read as it lies, and nothing of it depends on data or is written over. */
typedef struct row_of {
    const hr_function *function;
    int lane;
} row_of;

static hr_visit hinders(const hr_expr *node, const void *context) {
    const row_of *row = context;
    if (node->op == HR_OP_RANDOM || hr_op_is_reduction(node->op)) return HR_VISIT_STOP;
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    const hr_tensor *tensor = &row->function->tensors[node->tensor];
    return hr_visit_until(tensor->role == HR_ROLE_INOUT || hr_element_is_guarded(row->function, node) ||
                          hr_element_is_checked(row->function, node));
}

static hr_visit runs_along(const hr_expr *node, const void *context) {
    const row_of *row = context;
    const hr_expr *last =
        node->op == HR_OP_ELEMENT && node->arg_count ? node->args[node->arg_count - 1] : NULL;
    return hr_visit_until(last && last->op == HR_OP_INDEX && last->index == row->lane);
}

static bool is_row(const hr_function *function, const hr_expr *sum) {
    const row_of row = {function, sum->bound[sum->bound_count - 1]};
    return !hr_expr_find(sum->args[0], hinders, &row) && hr_expr_find(sum->args[0], runs_along, &row);
}

/* The sum of squared differences to a mean, sum / count, of just the same elements. */
static bool find_mean(hr_graph *graph, const hr_statement *variance, mean_of *out) {
    hr_function *function = graph->function;
    const hr_expr *squares = variance->value;
    if (squares->op != HR_OP_REDUCE_SUM || squares->type != HR_F32) return false;
    const hr_expr *difference = squared_difference(squares->args[0]);
    if (!difference) return false;
    out->element = difference->args[0];
    out->mean = made_by(function, difference->args[1]);
    if (!out->mean || function->tensors[out->mean->tensor].dtype != HR_F32 ||
        out->mean->value->op != HR_OP_DIV)
        return false;
    out->sum = made_by(function, out->mean->value->args[0]);
    if (!out->sum || out->sum->value->op != HR_OP_REDUCE_SUM || out->sum->value->args[0] != out->element)
        return false;
    return function->tensors[out->sum->tensor].role == HR_ROLE_LOCAL &&
           readers_of(function, out->sum->tensor) == 1 && is_row(function, out->sum->value);
}

/* ---- what becomes of it ---- */

static bool has_elements(const hr_function *function, const hr_expr *sum, const int64_t *extents) {
    for (int i = 0; i < sum->bound_count; i++) {
        int64_t size;
        if (hr_extent_value(function, function->indices[sum->bound[i]].extent, extents, &size) != HR_OK ||
            size < (i == sum->bound_count - 1 ? ELEMENTS_LEAST : 1))
            return false;
    }
    return true;
}

static hr_expr *distance(hr_graph *graph, hr_expr *a, hr_expr *b) {
    return hr_graph_unary(graph, HR_OP_ABS, HR_F32, hr_graph_binary(graph, HR_OP_SUB, HR_F32, a, b));
}

static hr_expr *guess_of(hr_graph *graph, const hr_expr *sum) {
    const int lane = sum->bound[sum->bound_count - 1];
    hr_expr *row = sum->args[0], *extent = graph->function->indices[lane].extent;
    for (int i = 0; i < sum->bound_count - 1; i++)
        row = hr_expr_at(graph, row, sum->bound[i], 0);
    hr_expr *last = hr_graph_binary(graph, HR_OP_SUB, HR_I64, extent, hr_graph_whole(graph, 1));
    hr_expr *first = hr_expr_at(graph, row, lane, 0);
    hr_expr *most = distance(graph, hr_graph_substitute(graph, row, 1, &lane, &last), first);
    for (int i = 1; i <= NEAR; i++)
        most = hr_graph_binary(graph, HR_OP_MAX, HR_F32, most,
                               distance(graph, hr_expr_at(graph, row, lane, i), first));
    most = hr_graph_binary(graph, HR_OP_MUL, HR_F32, most, hr_graph_number(graph, HR_F32, FAR));
    hr_expr *size = hr_graph_unary(graph, HR_OP_ABS, HR_F32, first);
    hr_expr *bound = hr_graph_number(graph, HR_F32, GUESS_MOST);
    hr_expr *is_guess =
        hr_graph_binary(graph, HR_OP_AND, HR_BOOL, hr_graph_binary(graph, HR_OP_LE, HR_BOOL, most, size),
                        hr_graph_binary(graph, HR_OP_LE, HR_BOOL, size, bound));
    return hr_graph_where(graph, is_guess, first, hr_graph_number(graph, HR_F32, 0));
}

/* A local of its own, before the sum. */
static hr_expr *guess_element(hr_graph *graph, int number, const hr_expr *guess) {
    const hr_statement sum = graph->function->statements[number];
    const hr_tensor *total = &graph->function->tensors[sum.tensor];
    hr_expr *subscripts[HR_AXES_MAX];
    int rank = total->rank, *domain = hr_arena_alloc(graph->arena, (size_t)(rank + 1) * sizeof *domain);
    for (int i = 0; i < rank; i++) {
        domain[i] = sum.domain[i];
        subscripts[i] = hr_graph_index_value(graph, domain[i]);
    }
    const char *name = hr_arena_format(graph->arena, "%.40s_about", total->name);
    const int tensor = hr_graph_add_local(graph, name, HR_F32, rank, total->shape, -1);
    hr_graph_add_statement(graph, tensor, rank, domain, (hr_expr *)guess, sum.place);
    hr_graph_move_before(graph, number, 1);
    return hr_graph_element(graph, tensor, rank, subscripts);
}

static void sum_about(hr_graph *graph, const mean_of *found) {
    hr_function *function = graph->function;
    const int total = (int)(found->sum - function->statements),
              mean = (int)(found->mean - function->statements);
    const hr_expr *sum = found->sum->value;
    for (int i = 0; i < sum->bound_count; i++) {
        const hr_expr *extent = function->indices[sum->bound[i]].extent;
        const int64_t least = i == sum->bound_count - 1 ? NEAR + 1 : 1;
        hr_assume(graph, extent, hr_graph_whole(graph, least), extent);
    }
    hr_expr *guess = guess_element(graph, total, guess_of(graph, sum));
    if (graph->full) return;
    hr_statement *statements = function->statements; /* one more: those after it have moved */
    statements[total + 1].value =
        hr_graph_reduce(graph, HR_OP_REDUCE_SUM, HR_F32, sum->bound_count, sum->bound,
                        hr_graph_binary(graph, HR_OP_SUB, HR_F32, found->element, guess));
    statements[mean + 1].value = hr_graph_binary(graph, HR_OP_ADD, HR_F32, guess, statements[mean + 1].value);
}

hr_status hr_pass_first_guess(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        mean_of found;
        if (find_mean(graph, &function->statements[s], &found) &&
            has_elements(function, found.sum->value, extents))
            sum_about(graph, &found);
    }
    return hr_graph_status(graph);
}
