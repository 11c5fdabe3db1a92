/* What a plan takes for granted of the extents, as text: a function that emitted source asks before anything
 * else, and sentences for the comment at its top. */
#ifndef HR_EMIT_ASSUMPTIONS_H
#define HR_EMIT_ASSUMPTIONS_H

#include "emit/expression.h"

/* Prints `static bool extents_hold(EXTENTS)` and, before it, those of the interval functions that it calls.
 * False too where an extent, or an axis, is negative or divides by 0. */
hr_status hr_emit_assumptions(hr_printer *printer);
/* The call of it; `suffix`: behind its name; `source`: in front of each extent's. */
const char *hr_emit_assumptions_call(hr_printer *printer, const char *suffix, const char *source);
/* Lines of a comment that say what must hold. */
void hr_emit_assumptions_words(hr_printer *printer);

#endif
