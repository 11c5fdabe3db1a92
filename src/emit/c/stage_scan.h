/* A stage whose rows go in order: a scan, or the largest elements. In: a stage. Out: text. */
#ifndef HR_EMIT_C_STAGE_SCAN_H
#define HR_EMIT_C_STAGE_SCAN_H

#include "emit/c/stage_parts.h"
#include "ir/size.h"

/* What it does between the braces of its function. */
void hr_stage_ordered(hr_stage_printer *s);
/* Before it, where rows are shared out: what each thread's part of a row makes of what is carried to it. */
bool hr_stage_has_parts(const hr_stage *stage);
void hr_stage_scan_parts(hr_stage_printer *s);
/* The scratch memory that it takes. */
const hr_size *hr_ordered_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, int threads);

#endif
