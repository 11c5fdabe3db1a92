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
 * first whether they are near. Where threads share a row, each about a mean of its own, sums of elements of
 * 16 bits lose nothing: no guess is made for them there (facts.h).
 */
#include "base/dtype.h"
#include "plan/assumption.h"
#include "plan/means.h"
#include "plan/passes.h"

#define GUESS_MOST 1e30 /* no difference to it leaves f32's range before the elements do */
#define FAR        64.0 /* from 0, in their greatest distance */
enum {
    NEAR = 3,
    ELEMENTS_LEAST = 64
}; /* elements after the first that are asked, beside the last; of a row */

static bool is_row(const hr_function *function, const hr_expr *sum) {
    return hr_reduction_is_plain(function, sum) &&
           hr_expr_runs_along(sum->args[0], sum->bound[sum->bound_count - 1]);
}

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

static void sum_about(hr_graph *graph, const hr_mean *found) {
    hr_function *function = graph->function;
    const int total = (int)(found->sum - function->statements),
              mean = (int)(found->mean - function->statements);
    const hr_expr *sum = found->sum->value;
    for (int i = 0; i < sum->bound_count; i++) {
        const hr_expr *extent = function->indices[sum->bound[i]].extent;
        const int64_t least = i == sum->bound_count - 1 ? NEAR + 1 : 1;
        hr_assume(graph, extent, hr_graph_whole(graph, least), extent);
    }
    hr_expr *guess = hr_graph_local_before(graph, total, "about", guess_of(graph, sum));
    if (graph->full) return;
    hr_statement *statements = function->statements; /* one more: those after it have moved */
    statements[total + 1].value =
        hr_graph_reduce(graph, HR_OP_REDUCE_SUM, HR_F32, sum->bound_count, sum->bound,
                        hr_graph_binary(graph, HR_OP_SUB, HR_F32, found->element, guess));
    statements[mean + 1].value = hr_graph_binary(graph, HR_OP_ADD, HR_F32, guess, statements[mean + 1].value);
}

static bool has_bytes(const hr_function *function, const hr_expr *element, int bytes) {
    const hr_dtype dtype =
        element->op == HR_OP_ELEMENT ? function->tensors[element->tensor].dtype : element->type;
    return (int)hr_dtype_size(dtype) >= bytes;
}

hr_status hr_pass_first_guess(hr_graph *graph, const int64_t *extents, int bytes) {
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        hr_mean found;
        if (hr_mean_find(graph, &function->statements[s], &found) && is_row(function, found.sum->value) &&
            has_bytes(function, found.element, bytes) && has_elements(function, found.sum->value, extents) &&
            hr_mean_counts(graph, extents, &found))
            sum_about(graph, &found);
    }
    return hr_graph_status(graph);
}
