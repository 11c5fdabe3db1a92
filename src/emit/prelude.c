/* Links a body of emitted text with the prelude's sections, as a linker takes an archive's members.
 *
 * In: C or CUDA C, and a prelude. Out: the sections that define a name of the body, and those that these need
 * in turn, which make_prelude found as the library was built. Directives that choose among instruction sets
 * and the includes are always kept.
 */
#include "emit/prelude.h"
#include "base/memory.h"
#include "emit/prelude_text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum progress { UNUSED, USED, APPENDED } progress;

typedef struct linking {
    const hr_prelude_text *from;
    progress *sections;
    hr_text *out;
} linking;

static const hr_prelude_text *const preludes[] = {
    [HR_PRELUDE_C] = &hr_prelude_c,
    [HR_PRELUDE_CUDA] = &hr_prelude_cuda,
    [HR_PRELUDE_INTERVAL] = &hr_prelude_interval,
    [HR_PRELUDE_HELPERS] = &hr_prelude_helpers,
    [HR_PRELUDE_CONTRACT_BLOCKS] = &hr_prelude_contract_blocks,
    [HR_PRELUDE_CONTRACT_F32] = &hr_prelude_contract_f32,
    [HR_PRELUDE_CONTRACT_F64] = &hr_prelude_contract_f64,
    [HR_PRELUDE_CONTRACT_ATTEND] = &hr_prelude_contract_attend,
    [HR_PRELUDE_CONTRACT_TILES] = &hr_prelude_contract_tiles,
    [HR_PRELUDE_CONTRACT_DOTS] = &hr_prelude_contract_dots,
    [HR_PRELUDE_CONTRACT_BYTES] = &hr_prelude_contract_bytes,
    [HR_PRELUDE_THREADS] = &hr_prelude_threads,
};

static bool in_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Depth first; there are at most as many calls inside each other as sections. */
static void use_section(linking *l, int section) {
    const hr_prelude_section *s = &l->from->sections[section];
    if (l->sections[section] != UNUSED) return;
    l->sections[section] = USED;
    for (int i = 0; i < s->need_count; i++)
        use_section(l, l->from->needs[s->needs + i]);
}

/* The first of the names that is not less than the word. */
static int find_name(const hr_prelude_text *from, const char *word, size_t length) {
    int low = 0, high = from->name_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        const char *name = from->names[middle].name;
        const int order = strncmp(name, word, length);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void use_words(linking *l, const char *body) {
    while (*body) {
        const char *word = body;
        while (in_word(*body))
            body++;
        const size_t length = (size_t)(body - word);
        const hr_prelude_name *names = l->from->names;
        for (int i = length ? find_name(l->from, word, length) : l->from->name_count;
             i < l->from->name_count && strncmp(names[i].name, word, length) == 0 && !names[i].name[length];
             i++)
            use_section(l, names[i].section);
        body += length == 0;
    }
}

static void append_section(linking *l, int section) {
    const hr_prelude_section *s = &l->from->sections[section];
    if (l->sections[section] != USED) return;
    l->sections[section] = APPENDED;
    for (int i = 0; i < s->need_count && !l->from->sorted; i++)
        append_section(l, l->from->needs[s->needs + i]);
    hr_text_append(l->out, (const char *)l->from->text + s->begin, (size_t)s->length);
    hr_text_append(l->out, "\n", 1);
}

/* The PTX wrappers stand under one condition: an emulator brings functions of the same names. */
static void append_wrappers(linking *l) {
    bool any = false;
    for (int i = 0; i < l->from->wrapper_count; i++)
        any = any || l->sections[i] == USED;
    if (!any) return;
    hr_text_format(l->out, "#ifndef HR_EMULATED\n");
    for (int i = 0; i < l->from->wrapper_count; i++)
        append_section(l, i);
    hr_text_format(l->out, "#endif\n\n");
}

/* Once each: a name has a definition for each instruction set. */
static void define_names(const linking *l, hr_printer *printer) {
    const hr_prelude_name *names = l->from->names, *last = NULL;
    for (int i = 0; i < l->from->name_count; i++) {
        if (l->sections[names[i].section] == UNUSED || (last && strcmp(last->name, names[i].name) == 0))
            continue;
        last = &names[i];
        hr_define(printer, names[i].macro ? HR_MACRO : HR_IDENTIFIER, names[i].name);
    }
}

hr_status hr_prelude_append(hr_prelude which, const char *body, hr_printer *printer, hr_text *out) {
    linking l = {.from = preludes[which], .out = out};
    l.sections = hr_memory_zeros((size_t)l.from->section_count, sizeof *l.sections);
    if (!l.sections)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory to assemble the prelude of the generated source");
    for (int i = 0; i < l.from->section_count; i++)
        if (!body || l.from->sections[i].always) use_section(&l, i);
    if (body) use_words(&l, body);
    append_wrappers(&l);
    for (int i = l.from->wrapper_count; i < l.from->section_count; i++)
        append_section(&l, i);
    if (printer) define_names(&l, printer);
    free(l.sections);
    return hr_text_status(out);
}
