/* C for every x86-64 processor in one file: the kernel planned and printed for AVX-512, for AVX2 and for what
 * any has, chosen as it runs. In: a plan and its extents. Out: source, header.
 *
 * Each level is all of a file, in a part of this one: names that it defines at the left margin end with the
 * level's, and what a compiler defines for instruction sets is defined for the part alone. On processors
 * other than x86-64 the last level is the only one.
 */

#include "base/memory.h"
#include "emit/c/emit_c_section.h"
#include "emit/describe.h"
#include "schedule/target.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MOST = 8192 };

typedef struct level {
    const char *name;
    int vector_bytes;
    const char *target;   /* as both compilers write it; NULL = as the file is compiled */
    const char *has;      /* what compilers define there, to be defined: words apart by spaces */
    const char *supports; /* asks the processor */
} level;

/* The best first. */
static const level levels[] = {
    {"avx512", 64, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
     "__AVX512F__ __AVX512BW__ __AVX512DQ__ __AVX512VL__ __AVX2__ __FMA__ __F16C__ __SSE2__",
     "__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") && "
     "__builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512vl\")"},
    {"avx2", 32, "avx2,fma,f16c", "__AVX2__ __FMA__ __F16C__ __SSE2__",
     "__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")"},
    {"plain", 16, NULL, NULL, NULL},
};
enum { LEVELS = sizeof levels / sizeof *levels };

/* Of instruction sets: a level has those that it says, and no others. */
static const char *const asked[] = {"__AVX512F__",    "__AVX512BW__", "__AVX512DQ__", "__AVX512VL__",
                                    "__AVX2__",       "__FMA__",      "__F16C__",     "__SSE2__",
                                    "__AVX512BF16__", "__AMX_BF16__", "__AMXBF16__",  "__AVX512FP16__",
                                    "__AVX512VBMI__"};
enum { ASKED = sizeof asked / sizeof *asked };

/* ---- names that a text defines ---- */

typedef struct word {
    const char *at;
    size_t length;
} word;

typedef struct names {
    word *words; /* sorted in the end */
    int count;
} names;

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static int compare_words(const void *a, const void *b) {
    const word *x = a, *y = b;
    const size_t length = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, length);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static void add(names *n, const char *at, size_t length) {
    if (length && !isdigit((unsigned char)*at) && n->count < NAMES_MOST)
        n->words[n->count++] = (word){at, length};
}

/* The word that ends at `end`, spaces in between. */
static word word_before(const char *start, const char *end) {
    while (end > start && end[-1] == ' ')
        end--;
    const char *at = end;
    while (at > start && in_word(at[-1]))
        at--;
    return (word){at, (size_t)(end - at)};
}

static const char *after_brackets(const char *at, const char *end) {
    int depth = 0;
    for (; at < end; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth == 0 && *at == ')') return at + 1;
    }
    return end;
}

/* Enumerators: words that begin the text or follow a comma. Returns where they end. */
static const char *add_enumerators(names *n, const char *at) {
    bool begins = true;
    int depth = 0;
    for (; *at && *at != '}'; at++) {
        if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at, "*/");
            if (!end) return at + strlen(at);
            at = end + 1;
            continue;
        }
        depth += (*at == '(') - (*at == ')');
        if (*at == ',' && depth == 0) begins = true;
        if (!in_word(*at)) continue;
        const char *start = at;
        while (in_word(at[1]))
            at++;
        if (begins) add(n, start, (size_t)(at + 1 - start));
        begins = false;
    }
    return at;
}

/* What a line at the left margin defines, a declaration's attributes apart. */
static void add_declared(names *n, const char *line, const char *end) {
    for (const char *at = line; at < end; at++) {
        static const char attribute[] = "__attribute__";
        if (strncmp(at, attribute, sizeof attribute - 1) == 0) {
            const word before = word_before(line, at);
            if (strncmp(line, "typedef", 7) == 0) {
                add(n, before.at, before.length);
                return;
            }
            at = after_brackets(at, end) - 1;
            continue;
        }
        if (at[0] == '(' && at[1] == '*') { /* a pointer to a function */
            const char *start = at + 2;
            const char *stop = start;
            while (in_word(*stop))
                stop++;
            add(n, start, (size_t)(stop - start));
            return;
        }
        if (strchr("([=;{", *at)) {
            const word before = word_before(line, at);
            add(n, before.at, before.length);
            return;
        }
    }
    if (strncmp(line, "typedef", 7) == 0) { /* its attributes are on the next line */
        const word before = word_before(line, end);
        add(n, before.at, before.length);
    }
}

static const char *line_end(const char *at) {
    const char *end = strchr(at, '\n');
    return end ? end : at + strlen(at);
}

