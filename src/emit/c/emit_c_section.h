/* The parts of a C file that others put together: parts_c.c. */
#ifndef HR_EMIT_C_EMIT_C_SECTION_H
#define HR_EMIT_C_EMIT_C_SECTION_H

#include "emit/emit.h"
#include "emit/printer.h"

/* The functions of a file. */
typedef enum hr_c_function { HR_C_SCRATCH, HR_C_RUN, HR_C_TEAM, HR_C_PART, HR_C_FUNCTIONS } hr_c_function;

/* The code alone, its functions static. `suffix`: what its names end with as the compiler sees them: the text
 * begins with a macro for each, and undefines it. `planned`: of a part that takes the place of this one's
 * plan, which may get NULL for results that this one reads; NULL = there is none. */
hr_status hr_emit_c_section(const hr_plan *plan, const char *suffix, const hr_plan *planned,
                            const hr_emit_options *options, hr_emitted *out);
/* What a file of such parts begins with, and its header. `any_extents`: some part takes what the plan does
 * not hold for. */
hr_status hr_emit_c_frame(const hr_plan *plan, const hr_emit_options *options, bool any_extents,
                          hr_emitted *out);
/* "int64_t NAME_scratch(int64_t n_N, int threads)" */
hr_status hr_emit_c_signature(const hr_plan *plan, const hr_emit_options *options, hr_printer *printer,
                              hr_c_function function);
/* "n_N, threads" */
hr_status hr_emit_c_arguments(const hr_plan *plan, const hr_emit_options *options, hr_printer *printer,
                              hr_c_function function);

#endif
