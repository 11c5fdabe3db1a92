/* What emitted code for lists of arrays has in common on every device. */
#ifndef HR_EMIT_LIST_EMIT_H
#define HR_EMIT_LIST_EMIT_H

#include "emit/expression.h"

/* Whether an argument is bound as a list. */
bool hr_emit_is_list(const hr_printer *printer, int tensor);
/* HR_BAD_INPUT for a plan over lists: source to paste is for whole arrays. */
hr_status hr_emit_refuse_lists(const hr_plan *plan);

#endif
