/* Values of JSON: a number that JSON cannot hold becomes null, bytes that are no UTF-8 are replaced. */
#ifndef HR_REPORT_JSON_VALUE_H
#define HR_REPORT_JSON_VALUE_H

#include "report/report.h"

#include <jansson.h>

json_t *hr_value_text(const char *text); /* "" for NULL */
json_t *hr_value_real(double value);
/* They take the value over. NULL in its place, or no room for it, is a want of memory that hr_value_give()
 * tells. */
void hr_value_set(json_t *object, const char *key, json_t *value);
void hr_value_append(json_t *array, json_t *value);
void hr_value_set_text(json_t *object, const char *key, const char *text);
void hr_value_set_real(json_t *object, const char *key, double value);
void hr_value_set_whole(json_t *object, const char *key, int64_t value);
/* Ends the object: its text through `out`. `before`: hr_memory_wants() when it was begun; HR_OUT_OF_MEMORY
 * where any was wanted since. */
hr_status hr_value_give(json_t *object, long before, char **out);
/* The same in one line. */
hr_status hr_value_give_line(json_t *object, long before, char **out);

#endif
