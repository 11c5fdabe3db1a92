/* Help for the tests of src/lang: a text becomes a program or fails the test with its message. */
#ifndef HR_TEST_LANG_TEXT_H
#define HR_TEST_LANG_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lang/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline hr_program *program_of(const char *text) {
    hr_program *program = NULL;
    if (hr_program_parse("test.hr", text, strlen(text), &program) != HR_OK) fail_msg("%s", hr_last_error());
    return program;
}

/* kernel k(PARAMETERS) -> (y: RESULT) { BODY } */
static inline hr_program *kernel_of(const char *parameters, const char *result, const char *body) {
    char text[4096];
    snprintf(text, sizeof text, "kernel k(%s) -> (y: %s)\n{\n    %s\n}\n", parameters, result, body);
    return program_of(text);
}

/* The text has a mistake, and `words` stand in the message. */
static inline void assert_mistake(const char *text, size_t length, const char *words) {
    hr_program *program = NULL;
    assert_int_equal(hr_program_parse("test.hr", text, length, &program), HR_BAD_INPUT);
    assert_null(program);
    if (!strstr(hr_last_error(), words)) fail_msg("'%s' is not in:\n%s", words, hr_last_error());
}

static inline int extent_named(const hr_function *function, const char *name) {
    for (int i = 0; i < function->extent_count; i++)
        if (strcmp(function->extents[i], name) == 0) return i;
    fail_msg("no extent %s", name);
    return -1;
}

static inline int tensor_named(const hr_function *function, const char *name) {
    for (int i = 0; i < function->tensor_count; i++)
        if (strcmp(function->tensors[i].name, name) == 0) return i;
    fail_msg("no tensor %s", name);
    return -1;
}

/* A whole file in memory, with a 0 behind it; the caller frees it. */
static inline char *file_text(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    *length = 0;
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    *length = fread(text, 1, (size_t)size, file);
    text[*length] = 0;
    fclose(file);
    return text;
}

#endif
