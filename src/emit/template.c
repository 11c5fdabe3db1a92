/* Fills the holes of a template. See template.h. */
#include "emit/template.h"

#include <ctype.h>
#include <string.h>

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static const hr_hole *hole_of(const char *word, size_t length, const hr_hole *holes, int count) {
    for (int i = 0; i < count; i++)
        if (strlen(holes[i].name) == length && memcmp(holes[i].name, word, length) == 0) return &holes[i];
    return NULL;
}

void hr_template_append(const unsigned char *text, const hr_hole *holes, int count, hr_text *out) {
    const char *at = (const char *)text;
    while (*at) {
        const char *word = at;
        while (in_word(*at))
            at++;
        at += at == word;
        size_t length = (size_t)(at - word);
        const hr_hole *hole = hole_of(word, length, holes, count);
        if (hole)
            hr_text_append(out, hole->value, strlen(hole->value));
        else
            hr_text_append(out, word, length);
    }
}
