/* The parts of a diagnosis's page, and what they and the Perfetto export share. */
#ifndef HR_REPORT_DIAGNOSIS_PAGE_H
#define HR_REPORT_DIAGNOSIS_PAGE_H

#include "diagnose/diagnose.h"
#include "report/report.h"

/* A string of JSON with its quotes, safe inside of a script element: & < > are escaped, bytes that are no
 * UTF-8 become U+FFFD. */
void hr_json_string(hr_text *out, const char *text);

/* What the script draws, as one JSON object: the chosen step of the lane, its tracks, the critical path, the
 * places of the findings. Gives how many slices were too short to be drawn. */
hr_status hr_timeline_json(hr_text *out, const hr_diagnosis *diagnosis, int64_t *left_out);

/* Kernels under the roofs of memory and arithmetic; nothing where no kernel's bytes and operations are known.
 */
void hr_svg_kernels(hr_text *out, const hr_diagnosis *diagnosis);
bool hr_kernels_have_roofline(const hr_diagnosis *diagnosis);

#endif
