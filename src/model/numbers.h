/* Expressions over a model's extents: a + b * step, evaluated from text.
 *
 * In: names with values, a text like "H * D" or "T - A". Out: its value; `*` and `//` take at most one side
 * that grows with the step.
 */
#ifndef HR_MODEL_NUMBERS_H
#define HR_MODEL_NUMBERS_H

#include "base/status.h"

typedef struct hr_named_extent {
    const char *name;
    hr_step_size value;
    bool known;
} hr_named_extent;

typedef struct hr_extents {
    hr_named_extent *items;
    int count;
} hr_extents;

/* -1 where there is none of this name. */
int hr_extents_find(const hr_extents *extents, const char *name);
/* HR_BAD_INPUT says which name is not known, or what is no expression. */
hr_status hr_extents_evaluate(const hr_extents *extents, const char *text, hr_step_size *out);
/* HR_BAD_INPUT where 64 bits do not hold it, or it would grow with the step's square. */
hr_status hr_step_sum(hr_step_size a, hr_step_size b, hr_step_size *out);
hr_status hr_step_product(hr_step_size a, hr_step_size b, hr_step_size *out);
/* The size at this step, which is not negative; -1 where it is no size. */
int64_t hr_step_value(hr_step_size size, int64_t step);
bool hr_step_equal(hr_step_size a, hr_step_size b);

#endif
