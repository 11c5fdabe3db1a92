/* Scatters become gathers: what an element x[f(i)] is given, told from the side of x.
 *
 * In: a sum over indices i that x[f(i)] += sum says, and an index for each axis of x. Out: the sum as each
 * element of x finds it: indices that the subscripts fix are replaced, the others are added up. Where
 * nothing fixes them, each point asks whether it is meant.
 */
#ifndef HR_GRAD_INVERT_H
#define HR_GRAD_INVERT_H

#include "grad/algebra.h"

/* `axes`: an index an axis of the tensor. `*scatters`: some subscript depends on data, or in another way that
 * cannot be solved, on indices that no other one fixes, so that each point asked. */
hr_terms hr_gather(hr_algebra *algebra, hr_terms sum, int count, hr_expr *const *subscripts, const int *axes,
                   bool *scatters);

#endif
