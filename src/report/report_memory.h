/* The device's memory in the reports of a diagnosis: peak, what it is made of, a curve, room for a larger
 * batch. */
#ifndef HR_REPORT_REPORT_MEMORY_H
#define HR_REPORT_REPORT_MEMORY_H

#include "diagnose/diagnose.h"
#include "report/report.h"
#include "report/sheet.h"
#include <jansson.h>

/* Nothing where the trace has no allocations. */
void hr_memory_text(hr_sheet *paper, const hr_diagnosis *diagnosis);
void hr_memory_html(hr_text *out, const hr_diagnosis *diagnosis);
/* null where the trace has no allocations. */
json_t *hr_memory_value(const hr_diagnosis *diagnosis);

#endif