/* Adds what the line defines; returns the beginning of the next line that may define something. */
static const char *add_line(names *n, const char *line) {
    const char *end = line_end(line), *brace;
    if (strncmp(line, "/*", 2) == 0) {
        const char *close = strstr(line, "*/");
        end = line_end(close ? close : end);
    } else if (strncmp(line, "#define ", 8) == 0) {
        const char *stop = line + 8;
        while (in_word(*stop))
            stop++;
        add(n, line + 8, (size_t)(stop - line - 8));
    } else if (*line == '}') {
        if (line[1] == ' ') add_declared(n, line + 2, end);
    } else if ((strncmp(line, "enum", 4) == 0 || strncmp(line, "typedef enum", 12) == 0) &&
               (brace = memchr(line, '{', (size_t)(end - line)))) {
        const char *close = add_enumerators(n, brace + 1);
        if (*close) add_declared(n, close + 1, line_end(close));
        end = line_end(close);
    } else if (isalpha((unsigned char)*line) || *line == '_') {
        add_declared(n, line, end);
    }
    return *end ? end + 1 : end;
}

static hr_status names_of(const char *text, names *out) {
    *out = (names){.words = hr_memory_take(NAMES_MOST * sizeof(word))};
    if (!out->words) return hr_fail(HR_OUT_OF_MEMORY, "no memory for the names of a generated file");
    for (const char *line = text; *line;)
        line = add_line(out, line);
    if (out->count == NAMES_MOST) {
        free(out->words);
        return hr_fail(HR_BAD_INPUT, "a generated file with more than %d names", NAMES_MOST);
    }
    qsort(out->words, (size_t)out->count, sizeof *out->words, compare_words);
    return HR_OK;
}

/* ---- a level ---- */

static bool is_asked(const char *at, size_t length) {
    for (int i = 0; i < ASKED; i++)
        if (strlen(asked[i]) == length && memcmp(at, asked[i], length) == 0) return true;
    return false;
}

/* A string, a comment, or one character of the rest. */
static size_t length_apart(const char *text) {
    const char *end = text + 1;
    if (text[0] == '"')
        while (*end && *end != '"')
            end += end[0] == '\\' && end[1] ? 2 : 1;
    if (text[0] == '/' && text[1] == '*') {
        end = strstr(text + 2, "*/");
        return end ? (size_t)(end - text) + 2 : strlen(text);
    }
    return (size_t)(end - text) + (text[0] == '"' && *end == '"');
}

/* The text with the level's name behind those that it defines; `own`: it has instruction sets of its own. */
static void append_renamed(const char *text, const names *n, const level *of, hr_text *out) {
    while (*text) {
        const char *start = text;
        while (in_word(*text))
            text++;
        const word found = {start, (size_t)(text - start)};
        if (!found.length) {
            const size_t apart = length_apart(text);
            hr_text_append(out, text, apart);
            text += apart;
            continue;
        }
        if (of->target && is_asked(start, found.length)) {
            hr_text_format(out, "HAS%.*s", (int)found.length, start);
            continue;
        }
        hr_text_append(out, start, found.length);
        if (bsearch(&found, n->words, (size_t)n->count, sizeof found, compare_words))
            hr_text_format(out, "_%s", of->name);
    }
}

static void append_has(const level *of, const char *line, hr_text *out) {
    const char *at = of->has;
    while (*at) {
        const size_t length = strcspn(at, " ");
        hr_text_format(out, line, (int)length, at);
        at += length + (at[length] == ' ');
    }
}

static void append_opening(const level *of, hr_text *out) {
    hr_text_format(out, "\n/* ==== %s ==== */\n\n", of->name);
    if (!of->target) return;
    hr_text_format(out,
                   "#if defined __x86_64__\n#ifdef __clang__\n"
                   "#pragma clang attribute push(__attribute__((target(\"%s\"))), apply_to = function)\n"
                   "#else\n#pragma GCC push_options\n#pragma GCC target(\"%s\")\n#endif\n",
                   of->target, of->target);
    append_has(of, "#define HAS%.*s 1\n", out);
    hr_text_append(out, "\n", 1);
}

static void append_closing(const level *of, hr_text *out) {
    if (!of->target) return;
    append_has(of, "#undef HAS%.*s\n", out);
    hr_text_format(out, "#ifdef __clang__\n#pragma clang attribute pop\n#else\n#pragma GCC pop_options\n"
                        "#endif\n#endif\n");
}

