/* Classes of blocks: what a mask says of all queries of a block with all keys of another one.
 *
 * In: a condition over the batches, queries and keys of scores. Out: what of it is one number a query, what
 * one number a key, and how the rest combines them. Whoever knows the least and the largest of these numbers
 * in a block knows of many pairs of blocks that the condition holds for all of them, or for none.
 */
#ifndef HR_PLAN_MASK_CLASS_H
#define HR_PLAN_MASK_CLASS_H

#include "plan/plan.h"

typedef enum hr_mask_part {
    HR_MASK_UNKNOWN,   /* it may be anything */
    HR_MASK_NUMBER,    /* the same for all queries and keys of a batch */
    HR_MASK_PLACE,     /* an index of queries or of keys */
    HR_MASK_QUERIES,   /* data say it, once a query */
    HR_MASK_KEYS,      /* the same, once a key */
    HR_MASK_OPERATION, /* its range follows from those of its arguments */
} hr_mask_part;

enum { HR_MASK_TERMS_MOST = 4 };

typedef struct hr_mask_classes {
    int query_count, key_count, batch_count;
    const hr_expr *of_query[HR_MASK_TERMS_MOST], *of_key[HR_MASK_TERMS_MOST];
    int *batch; /* the indices of batches that the condition has */
} hr_mask_classes;

hr_mask_part hr_mask_part_of(const hr_plan *plan, const hr_contract *scores, const hr_expr *node);
/* Whether blocks may have a class other than "some pairs". Of NULL, and where there are too many terms,
 * nothing is known. */
bool hr_mask_classes_find(const hr_plan *plan, const hr_contract *scores, const hr_expr *condition,
                          hr_mask_classes *out);

#endif
