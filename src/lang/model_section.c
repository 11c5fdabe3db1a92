/* Finds the `model` section. In: a text. Out: where it lies. See model_section.h. */
#include "lang/model_section.h"

#include <ctype.h>
#include <string.h>

static const char *line_end(const char *at, const char *end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return stop ? stop : end;
}

static const char *skip_blanks(const char *at, const char *end, int *line) {
    while (at < end && isspace((unsigned char)*at)) {
        *line += *at == '\n';
        at++;
    }
    return at;
}

/* `at` is the beginning of a line: model NAME {, with the brace on a line of its own where one likes. */
static bool section_begins(const char *at, const char *end, hr_model_section *out) {
    static const char word[] = "model ";
    int line = 0;
    if ((size_t)(end - at) < strlen(word) || memcmp(at, word, strlen(word)) != 0) return false;
    out->name = at = skip_blanks(at + strlen(word), end, &line);
    while (at < end && (isalnum((unsigned char)*at) || *at == '_'))
        at++;
    out->name_length = (size_t)(at - out->name);
    at = skip_blanks(at, end, &line);
    if (out->name_length == 0 || at == end || *at != '{') return false;
    out->begin = at + 1;
    out->line += line;
    return true;
}

bool hr_model_section_find(const char *text, size_t length, hr_model_section *out) {
    const char *end = text + length;
    bool inside = false;
    hr_model_section found = {.line = 1};
    for (const char *at = text; at < end; at = line_end(at, end) + 1) {
        if (inside && *at == '}') {
            found.end = found.behind = at;
            *out = found;
            return true;
        }
        int line = found.line;
        if (!inside && section_begins(at, end, &found))
            inside = true;
        else if (!inside)
            found.line = line + 1;
        if (inside && line_end(at, end) < found.begin) at = found.begin - 1;
    }
    return false;
}
