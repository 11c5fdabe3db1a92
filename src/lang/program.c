/* A text becomes a program: lexer and parser, then check. In: bytes. Out: a program or every mistake. */
#include "base/memory.h"
#include "base/text.h"
#include "lang/checker.h"
#include "lang/use.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)16 << 20)

static hr_place place_of(const char *text, size_t at) {
    hr_place place = {.line = 1, .column = 1};
    for (size_t i = 0; i < at; i++) {
        place.column = text[i] == '\n' ? 1 : place.column + 1;
        place.line += text[i] == '\n';
    }
    return place;
}

/* Reads and checks program->origin.text. */
static hr_status parse(hr_program *program, const hr_parse_options *options, hr_messages *messages) {
    const char *zero = memchr(program->origin.text, 0, program->origin.length);
    if (zero) {
        hr_messages_add(messages, place_of(program->origin.text, (size_t)(zero - program->origin.text)),
                        "a byte 0 stands here, so this file is no text");
        return hr_messages_status(messages);
    }
    hr_arena *scratch;
    HR_TRY(hr_arena_create(((size_t)4 << 20) + 128 * program->origin.length, &scratch));
    hr_symbols symbols = {0};
    hr_status status = hr_symbols_create(program->arena, &symbols);
    if (status == HR_OK) {
        hr_file_syntax file = {0};
        hr_reading reading = {.program = program, .symbols = &symbols, .messages = messages, .file = &file};
        hr_syntax_parse(program->origin.text, program->origin.length, scratch, &symbols, messages, &file);
        hr_use_files(&reading);
        hr_check_file(&file, options, &symbols, messages, program);
        for (int i = 0; i < reading.arena_count; i++)
            hr_arena_destroy(reading.arenas[i]);
        status = hr_messages_status(messages);
    }
    hr_symbols_clear(&symbols);
    hr_arena_destroy(scratch);
    return status;
}

hr_status hr_program_parse(const char *path, const char *text, size_t length, hr_program **out) {
    return hr_program_parse_for(path, text, length, &(hr_parse_options){.dtype_default = HR_F32}, out);
}

hr_status hr_program_parse_for(const char *path, const char *text, size_t length,
                               const hr_parse_options *options, hr_program **out) {
    if (!path) path = "text";
    if (length > TEXT_MAX)
        return hr_fail(HR_BAD_INPUT, "%s: the text has %zu bytes; a text of kernels has at most 16 MB", path,
                       length);
    hr_arena *arena;
    HR_TRY(hr_arena_create(((size_t)128 << 20) + 64 * length, &arena));
    hr_program *program = hr_arena_alloc(arena, sizeof *program);
    hr_messages *messages = hr_memory_zeros(1, sizeof *messages);
    if (!messages) {
        hr_arena_destroy(arena);
        return hr_fail(HR_OUT_OF_MEMORY, "out of memory while reading %s", path);
    }
    size_t path_length = strlen(path) < 4096 ? strlen(path) : 4096;
    *program = (hr_program){.origin = {.path = hr_arena_copy(arena, path, path_length),
                                       .text = hr_arena_copy(arena, text, length),
                                       .length = length,
                                       .dtype_default = options->dtype_default},
                            .arena = arena};
    *messages = (hr_messages){.origin = program->origin};
    hr_status status = parse(program, options, messages);
    free(messages);
    if (status == HR_OK)
        *out = program;
    else
        hr_arena_destroy(arena);
    return status;
}

void hr_program_destroy(hr_program *program) {
    if (program) hr_arena_destroy(program->arena);
}

/* ---- instances ---- */

int hr_function_variable(const hr_function *function, const char *name) {
    for (int i = 0; i < function->variable_count; i++)
        if (strcmp(function->variables[i].name, name) == 0) return i;
    return -1;
}

