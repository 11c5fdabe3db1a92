/* A function as the text of a .hr file: what src/lang reads back as the same function. */
#ifndef HR_IR_FUNCTION_TEXT_H
#define HR_IR_FUNCTION_TEXT_H

#include "base/text.h"
#include "ir/function.h"

/* Appends `kernel name(...) -> (...) { ... }` with a statement a line: names as they are, brackets and
 * conversions only where the meaning needs them. What a def shared is written as often as it is used, dtypes
 * that conversions owe to a variable are written as what it stands for here. HR_BAD_INPUT where the text has
 * more than 16 MB; HR_OUT_OF_MEMORY. */
hr_status hr_function_text(const hr_function *function, hr_text *out);

/* "2 * N": a shape's expression, no more than about `most` bytes of it. */
void hr_extent_append(const hr_function *function, const hr_expr *extent, size_t most, hr_text *out);
/* The same of any expression. */
void hr_expr_append(const hr_function *function, const hr_expr *expr, size_t most, hr_text *out);
/* "bf16[M, 2 * N]" */
void hr_tensor_append_type(const hr_function *function, const hr_tensor *tensor, hr_text *out);

#endif
