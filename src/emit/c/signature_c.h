/* The functions of a C file for its caller: what they are declared as, and how one part of a file calls
 * another's.
 */
#ifndef HR_EMIT_C_SIGNATURE_C_H
#define HR_EMIT_C_SIGNATURE_C_H

#include "emit/printer.h"

typedef enum hr_c_function { HR_C_SCRATCH, HR_C_RUN, HR_C_TEAM, HR_C_PART, HR_C_FUNCTIONS } hr_c_function;

/* "NAME_scratch"; `name`: of the file's public function. */
const char *hr_emit_c_function(hr_printer *printer, const char *name, hr_c_function function);
/* Prints "int64_t NAME_scratch(int64_t n_N, int threads)". */
void hr_emit_c_signature(hr_printer *printer, const char *name, hr_c_function function);
/* Prints "n_N, threads". */
void hr_emit_c_arguments(hr_printer *printer, hr_c_function function);

#endif
