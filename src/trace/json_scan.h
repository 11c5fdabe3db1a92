/* Pulls JSON apart where it lies, as lenient as the files in the wild need.
 *
 * In: a buffer that ends with HR_JSON_PAD zero bytes behind `end`. Out: slices of it. A cursor stops for good
 * at the end of the buffer (`more`) or where the text cannot be JSON (`bad`). Forgiven are raw control
 * characters, invalid UTF-8, missing and doubled commas, and quotes inside of strings that nobody escaped: a
 * quote ends a string only where a comma, a colon or a closing bracket follows.
 */
#ifndef HR_TRACE_JSON_SCAN_H
#define HR_TRACE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_JSON_PAD 64

typedef struct hr_json {
    const char *at, *end;
    bool more, bad;
} hr_json;

typedef enum hr_json_kind {
    HR_JSON_NONE,
    HR_JSON_STRING,
    HR_JSON_NUMBER, /* and true, false, null */
    HR_JSON_OBJECT,
    HR_JSON_ARRAY
} hr_json_kind;

/* A piece of the buffer: a string without its quotes, anything else with its brackets. */
typedef struct hr_json_slice {
    const char *text;
    size_t length;
    hr_json_kind kind;
    bool escaped; /* a string with backslashes */
} hr_json_slice;

/* The next character that is no blank, 0 and `more` at the end. */
char hr_json_peek(hr_json *json);
/* Inside of an object: the next key, with the cursor at its value; false behind the closing brace. */
bool hr_json_member(hr_json *json, hr_json_slice *key);
/* From inside of an object to behind its closing brace, whatever stands between. */
bool hr_json_leave(hr_json *json);
/* Inside of an array: whether another element follows; false behind the closing bracket. */
bool hr_json_element(hr_json *json);
/* One value of any kind, whole. */
bool hr_json_take(hr_json *json, hr_json_slice *out);

bool hr_json_is(const hr_json_slice *slice, const char *text);
/* Whole numbers, also in quotes or with a fraction, which is cut off; beyond 64 bits the nearest one. False
 * where it is no number. */
bool hr_json_whole(const hr_json_slice *slice, int64_t *out);
/* A decimal number times 1000, digits after the third of its fraction cut off. */
bool hr_json_thousandths(const hr_json_slice *slice, int64_t *out);
bool hr_json_real(const hr_json_slice *slice, double *out);
/* Writes a string without its escapes to `out`, which has room for slice->length; gives the bytes written. */
size_t hr_json_unescape(const hr_json_slice *slice, char *out);

#endif
