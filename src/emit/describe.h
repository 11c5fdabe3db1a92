/* What the top of a file to paste says, on every target: what it is and what its arrays are. The caller ends
 * the comment that it begins. */
#ifndef HR_EMIT_DESCRIBE_H
#define HR_EMIT_DESCRIBE_H

#include "emit/expression.h"
#include "headroom.h"

/* The public function's name and that of its header, as asked for or by themselves. `options`: NULL = for the
 * loader. */
const char *hr_emit_name(const hr_plan *plan, const hr_emit_options *options);
const char *hr_emit_header(hr_printer *printer, const hr_emit_options *options);
/* The source's own name, as its header's with `ending` ("c", "cu") in place of "h". */
const char *hr_emit_source_file(hr_printer *printer, const hr_emit_options *options, const char *ending);
void hr_emit_describe(hr_printer *printer, const char *name);
/* HR_BAD_INPUT for a plan over lists: source to paste is for whole arrays. */
hr_status hr_emit_refuse_lists(const hr_plan *plan);

#endif
