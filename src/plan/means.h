/* Means and variances as texts write them: what passes that make both of other sums look for. */
#ifndef HR_PLAN_MEANS_H
#define HR_PLAN_MEANS_H

#include "ir/graph.h"

/* mean = sum(f) / count, variance = sum((f - mean)^2), over the same elements. */
typedef struct hr_mean {
    hr_statement *sum, *mean, *variance;
    hr_expr *element; /* f */
} hr_mean;

/* Of (f - u)^2, and of (f - u) * (f - u), the difference; else NULL. */
const hr_expr *hr_squared_difference(const hr_expr *value);

/* The statement is such a variance in f32, and its mean is the only reader of a sum that is a local. What the
 * mean divides by may be anything. */
bool hr_mean_find(hr_graph *graph, hr_statement *variance, hr_mean *out);
/* It divides by the number of the elements: at these extents, and, as is assumed then, wherever the plan
 * holds. */
bool hr_mean_counts(hr_graph *graph, const int64_t *extents, const hr_mean *mean);

/* What the elements of the reduction depend on, beside its indices, is read as it lies: nothing of it depends
 * on data, is drawn or is written over. */
bool hr_reduction_is_plain(const hr_function *function, const hr_expr *reduction);

/* Some element in the expression has this index as its last subscript: it lies along it. */
bool hr_expr_runs_along(const hr_expr *expr, int index);

/* A local of its own before statement `number`, which has as many axes and the same domain as that one's;
 * its element there. Statements after it move. */
hr_expr *hr_graph_local_before(hr_graph *graph, int number, const char *name, hr_expr *value);

#endif
