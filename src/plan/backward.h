/* The gradients of attention: from scores and what follows from them, block by block, those of queries, keys
 * and values.
 *
 * In: a plan. Out: which of its stages these are, and the text between their products, for who makes scores
 * again instead of keeping them.
 */
#ifndef HR_PLAN_BACKWARD_H
#define HR_PLAN_BACKWARD_H

#include "plan/plan.h"

/* Five products: scores (query by key), products (the gradient of the result by value), and the sums over
 * keys or queries that are the gradients. */
typedef enum hr_backward_stage {
    HR_BACKWARD_SCORES,
    HR_BACKWARD_PRODUCTS,
    HR_BACKWARD_VALUE,
    HR_BACKWARD_QUERY,
    HR_BACKWARD_KEY,
    HR_BACKWARD_STAGES
} hr_backward_stage;

typedef struct hr_backward {
    int stage[HR_BACKWARD_STAGES];
    int last; /* of these stages: the others come before it */
    const hr_expr
        *weight; /* of a key: what the gradient of its value is a sum by; over the scores' indices */
    const hr_expr *gradient; /* of a score, likewise for the gradients of queries and keys */
    hr_expr
        *mask;   /* weights are where(mask, ..., 0), and gradients of scores 0 where they are; NULL = none */
    bool *inner; /* by tensor: of it the block in hand is enough */
    const char *why; /* where they are not found, what is in the way; NULL = nothing looks like them */
} hr_backward;

/* Whether the stage's scores are those of such five; memory for `out` is the plan's. */
bool hr_backward_find(const hr_plan *plan, int scores, hr_backward *out);

#endif
