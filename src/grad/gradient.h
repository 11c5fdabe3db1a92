/* The gradient of a function as a kernel of the language.
 *
 * In: a checked function, y = f(x). Out: the text of a kernel that takes dy (a cotangent a result), what it
 * needs of x and y, and gives dx. Nothing else of the compiler knows of it: the text is planned, checked and
 * measured as any other, and its own gradient is the second derivative.
 */
#ifndef HR_GRAD_GRADIENT_H
#define HR_GRAD_GRADIENT_H

#include "base/arena.h"
#include "base/text.h"
#include "ir/count.h"
#include "ir/function.h"
#include "ir/graph.h"

/* What an argument of the derived kernel is. */
typedef struct hr_gradient_argument {
    enum { HR_COTANGENT, HR_FORWARD_VALUE, HR_GRADIENT } kind;
    int tensor; /* of the source: the result, the value, the parameter */
} hr_gradient_argument;

/* A function and what is wanted of it, with what the options left open. */
typedef struct hr_gradient_choice {
    const hr_function *function; /* the one that was given, or the same with more locals that can be saved */
    hr_gradient_options options;
    bool chosen; /* options.save, by cost: its names are of `arena` */
} hr_gradient_choice;

/* Of an arena for a choice, or for a derivation. */
enum { HR_GRADIENT_ARENA = HR_PLAN_RESERVE + (96 << 20) };

/* Chooses what the backward pass takes of the forward kernel, where options->save is NULL: saving.c. */
hr_status hr_gradient_choose(const hr_function *function, const hr_gradient_options *options, hr_arena *arena,
                             hr_gradient_choice *out);

/* Appends the kernel to `out` and a line for each thing that the reader should know to `notes`. `arguments`:
 * room for three times the tensors of choice->function, filled with what the kernel's parameters and results
 * are in order; NULL = not wanted. HR_BAD_INPUT names what is not there, or an inout tensor on the way. */
hr_status hr_function_gradient(const hr_gradient_choice *choice, hr_gradient_argument *arguments,
                               hr_text *out, hr_text *notes);

/* What that kernel asks for at these extents of the function. */
hr_status hr_gradient_work(const hr_function *function, const hr_gradient_options *options,
                           const int64_t *extents, hr_work *out);

/* Forward mode, from the same rules: the kernel takes a tangent of each parameter (HR_COTANGENT) and what it
 * needs of the forward kernel, and gives the tangents of the results (HR_GRADIENT). */
hr_status hr_function_tangent(const hr_function *function, const hr_gradient_options *options,
                              hr_gradient_argument *arguments, hr_text *out);

/* The forward kernel with the locals of options->save as results behind its own. */
hr_status hr_function_saving(const hr_function *function, const hr_gradient_options *options, hr_text *out);

/* The function with every float, stored or computed, as f64: what its derivatives are checked on. It lives in
 * `arena`, which has room for a plan. */
hr_status hr_function_in_f64(const hr_function *function, hr_arena *arena, const hr_function **out);

#endif
