/* The meaning of a kernel: any single element of any result, in f64, straight from the checked text.
 *
 * In: a function, its extents and the operands as they were before the launch. Out: one element at a time,
 * with every local, reduction and intermediate result memoised, so that neighbouring samples share work.
 * Locals and intermediate arithmetic stay in f64; a value that passes through a parameter or result dtype (a
 * result read by a later statement, a conversion) is rounded to it, as the language says. Whole numbers
 * compute exactly.
 */
#ifndef HR_REFERENCE_REFERENCE_H
#define HR_REFERENCE_REFERENCE_H

#include "base/arena.h"
#include "ir/extent.h"
#include "ir/function.h"

/* What a parameter is bound to. Not owned. A scalar has `data` NULL and its value in `scalar`. */
typedef struct hr_operand {
    const void *data;
    const int64_t *shape, *strides; /* strides in elements; never NULL for rank > 0 */
    double scalar;
    /* Called before elements data[base + i * step], 0 <= i < count, are read: where the data is a copy of
     * what lies elsewhere, they are brought. NULL: all of it is there. */
    void (*need)(void *context, int64_t base, int64_t step, int64_t count);
    void *need_context;
} hr_operand;

typedef struct hr_reference hr_reference;

/* `operands` has function->parameter_count entries and is copied; the data must not change while elements are
 * asked. */
hr_status hr_reference_create(const hr_function *function, const int64_t *extents, const hr_operand *operands,
                              hr_reference **out);
void hr_reference_destroy(hr_reference *reference);

/* In what order code adds up the reduction, or the statement that is nothing else, at `place` in the text.
 * Sums that have none are taken to be one chain, which errs most. */
typedef struct hr_sum_order {
    hr_place place;
    int chains;      /* partial sums side by side */
    int64_t addends; /* of a chain, before a total in f64 takes it and it begins at 0; 0 = all */
    double growth;   /* times what adding up errs where a sum is made from others that cancel; 1 elsewhere */
    double rounding; /* of each addend, relative to it, at most: where the plan says that a factor of it is
                        rounded to 16 bits; 0 elsewhere */
    double cut;      /* lost of the sum with each addend, always toward zero, in halves of its last place: by
                        tensor      cores; 0 elsewhere */
    bool leaves_out; /* addends that are 0 times what is not finite are left out, or are NaN */
} hr_sum_order;

void hr_reference_orders(hr_reference *reference, const hr_sum_order *orders, int count);

/* docs/check.md derives the errors. */
typedef struct hr_meaning {
    double value; /* of the element after the launch, before the store's rounding to the dtype */
    double error; /* what honest arithmetic may be off, at most; infinite where it may give anything: it
                     overflows, or a whole number hangs on a comparison that rounding may turn over */
    bool rounded; /* of a whole dtype: what floats are rounded to, so that it may be off by more than 0 */
    bool rivals;  /* the position of a largest or smallest one that has rivals within its error */
} hr_meaning;

/* The element will be asked for. Many elements of a += over many points are found in one walk over these, if
 * all are expected before the first is asked for; each other one takes a walk of its own. */
hr_status hr_reference_expect(hr_reference *reference, int tensor, const int64_t *subscripts);

/* Of all sums and differences so far whose operands err the one that is smallest beside its first operand. */
typedef struct hr_loss {
    double ratio; /* of the operand to what is left; 0 = there is none */
    hr_place place;
} hr_loss;

hr_loss hr_reference_loss(const hr_reference *reference);

/* The element of result, inout or local `tensor` (an index into function->tensors) at `subscripts`.
 * HR_OUT_OF_RANGE names the access when a data-dependent subscript leaves its axis on the way. */
hr_status hr_reference_value(hr_reference *reference, int tensor, const int64_t *subscripts, hr_meaning *out);

/* Whether `position` may stand for an element that has rivals: what is there is as large, or as small, within
 * both errors. */
hr_status hr_reference_rivals(hr_reference *reference, int tensor, const int64_t *subscripts,
                              int64_t position, bool *out);

#endif
