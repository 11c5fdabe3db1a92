/* C source for a page, lightly coloured. In: generated source. Out: escaped HTML with spans of classes
 * c (comment), k (keyword), n (number), s (string), p (preprocessor). */
#include "report/report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const keywords[] = {
    "auto",   "bool",     "break",    "case",    "char",     "const",    "continue", "default", "do",
    "double", "else",     "enum",     "extern",  "float",    "for",      "goto",     "if",      "inline",
    "int",    "int32_t",  "int64_t",  "long",    "restrict", "return",   "short",    "signed",  "sizeof",
    "static", "struct",   "switch",   "typedef", "uint16_t", "uint32_t", "uint64_t", "uint8_t", "union",
    "void",   "volatile", "unsigned", "while",   "size_t",   "int8_t",   "int16_t"};

static bool is_keyword(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strlen(keywords[i]) == length && memcmp(keywords[i], word, length) == 0) return true;
    return false;
}

static size_t quoted_length(const char *at) {
    size_t length = 1;
    while (at[length] && at[length] != at[0] && at[length] != '\n')
        length += at[length] == '\\' && at[length + 1] ? 2 : 1;
    return length + (at[length] == at[0]);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The token at `at`: its length and its class, 0 for plain text. */
static size_t token(const char *at, bool line_start, char *kind) {
    size_t length = 0;
    *kind = 0;
    if (strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at + 2, "*/");
        *kind = 'c';
        return end ? (size_t)(end + 2 - at) : strlen(at);
    }
    if (strncmp(at, "//", 2) == 0) {
        *kind = 'c';
        return strcspn(at, "\n");
    }
    if (*at == '#' && line_start) {
        *kind = 'p';
        while (at[length] && (at[length] != '\n' || at[length - 1] == '\\'))
            length++;
        return length;
    }
    if (*at == '"' || *at == '\'') {
        *kind = 's';
        return quoted_length(at);
    }
    if (isdigit((unsigned char)*at)) {
        *kind = 'n';
        while (is_word(at[length]) || at[length] == '.' ||
               ((at[length] == '-' || at[length] == '+') && strchr("eEpP", at[length - 1])))
            length++;
        return length;
    }
    while (is_word(at[length]))
        length++;
    if (length == 0) return 1;
    if (is_keyword(at, length)) *kind = 'k';
    return length;
}

void hr_html_source(hr_text *out, const char *source) {
    bool line_start = true;
    hr_text_format(out, "<pre class='source'><code>");
    while (*source) {
        char kind, piece[512];
        size_t length = token(source, line_start, &kind);
        if (kind) hr_text_format(out, "<span class='%c'>", kind);
        for (size_t done = 0; done < length;) {
            size_t part = length - done < sizeof piece - 1 ? length - done : sizeof piece - 1;
            memcpy(piece, source + done, part);
            piece[part] = 0;
            hr_html_escape(out, piece);
            done += part;
        }
        if (kind) hr_text_format(out, "</span>");
        line_start = source[length - 1] == '\n' || (line_start && isspace((unsigned char)source[length - 1]));
        source += length;
    }
    hr_text_format(out, "</code></pre>\n");
}
