/* The table of docs/gradients.md: each row is what is derived, or refused with these words; it has each
 * operation of the language, and each function that docs/language.md names. */
#include "base/text.h"
#include "support/fixture.h"
#include "support/kernel_library.h"
#include "support/lang_text.h"

/* ---- a kernel of one statement ---- */

typedef struct letters {
    const char
        *dims[26]; /* of the tensor of that letter, as they stand in brackets; NULL = it is not there */
    int lengths[26];
} letters;

/* Tensors are single letters; the first subscripts of each, as names, are its extents. */
static letters letters_of(const char *statement) {
    letters found = {0};
    for (const char *at = statement; *at; at++) {
        const bool begins = at == statement || !((at[-1] >= 'a' && at[-1] <= 'z') || at[-1] == '_');
        const int letter = *at - 'a';
        if (!begins || letter < 0 || letter > 25 || at[1] != '[' || found.dims[letter]) continue;
        found.dims[letter] = at + 2;
        found.lengths[letter] = (int)strcspn(at + 2, "]");
        if (memchr(at + 2, '[', (size_t)found.lengths[letter])) { /* a[i[t], c] */
            found.dims[letter] = "v, c";
            found.lengths[letter] = 4;
        } else if (memchr(at + 2, '-', (size_t)found.lengths[letter])) {
            found.lengths[letter] = 1; /* a[t - 1] */
        }
    }
    return found;
}

static void append_dims(hr_text *text, const char *dims, int length) {
    for (int i = 0; i < length; i++)
        hr_text_format(text, "%c", dims[i] >= 'a' && dims[i] <= 'z' ? dims[i] - 32 : dims[i]);
    hr_text_append(text, "]", 1);
}

/* How deep in brackets `at` stands. */
static int depth_at(const char *statement, const char *at) {
    int depth = 0;
    for (const char *c = statement; c < at; c++)
        depth += (*c == '[') - (*c == ']');
    return depth;
}

/* A parameter, a result, or what is changed in place: single places of it, or what was read before. */
static hr_role role_of(const char *statement, const letters *found, int letter) {
    const char *equals = strstr(statement, " = "), *dims = found->dims[letter], *end = strchr(statement, ']');
    if (!equals || strstr(statement, " += ")) equals = strstr(statement, " += ");
    char own[64];
    const char *at = strchr(statement, letter + 'a');
    while (depth_at(statement, at) > 0 || at[1] != '[') /* inside of another's subscripts, or of a name */
        if (!(at = strchr(at + 1, letter + 'a'))) return HR_ROLE_INPUT;
    if (at > equals) return HR_ROLE_INPUT;
    snprintf(own, sizeof own, "%.*s", (int)(end + 1 - statement), statement);
    const bool places = dims && strncmp(dims, "v, c", 4) == 0 && equals[1] == '=';
    return places || strstr(equals, own) ? HR_ROLE_INOUT : HR_ROLE_RESULT;
}

static void append_tensor(const char *statement, const letters *found, int letter, hr_text *text) {
    const bool inout = role_of(statement, found, letter) == HR_ROLE_INOUT;
    const bool first = hr_text_data(text)[text->length - 1] == '(';
    hr_text_format(text, "%s%c: %s%s[", first ? "" : ", ", letter + 'a', inout ? "inout " : "",
                   letter + 'a' == 'i' ? "i32" : "f32");
    append_dims(text, found->dims[letter], found->lengths[letter]);
}

/* The kernel whose one statement this is; `square` is one that it may call. */
static void kernel_around(const char *statement, hr_text *text) {
    const letters found = letters_of(statement);
    hr_text_format(text, "kernel square(x: f32[N]) -> (z: f32[N]) { z[n] = x[n]^2 }\nkernel k(");
    if (strncmp(statement, "y = ", 4) == 0) {
        hr_text_format(text, "a: f32[N]) -> (y: f32[N]");
    } else {
        bool given = false;
        for (int i = 0; i < 26; i++)
            if (found.dims[i] && role_of(statement, &found, i) != HR_ROLE_RESULT)
                append_tensor(statement, &found, i, text);
        for (int i = 26; i--;) {
            if (!found.dims[i] || role_of(statement, &found, i) != HR_ROLE_RESULT) continue;
            if (!given) hr_text_format(text, ") -> (");
            given = true;
            append_tensor(statement, &found, i, text);
        }
    }
    hr_text_format(text, ")\n{\n    %s\n}\n", statement);
}

