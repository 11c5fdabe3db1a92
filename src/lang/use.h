/* The files that a text uses: see use.c. */
#ifndef HR_LANG_USE_H
#define HR_LANG_USE_H

#include "lang/program.h"
#include "lang/syntax.h"

enum { HR_USES_MOST = 64 };

/* A text while it is read. */
typedef struct hr_reading {
    hr_program *program;
    hr_symbols *symbols;
    hr_messages *messages;
    hr_file_syntax *file;
    int next_line;
    int arena_count; /* of the trees of used files; to be destroyed when they are checked */
    hr_arena *arenas[HR_USES_MOST];
} hr_reading;

/* Reads the files that the text's tree names, and adds what they define to it. */
void hr_use_files(hr_reading *reading);

#endif
