/* The value of one expression at several points at once: the interpreter's unit of work.
 *
 * A point is a lane. What does not change from lane to lane is kept once (uniform), a whole number that walks
 * in equal steps as base and step (affine); the rest lies in arrays. Floats carry a scale beside their value:
 * the size of the terms that were added up on the way, which is what rounding errors are proportional to. A
 * lane whose value came from a subscript out of range carries the number of that fault instead of failing at
 * once, because a `where` may still not choose it.
 */
#ifndef HR_REFERENCE_INTERPRETER_LANES_H
#define HR_REFERENCE_INTERPRETER_LANES_H

#include "ir/function.h"

typedef enum hr_form { HR_FORM_UNIFORM, HR_FORM_AFFINE, HR_FORM_VARYING } hr_form;

typedef struct hr_lanes {
    hr_form form;
    int spread;         /* lanes of a uniform or affine value that are written out to the arrays as well */
    int64_t base, step; /* of a whole number that is uniform or affine */
    int64_t *whole;     /* width lanes; a uniform float stands in value[0] and scale[0] */
    double *value, *scale;
    int32_t *fault; /* NULL until the first fault; valid while `faulty`, uniform values have one */
    bool faulty;
} hr_lanes;

static inline void hr_lanes_set_whole(hr_lanes *lanes, int64_t value) {
    lanes->form = HR_FORM_UNIFORM;
    lanes->spread = 0;
    lanes->base = value;
    lanes->step = 0;
    lanes->faulty = false;
}

static inline void hr_lanes_set_value(hr_lanes *lanes, double value, double scale) {
    lanes->form = HR_FORM_UNIFORM;
    lanes->spread = 1;
    lanes->value[0] = value;
    lanes->scale[0] = scale;
    lanes->faulty = false;
}

static inline int64_t hr_lanes_whole_at(const hr_lanes *lanes, int lane) {
    return lanes->form == HR_FORM_VARYING ? lanes->whole[lane] : lanes->base + lanes->step * lane;
}

/* Write out the first n lanes of whatever form. */
const int64_t *hr_lanes_spread_whole(hr_lanes *lanes, int n);
const double *hr_lanes_spread_value(hr_lanes *lanes, int n);

/* out[0..n) = op, computed as `type`, of up to three operands, all written out. */
void hr_lanes_float(hr_op op, hr_dtype type, int n, hr_lanes *out, const hr_lanes *a, const hr_lanes *b,
                    const hr_lanes *c);
void hr_lanes_whole(hr_op op, int n, int64_t *out, const int64_t *a, const int64_t *b, const int64_t *c);
/* Comparisons of floats. */
void hr_lanes_compare(hr_op op, int n, int64_t *out, const double *a, const double *b);
/* Rounds to `dtype` what was computed as `type`. Where an error of the computation could flip the rounding
 * the scale grows to the flip. */
void hr_lanes_round(hr_dtype type, hr_dtype dtype, int n, double *value, double *scale);
int64_t hr_lanes_truncate(double value);

#endif
