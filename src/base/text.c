/* A string that grows. In: pieces. Out: the whole, or the news that memory ran out. */
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool text_reserve(hr_text *text, size_t more) {
    size_t need = text->length + more + 1;
    if (text->failed) return false;
    if (need <= text->capacity) return true;
    size_t capacity = text->capacity ? text->capacity : 256;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void hr_text_append(hr_text *text, const char *data, size_t length) {
    if (!text_reserve(text, length)) return;
    memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

void hr_text_format(hr_text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length > 0 && text_reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

const char *hr_text_data(const hr_text *text) {
    return text->data ? text->data : "";
}

hr_status hr_text_status(const hr_text *text) {
    return text->failed
               ? hr_fail(HR_OUT_OF_MEMORY, "out of memory while building a text of %zu bytes", text->length)
               : HR_OK;
}

void hr_text_clear(hr_text *text) {
    free(text->data);
    *text = (hr_text){0};
}
