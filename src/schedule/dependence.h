/* Which values of a stage vary with its lane, and which with its task. In: expressions. Out: answers, kept by
 * expression. */
#ifndef HR_SCHEDULE_DEPENDENCE_H
#define HR_SCHEDULE_DEPENDENCE_H

#include "plan/plan.h"

typedef struct hr_dependence {
    const hr_plan *plan;
    const hr_stage *stage;
    signed char *lane, *task; /* by expr id: 1 depends on it, 0 does not, -1 not known */
} hr_dependence;

hr_status hr_dependence_begin(const hr_plan *plan, const hr_stage *stage, hr_dependence *out);
void hr_dependence_end(hr_dependence *dependence);
bool hr_varies_by_lane(const hr_dependence *dependence, const hr_expr *node);
bool hr_varies_by_task(const hr_dependence *dependence, const hr_expr *node);
/* lane, lane + c or c + lane or lane - c, where c does not depend on the lane. */
bool hr_is_lane_plus(const hr_dependence *dependence, const hr_expr *subscript);
/* Consecutive lanes are consecutive elements and nothing else of the address depends on the lane. */
bool hr_lies_along_lanes(const hr_dependence *dependence, const hr_expr *element);

#endif
