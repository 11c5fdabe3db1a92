/* Two products with rows between them: what goes through blocks of rows together, and its scratch memory. */
#ifndef HR_EMIT_C_ATTEND_C_H
#define HR_EMIT_C_ATTEND_C_H

#include "emit/expression.h"

/* Bytes of scratch memory, aligned to 64, of the stages that go together, `number` among them; 0 but for the
 * last of them. */
const hr_size *hr_attend_size(hr_sizes *sizes, const hr_plan *plan, int number, int threads);

/* Prints stage_N of the last of them, a product whose operands' functions stand before: called by every
 * thread of a parallel region, with a barrier after it, and hr_attend_size() bytes in `work`. */
hr_status hr_emit_attend(hr_printer *printer, int number);

#endif
