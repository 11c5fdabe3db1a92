/* Names, each kept once. In: bytes. Out: small numbers, and bytes again. */
#ifndef HR_TRACE_TRACE_STRINGS_H
#define HR_TRACE_TRACE_STRINGS_H

#include "base/status.h"
#include <stddef.h>

typedef struct hr_strings hr_strings;

hr_status hr_strings_create(hr_strings **out);
void hr_strings_destroy(hr_strings *strings);
/* -1 where these bytes were never given. */
int32_t hr_strings_find(const hr_strings *strings, const char *bytes, size_t length);
/* -1 when there is no room for more. */
int32_t hr_strings_intern(hr_strings *strings, const char *bytes, size_t length);
/* "" for a number that was not given out. */
const char *hr_strings_text(const hr_strings *strings, int32_t id);

#endif
