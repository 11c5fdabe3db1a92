/* What a reduction accumulates in, begins with and combines by, in C, and zeros before what is added into.
 *
 * In: an operation and a type, or a tensor. Out: text.
 */
#ifndef HR_EMIT_REDUCE_H
#define HR_EMIT_REDUCE_H

#include "emit/expression.h"

/* The C type that a reduction accumulates in outside vectors. */
const char *hr_reduce_type(hr_op op, hr_dtype type);
/* The value that changes nothing: 0, -inf, ... as a C scalar. */
const char *hr_reduce_identity(hr_op op, hr_dtype type);
/* `a` and `b`, operands of `type`, combined; scalars. */
const char *hr_reduce_combine(hr_printer *printer, hr_op op, hr_dtype type, const char *a, const char *b);
/* The same of vectors. */
const char *hr_reduce_combine_lanes(hr_printer *printer, hr_op op, hr_dtype type, const char *a,
                                    const char *b);

/* ---- scans ---- */

/* The recurrence's factor is 1. */
bool hr_scan_is_sum(const hr_expr *scan);
/* Declares the index `along` as element `at` of the row; a scan from the end counts back. */
void hr_emit_scan_place(hr_printer *printer, const hr_expr *scan, int along, const char *at);

/* ---- zeros before a result that is added into ---- */

/* How many elements it has. */
const char *hr_emit_elements(hr_printer *printer, int tensor);
/* Statements that clear element number `flat`, a variable's name, wherever it lies. */
void hr_emit_clear_element(hr_printer *printer, int tensor, const char *flat);

#endif
