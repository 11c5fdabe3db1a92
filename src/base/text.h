/* A string that grows: source text, messages, reports.
 *
 * A failed allocation is remembered; appends after it do nothing, and hr_text_status() says so at the end. So
 * it does where anything else of this thread wanted memory since the text began: a part of it may be missing.
 */
#ifndef HR_BASE_TEXT_H
#define HR_BASE_TEXT_H

#include "base/status.h"
#include <stddef.h>

typedef struct hr_text {
    char *data; /* always terminated; "" while nothing was appended is NULL-safe through hr_text_data() */
    size_t length, capacity;
    long wants; /* hr_memory_wants() when it began: what is appended may come of what failed since */
    bool failed;
} hr_text;

void hr_text_append(hr_text *text, const char *data, size_t length);
void hr_text_format(hr_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *hr_text_data(const hr_text *text);
hr_status hr_text_status(const hr_text *text);
void hr_text_clear(hr_text *text); /* frees */

/* Bytes of the UTF-8 sequence that begins at `at`, of at most `left`; 0 where there is no valid one. `code`
 * may be NULL. */
size_t hr_utf8_take(const char *at, size_t left, uint32_t *code);

#endif
