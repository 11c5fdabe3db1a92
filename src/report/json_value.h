/* Values of JSON: a number that JSON cannot hold becomes null, bytes that are no UTF-8 are replaced. */
#ifndef HR_REPORT_JSON_VALUE_H
#define HR_REPORT_JSON_VALUE_H

#include "report/report.h"

#include <jansson.h>

json_t *hr_value_text(const char *text); /* "" for NULL */
json_t *hr_value_real(double value);
void hr_value_set_text(json_t *object, const char *key, const char *text);
void hr_value_set_real(json_t *object, const char *key, double value);
void hr_value_set_whole(json_t *object, const char *key, int64_t value);
/* Ends the object: its text through `out`. */
hr_status hr_value_give(json_t *object, char **out);

#endif
