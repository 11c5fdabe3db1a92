/* Whole-number expressions of subscripts: what they are linear in, and what is known of their range.
 *
 * Only indices and extents are reasoned about, never data.
 */
#ifndef HR_GRAD_AFFINE_H
#define HR_GRAD_AFFINE_H

#include "grad/algebra.h"

/* Arithmetic that is done at once where both sides are numbers, and leaves out what changes nothing. */
hr_expr *hr_whole_add(hr_algebra *algebra, hr_expr *a, hr_expr *b);
hr_expr *hr_whole_subtract(hr_algebra *algebra, hr_expr *a, hr_expr *b);
hr_expr *hr_whole_multiply(hr_algebra *algebra, hr_expr *a, hr_expr *b);

/* The operation of `node` over other arguments, done at once where it can be. */
hr_expr *hr_whole_remade(hr_algebra *algebra, const hr_expr *node, hr_expr *const *args);

/* expr = factor * index + rest, with neither depending on the index; false where it is not so. */
bool hr_split_linear(hr_algebra *algebra, hr_expr *expr, int index, hr_expr **factor, hr_expr **rest);
/* The comparison of whole numbers holds wherever it is asked. */
bool hr_is_certain(hr_algebra *algebra, const hr_expr *condition);
/* expr >= 0 wherever its indices are in their ranges and no extent is 0. */
bool hr_is_never_negative(hr_algebra *algebra, hr_expr *expr);

/* Each element of `expr` is in range whatever holds around it; false where data decides. */
bool hr_is_in_range(hr_algebra *algebra, const hr_expr *expr);

#endif
