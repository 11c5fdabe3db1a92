/* Makes the preludes of emitted text from src/emit/templates/: fills the templates' holes, joins them, and
 * finds once what each paragraph defines and what it needs.
 *
 * In: make_prelude SRC HEADER PRODUCTS ARRAY. Out: HEADER and PRODUCTS, the texts "c" and "contract_f32" as
 * tests include them; ARRAY, what src/emit/prelude_text.h declares.
 *
 * A paragraph is what stands between blank lines. It defines the names of the lines at its left margin.
 */
#include "base/memory.h"
#include "prelude_texts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAGRAPHS_MAX = 2048, NAMES_MAX = 4096, NEEDS_MAX = 32768, PATH_MAX_LENGTH = 4096 };

/* ---- words of a text ---- */

typedef struct span {
    const char *data;
    int length;
} span;

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool is_word(span a, span b) {
    return a.length == b.length && memcmp(a.data, b.data, (size_t)a.length) == 0;
}

static bool begins(span line, const char *word) {
    return line.length >= (int)strlen(word) && memcmp(line.data, word, strlen(word)) == 0;
}

static span next_line(span *rest) {
    const char *end = memchr(rest->data, '\n', (size_t)rest->length);
    span line = {rest->data, end ? (int)(end - rest->data) + 1 : rest->length};
    rest->data += line.length;
    rest->length -= line.length;
    return line;
}

/* Past a comment, if one begins here. */
static int comment_length(span text) {
    if (!begins(text, "/*")) return 0;
    const char *end = strstr(text.data + 2, "*/");
    return end && end + 2 - text.data < text.length ? (int)(end + 2 - text.data) : text.length;
}

/* The next word outside of comments; empty at the end. */
static span next_word(span *rest) {
    while (rest->length > 0) {
        int past = comment_length(*rest), length = 0;
        while (!past && length < rest->length && in_word(rest->data[length]))
            length++;
        span word = {rest->data, length};
        past = length ? length : past ? past : 1;
        rest->data += past;
        rest->length -= past;
        if (length) return word;
    }
    return (span){0};
}

/* The word that ends at `end`, spaces in between. */
static span word_before(span line, int end) {
    while (end > 0 && line.data[end - 1] == ' ')
        end--;
    int begin = end;
    while (begin > 0 && in_word(line.data[begin - 1]))
        begin--;
    return (span){line.data + begin, end - begin};
}

/* What a line says after `opening` ... `closing`. */
static span without(span line, const char *opening, const char *closing) {
    const char *end = begins(line, opening) ? strstr(line.data, closing) : NULL;
    if (!end || end - line.data >= line.length) return line;
    int skipped = (int)(end - line.data) + (int)strlen(closing);
    return (span){line.data + skipped, line.length - skipped};
}

static span rest_of(span line, int from) {
    return (span){line.data + from, line.length - from};
}

/* The name that a line at the left margin declares; empty where it declares none. */
static span declared_name(span line) {
    static const char attribute[] = "__attribute__((";
    const bool type = begins(line, "typedef ");
    line = without(line, "template <", "> ");
    if (begins(line, "template <")) return (span){0};
    if (begins(line, "struct "))
        for (int at = 0; at < line.length; at++)
            if (strchr("{;", line.data[at])) return word_before(line, at);
    for (int at = 0; at < line.length; at++) {
        const span rest = rest_of(line, at);
        if (begins(rest, "(*")) {
            span pointer = rest_of(rest, 2);
            return next_word(&pointer);
        }
        if (begins(rest, attribute) && type) return word_before(line, at);
        if (begins(rest, attribute)) {
            const span after = without(rest, attribute, "))");
            at += after.length < rest.length ? rest.length - after.length - 1 : 0;
            continue;
        }
        if (strchr("([=;{", line.data[at])) return word_before(line, at);
    }
    return type ? word_before(line, line.length - 1) : (span){0}; /* its attributes are on the next line */
}

/* ---- paragraphs, their names and their needs ---- */

typedef struct name {
    span word;
    int paragraph;
    bool macro;
} name;

typedef struct tables {
    hr_text text;
    span paragraphs[PARAGRAPHS_MAX];
    int paragraph_count, wrapper_count;
    name names[NAMES_MAX]; /* sorted */
    int name_count;
    int needs[NEEDS_MAX], needs_end[PARAGRAPHS_MAX];
    bool sorted;
} tables;