/* ---- rows ---- */

/* What has the gradient 0 is named in a note. */
static void zeros_are_noted(const char *part, const char *notes) {
    char wanted[32];
    if (strlen(part) < 6 || strcmp(part + strlen(part) - 6, " = 0.0") != 0) return;
    snprintf(wanted, sizeof wanted, "%c has no way to a result", part[1]);
    if (!strstr(notes, wanted)) fail_msg("no note says that %s: %s", wanted, notes);
}

/* "| `y[n] = ...` | `da[n] = ...` `db[n] = ...` |": the lines of the derived body are those of the row. Or
 * "| `y[n] = ...` | refused: why |". */
static void row_is_true(char *row) {
    hr_text text = {0}, body = {0};
    char *out, *notes, *why = strstr(row, "refused: "), *statement = strtok(row, "`");
    statement = strtok(NULL, "`");
    kernel_around(statement, &text);
    const hr_status status =
        hr_gradient_text("row.hr", hr_text_data(&text), text.length, "k", NULL, &out, &notes);
    if (why) {
        assert_int_equal(status, HR_BAD_INPUT);
        why += strlen("refused: ");
        why[strlen(why) - 2] = 0;
        if (!strstr(hr_last_error(), why)) fail_msg("\"%s\" is not in \"%s\"", why, hr_last_error());
        hr_text_clear(&text);
        return;
    }
    if (status != HR_OK) fail_msg("%s\n%s", hr_last_error(), hr_text_data(&text));
    hr_text_format(&body, "{\n");
    for (char *part = strtok(NULL, "`"); (part = strtok(NULL, "`")); part = strtok(NULL, "`")) {
        hr_text_format(&body, "    %s\n", part);
        zeros_are_noted(part, notes);
    }
    hr_text_format(&body, "}\n");
    const char *from = strstr(out, "\n{\n");
    assert_non_null(from);
    assert_string_equal(from + 1, hr_text_data(&body));
    hr_text_clear(&text);
    hr_text_clear(&body);
    free(out);
    free(notes);
}

static void page_has(const char *page, const char *word, int length) {
    for (const char *at = page; (at = strchr(at, *word)); at++)
        if (strncmp(at, word, (size_t)length) == 0) return;
    fail_msg("docs/gradients.md does not say what %.*s does", length, word);
}

/* The functions of docs/language.md: words in backticks in its table, but for what stands in brackets. */
static void functions_are_there(const char *page) {
    size_t length;
    char *language = file_text(HR_SOURCE_DIR "/docs/language.md", &length);
    assert_non_null(language);
    char *from = strstr(language, "\n## Functions\n"), *end = strstr(language, "\n## Reductions\n");
    assert_non_null(from);
    assert_non_null(end);
    int words = 0, depth = 0;
    bool code = false, row = false;
    *end = 0;
    for (const char *at = from; *at; at++) {
        if (*at == '\n') row = strncmp(at + 1, "| ", 2) == 0;
        code = *at == '\n' ? false : code != (*at == '`');
        depth += (*at == '(') - (*at == ')');
        const int size = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (!size) continue;
        if (row && code && !depth && size > 1) {
            page_has(page, at, size);
            words++;
        }
        at += size - 1;
    }
    assert_true(words > 25);
    free(language);
}

/* The table is what is derived, and has each operation of the language. */
static void test_documented_rules(void **state) {
    (void)state;
    size_t length;
    char *page = file_text(HR_SOURCE_DIR "/docs/gradients.md", &length);
    assert_non_null(page);
    for (int op = 0; op < HR_OP_COUNT; op++) {
        const char *name = hr_op_info_of((hr_op)op)->name;
        char words[32];
        const bool condition = op >= HR_OP_LT && op <= HR_OP_NOT;
        snprintf(words, sizeof words, "%s%s", name,
                 hr_op_is_reduction((hr_op)op) || op == HR_OP_SOFTMAX ? "[" : "");
        if (*name && !condition && !strstr(page, words))
            fail_msg("docs/gradients.md has no row for %s", name);
    }
    functions_are_there(page);
    int rows = 0;
    for (char *line = page, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (strncmp(line, "| `y[", 5) != 0 && strncmp(line, "| `y = ", 7) != 0) continue;
        char *row = strdup(line);
        assert_non_null(row);
        row_is_true(row);
        free(row);
        rows++;
    }
    assert_true(rows >= 58);
    free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_documented_rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
