/* Where the `model` section of a text lies.
 *
 * In: a text. Out: what stands between `model NAME {` at the beginning of a line and the brace at the
 * beginning of a line that closes it. The language's own parser goes past it; src/model reads it.
 */
#ifndef HR_LANG_MODEL_SECTION_H
#define HR_LANG_MODEL_SECTION_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hr_model_section {
    const char *name;
    size_t name_length;
    const char *begin, *end; /* what stands in the braces */
    const char *behind;      /* the closing brace */
    int line;                /* of `begin`, counted from 1 where the text begins */
} hr_model_section;

/* False where there is none, or it does not end. */
bool hr_model_section_find(const char *text, size_t length, hr_model_section *out);

#endif
