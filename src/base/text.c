/* A string that grows. In: pieces. Out: the whole, or the news that memory ran out. */
#include "base/text.h"
#include "base/memory.h"

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
    char *data = hr_memory_resize(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    if (!text->data) text->wants = hr_memory_wants();
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
    const bool wanted = text->data && hr_memory_wants() != text->wants;
    return text->failed || wanted
               ? hr_fail(HR_OUT_OF_MEMORY, "out of memory while building a text of %zu bytes", text->length)
               : HR_OK;
}

void hr_text_clear(hr_text *text) {
    free(text->data);
    *text = (hr_text){0};
}

size_t hr_utf8_take(const char *at, size_t left, uint32_t *code) {
    const unsigned char *byte = (const unsigned char *)at;
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; left && more < 4; more++) {
        if ((byte[0] & forms[more].mask) != forms[more].lead) continue;
        uint32_t value = byte[0] & (unsigned char)~forms[more].mask;
        if (more >= left) return 0;
        for (size_t i = 1; i <= more; i++) {
            if ((byte[i] & 0xc0) != 0x80) return 0;
            value = value << 6 | (byte[i] & 0x3f);
        }
        bool surrogate = value >= 0xd800 && value < 0xe000;
        if (value < forms[more].least || value >= 0x110000 || surrogate) return 0;
        if (code) *code = value;
        return more + 1;
    }
    return 0;
}

bool hr_character_is_shown(const char *text, size_t left, size_t *length) {
    uint32_t code;
    const size_t taken = text ? hr_utf8_take(text, left, &code) : 0;
    if (length) *length = taken ? taken : left > 0;
    if (!taken) return false;
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},   {0x200b, 0x200b}, {0x200e, 0x200f},
                  {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i].first && code <= hidden[i].last) return false;
    return true;
}