static void die(const char *what, const char *which) {
    fprintf(stderr, "make_prelude: %s %s\n", what, which);
    exit(1);
}

static void append_part(const char *folder, const part *p, const char *between, hr_text *out) {
    char path[PATH_MAX_LENGTH], piece[4096];
    hr_text text = {0};
    snprintf(path, sizeof path, "%s/%s", folder, p->file);
    FILE *file = fopen(path, "r");
    if (!file) die("cannot read", path);
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        hr_text_append(&text, piece, got);
    fclose(file);
    if (p->before) hr_text_append(out, p->before, strlen(p->before));
    hr_text_append(out, between, strlen(between));
    template_append(hr_text_data(&text), p->filling->holes, p->filling->count, out);
    hr_text_clear(&text);
}

static void split_range(tables *t, size_t begin, size_t end) {
    span rest = {hr_text_data(&t->text) + begin, (int)(end - begin)};
    span paragraph = {rest.data, 0};
    while (rest.length > 0 || paragraph.length > 0) {
        span line = rest.length > 0 ? next_line(&rest) : (span){"\n", 1};
        if (line.data[0] != '\n') {
            paragraph.length += line.length;
            continue;
        }
        if (paragraph.length > 0 && t->paragraph_count == PARAGRAPHS_MAX) die("too many", "paragraphs");
        if (paragraph.length > 0) t->paragraphs[t->paragraph_count++] = paragraph;
        paragraph = (span){rest.data, 0};
    }
}

static int compare_names(const void *a, const void *b) {
    const name *x = a, *y = b;
    const int shorter = x->word.length < y->word.length ? x->word.length : y->word.length;
    int order = memcmp(x->word.data, y->word.data, (size_t)shorter);
    if (order == 0) order = x->word.length - y->word.length;
    return order ? order : x->paragraph - y->paragraph;
}

/* Of several definitions the first counts where the text is not sorted: one among wrappers, one after them.
 */
static bool is_repeated(const tables *t, const name *n) {
    if (t->sorted) return false;
    for (int i = 0; i < t->name_count; i++)
        if (is_word(t->names[i].word, n->word) &&
            (t->names[i].paragraph < t->wrapper_count) == (n->paragraph < t->wrapper_count))
            return true;
    return false;
}

static void add_name(tables *t, int paragraph, span word, bool macro) {
    const name found = {word, paragraph, macro};
    if (word.length == 0 || is_repeated(t, &found)) return;
    if (t->name_count == NAMES_MAX) die("too many", "names");
    t->names[t->name_count++] = found;
}

/* Those between the braces that follow: words that stand first or behind a comma. */
static void add_enumerators(tables *t, int paragraph, span rest) {
    int depth = 0;
    bool first = true;
    while (rest.length > 0 && rest.data[0] != '{')
        rest = rest_of(rest, 1);
    for (rest = rest_of(rest, 1); rest.length > 0 && rest.data[0] != '}';) {
        const char c = rest.data[0];
        const int comment = comment_length(rest);
        if (first && !comment && in_word(c)) {
            add_name(t, paragraph, next_word(&rest), false);
            first = false;
            continue;
        }
        depth += (c == '(') - (c == ')');
        first = first || (c == ',' && depth == 0);
        rest = rest_of(rest, comment ? comment : 1);
    }
}

static void find_names(tables *t) {
    for (int i = 0; i < t->paragraph_count; i++)
        for (span rest = t->paragraphs[i]; rest.length > 0;) {
            const span here = rest, line = next_line(&rest);
            span word = rest_of(line, 8);
            if (begins(line, "#define "))
                add_name(t, i, next_word(&word), true);
            else if (begins(line, "enum {") || begins(line, "typedef enum"))
                add_enumerators(t, i, here);
            else if (begins(line, "} "))
                add_name(t, i, declared_name(rest_of(line, 2)), false);
            else if (isalpha((unsigned char)line.data[0]) || line.data[0] == '_')
                add_name(t, i, declared_name(line), false);
        }
    qsort(t->names, (size_t)t->name_count, sizeof *t->names, compare_names);
}

