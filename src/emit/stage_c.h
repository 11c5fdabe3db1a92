/* One stage of any shape but contract as static C functions. In: a stage. Out: text.
 *
 * A stage is up to three functions, called in order by every thread with a barrier after each:
 *     stage_N_begin  clears what several threads add into
 *     stage_N        the work itself
 *     stage_N_end    combines the threads' partial results
 */
#ifndef HR_EMIT_STAGE_C_H
#define HR_EMIT_STAGE_C_H

#include "emit/expression.h"

typedef struct hr_stage_functions {
    bool begin, end; /* the stage has these */
} hr_stage_functions;

hr_status hr_emit_stage_c(hr_printer *printer, int number, hr_stage_functions *out);
/* Whether vectors of a result leave past the caches. */
bool hr_stage_streams(const hr_printer *printer, const hr_tensor *target);
/* Prints `const int64_t n_N = SOURCEn_N;` for each extent that `body` uses. */
void hr_emit_extents_used(hr_printer *printer, const char *source, const char *body);
/* Whether the identifier `token` stands in `text`. */
bool hr_emit_occurs(const char *text, const char *token);
/* Prints `TYPE NAME(PARAMETERS) { declarations of the arguments that the body uses; body }`. */
void hr_emit_function(hr_printer *printer, const char *type, const char *name, const char *parameters,
                      const hr_text *body);

#endif
