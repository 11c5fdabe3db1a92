/* Trims the prelude to what a body of C uses.
 *
 * In: C source. Out: the paragraphs of the prelude that define an identifier of it, and those that these use
 * in turn. Directives that choose among instruction sets and the includes are always kept.
 */
#include "emit/prelude.h"
#include "base/memory.h"
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
    bool used, scanned, appended;
} section;

/* A name and a section that defines it; one name may have a section for each instruction set. */
typedef struct definition {
    span name;
    int section;
} definition;

typedef struct prelude {
    span text;
    bool first_counts; /* of several definitions of a name only the first is meant; what is used comes before
                          its use */
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
    const definition *x = a, *y = b;
    int order = compare_names(x->name, y->name);
    return order != 0 ? order : x->section - y->section;
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

/* What a line says after `template <...> `. */
static span without_template(span line) {
    const char *end = begins(line, "template <") ? find(line, "> ") : NULL;
    if (end == NULL) return line;
    size_t skipped = (size_t)(end - line.data) + 2;
    return (span){line.data + skipped, line.length - skipped};
}

static span without_attribute(span line) {
    static const char before[] = "static __attribute__((";
    const char *end = begins(line, before) ? find(line, ")) ") : NULL;
    if (end == NULL) return line;
    size_t skipped = (size_t)(end - line.data) + 3;
    return (span){line.data + skipped, line.length - skipped};
}

/* The name that a line at the left margin defines; empty where it defines none. */
static span defined_name(span line) {
    bool attributed = begins(line, "static __attribute__((");
    line = without_attribute(without_template(line));
    const char *stop = attributed || begins(line, "static inline ") || begins(line, "static void ") ||
                               begins(line, "static __device__ ") || begins(line, "static __host__ ")
                           ? "("
                       : begins(line, "static const ") ? "["
                       : begins(line, "struct ")       ? "{"
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
    span rest = p->text;
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

/* The first definition of the name, or where it would stand. */
static int find_definition(const prelude *p, span name) {
    int low = 0, high = p->definition_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (compare_names(p->definitions[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool defines(const prelude *p, int definition, span name) {
    return definition < p->definition_count && compare_names(p->definitions[definition].name, name) == 0;
}

static void use_name(prelude *p, span name) {
    for (int i = find_definition(p, name); defines(p, i, name); i++) {
        section *found = &p->sections[p->definitions[i].section];
        p->changed |= !found->used;
        found->used = true;
        if (p->first_counts) return;
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

/* Where the comment that begins at `i` ends; `i` where none does. */
static size_t after_comment(span text, size_t i) {
    if (i + 2 > text.length || memcmp(text.data + i, "/*", 2) != 0) return i;
    const char *end = find((span){text.data + i, text.length - i}, "*/");
    return end ? (size_t)(end - text.data) + 2 : i;
}

/* After all that it uses. */
static void append_section(prelude *p, section *s, hr_text *out) {
    if (!s->used || s->appended) return;
    s->appended = true;
    for (size_t i = 0; p->first_counts && i < s->text.length;) {
        size_t start = i = after_comment(s->text, i);
        while (i < s->text.length && in_word(s->text.data[i]))
            i++;
        span name = {s->text.data + start, i - start};
        int found = i > start ? find_definition(p, name) : p->definition_count;
        if (defines(p, found, name)) append_section(p, &p->sections[p->definitions[found].section], out);
        i += i == start;
    }
    hr_text_append(out, s->text.data, s->text.length);
    hr_text_append(out, "\n", 1);
}

static size_t line_count(span text) {
    size_t count = 1;
    for (size_t i = 0; i < text.length; i++)
        count += text.data[i] == '\n';
    return count;
}

/* `uses`: up to two texts that use names of `text`, the second may be empty. */
static hr_status append(span text, bool first_counts, const char *uses, span more_uses, hr_text *out) {
    size_t capacity = line_count(text);
    prelude p = {.text = text,
                 .first_counts = first_counts,
                 .sections = hr_memory_zeros(capacity, sizeof(section)),
                 .definitions = hr_memory_zeros(capacity, sizeof(definition))};
    hr_status status = HR_OK;
    if (p.sections == NULL || p.definitions == NULL) {
        status = hr_fail(HR_OUT_OF_MEMORY, "no memory to assemble the prelude of the generated source");
        goto done;
    }
    split(&p);
    use_names_of(&p, (span){uses, strlen(uses)});
    use_names_of(&p, more_uses);
    use_transitively(&p);
    for (int i = 0; i < p.section_count; i++)
        append_section(&p, &p.sections[i], out);
    status = hr_text_status(out);
done:
    free(p.sections);
    free(p.definitions);
    return status;
}

hr_status hr_prelude_trim(const char *text, const char *body, hr_text *out) {
    return append((span){text, strlen(text)}, false, body, (span){0}, out);
}

hr_status hr_prelude_append(const char *body, hr_text *out) {
    return append((span){(const char *)hr_prelude_text, hr_prelude_length}, false, body, (span){0}, out);
}

/* The PTX wrappers stand under one condition: an emulator brings functions of the same names. */
static hr_status append_ptx(const char *body, span prelude, hr_text *out) {
    hr_text wrappers = {0};
    span text = {(const char *)hr_prelude_ptx_text, hr_prelude_ptx_length};
    hr_status status = append(text, true, body, prelude, &wrappers);
    if (status == HR_OK && wrappers.length > 0)
        hr_text_format(out, "#ifndef HR_EMULATED\n%s#endif\n\n", hr_text_data(&wrappers));
    hr_text_clear(&wrappers);
    return status != HR_OK ? status : hr_text_status(out);
}

hr_status hr_prelude_cuda_append(const char *body, hr_text *out) {
    hr_text sections = {0};
    span text = {(const char *)hr_prelude_cuda_text, hr_prelude_cuda_length};
    hr_status status = append(text, true, body, (span){0}, &sections);
    if (status == HR_OK) status = append_ptx(body, (span){hr_text_data(&sections), sections.length}, out);
    if (status == HR_OK) hr_text_append(out, hr_text_data(&sections), sections.length);
    hr_text_clear(&sections);
    return status != HR_OK ? status : hr_text_status(out);
}
