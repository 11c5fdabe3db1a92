/* The value of one expression at several points at once: the interpreter's unit of work.
 *
 * A point is a lane. What does not change from lane to lane is kept once (uniform), a whole number that walks
 * in equal steps as base and step (affine); the rest lies in arrays. Floats carry their error beside their
 * value: `bound`, what it is at most, and `noise`, the part of that which is made of roundings of this point
 * alone and has nothing to do with those of others; the rest they may have in common. A whole number is exact
 * or, where it follows from a comparison or a conversion that an error may turn over, in doubt. A lane whose
 * value came from a subscript out of range carries the number of that fault instead of failing at once,
 * because a `where` may still not choose it.
 */
#ifndef HR_REFERENCE_INTERPRETER_LANES_H
#define HR_REFERENCE_INTERPRETER_LANES_H

#include "ir/function.h"

#include <string.h>

/* Roundings of a quotient: 2 ulp, a product with an approximated reciprocal. */
#define HR_QUOTIENT_ROUNDINGS 4.0
/* Roundings that e^x makes of each unit of x, up to where it overflows. */
#define HR_EXPONENT_ROUNDINGS 1.5
#define HR_EXPONENT_MOST      150.0
/* An error is no small part of its operand from here on: first derivatives do not do. */
#define HR_ERROR_SMALL 0x1p-12

/* The noise of a NaN that is 0 times what is not finite. */
enum { HR_NOISE_NOTHING = -1 };

static inline bool hr_number_is_nothing(double value, double noise) {
    return value != value && noise == HR_NOISE_NOTHING;
}

/* The power of two in a normal number: half a unit in the last place is so much times the type's rounding. */
static inline double hr_power_in(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7ff0000000000000ull;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef enum hr_form { HR_FORM_UNIFORM, HR_FORM_AFFINE, HR_FORM_VARYING } hr_form;

typedef struct hr_lanes {
    hr_form form;
    int spread;         /* lanes of a uniform or affine value that are written out to the arrays as well */
    int64_t base, step; /* of a whole number that is uniform or affine */
    int64_t *whole;     /* width lanes; a uniform float stands in value[0], bound[0] and noise[0] */
    double *value, *bound, *noise;
    bool doubtful;  /* of whole numbers: those lanes whose bound is not 0 are in doubt */
    int32_t *fault; /* NULL until the first fault; valid while `faulty`, uniform values have one */
    bool faulty;
} hr_lanes;

static inline void hr_lanes_set_whole(hr_lanes *lanes, int64_t value) {
    lanes->form = HR_FORM_UNIFORM;
    lanes->spread = 0;
    lanes->base = value;
    lanes->step = 0;
    lanes->faulty = false;
    lanes->doubtful = false;
}

static inline void hr_lanes_set_value(hr_lanes *lanes, double value, double bound) {
    lanes->form = HR_FORM_UNIFORM;
    lanes->spread = 1;
    lanes->value[0] = value;
    lanes->bound[0] = bound;
    lanes->noise[0] = 0;
    lanes->faulty = false;
    lanes->doubtful = false;
}

static inline int64_t hr_lanes_whole_at(const hr_lanes *lanes, int lane) {
    return lanes->form == HR_FORM_VARYING ? lanes->whole[lane] : lanes->base + lanes->step * lane;
}

static inline double hr_lanes_doubt_at(const hr_lanes *lanes, int lane) {
    return lanes->doubtful ? lanes->bound[lanes->form == HR_FORM_UNIFORM ? 0 : lane] : 0;
}

/* Write out the first n lanes of whatever form. */
const int64_t *hr_lanes_broadcast_whole(hr_lanes *lanes, int n);
const double *hr_lanes_broadcast_value(hr_lanes *lanes, int n);

/* out[0..n) = op, computed as `type`, of up to three operands, all written out. */
void hr_lanes_float(hr_op op, hr_dtype type, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b,
                    const hr_lanes *c);
void hr_lanes_whole(hr_op op, int n, int64_t *out, const int64_t *a, const int64_t *b, const int64_t *c);
/* Comparisons of floats, into `whole` and `bound`: true where some are in doubt. */
bool hr_lanes_compare(hr_op op, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b);
/* Rounds to `dtype` what was computed as `type`. Where the error could turn the rounding over, the bound
 * reaches what it would give; elsewhere the error is gone. */
void hr_lanes_round(hr_dtype type, hr_dtype dtype, int n, double *value, double *bound, double *noise);
int64_t hr_lanes_truncate(double value);
/* Roundings, relative, of e^-below where `below` is a difference that is rounded, too. */
double hr_exponential_error(double below);

#endif
