/* A function that does not compute some of its results. */
#ifndef HR_IR_WITHOUT_RESULTS_H
#define HR_IR_WITHOUT_RESULTS_H

#include "base/text.h"
#include "ir/function.h"

/* Appends the text of the function without the results for which `left_out` (one a tensor of the declaration)
 * is true, and without the statements that only they need. What others read of such a result becomes a local
 * of the same values. HR_BAD_INPUT where nothing would be left. Whether a text allows it shows when it is
 * read: a local has no extents of its own, which `+=` into any place of it would need. */
hr_status hr_function_text_without(const hr_function *function, const bool *left_out, hr_text *out);

#endif
