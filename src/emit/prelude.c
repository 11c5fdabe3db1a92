/* Trims the prelude to what a body of C uses.
 *
 * In: C source. Out: the paragraphs of the prelude that define an identifier of it, and those that these use
 * in turn. Directives that choose among instruction sets and the includes are always kept.
 */
#include "emit/prelude.h"
#include "emit/prelude_text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct span {
    const char *data;
    size_t length;
} span;

typedef struct section {
    span text;
    bool used, scanned;
} section;

/* A name and a section that defines it; one name may have a section for each instruction set. */
typedef struct definition {
    span name;
    int section;
} definition;

typedef struct prelude {
    section *sections;
    definition *definitions; /* sorted by name */
    int section_count, definition_count;
    bool changed;
} prelude;

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static int compare_names(span a, span b) {
    int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int compare_definitions(const void *a, const void *b) {
    return compare_names(((const definition *)a)->name, ((const definition *)b)->name);
}

static bool begins(span line, const char *word) {
    return line.length >= strlen(word) && memcmp(line.data, word, strlen(word)) == 0;
}

/* The identifier that ends at `end`, exclusive. */
static span word_before(span line, size_t end) {
    size_t start = end;
    while (start > 0 && in_word(line.data[start - 1]))
        start--;
    return (span){line.data + start, end - start};
}

static const char *find(span text, const char *what) {
    size_t length = strlen(what);
    for (size_t i = 0; i + length <= text.length; i++)
        if (memcmp(text.data + i, what, length) == 0) return text.data + i;
    return NULL;
}

/* The name that a line at the left margin defines; empty where it defines none. */
static span defined_name(span line) {
    const char *stop = begins(line, "static inline ")  ? "("
                       : begins(line, "static const ") ? "["
                       : begins(line, "typedef ")      ? "__attribute__"
                       : begins(line, "} ")            ? ";"
                                                       : NULL;
    if (begins(line, "#define ")) {
        size_t end = 8;
        while (end < line.length && in_word(line.data[end]))
            end++;
        return word_before(line, end);
    }
    if (stop == NULL) return (span){0};
    const char *at = find(line, stop);
    if (at == NULL) at = find(line, ";");
    if (at == NULL) return (span){0};
    size_t end = (size_t)(at - line.data);
    while (end > 0 && line.data[end - 1] == ' ')
        end--;
    return word_before(line, end);
}

static span next_line(span *rest) {
    const char *end = memchr(rest->data, '\n', rest->length);
    size_t length = end != NULL ? (size_t)(end - rest->data) + 1 : rest->length;
    span line = {rest->data, length};
    rest->data += length;
    rest->length -= length;
    return line;
}

static bool is_blank(span line) {
    return line.length == 1 && line.data[0] == '\n';
}

static bool is_always_kept(span paragraph) {
    span first = next_line(&paragraph);
    return begins(first, "#include ") || (begins(first, "#") && paragraph.length == 0);
}

static span next_paragraph(span *rest) {
    span paragraph = {rest->data, 0};
    while (rest->length > 0) {
        span line = next_line(rest);
        if (is_blank(line) && paragraph.length > 0) break;
        if (is_blank(line))
            paragraph.data = rest->data;
        else
            paragraph.length += line.length;
    }
    return paragraph;
}

/* Splits the text. The arrays are as large as there are lines, which is an upper bound of both counts. */
static void split(prelude *p) {
    span rest = {(const char *)hr_prelude_text, hr_prelude_length};
    while (rest.length > 0) {
        span text = next_paragraph(&rest);
        if (text.length == 0) continue;
        p->sections[p->section_count] = (section){.text = text, .used = is_always_kept(text)};
        while (text.length > 0) {
            span name = defined_name(next_line(&text));
            if (name.length > 0) p->definitions[p->definition_count++] = (definition){name, p->section_count};
        }
        p->section_count++;
    }
    qsort(p->definitions, (size_t)p->definition_count, sizeof *p->definitions, compare_definitions);
}

static void use_name(prelude *p, span name) {
    definition key = {.name = name};
    definition *found =
        bsearch(&key, p->definitions, (size_t)p->definition_count, sizeof key, compare_definitions);
    if (found == NULL) return;
    while (found > p->definitions && compare_names(found[-1].name, name) == 0)
        found--;
    for (; found < p->definitions + p->definition_count && compare_names(found->name, name) == 0; found++) {
        p->changed |= !p->sections[found->section].used;
        p->sections[found->section].used = true;
    }
}

static void use_names_of(prelude *p, span text) {
    for (size_t i = 0; i < text.length;) {
        size_t start = i;
        while (i < text.length && in_word(text.data[i]))
            i++;
        if (i > start)
            use_name(p, (span){text.data + start, i - start});
        else
            i++;
    }
}

static void use_transitively(prelude *p) {
    do {
        p->changed = false;
        for (int i = 0; i < p->section_count; i++) {
            section *s = &p->sections[i];
            if (!s->used || s->scanned) continue;
            s->scanned = true;
            use_names_of(p, s->text);
        }
    } while (p->changed);
}

static size_t line_count(void) {
    size_t count = 1;
    for (size_t i = 0; i < hr_prelude_length; i++)
        count += hr_prelude_text[i] == '\n';
    return count;
}

hr_status hr_prelude_append(const char *body, hr_text *out) {
    size_t capacity = line_count();
    prelude p = {.sections = calloc(capacity, sizeof(section)),
                 .definitions = calloc(capacity, sizeof(definition))};
    hr_status status = HR_OK;
    if (p.sections == NULL || p.definitions == NULL) {
        status = hr_fail(HR_OUT_OF_MEMORY, "no memory to assemble the prelude of the generated source");
        goto done;
    }
    split(&p);
    use_names_of(&p, (span){body, strlen(body)});
    use_transitively(&p);
    for (int i = 0; i < p.section_count; i++)
        if (p.sections[i].used) {
            hr_text_append(out, p.sections[i].text.data, p.sections[i].text.length);
            hr_text_append(out, "\n", 1);
        }
    status = hr_text_status(out);
done:
    free(p.sections);
    free(p.definitions);
    return status;
}
