/* C in parts of one file, one of which is chosen as it runs. In: a plan and its extents. Out: source, header.
 *
 * What a plan assumes of extents has a part for those that it holds for, and another for any. A file for
 * every x86-64 processor has the kernel planned and printed for AVX-512, for AVX2 and for what any of them
 * has; on other processors the last of these is the only one.
 *
 * Each part is all of a file: names that it defines at the left margin end with the part's, and what a
 * compiler defines for instruction sets is defined for the part alone.
 */

#include "base/memory.h"
#include "emit/assumptions.h"
#include "emit/c/emit_c_section.h"
#include "emit/describe.h"
#include "schedule/target.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MOST = 8192 };

typedef struct part {
    const char *name;
    int vector_bytes;     /* 0 = the plan's */
    const char *target;   /* as both compilers write it; NULL = as the file is compiled */
    const char *has;      /* what compilers define there, to be defined: words apart by spaces */
    const char *supports; /* asks the processor */
    bool general;         /* for any extents */
} part;

/* The best first. */
static const part levels[] = {
    {.name = "avx512",
     .vector_bytes = 64,
     .target = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
     .has = "__AVX512F__ __AVX512BW__ __AVX512DQ__ __AVX512VL__ __AVX2__ __FMA__ __F16C__ __SSE2__",
     .supports = "__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") && "
                 "__builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512vl\")"},
    {.name = "avx2",
     .vector_bytes = 32,
     .target = "avx2,fma,f16c",
     .has = "__AVX2__ __FMA__ __F16C__ __SSE2__",
     .supports = "__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")"},
    {.name = "plain", .vector_bytes = 16},
};
enum { LEVELS = sizeof levels / sizeof *levels, PARTS_MOST = LEVELS + 1 };

/* For the processor that the file is compiled for; for any extents, with vectors that any processor has where
 * the file is for all of them. */
static const part planned = {.name = "planned"};
static const part any_extents = {.name = "any", .general = true},
                  any_plain = {.name = "any", .vector_bytes = 16, .general = true};

/* Of instruction sets: a part with a target has those that it says, and no others. */
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

/* ---- a part ---- */

static bool is_asked(const char *at, size_t length) {
    for (int i = 0; i < ASKED; i++)
        if (strlen(asked[i]) == length && memcmp(at, asked[i], length) == 0) return true;
    return false;
}

/* A string, a comment, a pragma, whose words are the compiler's, or one character of the rest. */
static size_t length_apart(const char *text) {
    static const char pragma[] = "#pragma ";
    const char *end = text + 1;
    if (strncmp(text, pragma, sizeof pragma - 1) == 0) return (size_t)(line_end(text) - text);
    if (text[0] == '"')
        while (*end && *end != '"')
            end += end[0] == '\\' && end[1] ? 2 : 1;
    if (text[0] == '/' && text[1] == '*') {
        end = strstr(text + 2, "*/");
        return end ? (size_t)(end - text) + 2 : strlen(text);
    }
    return (size_t)(end - text) + (text[0] == '"' && *end == '"');
}

