/* Matrix products in C: the shared main loop, the functions of a stage, its choices and its scratch memory.
 */
#ifndef HR_EMIT_C_EMIT_C_CONTRACT_H
#define HR_EMIT_C_EMIT_C_CONTRACT_H

#include "emit/expression.h"

/* Bytes of scratch memory, aligned to 64, that the stage needs; where it is printed, after the stage's
 * functions. */
const hr_size *hr_contract_size(hr_sizes *sizes, const hr_plan *plan, int number, int threads);
/* The larger of two. */
const hr_size *hr_contract_largest(hr_sizes *sizes, const hr_size *a, const hr_size *b);
/* Which choice of a stage a function of the main loop asks about: 2 * number, and 1 more for packed. */
const hr_size *hr_contract_choice_name(hr_sizes *sizes, int number, bool packed);
/* Appends what all contract stages of a plan share: after the prelude, before the first stage's functions. */
hr_status hr_contract_mainloop_append(hr_printer *printer, hr_text *out);
/* Prints stage `number` as static functions; stage_N is called by every thread of a parallel region, with a
 * barrier after it, and gets hr_contract_size() bytes in `work`. */
hr_status hr_emit_contract_c(hr_printer *printer, int number);
/* Prints `const struct contract_f32 NAME = {...};` for stage `number`. */
void hr_contract_print_product(hr_printer *printer, int number, const char *name);
/* Some result of the stage leaves past the caches. */
bool hr_contract_streams(hr_printer *printer, const hr_stage *stage);

#endif
