/* The gradient of a function as a kernel of the language.
 *
 * In: a checked function, y = f(x). Out: the text of a kernel that takes dy (a cotangent a result), what it
 * needs of x and y, and gives dx. Nothing else of the compiler knows of it: the text is planned, checked and
 * measured as any other, and its own gradient is the second derivative.
 */
#ifndef HR_GRAD_GRADIENT_H
#define HR_GRAD_GRADIENT_H

#include "base/text.h"
#include "ir/function.h"

/* Names are lists with commas; NULL: the default. */
typedef struct hr_gradient_options {
    const char *of;        /* results; default: all floats */
    const char *wrt;       /* parameters; default: all float tensors */
    const char *save;      /* locals that the forward kernel gives as results */
    const char *recompute; /* results that are computed again */
    const char *name;      /* of the kernel; default: <kernel>_backward */
    bool accumulate;       /* gradients of weights are added into inout tensors */
} hr_gradient_options;

/* Appends the kernel to `out` and a line for each thing that the reader should know to `warnings`.
 * HR_BAD_INPUT names what is not there, or an inout tensor on the way. */
hr_status hr_function_gradient(const hr_function *function, const hr_gradient_options *options, hr_text *out,
                               hr_text *warnings);

#endif
