/* The parts of a C file that others put together: levels_c.c. */
#ifndef HR_EMIT_C_EMIT_C_SECTION_H
#define HR_EMIT_C_EMIT_C_SECTION_H

#include "emit/emit.h"
#include "emit/printer.h"

/* The functions of a file. */
typedef enum hr_c_function { HR_C_SCRATCH, HR_C_RUN, HR_C_TEAM, HR_C_PART, HR_C_FUNCTIONS } hr_c_function;

/* The code alone, its functions static. */
hr_status hr_emit_c_section(const hr_plan *plan, const hr_emit_options *options, hr_emitted *out);
/* What a file begins with, behind its comment. */
void hr_emit_c_beginning(hr_printer *printer, const hr_emit_options *options);
/* "int64_t NAME_scratch(int64_t n_N, int threads)" */
hr_status hr_emit_c_signature(const hr_plan *plan, const hr_emit_options *options, hr_printer *printer,
                              hr_c_function function);

#endif
