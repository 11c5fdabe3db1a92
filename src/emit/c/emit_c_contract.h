/* Matrix products in C: the shared main loop, the functions of a stage, its choices and its scratch memory.
 */
#ifndef HR_EMIT_C_EMIT_C_CONTRACT_H
#define HR_EMIT_C_EMIT_C_CONTRACT_H

#include "emit/expression.h"

/* Appends what all contract stages of a plan share: after the prelude, before the first stage's functions. */
hr_status hr_contract_mainloop_append(const hr_plan *plan, hr_text *out);
/* Prints stage `number` as static functions; stage_N is called by every thread of a parallel region, with a
 * barrier after it, and gets hr_contract_scratch() bytes in `work`. */
hr_status hr_emit_contract_c(hr_printer *printer, int number);
/* Prints `const struct contract_f32 NAME = {...};` for stage `number`. */
void hr_contract_print_product(hr_printer *printer, int number, const char *name);
/* Some result of the stage leaves past the caches. */
bool hr_contract_streams(hr_printer *printer, const hr_stage *stage);
/* The stage's scratch bytes as a C expression over extents and `threads`; for code after the stage's
 * functions. */
const char *hr_contract_size(hr_printer *printer, int number);

#endif
