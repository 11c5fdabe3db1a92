/* Dtype variables of a kernel. In: capital names in the places of dtypes, their constraints, what they are to
 * stand for. Out: the variables of the function, or the message that a name has two roles or a constraint no
 * variable.
 */
#include "base/dtype.h"
#include "lang/checker.h"

#include <stdio.h>
#include <string.h>

#define SYMBOL_PREFIX    "kernel_"
#define KERNELS_COMPARED 1000

static hr_shown shown(const hr_symbol *symbol) {
    return hr_text_shown(symbol->name, symbol->length);
}

/* ---- what they stand for ---- */

static const hr_constraint_syntax *constraint_of(const hr_checker *checker, const hr_symbol *symbol) {
    const hr_constraint_syntax *constraint = checker->kernel->constraints;
    while (constraint && constraint->symbol != symbol)
        constraint = constraint->next;
    return constraint;
}

static hr_dtype chosen(const hr_checker *checker, const hr_constraint_syntax *constraint, int variable) {
    const hr_parse_options *options = checker->options;
    if (options->kernel && strcmp(options->kernel, checker->function->name) == 0)
        return options->dtypes[variable];
    bool allowed = !constraint || constraint->allowed >> options->dtype_default & 1;
    return allowed ? options->dtype_default : constraint->first;
}

static bool may_be_variable(hr_checker *checker, const hr_parameter_syntax *syntax) {
    hr_function *function = checker->function;
    hr_shown name = shown(syntax->variable);
    if (syntax->variable->extent >= 0)
        hr_messages_add(
            checker->messages, syntax->dtype_place,
            "%s is an extent of this kernel and a dtype here; a name has one role, so give one of the "
            "two another name",
            name.text);
    else if (function->variable_count == HR_DTYPE_VARIABLE_MAX)
        hr_messages_add(checker->messages, syntax->dtype_place, "a kernel has at most %d dtype variables",
                        HR_DTYPE_VARIABLE_MAX);
    else if (hr_arena_room(checker->arena) < HR_DTYPE_VARIABLE_MAX * sizeof *function->variables + 4096)
        hr_messages_add(checker->messages, syntax->dtype_place, "the text is too large to be kernels");
    else
        return true;
    return false;
}

const hr_dtype_variable *hr_check_variable(hr_checker *checker, const hr_parameter_syntax *syntax) {
    hr_function *function = checker->function;
    hr_symbol *symbol = hr_check_bind(checker, syntax->variable);
    if (symbol->variable >= 0) return &function->variables[symbol->variable];
    if (!may_be_variable(checker, syntax)) return NULL;
    if (!function->variables)
        function->variables =
            hr_arena_alloc(checker->arena, HR_DTYPE_VARIABLE_MAX * sizeof *function->variables);
    const hr_constraint_syntax *constraint = constraint_of(checker, symbol);
    int variable = function->variable_count++;
    function->variables[variable] =
        (hr_dtype_variable){.name = symbol->name,
                            .dtype = chosen(checker, constraint, variable),
                            .allowed = constraint ? constraint->allowed : (UINT32_C(1) << HR_DTYPE_COUNT) - 1,
                            .place = syntax->dtype_place};
    symbol->variable = variable;
    return &function->variables[variable];
}

void hr_check_constraints(hr_checker *checker) {
    const hr_function *function = checker->function;
    for (const hr_constraint_syntax *c = checker->kernel->constraints; c; c = c->next) {
        hr_nearest nearest = hr_nearest_to(checker->messages, c->symbol->name);
        for (int i = 0; i < function->variable_count; i++)
            hr_nearest_consider(&nearest, function->variables[i].name);
        if (hr_check_bind(checker, c->symbol)->variable < 0)
            hr_messages_add(checker->messages, c->place,
                            "a constraint is of a dtype variable, and '%s' stands in the place of no dtype%s",
                            shown(c->symbol).text, hr_nearest_words(&nearest).text);
        else if (constraint_of(checker, c->symbol) != c)
            hr_messages_add(checker->messages, c->place,
                            "%s has a constraint already; write one, with all its dtypes",
                            shown(c->symbol).text);
    }
}

hr_shown hr_check_assumed(const hr_checker *checker) {
    hr_shown words = {{0}};
    const hr_function *function = checker->function;
    if (!function->variable_count) return words;
    const hr_dtype_variable *first = &function->variables[0];
    hr_shown name = hr_text_shown(first->name, strlen(first->name));
    snprintf(words.text, sizeof words.text, " where %.24s is %s%s", name.text, hr_dtype_name(first->dtype),
             function->variable_count > 1 ? " (and others)" : "");
    return words;
}

/* ---- what the kernel is called ---- */

void hr_check_titles(hr_checker *checker) {
    hr_function *function = checker->function;
    char suffix[8 * HR_DTYPE_VARIABLE_MAX] = "";
    size_t length = 0, room = strlen(function->name) + 4096;
    for (int i = 0; i < function->variable_count; i++) {
        length += (size_t)snprintf(suffix + length, sizeof suffix - length, "_%s",
                                   hr_dtype_name(function->variables[i].dtype));
        room += strlen(function->variables[i].name) + 16;
    }
    if (hr_arena_room(checker->arena) < 2 * room) {
        hr_messages_add(checker->messages, function->place, "the text is too large to be kernels");
        return;
    }
    int most = HR_SYMBOL_MAX - (int)strlen(SYMBOL_PREFIX) - (int)length;
    function->symbol =
        hr_arena_format(checker->arena, "%s%.*s%s", SYMBOL_PREFIX, most, function->name, suffix);
    char *title = hr_arena_alloc(checker->arena, room);
    size_t at = (size_t)snprintf(title, room, "%s", function->name);
    for (int i = 0; i < function->variable_count; i++)
        at += (size_t)snprintf(title + at, room - at, " %s=%s", function->variables[i].name,
                               hr_dtype_name(function->variables[i].dtype));
    function->title = title;
}

/* How many dtypes follow each other in "_f32_bf16"; -1 where it is something else. */
static int dtypes_in(const char *suffix) {
    int count = 0;
    while (*suffix == '_') {
        hr_dtype dtype;
        size_t length = strcspn(++suffix, "_");
        if (!hr_dtype_parse(suffix, length, &dtype)) return -1;
        suffix += length;
        count++;
    }
    return *suffix ? -1 : count;
}

void hr_check_symbols(const hr_checker *checker, const hr_program *program) {
    int count = program->function_count < KERNELS_COMPARED ? program->function_count : KERNELS_COMPARED;
    for (int i = 0; i < count; i++) {
        const hr_function *f = &program->functions[i];
        size_t length = strlen(f->name);
        for (int j = 0; j < count && f->variable_count; j++) {
            const hr_function *g = &program->functions[j];
            if (strncmp(f->name, g->name, length) != 0) continue;
            int dtypes = dtypes_in(g->name + length);
            if (dtypes <= 0 || dtypes + g->variable_count != f->variable_count) continue;
            hr_messages_add(
                checker->messages, g->place,
                "%s is what code for %s is called with such a dtype; give one of the two another name",
                hr_text_shown(g->name, strlen(g->name)).text, hr_text_shown(f->name, length).text);
        }
    }
}
