/* The steps of a lane in words. For reports of a diagnosis. */
#ifndef HR_REPORT_REPORT_STEPS_H
#define HR_REPORT_REPORT_STEPS_H

#include "diagnose/diagnose.h"

/* "18 take 15.1 ms, 6 take 75.0 ms: 59.9 ms more waiting for input data"; "" where steps are alike. */
const char *hr_modes_words(const hr_lane *lane, bool unicode, char *out, size_t size);
/* "29 % of the trace: 13.6 ms before, 2.0 ms behind; the device computes 97 % of it"; "" where it is next to
 * nothing. */
const char *hr_outside_words(const hr_lane *lane, bool unicode, char *out, size_t size);

#endif
