/* Means and variances of columns from one walk. In: a unified graph. Out: the same, where the sums that a
 * column's mean and variance are made of are sums about a guess g of its own,
 *
 *     mean = g + sum(f - g) / M,    sum((f - mean)^2) = sum((f - g)^2) - sum(f - g)^2 / M,
 *
 * which one walk makes side by side. Rows walk once more where that cancels (first_guess.c); columns come
 * from memory, so their guess is better: the average of some elements from both ends. It is taken where none
 * of these is more than twice as far from it as it is from 0: then it is no larger than elements are, and the
 * mean keeps its digits. An outlier among them would make it larger. Else it is 0.
 *
 * Columns whose sums cancel all the same are walked a second time, about the mean that came of the first. The
 * others are left out of that, and where it is none it is skipped: hr_stage_columns_chosen().
 *
 * One column in a thousand that is walked again has all of its neighbours read again. So there are samples
 * enough for an average that is near the mean in all columns, and three bits may cancel: they do where the
 * mean is 2.6 times as large as the elements differ, and there every column has its guess.
 */
#include "plan/assumption.h"
#include "plan/means.h"
#include "plan/passes.h"

#include <string.h>

#define FINITE_MOST  0x1.fffffep127 /* what is larger, or no number, has left f32's range */
#define GUESS_MOST   1e30           /* no difference to it leaves f32's range before the elements do */
#define FAR          2.0            /* of the samples from the guess, as often as that from 0 */
#define SQUARES_PART 8.0            /* of eight parts of the sums of squares no more than seven cancel */
#define LEVEL_PART   7.0

enum { SAMPLES = 32, SAMPLE_STEP = 2, COLUMNS_LEAST = 32, TASKS_LEAST = SAMPLES * SAMPLE_STEP };

typedef struct column {
    hr_graph *graph;
    const hr_expr *sum; /* of the elements */
    hr_expr *element, *count;
    int along; /* the longest of its indices */
} column;

/* ---- where it is so ---- */

/* The longest of the sum's indices; -1 = all are too short. */
static int longest_of(const hr_function *function, const hr_expr *sum, const int64_t *extents) {
    int64_t most = TASKS_LEAST - 1, size;
    int longest = -1;
    for (int i = 0; i < sum->bound_count; i++) {
        const hr_expr *extent = function->indices[sum->bound[i]].extent;
        if (hr_extent_value(function, extent, extents, &size) != HR_OK || size < 1) return -1;
        if (size > most) most = size, longest = sum->bound[i];
    }
    return longest;
}

/* Lanes run along the result, and are some vectors long. */
static bool is_column(const hr_function *function, const hr_mean *found, const int64_t *extents) {
    const hr_statement *sum = found->sum;
    const hr_expr *squares = found->variance->value;
    double columns;
    bool along = false;
    if (!hr_reduction_is_plain(function, sum->value) ||
        !hr_indices_same(sum->value->bound, sum->value->bound_count, squares->bound, squares->bound_count))
        return false;
    for (int i = 0; i < sum->value->bound_count; i++)
        if (hr_expr_runs_along(found->element, sum->value->bound[i])) return false;
    for (int i = 0; i < sum->domain_count; i++)
        along = along || hr_expr_runs_along(found->element, sum->domain[i]);
    return along &&
           hr_function_points(function, sum->domain, sum->domain_count, extents, &columns) == HR_OK &&
           columns >= COLUMNS_LEAST;
}

/* ---- arithmetic ---- */

static hr_expr *binary(const column *c, hr_op op, hr_expr *a, hr_expr *b) {
    const hr_dtype type = op == HR_OP_LE || op == HR_OP_LT || op == HR_OP_AND ? HR_BOOL : HR_F32;
    return hr_graph_binary(c->graph, op, type, a, b);
}

static hr_expr *number(const column *c, double value) {
    return hr_graph_number(c->graph, HR_F32, value);
}

static hr_expr *size_of(const column *c, hr_expr *a) {
    return hr_graph_unary(c->graph, HR_OP_ABS, HR_F32, a);
}

static hr_expr *square(const column *c, hr_expr *a) {
    return binary(c, HR_OP_MUL, a, a);
}

static hr_expr *sum_of(const column *c, hr_expr *value) {
    return hr_graph_reduce(c->graph, HR_OP_REDUCE_SUM, HR_F32, c->sum->bound_count, c->sum->bound, value);
}

/* sum^2 / M: what is lost of the sum of squares. */
static hr_expr *level_of(const column *c, hr_expr *sum) {
    return binary(c, HR_OP_MUL, sum, binary(c, HR_OP_DIV, sum, c->count));
}

/* ---- the guess ---- */

/* Some of the first elements, and the last. */
static hr_expr *sample(const column *c, int number) {
    hr_graph *graph = c->graph;
    hr_expr *at = c->element;
    for (int i = 0; i < c->sum->bound_count; i++)
        if (c->sum->bound[i] != c->along) at = hr_expr_at(graph, at, c->sum->bound[i], 0);
    if (number < SAMPLES - 1) return hr_expr_at(graph, at, c->along, (int64_t)number * SAMPLE_STEP);
    hr_expr *last = hr_graph_binary(graph, HR_OP_SUB, HR_I64, graph->function->indices[c->along].extent,
                                    hr_graph_whole(graph, 1));
    return hr_graph_substitute(graph, at, 1, &c->along, &last);
}

