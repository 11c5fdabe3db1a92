/* Two products with rows between them: what goes through blocks of rows together, and its scratch memory. */
#ifndef HR_EMIT_C_ATTEND_C_H
#define HR_EMIT_C_ATTEND_C_H

#include "emit/expression.h"

/* Of the stages that go together, `number` among them. Bytes of scratch memory, aligned to 64; 0 but for the
 * last of them. The emitted code computes the same. */
hr_status hr_attend_bytes(const hr_plan *plan, int number, const int64_t *extents, int threads, int64_t *out);
/* The same as a C expression over extents and `threads`; NULL but for the last. */
const char *hr_attend_size(hr_printer *printer, int number);

/* Prints stage_N of the last of them, a product whose operands' functions stand before: called by every
 * thread of a parallel region, with a barrier after it, and hr_attend_bytes() in `work`. */
hr_status hr_emit_attend(hr_printer *printer, int number);

#endif
