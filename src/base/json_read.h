/* A text of JSON, read whole or not at all.
 *
 * In: bytes or a file. Out: its value. jansson cuts a word short where it gets no memory for it, and says
 * nothing; so what was read is compared with its text.
 */
#ifndef HR_BASE_JSON_READ_H
#define HR_BASE_JSON_READ_H

#include "base/status.h"
#include <jansson.h>
#include <stddef.h>

/* `line`: that of `name` in which the bytes begin. The value is freed by json_decref(). An object that has a
 * key twice is a mistake. */
hr_status hr_json_read(const char *data, size_t length, const char *name, int line, json_t **out);
hr_status hr_json_read_file(const char *path, json_t **out);

#endif