/* The text with the part's name behind those that it defines. */
static void append_renamed(const char *text, const names *n, const part *of, hr_text *out) {
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

static void append_has(const part *of, const char *line, hr_text *out) {
    const char *at = of->has;
    while (*at) {
        const size_t length = strcspn(at, " ");
        hr_text_format(out, line, (int)length, at);
        at += length + (at[length] == ' ');
    }
}

static void append_opening(const part *of, hr_text *out) {
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

static void append_closing(const part *of, hr_text *out) {
    if (!of->target) return;
    append_has(of, "#undef HAS%.*s\n", out);
    hr_text_format(out, "#ifdef __clang__\n#pragma clang attribute pop\n#else\n#pragma GCC pop_options\n"
                        "#endif\n#endif\n");
}

/* The kernel as it is planned for the part. */
static hr_status plan_part(const hr_plan *like, const int64_t *extents, const part *of, hr_plan **out) {
    hr_device_limits limits = like->limits;
    const hr_schedule_options options = {.general = of->general};
    if (of->vector_bytes) limits.vector_bytes = of->vector_bytes;
    if (of->vector_bytes && of->vector_bytes < 64) limits.matrix_bf16 = limits.dots_bf16 = 0;
    return hr_schedule_create(like->source, extents, like->layouts, &limits, &options, out);
}

static hr_status append_part(const hr_plan *plan, const hr_plan *planned, const hr_emit_options *options,
                             const part *of, hr_text *out) {
    hr_emitted section;
    names n;
    HR_TRY(hr_emit_c_section(plan, planned, options, &section));
    hr_status status = names_of(hr_text_data(&section.source), &n);
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

/* Parts in the order in which they are asked; the last takes what comes to it. */
typedef struct choice {
    int count;
    const part *parts[PARTS_MOST];
    bool by_level;    /* the processor is asked first */
    bool any_extents; /* the last is a part for any */
} choice;

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

/* A part's instruction sets are there on x86-64 alone. */
static void print_only_there(hr_printer *p, const part *of, bool begins) {
    if (of->target) hr_text_format(p->out, begins ? "#if defined __x86_64__\n" : "#endif\n");
}

/* "level <= 1 && extents_hold_avx2(n_N)" */
static const char *condition_of(hr_printer *p, const choice *c, int number) {
    const part *of = c->parts[number];
    const char *level = of->target ? hr_format(p, "level <= %d", number) : "";
    if (!c->any_extents) return level;
    const char *call = hr_emit_assumptions_call(p, "");
    const size_t name = strcspn(call, "(");
    return hr_format(p, "%s%s%.*s_%s%s", level, *level ? " && " : "", (int)name, call, of->name, call + name);
}

static void print_chosen(hr_printer *p, const choice *c, const char *name, const char *arguments) {
    for (int i = 0; i < c->count - 1; i++) {
        print_only_there(p, c->parts[i], true);
        hr_print(p, "    if (%s) return %s_%s(%s);", condition_of(p, c, i), name, c->parts[i]->name,
                 arguments);
        print_only_there(p, c->parts[i], false);
    }
    hr_print(p, "    return %s_%s(%s);", name, c->parts[c->count - 1]->name, arguments);
}

/* A team serves whichever part is chosen. */
static void print_largest(hr_printer *p, const choice *c, const char *name, const char *arguments) {
    hr_print(p, "    int64_t most = 0, bytes;");
    for (int i = 0; i < c->count; i++) {
        print_only_there(p, c->parts[i], true);
        hr_print(p, "    bytes = %s_%s(%s);", name, c->parts[i]->name, arguments);
        hr_print(p, "    most = bytes > most ? bytes : most;");
        print_only_there(p, c->parts[i], false);
    }
    hr_print(p, "    return most;");
}

static hr_status print_function(hr_printer *p, const hr_plan *plan, const hr_emit_options *options,
                                const choice *c, hr_c_function function) {
    static const char *const suffix[] = {"_scratch", "", "_team", "_part"};
    hr_text signature = {0}, *out = p->out;
    p->out = &signature;
    hr_status status = hr_emit_c_signature(plan, options, p, function);
    p->out = out;
    const char *arguments = arguments_of(p, hr_text_data(&signature));
    const char *name = hr_format(p, "%s%s", hr_emit_name(plan, options), suffix[function]);
    hr_print(p, "%s {", hr_text_data(&signature));
    if (c->by_level && function != HR_C_TEAM) {
        print_only_there(p, c->parts[0], true);
        hr_print(p, "    const int level = %s_level();", hr_emit_name(plan, options));
        print_only_there(p, c->parts[0], false);
    }
    if (function == HR_C_TEAM)
        print_largest(p, c, name, arguments);
    else
        print_chosen(p, c, name, arguments);
    hr_print(p, "}");
    hr_print(p, "%s", "");
    hr_text_clear(&signature);
    return status;
}

/* ---- the file ---- */

static hr_status add_part(const hr_plan *like, const int64_t *extents, const hr_emit_options *options,
                          const part *of, choice *c, hr_text *out) {
    hr_plan *plan;
    HR_TRY(plan_part(like, extents, of, &plan));
    hr_status status = append_part(plan, of->general ? like : NULL, options, of, out);
    if (plan->graph->assumptions) c->any_extents = true;
    hr_plan_destroy(plan);
    c->parts[c->count++] = of;
    return status;
}

static hr_status add_parts(const hr_plan *like, const int64_t *extents, const hr_emit_options *options,
                           choice *c, hr_text *out) {
    *c = (choice){.by_level = options->form == HR_SOURCE_EVERY_PROCESSOR};
    for (int i = 0; i < LEVELS && c->by_level; i++)
        HR_TRY(add_part(like, extents, options, &levels[i], c, out));
    if (!c->by_level) HR_TRY(add_part(like, extents, options, &planned, c, out));
    if (!c->any_extents) return HR_OK;
    return add_part(like, extents, options, c->by_level ? &any_plain : &any_extents, c, out);
}

/* The frame's source is a comment, and what comes before the parts. */
static hr_status print_file(hr_printer *p, const hr_plan *plan, const hr_emit_options *options,
                            const choice *c, const hr_text *parts) {
    if (c->by_level) hr_print(p, "/* For every x86-64 processor: -march need not be said. */");
    hr_text_append(p->out, hr_text_data(parts), parts->length);
    hr_text_format(p->out, "\n/* ==== the choice ==== */\n\n");
    if (c->by_level) print_level(p, hr_emit_name(plan, options));
    for (hr_c_function f = 0; f < HR_C_FUNCTIONS; f++)
        HR_TRY(print_function(p, plan, options, c, f));
    return hr_text_status(p->out);
}

static hr_status emit_parts(const hr_plan *plan, const hr_emit_options *options, const choice *c,
                            const hr_text *parts, hr_emitted *out) {
    hr_printer printer;
    hr_arena *arena;
    HR_TRY(hr_emit_c_frame(plan, options, c->any_extents, out));
    hr_status status = hr_names_create(&arena);
    if (status == HR_OK) {
        status = hr_printer_begin(&printer, plan, arena, &out->source);
        if (status == HR_OK) {
            status = print_file(&printer, plan, options, c, parts);
            hr_printer_end(&printer);
        }
        hr_arena_destroy(arena);
    }
    if (status != HR_OK) hr_emitted_clear(out);
    return status;
}

hr_status hr_emit_c_parts(const hr_plan *plan, const int64_t *extents, const hr_emit_options *options,
                          hr_emitted *out) {
    hr_text parts = {0};
    choice c;
    *out = (hr_emitted){0};
    if (options->form != HR_SOURCE_EVERY_PROCESSOR && !plan->graph->assumptions)
        return hr_emit_c(plan, options, out);
    HR_TRY(hr_emit_refuse_lists(plan));
    hr_status status = add_parts(plan, extents, options, &c, &parts);
    if (status == HR_OK) status = emit_parts(plan, options, &c, &parts, out);
    hr_text_clear(&parts);
    return status;
}
