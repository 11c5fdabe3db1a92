/* Where the rows of a stage begin and end where data say. In: a stage. Out: bounds over its task indices. */
#ifndef HR_PLAN_ROW_BOUNDS_H
#define HR_PLAN_ROW_BOUNDS_H

#include "plan/plan.h"

enum { HR_ROW_BOUNDS_MOST = 8 };

/* Outside all of begin[k] <= i < end[k] no lane changes a reduction. None of a side: the row's own end. */
typedef struct hr_row_bounds {
    int begin_count, end_count;
    const hr_expr *begin[HR_ROW_BOUNDS_MOST], *end[HR_ROW_BOUNDS_MOST];
} hr_row_bounds;

/* Of a row, no more is read than lies between: all that its lanes read stands in where(begin <= i and i <
 * end, e, other), in as many passes as there are. The loops of a stage may go over all of the row
 * nevertheless. */
bool hr_stage_read_bounds(const hr_plan *plan, const hr_stage *stage, hr_row_bounds *out);

/* All that its lanes do is reductions, in one pass, of values that are what changes nothing beyond a bound:
 * sum[j < length[b]](...). */
bool hr_stage_row_bounds(const hr_plan *plan, const hr_stage *stage, hr_row_bounds *out);

#endif
