/* The functions of a product's stage that pack its operands, and the walk over its groups of indices.
 *
 * In: a stage of shape contract. Out: C.
 */
#ifndef HR_EMIT_C_CONTRACT_OPERAND_H
#define HR_EMIT_C_CONTRACT_OPERAND_H

#include "emit/c/lane_segments.h"
#include "emit/expression.h"

typedef struct hr_product_printer {
    hr_printer *p;
    const hr_stage *stage;
    const hr_contract *contract;
    int number;
} hr_product_printer;

/* An operand that is walked in blocks, and the index along which it prefetches; -1 = it does not. `whole`:
 * its lines have room for a whole vector at their end. */
typedef struct hr_walked_operand {
    const hr_expr *value;
    int ahead;
    bool whole;
} hr_walked_operand;

/* An index group that is walked from C variable `from` for `count` flat places. */
typedef struct hr_walked_group {
    const int *index;
    int count;
    const char *from, *length;
} hr_walked_group;

/* No operands: SEEN is what a mask leaves of the left one, MASK what it leaves of the product. */
typedef enum hr_product_part {
    HR_PRODUCT_LEFT,
    HR_PRODUCT_RIGHT,
    HR_PRODUCT_SEEN,
    HR_PRODUCT_MASK
} hr_product_part;

/* stage_N_left and so on. */
void hr_product_operand(hr_product_printer *s, hr_product_part part);

/* ---- what the function of the finished sums shares ---- */

/* Prints the function around a body that was printed aside. */
void hr_product_function(hr_product_printer *s, const char *suffix, const char *parameters, hr_text *body);
/* The indices of the batch. */
void hr_product_batch(hr_product_printer *s);
/* Makes the printer see a stage whose tasks are the batches and whose rows are both groups, the lane last. */
void hr_product_begin(hr_printer *printer, const hr_stage *of, const hr_walked_group *outer,
                      const hr_walked_group *lane, bool vector);
/* The values of a flattened group's indices: `last` gets the last one's value, NULL = that index does. */
void hr_product_digits(hr_printer *printer, const int *group, int count, const char *flat, const char *last);
/* The inner group's loop: runs of its last index, along which the lanes are. `segments`: NULL = none. */
void hr_product_runs(hr_printer *printer, const hr_walked_group *lane, const hr_walked_operand *operand,
                     const char *line, hr_segmented *segments);

#endif
