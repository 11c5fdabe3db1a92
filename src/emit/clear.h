/* Zeros before a result that is added into, on every target. In: a tensor. Out: text. */
#ifndef HR_EMIT_CLEAR_H
#define HR_EMIT_CLEAR_H

#include "emit/expression.h"

/* How many elements it has. */
const char *hr_emit_elements(hr_printer *printer, int tensor);
/* Statements that clear element number `flat`, a variable's name, wherever it lies. */
void hr_emit_clear_element(hr_printer *printer, int tensor, const char *flat);

#endif
