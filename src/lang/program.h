/* A checked program: what src/lang makes of a text.
 *
 * In: the text of a .hr file. Out: its kernels as functions, ir/function.h.
 */
#ifndef HR_LANG_PROGRAM_H
#define HR_LANG_PROGRAM_H

#include "base/arena.h"
#include "ir/function.h"

typedef struct hr_program {
    hr_origin origin;
    int function_count;
    hr_function *functions;
    hr_arena *arena;
} hr_program;

/* What the dtype variables of a text stand for. */
typedef struct hr_parse_options {
    hr_dtype
        dtype_default;  /* or, where a constraint forbids that, the first dtype that the constraint names */
    const char *kernel; /* the variables of this kernel stand for `dtypes`, in their order; NULL = of none */
    const hr_dtype *dtypes;
} hr_parse_options;

/* Parses and checks a whole text (copied). All mistakes that can be found together stand in hr_last_error(),
 * each as path:line:column: error: what is wrong; the mend the line
 *            ^
 * Text is hostile: any bytes, any length; nesting is limited, the text to 16 MB. HR_BAD_INPUT on a mistake.
 */
hr_status hr_program_parse(const char *path, const char *text, size_t length, hr_program **out);
/* The same; hr_program_parse has f32 as the default. */
hr_status hr_program_parse_for(const char *path, const char *text, size_t length,
                               const hr_parse_options *options, hr_program **out);
/* The kernel with its dtype variables standing for `dtypes` (function->variable_count of them), in a program
 * of its own: nothing of the old one changes, so threads may do this side by side, and what an instance takes
 * goes with its program. HR_BAD_INPUT where a constraint forbids a dtype, or the text has no meaning with it.
 */
hr_status hr_function_instantiate(const hr_function *function, const hr_dtype *dtypes, hr_program **out,
                                  const hr_function **instance);
/* The number of the dtype variable of this name, or -1. */
int hr_function_variable(const hr_function *function, const char *name);
/* HR_BAD_INPUT with what it may stand for, where its constraint forbids `dtype`. */
hr_status hr_dtype_variable_check(const hr_function *function, int variable, hr_dtype dtype);
void hr_program_destroy(hr_program *program);
/* NULL or "" for the only kernel of the file, or of several the one that bears the file's name (softmax of
 * softmax.hr). HR_BAD_INPUT names the kernels there are. */
hr_status hr_program_find(const hr_program *program, const char *name, const hr_function **out);
/* The text of one statement's line(s) as the user wrote it, without the end of line; for comments and
 * reports. */
const char *hr_program_line(const hr_program *program, int line, size_t *length);

/* Affine subscripts that are not inside a `where` are in range for these extents, or HR_BAD_INPUT with all
 * that are not, each with its line, its range and the axis. Others are checked as the kernel runs. */
hr_status hr_extent_check(const hr_function *function, const int64_t *extents);

#endif