/* Of all samples, two by two: sums of equal numbers in twos are exact, and so is their average. */
static hr_expr *samples_folded(const column *c, hr_op op, hr_expr *const *samples) {
    hr_expr *folded[SAMPLES];
    memcpy(folded, samples, sizeof folded);
    for (int count = SAMPLES / 2; count; count /= 2)
        for (int i = 0; i < count; i++)
            folded[i] = binary(c, op, folded[2 * i], folded[2 * i + 1]);
    return folded[0];
}

static hr_expr *guess_of(const column *c) {
    hr_expr *samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = sample(c, i);
    hr_expr *average = binary(c, HR_OP_MUL, samples_folded(c, HR_OP_ADD, samples), number(c, 1.0 / SAMPLES));
    hr_expr *above = binary(c, HR_OP_SUB, samples_folded(c, HR_OP_MAX, samples), average);
    hr_expr *below = binary(c, HR_OP_SUB, average, samples_folded(c, HR_OP_MIN, samples));
    hr_expr *size = size_of(c, average), *most = binary(c, HR_OP_MAX, above, below);
    hr_expr *near = binary(c, HR_OP_LE, most, binary(c, HR_OP_MUL, size, number(c, FAR)));
    hr_expr *is_guess = binary(c, HR_OP_AND, near, binary(c, HR_OP_LE, size, number(c, GUESS_MOST)));
    return hr_graph_where(c->graph, is_guess, average, number(c, 0));
}

/* ---- what becomes of it ---- */

/* 1 where the sums are not finite, or most of them cancels; else 0. */
static hr_expr *again_of(const column *c, hr_expr *total, hr_expr *squares) {
    hr_expr *lost = binary(c, HR_OP_MUL, level_of(c, total), number(c, SQUARES_PART));
    hr_expr *all = binary(c, HR_OP_MUL, squares, number(c, LEVEL_PART));
    hr_expr *settled = binary(c, HR_OP_AND, binary(c, HR_OP_LE, lost, all),
                              binary(c, HR_OP_LE, squares, number(c, FINITE_MOST / SQUARES_PART)));
    return hr_graph_where(c->graph, settled, number(c, 0), number(c, 1));
}

static void sums_about(hr_graph *graph, const int64_t *extents, const hr_mean *found) {
    hr_function *function = graph->function;
    int mean = (int)(found->mean - function->statements),
        variance = (int)(found->variance - function->statements);
    const int sum = (int)(found->sum - function->statements);
    hr_expr *total = found->mean->value->args[0], *zero = hr_graph_number(graph, HR_F32, 0);
    const column c = {graph, found->sum->value, found->element, found->mean->value->args[1],
                      longest_of(function, found->sum->value, extents)};
    hr_assume(graph, function->indices[c.along].extent, hr_graph_whole(graph, TASKS_LEAST),
              function->indices[c.along].extent);
    hr_expr *guess = hr_graph_local_before(graph, sum, "about", guess_of(&c));
    hr_expr *less = binary(&c, HR_OP_SUB, c.element, guess);
    if (graph->full) return;
    function->statements[sum + 1].value = sum_of(&c, less);
    mean++, variance++;
    hr_expr *squares = hr_graph_local_before(graph, mean++, "squares", sum_of(&c, square(&c, less)));
    hr_expr *first = binary(&c, HR_OP_ADD, guess, binary(&c, HR_OP_DIV, total, c.count));
    first = hr_graph_local_before(graph, mean++, "first", first);
    hr_expr *again = hr_graph_local_before(graph, mean++, "again", again_of(&c, total, squares));
    hr_expr *walked = binary(&c, HR_OP_LT, zero, again), *rest = binary(&c, HR_OP_SUB, c.element, first);
    hr_expr *left =
        hr_graph_local_before(graph, mean++, "left", sum_of(&c, hr_graph_where(graph, walked, rest, zero)));
    hr_expr *left_squares = hr_graph_local_before(
        graph, mean++, "left_squares", sum_of(&c, hr_graph_where(graph, walked, square(&c, rest), zero)));
    if (graph->full) return;
    variance += 5;
    hr_expr *finite = binary(&c, HR_OP_LE, size_of(&c, left), number(&c, FINITE_MOST));
    finite = hr_graph_where(graph, finite, left, zero); /* an infinite mean stays that */
    function->statements[mean].value = binary(&c, HR_OP_ADD, first, binary(&c, HR_OP_DIV, finite, c.count));
    hr_expr *once = binary(&c, HR_OP_SUB, squares, level_of(&c, total)),
            *twice = binary(&c, HR_OP_SUB, left_squares, level_of(&c, finite));
    function->statements[variance].value =
        binary(&c, HR_OP_MAX, hr_graph_where(graph, walked, twice, once), zero);
}

hr_status hr_pass_column_guess(hr_graph *graph, const int64_t *extents) {
    hr_function *function = graph->function;
    for (int s = 0; s < function->statement_count && !graph->full; s++) {
        hr_mean found;
        if (hr_mean_find(graph, &function->statements[s], &found) && is_column(function, &found, extents) &&
            longest_of(function, found.sum->value, extents) >= 0 && hr_mean_counts(graph, extents, &found))
            sums_about(graph, extents, &found);
    }
    return hr_graph_status(graph);
}
