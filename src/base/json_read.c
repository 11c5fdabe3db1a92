/* Reads JSON and compares what was read with its text. See json_read.h. */
#include "base/json_read.h"

#include "base/mapping.h"

#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MOST 64 /* characters of a real number that is compared */

/* ---- whether a value is what its text says ---- */

/* A text that jansson took for right, so that brackets, quotes and escapes are whole. */
typedef struct text {
    const char *at, *end;
} text;

static void space_skip(text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
        t->at++;
}

/* The next sign that is no space, where it is this one. */
static bool sign_take(text *t, char sign) {
    space_skip(t);
    if (t->at == t->end || *t->at != sign) return false;
    t->at++;
    return true;
}

/* The four digits behind \u. */
static long hexadecimal_take(text *t) {
    char digits[5] = "";
    if (t->end - t->at < 4) return -1;
    memcpy(digits, t->at, 4);
    t->at += 4;
    return strtol(digits, NULL, 16);
}

static size_t utf8_write(long point, char *out) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    const size_t count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00 >> count & 0xff) | point);
    return count;
}

/* What an escape stands for, behind its backslash; 0 bytes: it is none. */
static size_t escape_take(text *t, char out[4]) {
    static const char letters[] = "bfnrt", means[] = "\b\f\n\r\t";
    if (t->at == t->end) return 0;
    const char letter = *t->at++;
    const char *known = strchr(letters, letter);
    if (letter != 'u') {
        out[0] = known && letter ? means[known - letters] : letter;
        return 1;
    }
    long point = hexadecimal_take(t);
    if (point >= 0xd800 && point < 0xdc00 && t->end - t->at > 2) { /* the first of two */
        t->at += 2;
        point = 0x10000 + ((point & 0x3ff) << 10) + (hexadecimal_take(t) & 0x3ff);
    }
    return point < 0 ? 0 : utf8_write(point, out);
}

static bool string_is(text *t, const char *value, size_t length) {
    const char *const end = value + length;
    if (!sign_take(t, '"')) return false;
    while (t->at < t->end && *t->at != '"') {
        char meant[4] = {*t->at++};
        size_t count = 1;
        if (meant[0] == '\\') count = escape_take(t, meant);
        if (count == 0 || (size_t)(end - value) < count || memcmp(value, meant, count) != 0) return false;
        value += count;
    }
    return value == end && sign_take(t, '"');
}

static bool word_is(text *t, const char *word) {
    const size_t length = strlen(word);
    if ((size_t)(t->end - t->at) < length || memcmp(t->at, word, length) != 0) return false;
    t->at += length;
    return true;
}

static bool number_is(text *t, const json_t *value) {
    const char *begin = t->at;
    char copy[NUMBER_MOST];
    while (t->at < t->end && *t->at && strchr("+-.0123456789Ee", *t->at))
        t->at++;
    const size_t length = (size_t)(t->at - begin);
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, begin, length);
    copy[length] = 0;
    if (json_is_integer(value)) return strtoll(copy, NULL, 10) == json_integer_value(value);
    return strcmp(localeconv()->decimal_point, ".") == 0 && strtod(copy, NULL) == json_real_value(value);
}

static bool value_is(text *t, json_t *value);

static bool array_is(text *t, const json_t *value) {
    if (!sign_take(t, '[')) return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if ((i > 0 && !sign_take(t, ',')) || !value_is(t, json_array_get(value, i))) return false;
    return sign_take(t, ']');
}

/* Its pairs are in the order of the text. */
static bool object_is(text *t, json_t *value) {
    if (!sign_take(t, '{')) return false;
    for (void *first = json_object_iter(value), *pair = first; pair;
         pair = json_object_iter_next(value, pair)) {
        const char *key = json_object_iter_key(pair);
        if ((pair != first && !sign_take(t, ',')) || !string_is(t, key, strlen(key)) || !sign_take(t, ':') ||
            !value_is(t, json_object_iter_value(pair)))
            return false;
    }
    return sign_take(t, '}');
}

/* As deep as jansson goes. */
static bool value_is(text *t, json_t *value) {
    space_skip(t);
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return object_is(t, value);
    case JSON_ARRAY:
        return array_is(t, value);
    case JSON_STRING:
        return string_is(t, json_string_value(value), json_string_length(value));
    case JSON_TRUE:
        return word_is(t, "true");
    case JSON_FALSE:
        return word_is(t, "false");
    case JSON_NULL:
        return word_is(t, "null");
    default:
        return number_is(t, value);
    }
}

/* ---- reading ---- */

typedef struct reading {
    json_t *value;
    json_error_t error;
    bool lacks_memory;
} reading;

/* Of a file where there are no bytes. */
static reading read_once(const char *data, size_t length, const char *path) {
    reading r;
    errno = 0;
    r.value = data ? json_loadb(data, length, JSON_REJECT_DUPLICATES, &r.error)
                   : json_load_file(path, JSON_REJECT_DUPLICATES, &r.error);
    /* without memory it mostly has no words for it */
    r.lacks_memory = !r.value && (errno == ENOMEM || !r.error.text[0]);
    return r;
}

/* What cannot be compared with its text, or a mistake in it, is believed where a second reading has it, too.
 */
static hr_status read_checked(const char *data, size_t length, const char *name, int line, json_t **out) {
    reading first = read_once(data, length, name);
    if (first.value && data && value_is(&(text){data, data + length}, first.value)) {
        *out = first.value;
        return HR_OK;
    }
    reading second = read_once(data, length, name);
    const bool same = first.value && second.value && json_equal(first.value, second.value);
    const bool wrong = !first.value && !second.value && !first.lacks_memory && !second.lacks_memory;
    json_decref(second.value);
    if (same) {
        *out = first.value;
        return HR_OK;
    }
    json_decref(first.value);
    return wrong ? hr_fail(HR_BAD_INPUT, "%s:%d: %s", name, line + first.error.line - 1, first.error.text)
                 : hr_fail(HR_OUT_OF_MEMORY, "%s: no memory to read its JSON", name);
}

hr_status hr_json_read(const char *data, size_t length, const char *name, int line, json_t **out) {
    return read_checked(data, length, name, line, out);
}

hr_status hr_json_read_file(const char *path, json_t **out) {
    hr_mapping mapping;
    if (hr_mapping_open(path, &mapping) != HR_OK) return read_checked(NULL, 0, path, 1, out);
    hr_status status = read_checked(mapping.data, mapping.length, path, 1, out);
    hr_mapping_close(&mapping);
    return status;
}
