/* A region that is softmax: weights of keys that follow from scores, and sums of values by these weights.
 *
 * In: a region. Out: what the text has between its two products, for who makes weights block by block with a
 * running maximum and a running sum.
 */
#ifndef HR_PLAN_SOFTMAX_H
#define HR_PLAN_SOFTMAX_H

#include "plan/plan.h"

/* The largest score of a row, and the sum of its exponentials. The text may have them once for the weights
 * and once for log-sum-exp. */
typedef struct hr_softmax_sums {
    int peak, total;      /* tensors of hr_plan.normal; -1 = there is none */
    bool replaced;        /* where the peak is infinite, 0 stands in its place in the exponents */
    const hr_expr *shift; /* what is subtracted in the exponents, one a row; NULL = the peak */
} hr_softmax_sums;

enum { HR_SOFTMAX_SUMS_MAX = 4, HR_SOFTMAX_FACTORS_MAX = 4 };

/* Factors of a weight. */
typedef struct hr_softmax_factors {
    int count;
    const hr_expr *factor[HR_SOFTMAX_FACTORS_MAX];
} hr_softmax_factors;

/* weight = exp(score - peak) / total, or with other factors */
typedef struct hr_softmax {
    const hr_expr *score; /* over the region's batches, rows and keys */
    const hr_expr *mask;  /* score = where(mask, open, -inf); NULL = it has none, and open is the score */
    const hr_expr *open;  /* of elements that the region makes it has the first product alone */
    int count;            /* of `sums` */
    hr_softmax_sums sums[HR_SOFTMAX_SUMS_MAX];
    /* weight = exp(score - shift) * times / over * pairs. The first are one a row: `normalised`, they are
     * exp(score - peak) / total. */
    bool normalised;
    const hr_expr *shift;
    hr_softmax_factors times, over, pairs;
    hr_softmax_factors conditions; /* weights of pairs for which one does not hold are 0: dropout */
    bool bounded; /* the mask holds just for the keys between the first stage's mask bounds */
    /* The second product: weights times these. It sums over keys that the mask leaves, and is 0 where that is
     * none, or over all keys. */
    const hr_expr *value;
    bool summed_under_mask;
} hr_softmax;

/* Weights have factors of a pair of query and key. */
static inline bool hr_softmax_has_pairs(const hr_softmax *softmax) {
    return softmax->pairs.count + softmax->conditions.count > 0;
}

/* Whether the region is one; if not, *why says what it has instead. */
bool hr_softmax_find(const hr_plan *plan, const hr_region *region, hr_softmax *out, const char **why);

#endif
