/* See template.h. */
#include "template.h"

#include <ctype.h>
#include <string.h>

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static const hole *hole_of(const char *name, size_t length, const hole *holes, int count) {
    for (int i = 0; i < count; i++)
        if (strlen(holes[i].name) == length && memcmp(holes[i].name, name, length) == 0) return &holes[i];
    return NULL;
}

static void append(const char *filling, const char *name, size_t length, hr_text *out) {
    hr_text_append(out, filling ? filling : name, filling ? strlen(filling) : length);
}

static void append_parts(const char *word, size_t length, const hole *holes, int count, hr_text *out) {
    for (size_t begin = 0; begin <= length;) {
        const char *end = memchr(word + begin, '_', length - begin);
        const size_t part = end ? (size_t)(end - word) - begin : length - begin;
        const hole *found = hole_of(word + begin, part, holes, count);
        append(found ? found->part : NULL, word + begin, part, out);
        if (end) hr_text_append(out, "_", 1);
        begin += part + 1;
    }
}

void template_append(const char *text, const hole *holes, int count, hr_text *out) {
    while (*text) {
        const char *word = text;
        while (in_word(*text))
            text++;
        const size_t length = (size_t)(text - word);
        const hole *found = hole_of(word, length, holes, count);
        if (found && found->word)
            append(found->word, word, length, out);
        else if (length)
            append_parts(word, length, holes, count, out);
        if (*text) hr_text_append(out, text++, 1);
    }
}
