/* One stage of any shape but contract as static C functions. In: a stage. Out: text.
 *
 * A stage is up to three functions, called in order by every thread with a barrier after each:
 *     stage_N_begin  clears what several threads add into
 *     stage_N        the work itself
 *     stage_N_end    combines the partial results of all `parts` of the work
 * Stages that go through strips of columns together have stage_N_strip each, and the last of them stage_N.
 */
#ifndef HR_EMIT_C_STAGE_C_H
#define HR_EMIT_C_STAGE_C_H

#include "emit/expression.h"

#define HR_STAGE_PARAMETERS "const arguments *a, int64_t thread, int64_t threads, char *work"
#define HR_STAGE_END        HR_STAGE_PARAMETERS ", int64_t parts"

typedef struct hr_stage_functions {
    bool begin, end; /* the stage has these */
    bool pieces;     /* it is called for pieces of threads' shares, see prelude/shares.h, and */
    bool sums; /* each has a part of `work` of its own, since it adds over tasks; else each thread has */
} hr_stage_functions;

hr_status hr_emit_stage_c(hr_printer *printer, int number, hr_stage_functions *out);

#endif
