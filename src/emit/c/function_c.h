/* C functions around a body that is printed already: what it uses (hr_use) is declared before it. */
#ifndef HR_EMIT_C_FUNCTION_C_H
#define HR_EMIT_C_FUNCTION_C_H

#include "emit/expression.h"

/* Prints `const int64_t n_N = SOURCEn_N;` for each extent that the body in hand uses. */
void hr_emit_extents_used(hr_printer *printer, const char *source);
/* Prints `TYPE NAME(PARAMETERS) { declarations of the arguments that the body uses; body }` and frees the
 * body, which is the one in hand: what is printed after it begins a new one. */
void hr_emit_function(hr_printer *printer, const char *type, const char *name, const char *parameters,
                      hr_text *body);

/* ---- pieces of a list ---- */

/* `body` in the loop over a thread's share of the pieces, with the pointers that it uses; frees it. */
void hr_list_c_loop(hr_printer *printer, hr_text *body);

#endif
