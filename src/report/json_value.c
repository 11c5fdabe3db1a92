/* Values of JSON as the reports write them. In: C values. Out: jansson's. */
#include "report/json_value.h"
#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>

json_t *hr_value_text(const char *text) {
    hr_text clean = {0};
    hr_utf8_clean(&clean, text ? text : "");
    json_t *value = json_string(hr_text_data(&clean));
    hr_text_clear(&clean);
    return value;
}

json_t *hr_value_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

void hr_value_set(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) hr_memory_note_want();
}

void hr_value_append(json_t *array, json_t *value) {
    if (json_array_append_new(array, value) != 0) hr_memory_note_want();
}

void hr_value_set_text(json_t *object, const char *key, const char *text) {
    hr_value_set(object, key, hr_value_text(text));
}

void hr_value_set_real(json_t *object, const char *key, double value) {
    hr_value_set(object, key, hr_value_real(value));
}

void hr_value_set_whole(json_t *object, const char *key, int64_t value) {
    hr_value_set(object, key, json_integer(value));
}

/* Into our own text, which remembers a want of memory: jansson's forgets some. What would drive a terminal is
 * written as its number: in JSON that is the same string. */
static int append(const char *data, size_t length, void *text) {
    size_t step;
    for (size_t at = 0; at < length; at += step) {
        uint32_t code = 0;
        if (hr_character_is_shown(data + at, length - at, &step) || (unsigned char)data[at] < 0x7f)
            hr_text_append(text, data + at, step);
        else if (hr_utf8_take(data + at, length - at, &code) && code < 0x10000)
            hr_text_format(text, "\\u%04x", code);
        else /* halves of a pair */
            hr_text_format(text, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    }
    return 0;
}

static hr_status give(json_t *object, long before, size_t form, char **out) {
    hr_text text = {0};
    bool whole =
        object && hr_memory_wants() == before &&
        json_dump_callback(object, append, &text, form | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) == 0;
    json_decref(object);
    hr_text_append(&text, "\n", 1);
    if (whole) return hr_text_give(&text, out);
    hr_text_clear(&text);
    return hr_fail(HR_OUT_OF_MEMORY, "out of memory while building JSON");
}

hr_status hr_value_give(json_t *object, long before, char **out) {
    return give(object, before, JSON_INDENT(2), out);
}

hr_status hr_value_give_line(json_t *object, long before, char **out) {
    return give(object, before, 0, out);
}