hr_status hr_dtype_variable_check(const hr_function *function, int variable, hr_dtype dtype) {
    const hr_dtype_variable *of = &function->variables[variable];
    hr_text names = {0};
    if ((unsigned)dtype < HR_DTYPE_COUNT && of->allowed >> dtype & 1) return HR_OK;
    for (int i = 0; i < HR_DTYPE_COUNT; i++)
        if (of->allowed >> i & 1)
            hr_text_format(&names, "%s%s", names.length ? " or " : "", hr_dtype_name((hr_dtype)i));
    hr_status status =
        hr_fail(HR_BAD_INPUT, "the dtype %s of kernel %.60s (%.200s, line %d) cannot be %s: it is %s",
                hr_text_shown(of->name, strlen(of->name)).text, function->name, function->origin->path,
                of->place.line, (unsigned)dtype < HR_DTYPE_COUNT ? hr_dtype_name(dtype) : "no dtype",
                hr_text_data(&names));
    hr_text_clear(&names);
    return status;
}

static hr_status fail_with_dtypes(const hr_function *function, const hr_dtype *dtypes, hr_status status) {
    hr_text names = {0};
    for (int i = 0; i < function->variable_count; i++)
        hr_text_format(&names, "%s%.40s = %s", i ? ", " : "", function->variables[i].name,
                       hr_dtype_name(dtypes[i]));
    status =
        hr_fail_context(status, "kernel %.60s has no meaning with %s", function->name, hr_text_data(&names));
    hr_text_clear(&names);
    return status;
}

hr_status hr_function_instantiate(const hr_function *function, const hr_dtype *dtypes, hr_program **out,
                                  const hr_function **instance) {
    const hr_origin *origin = function->origin;
    hr_program *made;
    for (int i = 0; i < function->variable_count; i++)
        HR_TRY(hr_dtype_variable_check(function, i, dtypes[i]));
    hr_parse_options options = {
        .dtype_default = origin->dtype_default, .kernel = function->name, .dtypes = dtypes};
    hr_status status = hr_program_parse_for(origin->path, origin->text, origin->length, &options, &made);
    if (status != HR_OK) return fail_with_dtypes(function, dtypes, status);
    *out = made;
    return hr_program_find(made, function->name, instance);
}

/* The file's name without folders and the part from its first point on. */
static bool named_like_file(const char *name, const char *path) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t length = strcspn(file, ".");
    return strlen(name) == length && memcmp(name, file, length) == 0;
}

hr_status hr_program_find(const hr_program *program, const char *name, const hr_function **out) {
    bool any = !name || !*name;
    if (any && program->function_count == 1) {
        *out = &program->functions[0];
        return HR_OK;
    }
    for (int i = 0; i < program->function_count; i++) {
        const char *known = program->functions[i].name;
        if (any ? named_like_file(known, program->origin.path) : strcmp(known, name) == 0) {
            *out = &program->functions[i];
            return HR_OK;
        }
    }
    hr_text names = {0};
    hr_nearest nearest = hr_nearest_to(NULL, any ? "" : name);
    for (int i = 0; i < program->function_count && i < 40; i++) {
        const char *known = program->functions[i].name;
        hr_nearest_consider(&nearest, known);
        hr_text_format(&names, "%s%s", i ? ", " : "", hr_text_shown(known, strlen(known)).text);
    }
    if (program->function_count > 40) hr_text_format(&names, " and %d more", program->function_count - 40);
    hr_status status = any ? hr_fail(HR_BAD_INPUT, "%s holds %d kernels; choose one with %s:KERNEL, of: %s",
                                     program->origin.path, program->function_count, program->origin.path,
                                     hr_text_data(&names))
                           : hr_fail(HR_BAD_INPUT, "%s holds no kernel '%s'%s; it holds: %s",
                                     program->origin.path, hr_text_shown(name, strlen(name)).text,
                                     hr_nearest_words(&nearest).text, hr_text_data(&names));
    hr_text_clear(&names);
    return status;
}

const char *hr_program_line(const hr_program *program, int line, size_t *length) {
    const hr_source *source = hr_origin_source(&program->origin, line);
    const char *at = source ? source->text : program->origin.text;
    const char *end = at + (source ? source->length : program->origin.length);
    if (source) line -= source->first_line - 1;
    for (int i = 1; i < line && at; i++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (at) at++;
    }
    *length = 0;
    if (!at || line < 1) return "";
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    *length = (size_t)((stop ? stop : end) - at);
    if (*length && at[*length - 1] == '\r') (*length)--;
    return at;
}