static hr_status append_level(const hr_plan *like, const int64_t *extents, const hr_emit_options *options,
                              const level *of, hr_text *out) {
    hr_device_limits limits = like->limits;
    hr_plan *plan;
    hr_emitted section;
    names n;
    limits.vector_bytes = of->vector_bytes;
    if (of->vector_bytes < 64) limits.matrix_bf16 = limits.dots_bf16 = 0;
    HR_TRY(hr_schedule_create(like->source, extents, like->layouts, &limits, NULL, &plan));
    hr_status status = hr_emit_c_section(plan, options, &section);
    hr_plan_destroy(plan);
    HR_TRY(status);
    status = names_of(hr_text_data(&section.source), &n);
    if (status == HR_OK) {
        append_opening(of, out);
        append_renamed(hr_text_data(&section.source), &n, of, out);
        append_closing(of, out);
        free(n.words);
        status = hr_text_status(out);
    }
    hr_emitted_clear(&section);
    return status;
}

/* ---- the choice ---- */

static void print_level(hr_printer *p, const char *name) {
    hr_print(p, "static int %s_level(void) {", name);
    hr_print(p, "#if defined __x86_64__");
    hr_print(p, "    __builtin_cpu_init();");
    for (int i = 0; i < LEVELS - 1; i++)
        hr_print(p, "    if (%s) return %d;", levels[i].supports, i);
    hr_print(p, "#endif");
    hr_print(p, "    return %d;", LEVELS - 1);
    hr_print(p, "}");
    hr_print(p, "%s", "");
}

/* "NAME(int64_t n_N, ..., int threads)" -> "n_N, ..., threads" */
static const char *arguments_of(hr_printer *p, const char *signature) {
    const char *list = "", *at = strchr(signature, '(');
    for (at = at ? at + 1 : ""; *at && *at != ')';) {
        const char *end = at + strcspn(at, ",)");
        const word name = word_before(at, end);
        list = hr_format(p, "%s%s%.*s", list, *list ? ", " : "", (int)name.length, name.at);
        at = end + (*end == ',');
    }
    return list;
}

static hr_status print_dispatched(hr_printer *p, const hr_plan *plan, const hr_emit_options *options,
                                  hr_c_function function) {
    static const char *const suffix[] = {"_scratch", "", "_team", "_part"};
    const char *name = hr_emit_name(plan, options);
    hr_text signature = {0}, *out = p->out;
    p->out = &signature;
    hr_status status = hr_emit_c_signature(plan, options, p, function);
    p->out = out;
    const char *arguments = arguments_of(p, hr_text_data(&signature));
    hr_print(p, "%s {", hr_text_data(&signature));
    hr_print(p, "#if defined __x86_64__");
    hr_print(p, "    const int level = %s_level();", name);
    for (int i = 0; i < LEVELS - 1; i++)
        hr_print(p, "    if (level == %d) return %s%s_%s(%s);", i, name, suffix[function], levels[i].name,
                 arguments);
    hr_print(p, "#endif");
    hr_print(p, "    return %s%s_%s(%s);", name, suffix[function], levels[LEVELS - 1].name, arguments);
    hr_print(p, "}");
    hr_print(p, "%s", "");
    hr_text_clear(&signature);
    return status;
}

/* The comment that a file begins with. */
static size_t comment_length(const char *source) {
    const char *end = strstr(source, "*/\n");
    return end ? (size_t)(end - source) + 3 : 0;
}

static hr_status print_file(hr_printer *p, const hr_plan *plan, const int64_t *extents,
                            const hr_emit_options *options, const hr_emitted *alone, hr_text *out) {
    hr_text_append(out, hr_text_data(&alone->source), comment_length(hr_text_data(&alone->source)));
    hr_print(p, "/* For every x86-64 processor: -march need not be said. */");
    hr_emit_c_beginning(p, options);
    for (int i = 0; i < LEVELS; i++)
        HR_TRY(append_level(plan, extents, options, &levels[i], out));
    hr_text_format(out, "\n/* ==== the choice ==== */\n\n");
    print_level(p, hr_emit_name(plan, options));
    for (hr_c_function f = 0; f < HR_C_FUNCTIONS; f++)
        HR_TRY(print_dispatched(p, plan, options, f));
    return hr_text_status(out);
}

hr_status hr_emit_c_levels(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                           hr_emitted *out) {
    hr_printer printer;
    hr_emitted alone;
    hr_arena *arena;
    *out = (hr_emitted){0};
    HR_TRY(hr_emit_c(plan, options, &alone));
    hr_status status = hr_names_create(&arena);
    if (status == HR_OK) {
        status = hr_printer_begin(&printer, plan, arena, &out->source);
        if (status == HR_OK) {
            status = print_file(&printer, plan, extents, options, &alone, &out->source);
            hr_printer_end(&printer);
        }
        hr_arena_destroy(arena);
    }
    if (status == HR_OK) {
        out->header = alone.header;
        alone.header = (hr_text){0};
    }
    hr_emitted_clear(&alone);
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}
