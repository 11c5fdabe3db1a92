/* How an element of a tensor is addressed and loaded; what of it other printers ask is in expression.h.
 *
 * In: a node of HR_OP_ELEMENT. Out: lines and an operand.
 */
#ifndef HR_EMIT_ELEMENT_H
#define HR_EMIT_ELEMENT_H

#include "emit/expression.h"

/* The element as an operand: its value where the stage has one, else a load. */
const char *hr_element_text(hr_printer *printer, const hr_expr *element);
/* The deepest level of what its row pointer depends on. */
hr_emit_level hr_element_pointer_level(hr_printer *printer, const hr_expr *element);

/* HR_STEP_SCATTER: the flag that the first `axes` subscripts are on their axes; NULL where that is known. */
const char *hr_emit_scatter_condition(hr_printer *printer, const hr_step *step, int axes);

#endif
