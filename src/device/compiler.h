/* The host's C compiler: found once, named exactly, run without a shell.
 *
 * In: a source file of ours and a choice of flags. Out: a shared object, or the sentence that explains why
 * not.
 */
#ifndef HR_DEVICE_COMPILER_H
#define HR_DEVICE_COMPILER_H

#include "base/status.h"
#include "base/text.h"

#define HR_COMPILER_SECONDS 300.0

typedef struct hr_compiler {
    char path[4096];     /* as it is run: absolute */
    char words[1024];    /* of $HEADROOM_CC behind the program, separated by spaces */
    char identity[5376]; /* the file behind it, its size, its time of change, and `words`: a cache key */
} hr_compiler;

/* $HEADROOM_CC (a name or a path; arguments may follow, each a word without spaces), else cc, gcc or clang on
 * PATH. HR_NOT_AVAILABLE says what to install. */
hr_status hr_compiler_find(hr_compiler *out);
/* The flags that stand for `flags` (HR_COMPILE_*) on this machine, one argument after another, separated by
 * spaces: part of a cache key. */
void hr_compiler_describe(unsigned flags, hr_text *out);
/* Compiles folder/source (names without folders) into folder/object. The compiler's own temporary files stay
 * in `folder`. HR_INTERNAL with the first lines that the compiler wrote where it refuses, crashes, or takes
 * longer than `seconds`. */
hr_status hr_compiler_run(const hr_compiler *compiler, unsigned flags, const char *folder, const char *source,
                          const char *object, double seconds);

#endif
