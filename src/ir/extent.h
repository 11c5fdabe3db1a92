/* Extents bound to numbers. In: shape expressions, sizes of arrays. Out: values, solutions, defaults. */
#ifndef HR_IR_EXTENT_H
#define HR_IR_EXTENT_H

#include "ir/function.h"

#define HR_EXTENT_UNKNOWN INT64_MIN

/* The value of a shape expression. HR_BAD_INPUT on a negative result, an unknown extent or overflow. */
hr_status hr_extent_value(const hr_function *function, const hr_expr *expr, const int64_t *extents,
                          int64_t *out);
/* Elements and bytes of a tensor, as they would be: no arithmetic overflows. 0 where an extent has no value.
 */
double hr_extent_elements(const hr_function *function, const hr_tensor *tensor, const int64_t *extents);
double hr_extent_bytes(const hr_function *function, const hr_tensor *tensor, const int64_t *extents);
/* Solves one axis for its one unknown extent where that is linear; does nothing where it is not solvable yet;
 * HR_BAD_INPUT (with tensor, axis, both numbers) where the known value disagrees or no whole number fits. */
hr_status hr_extent_solve(const hr_function *function, int tensor, int axis, int64_t size, int64_t *extents);
/* Fills extents still unknown with defaults (docs/language.md says which) so that a plain `headroom run`
 * works. */
hr_status hr_extent_default(const hr_function *function, int64_t *extents);

#endif
