/* What the top of a file to paste says, on every target: what it is and what its arrays are. The caller ends
 * the comment that it begins. */
#ifndef HR_EMIT_DESCRIBE_H
#define HR_EMIT_DESCRIBE_H

#include "emit/expression.h"

void hr_emit_describe(hr_printer *printer, const char *name);

#endif
