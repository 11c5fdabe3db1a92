/* The parts of a C file that others put together: parts_c.c. */
#ifndef HR_EMIT_C_EMIT_C_SECTION_H
#define HR_EMIT_C_EMIT_C_SECTION_H

#include "emit/emit.h"
#include "emit/printer.h"

/* The code alone, its functions static. `suffix`: what its names end with as the compiler sees them: the text
 * begins with a macro for each, and undefines it. `planned`: of a part that takes the place of this one's
 * plan, which may get NULL for results that this one reads; NULL = there is none. */
hr_status hr_emit_c_section(const hr_plan *plan, const char *suffix, const hr_plan *planned,
                            const hr_emit_options *options, hr_emitted *out);
/* What a file of such parts begins with, and its header. `any_extents`: some part takes what the plan does
 * not hold for. */
hr_status hr_emit_c_frame(const hr_plan *plan, const hr_emit_options *options, bool any_extents,
                          hr_emitted *out);
#endif