static void add_need(tables *t, int paragraph, int *end, int need) {
    const int begin = paragraph ? t->needs_end[paragraph - 1] : 0;
    const bool wrapper = paragraph < t->wrapper_count;
    if (need == paragraph || (wrapper && need >= t->wrapper_count)) return;
    for (int i = begin; i < *end; i++)
        if (t->needs[i] == need) return;
    if (*end == NEEDS_MAX) die("too many", "needs");
    t->needs[(*end)++] = need;
}

static void find_needs(tables *t) {
    int end = 0;
    for (int i = 0; i < t->paragraph_count; i++) {
        span rest = t->paragraphs[i];
        for (span word; (word = next_word(&rest)).length > 0;)
            for (int n = 0; n < t->name_count; n++)
                if (is_word(t->names[n].word, word)) add_need(t, i, &end, t->names[n].paragraph);
        t->needs_end[i] = end;
    }
}

static void tables_make(const char *folder, const struct text *text, tables *t) {
    memset(t, 0, sizeof *t);
    t->sorted = text->sorted;
    for (const part *p = text->wrappers; p && p->file; p++)
        append_part(folder, p, text->between, &t->text);
    const size_t begin = t->text.length;
    for (const part *p = text->parts; p->file; p++)
        append_part(folder, p, text->between, &t->text);
    if (hr_text_status(&t->text) != HR_OK) die("no memory for", text->id);
    split_range(t, 0, begin);
    t->wrapper_count = t->paragraph_count;
    split_range(t, begin, t->text.length);
    find_names(t);
    find_needs(t);
}

/* ---- out ---- */

static bool is_always(span paragraph) {
    span line = next_line(&paragraph);
    return begins(line, "#include ") || (begins(line, "#") && paragraph.length == 0);
}

static void write_tables(const tables *t, const char *id, FILE *out) {
    fprintf(out, "static const unsigned char %s_text[] = {", id);
    for (size_t i = 0; i < t->text.length; i++)
        fprintf(out, "%d,", (unsigned char)t->text.data[i]);
    fprintf(out, "0};\nstatic const int %s_needs[] = {", id);
    const int need_count = t->paragraph_count ? t->needs_end[t->paragraph_count - 1] : 0;
    for (int i = 0; i < need_count; i++)
        fprintf(out, "%d,", t->needs[i]);
    fprintf(out, "0};\nstatic const hr_prelude_section %s_sections[] = {\n", id);
    for (int i = 0; i < t->paragraph_count; i++) {
        const int begin = i ? t->needs_end[i - 1] : 0;
        fprintf(out, "{%d, %d, %d, %d, %d},\n", (int)(t->paragraphs[i].data - t->text.data),
                t->paragraphs[i].length, is_always(t->paragraphs[i]), begin, t->needs_end[i] - begin);
    }
    fprintf(out, "};\nstatic const hr_prelude_name %s_names[] = {\n", id);
    for (int i = 0; i < t->name_count; i++)
        fprintf(out, "{\"%.*s\", %d, %d},\n", t->names[i].word.length, t->names[i].word.data,
                t->names[i].paragraph, t->names[i].macro);
    fprintf(
        out,
        "};\nconst hr_prelude_text hr_prelude_%s = {%s_text, %s_sections, %s_needs, %s_names, %d, %d, %d, "
        "%d};\n",
        id, id, id, id, id, t->paragraph_count, t->name_count, t->wrapper_count, t->sorted);
}

static FILE *opened(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) die("cannot write", path);
    return file;
}

static void close_written(FILE *file, const char *path) {
    const bool failed = ferror(file);
    if (fclose(file) != 0 || failed) die("cannot write", path);
}

static void write_header(const tables *t, const char *path) {
    FILE *file = opened(path);
    fwrite(t->text.data, 1, t->text.length, file);
    close_written(file, path);
}

int main(int argc, char **argv) {
    static tables t;
    if (argc != 5) die("usage:", "make_prelude SRC HEADER PRODUCTS ARRAY");
    FILE *array = opened(argv[4]);
    fprintf(
        array,
        "/* Made from src/emit/templates/ by tools/make_prelude.c. */\n#include \"emit/prelude_text.h\"\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tables_make(argv[1], &texts[i], &t);
        write_tables(&t, texts[i].id, array);
        if (texts[i].parts == c_parts) write_header(&t, argv[2]);
        if (texts[i].parts == f32_parts) write_header(&t, argv[3]);
        hr_text_clear(&t.text);
    }
    close_written(array, argv[4]);
    return 0;
}
