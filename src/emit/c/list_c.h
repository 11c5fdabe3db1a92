/* What C for lists of arrays has beside other C: the table of pieces and the loop over them. In: a stage's
 * lines for the elements `first` to `last` of one member. Out: the loop that runs them for every piece.
 */
#ifndef HR_EMIT_C_LIST_C_H
#define HR_EMIT_C_LIST_C_H

#include "emit/expression.h"

/* `body` in the loop over a thread's share of the pieces, with the pointers that it uses; frees it. */
void hr_list_c_loop(hr_printer *printer, hr_text *body);

#endif
