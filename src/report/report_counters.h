/* Hardware counters in the reports of a diagnosis. */
#ifndef HR_REPORT_REPORT_COUNTERS_H
#define HR_REPORT_REPORT_COUNTERS_H

#include "diagnose/diagnose.h"
#include "report/report.h"
#include "report/sheet.h"

/* What was sampled of the lane's device while its steps ran: "multiprocessors 91 % active, ..."; "" where
 * nothing was. */
const char *hr_sampled_words(const hr_lane *lane, char *out, size_t size);
/* A table of the kernels that have counters, at most `most`; nothing where none has. */
void hr_counters_text(hr_sheet *paper, const hr_diagnosis *diagnosis, int most);
void hr_counters_html(hr_text *out, const hr_diagnosis *diagnosis, int most);

#endif
