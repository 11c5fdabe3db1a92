/* A small valid kernel from a seed, for property tests: what is compiled must mean what is interpreted.
 *
 * The text uses most of the language: several statements that read each other, reductions nested and over two
 * indices, softmax, guards by where, shifted and reversed subscripts, gathers, += scatters, inout, random,
 * conversions, every dtype; extents of 0, 1, odd and even. It is made so that rounding alone cannot change a
 * result by much: comparisons, argmax and rounding functions see only values that are exact (elements of
 * parameters, whole numbers), divisors and arguments of log stay away from zero, exp's away from overflow.
 */
#ifndef HR_TEST_SUPPORT_RANDOM_PROGRAM_H
#define HR_TEST_SUPPORT_RANDOM_PROGRAM_H

#include "base/text.h"
#include "headroom.h"

#define HR_RANDOM_EXTENTS 4

typedef struct hr_random_extent {
    const char *name; /* "M", "N", "K", "V"; the text need not use all of them */
    int64_t value;
} hr_random_extent;

/* Appends the text of one kernel, `kernel random_SEED(...)`. The same seed gives the same text and extents.
 * Parameters to fill: floats with normal values, `at*: i32[..]` with whole numbers in [0, V) (they are used
 * as subscripts; V is never 0), other whole numbers with small ones. Scalars have defaults. */
hr_status hr_random_program(uint64_t seed, hr_text *text, hr_random_extent extents[HR_RANDOM_EXTENTS]);

/* Dtype variables of a text, in the order in which they first stand. */
typedef struct hr_random_variables {
    int count;
    char names[HR_DTYPE_COUNT][16];
    hr_dtype dtypes[HR_DTYPE_COUNT];
} hr_random_variables;

/* The same kernel with variables in the places of its float dtypes: those of its declarations, and
 * conversions to them. */
hr_status hr_random_with_variables(const hr_text *written, hr_text *out, hr_random_variables *variables);

#endif
