/* What follows from numbers in an expression. In: an operation and its arguments. Out: the simplest node that
 * has the same value. */
#ifndef HR_PLAN_FOLD_H
#define HR_PLAN_FOLD_H

#include "ir/graph.h"

/* The node with these arguments, or what is simpler: a number, the branch that a condition chooses, x for
 * x + 0 and 1 * x. */
hr_expr *hr_fold(hr_graph *graph, const hr_expr *node, hr_expr *const *args);

#endif
